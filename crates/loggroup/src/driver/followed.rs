//! Standbys with threads: they read from acceptors while an owner's log runs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use quorum::{AcceptorId, Cut};
use redolog::{Disk, Lsn};

use super::together::{Copy, Disks, Led, SHARD, lead, now, plan};
use crate::{Folder, Following, Heard, Local, Place, TapEnded};

/// The LSNs that a standby has applied.
type Applied = Arc<Mutex<Vec<Lsn>>>;

fn follow<D: Disk>(local: &Local<D>, from: Lsn, pace: Option<Duration>) -> (Following, Applied) {
    let applied = Applied::default();
    let (list, covered) = (applied.clone(), Cut(from.0));
    let tap = local.tap(covered, covered).unwrap_or_else(|why| panic!("{why}"));
    let begun = now();
    let clock = Arc::new(move || begun.elapsed().as_nanos() as u64);
    let following = Following::start(tap, clock, move |records| {
        let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
        list.extend(records.iter().map(|record| {
            assert!(record.effects.iter().all(|byte| *byte == 7) && [100, 9000].contains(&record.effects.len()));
            record.lsn
        }));
        drop(list);
        pace.into_iter().for_each(thread::park_timeout);
    });
    (following.unwrap(), applied)
}

/// Waits until a standby has applied the record, and returns all that it has.
fn comes_to(following: &Following, applied: &Applied, last: Lsn) -> Vec<Lsn> {
    let since = now();
    while following.applied().0 < last.0 {
        assert!(since.elapsed() < Duration::from_secs(20) && !following.has_ended(), "{:?}", following.applied());
        thread::park_timeout(Duration::from_millis(1));
    }
    applied.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn write(led: &mut Led, all: &mut Vec<Lsn>, count: usize) -> Lsn {
    all.extend(led.write(count));
    all.sort();
    all.last().copied().unwrap_or_default()
}

#[test]
fn standbys_follow_a_log_that_runs() {
    let (own, b, c) = (Disks::new(2), Copy::start(Disks::new(2), 2), Copy::start(Disks::new(2), 3));
    let mut led = lead(&own, plan(1, 1, &[1, 2, 3], None), &[&b, &c]);
    let mut all = Vec::new();
    let middle = write(&mut led, &mut all, 40);
    let (following, applied) = follow(&c.local, Lsn(0), None);
    assert!(matches!(c.local.tap(Cut(0), Cut(0)), Err(TapEnded::Taken)));
    let last = write(&mut led, &mut all, 40);
    assert_eq!(comes_to(&following, &applied, last), all);
    // One stream is idle: the owner says that nothing comes there.
    let mut last = last;
    for _ in 0..20 {
        last = led.leave(0, &[], 100);
        all.push(last);
    }
    assert_eq!(comes_to(&following, &applied, last), all);
    let seen = Arc::new(Mutex::new(None));
    let told = seen.clone();
    following.between(move |follower| {
        *told.lock().unwrap_or_else(PoisonError::into_inner) = follower.checkpoint().ok();
    });
    let since = now();
    while seen.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
        assert!(since.elapsed() < Duration::from_secs(20));
        thread::park_timeout(Duration::from_millis(1));
    }
    assert_eq!(*seen.lock().unwrap(), Some(Cut(last.0)));
    let behind = following.behind();
    let bytes = all.len() as u64 * 100;
    assert!(behind.bytes == 0 && behind.ms == 0 && behind.applied_bytes >= bytes, "{behind:?}");
    assert!(following.log().0 >= last.0, "the idle stream has passed it, too");
    assert!(following.stop().is_none());
    // It goes on where its store ends. A slow one holds nobody up.
    let (following, applied) = follow(&c.local, middle, Some(Duration::from_micros(200)));
    let last = write(&mut led, &mut all, 200);
    let behind: Vec<Lsn> = all.iter().copied().filter(|lsn| *lsn > middle).collect();
    assert_eq!(comes_to(&following, &applied, last), behind);

    // Another term of the same process, and one of another life.
    led.driver.again(plan(2, 1, &[1, 2, 3], None), &mut |_, _| true).unwrap();
    write(&mut led, &mut all, 20);
    led.stop();
    let mut led = lead(&own, plan(3, 1, &[1, 2, 3], None), &[&b, &c]);
    let last = write(&mut led, &mut all, 20);
    let behind: Vec<Lsn> = all.iter().copied().filter(|lsn| *lsn > middle).collect();
    assert_eq!(comes_to(&following, &applied, last), behind);
    c.local.stop().unwrap();
    let since = now();
    while !following.has_ended() {
        assert!(since.elapsed() < Duration::from_secs(20));
        thread::park_timeout(Duration::from_millis(1));
    }
    assert!(matches!(following.stop(), Some(TapEnded::Closed)));
    led.stop();
}

