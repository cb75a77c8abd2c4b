//! Streams that pass LSNs of others, without records.

use super::grouped::World;
use super::running::settings;
use crate::{Fsync, Intake, Lsn, Take, Taken};

/// A stream is idle while another one is written: it passes the other's LSN, and what comes later is above.
#[test]
fn an_idle_stream_passes_what_others_have() {
    let mut world = World::new(2, settings(Fsync::Always));
    let early = world.leave(1, &[]);
    let lsn = (0..5).map(|_| world.leave(0, &[])).last().unwrap();
    world.settle();
    (0..2).for_each(|stream| world.others_take_all(stream));
    (0..2).for_each(|stream| world.hold(stream));
    world.settle();
    assert_eq!(world.log.marks().of(1), early);
    assert!(world.others.streams()[1].passed.is_empty(), "nobody wants it");
    world.log.want_passed(lsn);
    world.settle();
    assert_eq!(world.log.marks().of(1), lsn);
    assert_eq!(world.others.streams()[1].passed, [(lsn, 1)]);
    assert!(world.others.streams()[0].passed.is_empty(), "it is there");
    let late = world.leave(1, &[]);
    assert!(late > lsn);
    // A block says it as well.
    world.log.want_passed(late);
    world.settle();
    assert_eq!(world.others.streams()[1].passed.len(), 1);
    assert_eq!(world.others.streams()[1].blocks.last(), Some(&(late, vec![late])));
}

/// A worker that is inside its gate holds the stream where it is.
#[test]
fn a_worker_inside_keeps_a_stream_from_passing() {
    let (mut intake, mut gates) = Intake::new(1, Lsn(0));
    assert_eq!(gates[0].enter(), Lsn(0));
    intake.want(Lsn(32));
    let mut bytes = Vec::new();
    assert_eq!(intake.take(&mut bytes), Take::Soon);
    gates[0].leave(Lsn(16), |out| out.push(7));
    gates[0].exit();
    let taken = Taken { cut: Lsn(32), ends: vec![1] };
    assert_eq!(intake.take(&mut bytes), Take::Taken(taken));
    assert_eq!(gates[0].enter(), Lsn(32));
    gates[0].exit();
    assert_eq!(intake.take(&mut bytes), Take::Nothing);
}
