//! Frames: all bytes of every connection between nodes.
//!
//! ```text
//! frame := length u32 (of the body) · crc u32 (CRC32C of what follows, body included) · version u16 · kind u16 · body
//! ```
//! All numbers are little-endian. A frame that is damaged, too long or of an unknown version ends its connection:
//! nobody knows where the next one would begin.

use std::fmt;

use crate::codec::crc;

/// Bytes before the body.
pub const HEADER: usize = 12;

/// Bytes of the longest body. Senders of commands and replies stay far below it: longer ones go in pieces.
pub const BODY_MAX: usize = 16 << 20;

/// The format of frames that this code writes and reads. The protocols inside are agreed upon in the handshake.
pub const VERSION: u16 = 1;

/// The kind of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Kind {
    /// A step of the handshake ([`crate::handshake`]).
    Handshake = 1,
    /// A request on a control link.
    Request = 2,
    /// The answer to one.
    Response = 3,
    /// Items of the data plane ([`crate::items`]).
    Data = 4,
    /// Messages between coordinators and participants of transactions.
    Transactions = 5,
}

impl Kind {
    fn of(number: u16) -> Option<Self> {
        Some(match number {
            1 => Self::Handshake,
            2 => Self::Request,
            3 => Self::Response,
            4 => Self::Data,
            5 => Self::Transactions,
            _ => return None,
        })
    }
}

/// A frame that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// The kind of its body.
    pub kind: Kind,
    /// The body.
    pub body: &'a [u8],
    /// Bytes of the whole frame: where the next one begins.
    pub size: usize,
}

/// The reason why a connection cannot go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damaged {
    /// The body is longer than is allowed.
    TooLong(u32),
    /// The checksum is not that of the bytes.
    Checksum,
    /// A format that this code does not know.
    Version(u16),
    /// A kind that this code does not know.
    Kind(u16),
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(length) => write!(f, "a frame of {length} bytes, more than any may have"),
            Self::Checksum => write!(f, "a frame whose checksum does not match"),
            Self::Version(version) => write!(f, "a frame of format {version}; this version reads {VERSION}"),
            Self::Kind(kind) => write!(f, "a frame of an unknown kind, {kind}"),
        }
    }
}

impl std::error::Error for Damaged {}

/// Begins a frame at the end of `out`: leaves room for its header. Returns the place for [`finish`].
pub fn begin(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.resize(at + HEADER, 0);
    at
}

/// Ends the frame that was begun at `at`: the bytes behind its header are the body.
///
/// # Panics
///
/// If the body is longer than [`BODY_MAX`]: the caller must check that.
pub fn finish(out: &mut [u8], at: usize, kind: Kind) {
    let length = out.len() - at - HEADER;
    assert!(length <= BODY_MAX, "a frame of {length} bytes");
    let (header, body) = out[at..].split_at_mut(HEADER);
    header[..4].copy_from_slice(&(length as u32).to_le_bytes());
    header[8..10].copy_from_slice(&VERSION.to_le_bytes());
    header[10..].copy_from_slice(&(kind as u16).to_le_bytes());
    let sum = crc(&[&header[8..], body]);
    header[4..8].copy_from_slice(&sum.to_le_bytes());
}

/// How many bytes the frame has whose first bytes are `buffer`, if enough of it is there to know.
///
/// # Errors
/// The body is longer than `body_max`.
pub fn size(buffer: &[u8], body_max: usize) -> Result<Option<usize>, Damaged> {
    let Some(length) = buffer.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length);
    if length as usize > body_max {
        return Err(Damaged::TooLong(length));
    }
    Ok(Some(HEADER + length as usize))
}

/// The frame at the beginning of `buffer`. None: it is not complete.
///
/// # Errors
/// As for [`read_bounded`].
pub fn read(buffer: &[u8]) -> Result<Option<Frame<'_>>, Damaged> {
    read_bounded(buffer, BODY_MAX)
}

/// As [`read`], for bodies of at most `body_max` bytes.
///
/// # Errors
///
/// The frame is damaged, too long, or of an unknown version or kind.
pub fn read_bounded(buffer: &[u8], body_max: usize) -> Result<Option<Frame<'_>>, Damaged> {
    let Some(size) = size(buffer, body_max)? else { return Ok(None) };
    let Some(frame) = buffer.get(..size) else { return Ok(None) };
    let (header, body) = frame.split_at(HEADER);
    let half = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let sum = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
    if sum != crc(&[&header[8..], body]) {
        return Err(Damaged::Checksum);
    }
    if half(8) != VERSION {
        return Err(Damaged::Version(half(8)));
    }
    let kind = Kind::of(half(10)).ok_or(Damaged::Kind(half(10)))?;
    Ok(Some(Frame { kind, body, size }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(kind: Kind, body: &[u8]) -> Vec<u8> {
        let mut out = b"before".to_vec();
        let at = begin(&mut out);
        out.extend_from_slice(body);
        finish(&mut out, at, kind);
        out.split_off(at)
    }

    #[test]
    fn golden_bytes() {
        let bytes = frame(Kind::Data, b"holdfast");
        assert_eq!(bytes, b"\x08\0\0\0\x60\x7b\xc6\xeb\x01\0\x04\0holdfast");
        let read = read(&bytes).unwrap().unwrap();
        assert_eq!((read.kind, read.body, read.size), (Kind::Data, &b"holdfast"[..], 20));
    }

    #[test]
    fn a_frame_of_another_format_or_kind_is_named() {
        let with = |at: usize, byte: u8| {
            let mut bytes = frame(Kind::Data, b"x");
            bytes[at] = byte;
            let sum = crc(&[&bytes[8..]]);
            bytes[4..8].copy_from_slice(&sum.to_le_bytes());
            read(&bytes).unwrap_err()
        };
        assert_eq!(with(8, 9), Damaged::Version(9));
        assert_eq!(with(10, 99), Damaged::Kind(99));
        assert_eq!(read(&[0, 0, 0, 2]), Err(Damaged::TooLong(2 << 24)));
    }

    proptest! {
        #[test]
        fn frames_follow_each_other(bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..8)) {
            let mut bytes: Vec<u8> = bodies.iter().flat_map(|body| frame(Kind::Request, body)).collect();
            bytes.extend_from_slice(&frame(Kind::Response, b"not whole")[..15]);
            let mut rest = &bytes[..];
            for body in &bodies {
                let frame = read(rest).unwrap().unwrap();
                prop_assert_eq!(frame.body, &body[..]);
                rest = &rest[frame.size..];
            }
            prop_assert_eq!(read(rest), Ok(None));
        }

        #[test]
        fn one_changed_byte_is_noticed(body in prop::collection::vec(any::<u8>(), 1..200), at: prop::sample::Index, by in 1u8..) {
            let mut bytes = frame(Kind::Data, &body);
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            prop_assert!(!matches!(read(&bytes), Ok(Some(_))));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = read(&bytes);
        }
    }
}
