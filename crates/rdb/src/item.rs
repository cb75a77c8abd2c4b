//! The items of a file.

use crate::{Dialect, Error, Fault, Foreign, Value};
use clocks::UnixMs;
use object::Limits;
use object::rdb::{self, decode};

/// One item of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A field about the file or its server.
    Aux {
        /// The field, such as `redis-ver`.
        name: Vec<u8>,
        /// The field's value.
        value: Vec<u8>,
    },
    /// A library of functions: its code.
    Function(Vec<u8>),
    /// The number of keys that follow, for a progress bar.
    Size {
        /// The database.
        db: u64,
        /// Its keys.
        keys: u64,
        /// Those of them with a time of expiry.
        expires: u64,
    },
    /// A key with its value.
    Entry(Entry),
    /// A key whose value is of a type that Holdfast does not have. Only if the reader passes over such keys.
    Skipped {
        /// The database.
        db: u64,
        /// The key.
        key: Vec<u8>,
        /// The type of its value.
        foreign: Foreign,
    },
    /// Data that a module keeps beside the keys, or for the next key. Only if the reader passes over such data.
    SkippedData {
        /// The module, or the class of its data.
        name: Vec<u8>,
    },
}

/// A key with its value, which is decoded when it is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The database.
    pub db: u64,
    /// The key.
    pub key: Vec<u8>,
    /// When it expires. That may have passed.
    pub expiry: Option<UnixMs>,
    /// Seconds since the key was last used.
    pub idle: Option<u64>,
    /// How often the key is used: Redis's logarithmic counter.
    pub frequency: Option<u8>,
    /// The file's offset of the value's first byte.
    pub offset: u64,
    pub(crate) dialect: Dialect,
    /// The type byte and the value.
    pub(crate) body: Vec<u8>,
}

impl Entry {
    /// The value; `limits` decide its encoding. A collection without elements is an error of its own
    /// ([`Error::is_empty_collection`]).
    ///
    /// # Errors
    ///
    /// The value is damaged, or is a collection without elements.
    pub fn value(&self, limits: &Limits) -> Result<Value<'_>, Error> {
        decode(&self.body, self.dialect, limits).map_err(|corrupt| Error {
            offset: self.offset,
            key: Some(self.key.clone()),
            fault: Fault::Corrupt(corrupt),
        })
    }

    /// Bytes of the value in the file.
    pub fn value_len(&self) -> usize {
        self.body.len().saturating_sub(1)
    }

    /// The payload that RESTORE takes. The value is decoded only if Redis would not know its form.
    ///
    /// # Errors
    ///
    /// Those of [`Entry::value`], for values of a dialect that Redis does not know.
    pub fn into_payload(mut self, limits: &Limits) -> Result<Vec<u8>, Error> {
        if self.dialect == Dialect::Valkey {
            let value = self.value(limits)?;
            return Ok(rdb::dump(value.as_value_ref()));
        }
        rdb::seal(&mut self.body);
        Ok(self.body)
    }
}

/// A name for messages.
pub fn foreign_name(foreign: Foreign) -> String {
    match foreign {
        Foreign::Module(name) => format!("the module type {}", String::from_utf8_lossy(&name)),
        Foreign::Array => "the type array".to_owned(),
        Foreign::RateLimiter => "the type gcra".to_owned(),
    }
}
