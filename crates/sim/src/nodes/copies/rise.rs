//! A start of a node whose log has copies, as the server's (`holdfast/src/server/taken_over.rs`): a term, a seal, the own
//! log filled and opened, and the node serves when its shard is led.

use std::sync::Arc;

use loggroup::{Driver, Job, Limits, NotStarted, Own, Place, Plan, Port, Rising};
use membership::meta::Shard;
use membership::{AcceptorId, Term};
use node::cluster::Cluster;
use redolog::Lsn;
use redolog::simulated::Simulated;

use super::departed::Departed;
use super::{AGAIN_US, JOBS_MAX, Keeper, Outbox, PATIENCE_US, Way, World, do_job, fresh};
use crate::hardware::Stop;
use crate::invariants::{Verdict, violated};
use crate::machine::{LIMITS, Machine, NoStart, Start};
use crate::nodes::agenda::{Chore, Copying, Event, Talk};
use crate::nodes::metadata;
use crate::nodes::plan::Planted;
use crate::note;

/// With the planted mistake `serves-sealed`: how long blocks of a shard that is not led take to others, and its owner
/// serves with them alone, at most. Microseconds.
pub const SEALED_US: u64 = 2_500_000;

/// A start, as far as it has come.
pub enum Rise {
    /// It waits for a term.
    Waits(Arc<Cluster>),
    /// The own log is brought to the one that is chosen.
    Copying(Arc<Cluster>, Rising<Simulated>, Vec<Job<Simulated>>),
    /// The log runs, and is not led yet.
    Begun(Arc<Cluster>, Box<(Machine, Start)>),
}

impl Rise {
    /// The node's part in its cluster.
    pub fn cluster(&self) -> &Arc<Cluster> {
        match self {
            Rise::Waits(cluster) | Rise::Copying(cluster, ..) | Rise::Begun(cluster, _) => cluster,
        }
    }
}

/// The term of a shard that has just been given, as the server plans it.
pub fn plan_of(shard: &Shard, own: AcceptorId) -> Plan {
    let ids = |set: &[membership::meta::Acceptor]| set.iter().map(|acceptor| acceptor.id).collect::<Vec<_>>();
    let settled = if shard.settled.is_empty() { vec![own] } else { ids(&shard.settled) };
    let pending = shard.pending.as_deref().filter(|_| shard.pending_since < shard.term).map(ids);
    Plan { shard: shard.id, term: shard.term, own, settled, pending }
}

impl World {
    /// A node that is off is started.
    pub(crate) fn begin_rise(&mut self, node: usize) -> Verdict {
        let (member, process) = (&mut self.members[node], &mut self.copies.processes[node]);
        process.left = Some(match process.left.take() {
            None => (member.host.end(false, &mut self.story)?, false),
            Some((ended, has_failed)) => {
                let is_power = member.host.hardware.is_dead() || self.story.once_in(2);
                let stop = if is_power { Stop::Power } else { Stop::Kill };
                note!(self.story.trace, "{stop:?} during the start of node {node}");
                member.host.hardware.stop(stop, &mut self.story.chance);
                self.story.counts.crashes += 1;
                (ended, has_failed || is_power)
            }
        });
        self.take_over(node)?;
        let (member, process) = (&mut self.members[node], &mut self.copies.processes[node]);
        if std::mem::take(&mut process.wipes_log) {
            note!(self.story.trace, "the log of node {node} is wiped");
            member.host.hardware.wipe_log();
            if self.plan.planted != Planted::WipedVotes {
                process.own = None;
            }
            self.story.counts.wiped += 1;
        }
        member.begin_life();
        member.is_off = true;
        if self.is_over {
            member.host.make_room(&mut self.story);
        }
        let cluster = member.seat.begin_life(member.boot_ns());
        process.rise = Some(Rise::Waits(cluster));
        process.since = self.now;
        let (life, incarnation) = (member.life, member.seat.life());
        note!(self.story.trace, "node {node} is being started, in its life {incarnation}");
        self.metadata.restart(node);
        self.agenda.put(self.now + 1_000, Event::Talk(Talk::Announce { from: (node, incarnation) }));
        self.put_copying(2_000, Copying::Ask { node, life });
        self.put_copying(3_000, Copying::Rise { node, life });
        if self.plan.spares > 0 {
            self.put_copying(5_000, Copying::Tend { node, life });
        }
        self.open_drawers(node)
    }

