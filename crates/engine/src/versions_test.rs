//! Versions that belong to no change, and the records that a log with copies has of them.

use std::sync::Arc;

use clocks::UnixMs;
use keyspace::Keyspace;
use redolog::{Intake, Lsn, Record, Take, Watermarks};

use crate::record::lsn_of;
use crate::{Engine, Link, Shared};

/// Gives a version without a change. Returns it, the records that are left, and true if a reply waits for them.
fn give(keeps_versions: bool) -> (Lsn, Vec<(Lsn, usize)>, bool) {
    let mut engine = Engine::new(Arc::new(Shared::new(Keyspace::new(1, 1, 7))), 0, 1);
    engine.begin_turn(UnixMs(1_000_000_000_000));
    let (mut intake, gates) = Intake::new(1, Lsn::ZERO);
    let marks = Arc::new(Watermarks::new(&[Lsn::ZERO]));
    engine.log_to(Some(Link { gates, marks, promises: true, late_from: 16, keeps_versions }));
    let held = engine.acquire_one(0).expect("nobody else is there");
    let version = lsn_of(engine.next_version(&held));
    engine.local.note_stamped();
    engine.release(held);
    let waits = engine.take_seen().versions().iter().any(|seen| lsn_of(*seen) == version);
    let mut bytes = Vec::new();
    let Take::Taken(taken) = intake.take(&mut bytes) else { panic!("the cut passes the version") };
    assert_eq!(taken.cut, version);
    let records = Record::all(&bytes).flatten().map(|record| (record.lsn, record.effects.len()));
    (version, records.collect(), waits)
}

/// Rule G13: the next owner of a log with copies finds every version that a client may have seen, and gives none of
/// them again. One server alone writes nothing for it.
#[test]
fn a_version_without_a_change_has_a_record_in_a_group() {
    let (version, records, waits) = give(true);
    assert!(records == [(version, 0)] && waits);
    let (_, records, waits) = give(false);
    assert!(records.is_empty() && !waits);
}
