//! CLIENT UNBLOCK of a client that waits for a key of another node: the owner alone decides whether it was still waiting (rule K4), and who asks waits for
//! the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::*};

use ::membership::items::Item;

use super::remote::Line;
use crate::worker::conn::Wait;
use crate::worker::{Token, Worker};

/// Whether a client was unblocked.
#[derive(Default)]
pub struct Verdict(AtomicU8);

impl Verdict {
    /// What it is, once it is known.
    pub(crate) fn get(&self) -> Option<bool> {
        self.0.load(Acquire).checked_sub(1).map(|yes| yes == 1)
    }
}

/// A question for a verdict. One that goes unanswered is answered with no.
pub struct Question(Arc<Verdict>);

impl Question {
    /// A question, and where its answer will be.
    pub(crate) fn new() -> (Question, Arc<Verdict>) {
        let verdict = Arc::new(Verdict::default());
        (Question(verdict.clone()), verdict)
    }

    pub(crate) fn answer(self, yes: bool) {
        self.0.0.store(1 + u8::from(yes), Release);
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        let _ = self.0.0.compare_exchange(0, 1, Release, Relaxed);
    }
}

impl Worker {
    /// Asks the owner to let a client go that waits there.
    pub(crate) fn unblock_elsewhere(&mut self, token: Token, with_error: bool, question: Question) {
        let Some(conn) = self.conn(token) else { return };
        if let Wait::Replies(_) = conn.wait {
            return question.answer(self.transactions().unblock(token, with_error));
        }
        let Wait::Remote(link) = conn.wait else { return };
        let Some(line) = conn.remote.as_deref_mut().and_then(|remote| remote.line(link)) else { return };
        line.questions.push_back(question);
        let vc = line.vc;
        if let Some(peers) = &mut self.peers {
            peers.links[link].stage.put(&Item::Unblock { vc, with_error });
        }
    }
}

impl Line {
    /// The owner has decided.
    pub(crate) fn unblocked(&mut self, yes: bool) {
        if let Some(question) = self.questions.pop_front() {
            question.answer(yes);
        }
    }
}