    /// A node that starts does something.
    pub(super) fn rise(&mut self, node: usize, life: u64) -> Verdict {
        let member = &mut self.members[node];
        if member.life != life {
            return Ok(());
        }
        if member.paused_until > self.now {
            let wait = member.paused_until - self.now;
            self.put_copying(wait, Copying::Rise { node, life });
            return Ok(());
        }
        member.tell_time(self.now);
        let process = &mut self.copies.processes[node];
        if !matches!(process.rise, None | Some(Rise::Waits(_))) && self.now > process.since + PATIENCE_US {
            note!(self.story.trace, "an operator starts node {node} again");
            return self.crash(node);
        }
        let wait = match &mut process.rise {
            None => return Ok(()),
            Some(Rise::Waits(_)) => {
                if let Some(shard) = self.own_shard(node) {
                    self.bring_up(node, &shard)?;
                }
                1_000 + self.story.chance.below(10_000)
            }
            Some(Rise::Copying(_, rising, jobs)) => {
                let local = rising.acceptor();
                let lacks = local.lacks();
                while jobs.len() < JOBS_MAX
                    && let Some(job) = local.job(lacks)
                {
                    jobs.push(job);
                }
                let count = jobs.len();
                if count > 0 {
                    do_job(local, jobs, self.story.one_of(count));
                }
                match (count, lacks) {
                    (0, true) => AGAIN_US,
                    (0, false) => 1_000 + self.story.chance.below(1_000),
                    _ => member.disk_takes(&mut self.story.chance),
                }
            }
            Some(Rise::Begun(_, begun)) => {
                let machine = &mut begun.0;
                for stream in 0..self.plan.node.streams {
                    let flights = machine.in_flight(stream);
                    if flights > 0 && self.story.once_in(2) {
                        machine.land(stream, self.story.one_of(flights));
                    }
                    machine.step_stream(stream, true, self.story.once_in(2));
                    for helper in 0..2 {
                        while machine.help_stream(stream, helper) {}
                    }
                }
                member.disk_takes(&mut self.story.chance)
            }
        };
        if self.copies.rises(node) && self.members[node].life == life {
            self.put_copying(wait, Copying::Rise { node, life });
        }
        self.go_on(node)
    }

    /// Something has happened that a node's driver may have waited for.
    pub(super) fn go_on(&mut self, node: usize) -> Verdict {
        if self.members[node].host.hardware.is_dead() {
            note!(self.story.trace, "the power of node {node} fails");
            return self.crash(node);
        }
        self.tend_copies(node);
        let process = &self.copies.processes[node];
        let Some(driver) = process.keeper.as_ref().map(|keeper| keeper.driver.clone()) else { return Ok(()) };
        let is_next = match &process.rise {
            None => return self.follow_up(node, Chore::Turn(0)),
            Some(Rise::Waits(_)) => Ok(false),
            Some(Rise::Copying(..)) => driver.is_copied(),
            Some(Rise::Begun(..)) => match self.copies.serves_sealed(node, self.plan.planted) {
                true => Ok(true),
                false => driver.leads(),
            },
        };
        match is_next {
            Ok(false) => Ok(()),
            Ok(true) if matches!(process.rise, Some(Rise::Begun(..))) => self.serve(node),
            Ok(true) => self.open_log(node, &driver),
            Err(why) => {
                note!(self.story.trace, "the start of node {node} ends: {why}");
                self.crash(node)
            }
        }
    }

