//! The log is switched on and off while clients are served (rule L13): what the workers do for it.
//!
//! What is logged must be all that happens from one moment on, or up to one moment. So the workers stand still for that moment: each
//! between two turns, when it is in the middle of nothing.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::durability::durable::Durable;
use crate::node::Node;
use crate::worker::Worker;
use crate::worker::message::Message;

/// Between two looks at whether the node stops.
const LOOK: Duration = Duration::from_millis(20);

/// What changes for a worker. One log follows another only when the worker has forgotten the first.
#[derive(Clone)]
pub enum Logging {
    /// What it changes goes to this log, and nobody waits for that. It stands still.
    Begins(Arc<Durable>),
    /// Replies wait for the log from now on.
    Promises,
    /// What it changes is not logged any more; what was is still waited for. It stands still.
    Ends,
    /// There is no log any more.
    Forgotten,
}

/// The workers stand still as long as this is there.
pub struct Halted<'a>(&'a Node);

impl Drop for Halted<'_> {
    fn drop(&mut self) {
        (0..self.0.workers()).for_each(|worker| self.0.send(worker, Message::Resume));
    }
}

impl Node {
    /// Asks all workers for something, and hears from each. `None`: the node stops.
    fn ask_all<T>(&self, message: impl Fn(Sender<T>) -> Message) -> Option<Vec<T>> {
        let (sender, answers) = channel();
        (0..self.workers()).for_each(|worker| self.send(worker, message(sender.clone())));
        drop(sender);
        let mut heard = Vec::new();
        while heard.len() < self.workers() {
            match answers.recv_timeout(LOOK) {
                Ok(answer) => heard.push(answer),
                Err(RecvTimeoutError::Timeout) if !self.is_stopping() => {}
                Err(_) => return None,
            }
        }
        Some(heard)
    }

    /// Makes all workers stand still. `Ok(None)`: a script is under way, try again; the error: the node stops. Not for a worker.
    pub fn halt(&self) -> Result<Option<Halted<'_>>, Stopping> {
        let halted = Halted(self);
        let still = self.ask_all(Message::Halt).ok_or(Stopping)?;
        Ok(still.into_iter().all(|still| still).then_some(halted))
    }

    /// Tells all workers what changes for them, and waits until all have heard it. Not for a worker.
    pub fn tell_logging(&self, logging: &Logging) -> Result<(), Stopping> {
        self.ask_all(|heard| Message::Logging(logging.clone(), heard)).map(drop).ok_or(Stopping)
    }
}

/// The node stops, and its workers may be gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopping;

impl Worker {
    /// Executes nothing until it is told to go on. A script that is under way holds latches, and its record is not whole: then it does go on.
    pub(crate) fn stand_still(&mut self, heard: &Sender<bool>) {
        self.halted = self.scripts.is_empty() && self.orphans.is_empty();
        // Who asked has gone if nobody hears.
        let _ = heard.send(self.halted);
    }

    pub(crate) fn stand_still_no_more(&mut self) {
        self.halted = false;
    }

    pub(crate) fn change_logging(&mut self, logging: Logging, heard: &Sender<()>) {
        match logging {
            Logging::Begins(durable) => {
                debug_assert!(self.halted && self.durable.is_none(), "one log at a time");
                let link = durable.link(self.index, false);
                self.engine.log_to(link);
                self.durable = Some(durable);
            }
            Logging::Promises => {
                self.engine.promise();
                self.promised = self.durable.is_some();
            }
            Logging::Ends => {
                debug_assert!(self.halted, "every worker ends at the same moment");
                self.engine.log_no_more();
            }
            Logging::Forgotten => self.forget_log(),
        }
        let _ = heard.send(());
    }
}
