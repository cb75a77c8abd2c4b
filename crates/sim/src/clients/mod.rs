//! Clients that remember the answers they got.

pub mod bank;
pub mod chaos;
pub mod counter;
pub mod heedless;
pub mod model;
pub mod operator;
pub mod owner;
pub mod reader;
pub mod survey;

use std::collections::BTreeMap;

use clocks::UnixMs;
use redolog::simulated::Chance;
use resp::Value;

use crate::invariants::{Verdict, Violation};
use crate::machine::promise::Promise;
use model::Contents;

/// Words of a command.
pub type Words = Vec<String>;

/// The common knowledge of all clients.
#[derive(Default)]
pub struct Common {
    /// Of each register, the highest number that any client has been shown.
    pub shown: BTreeMap<String, u64>,
    /// Of each register, the highest number that was acknowledged when that was a firm promise.
    pub firm: BTreeMap<String, u64>,
    /// The present promise of acknowledgements.
    pub promise: Promise,
    /// Names of all registers.
    pub registers: Vec<String>,
    /// Names of all keys that may expire soon. An expired key may stay in memory until a client asks for it. It is
    /// visible again if the clock is set back before that.
    pub timed: Vec<model::Name>,
    /// The knowledge of the counter.
    pub tally: counter::Tally,
    /// The knowledge of the accounts.
    pub bank: bank::Bank,
    /// The highest unix time that there has been, and the present one.
    pub latest: UnixMs,
    /// See [`Self::latest`].
    pub now: UnixMs,
}

/// Commands that a client sends at once; it is answered when all of them are.
pub type Request = Vec<Words>;

impl Common {
    /// True if a request that was sent under this promise, and is acknowledged now, must survive a power failure.
    pub fn is_firm(&self, promised: Promise) -> bool {
        promised.is_firm && promised == self.promise
    }
}

/// The findings of a survey after a start.
pub struct Found<'a> {
    /// Everything of the databases that have clients with memories.
    pub contents: &'a Contents,
    /// When the survey began and ended, unix milliseconds.
    pub from: UnixMs,
    /// See [`Self::from`].
    pub to: UnixMs,
    /// Acknowledged writes must be there. The exception: the power failed and the log did not promise a sync.
    pub keeps_promises: bool,
}

/// A simulated client. It has one connection.
pub trait Client {
    /// For messages.
    fn name(&self) -> String;
    /// The next request; `None`: none at the moment.
    fn next(&mut self, common: &mut Common, chance: &mut Chance) -> Option<Request>;
    /// The first of its requests that was not answered is.
    ///
    /// # Errors
    ///
    /// The reply is wrong.
    fn answered(&mut self, common: &mut Common, replies: Vec<Value>) -> Verdict;
    /// The first of its requests that was not answered has not been done, and will not be: there was no room.
    fn refused(&mut self, common: &mut Common);
    /// The machine has been started again, or the connection was closed, so the outcome of unanswered requests is
    /// unknown. The client sends nothing until it has seen what is there.
    fn cut_off(&mut self);
    /// The machine has been started again, and this is there.
    ///
    /// # Errors
    ///
    /// What is there cannot be.
    fn look(&mut self, common: &mut Common, found: &Found<'_>) -> Verdict;
}

/// A wrong answer.
///
/// # Errors
///
/// Always: this is the error.
pub fn wrong(rule: &'static str, who: &str, what: impl std::fmt::Display) -> Verdict {
    Err(Violation { rule, what: format!("{who}: {what}") })
}

/// Why a request was not done, if its replies say so.
pub fn refusal(replies: &[Value]) -> Option<String> {
    match replies.last() {
        Some(Value::Error(text)) => {
            let text = String::from_utf8_lossy(text);
            let refused = text.contains("OOM ") || text.contains("MISCONF ") || text.starts_with("EXECABORT ");
            refused.then(|| text.into_owned())
        }
        _ => None,
    }
}

/// The number that a reply is.
pub fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Integer(number) => u64::try_from(*number).ok(),
        Value::Bulk(digits) => std::str::from_utf8(digits).ok()?.parse().ok(),
        _ => None,
    }
}

/// Commands to be done together.
pub fn block(commands: impl IntoIterator<Item = Words>) -> Request {
    let words = |text: &str| vec![text.to_owned()];
    [words("multi")].into_iter().chain(commands).chain([words("exec")]).collect()
}

/// A script that runs commands and answers with the reply of the last one. It declares no keys.
pub fn script(commands: impl IntoIterator<Item = Words>) -> Request {
    let quoted = |words: &Words| words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(",");
    let calls: Vec<_> = commands.into_iter().map(|words| format!("redis.call({})", quoted(&words))).collect();
    let (last, first) = calls.split_last().map_or((String::new(), String::new()), |(last, first)| {
        (last.clone(), first.iter().map(|call| format!("{call};")).collect())
    });
    vec![vec!["eval".into(), format!("{first}return {last}"), "0".into()]]
}
