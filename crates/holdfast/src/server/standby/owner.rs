//! The owner's part: its log keeps what the copies of its standbys lack, and it says which of these may take over.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorum::Cut;
use redolog::Lsn;
use standby::{Change, Copies, Floor, Process};

/// The standbys of the shard that this process owns.
pub struct Standbys {
    state: Mutex<State>,
}

struct State {
    /// The end of what the log has given up, or may have.
    given: Cut,
    /// None: the metadata have not been heard in this term.
    floor: Option<Floor>,
}

impl Standbys {
    /// Of a log that begins here: the highest begin of all streams.
    pub fn new(begins: Lsn) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State { given: Cut(begins.0), floor: None }) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For each stream, the LSN up to which the log may be given up, if the own store covers `covered` (rule G12).
    pub fn floor(&self, covered: &[Lsn]) -> Vec<Lsn> {
        let mut state = self.lock();
        let State { given, floor } = &mut *state;
        // Before the metadata are heard there may be standbys of which nothing is known.
        if let Some(floor) = floor {
            floor.own(Cut(covered.iter().max().copied().unwrap_or_default().0));
            *given = floor.get().max(*given);
        }
        let upto = *given;
        covered.iter().map(|covered| Lsn(covered.0.min(upto.0))).collect()
    }

    /// Hears the metadata, and what standbys have. Returns the changes that are to be proposed.
    pub fn hear(&self, copies: &Copies, heard: &[(Process, Cut)]) -> Vec<Change> {
        let mut state = self.lock();
        let State { given, floor } = &mut *state;
        let floor = match floor {
            Some(floor) if floor.term() == copies.term() => floor,
            _ => floor.insert(Floor::new(*given, copies)),
        };
        floor.heard(copies);
        heard.iter().for_each(|(standby, covered)| floor.covered(*standby, *covered));
        let nodes = || copies.standbys().map(|(node, _)| node);
        let counted = nodes().filter_map(|node| floor.count(node));
        let cut_off = nodes().filter(|node| floor.is_cut_off(*node)).filter_map(|node| floor.give_up(node));
        counted.chain(cut_off).collect()
    }

    /// True if a checkpoint for the bootstrap of this process may begin: its pin is known here (rule S4).
    pub fn may_ship(&self, to: Process) -> bool {
        self.lock().floor.as_ref().is_some_and(|floor| floor.may_ship(to))
    }
}
