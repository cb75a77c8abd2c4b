//! A standby that follows.

use quorum::{Base, BlockId, Cut, History, Run, StreamId};

use super::{id, term};
use crate::{Block, Busy, Follower, Gap, Memory};

const FIRST: StreamId = StreamId(0);
const SECOND: StreamId = StreamId(1);

fn block(name: BlockId, cut: u64, records: &[u64]) -> Block {
    Block { id: name, cut: Cut(cut), is_start: false, records: records.iter().copied().map(Cut).collect() }
}

fn start(name: BlockId, cut: u64) -> Block {
    Block { id: name, cut: Cut(cut), is_start: true, records: Vec::new() }
}

/// Two streams with the start blocks of term 1.
fn follower() -> Follower {
    let mut follower = Follower::new(Cut(0), Cut(0), &[(BlockId::default(), Cut(0)); 2]).expect("no gap");
    for stream in [FIRST, SECOND] {
        follower.block(stream, start(id(1, 1), 0));
        follower.committed(stream, id(1, 1));
    }
    follower
}

fn apply(follower: &mut Follower) -> Vec<u64> {
    let batch = follower.next(9).into_iter().map(|apply| apply.lsn.0).collect();
    follower.done();
    batch
}

#[test]
fn records_are_applied_in_order_up_to_the_lowest_committed_cut_s1() {
    let mut follower = follower();
    follower.block(FIRST, block(id(1, 2), 40, &[10, 30]));
    assert!(apply(&mut follower).is_empty(), "nothing is committed");
    follower.committed(FIRST, id(1, 2));
    assert!(apply(&mut follower).is_empty(), "the other stream may bring a lower one");
    follower.block(SECOND, block(id(1, 2), 25, &[20]));
    follower.committed(SECOND, id(1, 2));
    assert_eq!(apply(&mut follower), [10, 20]);
    follower.quiet(SECOND, id(1, 2), Cut(35));
    assert_eq!((apply(&mut follower), follower.applied()), (vec![30], Cut(30)));
}

#[test]
fn readers_and_checkpoints_pass_between_batches_s3() {
    let mut follower = follower();
    follower.block(FIRST, block(id(1, 2), 40, &[10, 30]));
    follower.committed(FIRST, id(1, 2));
    follower.quiet(SECOND, id(1, 1), Cut(90));
    assert_eq!(follower.next(1).len(), 1);
    assert_eq!((follower.checkpoint(), follower.next(1).len()), (Err(Busy), 0));
    follower.done();
    assert_eq!(follower.checkpoint(), Ok(Cut(10)));
    assert_eq!(apply(&mut follower), [30]);
    assert_eq!(follower.checkpoint(), Ok(Cut(30)), "and not what the owner said alone");
}

#[test]
fn a_store_keeps_what_a_majority_has_g7() {
    let mut follower = follower();
    follower.block(FIRST, block(id(1, 2), 40, &[10, 30]));
    follower.block(FIRST, block(id(1, 3), 60, &[50]));
    follower.committed(FIRST, id(1, 3));
    follower.quiet(SECOND, id(1, 1), Cut(90));
    assert_eq!(apply(&mut follower), [10, 30, 50]);
    assert_eq!(follower.flushable(), Cut(9));
    follower.synced(FIRST, id(1, 2));
    assert_eq!(follower.flushable(), Cut(49));
    follower.synced(FIRST, id(1, 3));
    assert_eq!(follower.flushable(), Cut(50));
}

/// Below `always` a record may be applied that stands on a lost one. Its block is in the log of the next term, and comes
/// to be on the disks of a majority with that term's start, which says that the record is void. A store that had it would
/// have it for good: the standby starts again from there.
#[test]
fn a_store_waits_for_the_start_that_says_what_is_void_g7() {
    let mut follower = follower();
    follower.block(FIRST, block(id(1, 2), 40, &[10, 30]));
    follower.committed(FIRST, id(1, 2));
    follower.quiet(SECOND, id(1, 1), Cut(90));
    assert_eq!(apply(&mut follower), [10, 30]);
    follower.synced(FIRST, id(2, 3));
    assert_eq!(follower.flushable(), Cut(9), "the start is not read");
    follower.block(FIRST, start(id(2, 3), 10));
    assert_eq!(follower.flushable(), Cut(9), "the start is not known to be committed");
    follower.committed(FIRST, id(2, 3));
    assert!(follower.must_start_again());
    assert_eq!(follower.flushable(), Cut(9));
}

#[test]
fn what_has_passed_is_applied_or_never_comes() {
    let mut follower = follower();
    assert_eq!(follower.passed(), Ok(Cut(0)));
    follower.block(FIRST, block(id(1, 2), 40, &[10, 30]));
    follower.committed(FIRST, id(1, 2));
    follower.quiet(SECOND, id(1, 1), Cut(90));
    assert_eq!(follower.passed(), Ok(Cut(9)));
    assert_eq!(follower.next(1).len(), 1);
    assert_eq!(follower.passed(), Err(Busy));
    follower.done();
    assert_eq!(follower.passed(), Ok(Cut(29)));
    assert_eq!(apply(&mut follower), [30]);
    assert_eq!(follower.passed(), Ok(Cut(40)));
    follower.block(SECOND, start(id(2, 2), 35));
    follower.committed(SECOND, id(2, 2));
    assert_eq!(follower.passed(), Ok(Cut(30)), "the first stream is not settled in the second term");
}