    /// The term is there: it seals.
    fn bring_up(&mut self, node: usize, shard: &Shard) -> Verdict {
        let (planted, chance) = (self.plan.planted, &mut self.story.chance);
        let hardware = &self.members[node].host.hardware;
        let process = &mut self.copies.processes[node];
        let place = || {
            let (own, streams) = (hardware.acceptor.clone(), hardware.disks.clone());
            Ok(Place { own, streams, locks: Vec::new() })
        };
        let name = process.own.filter(|_| planted == Planted::WipedVotes).unwrap_or_else(|| fresh(chance));
        let own = match Own::on(place, shard.id, LIMITS, name) {
            Ok(own) => own,
            Err(why) => return self.not_started(node, &why.into()),
        };
        if own.term() >= shard.term && planted != Planted::TermTwice {
            let what = format_args!("node {node} knows term {}, and is given {}", own.term().get(), shard.term.get());
            return violated("term", what);
        }
        process.own = Some(own.acceptor());
        let plan = plan_of(shard, own.acceptor());
        let (term, outbox) = (plan.term, Outbox::default());
        let of_all = shard.settled.iter().chain(shard.pending.iter().flatten());
        let others = of_all.filter(|acceptor| acceptor.node != metadata::id(node));
        let places = others.map(|acceptor| (acceptor.id, metadata::node_of(acceptor.node))).collect();
        let ways = |places: &std::collections::BTreeMap<AcceptorId, usize>| {
            let way = |acceptor: &AcceptorId| {
                let way = Way { acceptor: *acceptor, outbox: outbox.clone() };
                (*acceptor, Arc::new(way) as Arc<dyn Port>)
            };
            places.keys().map(way).collect()
        };
        let limits = Limits {
            window_blocks: 1 + chance.below(4),
            ring_bytes: if chance.below(2) == 0 { 1_000 } else { 64 << 20 },
            read_blocks: 1 + chance.below(4) as u32,
            ..Limits::default()
        };
        let mut heard = None;
        let rising = own.bring_up_by_hand(plan, limits, |listener| {
            heard = Some(listener.clone());
            ways(&places)
        });
        let (Ok(rising), Some(listener)) = (rising, heard) else { return violated("start", "no driver begins") };
        note!(self.story.trace, "node {node} seals in term {}: {places:?}", term.get());
        self.copies.drivers += 1;
        let number = self.copies.drivers;
        for acceptor in places.keys() {
            let wait = 1 + self.story.chance.below(2_000);
            let dial = Copying::Dial { from: (node, number), acceptor: *acceptor };
            self.agenda.put(self.now + wait, Event::Copies(dial));
        }
        let process = &mut self.copies.processes[node];
        let (driver, departed) = (rising.driver().clone(), Departed::from(term.get()));
        process.keeper = Some(Keeper { number, driver, listener, outbox, places, reads: None, again: None, departed });
        if let Some(Rise::Waits(cluster)) = process.rise.take() {
            process.rise = Some(Rise::Copying(cluster, rising, Vec::new()));
        }
        Ok(())
    }

    /// A start did not go on.
    fn not_started(&mut self, node: usize, why: &NotStarted) -> Verdict {
        let hardware = &self.members[node].host.hardware;
        if hardware.is_dead() {
            return self.crash(node);
        }
        if hardware.is_full() {
            self.members[node].host.make_room(&mut self.story);
            return self.crash(node);
        }
        match why {
            NotStarted::Ended(why) => {
                note!(self.story.trace, "the start of node {node} ends: {why}");
                self.crash(node)
            }
            why => violated("start", format_args!("node {node} does not start: {why}")),
        }
    }

