//! The messages of a shipment.
//!
//! ```text
//! message  := length u32 · kind u8 · body · crc32c u32        length: of kind, body and crc; crc: of kind and body
//! ask      := 1 · "HOLDSHIP" · version u16 (1) · shard u32
//! refused  := 2 · reason
//! cargo    := 3 · files u32 · bytes u64
//! file     := 4 · size u64 · path                             below the folder, with `/`
//! chunk    := 5 · bytes                                       of the last file, in order
//! end      := 6
//! received := 7
//! ```
//! Numbers are little-endian. Texts are UTF-8.

use std::io::{self, Read, Write};

use crc_fast::{CrcAlgorithm, Digest, checksum};

const MAGIC: &[u8; 8] = b"HOLDSHIP";
const VERSION: u16 = 1;

/// Bytes of a chunk.
pub(crate) const CHUNK: usize = 256 << 10;

/// Bytes of the longest message, without its length.
const MESSAGE_MAX: usize = CHUNK + 64;

/// Bytes of the longest path, and of the longest reason.
pub(crate) const TEXT_MAX: usize = 1024;

/// A request for a shipment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// The shard whose data are wanted.
    pub shard: u32,
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Message<'a> {
    Ask(Ask),
    Refused(&'a str),
    Cargo { files: u32, bytes: u64 },
    File { size: u64, path: &'a str },
    Chunk(&'a [u8]),
    End,
    Received,
}

impl Message<'_> {
    fn kind(&self) -> u8 {
        match self {
            Self::Ask(_) => 1,
            Self::Refused(_) => 2,
            Self::Cargo { .. } => 3,
            Self::File { .. } => 4,
            Self::Chunk(_) => 5,
            Self::End => 6,
            Self::Received => 7,
        }
    }

    fn head(&self, out: &mut Vec<u8>) {
        out.push(self.kind());
        match self {
            Self::Ask(Ask { shard }) => {
                out.extend_from_slice(MAGIC);
                out.extend_from_slice(&VERSION.to_le_bytes());
                out.extend_from_slice(&shard.to_le_bytes());
            }
            Self::Refused(why) => {
                out.extend_from_slice(why.as_bytes().get(..why.floor_char_boundary(TEXT_MAX)).unwrap_or_default())
            }
            Self::Cargo { files, bytes } => {
                out.extend_from_slice(&files.to_le_bytes());
                out.extend_from_slice(&bytes.to_le_bytes());
            }
            Self::File { size, path } => {
                out.extend_from_slice(&size.to_le_bytes());
                out.extend_from_slice(path.as_bytes());
            }
            // Its bytes follow without a copy.
            Self::Chunk(_) | Self::End | Self::Received => {}
        }
    }

    /// Sends it.
    pub(crate) fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        let mut head = vec![0; 4];
        self.head(&mut head);
        let body: &[u8] = if let Self::Chunk(bytes) = self { bytes } else { &[] };
        let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        digest.update(head.get(4..).unwrap_or_default());
        digest.update(body);
        let length = head.len() - 4 + body.len() + 4;
        head.splice(..4, (length as u32).to_le_bytes());
        to.write_all(&head)?;
        to.write_all(body)?;
        to.write_all(&(digest.finalize() as u32).to_le_bytes())
    }
}

/// Reads messages.
pub(crate) struct Messages<'a> {
    from: &'a mut dyn Read,
    buffer: Vec<u8>,
}

impl<'a> Messages<'a> {
    pub(crate) fn new(from: &'a mut dyn Read) -> Self {
        Self { from, buffer: Vec::new() }
    }

    /// The next message.
    pub(crate) fn next(&mut self) -> io::Result<Message<'_>> {
        let mut length = [0; 4];
        self.from.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if !(5..=MESSAGE_MAX).contains(&length) {
            return Err(wrong("the length of a message is wrong"));
        }
        self.buffer.resize(length, 0);
        self.from.read_exact(&mut self.buffer)?;
        let (whole, crc) = self.buffer.split_last_chunk::<4>().ok_or_else(|| wrong("a message without a checksum"))?;
        if checksum(CrcAlgorithm::Crc32Iscsi, whole) as u32 != u32::from_le_bytes(*crc) {
            return Err(wrong("the checksum of a message does not match"));
        }
        decode(whole).ok_or_else(|| wrong("a message cannot be read"))
    }
}

fn decode(whole: &[u8]) -> Option<Message<'_>> {
    let (kind, body) = whole.split_first()?;
    Some(match kind {
        1 => {
            let (version, rest) = body.strip_prefix(MAGIC)?.split_first_chunk::<2>()?;
            if u16::from_le_bytes(*version) != VERSION {
                return None;
            }
            Message::Ask(Ask { shard: u32::from_le_bytes(rest.try_into().ok()?) })
        }
        2 => Message::Refused(text(body)?),
        3 => {
            let (files, bytes) = body.split_first_chunk::<4>()?;
            Message::Cargo { files: u32::from_le_bytes(*files), bytes: u64::from_le_bytes(bytes.try_into().ok()?) }
        }
        4 => {
            let (size, path) = body.split_first_chunk::<8>()?;
            Message::File { size: u64::from_le_bytes(*size), path: text(path)? }
        }
        5 if !body.is_empty() && body.len() <= CHUNK => Message::Chunk(body),
        6 if body.is_empty() => Message::End,
        7 if body.is_empty() => Message::Received,
        _ => return None,
    })
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| text.len() <= TEXT_MAX)
}

/// The error for a message that cannot be.
pub(crate) fn wrong(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}
