//! An owner gives its shard to a standby in order, and then follows it in the process that it is (rule S10).
//!
//! [`Switchover`] says what is to be done when. While the shard is frozen, commands wait as they do without a lease. When
//! the map names the new owner, they go there.

use std::error::Error;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use clocks::BootMs;
use membership::control::Yield;
use membership::meta::Shard;
use membership::{Map, ShardId};
use node::Node;
use node::cluster::Cluster;
use quorum::Cut;
use redolog::Lsn;
use standby::switchover::{Act, GivenUp, Patience, Stage};
use standby::{Copies, NodeNumber, Process, Switchover};

use super::super::copies;
use super::super::member::begin_again;
use super::super::ownership::Ownership;
use super::super::switch::Switch;
use super::follow::Copy;
use super::{Means, Shared, StandsBy, lock};

/// How long a node that stops waits for a standby to come near, and for all of it, in milliseconds. The other nodes may be
/// stopping as well: then no metadata answer.
const LEAVES_MS: u64 = 1_000;
const LEAVES_MAX_MS: u64 = 2_500;

/// Between two looks at what has happened.
const LOOK: Duration = Duration::from_micros(500);

/// A switchover that is under way.
struct Yields {
    node: Arc<Node>,
    cluster: Arc<Cluster>,
    ownership: Ownership,
    switch: Arc<Switch>,
    shared: Arc<Shared>,
    shard: Shard,
    patience: Patience,
    /// The process stops then, or at this moment.
    leaves: Option<BootMs>,
    /// The last record, once nothing comes any more.
    last: Option<Lsn>,
    /// The last reason why the shard is not led again: it is asked for ten times a second.
    said: String,
    /// How it has ended.
    outcome: Option<Result<(), GivenUp>>,
}

impl Shared {
    /// Begins to give this node's shard to a standby.
    ///
    /// # Errors
    /// It cannot begin: the node does not own the shard, the standby may not take over, or another one is under way. In
    /// words.
    pub fn switch_over(self: &Arc<Self>, shard: ShardId, to: NodeNumber) -> Result<(), String> {
        let (yields, copies, to) = self.prepare(shard, to)?;
        if yields.ownership.control().lease_until().get().ms() <= yields.now() {
            return Err("this node has no lease now: a shard changes hands only while the metadata answer".to_owned());
        }
        if self.is_switching.swap(true, SeqCst) {
            return Err("a switchover of this shard is under way".to_owned());
        }
        let shared = Arc::clone(self);
        let run = move || {
            yields.run(&copies, to);
            shared.is_switching.store(false, SeqCst);
        };
        let thread = thread::Builder::new().name("switchover".into()).spawn(run);
        thread.map(drop).map_err(|why| {
            self.is_switching.store(false, SeqCst);
            why.to_string()
        })
    }

    /// Stops the node, and gives its shard away first, if a standby may take it. No client gets an error, unless it is
    /// connected here.
    pub fn leave(self: &Arc<Self>) {
        let Some(node) = self.belongs.get().and_then(|(node, _)| node.upgrade()) else { return };
        let (shared, stops) = (Arc::clone(self), Arc::clone(&node));
        let leave = move || {
            if !shared.is_switching.swap(true, SeqCst) {
                shared.give_away();
            }
            stops.stop();
        };
        if thread::Builder::new().name("leave".into()).spawn(leave).is_err() {
            node.stop();
        }
    }

    fn give_away(self: &Arc<Self>) {
        let Some(ownership) = self.belongs.get().and_then(|(_, ownership)| ownership.upgrade()) else { return };
        let Some(shard) = ownership.shard() else { return };
        // The nearest of those that were heard lately, on another machine if there is one: this one may be about to go
        // down. Without any the next life of this node goes on.
        let (map, mut near) = (ownership.control().map(), ownership.control().standbys());
        let machine =
            |number: NodeNumber| map.nodes().iter().find(|node| node.number == number.0).map(|of| &of.machine);
        let here = map.member(ownership.control().id()).map(|node| &node.machine);
        near.sort_by_key(|heard| (machine(heard.process.node) == here, heard.following.behind_bytes));
        let prepared = near.iter().find_map(|heard| self.prepare(shard.id, heard.process.node).ok());
        if let Some((mut yields, copies, to)) = prepared {
            yields.leaves = Some(yields.now() + LEAVES_MAX_MS);
            yields.patience.nearing_ms = LEAVES_MS;
            yields.run(&copies, to);
        }
    }

