//! Reads at a standby (rule S14): a connection that has sent READONLY reads the copy of the data that its node has.
//!
//! What is read is a prefix of the log: a batch of records is one step under the latches of all its keys. It is served
//! while the copy has everything that was committed `replica-max-staleness` ago, as far as the owner's words say. Anything
//! else goes where it goes without READONLY: to the owner, or the client hears where that is.
//!
//! A client that caches, watches keys or waits for some needs the owner: nothing of that happens at a standby (rule S2).

use std::sync::atomic::Ordering::Relaxed;

use ::membership::{SLOTS, Slot};
use clocks::UnixMs;
use resp::Args;

use super::kinds::Kind;
use super::merge::Merge;
use super::peers::{LastLook, Peers};
use super::port::{Forwarding, Port};
use crate::admission::cluster::Place;
use crate::config::Redirect;
use crate::node::Node;
use crate::session::{self, Multi};
use crate::table::Command;
use crate::transactions::port::Desk;
use crate::worker::conn::Conn;
use crate::worker::next::Next;

const NS_PER_MS: u64 = 1_000_000;

impl Peers {
    /// The owner of the data that clients may read here, as its place in the map. `max`: the age in milliseconds that what
    /// is known of the log's end may have.
    pub(super) fn readable_copy(&mut self, node: &Node, now: UnixMs, max: u64) -> Option<u16> {
        if self.copy.at != Some(now) {
            self.copy = LastLook { at: Some(now), owner: self.look_at_copy(node, max) };
        }
        self.copy.owner
    }

    fn look_at_copy(&self, node: &Node, max: u64) -> Option<u16> {
        let copy = node.copy().filter(|_| self.serves)?;
        let known = copy.readable()?;
        let shard = self.map.shards().iter().find(|shard| shard.id == copy.shard())?;
        let owner = self.map.index_of(shard.owner).filter(|owner| *owner != self.me)?;
        // The word of a former owner says nothing of what the present one has committed.
        let is_fresh = node.clock.monotonic_ns().since(known.at) <= max.saturating_mul(NS_PER_MS);
        (is_fresh && known.term >= shard.term).then_some(owner)
    }

    /// Keys of this slot are read here, though another node owns them.
    pub(super) fn reads_copy_of(&self, slot: Slot) -> bool {
        self.copy.owner.is_some() && self.map.owner_of(slot) == self.copy.owner
    }

    /// True if a node has a part in a command of all nodes. Those about keys concern the owners of slots: a standby has the
    /// keys of another node. A node that is down, and whose slots another one has, has no scripts to flush. `name`: the
    /// command's.
    pub(crate) fn takes_part(&self, merge: Merge, name: &str, node: u16) -> bool {
        match merge.needs_lease(name) {
            // Before there are any, there are no keys.
            true => self.map.slots_of(node) > 0 || node == self.me && self.map.ranges().is_empty(),
            false if node == self.me => true,
            false if name == "script|flush" && self.map.slots_of(node) == 0 => {
                !self.map.node(node).lost && !self.holds_no_lease(self.map.node(node).id)
            }
            false => !merge.is_without_lost(name) || !self.map.node(node).lost,
        }
    }

    fn is_of_copy(&self, command: &Command, args: Args<'_>, owner: u16) -> bool {
        matches!(self.place_of(command, args, None), Place::At(at, _) if at == owner)
    }
}

impl<P: Port> Forwarding<'_, P> {
    /// Has a command of a connection that has sent READONLY run on the copy that this node has: then `Some`, with its wait
    /// if it has to wait.
    pub(super) fn read_copy(
        &mut self,
        conn: &mut Conn,
        command: &Command,
        args: Args<'_>,
        kind: Kind,
        redirect: Redirect,
    ) -> Option<Option<Next>> {
        conn.session.on_copy = false;
        if conn.is_virtual() || conn.session.tracking.is_some() {
            return None;
        }
        let max = self.settings().replica_max_staleness;
        let Desk { peers, engine, node, .. } = self.desk();
        let owner = peers.readable_copy(node, engine.now(), max)?;
        let moves = conn.session.moves(redirect);
        let queues = conn.session.queues(command);
        let runs = match kind {
            Kind::Keyed => command.spec.only_reads() && peers.is_of_copy(command, args, owner),
            Kind::Script => session::is_read_only_script(node, command, args) && peers.is_of_copy(command, args, owner),
            Kind::Exec => conn.session.multi.as_deref().is_some_and(|multi| peers.reads_only(node, multi, owner)),
            Kind::Scan => match (moves, peers.place_of_scan(args)) {
                (true, _) => {
                    engine.scan_end = SLOTS as u16;
                    true
                }
                (false, Place::At(at, _)) if at == owner => {
                    engine.scan_end = peers.end_of_scan_at(args, owner);
                    true
                }
                _ => false,
            },
            Kind::Gather(Merge::Sum | Merge::Concat | Merge::Any) => {
                command.spec.only_reads() && (moves || peers.map.slots_of(owner) == SLOTS)
            }
            _ => false,
        };
        let watches = || {
            let elsewhere = conn.remote.as_deref().is_some_and(|remote| remote.watching().next().is_some());
            elsewhere || !conn.session.watched.is_empty()
        };
        if !runs || kind == Kind::Exec && watches() {
            return None;
        }
        if let Some(multi) = conn.session.multi.as_deref_mut().filter(|_| queues) {
            // EXEC decides where the block runs.
            multi.here = true;
            return Some(None);
        }
        conn.session.on_copy = kind == Kind::Script;
        Some(self.in_turn(conn, kind == Kind::Keyed))
    }
}

/// The error while what this node has of another one's data may not be read.
const NOT_NOW: &[u8] = b"MASTERDOWN the copy of the data that this node has is not up to date";

impl<P: Port> Forwarding<'_, P> {
    /// Refuses a command of a smart client about all keys that are here: they are those of another node, as at a replica
    /// of Redis, and may be as of no moment.
    pub(super) fn refuse_copy(
        &mut self,
        conn: &mut Conn,
        command: &Command,
        kind: Kind,
        redirect: Redirect,
    ) -> Option<Next> {
        let is_about_keys = match kind {
            Kind::Scan => true,
            Kind::Gather(merge) => merge.needs_lease(&command.name) && command.spec.only_reads(),
            _ => false,
        };
        if !is_about_keys || conn.is_virtual() || !conn.session.moves(redirect) || conn.session.queues(command) {
            return None;
        }
        let max = self.settings().replica_max_staleness;
        let Desk { peers, engine, node, .. } = self.desk();
        if !node.follows.load(Relaxed) || peers.readable_copy(node, engine.now(), max).is_some() {
            return None;
        }
        Some(self.decline(conn, command, NOT_NOW))
    }
}

impl Peers {
    /// True if a block only reads keys of the copy, or nothing.
    fn reads_only(&self, node: &Node, multi: &Multi, owner: u16) -> bool {
        let mut has_keys = false;
        let all = multi.commands().all(|(queued, args)| {
            let command = node.table.get(queued.command);
            match self.kinds[queued.command] {
                Kind::Keyed => {
                    has_keys = true;
                    command.spec.only_reads() && self.is_of_copy(command, args, owner)
                }
                Kind::Quick => true,
                _ => false,
            }
        });
        all && has_keys && !multi.aborted
    }
}
