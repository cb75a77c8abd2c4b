//! Checkpoints as commands and INFO see them: requests, the one under way, and how the last one ended.
//!
//! A thread of the binary makes them (`engine::checkpoint`). It takes the requests from here and reports the outcome.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};

use clocks::UnixMs;
use engine::checkpoint::Figures;
use store::Store;

/// The `n`th checkpoint asked for.
pub type Ticket = u64;

/// See the module's text.
pub struct Checkpoints {
    store: Mutex<Option<Arc<dyn Store>>>,
    state: Mutex<State>,
    thread: OnceLock<Thread>,
}

/// The state of the checkpoints.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The figures of the checkpointer.
    pub figures: Figures,
    /// When the one under way began.
    pub began: Option<UnixMs>,
    /// When the last one that succeeded was made; when the server started, if there was none.
    pub saved_at: UnixMs,
    /// Changes that had been made when it began.
    pub saved_changes: u64,
    /// Milliseconds the last one took.
    pub took: Option<u64>,
    /// The error of the last one, if it failed.
    pub failed: Option<String>,
    /// Keys that were loaded at the start.
    pub loaded: u64,
    /// How much of the store has been read into memory since the start, from 0 to 1.
    pub warmth: f64,
    /// Keys that were read into memory for that.
    pub warmed: u64,
    /// Tickets given.
    asked: Ticket,
    /// Tickets that the one under way, or the last, is for.
    taken: Ticket,
    /// Tickets up to here have their outcome.
    ended: Ticket,
    /// A command waits for it.
    urgent: bool,
    /// The server is stopping: no more checkpoints, except for this ticket.
    stopping: bool,
    /// Not even for that one.
    cancelled: bool,
    /// No more checkpoints after this ticket's, for now.
    held: Option<Ticket>,
}

impl State {
    fn ask(&mut self, urgent: bool) -> Ticket {
        self.asked += 1;
        self.urgent |= urgent;
        self.asked
    }
}

impl Checkpoints {
    /// The state of a server that started at this time, having loaded that many keys from a checkpoint made then, if
    /// there was one.
    pub fn new(store: Arc<dyn Store>, started: UnixMs, loaded: Option<(UnixMs, u64)>) -> Self {
        let (saved_at, loaded) = loaded.unwrap_or((started, 0));
        let state = Mutex::new(State { saved_at, loaded, ..State::default() });
        Self { store: Mutex::new(Some(store)), state, thread: OnceLock::new() }
    }

    /// The store; `None` once there are no more checkpoints.
    pub fn store(&self) -> Option<Arc<dyn Store>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that so much of the store was read into memory, from 0 to 1, and so many keys.
    pub fn warming_up(&self, warmth: f64, keys: u64) {
        let mut state = self.lock();
        (state.warmth, state.warmed) = (warmth, keys);
    }

    /// The state of the checkpoints.
    pub fn state(&self) -> State {
        self.lock().clone()
    }

    /// The error of the last one, if it failed.
    pub(crate) fn failure(&self) -> Option<String> {
        self.lock().failed.clone()
    }

    /// Asks for a checkpoint of the present data. `urgent`: a command waits for it.
    pub fn ask(&self, urgent: bool) -> Ticket {
        let ticket = self.lock().ask(urgent);
        self.wake();
        ticket
    }

    /// The outcome of a request: true if it succeeded; `None`: it has not ended.
    pub fn outcome(&self, ticket: Ticket) -> Option<bool> {
        let state = self.lock();
        (state.ended >= ticket).then_some(state.failed.is_none())
    }

    /// The server stops: no more checkpoints except urgent requests.
    pub fn stop(&self) {
        self.lock().stopping = true;
        self.wake();
    }

    /// Asks for a checkpoint, after which there is none until [`Self::release`]: the store stays as it is then.
    pub fn hold(&self) -> Ticket {
        let mut state = self.lock();
        let ticket = state.ask(true);
        // In the same step, so that later requests do not begin.
        state.held = Some(ticket);
        drop(state);
        self.wake();
        ticket
    }

    /// Lets checkpoints go on.
    pub fn release(&self) {
        self.lock().held = None;
        self.wake();
    }

    /// True if one may begin now.
    pub fn may_begin(&self) -> bool {
        let state = self.lock();
        state.held.is_none_or(|held| state.taken < held)
    }

    /// Ends all checkpoints, with all waits for one.
    pub fn cancel(&self) {
        let mut state = self.lock();
        (state.stopping, state.cancelled, state.urgent) = (true, true, false);
        drop(state);
        self.wake();
    }

    /// There are no more checkpoints: commands that still wait for one get an error.
    pub fn close(&self) {
        let mut state = self.lock();
        if state.ended < state.asked {
            state.ended = state.asked;
            state.failed = Some("there are no more checkpoints".into());
        }
        drop(state);
        drop(self.store.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Makes the calling thread the checkpointer's: it is unparked at a request.
    pub fn serve(&self) {
        let _ = self.thread.set(thread::current());
    }

    /// True if a checkpoint is requested, true if it is urgent, and true if the server stops.
    pub fn orders(&self) -> (bool, bool, bool) {
        let state = self.lock();
        let held = state.held.is_some_and(|held| state.taken >= held);
        (state.asked > state.taken && !state.cancelled && !held, state.urgent, state.stopping)
    }

    /// A checkpoint has begun.
    pub fn begun(&self, now: UnixMs) {
        let mut state = self.lock();
        debug_assert!(state.held.is_none_or(|held| state.taken < held), "they are held");
        (state.taken, state.began) = (state.asked, Some(now));
    }

    /// Notes the progress of the one under way.
    pub fn progress(&self, figures: Figures) {
        self.lock().figures = figures;
    }

    /// Notes that the one under way has ended. `changes`: the changes that had been made when it began.
    pub fn ended(&self, outcome: Result<Figures, String>, changes: u64, now: UnixMs) {
        let mut state = self.lock();
        state.ended = state.taken;
        if state.ended == state.asked {
            state.urgent = false;
        }
        state.took = state.began.take().map(|began| now.since(began));
        match outcome {
            Ok(figures) => {
                (state.saved_at, state.saved_changes) = (figures.saved_at, changes);
                state.figures = figures;
                state.failed = None;
            }
            Err(why) => {
                state.figures.progress = 0;
                state.failed = Some(why);
            }
        }
    }
}