    fn prepare(self: &Arc<Self>, id: ShardId, to: NodeNumber) -> Result<(Yields, Copies, Process), String> {
        let belongs = self.belongs.get().and_then(|(node, ownership)| Some((node.upgrade()?, ownership.upgrade()?)));
        let ((node, ownership), switch) = belongs.zip(self.switch.get().cloned()).ok_or("the node is starting")?;
        let shard = ownership.shard().filter(|shard| shard.id == id && switch.copies().is_some());
        let shard = shard.ok_or_else(|| format!("this node does not own shard {} with copies of its log", id.0))?;
        let (cluster, map) = (node.cluster().cloned().ok_or("no cluster")?, ownership.control().map());
        let copies = map.data_copies(&shard).ok_or_else(|| format!("shard {} has no standbys", id.0))?;
        let member = map.nodes().iter().find(|member| member.number == to.0);
        let member = member.filter(|_| copies.is_electable(to));
        let member = member
            .ok_or_else(|| format!("{} is no standby of shard {} that may take over", place_of(&map, to), id.0))?;
        let to = Process { node: to, life: member.incarnation };
        let (shared, patience) = (Arc::clone(self), Patience::default());
        let yields = Yields {
            node,
            cluster,
            ownership,
            switch,
            shared,
            shard,
            patience,
            leaves: None,
            last: None,
            said: String::new(),
            outcome: None,
        };
        Ok((yields, copies, to))
    }
}

/// Where clients find a node, for people to read.
fn place_of(map: &Map, number: NodeNumber) -> String {
    let node = map.nodes().iter().find(|node| node.number == number.0);
    node.map_or_else(|| format!("node number {}", number.0), |node| format!("{}:{}", node.host, node.port))
}

impl Yields {
    fn now(&self) -> BootMs {
        self.node.clock.boot_ns().ms()
    }

    /// The node stops, now.
    fn is_over(&self) -> bool {
        self.node.is_stopping() || self.leaves.is_some_and(|end| self.now() >= end)
    }

    fn run(mut self, copies: &Copies, to: Process) {
        let (id, began) = (self.shard.id, self.now());
        let place = place_of(&self.ownership.control().map(), to.node);
        tracing::info!("Shard {} is given to {place} in order", id.0);
        let mut acts = Vec::new();
        let mut switchover = Switchover::new(copies, to, self.patience, began, &mut acts);
        while self.outcome.is_none() && !self.is_over() {
            for act in std::mem::take(&mut acts) {
                self.act(act, &mut switchover, &mut acts);
            }
            self.look(&mut switchover, to, &mut acts);
            if acts.is_empty() && self.outcome.is_none() {
                thread::park_timeout(LOOK);
            }
        }
        let ms = self.now().since(began);
        match self.outcome {
            Some(Ok(())) => tracing::info!("Shard {} was given to another node after {ms} ms", id.0),
            Some(Err(why)) => tracing::warn!("Shard {} stays here after {ms} ms: {why}", id.0),
            None => {}
        }
    }

    /// Says what has happened meanwhile.
    fn look(&self, switchover: &mut Switchover, to: Process, acts: &mut Vec<Act>) {
        let (control, now) = (self.ownership.control(), self.now());
        let map = control.map();
        let shard = map.shards().iter().find(|shard| shard.id == self.shard.id);
        if let Some(copies) = shard.and_then(|shard| map.data_copies(shard)) {
            switchover.metadata(&copies, now, acts);
        }
        if switchover.stage() == Stage::Nearing {
            let heard = control.standbys().into_iter().find(|heard| heard.process == to);
            heard.into_iter().for_each(|heard| switchover.lag(to, heard.following.behind_ms, now, acts));
        }
        switchover.tick(now, acts);
        // The metadata have given it the next term, and the answer was lost: it does not lead that term yet.
        if switchover.stage() == Stage::Resuming && acts.is_empty() {
            acts.push(Act::Lead { known: self.shard.term });
        }
    }

