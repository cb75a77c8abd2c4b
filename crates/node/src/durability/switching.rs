//! The log is switched on and off while clients are served (rule L13): the workers' part.
//!
//! The log must hold all changes from one moment on, or up to one moment. So the workers stand still for that moment:
//! each between two turns, when it is in the middle of nothing.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

pub use super::logging::Logging;
use crate::node::Node;
use crate::worker::message::Message;

/// Between two looks at whether the node stops.
const LOOK: Duration = Duration::from_millis(20);

/// The workers stand still as long as this value exists.
pub struct Halted<'a>(&'a Node);

impl Drop for Halted<'_> {
    fn drop(&mut self) {
        (0..self.0.workers()).for_each(|worker| self.0.send(worker, Message::Resume));
    }
}

impl Node {
    /// Sends all workers a request, and waits for each answer. `None`: the node stops.
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

    /// Makes all workers stand still. `None`: a script is under way, try again. Not to
    /// be called by a worker.
    ///
    /// # Errors
    ///
    /// The node stops.
    pub fn halt(&self) -> Result<Option<Halted<'_>>, Stopping> {
        let halted = Halted(self);
        let still = self.ask_all(Message::Halt).ok_or(Stopping)?;
        Ok(still.into_iter().all(|still| still).then_some(halted))
    }

    /// Sends all workers the change, and waits until all have confirmed it. Not to be called by a worker.
    ///
    /// # Errors
    ///
    /// The node stops.
    pub fn tell_logging(&self, logging: &Logging) -> Result<(), Stopping> {
        self.ask_all(|heard| Message::Logging(logging.clone(), heard)).map(drop).ok_or(Stopping)
    }
}

/// The node stops, and its workers may be gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopping;