    /// The own log has everything: it is opened, and begins.
    fn open_log(&mut self, node: usize, driver: &Arc<Driver>) -> Verdict {
        let process = &mut self.copies.processes[node];
        let Some(Rise::Copying(cluster, rising, mut jobs)) = process.rise.take() else { return Ok(()) };
        let local = rising.acceptor();
        loop {
            jobs.extend(std::iter::from_fn(|| local.job(false)));
            if jobs.is_empty() {
                break;
            }
            do_job(local, &mut jobs, 0);
        }
        process.rise = Some(Rise::Waits(cluster.clone()));
        let reads = match rising.end(driver.is_copied().map(drop)) {
            Ok((_, reads)) => reads,
            Err(why) => return self.not_started(node, &why),
        };
        if let Some(keeper) = &mut process.keeper {
            keeper.reads = Some(reads);
        }
        let hardware = &self.members[node].host.hardware;
        let (plan, part) = (&self.plan.node, (Some(cluster.clone()), Some(driver)));
        match Machine::start_as(hardware, plan, &mut self.story.chance, part) {
            Ok((machine, start)) => {
                note!(self.story.trace, "the log of node {node} begins: {:?} to {:?}", start.bases, start.ends);
                if self.plan.planted == Planted::TrustsOwn {
                    (0..machine.log.streams()).for_each(|stream| machine.log.hold(stream, Lsn::MAX, Lsn::MAX));
                }
                let process = &mut self.copies.processes[node];
                process.rise = Some(Rise::Begun(cluster, Box::new((machine, start))));
                self.go_on(node)
            }
            Err(NoStart::Power) => self.crash(node),
            Err(NoStart::Refused(_)) if hardware.is_full() => {
                self.members[node].host.make_room(&mut self.story);
                self.crash(node)
            }
            Err(NoStart::Refused(why)) if driver.leads().is_err() => {
                note!(self.story.trace, "the start of node {node} ends: {why}");
                self.crash(node)
            }
            Err(NoStart::Refused(why)) => violated("start", format_args!("the server does not start: {why}")),
        }
    }

    /// The shard is led: the node serves.
    fn serve(&mut self, node: usize) -> Verdict {
        let process = &mut self.copies.processes[node];
        let (rise, left) = (process.rise.take(), process.left.take());
        let (Some(Rise::Begun(_, begun)), Some((ended, has_failed))) = (rise, left) else { return Ok(()) };
        let (machine, start) = *begun;
        let term = process.keeper.as_ref().map_or(Term::ZERO, |keeper| keeper.driver.term());
        note!(self.story.trace, "node {node} serves, in term {}", term.get());
        let member = &mut self.members[node];
        member.host.succeed(ended, (machine, start, has_failed), &mut self.story)?;
        member.serve();
        let life = member.life;
        let in_doubt = member.host.machine.node.engine.transactions.outcomes().prepared().count() as u64;
        self.story.counts.in_doubt += in_doubt;
        self.story.counts.led += 1;
        self.start_chores(node);
        let is_sealed = self.copies.serves_sealed(node, self.plan.planted) && !self.is_over;
        self.copies.processes[node].has_led = true;
        // Blocks may be on their way from before.
        for stream in 0..self.plan.node.streams {
            self.want(node, Chore::Land(stream), self.now + 1);
        }
        self.put_copying(1_000, Copying::Keep { node, life });
        if is_sealed {
            // It shows if clients have read what the own log alone has, and that is gone then. They read when the node has
            // a lease.
            let wait = self.story.chance.below(SEALED_US);
            self.put_copying(wait, Copying::Wipe { node, life });
        }
        self.follow_up(node, Chore::Turn(0))
    }

    /// A node's start ends in the middle.
    pub(super) fn end_rise(&mut self, node: usize, rise: Option<Rise>) {
        match rise {
            Some(Rise::Copying(_, rising, jobs)) => {
                let disks = self.members[node].host.hardware.disks.clone();
                self.interrupt(rising.acceptor(), jobs, &disks);
            }
            Some(Rise::Begun(_, mut begun)) => {
                let disks = &self.members[node].host.hardware.disks;
                begun.0.interrupt_flights(disks, &mut self.story.chance);
            }
            Some(Rise::Waits(_)) | None => {}
        }
    }

    /// The driver of a node that serves is to have acceptors that do not count yet.
    pub(super) fn bring_others_up(&mut self, node: usize, others: &[(AcceptorId, usize)]) {
        let Some(keeper) = &mut self.copies.processes[node].keeper else { return };
        let outbox = keeper.outbox.clone();
        keeper.driver.follow_up(|_| {
            let way = |(acceptor, _): &(AcceptorId, usize)| {
                let way = Way { acceptor: *acceptor, outbox: outbox.clone() };
                (*acceptor, Arc::new(way) as Arc<dyn Port>)
            };
            others.iter().map(way).collect()
        });
        keeper.places.extend(others.iter().copied());
        let number = keeper.number;
        for (acceptor, _) in others {
            self.put_copying(1_000, Copying::Dial { from: (node, number), acceptor: *acceptor });
        }
    }
}
