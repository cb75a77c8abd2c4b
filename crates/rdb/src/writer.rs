//! Writing an RDB file.

use crate::{CannotHold, Target, ValueRef, opcode};
use clocks::UnixMs;
use crc_fast::{CrcAlgorithm, Digest};
use object::rdb::{encode, encode_length, encode_string};
use std::io::{self, Write};
use std::ops::Range;

/// Writes an RDB file for a target. The order is Redis's: fields, functions, then databases with their keys.
pub struct Writer<W> {
    out: W,
    target: Target,
    digest: Digest,
    db: Option<u64>,
    buffer: Vec<u8>,
    compresses: bool,
    sums: bool,
}

/// A key with its value, to be written.
#[derive(Clone, Copy)]
pub struct EntryRef<'a> {
    /// The database. Keys of one database are together in a file.
    pub db: u64,
    /// The key.
    pub key: &'a [u8],
    /// Its value.
    pub value: ValueRef<'a>,
    /// When it expires: below 2^63.
    pub expiry: Option<UnixMs>,
    /// Seconds since it was last used.
    pub idle: Option<u64>,
    /// How often it is used: Redis's logarithmic counter.
    pub frequency: Option<u8>,
}

/// The result of writing a key.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The key was written.
    Yes,
    /// The target has no form for its value. The file goes on without the key.
    CannotHold(CannotHold),
}

impl<'a> EntryRef<'a> {
    /// A key that does not expire.
    pub fn new(db: u64, key: &'a [u8], value: ValueRef<'a>) -> Self {
        Self { db, key, value, expiry: None, idle: None, frequency: None }
    }
}

impl<W: Write> Writer<W> {
    /// Begins a file. `out` is written to in small pieces: it should be buffered.
    ///
    /// # Errors
    ///
    /// `out` cannot be written to.
    pub fn new(out: W, target: Target) -> io::Result<Self> {
        let digest = Digest::new(CrcAlgorithm::Crc64Redis);
        let mut writer = Self { out, target, digest, db: None, buffer: Vec::new(), compresses: true, sums: true };
        let header: &[u8] = match target {
            Target::Redis72 => b"REDIS0011",
            Target::Redis80 => b"REDIS0012",
            Target::Redis88 => b"REDIS0014",
            Target::Valkey9 => b"VALKEY080",
        };
        writer.buffer.extend_from_slice(header);
        writer.flush()?;
        Ok(writer)
    }

    /// Whether texts are compressed where that makes them shorter. They are unless this says otherwise.
    pub fn compress(mut self, yes: bool) -> Self {
        self.compresses = yes;
        self
    }

    /// `yes`, the default: a checksum ends the file. Otherwise the zeros that stand for none do.
    pub fn checksum(mut self, yes: bool) -> Self {
        self.sums = yes;
        self
    }

    /// A field about the file. Readers pass over fields that they do not know.
    ///
    /// # Errors
    ///
    /// `out` cannot be written to.
    pub fn aux(&mut self, name: &[u8], value: &[u8]) -> io::Result<()> {
        self.buffer.push(opcode::AUX);
        encode_string(&mut self.buffer, name, self.compresses);
        encode_string(&mut self.buffer, value, self.compresses);
        self.flush()
    }

    /// A library of functions: its code.
    ///
    /// # Errors
    ///
    /// `out` cannot be written to.
    pub fn function(&mut self, code: &[u8]) -> io::Result<()> {
        self.buffer.push(opcode::FUNCTION);
        encode_string(&mut self.buffer, code, self.compresses);
        self.flush()
    }

    /// Begins a database: `keys` keys follow, `expires` of which have a time of expiry.
    ///
    /// # Errors
    ///
    /// `out` cannot be written to.
    pub fn database(&mut self, db: u64, keys: u64, expires: u64) -> io::Result<()> {
        self.select(db);
        self.buffer.push(opcode::SIZE);
        encode_length(&mut self.buffer, keys);
        encode_length(&mut self.buffer, expires);
        self.flush()
    }

    fn select(&mut self, db: u64) {
        if self.db != Some(db) {
            self.db = Some(db);
            self.buffer.push(opcode::SELECT);
            encode_length(&mut self.buffer, db);
        }
    }

    /// A key with its value. It is written whole or, if the target cannot hold it, not at all.
    ///
    /// # Errors
    ///
    /// `out` cannot be written to.
    pub fn entry(&mut self, entry: EntryRef<'_>) -> io::Result<Written> {
        self.select(entry.db);
        self.flush()?;
        if let Some(at) = entry.expiry {
            self.buffer.push(opcode::EXPIRY_MS);
            self.buffer.extend_from_slice(&at.0.to_le_bytes());
        }
        if let Some(seconds) = entry.idle {
            self.buffer.push(opcode::IDLE);
            encode_length(&mut self.buffer, seconds);
        }
        if let Some(counter) = entry.frequency {
            self.buffer.extend_from_slice(&[opcode::FREQUENCY, counter]);
        }
        // The key is between the type and the value, which are encoded together behind it: the type moves to its place.
        let at = self.buffer.len();
        self.buffer.push(0);
        encode_string(&mut self.buffer, entry.key, self.compresses);
        let value = self.buffer.len();
        if let Err(reason) = encode(&mut self.buffer, entry.value, self.target, self.compresses) {
            self.clear();
            return Ok(Written::CannotHold(reason));
        }
        self.buffer[at] = self.buffer[value];
        self.put(0..value)?;
        self.put(value + 1..self.buffer.len())?;
        self.clear();
        Ok(Written::Yes)
    }

    /// Ends the file with its checksum, and flushes it.
    ///
    /// # Errors
    ///
    /// `out` cannot be written to, or not flushed.
    pub fn finish(mut self) -> io::Result<W> {
        self.buffer.push(opcode::END);
        self.flush()?;
        let sum = if self.sums { self.digest.finalize() } else { 0 };
        self.out.write_all(&sum.to_le_bytes())?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn put(&mut self, range: Range<usize>) -> io::Result<()> {
        let bytes = &self.buffer[range];
        if self.sums {
            self.digest.update(bytes);
        }
        self.out.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.put(0..self.buffer.len())?;
        self.clear();
        Ok(())
    }

    fn clear(&mut self) {
        /// A large value's memory is given back.
        const KEPT: usize = 1 << 20;
        self.buffer.clear();
        self.buffer.shrink_to(KEPT);
    }
}
