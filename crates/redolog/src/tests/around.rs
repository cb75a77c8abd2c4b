//! Logs with copies whose own disk has no room for a while, or does not return (rules L8, G10).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::thread;
use std::time::Duration;

use super::grouped::{LEAD, Others, Stream, World};
use super::lacking::passing;
use super::running::{leave, settings, wait};
use crate::simulated::{Chance, Simulated};
use crate::{Around, Fsync, Lack, Limits, Lsn, Opened, Record, Settings, State, Step};

/// A world whose copies go on without the own disk, and its clock.
fn world(fsync: Fsync) -> (World, Arc<AtomicU64>) {
    let time = Arc::new(AtomicU64::new(1));
    let clock = time.clone();
    let world = World::new(1, Settings { clock: Arc::new(move || clock.load(SeqCst)), ..settings(fsync) });
    world.others.lost.lock().unwrap().0 = true;
    (world, time)
}

impl World {
    /// Records of so many bytes. All of them leave for the copies, and are committed when these have them.
    fn write(&mut self, count: usize, size: usize) -> Lsn {
        for _ in 0..count {
            let gate = &mut self.gates[0][0];
            let lsn = gate.enter().above(0);
            gate.leave(lsn, |out| Record::encode(lsn, &[], &vec![7; size], out));
            gate.exit();
            self.left.push(lsn);
            self.settle();
        }
        let last = *self.left.last().unwrap();
        let sent: Vec<Lsn> = self.others.streams()[0].blocks.iter().flat_map(|(_, of)| of.clone()).collect();
        assert_eq!(sent, self.left, "each record goes out once");
        self.others_take_all(0);
        self.hold(0);
        self.settle();
        assert_eq!((self.log.marks().of(0), self.log.synced(0)), (last, last));
        last
    }

    /// The helpers do what they can.
    fn help(&mut self) {
        for _ in 0..3 {
            while self.stepped[0].help(0) || self.stepped[0].help(1) {}
            self.settle();
        }
    }

    /// The own folder has told all blocks, and has them after a loss of power.
    fn check_own(&self) {
        assert_eq!(self.log.around(), None);
        let blocks = self.others.streams()[0].blocks.len() as u64;
        let told = self.others.streams()[0].own;
        assert_eq!(told.synced, 1 + blocks, "the start block has the first place");
        let own = self.disks[0].clone_durable();
        own.crash(&mut Chance(3));
        let mut found = Vec::new();
        Opened::of(vec![own], &[]).unwrap().replay(|record| found.push(record.lsn)).unwrap();
        assert_eq!(found, self.left);
    }
}

#[test]
fn an_own_disk_without_room_is_gone_around_and_brought_up() {
    for fsync in [Fsync::Always, Fsync::Everysec] {
        let (mut world, time) = world(fsync);
        world.write(3, 1000);
        world.help();
        world.disks[0].set_room(Some(0));
        let told = world.others.streams()[0].own;
        // Several segments.
        world.write(60, 1500);
        assert_eq!((world.log.state(), world.log.around()), (State::Running, Some(Around::Lacks(Lack::Space))));
        let own = world.others.streams()[0].own;
        assert!(own.synced < 40, "what has no place is not told: {own:?}, {told:?}");
        for _ in 0..3 {
            time.fetch_add(200_000_000, SeqCst);
            world.settle();
            world.help();
            assert!(world.log.around().is_some(), "there is still no room");
        }
        assert_eq!(world.others.streams()[0].own, own);
        world.disks[0].set_room(None);
        time.fetch_add(200_000_000, SeqCst);
        world.settle();
        world.help();
        let last = world.write(5, 1500);
        world.log.want_synced(&[last]);
        time.fetch_add(1_500_000_000, SeqCst);
        world.settle();
        world.help();
        world.check_own();
        assert_eq!(*world.others.around.lock().unwrap(), [(0, Some(Around::Lacks(Lack::Space))), (0, None)]);
        assert_eq!(world.others.lost.lock().unwrap().1, None);
    }
}

