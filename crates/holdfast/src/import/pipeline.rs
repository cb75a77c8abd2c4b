//! Commands to a server, many before the first reply.

use crate::client::Connection;
use resp::Value;
use std::collections::VecDeque;

/// Commands and bytes that are sent together.
const COMMANDS: usize = 1024;
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

/// Connections that take turns, a batch each. Replies are read in the order of the batches, so that the steps that are
/// answered are always the first ones.
///
/// A server works on several batches at a time then, and a log takes more of them to the disk together.
pub struct Pipeline {
    connections: Vec<Connection>,
    /// The connections that take turns: the first ones.
    lanes: usize,
    /// The connection that the next batch is for.
    lane: usize,
    out: Vec<u8>,
    /// The commands of `out`.
    unsent: Vec<About>,
    /// The batches that were sent and are not answered, the oldest first: one batch for each lane at most.
    sent: VecDeque<Batch>,
    answers: Answers,
}

/// The commands that a connection has been sent together, and their replies are still to come.
struct Batch {
    lane: usize,
    commands: VecDeque<About>,
}

impl Pipeline {
    /// There is at least one connection.
    pub fn new(connections: Vec<Connection>) -> Self {
        let (out, unsent, sent, answers) = (Vec::new(), Vec::new(), VecDeque::new(), Answers::default());
        Self { lanes: connections.len(), connections, lane: 0, out, unsent, sent, answers }
    }

    pub fn answers(&self) -> &Answers {
        &self.answers
    }

    /// The connection that takes what is pushed now.
    pub fn lane(&self) -> usize {
        self.lane
    }

    /// From now on one connection takes everything, so that commands run in the order in which they are pushed.
    pub fn keep_order(&mut self) -> Result<(), String> {
        if self.lanes > 1 {
            self.finish()?;
            (self.lanes, self.lane) = (1, 0);
        }
        Ok(())
    }

    /// Adds a command.
    pub fn push<T: AsRef<[u8]>>(&mut self, words: &[T], about: About) {
        resp::append_request(&mut self.out, words);
        self.unsent.push(about);
    }

    /// Sends what was added if it is enough. It reads the replies to earlier batches until the next connection is free.
    pub fn turn(&mut self) -> Result<(), String> {
        if self.unsent.len() < COMMANDS && self.out.len() < BYTES {
            return Ok(());
        }
        self.send()?;
        self.lane = (self.lane + 1) % self.lanes;
        // A lone connection has a batch under way while the next one is made.
        self.read_until(self.lanes.max(2) - 1)
    }

    fn send(&mut self) -> Result<(), String> {
        if self.unsent.is_empty() {
            return Ok(());
        }
        self.connections[self.lane].send(&self.out)?;
        self.out.clear();
        self.out.shrink_to(4 * BYTES);
        self.sent.push_back(Batch { lane: self.lane, commands: self.unsent.drain(..).collect() });
        Ok(())
    }

    /// Sends everything, and reads all replies.
    pub fn finish(&mut self) -> Result<(), String> {
        self.send()?;
        self.read_until(0)
    }

    /// Reads replies until this many batches are not answered.
    fn read_until(&mut self, left: usize) -> Result<(), String> {
        while self.sent.len() > left {
            let Some(batch) = self.sent.front_mut() else { break };
            while let Some(about) = batch.commands.front() {
                let reply = self.connections[batch.lane].reply()?;
                self.answers.note(about, &reply);
                batch.commands.pop_front();
            }
            self.sent.pop_front();
        }
        Ok(())
    }
}

impl Answers {
    fn note(&mut self, about: &About, reply: &Value) {
        let error = refusal(reply);
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
