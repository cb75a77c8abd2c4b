//! The own folder as one acceptor of three, when its disk has no room or does not return (rules L8, G10).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use quorum::AcceptorId;
use redolog::{Around, Lack, Opened, State};

use super::together::{Copy, Disks, Led, lead, now, plan};

fn until(what: &str, is_so: impl Fn() -> bool) {
    let since = now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(20), "never: {what}");
        thread::park_timeout(Duration::from_millis(1));
    }
}

/// The blocks by which the own folder lags.
fn own_lags(led: &Led) -> u64 {
    let own = led.driver.lags().into_iter().filter(|lag| lag.acceptor == AcceptorId([1; 16]));
    own.map(|lag| if lag.answers { lag.blocks } else { u64::MAX }).max().unwrap_or(u64::MAX)
}

fn found(disks: &Disks) -> Vec<redolog::Lsn> {
    let mut found = Vec::new();
    Opened::of(disks.streams.clone(), &[]).unwrap().replay(|record| found.push(record.lsn)).unwrap();
    found.sort();
    found
}

fn trouble(led: &Led) -> Option<String> {
    led.driver.shown().copies.into_iter().find(|copy| copy.is_own).and_then(|copy| copy.trouble)
}

fn room(disks: &Disks, room: Option<u64>) {
    disks.streams.iter().for_each(|disk| disk.set_room(room));
}

#[test]
fn the_own_folder_without_room_is_one_of_three() {
    let (own, b, c) = (Disks::new(2), Copy::start(Disks::new(2), 2), Copy::start(Disks::new(2), 3));
    let mut led = lead(&own, plan(1, 1, &[1, 2, 3], None), &[&b, &c]);
    let mut all = led.write(10);
    room(&own, Some(0));
    all.extend(led.write(60));
    assert_eq!((led.log.state(), led.log.around()), (State::Running, Some(Around::Lacks(Lack::Space))));
    assert!(own_lags(&led) > 10 && led.log.own_loss().is_none());
    assert_eq!(trouble(&led).as_deref(), Some("No space left on device"));

    // No majority has room, so writes are refused.
    room(&b.disks, Some(0));
    let mut last = None;
    for at in 0..60 {
        last = Some(led.leave(at % 2, &[], 3000));
        all.extend(last);
    }
    until("the log is full", || led.log.state() == State::Full(Lack::Copies));
    assert!(!led.is_committed(last.unwrap(), Duration::from_millis(100)));
    room(&b.disks, None);
    until("there is room", || led.log.state() == State::Running);
    assert!(led.is_committed(last.unwrap(), Duration::from_secs(20)));

    room(&own, None);
    until("the own folder has all", || own_lags(&led) == 0);
    assert_eq!((led.log.around(), trouble(&led)), (None, None));
    // It counts again.
    b.local.stop().unwrap();
    all.extend(led.write(10));
    led.stop();
    all.sort();
    assert_eq!(found(&own), all);
}

/// Acceptors change meanwhile: the own folder does not answer the seal, and counts when it has everything. Also if the
/// term begins with its answer only.
#[test]
fn a_term_begins_while_the_own_folder_has_no_room() {
    for waits_for_own in [false, true] {
        let (own, b, c) = (Disks::new(2), Copy::start(Disks::new(2), 2), Copy::start(Disks::new(2), 3));
        let mut led = lead(&own, plan(1, 1, &[1, 2, 3], None), &[&b, &c]);
        let mut all = led.write(10);
        room(&own, Some(0));
        while led.log.around().is_none() {
            all.extend(led.write(10));
        }
        if waits_for_own {
            c.local.stop().unwrap();
            let (disks, is_asked) = (own.clone(), Arc::new(AtomicBool::new(false)));
            let asked = is_asked.clone();
            let freeing = thread::spawn(move || {
                until("the seal is asked for", || asked.load(Relaxed));
                thread::park_timeout(Duration::from_millis(20));
                room(&disks, None);
            });
            let mut wait = |stage, _: &[AcceptorId]| {
                is_asked.fetch_or(stage == quorum::Stage::Sealing, Relaxed);
                true
            };
            led.driver.again(plan(2, 1, &[1, 2, 3], None), &mut wait).unwrap();
            freeing.join().unwrap();
        } else {
            led.driver.again(plan(2, 1, &[1, 2, 3], None), &mut |_, _| true).unwrap();
            all.extend(led.write(10));
            assert_eq!(own_lags(&led), u64::MAX, "it has not answered");
            room(&own, None);
        }
        until("the own folder has all", || own_lags(&led) == 0);
        b.local.stop().unwrap_or_default();
        if !waits_for_own {
            all.extend(led.write(10));
        }
        led.stop();
        all.sort();
        assert_eq!(found(&own), all);
    }
}

#[test]
fn the_own_folder_whose_disk_hangs_is_one_of_three() {
    let (own, b, c) = (Disks::new(2), Copy::start(Disks::new(2), 2), Copy::start(Disks::new(2), 3));
    let mut led = lead(&own, plan(1, 1, &[1, 2, 3], None), &[&b, &c]);
    let mut all = led.write(10);
    let (driver, is_over) = (led.driver.clone(), Arc::new(AtomicBool::new(false)));
    let over = is_over.clone();
    let chores = thread::spawn(move || {
        while !over.load(Relaxed) {
            driver.tell_committed();
            thread::park_timeout(Duration::from_millis(1));
        }
    });
    for round in 0..3 {
        own.streams[round % 2].stall(true);
        all.extend(led.write(60));
        all.extend(led.write(20));
        until("it goes around the disk", || led.log.around() == Some(Around::Hangs));
        assert_eq!(trouble(&led).as_deref(), Some("a write or a sync does not return"));
        own.streams[round % 2].stall(false);
        until("the own folder has all", || own_lags(&led) == 0 && led.log.around().is_none());
    }
    is_over.store(true, Relaxed);
    chores.join().unwrap();
    assert!(led.log.own_loss().is_none());
    b.local.stop().unwrap();
    all.extend(led.write(10));
    led.stop();
    all.sort();
    assert_eq!(found(&own), all);
}
