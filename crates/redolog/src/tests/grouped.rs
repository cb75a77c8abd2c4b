//! Logs with copies: watermarks, the backlog and the end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::running::{leave, settings};
use crate::simulated::{Chance, Open, Simulated};
use crate::{
    Around, Copies, Flight, Frame, Fsync, Gate, Kind, Landed, Lead, Log, Lsn, Name, Opened, Record, Settings, State,
    Step, Stepped,
};

pub(super) const LEAD: Lead = Lead { term: 7, shard: 3, acceptor: [5; 16] };

/// A stream as two other folders have it: they take its blocks when the test wants it.
#[derive(Default)]
pub(super) struct Stream {
    /// All blocks of the term: where each ends, and its records.
    pub(super) blocks: Vec<(Lsn, Vec<Lsn>)>,
    /// The first block's place.
    first: u64,
    pub(super) own: Landed,
    /// How many blocks the others have.
    others: [usize; 2],
    syncs: usize,
    retired: Option<(Name, Lsn)>,
    /// How far it was said to have passed, and the blocks that there were then.
    pub(super) passed: Vec<(Lsn, usize)>,
}

/// Two other folders.
#[derive(Default)]
pub(super) struct Others {
    streams: Mutex<Vec<Stream>>,
    refuses: Mutex<bool>,
    /// The error for which the own folder was given up, and true if that is allowed.
    pub(super) lost: Mutex<(bool, Option<String>)>,
    /// Streams that went around their own disks, and came back.
    pub(super) around: Mutex<Vec<(u16, Option<Around>)>>,
    /// The shard is not led yet.
    waits: std::sync::atomic::AtomicBool,
    terms: std::sync::atomic::AtomicU32,
}

impl Others {
    pub(super) fn streams(&self) -> MutexGuard<'_, Vec<Stream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the blocks end that two of three have.
    fn held(&self, stream: usize) -> Lsn {
        let streams = self.streams();
        let Stream { blocks, first, own, others: [one, other], .. } = &streams[stream];
        let mut counts = [(own.synced + 1).saturating_sub(*first) as usize, *one, *other];
        counts.sort_unstable();
        counts[1].checked_sub(1).and_then(|last| blocks.get(last)).map_or(Lsn::ZERO, |(end, _)| *end)
    }
}

impl Copies for Others {
    fn departs(&self, stream: u16, frame: &Frame<'_>) -> Result<(), String> {
        if *self.refuses.lock().unwrap_or_else(PoisonError::into_inner) {
            return Err("the copies do not want it".into());
        }
        let mut bytes = Vec::new();
        frame.encode(&mut bytes).map_err(|broken| broken.0.to_string())?;
        let frame = Frame::decode(&bytes).map_err(|broken| broken.0.to_string())?;
        let term = self.terms.load(std::sync::atomic::Ordering::SeqCst).max(7);
        assert_eq!((frame.name.term, frame.shard, frame.stream), (term, 3, stream));
        let mut streams = self.streams();
        let stream = &mut streams[usize::from(stream)];
        if stream.blocks.is_empty() {
            stream.first = frame.name.sequence;
        }
        assert_eq!(frame.name.sequence, stream.first + stream.blocks.len() as u64, "in order, each once");
        let records = if frame.kind == Kind::Records { Record::all(frame.body).flatten().collect() } else { vec![] };
        stream.blocks.push((frame.cut, records.iter().map(|record| record.lsn).collect()));
        Ok(())
    }

    fn passed(&self, stream: u16, cut: Lsn) {
        let stream = &mut self.streams()[usize::from(stream)];
        let blocks = stream.blocks.len();
        stream.passed.push((cut, blocks));
    }

    fn landed(&self, stream: u16, landed: Landed) {
        let own = &mut self.streams()[usize::from(stream)].own;
        assert!(landed.written >= own.written && landed.synced >= own.synced && landed.synced <= landed.written);
        *own = landed;
    }

