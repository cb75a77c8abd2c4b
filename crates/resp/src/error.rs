//! The error for a malformed request.

use std::fmt;

/// A request that cannot be understood. The client gets [`ProtocolError::append_to`]'s text as an `-ERR` reply. Then
/// the connection is closed, because nothing after the damage can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolError {
    /// `*` is followed by something that is no number or above `i32::MAX`.
    InvalidMultibulkLength,
    /// An argument does not start with `$`; the byte that was found instead.
    ExpectedDollar(u8),
    /// `$` is followed by something that is no number, negative, or above the limit.
    InvalidBulkLength,
    /// More than ten arguments before authentication.
    UnauthenticatedMultibulkLength,
    /// An argument above 16384 bytes before authentication.
    UnauthenticatedBulkLength,
    /// An inline command longer than 64 KB.
    InlineTooLong,
    /// A `*` line longer than 64 KB.
    MultibulkCountTooLong,
    /// A `$` line longer than 64 KB.
    BulkCountTooLong,
    /// An inline command whose quotes do not match.
    UnbalancedQuotes,
    /// The client speaks TLS at a port without it. Redis waits for more.
    Tls,
}

impl ProtocolError {
    /// Appends Redis's text, without the `ERR` code: `Protocol error: ...`. The offending byte of
    /// [`ProtocolError::ExpectedDollar`] is appended as it came, a line break as a blank.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Protocol error: ");
        match self {
            Self::ExpectedDollar(found) => {
                let shown = if matches!(found, b'\r' | b'\n') { b' ' } else { *found };
                out.extend_from_slice(b"expected '$', got '");
                out.push(shown);
                out.push(b'\'');
            }
            other => out.extend_from_slice(other.short().as_bytes()),
        }
    }

    fn short(&self) -> &'static str {
        match self {
            Self::InvalidMultibulkLength => "invalid multibulk length",
            Self::ExpectedDollar(_) => "expected '$'",
            Self::InvalidBulkLength => "invalid bulk length",
            Self::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            Self::UnauthenticatedBulkLength => "unauthenticated bulk length",
            Self::InlineTooLong => "too big inline request",
            Self::MultibulkCountTooLong => "too big mbulk count string",
            Self::BulkCountTooLong => "too big bulk count string",
            Self::UnbalancedQuotes => "unbalanced quotes in request",
            Self::Tls => "this port does not speak TLS",
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        self.append_to(&mut text);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

impl std::error::Error for ProtocolError {}