/// Without others that are a majority, a log that has no room is full, as one by itself.
#[test]
fn a_log_that_needs_its_own_disk_is_full_with_it() {
    let (mut world, _) = world(Fsync::Always);
    world.others.lost.lock().unwrap().0 = false;
    world.disks[0].set_room(Some(0));
    for _ in 0..60 {
        world.leave(0, &[]);
        world.settle();
        world.help();
    }
    while world.log.state() == State::Running {
        let gate = &mut world.gates[0][0];
        let lsn = gate.enter().above(0);
        gate.leave(lsn, |out| Record::encode(lsn, &[], &[7; 3000], out));
        gate.exit();
        world.settle();
        world.help();
    }
    assert_eq!((world.log.state(), world.log.around()), (State::Full(Lack::Space), None));
}

/// A block is at the disk, and the disk does not return. The stream goes on, and the block lands before what was kept.
#[test]
fn a_write_that_does_not_return_is_gone_around() {
    for returns_late in [false, true] {
        let (mut world, time) = world(Fsync::Always);
        world.write(3, 1000);
        let lsn = world.leave(0, &[]);
        let Step::Write(flight) = world.stepped[0].step_apart(true) else { panic!("a block departs") };
        assert_eq!(world.stepped[0].leave_hanging(), 0, "it has just departed");
        time.fetch_add(2_000_000_000, SeqCst);
        assert_eq!(world.stepped[0].leave_hanging(), 1);
        let own = world.others.streams()[0].own;
        assert_eq!(world.write(40, 1500).above(0), world.left.last().unwrap().above(0));
        assert!(world.left.contains(&lsn));
        assert_eq!((world.log.state(), world.log.around()), (State::Running, Some(Around::Hangs)));
        time.fetch_add(200_000_000, SeqCst);
        world.settle();
        world.help();
        assert_eq!(world.others.streams()[0].own, own, "nothing passes that block");
        let written = flight.write();
        if returns_late {
            // More is kept after it has been written and before the stream hears of it.
            world.write(3, 1500);
        }
        world.stepped[0].land(flight, written);
        time.fetch_add(200_000_000, SeqCst);
        world.settle();
        world.help();
        world.write(3, 1500);
        world.check_own();
        assert_eq!(world.log.facts(0).records, world.left.len() as u64);
        assert_eq!(world.log.backlog(), 0);
    }
}

/// The helper's sync of `everysec` does not return.
#[test]
fn a_sync_that_does_not_return_is_gone_around() {
    let (mut world, time) = world(Fsync::Everysec);
    let first = world.write(3, 1000);
    world.help();
    let more = world.leave(0, &[]);
    world.settle();
    world.log.want_synced(&[more]);
    world.settle();
    // The helper has it now.
    time.fetch_add(2_000_000_000, SeqCst);
    assert_eq!((world.stepped[0].leave_hanging(), world.log.around()), (0, None), "a sync may take long");
    time.fetch_add(8_000_000_000, SeqCst);
    assert_eq!(world.stepped[0].leave_hanging(), 0, "no thread of the stream waits");
    assert_eq!(world.log.around(), Some(Around::Hangs));
    let second = world.leave(0, &[]);
    world.settle();
    assert!(first < second && world.log.marks().of(0) < second, "the own system may not have it");
    // More segments than may be unsynced: nothing waits for the helper.
    let last = world.write(60, 1500);
    world.log.want_synced(&[last]);
    time.fetch_add(2_000_000_000, SeqCst);
    world.settle();
    assert!(world.stepped[0].help(1), "it returns");
    world.settle();
    time.fetch_add(2_000_000_000, SeqCst);
    world.settle();
    world.help();
    let last = world.write(1, 100);
    world.log.want_synced(&[last]);
    world.settle();
    world.help();
    world.check_own();
}

