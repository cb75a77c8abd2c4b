//! Copies of logs on other nodes: the server's own acceptors in their folders, and its own driver at the owner.
//!
//! Every shard's log is kept at its owner and at nodes of one group. A node that starts gets a term, seals a majority,
//! fills its own log and leads before it serves ([`rise`]). Messages go as bytes over [`wires`]. Jobs of acceptors are
//! done one after the other, in any order in which threads could do them. Acceptors change as the metadata say
//! ([`group`]). Other nodes get the shards of nodes that are lost for good ([`heirs`]).

mod departed;
mod group;
mod heirs;
mod rise;
mod wires;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loggroup::{Again, Driver, Folder, Job, Listener, Local, OwnReads, Place, Port};
use membership::{AcceptorId, Map, ShardId};
use quorum::Request;
use redolog::simulated::{Chance, Simulated};

use super::agenda::{Copying, Event, Time};
use super::plan::Planted;
use super::world::World;
use crate::host::Ended;
use crate::invariants::{Verdict, violated};
use crate::machine::LIMITS;
use crate::note;
use departed::Departed;
use rise::Rise;
use wires::Wires;

/// Jobs of an acceptor that are under way at once, at most.
const JOBS_MAX: usize = 4;
/// Between two tries of what lacks a resource, microseconds.
const AGAIN_US: u64 = 100_000;

/// How long an operator watches a start or a change that does not go on, microseconds: acceptors that it asks may be gone
/// for good, and the metadata name others by now.
const PATIENCE_US: Time = 5_000_000;

/// A request, to whom, and whether it may go by the second way.
type Due = (AcceptorId, Request, bool);

/// The requests that a driver has sent.
#[derive(Clone, Default)]
struct Outbox(Arc<Mutex<VecDeque<Due>>>);

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Due>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A way to an acceptor of another node.
struct Way {
    acceptor: AcceptorId,
    outbox: Outbox,
}

impl Port for Way {
    fn send(&self, request: Request) {
        self.outbox.lock().push_back((self.acceptor, request, false));
    }

    fn send_apart(&self, request: Request) {
        self.outbox.lock().push_back((self.acceptor, request, true));
    }
}

/// The driver of a node, from the seal on.
struct Keeper {
    /// No other driver has it.
    number: u64,
    driver: Arc<Driver>,
    listener: Listener,
    outbox: Outbox,
    /// The node of each acceptor that is not the own one.
    places: BTreeMap<AcceptorId, usize>,
    reads: Option<OwnReads<Simulated>>,
    again: Option<Again>,
    departed: Departed,
}

/// A node's process, as far as copies go.
#[derive(Default)]
struct Process {
    rise: Option<Rise>,
    keeper: Option<Keeper>,
    /// The remains of the last machine that served, and true if the power has failed since.
    left: Option<(Ended, bool)>,
    /// Its own log is wiped when it is off.
    wipes_log: bool,
    /// The acceptor in its own log, once that is known.
    own: Option<AcceptorId>,
    /// The shard whose log its own is.
    shard: Option<ShardId>,
    /// When its start, or its change of acceptors, began.
    since: Time,
    /// Its shard was led here: its log has something.
    has_led: bool,
}

/// A folder with copies of a shard's log, whose disks are those of its node.
struct Drawer {
    shard: ShardId,
    streams: u16,
    /// The node that it is at.
    at: usize,
    /// The acceptor that it is or was.
    id: AcceptorId,
    /// It is wiped when its node is off.
    is_wiped: bool,
    local: Option<Local<Simulated>>,
    jobs: Vec<Job<Simulated>>,
    /// A thread is to do something.
    is_woken: bool,
}

/// See the module's text.
#[derive(Default)]
pub struct Copies {
    processes: Vec<Process>,
    drawers: Vec<Drawer>,
    wires: Wires,
    drivers: u64,
}

impl Copies {
    /// True if a node makes the planted mistake `serves-sealed` by now: the first term leads first.
    fn serves_sealed(&self, node: usize, planted: Planted) -> bool {
        planted == Planted::ServesSealed && self.processes[node].has_led
    }

    /// True if a node is being started.
    pub fn rises(&self, node: usize) -> bool {
        self.processes.get(node).is_some_and(|process| process.rise.is_some())
    }