    fn sync(&self, stream: u16) {
        self.streams()[usize::from(stream)].syncs += 1;
    }

    fn may_retire(&self) -> bool {
        !self.waits.load(std::sync::atomic::Ordering::SeqCst)
    }

    fn retired(&self, stream: u16, last: Name, cut: Lsn) {
        self.streams()[usize::from(stream)].retired = Some((last, cut));
    }

    fn lost(&self, why: &str) -> bool {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.1 = Some(why.to_owned());
        lost.0
    }

    fn can_lack_own(&self) -> bool {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    fn around(&self, stream: u16, why: Option<Around>) {
        self.around.lock().unwrap_or_else(PoisonError::into_inner).push((stream, why));
    }
}

pub(super) struct World {
    pub(super) disks: Vec<Simulated>,
    pub(super) others: Arc<Others>,
    pub(super) log: Log,
    pub(super) gates: Vec<Vec<Gate>>,
    pub(super) stepped: Vec<Stepped<Simulated>>,
    air: Vec<Vec<Flight<Open>>>,
    pub(super) left: Vec<Lsn>,
}

impl World {
    pub(super) fn new(streams: usize, settings: Settings) -> Self {
        let disks: Vec<_> = (0..streams).map(|_| Simulated::default()).collect();
        let others = Arc::new(Others::default());
        *others.streams() = (0..streams).map(|_| Stream::default()).collect();
        let mut opened = Opened::of(disks.clone(), &[]).unwrap();
        opened.copy_to(LEAD, others.clone());
        let (log, gates, stepped) = opened.start_by_hand([1; 16], Lsn(0), 2, settings).unwrap();
        let air = (0..streams).map(|_| Vec::new()).collect();
        Self { disks, others, log, gates, stepped, air, left: Vec::new() }
    }

    pub(super) fn leave(&mut self, stream: usize, dependencies: &[Lsn]) -> Lsn {
        let lsn = leave(&mut self.gates[0][stream], stream as u16, dependencies);
        self.left.push(lsn);
        lsn
    }

    /// Everything that was left is written and lands.
    pub(super) fn settle(&mut self) {
        for stepped in &mut self.stepped {
            for _ in 0..4 {
                stepped.step(true);
            }
        }
    }

    pub(super) fn hold(&mut self, stream: usize) {
        let held = self.others.held(stream);
        self.log.hold(stream as u16, held, held);
        self.log.look(stream as u16);
    }