/// More waits for the disk than memory is for, or the disk fails at what was kept: the log goes on without it.
#[test]
fn an_own_disk_that_cannot_be_brought_up_is_given_up() {
    let (mut world, time) = world(Fsync::Always);
    world.write(3, 1000);
    world.disks[0].set_room(Some(0));
    world.write(140, 1 << 20);
    let loss = world.log.own_loss().expect("it was given up");
    assert!(loss.contains("more waits for the disk than memory is for"), "{loss}");
    time.fetch_add(200_000_000, SeqCst);
    world.settle();
    world.help();
    assert_eq!((world.log.around(), world.log.state()), (None, State::Running));

    for syncs in 0..6 {
        let (mut world, time) = self::world(Fsync::Always);
        world.write(3, 1000);
        world.disks[0].set_room(Some(0));
        world.write(40, 1500);
        let own = world.others.streams()[0].own;
        world.disks[0].set_room(None);
        world.disks[0].fail_sync_after(syncs);
        time.fetch_add(200_000_000, SeqCst);
        world.settle();
        world.help();
        assert!(world.log.own_loss().is_some(), "{syncs}");
        assert_eq!((world.log.around(), world.log.state()), (None, State::Running));
        world.write(10, 1500);
        assert_eq!(world.others.streams()[0].own, own);
    }
}

/// A log with threads, whose copies go on without the own disk and have everything at once.
struct Running {
    others: Arc<Others>,
    log: crate::Log,
    gates: Vec<Vec<crate::Gate>>,
    left: Vec<Lsn>,
}

impl Running {
    fn start(disk: &Simulated, fsync: Fsync) -> Self {
        let others = Arc::new(Others::default());
        *others.streams() = vec![Stream::default()];
        others.lost.lock().unwrap().0 = true;
        let mut opened = Opened::of(vec![disk.clone()], &[]).unwrap();
        opened.copy_to(LEAD, others.clone());
        let limits = Limits { segment: 16384, spares: 1, reserve: 0, block: 16 << 20 };
        let settings = Settings { limits, clock: passing(10_000_000), ..settings(fsync) };
        let (log, gates) = opened.start([1; 16], Lsn(0), 1, settings).unwrap();
        Self { others, log, gates, left: Vec::new() }
    }

    /// A record that is committed.
    fn write(&mut self) {
        let lsn = leave(&mut self.gates[0][0], 0, &[]);
        self.left.push(lsn);
        self.log.ring(0);
        while self.log.marks().of(0) < lsn {
            self.log.leave_hanging();
            let held = self.others.streams()[0].blocks.last().map_or(Lsn::ZERO, |(end, _)| *end);
            self.log.hold(0, held, held);
            self.log.look(0);
            thread::park_timeout(Duration::from_micros(100));
        }
    }

    fn wait_for_own(&self) {
        while self.log.around().is_some() {
            thread::park_timeout(Duration::from_millis(1));
        }
    }

    /// The own disk has everything.
    fn end(mut self, disk: Simulated) {
        self.write();
        wait(self.log.marks(), 0, *self.left.last().unwrap());
        assert_eq!(self.log.stop(), State::Running);
        assert_eq!(super::running::found(&[disk]), self.left);
    }
}

/// Both threads of a stream wait for a disk that does not return. Others take their places.
#[test]
fn threads_that_wait_for_a_hanging_disk_are_replaced() {
    let disk = Simulated::default();
    let mut running = Running::start(&disk, Fsync::Always);
    for round in 0..3 {
        disk.stall(true);
        (0..50).for_each(|_| running.write());
        assert_eq!(running.log.around(), Some(Around::Hangs), "{round}");
        disk.stall(false);
        running.wait_for_own();
    }
    running.end(disk);
}

/// A write into the cache does not return. The thread that takes the step leaves it.
#[test]
fn a_write_into_the_cache_that_does_not_return_is_gone_around() {
    let disk = Simulated::default();
    let mut running = Running::start(&disk, Fsync::Everysec);
    for _ in 0..2 {
        (0..5).for_each(|_| running.write());
        disk.stall_writes(true);
        (0..50).for_each(|_| running.write());
        assert_eq!(running.log.around(), Some(Around::Hangs));
        disk.stall_writes(false);
        running.wait_for_own();
    }
    running.end(disk);
}