/// Nobody follows: no acceptor is told more than before.
#[test]
fn without_standbys_no_mark_is_told() {
    let (own, b, c) = (Disks::new(2), Copy::start(Disks::new(2), 2), Copy::start(Disks::new(2), 3));
    let mut led = lead(&own, plan(1, 1, &[1, 2, 3], None), &[&b, &c]);
    led.write(10);
    assert!(!led.driver.tell_marks());
    let (following, _) = follow(&c.local, Lsn(0), None);
    let since = now();
    while !led.driver.tell_marks() {
        assert!(since.elapsed() < Duration::from_secs(20), "it has asked for marks");
        thread::park_timeout(Duration::from_millis(1));
    }
    assert!(following.stop().is_none());
    while led.driver.tell_marks() {
        assert!(since.elapsed() < Duration::from_secs(20), "it wants none any more");
        thread::park_timeout(Duration::from_millis(1));
    }
    led.stop();
}

/// An acceptor in a folder of the system is brought up, and a standby reads there at the same time.
#[test]
fn a_standby_reads_a_folder_of_the_system() {
    let root = std::env::temp_dir().join(format!("holdfast-followed-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    std::fs::create_dir_all(&root).unwrap();
    let (own, b) = (Disks::new(2), Copy::start(Disks::new(2), 2));
    let mut led = lead(&own, plan(1, 1, &[1, 2, 3], None), &[&b]);
    let mut all = Vec::new();
    write(&mut led, &mut all, 100);
    let limits = redolog::Limits { segment: 65536, spares: 1, reserve: 0, block: 4000 };
    let id = AcceptorId([3; 16]);
    let folder = Place::at(&root, SHARD, 2).and_then(|place| Folder::make(place, SHARD, id, limits));
    let local = folder.and_then(Local::start).unwrap_or_else(|why| panic!("{why}"));
    let (following, applied) = follow(&local, Lsn(0), None);
    let mut ears = None;
    led.driver.follow_up(|listener| {
        ears = Some(listener.clone());
        vec![(id, Arc::new(local.caller(listener.clone())) as Arc<dyn crate::Port>)]
    });
    let tell = ears.unwrap();
    tell(id, Heard::Connected);
    let last = write(&mut led, &mut all, 200);
    assert_eq!(comes_to(&following, &applied, last), all);
    let last = led.leave(1, &[], 100);
    all.push(last);
    assert_eq!(comes_to(&following, &applied, last), all);
    assert!(following.stop().is_none());
    local.stop().unwrap();
    // The process starts again: nothing new is written, and the standby comes to the end nevertheless.
    let folder = Place::at(&root, SHARD, 2).and_then(|place| Folder::open(place, SHARD, limits));
    let local = folder.and_then(Local::start).unwrap_or_else(|why| panic!("{why}"));
    let (following, applied) = follow(&local, Lsn(0), None);
    led.driver.follow_up(|listener| vec![(id, Arc::new(local.caller(listener.clone())) as Arc<dyn crate::Port>)]);
    tell(id, Heard::Connected);
    assert_eq!(comes_to(&following, &applied, last), all);
    assert!(following.stop().is_none());
    led.stop();
    local.stop().unwrap();
    std::fs::remove_dir_all(&root).unwrap();
}

/// A standby that stands still is behind, and says by how much. Then it is not.
#[test]
fn a_standby_says_how_far_it_is_behind() {
    let (own, b, c) = (Disks::new(2), Copy::start(Disks::new(2), 2), Copy::start(Disks::new(2), 3));
    let mut led = lead(&own, plan(1, 1, &[1, 2, 3], None), &[&b, &c]);
    let tap = c.local.tap(Cut(0), Cut(0)).unwrap_or_else(|why| panic!("{why}"));
    let (time, is_closed) = (Arc::new(AtomicU64::new(5_000_000)), Arc::new(AtomicBool::new(true)));
    let (ticks, gate, begun) = (time.clone(), is_closed.clone(), now());
    let following = Following::start(tap, Arc::new(move || ticks.load(SeqCst)), move |_| {
        while gate.load(SeqCst) && begun.elapsed() < Duration::from_secs(60) {
            thread::park_timeout(Duration::from_millis(1));
        }
    });
    let following = following.unwrap();
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        let since = now();
        while !is_so() {
            assert!(since.elapsed() < Duration::from_secs(20), "{what}: {:?}", following.behind());
            thread::park_timeout(Duration::from_millis(1));
        }
    };
    let all = led.write(20);
    // Three records of 9000 bytes, and seventeen of 100: about so many.
    until("it is behind", &|| following.behind().bytes > 3_000);
    time.fetch_add(7_000_000, SeqCst);
    assert!(following.behind().ms >= 7 && following.behind().applied_bytes == 0, "{:?}", following.behind());
    is_closed.store(false, SeqCst);
    until("it is not", &|| following.behind().bytes == 0 && following.behind().ms == 0);
    let last = all.last().unwrap().0;
    until("all is applied", &|| following.applied().0 == last);
    assert_eq!(following.behind().applied_bytes, 28_700);
    // After an idle time a record is as old as it is.
    let is_idle = || led.driver.tell_marks() && following.log().0 >= last;
    until("the idle stream has passed it, too", &is_idle);
    until("its thread waits", &|| c.local.is_follower_caught());
    time.fetch_add(9_000_000_000, SeqCst);
    is_closed.store(true, SeqCst);
    led.write(2);
    until("it is behind again", &|| following.behind().bytes > 0);
    assert!(following.behind().ms < 1_000, "{:?}", following.behind());
    is_closed.store(false, SeqCst);
    until("it is not any more", &|| following.behind().bytes == 0);
    assert!(following.stop().is_none());
    led.stop();
}
