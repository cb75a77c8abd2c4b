//! How a session tracks keys (CLIENT TRACKING, CLIENT CACHING).

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use engine::Caller;

use super::Session;
use crate::node::Node;
use crate::push::tracker::{BROADCAST, NO_LOOP, ON};

/// The tracking state that only the session's own commands need. The rest is in [`crate::push::tracker::Tracker`].
#[derive(Default)]
pub struct Tracking {
    pub(super) choice: Choice,
    /// CLIENT CACHING was called for the next command or block.
    pub caching: bool,
    /// In BCAST mode.
    pub(super) prefixes: BTreeSet<Box<[u8]>>,
    /// Keys that the transaction between BEGIN and COMMIT has shown to the client, with values of that transaction
    /// alone.
    pub transacted: BTreeSet<Box<[u8]>>,
}

/// How a client tracks, as other nodes that run its commands must know it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Mode {
    on: bool,
    choice: Choice,
    broadcast: bool,
    no_loop: bool,
    /// How many prefixes it has. Prefixes are only added.
    prefixes: usize,
}

impl Mode {
    /// True if it tracks at all.
    pub fn is_on(self) -> bool {
        self.on
    }

    /// True if it hears of keys that it has not read.
    pub fn broadcasts(self) -> bool {
        self.broadcast
    }

    /// The commands that make a session which tracks like `before` track like this one. Each goes to `say`.
    pub fn follow(self, before: Mode, session: &Session, mut say: impl FnMut(&[&[u8]])) {
        let grows = before.on && self.on && before == Mode { prefixes: before.prefixes, ..self };
        if before.on && !grows {
            say(&[b"CLIENT", b"TRACKING", b"OFF"]);
        }
        let Some(tracking) = session.tracking.as_deref().filter(|_| self.on) else { return };
        let mut words: Vec<&[u8]> = vec![b"CLIENT", b"TRACKING", b"ON"];
        let options: [(bool, &[u8]); 4] = [
            (self.choice == Choice::OptIn, b"OPTIN"),
            (self.choice == Choice::OptOut, b"OPTOUT"),
            (self.no_loop, b"NOLOOP"),
            (self.broadcast, b"BCAST"),
        ];
        words.extend(options.iter().filter(|(yes, _)| *yes).map(|(_, name)| *name));
        tracking.prefixes.iter().for_each(|prefix| words.extend([&b"PREFIX"[..], prefix]));
        say(&words);
    }
}

/// Which keys are remembered without CLIENT CACHING.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Choice {
    #[default]
    All,
    OptIn,
    OptOut,
}

impl Session {
    /// The caller that its commands run for.
    #[inline]
    pub fn caller(&self) -> Caller {
        Caller { client: self.client.id, caches: self.tracking.is_some() && self.caches() }
    }

    /// True if its reads are remembered.
    fn caches(&self) -> bool {
        let chosen = self.tracking.as_ref().is_some_and(|tracking| match tracking.choice {
            Choice::All => true,
            Choice::OptIn => tracking.caching,
            Choice::OptOut => !tracking.caching,
        });
        chosen && !self.client.tracker.is(BROADCAST)
    }

    /// How it tracks.
    pub fn tracking_mode(&self) -> Mode {
        let Some(tracking) = self.tracking.as_deref() else { return Mode::default() };
        let is = |flag| self.client.tracker.is(flag);
        let prefixes = tracking.prefixes.len();
        Mode { on: true, choice: tracking.choice, broadcast: is(BROADCAST), no_loop: is(NO_LOOP), prefixes }
    }

    /// The word of CLIENT CACHING about the command that is about to be executed at another node, for the session
    /// there.
    pub fn caching_word(&self) -> Option<&'static str> {
        let tracking = self.tracking.as_deref().filter(|tracking| tracking.caching)?;
        match tracking.choice {
            Choice::All => None,
            Choice::OptIn => Some("YES"),
            Choice::OptOut => Some("NO"),
        }
    }

    /// True if the client says of single commands whether it caches what they read.
    pub fn chooses_what_to_cache(&self) -> bool {
        self.tracking.as_deref().is_some_and(|tracking| tracking.choice != Choice::All)
    }

    /// Notes that the command for which CLIENT CACHING was called has been executed.
    pub fn end_caching(&mut self) {
        if let Some(tracking) = &mut self.tracking {
            tracking.caching = false;
        }
    }

    /// Notes that the next command runs for the second time. Its reads are remembered, whatever CLIENT CACHING said
    /// before the first time.
    pub fn cache_next(&mut self) {
        if let Some(tracking) = &mut self.tracking {
            tracking.caching = tracking.choice == Choice::OptIn;
        }
    }

    /// Begins to track in default mode, if it does not track yet: for another node's client, before one of its commands
    /// has said so.
    pub fn track_ahead(&mut self, node: &Node) {
        if self.tracking.is_none() {
            self.tracking = Some(Box::default());
            self.client.tracker.set(ON, 0);
            node.trackers.add(&self.client);
        }
    }

    /// Ends tracking (CLIENT TRACKING OFF, RESET, disconnect). The keys it has read are forgotten when they change.
    pub fn stop_tracking(&mut self, node: &Node) {
        let Some(tracking) = self.tracking.take() else { return };
        self.tracks_anew = true;
        for prefix in &tracking.prefixes {
            node.trackers.remove_prefix(prefix, &self.client);
        }
        if self.client.tracker.is(BROADCAST) {
            node.engine.tracking.end_broadcast();
        }
        node.trackers.remove(&self.client);
        self.client.tracker.prefix_bytes.store(0, Relaxed);
        self.client.tracker.set(0, 0);
    }
}
