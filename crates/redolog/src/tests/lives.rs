//! Lives of a folder with a copy of a stream: what is dropped, and what stands.

use std::sync::Arc;

use crate::format::Mark;
use crate::place::{Placer, Position};
use crate::scan::Scan;
use crate::segments::Identity;
use crate::simulated::{Chance, Simulated};
use crate::{Format, Frame, Kind, Limits, Lsn, Name, Opened, Record, Run};

const LIMITS: Limits = Limits { segment: 8192, spares: 1, reserve: 0, block: 16 << 20 };

fn name(term: u32, sequence: u64) -> Name {
    Name { term, sequence }
}

/// The cut, the place in the log with the term before, and the record, or nothing for the start of a term.
#[derive(Clone, Copy)]
struct Made {
    name: Name,
    before: u32,
    cut: u64,
    is_start: bool,
}

fn record(name: Name, cut: u64) -> Made {
    Made { name, before: name.term, cut, is_start: false }
}

fn start(name: Name, before: u32, cut: u64) -> Made {
    Made { name, before, cut, is_start: true }
}

impl Made {
    fn with<R>(self, f: impl FnOnce(&Frame<'_>) -> R) -> R {
        let Self { name, before, is_start, .. } = self;
        let (cut, mut body) = (Lsn(self.cut), Vec::new());
        if !is_start {
            Record::encode(cut, &[], b"effects", &mut body);
        }
        let kind = if is_start { Kind::Start } else { Kind::Records };
        let (shard, stream, body, sum) = (7, 0, &body[..], None);
        f(&Frame { kind, shard, stream, name, before, cut, reach: cut, body, sum })
    }
}

fn scan(disk: &Simulated) -> Scan<Simulated> {
    Scan::new(disk.clone()).unwrap_or_else(|damage| panic!("{damage}"))
}

/// Begins a life that keeps what is up to a block, or nothing, and writes these.
fn live(disk: &Simulated, mark: Mark, keep: Name, cut: u64, blocks: &[Made]) -> std::io::Result<Placer<Simulated>> {
    let found = scan(disk);
    let life = found.segments().last().map_or(0, |segment| segment.header.life) + 1;
    let (format, node, acceptor, shard) = (Format::Four, [1; 16], [2; 16], 7);
    let identity = Identity { format, node, stream: 0, streams: 1, life, acceptor, shard };
    let (base, end, tail) = (Lsn(cut), Lsn(cut), 4096);
    let (segment, block, full, spares) = (found.newest(), found.number, found.full(), Vec::new());
    let position = Position { segment, block, last: keep, base, end, tail, full, spares };
    let (mut placer, spare) = Placer::begin(Arc::new(disk.clone()), identity, LIMITS, position)?;
    Made { name: keep, before: keep.term, cut, is_start: true }
        .with(|frame| placer.put_marked(&Frame { kind: Kind::Records, ..*frame }, mark))?;
    placer.name_first(&spare)?;
    for block in blocks {
        block.with(|frame| placer.put(frame, true))?;
    }
    Ok(placer)
}

fn found(disk: &Simulated) -> Vec<u64> {
    let mut found = Vec::new();
    let mut opened = Opened::of(vec![disk.clone()], &[]).unwrap_or_else(|damage| panic!("{damage}"));
    opened.replay(|record| found.push(record.lsn.0)).unwrap_or_else(|damage| panic!("{damage}"));
    found
}

fn runs(disk: &Simulated) -> (Vec<(u64, u32)>, Name) {
    let chain = scan(disk).chain;
    (chain.runs().iter().map(|Run { first, term }| (*first, *term)).collect(), chain.last())
}

/// The first term's blocks, and those of a second one, which voids the first one's last record.
const FIRST: [Made; 5] = [
    Made { name: Name { term: 1, sequence: 1 }, before: 0, cut: 0, is_start: true },
    Made { name: Name { term: 1, sequence: 2 }, before: 1, cut: 0x10, is_start: false },
    Made { name: Name { term: 1, sequence: 3 }, before: 1, cut: 0x20, is_start: false },
    Made { name: Name { term: 2, sequence: 4 }, before: 1, cut: 0x10, is_start: true },
    Made { name: Name { term: 2, sequence: 5 }, before: 2, cut: 0x50, is_start: false },
];

/// The third term takes the first one's log over; the second was on no majority.
fn drop_the_second(disk: &Simulated) -> std::io::Result<Placer<Simulated>> {
    let blocks = [record(name(1, 4), 0x30), start(name(3, 5), 1, 0x30), record(name(3, 6), 0x40)];
    live(disk, Mark::Life, name(1, 3), 0x20, &blocks)
}

/// Rule G3: what a life drops does not come back, and what a dropped start of a term had voided does.
#[test]
fn a_new_life_drops_blocks() {
    let disk = Simulated::default();
    live(&disk, Mark::Life, Name::default(), 0, &FIRST).expect("room");
    assert_eq!(found(&disk), [0x10, 0x50], "the second term has voided a record");
    assert_eq!(runs(&disk), (vec![(1, 1), (4, 2)], name(2, 5)));
    drop_the_second(&disk).expect("room");
    assert_eq!(found(&disk), [0x10, 0x20, 0x30, 0x40]);
    assert_eq!(runs(&disk), (vec![(1, 1), (5, 3)], name(3, 6)));
    // A second drop of more.
    live(&disk, Mark::Life, name(1, 2), 0x10, &[start(name(4, 3), 1, 0x10), record(name(4, 4), 0x60)]).expect("room");
    assert_eq!(found(&disk), [0x10, 0x60]);
    assert_eq!(runs(&disk), (vec![(1, 1), (3, 4)], name(4, 4)));
}

/// Whatever the power takes while a life begins, the folder has the one chain or the other.
#[test]
fn a_drop_is_whole_or_did_not_happen() {
    for seed in 0..200 {
        let (disk, mut chance) = (Simulated::default(), Chance(seed));
        live(&disk, Mark::Life, Name::default(), 0, &FIRST).expect("room");
        disk.fail_power_after(chance.below(16));
        let has_begun = drop_the_second(&disk).is_ok();
        disk.crash(&mut chance);
        let (runs, last) = runs(&disk);
        match &runs[..] {
            [(1, 1), (4, 2)] => assert!(!has_begun && last == name(2, 5), "seed {seed}: {last:?}"),
            [(1, 1), (5, 3)] => assert!(last == name(3, 5) || last == name(3, 6), "seed {seed}: {last:?}"),
            [(1, 1)] => assert!(last == name(1, 3) || last == name(1, 4), "seed {seed}: {last:?}"),
            other => panic!("seed {seed}: {other:?}"),
        }
    }
}

/// A folder that is to begin elsewhere has nothing of before, and a later life keeps what came then.
#[test]
fn a_reset_begins_elsewhere() {
    let disk = Simulated::default();
    live(&disk, Mark::Life, Name::default(), 0, &FIRST).expect("room");
    live(&disk, Mark::Reset, name(6, 100), 0x1000, &[record(name(6, 101), 0x1010)]).expect("room");
    assert_eq!(found(&disk), [0x1010]);
    assert_eq!((scan(&disk).chain.base(), runs(&disk)), (name(6, 100), (vec![(101, 6)], name(6, 101))));
    live(&disk, Mark::Life, name(6, 101), 0x1010, &[record(name(6, 102), 0x1020)]).expect("room");
    assert_eq!(found(&disk), [0x1010, 0x1020]);
    // A block that is not there cannot be kept.
    live(&disk, Mark::Life, name(2, 5), 0x50, &[]).expect("room");
    let why = Opened::of(vec![disk], &[]).err().map(|damage| damage.to_string()).unwrap_or_default();
    assert!(why.contains("it keeps a block of the log that is not there"), "{why}");
}

/// Rule L10: a term that begins voids what was synced. So a block tells how far the folder is by its number: cuts fall.
#[test]
fn a_torn_block_of_a_new_term_is_no_damage() {
    let disk = Simulated::default();
    let blocks = [FIRST[0], record(name(1, 2), 0x40), start(name(2, 3), 1, 0x10), record(name(2, 4), 0x20)];
    let mut placer = live(&disk, Mark::Life, Name::default(), 0, &blocks).expect("room");
    record(name(2, 5), 0x30).with(|frame| placer.put(frame, false)).expect("room");
    drop(placer);
    assert_eq!(found(&disk), [0x20, 0x30]);
    assert_eq!(scan(&disk).synced, Lsn(0x20), "the last block knows that");
    // Its body is torn.
    let size = |body| Format::Four.size(body);
    let last = 512 + 3 * size(0) + 2 * size(17);
    let name = disk.names().into_iter().find(|name| name.ends_with(".log")).expect("a segment");
    disk.damage(&name, last + Format::Four.header());
    assert_eq!(found(&disk), [0x20]);
    assert!(scan(&disk).torn.is_some());
}
