//! A stream may come from a peer, while others come from folders.

use std::collections::VecDeque;

use super::running::{leave, settings, start, wait};
use crate::cursor::{Blocks, Cursor, Found};
use crate::format::Broken;
use crate::merge::merge;
use crate::scan::Scan;
use crate::simulated::Simulated;
use crate::{Damage, Frame, Fsync, Kind, Lsn, Name, Record};

/// Blocks as another host has sent them.
struct Sent {
    rest: VecDeque<Vec<u8>>,
    present: Vec<u8>,
}

impl Blocks for Sent {
    fn next(&mut self) -> Result<Option<Found<'_>>, Damage> {
        let Some(sent) = self.rest.pop_front() else { return Ok(None) };
        self.present = sent;
        let frame = Frame::decode(&self.present).map_err(|broken| self.damage(broken))?;
        Ok(Some(Found { is_part: frame.is_part(), cut: frame.cut, limit: Lsn::MAX, body: frame.body }))
    }

    fn damage(&self, broken: Broken) -> Damage {
        Damage::Streams(broken.0.into())
    }

    fn most(&self) -> u64 {
        1 << 20
    }
}

/// The block of a record of stream 1, for another host.
fn sent(sequence: u64, lsn: Lsn, on: Lsn) -> Vec<u8> {
    let (mut body, mut bytes) = (Vec::new(), Vec::new());
    Record::encode(lsn, &[on], b"effects", &mut body);
    let (kind, shard, stream, name) = (Kind::Records, 7, 1, Name { term: 1, sequence });
    let frame = Frame { kind, shard, stream, name, before: 1, cut: lsn, reach: lsn, body: &body, sum: None };
    frame.encode(&mut bytes).expect("short enough");
    bytes
}

/// Rules L2, L5: the order and the cut are the same wherever a stream comes from.
#[test]
fn a_stream_of_a_peer_is_merged_with_one_of_a_folder() {
    let disk = [Simulated::default()];
    let (log, mut gates) = start(&disk, settings(Fsync::Always));
    let [first, second] = [(); 2].map(|()| {
        let lsn = leave(&mut gates[0][0], 0, &[]);
        log.ring(0);
        wait(log.marks(), 0, lsn);
        lsn
    });
    log.stop();
    let [disk] = disk;
    let scan = Scan::new(disk).unwrap_or_else(|damage| panic!("{damage}"));
    // Of another stream, and above what it stands on. The last one stands on something that is not there.
    let theirs = [Lsn(first.0 + 1), Lsn(second.0 + 1), Lsn(second.0 + 0x21)];
    let missing = Lsn(second.0 + 0x10);
    let on = [first, second, missing];
    let rest = (1..).zip(theirs).zip(on).map(|((sequence, lsn), on)| sent(sequence, lsn, on)).collect();
    let peer = Cursor::new(Box::new(Sent { rest, present: Vec::new() }), Lsn::ZERO);
    let mut merged = Vec::new();
    let ends = merge(vec![scan.cursor(), peer], vec![second, theirs[2]], &[], |record| {
        merged.push((record.stream, record.lsn));
    });
    let ends = ends.unwrap_or_else(|damage| panic!("{damage}"));
    assert_eq!(merged, [(0, first), (1, theirs[0]), (0, second), (1, theirs[1])]);
    assert_eq!(ends, [second, theirs[2].before()]);
}
