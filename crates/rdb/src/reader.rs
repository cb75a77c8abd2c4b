//! Reading an RDB file item by item.

use crate::bytes::Bytes;
use crate::{Dialect, Entry, Error, Fault, Item, REDIS_VERSION_MAX, VALKEY_VERSION, opcode};
use clocks::UnixMs;
use object::Corrupt;
use object::rdb::walk::{self, Source, length, pass_module_parts, pass_string, pass_value};
use std::io::Read;

/// The version since which a checksum ends the file.
const CHECKSUM_SINCE: u16 = 5;
/// Redis's modules keep at most this many data for a key; more is damage.
const KEY_METADATA_MAX: u64 = 255;

/// Reads an RDB file. One value is in memory at a time.
pub struct Reader<R> {
    bytes: Bytes<R>,
    dialect: Dialect,
    version: u16,
    skips_foreign: bool,
    sums: bool,
    db: u64,
    next: Next,
    state: State,
}

/// The fields about the next key.
#[derive(Default)]
struct Next {
    expiry: Option<UnixMs>,
    idle: Option<u64>,
    frequency: Option<u8>,
}

#[derive(PartialEq)]
enum State {
    Reading,
    Ended,
    Failed,
}

impl<R: Read> Reader<R> {
    /// Reads the header: the dialect and the version.
    ///
    /// # Errors
    ///
    /// The input cannot be read, is no such file, or is of an unknown version.
    pub fn new(input: R) -> Result<Self, Error> {
        Self::from_bytes(Bytes::new(input))
    }

    pub(crate) fn from_bytes(mut bytes: Bytes<R>) -> Result<Self, Error> {
        match header(&mut bytes) {
            Ok((dialect, version)) => Ok(Self {
                bytes,
                dialect,
                version,
                skips_foreign: false,
                sums: true,
                db: 0,
                next: Next::default(),
                state: State::Reading,
            }),
            Err(fault) => Err(Error { offset: bytes.offset(), key: None, fault }),
        }
    }

    /// Makes the reader pass over keys and data that Holdfast has no type for, and name them. Otherwise it refuses the
    /// file.
    pub fn skip_foreign(mut self, yes: bool) -> Self {
        self.skips_foreign = yes;
        self
    }

    /// Passes over the checksum: the file may be damaged where it does not show.
    pub fn without_checksum(mut self) -> Self {
        self.bytes.no_checksum();
        self.sums = false;
        self
    }

    /// The version of the file.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// The dialect of the file.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Bytes read so far.
    pub fn offset(&self) -> u64 {
        self.bytes.offset()
    }

    /// The next item; none after the file's end, once its checksum was right. Bytes behind the end are not read.
    ///
    /// After an error there are no more items: the length of the damaged part is not known.
    ///
    /// # Errors
    ///
    /// The input cannot be read, ends early or is damaged, or an earlier call has failed.
    pub fn next_item(&mut self) -> Result<Option<Item>, Error> {
        let item = match self.state {
            State::Reading => self.item(),
            State::Ended => return Ok(None),
            State::Failed => Err((None, Fault::Failed)),
        };
        item.map_err(|(key, fault)| {
            self.state = State::Failed;
            Error { offset: self.bytes.offset(), key, fault }
        })
    }

    /// The bytes behind the end of the file: an append-only file has its commands there.
    pub(crate) fn into_rest(self) -> Bytes<R> {
        self.bytes
    }

    fn item(&mut self) -> Result<Option<Item>, (Option<Vec<u8>>, Fault)> {
        loop {
            let code = self.bytes.byte().map_err(|fault| (None, fault))?;
            if self.is_type(code) {
                return self.entry(code);
            }
            let item = self.instruction(code).map_err(|fault| (None, fault))?;
            if item.is_some() || self.state == State::Ended {
                return Ok(item);
            }
        }
    }

    fn is_type(&self, code: u8) -> bool {
        code < opcode::KEY_METADATA
    }

    fn instruction(&mut self, code: u8) -> Result<Option<Item>, Fault> {
        match code {
            opcode::EXPIRY_SECONDS => {
                let seconds = i64::from(i32::from_le_bytes(self.bytes.array()?));
                self.expires(seconds * 1000)?;
            }
            opcode::EXPIRY_MS => {
                let milliseconds = i64::from_le_bytes(self.bytes.array()?);
                self.expires(milliseconds)?;
            }
            opcode::IDLE => self.next.idle = Some(length(&mut self.bytes)?),
            opcode::FREQUENCY => self.next.frequency = Some(self.bytes.byte()?),
            opcode::SELECT => self.db = length(&mut self.bytes)?,
            opcode::SIZE => {
                let (keys, expires) = (length(&mut self.bytes)?, length(&mut self.bytes)?);
                return Ok(Some(Item::Size { db: self.db, keys, expires }));
            }
            opcode::SLOT_SIZE => {
                for _ in 0..3 {
                    length(&mut self.bytes)?;
                }
            }
            opcode::AUX => {
                let (name, value) = (self.string()?, self.string()?);
                return Ok(Some(Item::Aux { name, value }));
            }
            opcode::FUNCTION => return Ok(Some(Item::Function(self.string()?))),
            opcode::FUNCTION_PRE_GA => return Err(Corrupt("a function in the form of a pre-release").into()),
            opcode::MODULE_AUX => return self.module_aux().map(Some),
            opcode::SLOT_IMPORT if self.dialect == Dialect::Valkey => self.slot_import()?,
            opcode::KEY_METADATA => return self.key_metadata(),
            opcode::END => self.end()?,
            // Types are smaller numbers, and all known opcodes were matched before.
            _ => return Err(Corrupt("unknown opcode").into()),
        }
        Ok(None)
    }