    /// A node that is being started hears of the map.
    pub fn tell_map(&self, node: usize, map: Arc<Map>) {
        if let Some(rise) = &self.processes[node].rise {
            rise.cluster().set_map(map);
        }
    }
}

/// The name of a new folder.
fn fresh(chance: &mut Chance) -> AcceptorId {
    let (a, b) = (chance.bits().to_le_bytes(), chance.bits().to_le_bytes());
    let mut id = [0; 16];
    id[..8].copy_from_slice(&a);
    id[8..].copy_from_slice(&b);
    AcceptorId(id)
}

/// The disks of a folder: its own one first.
fn place_of(disks: &[Simulated]) -> Place<Simulated> {
    Place { own: disks[0].clone(), streams: disks[1..].to_vec(), locks: Vec::new() }
}

/// Does a job, with what follows from it.
fn do_job(local: &Local<Simulated>, jobs: &mut Vec<Job<Simulated>>, which: usize) {
    let job = jobs.swap_remove(which);
    jobs.extend(local.carry_out(job));
}

impl World {
    /// True if a node's process runs: it serves, or is being started.
    pub(super) fn runs(&self, node: usize) -> bool {
        !self.members[node].is_off || self.copies.rises(node)
    }

    /// An event of the copies.
    pub(super) fn copy(&mut self, copying: Copying) -> Verdict {
        match copying {
            Copying::Dial { from, acceptor } => self.dial_acceptor(from, acceptor),
            Copying::There { wire, way } => self.carry_there(wire, way),
            Copying::Back { wire, way } => self.carry_back(wire, way),
            Copying::Apart { wire } => self.open_apart(wire),
            Copying::Lost { wire } => self.hear_end(wire),
            Copying::Work { folder, life } => self.work(folder, life),
            Copying::Rise { node, life } => self.rise(node, life),
            Copying::Keep { node, life } => self.keep(node, life),
            Copying::Ask { node, life } => self.ask_term(node, life),
            Copying::Replace { node } => self.replace(node),
            Copying::Recover { node } => self.recover(node),
            Copying::Regroup { node } => self.regroup(node),
            Copying::Again { node, life } => self.start_again(node, life),
            Copying::Tend { node, life } => self.tend_folders(node, life),
            Copying::Wipe { node, life } if self.members[node].life == life => self.wipe(node, 12),
            Copying::Wipe { .. } => Ok(()),
        }
    }

    pub(super) fn put_copying(&mut self, wait: u64, copying: Copying) {
        self.agenda.put(self.now + wait, Event::Copies(copying));
    }

    /// Opens a folder, or makes it, and starts its acceptor.
    fn open_drawer(&mut self, which: usize) -> Verdict {
        let drawer = &mut self.copies.drawers[which];
        let hardware = &mut self.members[drawer.at].host.hardware;
        let disks = hardware.copies.entry(which).or_default();
        let mut is_new = disks.is_empty();
        if std::mem::take(&mut drawer.is_wiped) || is_new {
            note!(self.story.trace, "folder {which} at node {} is empty", drawer.at);
            *disks = (0..=drawer.streams).map(|_| Simulated::default()).collect();
            is_new = true;
            if self.plan.planted != Planted::WipedVotes || drawer.id == AcceptorId::default() {
                drawer.id = fresh(&mut self.story.chance);
            }
        }
        let disks = disks.clone();
        let open = |drawer: &Drawer| {
            let opened = match is_new {
                true => Folder::make(place_of(&disks), drawer.shard, drawer.id, LIMITS),
                false => Folder::open(place_of(&disks), drawer.shard, LIMITS),
            };
            opened.and_then(Local::by_hand)
        };
        let mut started = open(drawer);
        if started.is_err() && hardware.is_full() {
            note!(self.story.trace, "folder {which} does not open before there is room");
            hardware.make_room();
            started = open(drawer);
        }
        if self.plan.planted == Planted::UnsyncedCopies {
            disks[1..].iter().for_each(Simulated::forget_to_sync);
        }
        match started {
            Ok(local) => {
                drawer.local = Some(local);
                self.wake(which);
                Ok(())
            }
            // Without its syncs it has lost something: it gets another name.
            Err(why) if self.plan.planted == Planted::UnsyncedCopies && !is_new => {
                note!(self.story.trace, "folder {which}: {why}");
                drawer.is_wiped = true;
                let node = drawer.at;
                self.put_copying(1_000_000, Copying::Replace { node });
                self.open_drawer(which)
            }
            Err(why) => violated("folder", format_args!("a folder that was not wiped does not open: {why}")),
        }
    }

