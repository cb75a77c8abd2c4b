//! Records that stand on others in other streams: their waits, and the ends of these.

use std::sync::Arc;

use crate::commit::Moved;
use crate::simulated::Simulated;
use crate::{Committer, Gate, Intake, Limits, Lsn, Promise, Record, Round, Watermarks};

/// Two streams on disks of their own, each with one worker's gate.
fn two(promise: Promise) -> (Vec<Committer<Simulated>>, Vec<Gate>, Arc<Watermarks>) {
    let recovery = crate::recover(vec![Simulated::default(), Simulated::default()], &[]).unwrap();
    let writers = recovery.open([1; 16], 1, Limits::of(1 << 16)).unwrap();
    let marks = Arc::new(Watermarks::new(&[Lsn(0), Lsn(0)]));
    let (mut committers, mut all) = (Vec::new(), Vec::new());
    for (writer, stream) in writers.into_iter().zip(0..) {
        let (intake, mut gates) = Intake::new(1, Lsn(0));
        all.append(&mut gates);
        committers.push(Committer::new(stream, intake, writer, marks.clone(), promise));
    }
    (committers, all, marks)
}

fn leave(gate: &mut Gate, lsn: Lsn, dependencies: &[Lsn]) {
    assert!(gate.enter() < lsn);
    gate.leave(lsn, |out| Record::encode(lsn, dependencies, b"x", out));
    gate.exit();
}

#[test]
fn who_stands_on_what_is_committed_waits_for_its_sync_only() {
    let (mut committers, mut gates, marks) = two(Promise::Written);
    leave(&mut gates[0], Lsn(0x10), &[]);
    leave(&mut gates[1], Lsn(0x21), &[Lsn(0x10)]);
    // The second stream comes first: it commits up to its wait for the first one.
    assert_eq!(committers[1].round().unwrap(), Round::Moved);
    assert_eq!((marks.of(1), committers[1].waits_for()), (Lsn(0x20), Moved { committed: true, synced: true }));
    assert_eq!(committers[0].round().unwrap(), Round::Moved);
    assert_eq!(committers[1].advance(), Moved { committed: true, synced: false });
    assert_eq!((marks.of(1), marks.synced(1)), (Lsn(0x21), Lsn(0)));
    // More records of the first stream do not matter to it, but their sync does.
    assert_eq!(committers[1].waits_for(), Moved { committed: false, synced: true });
    assert!(!committers[1].is_waiting());
    committers[1].sync().unwrap();
    assert_eq!(committers[1].advance(), Moved { committed: false, synced: true });
    assert_eq!(marks.synced(1), Lsn(0x20), "it does not survive without the other");
    committers[0].sync().unwrap();
    assert!(committers[0].advance().synced);
    assert_eq!(committers[1].advance(), Moved { committed: false, synced: true });
    assert_eq!((marks.synced(1), committers[1].waits_for()), (Lsn(0x21), Moved::default()));
}

#[test]
fn a_stronger_promise_waits_for_the_sync() {
    let (mut committers, mut gates, marks) = two(Promise::Written);
    leave(&mut gates[0], Lsn(0x10), &[]);
    leave(&mut gates[1], Lsn(0x21), &[Lsn(0x10)]);
    assert_eq!(committers[0].round().unwrap(), Round::Moved);
    assert_eq!(committers[1].round().unwrap(), Round::Moved);
    committers[1].set_promise(Promise::Synced).unwrap();
    leave(&mut gates[1], Lsn(0x31), &[]);
    assert_eq!(
        committers[1].round().unwrap(),
        Round::Moved,
        "what is on the disk has moved, up to the one that stands"
    );
    assert_eq!((marks.of(1), committers[1].is_waiting()), (Lsn(0x21), true));
    // And back: it need not wait.
    committers[1].set_promise(Promise::Written).unwrap();
    assert!(committers[1].is_waiting(), "it has not been looked at yet");
    assert!(committers[1].advance().committed);
    assert_eq!((marks.of(1), committers[1].is_waiting()), (Lsn(0x31), false));
}

/// A record that is tried again because there was no room counts once.
#[test]
fn what_is_tried_again_stands_once() {
    let (mut committers, mut gates, _) = two(Promise::Synced);
    gates[1].enter();
    gates[1].leave(Lsn(0x21), |out| Record::encode(Lsn(0x21), &[Lsn(0x10), Lsn(0x20)], &[7; 1 << 17], out));
    gates[1].exit();
    let committer = &mut committers[1];
    let crate::Take::Taken(taken) = committer.take() else { panic!("there is a record") };
    let disk = committer.placer().disk().inner().clone();
    disk.set_room(Some(0));
    for _ in 0..3 {
        assert!(committer.write_from(&taken, &mut 0).is_err());
    }
    disk.set_room(None);
    committer.write_from(&taken, &mut 0).unwrap();
    assert_eq!(committer.dependencies(), 2);
}
