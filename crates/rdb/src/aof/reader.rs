//! One append-only file, step by step.

use super::commands::{command, selected};
use crate::bytes::Bytes;
use crate::reader::is_rdb;
use crate::{Error, Fault, Item};
use object::Corrupt;
use std::io::Read;

/// A command of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The database that it works on. A SELECT sets it, and is not returned as a command.
    pub db: u64,
    /// The command's name and its arguments.
    pub arguments: Vec<Vec<u8>>,
    /// The file's offset of its first byte.
    pub offset: u64,
}

/// The next step of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// An item of the RDB file at its beginning.
    Item(Item),
    /// A command.
    Command(Command),
    /// The commands between a MULTI and its EXEC: they take effect together.
    Block(Vec<Command>),
}

/// The end of a file in the middle of a command or of a block: its server was stopped while it wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Bytes of the file that hold whole commands and blocks.
    pub whole: u64,
    /// Bytes behind those.
    pub lost: u64,
    /// Commands of a block that has no end.
    pub unfinished: usize,
}

/// Reads one append-only file. One value, command or block is in memory at a time.
pub struct Reader<R> {
    part: Part<R>,
    db: u64,
    skips_foreign: bool,
    whole: u64,
    block: Option<Vec<Command>>,
    tail: Option<Tail>,
}

enum Part<R> {
    Begin(Bytes<R>),
    Rdb(Box<crate::Reader<R>>),
    Commands(Bytes<R>),
    Ended,
    Failed,
}

impl<R: Read> Reader<R> {
    /// A reader from the file's first byte.
    pub fn new(input: R) -> Self {
        Self { part: Part::Begin(Bytes::new(input)), db: 0, skips_foreign: false, whole: 0, block: None, tail: None }
    }

    /// As [`crate::Reader::skip_foreign`].
    pub fn skip_foreign(mut self, yes: bool) -> Self {
        self.skips_foreign = yes;
        self
    }

    /// Bytes read so far.
    pub fn offset(&self) -> u64 {
        match &self.part {
            Part::Begin(bytes) | Part::Commands(bytes) => bytes.offset(),
            Part::Rdb(reader) => reader.offset(),
            Part::Ended | Part::Failed => self.whole + self.tail.map_or(0, |tail| tail.lost),
        }
    }

    /// The incomplete step at the end of a file that was cut short, once there is no further step.
    pub fn tail(&self) -> Option<Tail> {
        self.tail
    }

    /// The next step; none after the last. An RDB part that is cut short is an error.
    ///
    /// # Errors
    ///
    /// The input cannot be read, is damaged, or its RDB part is cut short.
    pub fn next_step(&mut self) -> Result<Option<Step>, Error> {
        loop {
            match std::mem::replace(&mut self.part, Part::Failed) {
                Part::Begin(bytes) => self.begin(bytes)?,
                Part::Rdb(mut reader) => match reader.next_item()? {
                    Some(item) => {
                        self.part = Part::Rdb(reader);
                        return Ok(Some(Step::Item(item)));
                    }
                    None => {
                        let bytes = reader.into_rest();
                        self.whole = bytes.offset();
                        self.part = Part::Commands(bytes);
                    }
                },
                Part::Commands(mut bytes) => match self.commands(&mut bytes) {
                    Ok(Some(step)) => {
                        self.part = Part::Commands(bytes);
                        return Ok(Some(step));
                    }
                    Ok(None) => self.part = Part::Ended,
                    Err(fault) => return Err(Error { offset: bytes.offset(), key: None, fault }),
                },
                Part::Ended => {
                    self.part = Part::Ended;
                    return Ok(None);
                }
                Part::Failed => return Err(Error { offset: self.whole, key: None, fault: Fault::Failed }),
            }
        }
    }

    fn begin(&mut self, mut bytes: Bytes<R>) -> Result<(), Error> {
        match bytes.peek_all(b"VALKEY".len()).map(is_rdb) {
            Ok(true) => {
                let reader = crate::Reader::from_bytes(bytes)?.skip_foreign(self.skips_foreign);
                self.part = Part::Rdb(Box::new(reader));
            }
            Ok(false) => {
                bytes.checksum();
                self.part = Part::Commands(bytes);
            }
            Err(fault) => return Err(Error { offset: 0, key: None, fault }),
        }
        Ok(())
    }

    /// The next command or block. At the end of the file it notes the incomplete step.
    fn commands(&mut self, bytes: &mut Bytes<R>) -> Result<Option<Step>, Fault> {
        loop {
            let offset = bytes.offset();
            let arguments = match command(bytes) {
                Ok(Some(arguments)) => arguments,
                Ok(None) if self.block.is_none() => {
                    self.whole = bytes.offset();
                    return Ok(None);
                }
                Ok(None) | Err(Fault::Cut) => {
                    let unfinished = self.block.take().map_or(0, |block| block.len());
                    let lost = bytes.offset().saturating_sub(self.whole);
                    self.tail = Some(Tail { whole: self.whole, lost, unfinished });
                    return Ok(None);
                }
                Err(fault) => return Err(fault),
            };
            if let Some(step) = self.take(arguments, offset)? {
                self.whole = bytes.offset();
                return Ok(Some(step));
            }
            if self.block.is_none() {
                self.whole = bytes.offset();
            }
        }
    }

    /// Takes a command. Returns it as a step, unless it selects a database or belongs to a block.
    fn take(&mut self, arguments: Vec<Vec<u8>>, offset: u64) -> Result<Option<Step>, Fault> {
        if let Some(db) = selected(&arguments)? {
            self.db = db;
            return Ok(None);
        }
        let is = |name: &[u8]| arguments.len() == 1 && arguments[0].eq_ignore_ascii_case(name);
        if is(b"multi") {
            return match self.block.replace(Vec::new()) {
                None => Ok(None),
                Some(_) => Err(Corrupt("MULTI within MULTI").into()),
            };
        }
        if is(b"exec") {
            let block = self.block.take().ok_or(Corrupt("EXEC without MULTI"))?;
            return Ok((!block.is_empty()).then_some(Step::Block(block)));
        }
        let command = Command { db: self.db, arguments, offset };
        match &mut self.block {
            None => Ok(Some(Step::Command(command))),
            Some(block) => {
                block.push(command);
                Ok(None)
            }
        }
    }
}
