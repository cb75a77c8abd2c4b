//! While the log has no room, a client that writes gets an error that says so, and a client that reads gets its answer
//! (rule L8).

use resp::Value;

use super::{Verdict, violated};
use crate::clients::{Request, Words};

/// A key that no other client writes. It exists from an earlier check, if there was room again before that one was
/// over.
const KEY: &str = "probe";

/// The requests sent while there is no room.
pub fn probe() -> Request {
    let words = |words: &[&str]| -> Words { words.iter().map(|word| (*word).to_owned()).collect() };
    vec![words(&["get", KEY]), words(&["set", KEY, "1"])]
}

/// The replies, if there was no room all the time.
///
/// # Errors
///
/// The invariant does not hold.
pub fn check(replies: &[Value]) -> Verdict {
    match replies {
        // The server may be short of memory as well, but it reports the disk.
        [Value::Null | Value::Bulk(_), Value::Error(why)] if why.starts_with(b"MISCONF ") => Ok(()),
        _ => violated("full", format_args!("without room in the log, who reads and writes is answered {replies:?}")),
    }
}
