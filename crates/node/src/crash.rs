//! How DEBUG makes a server crash.

/// How a server is made to crash, for tests of what it says then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// It writes to memory that it may only read (DEBUG SEGFAULT).
    Segfault,
    /// It panics (DEBUG PANIC).
    Panic,
    /// An assertion fails (DEBUG ASSERT).
    Assertion,
}
