//! The events in order: the same for the same seed, byte for byte.

use std::fmt::{self, Write};

/// Events of a run.
pub struct Trace {
    line: String,
    hash: u64,
    events: u64,
    kept: Option<String>,
}

impl Trace {
    /// A trace of which only the hash is kept, or every line.
    pub fn new(keep: bool) -> Self {
        Self { line: String::new(), hash: 0xcbf2_9ce4_8422_2325, events: 0, kept: keep.then(String::new) }
    }

    /// Something has happened.
    pub fn note(&mut self, what: fmt::Arguments<'_>) {
        self.line.clear();
        // Writing to a string does not fail.
        let _ = writeln!(self.line, "{:06} {what}", self.events);
        self.hash = hash(self.hash, self.line.as_bytes());
        self.events += 1;
        if let Some(kept) = &mut self.kept {
            kept.push_str(&self.line);
        }
    }

    /// The digest of all of it.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// How many events there were.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The lines, if they are kept.
    pub fn lines(&self) -> &str {
        self.kept.as_deref().unwrap_or_default()
    }
}

/// FNV-1a, going on from `state`.
pub fn hash(state: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(state, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Notes an event: as `format!`.
#[macro_export]
macro_rules! note {
    ($trace:expr, $($what:tt)*) => { $trace.note(format_args!($($what)*)) };
}
