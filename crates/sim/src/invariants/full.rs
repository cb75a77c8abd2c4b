//! While the log has no room, who writes is told so, and who reads is answered (rule L8).

use resp::Value;

use super::{Verdict, violated};
use crate::clients::{Request, Words};

/// A key that nobody else writes. An earlier look has, if there was room before it was over.
const KEY: &str = "probe";

/// What is asked while there is no room.
pub fn probe() -> Request {
    let words = |words: &[&str]| -> Words { words.iter().map(|word| (*word).to_owned()).collect() };
    vec![words(&["get", KEY]), words(&["set", KEY, "1"])]
}

/// The replies, if there was no room all the time.
pub fn check(replies: &[Value]) -> Verdict {
    match replies {
        // It may be short of memory, too: the disk is what it hears of.
        [Value::Null | Value::Bulk(_), Value::Error(why)] if why.starts_with(b"MISCONF ") => Ok(()),
        _ => violated("full", format_args!("without room in the log, who reads and writes is answered {replies:?}")),
    }
}
