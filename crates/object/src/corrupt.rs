//! The error of every decoder in this crate.

use std::fmt;

/// Encoded bytes that do not describe a value: cut short, inconsistent or of an unknown version.
///
/// Decoders return it for any damaged input and never panic. The text names the fault, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt(pub &'static str);

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "corrupt value: {}", self.0)
    }
}

impl std::error::Error for Corrupt {}
