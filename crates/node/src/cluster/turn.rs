//! The cluster's part of a worker's turn: messages to other nodes, and links over which nothing comes.

use clocks::{BootMs, UnixMs};
use keyspace::Horizon;
use resp::append_request;

use super::peers::{HOME, Peers};
use super::port::{Forwarding, Port};
use super::probe::Seen;
use crate::push::delivery::Kind;
use crate::transactions::port::Desk;
use crate::worker::token::Token;

/// Most bytes of messages that wait for the log.
const WAITING_MAX: usize = 64 << 20;
/// Milliseconds between two looks at whether bytes came over links.
const LOOK_MS: u64 = 100;

/// Least milliseconds between two looks that count for a node that was removed from the cluster.
const GONE_LOOK_MS: u64 = 300;

/// The question over a link. The answer does not matter.
const QUESTION: &[u8] = b"*1\r\n$4\r\nPING\r\n";

impl Peers {
    /// When links are to be checked.
    pub(crate) fn probes_due(&self) -> Option<UnixMs> {
        self.links.iter().skip(HOME + 1).any(|link| link.end().is_some()).then_some(self.probes.due)
    }

    /// Checks all links: whether to end them, and whether they are open.
    fn look_at_silence(&mut self, now: UnixMs) -> Vec<(usize, Token, bool)> {
        let mut ended = Vec::new();
        if now < self.probes.due || self.probes_due().is_none() {
            return ended;
        }
        self.probes.due = now + LOOK_MS;
        let counts = now >= self.probes.gone_due;
        if counts {
            self.probes.gone_due = now + GONE_LOOK_MS;
        }
        if let Some(administration) = self.shared.administration() {
            self.probes.suspects = administration.suspects();
        }
        for (index, link) in self.links.iter_mut().enumerate().skip(HOME + 1) {
            let Some(token) = link.end() else { continue };
            let suspected = !self.serves || link.node.is_some_and(|node| self.probes.suspects.contains(&node));
            let has_place = link.node.is_none_or(|node| self.map.index_of(node).is_some());
            let gone = !has_place && !self.map.nodes().is_empty();
            let is_open = link.open_end().is_some();
            let ends = if is_open {
                match link.probe.look(Seen { suspected, gone, counts, is_used: link.is_used() }) {
                    Ok(true) => {
                        link.say_by_itself(QUESTION);
                        false
                    }
                    Ok(false) => false,
                    Err(()) => true,
                }
            } else {
                link.probe.look_at_dial(suspected)
            };
            if ends {
                ended.push((index, token, is_open));
            }
        }
        ended
    }
}

impl<P: Port> Forwarding<'_, P> {
    /// The cluster's part of a turn before anything is executed.
    pub(crate) fn begin_turn(&mut self, now: UnixMs) {
        let boot = self.node().clock.boot_ns();
        let peers = self.peers();
        let served = peers.serves;
        let before = peers.begin_turn(boot);
        if !served && self.peers().serves {
            self.resume_all_from_map();
        }
        let changed = before.is_some();
        let begins = self.txn().is_new();
        if changed {
            // In blocks and scripts a SCAN of a single node has no range that would end it.
            self.engine().scan_end = keyspace::SLOTS as u16;
        }
        if changed || begins {
            self.transactions().map_changed();
        }
        if let Some(before) = before {
            self.flush_for_map(&before);
            self.reroute_held();
        }
        self.look_at_blocked(changed);
        self.look_at_links(now);
        self.hear();
        self.probe_links(now);
        self.transactions().step_if_due(boot.ms());
    }

    /// The cluster's part of a turn after everything was executed.
    pub(crate) fn end_turn(&mut self) {
        if self.peers().is_cluster() {
            // Timers have until the next turn.
            self.transactions().step_if_due(BootMs::ZERO);
            self.spread_committed();
            self.look_at_vain_words();
            self.speak();
            self.flush_links();
        }
    }

    /// A message was published by this node itself: the other nodes get it.
    pub(crate) fn spread(&mut self, kind: Kind, channel: &[u8], payload: &[u8], seen: &Horizon) {
        if self.peers().is_alone() {
            return;
        }
        let peers = self.peers();
        let spread = &mut peers.spread;
        if spread.bytes > WAITING_MAX {
            return;
        }
        let name: &[u8] = if kind == Kind::Shard { b"SPUBLISH" } else { b"PUBLISH" };
        let mut command = Vec::with_capacity(channel.len() + payload.len() + 64);
        append_request(&mut command, &[name, channel, payload]);
        spread.bytes += command.len();
        spread.waiting.push_back((seen.clone(), command));
    }

    /// Sends the messages that are committed.
    pub(crate) fn spread_committed(&mut self) {
        while self.is_next_committed() {
            let peers = self.peers();
            let Some((_, command)) = peers.spread.waiting.pop_front() else { return };
            peers.spread.bytes -= command.len();
            let links: Vec<usize> = (0..peers.map.nodes().len() as u16).map(|node| peers.link_to(node)).collect();
            for link in links.into_iter().filter(|link| *link != HOME) {
                self.want_link(link);
                let peers = self.peers();
                peers.links[link].say_by_itself(&command);
            }
        }
    }

    /// True if what is said next is committed.
    fn is_next_committed(&mut self) -> bool {
        let Desk { peers, engine, .. } = self.desk();
        let Some((seen, _)) = peers.spread.waiting.front() else { return false };
        seen.versions().iter().all(|version| engine.is_committed(*version))
    }

    /// Ends links over which nothing comes any more.
    pub(crate) fn probe_links(&mut self, now: UnixMs) {
        let ended = self.peers().look_at_silence(now);
        for (link, token, is_open) in ended {
            if !is_open {
                self.port.closed(token);
                continue;
            }
            tracing::warn!(
                "a link to a node that may be down is closed: no bytes come from it, or it was taken out of the cluster"
            );
            self.peers().links[link].given_up = true;
            self.cut(token);
        }
    }
}
