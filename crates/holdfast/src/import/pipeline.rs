//! Commands to a server, many before the first reply.

use crate::client::Connection;
use resp::Value;
use std::collections::VecDeque;

/// Commands and bytes that are sent together.
const COMMANDS: usize = 512;
const BYTES: usize = 256 << 10;

/// The command that a reply belongs to.
pub enum About {
    /// It must not be an error, and is of no step.
    Beside,
    /// A key that is restored. One that exists may stay.
    Key(Vec<u8>),
    /// A library of functions. One that exists may stay.
    Library,
    /// A command, or the end of a block.
    Command(Vec<u8>),
}

/// The server's replies so far.
#[derive(Default)]
pub struct Answers {
    /// Steps that are answered: done, or in the way of what exists, or refused.
    pub steps: u64,
    /// Keys that were restored.
    pub keys: u64,
    /// Libraries that were loaded.
    pub libraries: u64,
    /// Commands and blocks that were run.
    pub commands: u64,
    /// Keys and libraries that existed.
    pub existing: u64,
    /// The refused commands, in words for the user.
    pub refused: Vec<String>,
    /// Steps before the first one that was refused.
    pub before_refused: u64,
}

/// A connection that is sent commands while replies to earlier ones are still to come.
pub struct Pipeline {
    connection: Connection,
    out: Vec<u8>,
    waiting: VecDeque<About>,
    /// The last of `waiting` that are not sent yet.
    unsent: usize,
    answers: Answers,
}

impl Pipeline {
    pub fn new(connection: Connection) -> Self {
        let (out, waiting, answers) = (Vec::new(), VecDeque::new(), Answers::default());
        Self { connection, out, waiting, unsent: 0, answers }
    }

    pub fn answers(&self) -> &Answers {
        &self.answers
    }

    /// Adds a command.
    pub fn push<T: AsRef<[u8]>>(&mut self, words: &[T], about: About) {
        resp::append_request(&mut self.out, words);
        self.waiting.push_back(about);
        self.unsent += 1;
    }

    /// Sends what was added if it is enough, and reads the replies to what was sent before.
    pub fn turn(&mut self) -> Result<(), String> {
        if self.unsent >= COMMANDS || self.out.len() >= BYTES { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<(), String> {
        self.connection.send(&self.out)?;
        self.out.clear();
        self.out.shrink_to(4 * BYTES);
        let keep = std::mem::take(&mut self.unsent);
        self.read_until(keep)
    }

    /// Sends everything, and reads all replies.
    pub fn finish(&mut self) -> Result<(), String> {
        self.send()?;
        self.read_until(0)
    }

    fn read_until(&mut self, left: usize) -> Result<(), String> {
        while self.waiting.len() > left {
            let reply = self.connection.reply()?;
            if let Some(about) = self.waiting.pop_front() {
                self.answers.note(about, reply);
            }
        }
        Ok(())
    }
}

impl Answers {
    fn note(&mut self, about: About, reply: Value) {
        let error = refusal(&reply);
        if error.is_some() && self.refused.is_empty() {
            self.before_refused = self.steps;
        }
        self.steps += u64::from(!matches!(about, About::Beside));
        match (about, error) {
            (About::Beside, None) => {}
            (About::Key(_), None) => self.keys += 1,
            (About::Library, None) => self.libraries += 1,
            (About::Command(_), None) => self.commands += 1,
            (About::Key(_), Some(error)) if error.starts_with("BUSYKEY") => self.existing += 1,
            (About::Library, Some(error)) if error.contains("already exists") => self.existing += 1,
            (About::Key(key), Some(error)) => self.refused.push(format!("key '{}': {error}", key.escape_ascii())),
            (About::Command(name), Some(error)) => self.refused.push(format!("{}: {error}", name.escape_ascii())),
            (About::Library, Some(error)) => self.refused.push(format!("a library of functions: {error}")),
            (About::Beside, Some(error)) => self.refused.push(error),
        }
    }
}

/// The error that a reply is, or that the reply to a block holds.
fn refusal(reply: &Value) -> Option<String> {
    match reply {
        Value::Error(text) => Some(String::from_utf8_lossy(text).into_owned()),
        Value::Array(replies) => replies.iter().find_map(refusal),
        _ => None,
    }
}
