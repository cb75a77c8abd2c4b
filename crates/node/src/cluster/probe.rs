//! Links to nodes that may not be at work any more.
//!
//! While a node serves, its end of a link is trusted, however long a reply takes: a command may wait. But when the node holds no lease any more, by the word of
//! the metadata's leader, or when this node, which then hears nothing of others, holds none itself, the other node may have stopped, or nobody may reach it,
//! and what it owes may never come. (Its kernel may acknowledge bytes for as long as the process stands still.) So it is asked, and a link over which nothing is
//! said any more is ended: whoever is owed a reply over it is closed (rule T9), and others hear that the node cannot be reached.
//!
//! Silence is counted in looks, not in time: a machine that stands still as a whole has not looked.

use std::collections::BTreeSet;
use std::sync::Arc;

use ::cluster::NodeId;

use super::peers::{HOME, Peers};
use crate::worker::{Token, Worker};

/// Between two looks at whether something has been said, in milliseconds.
const LOOK_MS: u64 = 500;
/// Looks without a word after which a link is ended.
const LOOKS: u8 = 6;

/// What is asked over a link. What is answered does not matter.
const QUESTION: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// Of one link.
#[derive(Default)]
pub(super) struct Probe {
    /// Something was said over it since the last look.
    heard: bool,
    /// Looks since then.
    looks: u8,
    /// It has been asked.
    asked: bool,
}

/// Of all of a worker's links.
#[derive(Default)]
pub(super) struct Probes {
    /// When links are looked at next, unix milliseconds.
    due: u64,
    /// Nodes without leases, as was known then.
    silent: Arc<BTreeSet<NodeId>>,
}

impl Probe {
    pub(super) fn heard(&mut self) {
        self.heard = true;
    }

    /// Whether to ask; `Err`: nothing has been said for too long, or nothing of that matters any more: the node was taken out of the cluster (`gone`).
    fn look(&mut self, suspicious: bool, gone: bool) -> Result<bool, ()> {
        let heard = std::mem::take(&mut self.heard);
        if gone {
            // It may not have heard that, and keep who waits for it.
            self.looks += 1;
        } else if !suspicious || heard {
            (self.looks, self.asked) = (0, false);
        } else if self.asked {
            self.looks += 1;
        }
        if self.looks >= LOOKS {
            return Err(());
        }
        Ok(suspicious && !std::mem::replace(&mut self.asked, true))
    }
}

impl Peers {
    /// Whether a node holds no lease, as the metadata's leader has said last.
    pub(super) fn holds_no_lease(&self, node: NodeId) -> bool {
        self.shared.administration().is_some_and(|administration| administration.silent().contains(&node))
    }

    /// When links are to be looked at, unix milliseconds.
    pub(super) fn probes_due(&self) -> Option<u64> {
        self.links.iter().skip(HOME + 1).any(|link| link.open_end().is_some()).then_some(self.probes.due)
    }
}

impl Worker {
    /// Ends links over which nothing comes any more.
    pub(super) fn probe_links(&mut self, now: u64) {
        let Some(peers) = self.peers.as_deref_mut() else { return };
        if now < peers.probes.due || peers.probes_due().is_none() {
            return;
        }
        peers.probes.due = now + LOOK_MS;
        if let Some(administration) = peers.shared.administration() {
            peers.probes.silent = administration.silent();
        }
        let (serves, silent) = (peers.serves, peers.probes.silent.clone());
        let mut ended: Vec<Token> = Vec::new();
        for link in peers.links.iter_mut().skip(HOME + 1) {
            let Some(token) = link.open_end() else { continue };
            let suspicious = !serves || link.node.is_some_and(|node| silent.contains(&node));
            let is_there =
                link.node.is_none_or(|node| peers.map.index_of(node).is_some()) || peers.map.nodes().is_empty();
            match link.probe.look(suspicious, !is_there) {
                Ok(true) => link.say_by_itself(QUESTION),
                Ok(false) => {}
                Err(()) => ended.push(token),
            }
        }
        for token in ended {
            tracing::warn!(
                "a link to a node that holds no lease is closed: nothing comes from it, or it was taken out of the cluster"
            );
            self.cut(token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_nothing_is_given_up_if_there_is_a_reason() {
        let mut probe = Probe::default();
        (0..100).for_each(|_| assert_eq!(probe.look(false, false), Ok(false)));
        assert_eq!(probe.look(true, false), Ok(true), "it is asked");
        for _ in 1..LOOKS {
            assert_eq!(probe.look(true, false), Ok(false));
        }
        probe.heard();
        assert_eq!(probe.look(true, false), Ok(true), "and again once it has answered");
        assert!((1..LOOKS).all(|_| probe.look(true, false) == Ok(false)));
        assert_eq!(probe.look(true, false), Err(()));
        let mut probe = Probe::default();
        for _ in 1..LOOKS {
            probe.heard();
            assert!(probe.look(false, true).is_ok());
        }
        probe.heard();
        assert_eq!(probe.look(false, true), Err(()), "it was taken out");
    }
}
