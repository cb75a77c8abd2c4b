//! Files of Redis: RDB files, read and written, and append-only files, read.
//!
//! Pure code over [`std::io::Read`] and [`std::io::Write`]: it opens no file and no socket. One value at a time is in
//! memory. Nothing is allocated for a length before the file has shown the bytes that it announces.
//!
//! The bytes of a value are the business of [`object::rdb`], which RESTORE uses as well.
//!
//! ```text
//! "REDIS" and four digits, or "VALKEY" and three: the version
//! fields, libraries of functions, and for each database: its number, its size, its keys
//! ff, CRC-64 of all before (8, little-endian; from version 5 on)
//! ```
//!
//! A key is its time of expiry, how long it was idle or its frequency, the type byte, its name, and its value.

#![warn(clippy::missing_errors_doc)]

pub mod aof;
mod bytes;
mod error;
mod item;
mod reader;
mod writer;

pub use error::{Error, Fault};
pub use item::{Entry, Item, foreign_name};
pub use object::rdb::{CannotHold, Dialect, Target, Value, ValueRef, walk::Foreign};
pub use reader::Reader;
pub use writer::{EntryRef, Writer, Written};

/// Numbers that stand where a type byte could (`RDB_OPCODE_*`).
mod opcode {
    /// Redis 8.8: data that modules keep for the next key.
    pub(crate) const KEY_METADATA: u8 = 243;
    /// Valkey 9, with the same number: slots that were being taken over.
    pub(crate) const SLOT_IMPORT: u8 = 243;
    pub(crate) const SLOT_SIZE: u8 = 244;
    pub(crate) const FUNCTION: u8 = 245;
    pub(crate) const FUNCTION_PRE_GA: u8 = 246;
    pub(crate) const MODULE_AUX: u8 = 247;
    pub(crate) const IDLE: u8 = 248;
    pub(crate) const FREQUENCY: u8 = 249;
    pub(crate) const AUX: u8 = 250;
    pub(crate) const SIZE: u8 = 251;
    pub(crate) const EXPIRY_MS: u8 = 252;
    pub(crate) const EXPIRY_SECONDS: u8 = 253;
    pub(crate) const SELECT: u8 = 254;
    pub(crate) const END: u8 = 255;
}

/// The highest version of Redis's files that is read (Redis 8.8).
pub const REDIS_VERSION_MAX: u16 = 14;
/// The version of Valkey's files that is read (Valkey 9).
pub const VALKEY_VERSION: u16 = 80;