    fn act(&mut self, act: Act, switchover: &mut Switchover, acts: &mut Vec<Act>) {
        match act {
            // Whether reads count that were not logged is known when it yields.
            Act::LogReads(_) => {}
            Act::Freeze => {
                self.freeze(true);
                match self.drain() {
                    Ok(Some(last)) => {
                        self.last = Some(last);
                        switchover.drained(Cut(last.0), self.now(), acts);
                    }
                    Ok(None) => switchover.cannot_drain(acts),
                    Err(why) => {
                        tracing::warn!("Shard {} is not given up: {why}", self.shard.id.0);
                        switchover.cannot_drain(acts);
                    }
                }
            }
            Act::Undo => switchover.cannot_drain(acts),
            Act::Advance => {
                self.switch.copies().iter().for_each(|copies| copies.tell_committed());
                // A majority has the rest, and a standby that takes over in place reads it there.
                if let Some(last) = self.last {
                    switchover.applied(switchover.to(), Cut(last.0), self.now(), acts);
                }
            }
            Act::Yield { to, term, .. } => {
                let owner = self.ownership.control().id();
                let number = self.ownership.control().map().member(owner).map(|member| member.number);
                let Some(node) = number.map(NodeNumber) else { return };
                let by = Process { node, life: self.ownership.control().incarnation() };
                let is_logged = self.cluster.reads_until() <= self.now();
                let yields = Yield { shard: self.shard.id, by, term, to: to.node, is_logged };
                self.ownership.again().yields(self.shard.id);
                self.switch.copies().iter().for_each(|copies| copies.gives_way(true));
                // It is asked again until the metadata say what came of it.
                self.ownership.control().yields(yields, |_| {});
            }
            Act::Lead { .. } => {
                let Some(copies) = self.switch.copies() else { return };
                match self.ownership.group().lead_again(&copies, &mut |_, _| !self.is_over()) {
                    Ok(()) => {
                        let (map, now) = (self.ownership.control().map(), self.now());
                        let shard = self.ownership.shard();
                        if let Some(copies) = shard.and_then(|shard| map.data_copies(&shard)) {
                            switchover.metadata(&copies, now, acts);
                            switchover.serves_again(acts);
                        }
                    }
                    Err(why) => {
                        let why = format!("shard {} was not taken over, and is not led again: {why}", self.shard.id.0);
                        if copies.is_over() {
                            // It would stay frozen. The next life leads the shard, if the metadata leave it here.
                            begin_again(self.ownership.again(), &self.node, &why);
                        } else {
                            // It asks again, unless a standby that was slow to take over has the shard by then.
                            if self.said != why {
                                tracing::warn!("{why}");
                                self.said = why;
                            }
                            thread::park_timeout(Duration::from_millis(self.patience.asking_ms));
                        }
                    }
                }
            }
            Act::Thaw => {
                self.ownership.again().begins_with(Some(self.shard.id));
                self.switch.copies().iter().for_each(|copies| copies.gives_way(false));
                if let Err(why) = self.switch.go_on() {
                    tracing::warn!("{why}");
                }
                self.freeze(false);
            }
            Act::HandOver { .. } => {
                // The workers have the map, or get it now.
                self.cluster.set_map(self.ownership.control().map());
                self.freeze(false);
                if self.leaves.is_none()
                    && let Err(why) = self.follow()
                {
                    begin_again(self.ownership.again(), &self.node, &format!("it cannot follow in place: {why}"));
                }
                self.outcome = Some(Ok(()));
            }
            Act::GivenUp(why) => self.outcome = Some(Err(why)),
        }
    }

    fn freeze(&self, is_frozen: bool) {
        self.cluster.freeze(is_frozen);
        self.node.look_all();
    }

    /// Waits until nothing is under way, and a majority has everything on the disk. Returns the last record.
    fn drain(&self) -> Result<Option<Lsn>, String> {
        let Some(ends) = self.switch.rest(self.patience.draining_ms)? else { return Ok(None) };
        let log = self.switch.log().ok_or("the log is off")?;
        let copies = self.switch.copies().ok_or("its log has no copies")?;
        log.want_synced(&ends);
        (0..log.streams()).for_each(|stream| log.ring(stream));
        let end = self.now() + self.patience.draining_ms;
        while !(0..log.streams()).zip(&ends).all(|(stream, end)| log.synced(stream) >= *end) {
            if self.now() >= end {
                return Ok(None);
            }
            thread::park_timeout(LOOK);
        }
        // A gate knows of its own records alone. Memory has those of former owners, too, and must not get them again.
        Ok(ends.into_iter().max().max(Some(copies.end())))
    }

    /// The log that this process wrote is a copy, and memory follows it.
    fn follow(&self) -> Result<(), Box<dyn Error>> {
        let (shard, shared) = (&self.shard, &self.shared);
        let last = self.last.ok_or("it has not rested")?;
        let opens = copies::none_is_opened();
        let ended = self.switch.follows()?;
        let places = &ended.stored.places;
        copies::open_former(&places.logs, shard.id, self.ownership.cluster())?;
        drop(opens);
        let dir = Path::new(OsStr::from_bytes(&self.node.config.settings().dir)).to_owned();
        let store = places.store.clone();
        let id = ended.stored.id();
        let copy = Copy::of_owner(&self.node, &ended.stored, (shard.id, shard.streams), last, ended.checkpointer)?;
        // The life as a standby before this one, which has led to the term that ends.
        shared.end();
        *lock(&shared.readers) = ended.readers;
        self.ownership.again().stands_by(shard.id);
        let means = Means { node: Arc::clone(&self.node), ownership: self.ownership.clone(), dir, store, id };
        let follows = StandsBy::begin(means, Some((copy, ended.stored)), shared)?;
        *lock(&shared.follows) = Some(follows);
        Ok(())
    }
}
