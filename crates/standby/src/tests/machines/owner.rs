//! What an owner does for its standbys, and its tenure; what becomes of commands.

use clocks::BootMs;
use quorum::Cut;

use super::{counted, owned, process, term};
use crate::fate::{Fate, Sent, Waits, of_lost};
use crate::{Behind, Bounds, Change, Floor, GivenUp, Lags, NodeNumber, Tenure};

#[test]
fn a_cut_waits_for_every_pinned_copy_g12() {
    let (mut copies, two) = (owned(), process(2, 1));
    let mut floor = Floor::new(Cut(3), &copies);
    floor.own(Cut(8));
    assert_eq!(floor.get(), Cut(8));
    assert!(!floor.may_ship(two), "no checkpoint begins before the pin is known");
    copies.apply(Change::Pin { standby: two }).expect("a pin");
    floor.heard(&copies);
    floor.own(Cut(20));
    assert_eq!((floor.get(), floor.may_ship(two)), (Cut(8), true), "a copy that has not said how far it is");
    assert_eq!(floor.count(two.node), None);
    floor.covered(two, Cut(12));
    assert_eq!(floor.get(), Cut(12));
    let count = Change::Count { term: term(1), by: process(1, 1), standby: two, covered: Cut(12), floor: Cut(12) };
    assert_eq!(floor.count(two.node), Some(count));
    copies.apply(count).expect("a count");
    floor.heard(&copies);
    assert_eq!(floor.count(two.node), None, "it is counted");
    // It is given up: the floor moves when that is known.
    let give_up = floor.give_up(two.node).expect("a change");
    assert_eq!(floor.get(), Cut(12));
    copies.apply(give_up).expect("it is given up");
    floor.heard(&copies);
    floor.covered(two, Cut(13));
    assert_eq!(floor.get(), Cut(20));
}

#[test]
fn what_an_earlier_life_had_says_nothing() {
    let mut copies = counted();
    let mut floor = Floor::new(Cut(5), &copies);
    floor.own(Cut(50));
    floor.covered(process(2, 1), Cut(30));
    floor.covered(process(3, 1), Cut(40));
    assert_eq!(floor.get(), Cut(30));
    copies.apply(Change::Pin { standby: process(2, 2) }).expect("it begins anew");
    floor.heard(&copies);
    floor.covered(process(2, 1), Cut(45));
    assert_eq!((floor.get(), floor.count(NodeNumber(2))), (Cut(30), None));
    floor.covered(process(2, 2), Cut(29));
    assert!(floor.is_cut_off(NodeNumber(2)) && floor.count(NodeNumber(2)).is_none());
}

#[test]
fn a_standby_that_lags_slows_writers_down_and_is_given_up_s11() {
    let (copies, bounds) = (counted(), Bounds { bytes: 100, ms: 300, least_bytes: 10, patience_ms: 50, away_ms: 900 });
    let mut lags = Lags::new(bounds);
    lags.heard(&copies, BootMs(0));
    assert!(!lags.is_pressure(), "nobody is slowed down for standbys that are away");
    assert_eq!(lags.given_up(BootMs(10)), (vec![], BootMs(900)));
    let behind = |bytes, applied_bytes| Behind { bytes, ms: 0, applied_bytes };
    lags.report(process(2, 1), behind(101, 5), BootMs(10));
    assert!(lags.is_pressure());
    lags.report(process(3, 1), behind(99, 5), BootMs(10));
    assert!(!lags.is_pressure(), "the best one counts");
    // The second makes no progress worth mentioning.
    lags.report(process(2, 1), behind(500, 14), BootMs(50));
    assert_eq!(lags.given_up(BootMs(59)), (vec![], BootMs(60)));
    assert_eq!(lags.given_up(BootMs(60)).0, [(NodeNumber(2), GivenUp::Stuck)]);
    lags.report(process(2, 1), behind(500, 15), BootMs(59));
    assert_eq!(lags.given_up(BootMs(60)), (vec![], BootMs(109)), "it has applied enough");
    lags.lost(process(2, 1), BootMs(70));
    assert_eq!(lags.given_up(BootMs(969)).0, []);
    assert_eq!(lags.given_up(BootMs(970)).0, [(NodeNumber(2), GivenUp::Away)]);
}

#[test]
fn an_owner_executes_within_its_lease_alone() {
    let mut tenure = Tenure::new(term(2), BootMs(100), 20);
    tenure.granted(term(1), BootMs(900));
    tenure.led(true);
    tenure.restored();
    assert!(!tenure.may_execute(BootMs(130)), "a lease of another term");
    tenure.granted(term(2), BootMs(200));
    assert!(!tenure.may_execute(BootMs(119)), "it rests");
    assert!(tenure.may_execute(BootMs(120)) && !tenure.may_execute(BootMs(200)));
    assert!(tenure.may_answer_unlogged(BootMs(180), 20) && !tenure.may_answer_unlogged(BootMs(181), 20));
    tenure.freeze(true);
    assert!(!tenure.may_execute(BootMs(130)));
    tenure.freeze(false);
    tenure.again(term(3));
    assert!(!tenure.may_execute(BootMs(130)), "it has to lead first");
    tenure.led(true);
    assert!(tenure.may_execute(BootMs(130)), "the lease goes on (rule G1)");
    tenure.end();
    assert!(!tenure.may_execute(BootMs(130)));
}

#[test]
fn what_may_have_been_executed_is_closed_s9() {
    let sent = |may_write, waits| of_lost(Sent { may_write, waits });
    assert_eq!(sent(false, Waits::Nowhere), Fate::Again);
    assert_eq!((sent(true, Waits::Nowhere), sent(true, Waits::AtOwner)), (Fate::Close, Fate::Close));
    assert_eq!(sent(false, Waits::AtOwner), Fate::Close, "the owner knew from where it reads");
    assert_eq!((sent(true, Waits::AtOrigin), sent(false, Waits::AtOrigin)), (Fate::Stays, Fate::Stays));
}