    /// A thread of an acceptor will look for jobs.
    fn wake(&mut self, which: usize) {
        let drawer = &mut self.copies.drawers[which];
        if !std::mem::replace(&mut drawer.is_woken, true) {
            let member = &self.members[drawer.at];
            let wait = 1 + member.disk_takes(&mut self.story.chance) / 8;
            self.put_copying(
                wait,
                Copying::Work { folder: which, life: self.members[self.copies.drawers[which].at].life },
            );
        }
    }

    /// A thread of an acceptor takes jobs, and does one.
    fn work(&mut self, which: usize, life: u64) -> Verdict {
        let drawer = &mut self.copies.drawers[which];
        let (node, member) = (drawer.at, &self.members[drawer.at]);
        let Some(local) = drawer.local.as_ref().filter(|_| member.life == life) else { return Ok(()) };
        if member.paused_until > self.now {
            let wait = member.paused_until - self.now;
            self.put_copying(wait, Copying::Work { folder: which, life });
            return Ok(());
        }
        drawer.is_woken = false;
        let lacks = local.lacks();
        while drawer.jobs.len() < JOBS_MAX
            && let Some(job) = local.job(lacks)
        {
            drawer.jobs.push(job);
        }
        let count = drawer.jobs.len();
        if count > 0 {
            do_job(local, &mut drawer.jobs, self.story.one_of(count));
        }
        let wait = if count > 0 { member.disk_takes(&mut self.story.chance) } else { AGAIN_US };
        if count > 0 || lacks {
            drawer.is_woken = true;
            self.put_copying(wait, Copying::Work { folder: which, life });
        }
        if self.members[node].host.hardware.is_dead() {
            note!(self.story.trace, "the power of node {node} fails");
            return self.crash(node);
        }
        self.send_back();
        Ok(())
    }

    /// Jobs under way are done in part, or not at all: the process ends.
    fn interrupt(&mut self, local: &Local<Simulated>, jobs: Vec<Job<Simulated>>, disks: &[Simulated]) {
        for job in jobs {
            match self.story.chance.below(3) {
                0 => {}
                1 => drop(local.carry_out(job)),
                _ => {
                    let steps = self.story.chance.below(2);
                    let alive: Vec<&Simulated> = disks.iter().filter(|disk| !disk.is_dead()).collect();
                    alive.iter().for_each(|disk| disk.fail_power_after(steps));
                    drop(local.carry_out(job));
                    alive.iter().for_each(|disk| disk.kill());
                }
            }
        }
    }

    /// A node's process ends, with its acceptors and its driver.
    pub(super) fn end_copies(&mut self, node: usize) {
        if self.plan.copies == 0 {
            return;
        }
        for which in 0..self.copies.drawers.len() {
            let drawer = &mut self.copies.drawers[which];
            if drawer.at != node {
                continue;
            }
            drawer.is_woken = false;
            let (local, jobs) = (drawer.local.take(), std::mem::take(&mut drawer.jobs));
            let disks = self.members[node].host.hardware.copies.get(&which).cloned().unwrap_or_default();
            if let Some(local) = local {
                self.interrupt(&local, jobs, &disks);
            }
        }
        let process = &mut self.copies.processes[node];
        let (rise, keeper) = (process.rise.take(), process.keeper.take());
        self.end_rise(node, rise);
        drop(keeper);
        self.end_wires(node);
    }

    /// Wires, reads and changes of a node go on.
    pub(super) fn tend_copies(&mut self, node: usize) {
        let Some(keeper) = self.copies.processes.get_mut(node).and_then(|process| process.keeper.as_mut()) else {
            return;
        };
        if let Some(reads) = &mut keeper.reads {
            while reads.step() {}
        }
        if let Some(again) = &mut keeper.again {
            match again.step() {
                Ok(false) => {}
                Ok(true) => {
                    note!(self.story.trace, "node {node} leads in term {}", keeper.driver.term().get());
                    keeper.again = None;
                }
                Err(why) => {
                    note!(self.story.trace, "node {node} begins no other term: {why}");
                    keeper.again = None;
                }
            }
        }
        self.send_there(node);
    }
}
