//! Folders of acceptors are logs: whatever reads a log reads them, and their frames are the owner's.

use std::sync::{Arc, Mutex, PoisonError};

use quorum::{AcceptorId, Base, Block, BlockId, Cut, FolderLife, Keep, StreamId};
use redolog::simulated::{Chance, Simulated};
use redolog::{Disk, Opened, Reader, Replica};

use super::made::{LIMITS, SHARD, id, lsn, record, start, term};
use crate::folder::encoded;
use crate::local::{Came, Task, carry_out};
use crate::{Folder, Own, Place, Unusable, shard_of_own};

const STREAM: StreamId = StreamId(0);
const ACCEPTOR: AcceptorId = AcceptorId([0xac; 16]);

/// A folder with one stream, in which tasks are carried out one after the other.
struct One {
    own: Simulated,
    stream: Simulated,
    hand: Replica<Simulated>,
    life: u64,
    last: BlockId,
}

impl One {
    fn new() -> Self {
        let (own, stream) = (Simulated::default(), Simulated::default());
        let place = Place { own: own.clone(), streams: vec![stream.clone()], locks: Vec::new() };
        let folder = Folder::make(place, SHARD, ACCEPTOR, LIMITS).expect("room");
        Self::of(own, stream, folder)
    }

    fn of(own: Simulated, stream: Simulated, mut folder: Folder<Simulated>) -> Self {
        let found = folder.found().expect("a history").remove(0);
        let hand = folder.streams.remove(0);
        let mut one = Self { own, stream, hand, life: found.life.0, last: found.history.last() };
        one.keep(one.last);
        one
    }

    fn again(self) -> Self {
        let place = Place { own: self.own.clone(), streams: vec![self.stream.clone()], locks: Vec::new() };
        let folder = Folder::open(place, SHARD, LIMITS).unwrap_or_else(|why| panic!("{why}"));
        Self::of(self.own, self.stream, folder)
    }

