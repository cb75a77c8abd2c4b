//! The faults of a file, and their places.

use crate::item::foreign_name;
use crate::{Foreign, REDIS_VERSION_MAX, VALKEY_VERSION};
use object::Corrupt;
use std::fmt;
use std::io;

/// The reason why a file cannot be read.
#[derive(Debug)]
pub enum Fault {
    /// The system could not read it.
    Io(io::Error),
    /// It ends too early.
    Cut,
    /// It does not begin as an RDB file.
    NotRdb,
    /// Its version is newer than those that can be read.
    Version {
        /// True if the file is Valkey's.
        valkey: bool,
        /// The version.
        version: u16,
    },
    /// It has a malformed part.
    Corrupt(Corrupt),
    /// Its checksum does not match its bytes.
    Checksum {
        /// The checksum in the file.
        stored: u64,
        /// The checksum of its bytes.
        computed: u64,
    },
    /// A value of a type that Holdfast does not have.
    Foreign(Foreign),
    /// A module keeps data for a key or beside the keys.
    ModuleData(Vec<u8>),
    /// The reader was asked again after it had failed.
    Failed,
}

/// A fault, the offset in the file, and the key concerned.
#[derive(Debug)]
pub struct Error {
    /// Bytes of the file before the fault, or before the value that holds it.
    pub offset: u64,
    /// The key whose value has the fault.
    pub key: Option<Vec<u8>>,
    /// The fault.
    pub fault: Fault,
}

impl Error {
    /// True if the file only ends too early.
    pub fn is_cut(&self) -> bool {
        matches!(self.fault, Fault::Cut)
    }

    /// True if the fault is a collection without elements. Some versions of Redis have written such; a reader passes
    /// over them.
    pub fn is_empty_collection(&self) -> bool {
        matches!(self.fault, Fault::Corrupt(object::rdb::EMPTY))
    }
}

impl From<Corrupt> for Fault {
    fn from(corrupt: Corrupt) -> Self {
        Fault::Corrupt(corrupt)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::Io(error)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Io(error) => write!(f, "{error}"),
            Fault::Cut => f.write_str("the file ends too early"),
            Fault::NotRdb => f.write_str("the file does not begin with REDIS or VALKEY and a version"),
            Fault::Version { valkey: false, version } => {
                write!(f, "version {version} of RDB is not readable, only 1 to {REDIS_VERSION_MAX}")
            }
            Fault::Version { valkey: true, version } => {
                write!(f, "version {version} of Valkey's RDB is not readable, only {VALKEY_VERSION}")
            }
            Fault::Corrupt(Corrupt(reason)) => write!(f, "damaged: {reason}"),
            Fault::Checksum { stored, computed } => {
                write!(f, "RDB CRC error: the checksum is {computed:016x}, and the file says {stored:016x}")
            }
            Fault::Foreign(foreign) => write!(f, "a value of {} cannot be read", foreign_name(*foreign)),
            Fault::ModuleData(name) => {
                write!(f, "data of the module {} cannot be read", String::from_utf8_lossy(name))
            }
            Fault::Failed => f.write_str("an earlier part of the file could not be read"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}", self.offset)?;
        if let Some(key) = &self.key {
            write!(f, ", key '{}'", key.escape_ascii())?;
        }
        write!(f, ": {}", self.fault)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.fault {
            Fault::Io(error) => Some(error),
            _ => None,
        }
    }
}