    /// The next key expires at this unix time in milliseconds.
    fn expires(&mut self, at: i64) -> Result<(), Fault> {
        let at = u64::try_from(at).map_err(|_| Corrupt("time of expiry of a key"))?;
        self.next.expiry = Some(UnixMs(at));
        Ok(())
    }

    fn string(&mut self) -> Result<Vec<u8>, Fault> {
        self.bytes.keep(&[]);
        pass_string(&mut self.bytes)?;
        let raw = self.bytes.kept();
        Ok(object::rdb::decode_string(&raw)?.into_owned())
    }

    fn entry(&mut self, kind: u8) -> Result<Option<Item>, (Option<Vec<u8>>, Fault)> {
        let key = self.string().map_err(|fault| (None, fault))?;
        let offset = self.bytes.offset();
        self.bytes.keep(&[kind]);
        let foreign = match pass_value(kind, self.dialect, &mut self.bytes) {
            Ok(foreign) => foreign,
            Err(fault) => return Err((Some(key), fault)),
        };
        let body = self.bytes.kept();
        let Next { expiry, idle, frequency } = std::mem::take(&mut self.next);
        match foreign {
            None => {
                let (db, dialect) = (self.db, self.dialect);
                Ok(Some(Item::Entry(Entry { db, key, expiry, idle, frequency, offset, dialect, body })))
            }
            Some(foreign) if self.skips_foreign => Ok(Some(Item::Skipped { db: self.db, key, foreign })),
            Some(foreign) => Err((Some(key), Fault::Foreign(foreign))),
        }
    }

    /// Data that a module keeps beside the keys.
    fn module_aux(&mut self) -> Result<Item, Fault> {
        const UNSIGNED: u64 = 2;
        let name = walk::module_name(length(&mut self.bytes)?).to_vec();
        if length(&mut self.bytes)? != UNSIGNED {
            return Err(Corrupt("when a module's data is loaded").into());
        }
        length(&mut self.bytes)?;
        pass_module_parts(&mut self.bytes)?;
        self.skipped(name)
    }

    /// Data that modules keep for the next key: for each class a word with its name, and its parts. All names are
    /// returned together.
    fn key_metadata(&mut self) -> Result<Option<Item>, Fault> {
        let count = length(&mut self.bytes)?;
        if count > KEY_METADATA_MAX {
            return Err(Corrupt("number of a key's metadata").into());
        }
        let mut names = Vec::new();
        for _ in 0..count {
            if !names.is_empty() {
                names.push(b' ');
            }
            names.extend_from_slice(&walk::class_name(u32::from_le_bytes(self.bytes.array()?)));
            pass_module_parts(&mut self.bytes)?;
        }
        if names.is_empty() { Ok(None) } else { self.skipped(names).map(Some) }
    }

    fn skipped(&self, name: Vec<u8>) -> Result<Item, Fault> {
        if self.skips_foreign { Ok(Item::SkippedData { name }) } else { Err(Fault::ModuleData(name)) }
    }

    /// Slots that Valkey was taking over: their keys are in the file like all other keys.
    fn slot_import(&mut self) -> Result<(), Fault> {
        pass_string(&mut self.bytes)?;
        for _ in 0..length(&mut self.bytes)? {
            length(&mut self.bytes)?;
            length(&mut self.bytes)?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Fault> {
        let computed = self.bytes.checksum();
        if self.version >= CHECKSUM_SINCE {
            let stored = u64::from_le_bytes(self.bytes.array()?);
            // The server writes zero if it leaves the checksum out (`rdbchecksum no`).
            if self.sums && stored != 0 && stored != computed {
                return Err(Fault::Checksum { stored, computed });
            }
        }
        self.state = State::Ended;
        Ok(())
    }
}

/// True if these are the first bytes of an RDB file.
pub(crate) fn is_rdb(first: &[u8]) -> bool {
    first.starts_with(b"REDIS") || first.starts_with(b"VALKEY")
}

fn header<R: Read>(bytes: &mut Bytes<R>) -> Result<(Dialect, u16), Fault> {
    const LENGTH: usize = 9;
    let first = bytes.peek_all(LENGTH)?;
    let Some(first) = first.first_chunk::<LENGTH>() else {
        let begins = is_rdb(first) || b"REDIS".starts_with(first) || b"VALKEY".starts_with(first);
        return Err(if begins { Fault::Cut } else { Fault::NotRdb });
    };
    let (dialect, digits) = if let Some(digits) = first.strip_prefix(b"VALKEY") {
        (Dialect::Valkey, digits)
    } else if let Some(digits) = first.strip_prefix(b"REDIS") {
        (Dialect::Redis, digits)
    } else {
        return Err(Fault::NotRdb);
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(Fault::NotRdb);
    }
    let version = digits.iter().fold(0, |version, digit| version * 10 + u16::from(digit - b'0'));
    let known = match dialect {
        Dialect::Redis => (1..=REDIS_VERSION_MAX).contains(&version),
        Dialect::Valkey => version == VALKEY_VERSION,
    };
    if !known {
        return Err(Fault::Version { valkey: dialect == Dialect::Valkey, version });
    }
    bytes.pass(LENGTH as u64)?;
    Ok((dialect, version))
}
