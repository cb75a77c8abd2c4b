//! A standby asks acceptors to put something on their disks.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use quorum::AcceptorId;
use redolog::simulated::Simulated;

use super::made::{LIMITS, SHARD};
use crate::{Acceptors, Folder, Local, Place};

#[test]
fn a_probe_is_answered_when_it_is_on_the_disk() {
    let own = Simulated::default();
    let place = Place { own: own.clone(), streams: vec![Simulated::default()], locks: Vec::new() };
    let folder = Folder::make(place, SHARD, AcceptorId([1; 16]), LIMITS).unwrap_or_else(|why| panic!("{why}"));
    let local = Local::by_hand(folder).unwrap_or_else(|why| panic!("{why}"));
    // A segment ahead.
    while let Some(job) = local.job(false) {
        assert!(local.carry_out(job).is_none());
    }
    let promised = local.figures().promised;
    let (one, other) = (local.probe(), local.probe());
    assert!(one.try_recv().is_err(), "nothing is written yet");
    local.carry_out(local.job(false).expect("it is to be written"));
    assert!(one.try_recv().is_ok() && other.try_recv().is_err(), "each is written for itself");
    local.carry_out(local.job(false).expect("the other"));
    assert!(other.try_recv().is_ok());
    assert_eq!(local.figures().promised, promised);
    own.fail_sync_after(0);
    let lost = local.probe();
    local.carry_out(local.job(false).expect("it is to be written"));
    assert!(lost.recv().is_err() && local.figures().trouble.is_some(), "the disk has failed");
    assert!(local.probe().recv().is_err(), "it takes nothing any more");
}

#[test]
fn few_probes_wait_for_a_disk_that_hangs() {
    let local = super::made::by_hand(vec![Simulated::default()], LIMITS);
    let waiting: Vec<_> = (0..20).map(|_| local.probe()).collect();
    let refused = waiting.iter().filter(|probe| probe.try_recv() == Err(std::sync::mpsc::TryRecvError::Disconnected));
    assert_eq!(refused.count(), 12);
}

#[test]
fn probes_come_over_connections() {
    let path = std::env::temp_dir().join(format!("holdfast-probes-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let acceptors = Acceptors::new(LIMITS, None);
    let id = AcceptorId([5; 16]);
    acceptors.make(std::slice::from_ref(&path), SHARD, 1, None, id).unwrap_or_else(|why| panic!("{why}"));
    let probe = |of: AcceptorId| {
        let (here, there) = UnixStream::pair().expect("sockets");
        acceptors.serve(there.into()).expect("threads");
        crate::probe(here.into(), of)
    };
    assert_eq!(probe(id), Ok(()));
    assert_eq!(probe(id), Ok(()));
    assert_eq!(probe(AcceptorId([6; 16])), Err("it has no such copy".to_owned()));
    // A build that does not know probes ends the connection.
    let (here, there) = UnixStream::pair().expect("sockets");
    let ends = std::thread::spawn(move || {
        std::thread::park_timeout(Duration::from_millis(20));
        drop(there);
    });
    assert!(crate::probe(here.into(), id).is_err());
    ends.join().expect("it ends");
    acceptors.stop().expect("the disk works");
    std::fs::remove_dir_all(&path).expect("removed");
}