    fn carry_out(&mut self, task: &Task) {
        match carry_out(&mut self.hand, (SHARD, STREAM), task) {
            Ok(Came::Departed(departed)) => {
                departed.flight.write().expect("power");
                self.hand.land(departed.flight);
            }
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn begin(&mut self, keep: Keep, last: BlockId) {
        self.life += 1;
        self.carry_out(&Task::Begin { life: FolderLife(self.life), keep, last });
        self.last = last;
    }

    fn keep(&mut self, last: BlockId) {
        self.begin(Keep::UpTo(last.sequence), last);
    }

    fn write(&mut self, block: &Block, through: bool) {
        self.carry_out(&Task::Write { life: FolderLife(self.life), through, block: block.clone() });
        self.last = block.id;
    }

    /// A start block and records up to a place.
    fn lead(&mut self, of: u32, upto: u64, through: bool) -> Vec<Block> {
        let mut made = vec![start(self.last, of, self.hand.last().1)];
        self.write(&made[0].clone(), through);
        while self.last.sequence < upto {
            let block = record(STREAM, self.last, of, self.last.sequence * 10 + u64::from(of), &[7; 900]);
            self.write(&block, through);
            made.push(block);
        }
        made
    }
}

fn blocks<D: Disk>(reader: &mut Reader<D>, from: u64, upto: u64, most: usize) -> Vec<Block> {
    let mut blocks = Vec::new();
    reader.read(from, upto, most, |frame, bytes| blocks.extend(encoded(SHARD, frame, bytes))).expect("it can be read");
    blocks
}

fn replayed(disk: &Simulated) -> Vec<u64> {
    let mut found = Vec::new();
    let mut opened = Opened::of(vec![disk.clone()], &[]).unwrap_or_else(|damage| panic!("{damage}"));
    opened.replay(|record| found.push(record.lsn.0)).unwrap_or_else(|damage| panic!("{damage}"));
    found
}

/// Blocks that were dropped are void, wherever the drop begins, and the bytes of others are the owner's.
#[test]
fn a_folder_of_an_acceptor_is_a_log() {
    let mut one = One::new();
    let first = one.lead(1, 12, true);
    assert_eq!(blocks(&mut one.hand.reader(), 1, 99, usize::MAX), first);
    // The second term had no record, and voids nothing. The third one has neither the block nor four others.
    let second = start(one.last, 2, one.hand.last().1);
    one.write(&second, false);
    one.keep(id(1, 9));
    let third = one.lead(3, 20, false);
    let kept: Vec<Block> = first.iter().take(9).chain(&third).cloned().collect();
    let mut reader = one.hand.reader();
    assert_eq!(blocks(&mut reader, 1, 99, usize::MAX), kept);
    // One after the other, and behind a place that was read.
    for (at, block) in (1..).zip(&kept) {
        assert_eq!(blocks(&mut reader, at, at, 0), std::slice::from_ref(block), "block {at}");
    }
    assert_eq!(blocks(&mut reader, 21, 30, usize::MAX), []);
    let more = record(STREAM, one.last, 3, 999, b"later");
    one.write(&more, true);
    assert_eq!(
        blocks(&mut reader, 20, 30, usize::MAX),
        [kept[19].clone(), more.clone()],
        "of a folder that is written"
    );
    let records: Vec<u64> = kept.iter().chain([&more]).filter(|b| !b.is_start).map(|b| b.cut.0).collect();
    assert_eq!(replayed(&one.stream), records);
    let one = one.again();
    assert_eq!(one.last, more.id);
    assert_eq!(replayed(&one.stream), records);
}

/// A drop may reach below a term's start block that had voided records: they count again.
#[test]
fn a_drop_reaches_below_a_start_that_voids() {
    let mut one = One::new();
    one.lead(1, 3, true);
    one.write(&start(one.last, 2, lsn(STREAM, 11)), true);
    assert_eq!(replayed(&one.stream), [lsn(STREAM, 11).0], "the last record is void");
    one.keep(id(1, 3));
    let mut one = one.again();
    assert_eq!(replayed(&one.stream), [lsn(STREAM, 11).0, lsn(STREAM, 21).0]);
    one.lead(3, 6, true);
    assert_eq!(one.again().last, id(3, 6));
}

/// Segments are given up by places. Whatever is left opens, also if the power fails between two of them.
#[test]
fn whole_segments_are_cut() {
    for seed in 0..60 {
        let mut chance = Chance(seed);
        let mut one = One::new();
        one.lead(1, 30, true);
        one.keep(id(1, 12));
        one.lead(2, 30, true);
        one.keep(id(1, 10));
        one.lead(3, 40, true);
        let base = 5 + chance.below(30);
        one.stream.fail_power_after(chance.below(30));
        let given_up = one.hand.retire(base).give_up();
        one.stream.crash(&mut chance);
        let one = one.again();
        assert_eq!(one.last, id(3, 40), "seed {seed}, base {base}");
        let left = blocks(&mut one.hand.reader(), base + 1, 40, usize::MAX);
        assert_eq!(left.len() as u64, 40 - base, "seed {seed}: {given_up:?}");
        let names = one.stream.names();
        if given_up.is_ok() && base >= 30 {
            assert!(names.iter().filter(|name| name.ends_with(".log")).count() < 8, "{names:?}");
        }
    }
}

/// A folder that begins elsewhere forgets what it had, at once.
#[test]
fn a_reset_begins_elsewhere() {
    let mut one = One::new();
    one.lead(1, 20, true);
    let base = Base { id: id(4, 100), cut: Cut(lsn(STREAM, 5000).0) };
    one.begin(Keep::Nothing(base), base.id);
    let (before, names) = (one.last, one.stream.names());
    assert_eq!(
        names.iter().filter(|name| name.ends_with(".log") && !name.starts_with("spare")).count(),
        1,
        "{names:?}"
    );
    one.write(&record(STREAM, before, 4, 5001, b"first"), true);
    let one = one.again();
    assert_eq!((one.last, replayed(&one.stream)), (id(4, 101), vec![lsn(STREAM, 5001).0]));
}

/// Rule G9: a folder that lost anything is no acceptor.
#[test]
fn a_folder_that_lost_anything_does_not_open() {
    let open = |own: &Simulated, stream: &Simulated| {
        let place = Place { own: own.clone(), streams: vec![stream.clone()], locks: Vec::new() };
        Folder::open(place, SHARD, LIMITS).map(|folder| folder.acceptor())
    };
    let made = || {
        let mut one = One::new();
        one.lead(1, 20, true);
        one.hand.close().expect("power");
        (one.own, one.stream)
    };
    let (own, stream) = made();
    assert_eq!(open(&own, &stream).expect("nothing is lost"), ACCEPTOR);
    assert!(matches!(open(&own, &Simulated::default()), Err(Unusable::Lost(_))), "its stream is gone");
    assert!(matches!(open(&Simulated::default(), &stream), Err(Unusable::Empty)), "its name is gone");
    let newest = stream.names().into_iter().filter(|name| name.ends_with(".log")).max().expect("a segment");
    stream.remove(&newest).expect("it is there");
    assert!(matches!(open(&own, &stream), Err(Unusable::Damaged(_))), "the newest segment is gone");
    let (own, stream) = made();
    own.remove("promise").expect("it is there");
    assert!(matches!(open(&own, &stream), Err(Unusable::Lost(_))), "its promise is gone");
    // Nor does a new one take its place.
    let place = Place { own: own.clone(), streams: vec![stream], locks: Vec::new() };
    assert!(Folder::make(place, SHARD, AcceptorId([1; 16]), LIMITS).is_err());
    let (_, stream) = made();
    let place = || Place { own: Simulated::default(), streams: vec![stream.clone()], locks: Vec::new() };
    let made_of_it = Folder::make(place(), SHARD, AcceptorId([1; 16]), LIMITS);
    assert!(matches!(made_of_it, Err(Unusable::Lost(_))), "the blocks of an acceptor whose name is gone");
    let other = Place { own: made().0, streams: vec![Simulated::default(); 2], locks: Vec::new() };
    assert!(matches!(Folder::open(other, SHARD, LIMITS), Err(Unusable::Lost(_))), "another number of streams");
}

/// A folder whose making ended before it got its name is made anew.
#[test]
fn a_folder_without_a_name_is_made_anew() {
    let One { stream, .. } = One::new();
    let own = Simulated::default();
    let place = || Place { own: own.clone(), streams: vec![stream.clone()], locks: Vec::new() };
    let other = AcceptorId([1; 16]);
    let folder = Folder::make(place(), SHARD, other, LIMITS).unwrap_or_else(|why| panic!("{why}"));
    let mut one = One::of(own.clone(), stream.clone(), folder);
    one.lead(1, 3, true);
    let folder = Folder::open(place(), SHARD, LIMITS).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!((folder.acceptor(), folder.streams[0].last().0), (other, crate::folder::name_of(id(1, 3))));
}

/// Rule L11: the first directory of a log is away, and the name of its acceptor with it. The others are not a log of
/// another shard.
#[test]
fn a_log_whose_name_is_away_is_told() {
    let path = std::env::temp_dir().join(format!("holdfast-nameless-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let logs = ["a", "b"].map(|name| path.join(name));
    let at = |id| Own::at(&logs, SHARD, None, LIMITS, AcceptorId([id; 16])).map(|own| own.acceptor());
    at(1).unwrap_or_else(|why| panic!("{why}"));
    std::fs::remove_dir_all(&logs[0]).expect("it is there");
    // An acceptor that has no blocks may be made anew.
    assert_eq!(shard_of_own(&logs).expect("it can be read"), None);
    assert_eq!(at(2).unwrap_or_else(|why| panic!("{why}")), AcceptorId([2; 16]));
    let holder = redolog::Holder { acceptor: [2; 16], shard: SHARD.0, stream: 1, streams: 2 };
    let disk = redolog::Folder::new(&logs[1]).expect("it is there");
    let mut hand = Replica::open(disk, holder, LIMITS).unwrap_or_else(|damage| panic!("{damage}"));
    hand.begin(hand.life() + 1, redolog::Keep::UpTo(redolog::Name::default())).expect("room");
    let first = start(BlockId::default(), 1, lsn(StreamId(1), 0));
    let frame = crate::folder::decoded(SHARD, StreamId(1), term(0), &first).expect("a start block");
    hand.put(&frame).expect("room");
    drop(hand);
    assert_eq!(at(3).unwrap_or_else(|why| panic!("{why}")), AcceptorId([2; 16]), "it has its name");
    std::fs::remove_dir_all(&logs[0]).expect("it is there");
    assert_eq!(shard_of_own(&logs).expect("it can be read"), Some(SHARD));
    let says = format!("not in {}", logs[0].display());
    assert!(matches!(at(4), Err(Unusable::Lost(why)) if why.contains(&says)));
    std::fs::remove_dir_all(&path).expect("removed");
}

/// A copy whose node comes to own the shard is the owner's log, under its own name, and a copy again if another node
/// owns the shard.
#[test]
fn a_copy_becomes_a_log_and_a_copy_again() {
    let path = std::env::temp_dir().join(format!("holdfast-becomes-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let directories = ["a", "b"].map(|name| path.join(name));
    let acceptors = crate::Acceptors::new(LIMITS, None);
    let id = acceptors.make(&directories, SHARD, 3, None, ACCEPTOR).unwrap_or_else(|why| panic!("{why}"));
    acceptors.close(id).expect("it stops");
    let logs = crate::logs_of_copy(&directories, SHARD, 3).unwrap_or_else(|why| panic!("{why}"));
    assert!(crate::is_acceptor(&logs));
    assert_eq!(shard_of_own(&logs).expect("it can be read"), Some(SHARD));
    let other = AcceptorId([9; 16]);
    let own = Own::at(&logs, SHARD, None, LIMITS, other).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(own.acceptor(), ACCEPTOR, "no other one is made");
    assert!(acceptors.open_log(&logs, SHARD, None).is_err(), "it is in use");
    drop(own);
    assert_eq!(crate::name_of_own(&logs, SHARD, None, other).unwrap_or_else(|why| panic!("{why}")), ACCEPTOR);
    let again = acceptors.open_log(&logs, SHARD, None).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(again, ACCEPTOR);
    // It is not wanted any more.
    std::fs::create_dir(logs[0].join("other")).expect("a folder");
    acceptors.remove(again).expect("it can be removed");
    assert!(!crate::is_acceptor(&logs) && logs[0].join("other").exists());
    let files = |log: &std::path::PathBuf| std::fs::read_dir(log).expect("it is there").count();
    assert_eq!(logs.iter().map(files).collect::<Vec<_>>(), [1, 0, 0]);
    std::fs::remove_dir_all(&path).expect("removed");
}

/// A real folder, for `holdfast check`, which reads a log by [`redolog::check`].
#[test]
fn the_offline_check_reads_a_folder() {
    let path = std::env::temp_dir().join(format!("holdfast-copies-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let place = Place::at(&path, SHARD, 1).expect("a folder");
    let folder = Folder::make(place, SHARD, ACCEPTOR, LIMITS).unwrap_or_else(|why| panic!("{why}"));
    let local = crate::Local::start(folder).unwrap_or_else(|why| panic!("{why}"));
    let heard: Arc<Mutex<Vec<crate::Heard>>> = Arc::default();
    let ears = heard.clone();
    let caller = local.caller(Arc::new(move |_, what| {
        ears.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }));
    let send = |order| crate::Port::send(&caller, quorum::Request { shard: SHARD, term: term(1), order });
    send(quorum::Order::Seal);
    let is_sealed = |what: &crate::Heard| {
        matches!(what, crate::Heard::Reply(quorum::Reply { report: quorum::Report::Sealed { .. }, .. }))
    };
    while !heard.lock().unwrap_or_else(PoisonError::into_inner).iter().any(is_sealed) {
        std::thread::yield_now();
    }
    let mut before = BlockId::default();
    for count in 1..=30 {
        let block = match count {
            1 => start(before, 1, lsn(STREAM, 0)),
            count => record(STREAM, before, 1, count, &[7; 900]),
        };
        let id = block.id;
        send(quorum::Order::Append { stream: STREAM, before, committed: 0, through: true, block });
        before = id;
    }
    let last = |what: &crate::Heard| matches!(what, crate::Heard::Reply(quorum::Reply { report: quorum::Report::Ack { synced, .. }, .. }) if *synced == before);
    while !heard.lock().unwrap_or_else(PoisonError::into_inner).iter().any(last) {
        std::thread::yield_now();
    }
    local.stop().expect("the disk works");
    let report = redolog::check(&[path.join("shard-7/stream-0")]).unwrap_or_else(|damage| panic!("{damage}"));
    assert_eq!(report.streams.iter().map(|stream| stream.records).sum::<u64>(), 29);
    let place = Place::at(&path, SHARD, 1).expect("a folder");
    let folder = Folder::open(place, SHARD, LIMITS).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!((folder.acceptor(), folder.promised()), (ACCEPTOR, term(1)));
    drop(folder);
    std::fs::remove_dir_all(&path).expect("removed");
}
