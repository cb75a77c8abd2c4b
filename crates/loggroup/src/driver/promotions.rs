//! Copies lead in the files that they have open, on simulated disks.

use std::thread;
use std::time::Duration;

use quorum::{Cut, Limits};
use redolog::simulated::Chance;
use redolog::{Fsync, Lsn, Opened, State};

use super::Driver;
use super::together::{Copy, Disks, Led, lead, now, plan, settings};
use crate::Heard;
use crate::local::{Tap, TapStepped};
use crate::port::Listener;
use redolog::simulated::Simulated;

const PATIENCE: Duration = Duration::from_secs(20);

/// A copy, and the standby that reads there.
struct Standby {
    copy: Copy,
    tap: Option<Tap<Simulated>>,
    applied: Vec<Lsn>,
}

impl Standby {
    fn start(disks: Disks, fresh: u8) -> Self {
        let copy = Copy::start(disks, fresh);
        let tap = copy.local.tap(Cut(0), Cut(0)).unwrap_or_else(|why| panic!("{why}"));
        Self { copy, tap: Some(tap), applied: Vec::new() }
    }

    /// Applies what may be applied now.
    fn follow(&mut self) {
        let (tap, applied) = (self.tap.as_mut().expect("it follows"), &mut self.applied);
        while tap.step(&mut |records| applied.extend(records.iter().map(|record| record.lsn))).unwrap()
            != TapStepped::Idle
        {}
    }

    /// Takes the log over, applies the rest, and goes on with it. Returns the log, with all records, and its disks.
    fn lead(mut self, term: u32, others: &[&Copy]) -> (Led, Disks) {
        let since = now();
        let own = self.copy.local.clone();
        let ports = |listener: &Listener| others.iter().map(|copy| copy.port(listener)).collect();
        let mut wait = |_: quorum::Stage, _: &[quorum::AcceptorId]| since.elapsed() < PATIENCE;
        let plan = plan(term, own.id().0[0], &[1, 2, 3], None);
        let driver = Driver::take_over(&own, plan, Limits::default(), ports, &mut wait).unwrap();
        let floor = driver.tell_rest(&own, Lsn(0));
        loop {
            self.follow();
            let passed = self.tap.as_mut().expect("it follows").follower().passed();
            if passed == Ok(Cut(floor.0)) {
                break;
            }
            assert!(since.elapsed() < PATIENCE, "{passed:?} of {floor}");
            thread::yield_now();
        }
        let memory = self.tap.take().expect("it follows").follower().memory();
        assert!(driver.has_all_of(&memory), "term {term}");
        let promoted = driver.promote(&own).unwrap();
        let (log, mut gates) = promoted.start(driver.clone(), Lsn(0), 1, settings(Fsync::Always)).unwrap();
        driver.goes_on(&log);
        (Led { driver, log, gates: gates.remove(0), found: self.applied }, self.copy.disks)
    }
}

