//! Writing the RDB primitives.

use std::ops::{Deref, DerefMut};

use super::lzf;
use crate::number;

/// Bytes that are written, and how.
pub(super) struct Output<'a> {
    bytes: &'a mut Vec<u8>,
    /// Whether texts are compressed (`rdbcompression`).
    compresses: bool,
}

impl<'a> Output<'a> {
    pub(super) fn new(bytes: &'a mut Vec<u8>, compresses: bool) -> Self {
        Self { bytes, compresses }
    }

    /// The same way for other bytes.
    pub(super) fn to<'b>(&self, bytes: &'b mut Vec<u8>) -> Output<'b> {
        Output { bytes, compresses: self.compresses }
    }
}

impl Deref for Output<'_> {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        self.bytes
    }
}

impl DerefMut for Output<'_> {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        self.bytes
    }
}

/// A string shorter than this is not worth compressing.
const COMPRESS_FROM: usize = 21;

/// Appends a length or a count.
pub(super) fn length(out: &mut Vec<u8>, length: u64) {
    match length {
        0..=0x3f => out.push(length as u8),
        0x40..=0x3fff => out.extend_from_slice(&(0x4000 | length as u16).to_be_bytes()),
        0x4000..=0xffff_ffff => {
            out.push(0x80);
            out.extend_from_slice(&(length as u32).to_be_bytes());
        }
        _ => {
            out.push(0x81);
            out.extend_from_slice(&length.to_be_bytes());
        }
    }
}

/// Appends a string in its shortest form: as an integer of up to 32 bits, compressed, or verbatim.
pub(super) fn string(out: &mut Output<'_>, bytes: &[u8]) {
    if bytes.len() <= 11
        && let Some(value) = number::parse_i64(bytes)
        && integer(out, value)
    {
        return;
    }
    if out.compresses
        && bytes.len() >= COMPRESS_FROM
        && let Some(compressed) = lzf::compress(bytes, bytes.len() - 4)
    {
        out.push(0xc3);
        length(out, compressed.len() as u64);
        length(out, bytes.len() as u64);
        out.extend_from_slice(&compressed);
        return;
    }
    length(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a string that is an integer, if it has at most 32 bits.
fn integer(out: &mut Vec<u8>, value: i64) -> bool {
    if let Ok(value) = i8::try_from(value) {
        out.extend_from_slice(&[0xc0, value as u8]);
    } else if let Ok(value) = i16::try_from(value) {
        out.push(0xc1);
        out.extend_from_slice(&value.to_le_bytes());
    } else if let Ok(value) = i32::try_from(value) {
        out.push(0xc2);
        out.extend_from_slice(&value.to_le_bytes());
    } else {
        return false;
    }
    true
}
