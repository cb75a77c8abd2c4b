//! Links to nodes that may not be at work any more.
//!
//! While a node serves, its end of a link is trusted, however long a reply takes: a command may wait. But a node may
//! have stopped if it holds no lease any more, by the word of the metadata's leader, or if it led and no longer does.
//! When this node holds no lease itself, any node may be out of reach. Replies of such a node may never come: its
//! kernel may acknowledge bytes for as long as the process stands still. So every quiet link is probed. A link that
//! does not answer is ended as soon as its node is suspected. Clients that are owed a reply over it are closed (rule
//! T9); others hear that the node cannot be reached.
//!
//! Links are probed before there is a suspicion. So no client waits for the silence to last once the lease is over.
//!
//! Silence is counted in looks, not in time: a machine that stands still as a whole has not looked.

use std::collections::BTreeSet;
use std::sync::Arc;

use ::membership::NodeId;
use clocks::UnixMs;

/// Looks without an answer after which a link to a suspected node is ended.
const LOOKS: u8 = 5;
/// Looks after which a dial that a suspected node does not answer is given up.
const DIAL_LOOKS: u8 = 5;
/// Looks that count after which a link to a node is ended that was removed from the cluster.
const GONE_LOOKS: u8 = 6;

/// The state of one link.
#[derive(Default)]
pub(crate) struct Probe {
    /// Bytes came over it since the last look.
    heard: bool,
    /// Looks since it was probed and has not answered, or since it is being dialed.
    looks: u8,
    /// Looks since its node was removed.
    gone: u8,
    /// It has been probed.
    asked: bool,
}

/// The state of all links of a worker.
#[derive(Default)]
pub(crate) struct Probes {
    /// When links are looked at next.
    pub(super) due: UnixMs,
    /// When the next look counts for nodes that were removed.
    pub(super) gone_due: UnixMs,
    /// Nodes that might be down at the last look.
    pub(super) suspects: Arc<BTreeSet<NodeId>>,
}

/// The inputs of a look at a link.
#[derive(Clone, Copy, Default)]
pub(super) struct Seen {
    /// The node may be down.
    pub(super) suspected: bool,
    /// It was removed from the cluster.
    pub(super) gone: bool,
    /// This look counts for that.
    pub(super) counts: bool,
    /// Clients have virtual connections there.
    pub(super) is_used: bool,
}

impl Probe {
    pub(crate) fn heard(&mut self) {
        self.heard = true;
    }

    /// Looks at an open link. Returns whether to probe it; `Err`: it is to be ended.
    pub(super) fn look(&mut self, seen: Seen) -> Result<bool, ()> {
        // A removed node may not know that, and keep clients that wait for it.
        self.gone = if seen.gone { self.gone + u8::from(seen.counts) } else { 0 };
        if self.gone >= GONE_LOOKS {
            return Err(());
        }
        if std::mem::take(&mut self.heard) {
            (self.looks, self.asked) = (0, false);
            return Ok(false);
        }
        if self.asked {
            self.looks = self.looks.saturating_add(1);
        }
        if seen.suspected && self.looks >= LOOKS {
            return Err(());
        }
        let asks = seen.suspected || seen.is_used;
        Ok(asks && !std::mem::replace(&mut self.asked, true))
    }

    /// Looks at a link that is being dialed. Returns whether the dial is given up.
    pub(super) fn look_at_dial(&mut self, suspected: bool) -> bool {
        self.looks = if suspected { self.looks.saturating_add(1) } else { 0 };
        self.looks >= DIAL_LOOKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USED: Seen = Seen { suspected: false, gone: false, counts: true, is_used: true };
    const SUSPECTED: Seen = Seen { suspected: true, ..USED };
    const GONE: Seen = Seen { gone: true, ..USED };

    #[test]
    fn a_link_that_says_nothing_is_given_up_if_there_is_a_reason() {
        let mut probe = Probe::default();
        (0..100).for_each(|_| assert_eq!(probe.look(Seen::default()), Ok(false), "nobody uses it"));
        assert_eq!(probe.look(SUSPECTED), Ok(true), "it is asked");
        for _ in 1..LOOKS {
            assert_eq!(probe.look(SUSPECTED), Ok(false));
        }
        probe.heard();
        assert_eq!(probe.look(SUSPECTED), Ok(false), "it has answered");
        assert_eq!(probe.look(SUSPECTED), Ok(true), "and is asked again");
        assert!((1..LOOKS).all(|_| probe.look(SUSPECTED) == Ok(false)));
        assert_eq!(probe.look(SUSPECTED), Err(()));
        let mut probe = Probe::default();
        for _ in 1..GONE_LOOKS {
            probe.heard();
            assert!(probe.look(GONE).is_ok());
        }
        probe.heard();
        assert_eq!(probe.look(GONE), Err(()), "it was taken out");
    }

    #[test]
    fn silence_from_before_the_suspicion_counts() {
        let mut probe = Probe::default();
        assert_eq!(probe.look(USED), Ok(true));
        (0..LOOKS).for_each(|_| assert_eq!(probe.look(USED), Ok(false), "it is trusted"));
        assert_eq!(probe.look(SUSPECTED), Err(()));
    }

    #[test]
    fn a_dial_of_a_suspected_node_is_given_up() {
        let mut probe = Probe::default();
        (0..100).for_each(|_| assert!(!probe.look_at_dial(false)));
        assert!((1..DIAL_LOOKS).all(|_| !probe.look_at_dial(true)));
        assert!(probe.look_at_dial(true));
    }
}
