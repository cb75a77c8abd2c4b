//! The reply for a command that may have been executed.

/// The reply to a part of a command that was sent and whose reply is lost.
pub(crate) fn unknown(place: &str) -> String {
    format!("ERR the node{place} {UNKNOWN}")
}

const UNKNOWN: &str = "has not answered: nobody knows whether it has executed the command";

/// True if a reply is [`unknown`].
pub(crate) fn is_unknown(reply: &[u8]) -> bool {
    reply.starts_with(b"-ERR the node") && reply.trim_ascii_end().ends_with(UNKNOWN.as_bytes())
}
