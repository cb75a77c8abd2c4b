//! Errors of handlers, with Redis's exact texts.

use std::borrow::Cow;

use keyspace::WrongType;

/// An error reply. Its text begins with the code (`ERR`, `WRONGTYPE`, ...).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error(Cow<'static, [u8]>);

impl Error {
    /// An operation against a key of another type.
    pub const WRONG_TYPE: Error = Error::new("WRONGTYPE Operation against a key holding the wrong kind of value");
    /// The system has no memory for the result.
    pub const OOM: Error = Error::new(headroom::OOM);
    /// Unknown or contradictory options.
    pub const SYNTAX: Error = Error::new("ERR syntax error");
    /// An argument or value that should be an integer.
    pub const NOT_INTEGER: Error = Error::new("ERR value is not an integer or out of range");
    /// An argument or value that should be a number.
    pub const NOT_FLOAT: Error = Error::new("ERR value is not a valid float");
    /// An index or offset outside what is there.
    pub const OUT_OF_RANGE: Error = Error::new("ERR index out of range");
    /// A key that must exist does not.
    pub const NO_SUCH_KEY: Error = Error::new("ERR no such key");
    /// A change of data that follow another node's.
    pub const READONLY: Error = Error::new("READONLY You can't write against a read only replica.");

    /// A key that only the store has, and that cannot be read.
    pub const UNREADABLE: Error = Error::new("IOERR The key could not be read from the store");

    /// An error with a fixed text, code included.
    pub const fn new(text: &'static str) -> Error {
        Error(Cow::Borrowed(text.as_bytes()))
    }

    /// An error with a made text, code included. It may hold a client's bytes: the reply writer cleans it.
    pub fn text(text: impl Into<Vec<u8>>) -> Error {
        Error(Cow::Owned(text.into()))
    }

    /// The wrong number of arguments for a command of this (full, lower-case) name.
    pub fn arity(name: &str) -> Error {
        Error::text(format!("ERR wrong number of arguments for '{name}' command"))
    }

    /// The text, code included.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<WrongType> for Error {
    fn from(_: WrongType) -> Error {
        Error::WRONG_TYPE
    }
}