    pub(super) fn others_take_all(&mut self, stream: usize) {
        let streams = &mut self.others.streams()[stream];
        streams.others = [streams.blocks.len(); 2];
    }
}

#[test]
fn a_watermark_waits_for_copies() {
    let mut world = World::new(1, settings(Fsync::Always));
    let first = world.leave(0, &[]);
    world.settle();
    let own = world.others.streams()[0].own;
    assert_eq!((own.synced, own.written), (2, 2), "the start block has the first place");
    assert!(world.log.marks().of(0) < first, "the own disk alone has it");
    assert!(world.log.backlog() > 0, "it waits for copies");
    assert_eq!(world.log.facts(0).records, 1);
    world.others_take_all(0);
    world.hold(0);
    world.settle();
    assert_eq!(world.log.marks().of(0), first);
    assert_eq!((world.log.synced(0), world.log.backlog()), (first, 0));
}

#[test]
fn replies_of_everysec_wait_for_the_own_system_and_what_is_durable_for_copies() {
    let mut world = World::new(1, settings(Fsync::Everysec));
    let first = world.leave(0, &[]);
    world.settle();
    assert_eq!(world.log.marks().of(0), first);
    assert!(world.log.synced(0) < first);
    world.log.want_synced(&[first]);
    world.settle();
    assert!(world.stepped[0].help(1), "the own folder is synced");
    world.settle();
    assert_eq!(world.others.streams()[0].syncs, 1, "copies are asked, too");
    assert_eq!(world.others.streams()[0].own.synced, 2);
    assert!(world.log.synced(0) < first);
    world.others_take_all(0);
    world.hold(0);
    world.settle();
    assert_eq!(world.log.synced(0), first);
}

/// A stream waits for what another one's copies have, and not for what that one's own disk has.
#[test]
fn a_record_waits_for_copies_of_another_stream() {
    let mut world = World::new(2, settings(Fsync::Always));
    let first = world.leave(0, &[]);
    let second = world.leave(1, &[first]);
    world.settle();
    world.others_take_all(1);
    world.hold(1);
    world.settle();
    assert!(world.log.marks().of(1) < second, "it stands on a record that no majority has");
    world.others_take_all(0);
    world.hold(0);
    world.settle();
    assert_eq!(world.log.marks().of(1), second);
}

#[test]
fn a_log_that_ends_moves_no_watermark() {
    for fsync in [Fsync::Always, Fsync::Everysec] {
        let mut world = World::new(2, settings(fsync));
        let before = world.log.marks().of(0);
        world.leave(0, &[]);
        world.log.end("the shard is led in term 9".into());
        world.settle();
        world.others_take_all(0);
        world.hold(0);
        world.settle();
        assert_eq!(world.log.marks().of(0), before);
        assert_eq!(world.log.state(), State::Failed("the shard is led in term 9".into()));
        assert_eq!(world.stepped[1].step(true), crate::After::End);
    }
}

#[test]
fn a_block_that_copies_refuse_is_the_end() {
    let mut world = World::new(1, settings(Fsync::Always));
    *world.others.refuses.lock().unwrap() = true;
    world.leave(0, &[]);
    world.settle();
    assert_eq!(world.log.state(), State::Failed("stream 0: the copies do not want it".into()));
}

/// Without copies nothing is promised, and a stop does not wait for them.
#[test]
fn a_stop_does_not_wait_for_copies() {
    let disks: Vec<_> = (0..2).map(|_| Simulated::default()).collect();
    let others = Arc::new(Others::default());
    *others.streams() = (0..2).map(|_| Stream::default()).collect();
    let mut opened = Opened::of(disks.clone(), &[]).unwrap();
    opened.copy_to(LEAD, others.clone());
    let (log, mut gates) = opened.start([1; 16], Lsn(0), 1, settings(Fsync::Always)).unwrap();
    let first = leave(&mut gates[0][0], 0, &[]);
    let second = leave(&mut gates[0][1], 1, &[first]);
    log.ring(0);
    log.ring(1);
    assert_eq!(log.stop(), State::Running);
    assert!(log.marks().of(0) < first && log.marks().of(1) < second);
    let others = others.streams();
    assert_eq!(others.iter().map(|stream| stream.blocks.len()).collect::<Vec<_>>(), [1, 1], "they were sent");
}

/// A mark that a thread outside moves wakes the stream's threads, or that thread moves the watermark itself.
#[test]
fn copies_that_answer_move_the_watermark() {
    let others = Arc::new(Others::default());
    *others.streams() = vec![Stream::default()];
    let mut opened = Opened::of(vec![Simulated::default()], &[]).unwrap();
    opened.copy_to(LEAD, others.clone());
    let (log, mut gates) = opened.start([1; 16], Lsn(0), 1, settings(Fsync::Always)).unwrap();
    for _ in 0..200 {
        let lsn = leave(&mut gates[0][0], 0, &[]);
        log.ring(0);
        while log.marks().of(0) < lsn {
            let held = others.streams()[0].blocks.last().map_or(Lsn::ZERO, |(end, _)| *end);
            log.hold(0, held, held);
            log.look(0);
        }
    }
    assert!(!log.lend(0), "a worker does not write where copies are waited for");
    log.stop();
    assert_eq!(log.backlog(), 0);
}

/// Rule G10: any sync of the own disk fails, and the log goes on with the copies.
#[test]
fn a_log_goes_on_without_its_own_disk_g10() {
    for (fsync, syncs) in
        [Fsync::Always, Fsync::Everysec].into_iter().flat_map(|fsync| (0..12).map(move |at| (fsync, at)))
    {
        let mut world = World::new(2, settings(fsync));
        world.others.lost.lock().unwrap().0 = true;
        world.disks[0].fail_sync_after(syncs);
        let mut all = Vec::new();
        for _ in 0..40 {
            all.extend([world.leave(0, &[]), world.leave(1, &[])]);
            world.settle();
            world.log.want_synced(&[Lsn(u64::MAX >> 8); 2]);
            world.settle();
            world.stepped.iter_mut().for_each(|stepped| while stepped.help(0) || stepped.help(1) {});
        }
        let lost = world.others.lost.lock().unwrap().1.clone().expect("it failed");
        assert_eq!(world.log.own_loss(), Some(lost));
        assert_eq!(world.log.state(), State::Running);
        let told = [0, 1].map(|stream| world.others.streams()[stream].own);
        for stream in 0..2 {
            world.others_take_all(stream);
            let sent: Vec<Lsn> = world.others.streams()[stream].blocks.iter().flat_map(|(_, of)| of.clone()).collect();
            let wanted: Vec<Lsn> = all.iter().copied().filter(|lsn| usize::from(lsn.stream()) == stream).collect();
            assert_eq!(sent, wanted, "each record goes out once");
            let last = *wanted.last().unwrap();
            assert!(world.log.synced(stream as u16) < last, "no majority has it");
            assert!(fsync == Fsync::Everysec || world.log.marks().of(stream as u16) < last);
            world.hold(stream);
        }
        world.settle();
        for stream in 0..2 {
            let last = *all.iter().rfind(|lsn| usize::from(lsn.stream()) == stream).unwrap();
            assert_eq!((world.log.marks().of(stream as u16), world.log.synced(stream as u16)), (last, last));
        }
        assert_eq!(told, [0, 1].map(|stream| world.others.streams()[stream].own), "the own folder says nothing more");
        // The blocks that the own folder said to have are there.
        let own = world.disks.iter().map(Simulated::clone_durable).collect();
        let opened = Opened::of(own, &[]).unwrap();
        for (stream, told) in (0..).zip(told) {
            assert!(opened.recovery().chain(stream).is_some_and(|chain| chain.last().sequence >= told.synced));
        }
    }
}

/// Where the others are no majority, the log fails as one by itself (rule L9).
#[test]
fn a_log_fails_with_its_own_disk_if_copies_do_not_go_on() {
    let mut world = World::new(1, settings(Fsync::Always));
    world.disks[0].fail_sync_after(0);
    world.leave(0, &[]);
    world.settle();
    assert!(matches!(world.log.state(), State::Failed(_)) && world.log.own_loss().is_none());
}

/// Replies of `everysec` wait for what enough copies have written, once the own system counts for nothing.
#[test]
fn without_its_own_disk_everysec_waits_for_copies() {
    let mut world = World::new(1, settings(Fsync::Everysec));
    world.others.lost.lock().unwrap().0 = true;
    world.disks[0].fail_sync_after(0);
    let first = world.leave(0, &[]);
    world.settle();
    assert_eq!(world.log.marks().of(0), first);
    world.log.want_synced(&[first]);
    world.settle();
    assert!(world.stepped[0].help(1));
    world.settle();
    assert!(world.log.own_loss().is_some());
    let second = world.leave(0, &[]);
    world.settle();
    assert_eq!(world.log.marks().of(0), first);
    world.others_take_all(0);
    world.hold(0);
    world.settle();
    assert_eq!(world.log.marks().of(0), second);
}

#[test]
fn segments_that_are_given_up_are_named() {
    let mut world = World::new(1, settings(Fsync::Always));
    let mut last = Lsn::ZERO;
    while world.disks[0].names().iter().filter(|name| name.ends_with(".log")).count() < 4 {
        last = world.leave(0, &[]);
        world.settle();
        while world.stepped[0].help(0) {}
    }
    world.others_take_all(0);
    world.hold(0);
    world.others.waits.store(true, std::sync::atomic::Ordering::SeqCst);
    world.log.truncate(&[last]);
    world.settle();
    assert!(world.others.streams()[0].retired.is_none(), "others may need what no one else has");
    world.others.waits.store(false, std::sync::atomic::Ordering::SeqCst);
    world.log.ring(0);
    world.settle();
    let streams = world.others.streams();
    let (name, cut) = streams[0].retired.expect("segments were given up");
    assert_eq!(name.term, 7);
    let block = &streams[0].blocks[(name.sequence - streams[0].first) as usize];
    assert_eq!(block.0, cut);
}

/// The log goes on in another term: its start block stands behind everything that was taken, and nothing is void.
#[test]
fn another_term_begins_in_a_running_log() {
    let mut world = World::new(2, settings(Fsync::Always));
    world.leave(0, &[]);
    world.settle();
    world.log.pause(true);
    let waits = world.leave(1, &[]);
    world.settle();
    assert!(world.log.rests());
    assert!(world.others.streams()[1].blocks.is_empty(), "it takes nothing");
    world.log.rest_late(|log| log.begin_term(8));
    assert!(!world.log.rests(), "not in the term that is wanted now");
    world.settle();
    assert!(world.log.rests());
    assert_eq!(world.others.streams()[0].own, Landed { written: 3, synced: 3 });
    world.others.terms.store(8, std::sync::atomic::Ordering::SeqCst);
    world.log.pause(false);
    world.settle();
    assert_eq!(world.others.streams()[1].blocks.len(), 1);
    assert_eq!(world.others.streams()[1].first, 3, "behind two start blocks");
    world.log.stop();
    let mut opened = Opened::of(world.disks.clone(), &[]).unwrap();
    let mut found = Vec::new();
    opened.replay(|record| found.push(record.lsn)).unwrap();
    assert!(found.contains(&waits) && found.len() == 2);
    assert_eq!(opened.recovery().chain(0).map(|chain| chain.last()), Some(Name { term: 8, sequence: 3 }));
}

#[test]
fn a_log_that_is_paused_can_be_stopped() {
    let mut opened = Opened::of(vec![Simulated::default()], &[]).unwrap();
    let others = Arc::new(Others::default());
    *others.streams() = vec![Stream::default()];
    opened.copy_to(LEAD, others);
    let (log, mut gates) = opened.start([1; 16], Lsn(0), 1, settings(Fsync::Always)).unwrap();
    log.pause(true);
    leave(&mut gates[0][0], 0, &[]);
    log.ring(0);
    assert_eq!(log.stop(), State::Running);
}

/// Random steps, then any folder is lost: what was promised is in the longer one of the two others. In some walks a disk
/// of the own folder fails before (rule G10). `trusts_own`: the planted mistake P7.
fn lose_a_folder(seed: u64, streams: usize, trusts_own: bool) -> Result<(), String> {
    let mut world = World::new(streams, settings(Fsync::Always));
    let mut chance = Chance(seed);
    if trusts_own {
        world.stepped.iter_mut().for_each(Stepped::trust_own);
    }
    // Of several streams a recovery of the own folder alone gives less than the folder has.
    if seed.is_multiple_of(3) && streams == 1 {
        world.others.lost.lock().unwrap_or_else(PoisonError::into_inner).0 = true;
        world.disks[chance.below(streams as u64) as usize].fail_sync_after(chance.below(8));
    }
    let mut last = Lsn::ZERO;
    for _ in 0..60 {
        let stream = chance.below(streams as u64) as usize;
        match chance.below(6) {
            0 => last = world.leave(stream, if last == Lsn::ZERO { &[] } else { std::slice::from_ref(&last) }),
            1 | 2 => {
                if let Step::Write(flight) = world.stepped[stream].step_apart(true) {
                    world.air[stream].push(flight);
                }
            }
            3 if !world.air[stream].is_empty() => {
                let at = chance.below(world.air[stream].len() as u64) as usize;
                let flight = world.air[stream].swap_remove(at);
                let written = flight.write();
                world.stepped[stream].land(flight, written);
            }
            4 => {
                let mut all = world.others.streams();
                let other = chance.below(2) as usize;
                let has = &mut all[stream].others[other];
                *has += chance.below(3) as usize;
                let most = all[stream].blocks.len();
                all[stream].others[other] = all[stream].others[other].min(most);
            }
            _ => world.hold(stream),
        }
    }
    let marks: Vec<Lsn> = world.log.marks().all().collect();
    let lost = chance.below(3);
    world.disks.iter().for_each(|disk| disk.crash(&mut chance));
    let own = if lost == 0 { Vec::new() } else { super::running::found(&world.disks) };
    for (stream, mark) in marks.iter().enumerate() {
        let streams = world.others.streams();
        let Stream { blocks, others, .. } = &streams[stream];
        let left = others.iter().zip(1..).filter(|(_, other)| *other != lost).map(|(count, _)| *count).max();
        let theirs: Vec<Lsn> =
            blocks.iter().take(left.unwrap_or(0)).flat_map(|(_, records)| records).copied().collect();
        let promised = world.left.iter().filter(|lsn| usize::from(lsn.stream()) == stream && *lsn <= mark);
        if let Some(gone) = promised.into_iter().find(|lsn| !own.contains(lsn) && !theirs.contains(lsn)) {
            return Err(format!("record {gone} was promised and is lost"));
        }
    }
    Ok(())
}

#[test]
fn nothing_promised_is_lost_with_one_folder() {
    for seed in 0..600 {
        lose_a_folder(seed, 1 + seed as usize % 2, false).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

#[test]
fn p7_a_watermark_of_the_own_disk_is_noticed() {
    let noticed = (0..600).find(|seed| lose_a_folder(*seed, 1, true).is_err());
    assert!(noticed.is_some(), "a promised record was lost with the own disk");
}

impl World {
    /// How many blocks went out, and how many records the last one has.
    fn blocks(&self) -> (usize, usize) {
        let streams = self.others.streams();
        (streams[0].blocks.len(), streams[0].blocks.last().map_or(0, |(_, records)| records.len()))
    }

    /// A block of so many records, which all copies have.
    fn block_of(&mut self, records: usize) {
        for _ in 0..records {
            self.leave(0, &[]);
        }
        self.settle();
        self.others_take_all(0);
        self.hold(0);
        self.settle();
    }

    fn ahead(&mut self, ahead: u64, has_room: bool) {
        self.log.note_ahead(0, ahead, has_room);
        self.log.look(0);
        self.settle();
    }
}

/// Blocks that copies could not take yet would be small, and wait.
#[test]
fn records_collect_while_copies_have_no_room() {
    let mut world = World::new(1, settings(Fsync::Always));
    world.ahead(4, false);
    for _ in 0..3 {
        world.leave(0, &[]);
        world.log.ring(0);
        world.settle();
    }
    assert_eq!(world.blocks(), (0, 0));
    world.ahead(3, true);
    assert_eq!(world.blocks(), (1, 3), "one block has them all");
    world.others_take_all(0);
    world.hold(0);
    world.settle();
    assert_eq!(world.log.marks().of(0), *world.left.last().unwrap());
}

/// As with blocks in flight to the own disk, another one departs beside them if it is about as large as blocks are.
#[test]
fn a_small_block_waits_for_those_ahead_of_copies() {
    let mut world = World::new(1, settings(Fsync::Always));
    (0..30).for_each(|_| world.block_of(10));
    world.ahead(1, true);
    world.leave(0, &[]);
    world.settle();
    assert_eq!(world.blocks().0, 30, "it is small");
    for _ in 0..9 {
        world.leave(0, &[]);
    }
    world.log.ring(0);
    world.settle();
    assert_eq!(world.blocks(), (31, 10));
    world.ahead(2, true);
    world.leave(0, &[]);
    world.settle();
    assert_eq!(world.blocks().0, 31);
    world.ahead(0, true);
    assert_eq!(world.blocks(), (32, 1), "nothing is ahead of it");
}

/// With `everysec` replies do not wait for copies, so nothing else does.
#[test]
fn copies_without_room_hold_nothing_up_whose_replies_do_not_wait_for_them() {
    let mut world = World::new(1, settings(Fsync::Everysec));
    world.ahead(4, false);
    let first = world.leave(0, &[]);
    world.settle();
    assert_eq!((world.blocks(), world.log.marks().of(0)), ((1, 1), first));

    let mut world = World::new(1, settings(Fsync::Always));
    world.ahead(4, false);
    let first = world.leave(0, &[]);
    world.settle();
    assert_eq!(world.blocks(), (0, 0));
    world.log.set_fsync(Fsync::Everysec);
    world.settle();
    world.settle();
    assert_eq!(world.blocks(), (1, 1), "it goes out, and waits for a majority, as it was left before");
    assert!(world.log.marks().of(0) < first);
}

/// Rule L6: a record keeps the promise under which it was left, and copies are asked to sync. One of later waits behind it.
#[test]
fn a_weaker_setting_takes_no_promise_back_l6() {
    let mut world = World::new(2, settings(Fsync::Always));
    let first = world.leave(0, &[]);
    world.settle();
    let late = world.leave(0, &[first]);
    let syncs = world.others.streams()[0].syncs;
    world.log.set_fsync(Fsync::Everysec);
    for _ in 0..3 {
        world.settle();
    }
    assert!(world.others.streams()[0].syncs > syncs, "a copy may have the last of them in its cache");
    let second = world.leave(0, &[]);
    let third = world.leave(1, &[second]);
    world.settle();
    assert!(world.log.marks().of(0) < first, "no majority has it");
    assert!(world.log.marks().of(1) < third);
    let end = world.others.streams()[0].blocks.iter().find(|(end, _)| *end >= late).map(|(end, _)| *end).unwrap();
    world.log.hold(0, end, end);
    world.log.look(0);
    world.settle();
    assert_eq!(
        (world.log.marks().of(0), world.log.marks().of(1)),
        (second, third),
        "the rest waits for the own system"
    );
    world.log.set_fsync(Fsync::Always);
    for _ in 0..3 {
        world.settle();
    }
    let last = world.leave(0, &[]);
    world.settle();
    assert!(world.log.marks().of(0) < last);
}

/// Records that a stream's sleeping threads have not taken are taken when copies have room, rung for or not.
#[test]
fn threads_are_woken_when_copies_have_room() {
    let others = Arc::new(Others::default());
    *others.streams() = vec![Stream::default()];
    let mut opened = Opened::of(vec![Simulated::default()], &[]).unwrap();
    opened.copy_to(LEAD, others.clone());
    let (log, mut gates) = opened.start([1; 16], Lsn(0), 1, settings(Fsync::Always)).unwrap();
    for round in 0..200 {
        let has_room = round % 3 == 0;
        log.note_ahead(0, 2, has_room);
        let lsn = leave(&mut gates[0][0], 0, &[]);
        if round % 2 == 0 {
            log.ring(0);
        }
        log.look(0);
        if !has_room {
            assert!(others.streams()[0].blocks.last().is_none_or(|(end, _)| *end < lsn));
        }
        log.note_ahead(0, 0, true);
        log.look(0);
        // Otherwise it waits for ever.
        while others.streams()[0].blocks.last().is_none_or(|(end, _)| *end < lsn) {
            std::thread::yield_now();
        }
    }
    log.note_ahead(0, 9, false);
    let last = leave(&mut gates[0][0], 0, &[]);
    log.ring(0);
    assert_eq!(log.stop(), State::Running, "a stop does not wait for room");
    assert!(others.streams()[0].blocks.last().is_some_and(|(end, _)| *end >= last));
}