/// Owners come and go in order and with their power, and every time another copy leads in place: it has all that was
/// acknowledged, and what it writes is found by a start.
#[test]
fn copies_lead_in_place() {
    for seed in 0..16 {
        let (mut chance, streams) = (Chance(seed), 1 + seed as usize % 2);
        let own = Disks::new(streams);
        let mut copies = vec![Standby::start(Disks::new(streams), 2), Standby::start(Disks::new(streams), 3)];
        let refs: Vec<&Copy> = copies.iter().map(|standby| &standby.copy).collect();
        let (mut led, mut disks, mut all) = (lead(&own, plan(1, 1, &[1, 2, 3], None), &refs), own, Vec::<Lsn>::new());
        for term in 2..9 {
            for lsn in &all {
                assert!(led.found.contains(lsn), "seed {seed}, term {term}: {lsn} is lost");
            }
            all = led.found.clone();
            for at in 0..5 + chance.below(20) {
                let on = all.last().copied();
                let filler = if chance.below(7) == 0 { 9000 } else { 100 };
                all.push(led.leave(at as u16 % streams as u16, on.as_slice(), filler));
            }
            assert!(all.last().is_none_or(|last| led.is_committed(*last, PATIENCE)), "a majority is there");
            copies.iter_mut().for_each(Standby::follow);
            // Something more is under way, and perhaps acknowledged.
            let last = led.leave(0, &[], 3000);
            let is_in_order = chance.below(2) == 0;
            if is_in_order {
                assert!(led.is_committed(last, PATIENCE));
                all.push(last);
                led.driver.gives_way(true);
            } else {
                disks.lose_power();
            }
            let heir = copies.remove(chance.below(copies.len() as u64) as usize);
            let others: Vec<&Copy> = copies.iter().map(|standby| &standby.copy).collect();
            let (next, of_next) = heir.lead(term, &others);
            if is_in_order {
                assert_eq!(led.log.stop(), State::Running, "seed {seed}, term {term}: it rests");
            }
            led.stop();
            disks.crash(&mut chance);
            copies.push(Standby::start(std::mem::replace(&mut disks, of_next), 0));
            led = next;
            let refs: Vec<_> = copies.iter().map(|standby| standby.copy.port(&led.driver.listener())).collect();
            led.driver.follow_up(|_| refs);
        }
        all = led.found.clone();
        all.push(led.leave(0, &[], 100));
        assert!(all.last().is_none_or(|last| led.is_committed(*last, PATIENCE)), "a majority is there");
        led.stop();
        let mut found = Vec::new();
        Opened::of(disks.streams.clone(), &[]).unwrap().replay(|record| found.push(record.lsn)).unwrap();
        all.iter().for_each(|lsn| assert!(found.contains(lsn), "seed {seed}: {lsn} is lost"));
    }
}

/// A standby that begins to read when the rest was told is told, too.
#[test]
fn a_standby_that_reads_late_is_told_the_rest() {
    let (own, heir, other) = (Disks::new(2), Copy::start(Disks::new(2), 2), Copy::start(Disks::new(2), 3));
    let mut led = lead(&own, plan(1, 1, &[1, 2, 3], None), &[&heir, &other]);
    led.write(10);
    led.stop();
    let since = now();
    let ports = |listener: &Listener| vec![other.port(listener)];
    let mut wait = |_: quorum::Stage, _: &[quorum::AcceptorId]| since.elapsed() < PATIENCE;
    let driver =
        Driver::take_over(&heir.local, plan(2, 2, &[1, 2, 3], None), Limits::default(), ports, &mut wait).unwrap();
    let floor = driver.tell_rest(&heir.local, Lsn(0));
    let mut tap = heir.local.tap(Cut(0), Cut(0)).unwrap_or_else(|why| panic!("{why}"));
    while tap.follower().passed() != Ok(Cut(floor.0)) {
        assert!(since.elapsed() < PATIENCE, "{:?} of {floor}", tap.follower().passed());
        tap.step(&mut |_| {}).unwrap();
        thread::yield_now();
    }
    driver.stop();
}

/// A later term ends a log, unless the shard is given away.
#[test]
fn a_log_that_gives_way_is_not_ended_by_its_heir() {
    for gives_way in [false, true] {
        let (own, heir, other) = (Disks::new(1), Standby::start(Disks::new(1), 2), Copy::start(Disks::new(1), 3));
        let led = lead(&own, plan(1, 1, &[1, 2, 3], None), &[&heir.copy, &other]);
        led.driver.gives_way(gives_way);
        let (next, _) = heir.lead(2, &[&other]);
        // A copy tells of a later term only when it is spoken to.
        let tell = led.driver.listener();
        tell(other.local.id(), Heard::Lost);
        tell(other.local.id(), Heard::Connected);
        let since = now();
        while !led.driver.is_over() {
            assert!(since.elapsed() < PATIENCE, "it hears of the next term");
            thread::yield_now();
        }
        assert_eq!(matches!(led.log.state(), State::Failed(_)), !gives_way);
        if gives_way {
            led.driver.gives_way(false);
            assert!(matches!(led.log.state(), State::Failed(_)), "it stays here");
        }
        led.stop();
        next.stop();
    }
}
