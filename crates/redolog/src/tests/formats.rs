//! Logs of two formats, and torn ends.

use std::sync::Arc;

use proptest::prelude::*;

use crate::disk::{Disk, File};
use crate::format::{Block, SEGMENT_HEADER, SegmentHeader};
use crate::simulated::Simulated;
use crate::{Format, Fsync, Limits, Lsn, Name, Opened, Record, Run, Settings, has_old_blocks};

const LIMITS: Limits = Limits { segment: 16384, spares: 2, reserve: 0, block: 16 << 20 };

/// Starts in this format, leaves records, and stops in order or is killed. Returns the last LSN.
fn live(disk: &Simulated, format: Format, fsync: Fsync, records: u64, stops: bool) -> Lsn {
    let settings = Settings { limits: LIMITS, fsync, clock: Arc::new(|| 1), seed: 1 };
    let mut opened = Opened::of(vec![disk.clone()], &[]).unwrap_or_else(|damage| panic!("{damage}"));
    opened.write_in(format);
    let started = opened.start_by_hand([1; 16], Lsn::ZERO, 1, settings);
    let (log, mut gates, mut streams) = started.unwrap_or_else(|damage| panic!("{damage}"));
    let mut last = Lsn::ZERO;
    for _ in 0..records {
        let gate = &mut gates[0][0];
        last = gate.enter().above(0);
        gate.leave(last, |out| Record::encode(last, &[], b"effects", out));
        gate.exit();
        streams[0].step(true);
    }
    if stops {
        log.stop();
        streams[0].step(true);
    }
    disk.kill();
    last
}

fn found(disk: &Simulated) -> Vec<Lsn> {
    let mut found = Vec::new();
    let mut opened = Opened::of(vec![disk.clone()], &[]).unwrap_or_else(|damage| panic!("{damage}"));
    opened.replay(|record| found.push(record.lsn)).unwrap_or_else(|damage| panic!("{damage}"));
    found
}

/// The format of each segment, in their order.
fn formats(disk: &Simulated) -> Vec<Format> {
    let mut names: Vec<_> = disk.names().into_iter().filter(|name| name.ends_with(".log")).collect();
    names.sort();
    let read = |name: &String| {
        let mut bytes = [0; SEGMENT_HEADER];
        disk.open(name).and_then(|file| file.read(0, &mut bytes)).expect("it is there");
        SegmentHeader::decode(&bytes).expect("a segment").format
    };
    names.iter().map(read).collect()
}

/// Rule U1: a log goes on in a later format, and never back in an earlier one.
#[test]
fn a_log_goes_on_in_the_next_format() {
    use Format::{Four, Three};
    let disk = Simulated::default();
    live(&disk, Three, Fsync::Always, 3, true);
    live(&disk, Three, Fsync::Always, 3, false);
    live(&disk, Four, Fsync::Always, 3, false);
    live(&disk, Three, Fsync::Always, 3, true);
    live(&disk, Four, Fsync::Always, 3, true);
    assert_eq!(found(&disk).len(), 15);
    assert_eq!(formats(&disk), [Three, Three, Four, Four, Four]);
    assert!(has_old_blocks(&disk).expect("it can be read"));
    let new = Simulated::default();
    live(&new, Four, Fsync::Always, 3, false);
    assert!(!has_old_blocks(&new).expect("it can be read"));
    // The names of the log's blocks go on, too. A block that ends a stream in order is none of them.
    let opened = Opened::of(vec![disk.clone()], &[]).unwrap_or_else(|damage| panic!("{damage}"));
    let chain = opened.recovery().chain(0).expect("a stream").clone();
    let runs: Vec<_> = chain.runs().iter().map(|Run { first, term }| (*first, *term)).collect();
    assert_eq!(chain.base(), Name { term: 0, sequence: 0 });
    assert_eq!(runs, [(1, 0), (10, 1), (15, 2), (20, 3)]);
    assert_eq!(chain.last(), Name { term: 3, sequence: 23 });
    // A copy for a backup can be read by the builds that could read the log.
    let old = Simulated::default();
    live(&old, Three, Fsync::Always, 3, true);
    let opened = Opened::of(vec![old.clone()], &[]).unwrap_or_else(|damage| panic!("{damage}"));
    opened.settle(LIMITS).unwrap_or_else(|damage| panic!("{damage}"));
    assert_eq!(formats(&old), [Three, Three]);
}

/// The places of the blocks of a log with one segment.
fn blocks(disk: &Simulated, format: Format) -> (String, Vec<(u64, usize)>) {
    let name = disk.names().into_iter().find(|name| name.ends_with(".log")).expect("a segment");
    let file = disk.open(&name).expect("it is there");
    let mut bytes = vec![0; usize::try_from(file.size().expect("a size")).expect("small")];
    file.read(0, &mut bytes).expect("its bytes");
    let (mut at, mut found) = (SEGMENT_HEADER, Vec::new());
    while let Ok(block) = Block::decode(format, &bytes[at..]) {
        let size = format.header() + block.frame.body.len();
        found.push((at as u64, size));
        at += format.size(block.frame.body.len());
    }
    (name, found)
}

fn zero(disk: &Simulated, name: &str, from: u64, length: usize) {
    disk.open(name).and_then(|file| file.write(from, &vec![0; length])).expect("it is there");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// The last blocks of a stream that no block calls synced may be torn anywhere: the records before them are there.
    #[test]
    fn a_torn_end_takes_no_more_than_itself(
        (is_old, records, torn) in (any::<bool>(), 1u64..8, any::<prop::sample::Index>()),
        (at, is_turned) in (any::<prop::sample::Index>(), any::<bool>()),
    ) {
        let format = if is_old { Format::Three } else { Format::Four };
        let disk = Simulated::default();
        live(&disk, format, Fsync::No, records, false);
        let all = found(&disk);
        let (name, blocks) = blocks(&disk, format);
        // The first is the start's.
        let torn = 1 + torn.index(blocks.len() - 1);
        let (from, size) = blocks[torn];
        let at = from + at.index(size) as u64;
        if is_turned {
            disk.damage(&name, at as usize);
        } else {
            zero(&disk, &name, at, (from + size as u64 - at) as usize);
        }
        let left = found(&disk);
        // Zeros may be what was there.
        prop_assert!(left == all[..torn - 1] || !is_turned && left == all, "{left:?} of {all:?}, block {torn}");
    }

    /// Rule L10: a block that says what was synced is believed if its body is torn. In version 3 nothing of it counts.
    #[test]
    fn a_torn_body_does_not_hide_what_was_synced(is_old: bool, turned in any::<prop::sample::Index>()) {
        let format = if is_old { Format::Three } else { Format::Four };
        let disk = Simulated::default();
        live(&disk, format, Fsync::Always, 3, false);
        let name = disk.names().into_iter().find(|name| name.ends_with(".log")).expect("a segment");
        // Each block of these is in a page with those before it: the last one knows that all but itself are synced.
        let (_, blocks) = blocks(&disk, format);
        let [.., (damaged, _), (last, size)] = blocks[..] else { panic!("there are some") };
        let body = format.header() + turned.index(size - format.header());
        disk.damage(&name, last as usize + body);
        prop_assert_eq!(found(&disk).len(), 2);
        disk.damage(&name, damaged as usize + format.header());
        let opened = Opened::of(vec![disk.clone()], &[]);
        let damage = opened.err().map(|damage| damage.to_string()).unwrap_or_default();
        prop_assert_eq!(damage.contains("damaged, though it had been synced"), !is_old, "{}", damage);
    }
}
