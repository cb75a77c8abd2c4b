//! The bytes of a file. They are counted and summed up, and kept where a value or a name is read.

use crate::Fault;
use crc_fast::{CrcAlgorithm, Digest};
use object::Corrupt;
use object::rdb::walk::Source;
use std::io::{ErrorKind, Read};

/// Bytes that are read from the system at once.
const BUFFER: usize = 64 << 10;

/// A file that is read from beginning to end.
pub(crate) struct Bytes<R> {
    input: R,
    buffer: Box<[u8]>,
    /// The part of the buffer that is not taken yet.
    at: usize,
    end: usize,
    /// Offset of the buffer's first byte in the file.
    base: u64,
    /// The checksum up to `summed` in the buffer; none once it is not needed any more.
    digest: Option<Digest>,
    summed: usize,
    /// The bytes taken since [`Bytes::keep`], up to `copied` in the buffer: they are copied together.
    kept: Option<Vec<u8>>,
    copied: usize,
}

impl<R: Read> Bytes<R> {
    pub(crate) fn new(input: R) -> Self {
        Self {
            input,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            at: 0,
            end: 0,
            base: 0,
            digest: Some(Digest::new(CrcAlgorithm::Crc64Redis)),
            summed: 0,
            kept: None,
            copied: 0,
        }
    }

    /// Bytes taken so far.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// The CRC-64 of the bytes taken. Later bytes are not summed up.
    pub(crate) fn checksum(&mut self) -> u64 {
        let Some(mut digest) = self.digest.take() else { return 0 };
        digest.update(&self.buffer[self.summed..self.at]);
        digest.finalize()
    }

    /// No checksum is wanted.
    pub(crate) fn no_checksum(&mut self) {
        self.digest = None;
    }

    /// Keeps `first`, and the bytes taken from now on.
    pub(crate) fn keep(&mut self, first: &[u8]) {
        self.kept = Some(first.to_vec());
        self.copied = self.at;
    }

    /// The bytes that were kept.
    pub(crate) fn kept(&mut self) -> Vec<u8> {
        self.copy();
        self.kept.take().unwrap_or_default()
    }

    /// Copies what was taken and is to be kept, before the buffer changes.
    fn copy(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(&self.buffer[self.copied..self.at]);
        }
        self.copied = self.at;
    }

    /// The next bytes, at least one unless the file has ended. They are not taken yet.
    pub(crate) fn peek(&mut self) -> Result<&[u8], Fault> {
        if self.at == self.end {
            if let Some(digest) = &mut self.digest {
                digest.update(&self.buffer[self.summed..self.end]);
            }
            self.copy();
            self.base += self.end as u64;
            (self.at, self.end, self.summed, self.copied) = (0, 0, 0, 0);
            self.end = loop {
                match self.input.read(&mut self.buffer) {
                    Ok(count) => break count,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error.into()),
                }
            };
        }
        Ok(&self.buffer[self.at..self.end])
    }

    /// As [`Bytes::peek`], but all of the first `count` bytes, unless the file ends before. `count` is small.
    pub(crate) fn peek_all(&mut self, count: usize) -> Result<&[u8], Fault> {
        if self.end - self.at < count {
            // The rest moves to the front, so that the missing bytes fit behind it.
            if let Some(digest) = &mut self.digest {
                digest.update(&self.buffer[self.summed..self.at]);
            }
            self.copy();
            self.buffer.copy_within(self.at..self.end, 0);
            self.base += self.at as u64;
            (self.end, self.at, self.summed, self.copied) = (self.end - self.at, 0, 0, 0);
            while self.end < count {
                match self.input.read(&mut self.buffer[self.end..]) {
                    Ok(0) => break,
                    Ok(more) => self.end += more,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(&self.buffer[self.at..self.end])
    }

    fn take(&mut self, count: usize) {
        self.at += count;
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Fault> {
        let &first = self.peek()?.first().ok_or(Fault::Cut)?;
        self.take(1);
        Ok(first)
    }

    /// Appends the next `count` bytes to `out`, which grows as the file supplies bytes.
    pub(crate) fn read(&mut self, out: &mut Vec<u8>, count: u64) -> Result<(), Fault> {
        let mut left = count;
        while left > 0 {
            let here = self.peek()?;
            let part = here.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if part == 0 {
                return Err(Fault::Cut);
            }
            out.extend_from_slice(&here[..part]);
            self.take(part);
            left -= part as u64;
        }
        Ok(())
    }

    /// A line of at most `most` bytes, without its end (CR and LF, or LF alone).
    pub(crate) fn line(&mut self, most: usize) -> Result<Vec<u8>, Fault> {
        let mut line = Vec::new();
        loop {
            match self.byte()? {
                b'\n' => break,
                _ if line.len() >= most => return Err(Corrupt("line too long").into()),
                byte => line.push(byte),
            }
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(line)
    }
}

impl<R: Read> Source for Bytes<R> {
    type Error = Fault;

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        if let Some(array) = self.buffer[self.at..self.end].first_chunk() {
            let array = *array;
            self.take(N);
            return Ok(array);
        }
        let mut array = [0; N];
        for place in &mut array {
            *place = self.byte()?;
        }
        Ok(array)
    }

    fn pass(&mut self, count: u64) -> Result<(), Fault> {
        let mut left = count;
        while left > 0 {
            let here = self.peek()?.len() as u64;
            if here == 0 {
                return Err(Fault::Cut);
            }
            let part = here.min(left);
            self.take(part as usize);
            left -= part;
        }
        Ok(())
    }
}
