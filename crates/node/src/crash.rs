//! How DEBUG makes a server crash.

/// The way in which a server crashes, for tests of its crash report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// It writes to memory that it may only read (DEBUG SEGFAULT).
    Segfault,
    /// It panics (DEBUG PANIC).
    Panic,
    /// An assertion fails (DEBUG ASSERT).
    Assertion,
}
