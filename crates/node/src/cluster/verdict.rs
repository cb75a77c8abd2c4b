//! CLIENT UNBLOCK of a client that waits for a key of another node: the owner alone decides whether it was still
//! waiting (rule K4). The client that asks waits for the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::*};

/// The answer to the question if a client was unblocked.
#[derive(Default)]
pub struct Verdict(AtomicU8);

impl Verdict {
    /// The verdict, once it is known.
    pub(crate) fn get(&self) -> Option<bool> {
        self.0.load(Acquire).checked_sub(1).map(|yes| yes == 1)
    }
}

/// A question for a verdict. Without an answer the verdict is no.
pub struct Question(Arc<Verdict>);

impl Question {
    /// A question, and the place of its answer.
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