#[test]
fn a_start_says_which_records_before_it_are_void() {
    let mut follower = follower();
    follower.block(FIRST, block(id(1, 2), 40, &[10, 30]));
    follower.quiet(SECOND, id(1, 1), Cut(90));
    // The second term has taken the block over, and cut its second record. The mark comes before the start.
    follower.committed(FIRST, id(2, 3));
    assert!(apply(&mut follower).is_empty());
    follower.block(FIRST, start(id(2, 3), 10));
    follower.block(FIRST, block(id(2, 4), 20, &[20]));
    follower.committed(FIRST, id(2, 4));
    assert!(apply(&mut follower).is_empty(), "the other stream is not settled in the second term");
    follower.block(SECOND, start(id(2, 2), 0));
    follower.committed(SECOND, id(2, 2));
    assert!(apply(&mut follower).is_empty(), "what the first owner said of its idle stream binds no other");
    follower.quiet(SECOND, id(2, 2), Cut(21));
    assert_eq!(apply(&mut follower), [10, 20]);
    assert!(!follower.must_start_again());
}

/// Below `always` the first owner has called a record committed, and the second has cut it as it stands on one that is
/// lost. The other stream, where that one was, is settled in the second term already.
#[test]
fn a_word_of_an_earlier_term_waits_for_the_start_of_the_later_one_s1() {
    let mut follower = follower();
    follower.block(FIRST, block(id(1, 2), 40, &[30]));
    follower.committed(FIRST, id(1, 2));
    follower.block(SECOND, start(id(2, 2), 0));
    follower.committed(SECOND, id(2, 2));
    follower.quiet(SECOND, id(2, 2), Cut(90));
    assert!(apply(&mut follower).is_empty());
    follower.block(FIRST, start(id(2, 3), 0));
    follower.committed(FIRST, id(2, 3));
    follower.quiet(FIRST, id(2, 3), Cut(90));
    assert!(apply(&mut follower).is_empty() && !follower.must_start_again());
}

#[test]
fn a_standby_that_has_applied_more_than_a_seal_keeps_starts_again_s8() {
    let ahead = || {
        let mut follower = follower();
        follower.block(FIRST, block(id(1, 2), 40, &[10, 30]));
        follower.committed(FIRST, id(1, 2));
        follower.quiet(SECOND, id(1, 1), Cut(90));
        assert_eq!(apply(&mut follower), [10, 30]);
        follower
    };
    let mut dropped = ahead();
    dropped.dropped(FIRST, 1);
    assert!(dropped.must_start_again() && dropped.next(1).is_empty());
    let mut cut = ahead();
    cut.block(FIRST, start(id(2, 3), 10));
    cut.committed(FIRST, id(2, 3));
    assert!(cut.must_start_again());
    // The same for one that is to go on with its memory.
    let base = Base { id: BlockId::default(), cut: Cut(0) };
    let log =
        |last, cut| (History::from_runs(base, vec![Run { first: 1, term: term(1) }], last).expect("runs"), Cut(cut));
    let memory = ahead().memory();
    assert!(memory.is_within(&[log(2, 30), log(1, 0)]));
    assert!(!memory.is_within(&[log(2, 10), log(1, 0)]) && !memory.is_within(&[log(1, 30), log(1, 0)]));
    assert!(!memory.is_within(&[log(2, 30)]) && Memory::default().is_within(&[]));
}

#[test]
fn a_store_that_lacks_what_the_log_has_given_up_is_no_beginning() {
    let begins = [(id(1, 5), Cut(50)), (id(1, 2), Cut(20))];
    assert_eq!(Follower::new(Cut(49), Cut(49), &begins).err(), Some(Gap));
    let mut follower = Follower::new(Cut(60), Cut(60), &begins).expect("no gap");
    follower.block(FIRST, block(id(1, 6), 70, &[55, 60, 65]));
    follower.committed(FIRST, id(1, 6));
    follower.quiet(SECOND, id(1, 2), Cut(80));
    assert_eq!(apply(&mut follower), [65], "the store has the others");
}

/// Two workers have given one LSN: their records are applied together, once.
#[test]
fn records_with_one_lsn_are_one() {
    let mut follower = follower();
    follower.block(FIRST, block(id(1, 2), 40, &[10, 10, 30]));
    follower.committed(FIRST, id(1, 2));
    follower.quiet(SECOND, id(1, 1), Cut(90));
    assert_eq!(apply(&mut follower), [10, 30]);
}

/// A folder is cut while its standby reads old blocks, of which it has everything. What it lacks may not go.
#[test]
fn a_stream_begins_later_if_nothing_is_lacking() {
    let mut follower = Follower::new(Cut(50), Cut(50), &[(BlockId::default(), Cut(0)); 2]).expect("no gap");
    follower.block(FIRST, start(id(1, 1), 0));
    follower.committed(FIRST, id(1, 1));
    assert_eq!(follower.begins(FIRST, id(1, 5), Cut(60)), Err(Gap));
    assert_eq!(follower.begins(FIRST, id(1, 4), Cut(40)), Ok(()));
    assert_eq!(follower.begins(FIRST, id(1, 1), Cut(90)), Ok(()), "it was read");
    follower.block(FIRST, block(id(1, 5), 70, &[45, 60]));
    follower.committed(FIRST, id(1, 5));
    follower.block(SECOND, start(id(1, 1), 0));
    follower.committed(SECOND, id(1, 1));
    assert!(apply(&mut follower).is_empty());
    follower.quiet(SECOND, id(1, 1), Cut(90));
    assert_eq!(apply(&mut follower), [60]);
}
