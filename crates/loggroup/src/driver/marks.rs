//! Marks for standbys that read from the acceptors (rule S1): told every 10 ms while there is one, and never otherwise.

use std::sync::Weak;
use std::thread;
use std::time::Duration;

use quorum::Cut;
use redolog::Lsn;

use super::{Driver, Inner};

/// Between two words about how far standbys may go.
const EVERY: Duration = Duration::from_millis(10);

/// So many words about it later all is said again: standbys have to know how old their knowledge is.
const REPEATS: u32 = 5;

/// The thread that tells marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Marking {
    /// There is none: the holder calls [`Driver::tell_marks`].
    ByHand,
    /// Nobody wants any.
    Idle,
    /// It runs.
    Running,
}

impl Inner {
    /// True if a thread is to tell marks from now on.
    pub(super) fn begins_to_mark(&mut self) -> bool {
        let begins = self.marking == Marking::Idle && !self.is_stopped && self.owner.wants_marks();
        if begins {
            self.marking = Marking::Running;
        }
        begins
    }
}

impl Driver {
    /// Tells standbys how far they may go, where that has changed. Idle streams pass what is committed in others: that is
    /// told when they have. True if there is a standby. The holder of a log without threads calls it every 10 ms.
    pub fn tell_marks(&self) -> bool {
        let committed = self.act(None, |inner, events| {
            inner.words = (inner.words + 1) % REPEATS;
            if inner.words == 0 {
                inner.owner.repeat_marks();
            }
            inner.owner.tell_marks(events);
            let committed = inner.marks.iter().map(|mark| mark.synced).max();
            committed.filter(|_| inner.owner.wants_marks())
        });
        // A committed block is in every log that a successor can choose. It gives no LSN below (rule L1), so this word of an
        // owner holds after it, too.
        if let (Some(Cut(committed)), Some(log)) = (committed, self.log.get()) {
            log.want_passed(Lsn(committed));
        }
        committed.is_some()
    }

    /// Has a thread tell marks while there is a standby.
    pub(super) fn mark_by_thread(&self) {
        self.act(None, |inner, _| inner.marking = Marking::Idle);
    }

    pub(super) fn begin_to_mark(&self) {
        let me = self.me.clone();
        let spawned = thread::Builder::new().name("log-marks".into()).spawn(move || mark(&me));
        if let Err(error) = spawned {
            tracing::warn!(cause = "log copies", "No thread tells standbys how far they may go: {error}");
            // Tried again when anything is heard.
            self.lock().marking = Marking::Idle;
        }
    }

    /// False: there is no standby any more, and the thread ends.
    fn goes_on_marking(&self) -> bool {
        self.tell_marks();
        let mut inner = self.lock();
        let goes_on = !inner.is_stopped && inner.owner.wants_marks();
        if !goes_on {
            inner.marking = Marking::Idle;
        }
        goes_on
    }
}

fn mark(driver: &Weak<Driver>) {
    while driver.upgrade().is_some_and(|driver| driver.goes_on_marking()) {
        thread::park_timeout(EVERY);
    }
}
