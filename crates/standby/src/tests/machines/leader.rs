//! The leader's decisions.

use clocks::BootMs;
use quorum::Cut;

use super::{counted, process, term};
use crate::{Change, Decision, Health, Leader, NodeNumber, Position, Process, Refused, Renewal, Settings, Why};

const SETTINGS: Settings =
    Settings { lease_ms: 800, renew_ms: 100, d_ms: 80, calm_ms: 60_000, useless_ms: 5_000, lag_bytes: 1_000 };

fn leader() -> Leader {
    let mut leader = Leader::new(SETTINGS);
    leader.reign(1, &counted(), BootMs(0));
    leader
}

fn position(log: u64, behind_bytes: u64) -> Position {
    Position { log: Cut(log), behind_bytes, priority: 100, is_beside_leader: false }
}

fn renewal(process: Process, position: Option<Position>) -> Renewal {
    Renewal { process, health: Health::default(), position }
}

/// Both standbys renew.
fn standbys_renew(leader: &mut Leader, now: u64) {
    for (node, log) in [(2, 50), (3, 60)] {
        let renewal = renewal(process(node, 1), Some(position(log, 10)));
        assert_eq!(leader.renew(&counted(), renewal, BootMs(now)), Err(Refused::NotOwner));
    }
}

fn taken(decision: Decision) -> Option<(Process, Why, u64)> {
    match decision {
        Decision::TakeOver { change: Change::TakeOver { known, to, rests_ms }, why } => {
            assert_eq!(known, term(1));
            Some((to, why, rests_ms))
        }
        _ => None,
    }
}

#[test]
fn a_silent_owner_has_a_lease_of_the_leaders_own_reign_s6() {
    let (mut leader, copies) = (leader(), counted());
    assert_eq!(leader.renew(&copies, renewal(process(1, 1), None), BootMs(100)), Ok(800));
    standbys_renew(&mut leader, 900);
    assert_eq!(leader.decide(&copies, BootMs(999)), Decision::Wait(BootMs(1_000)));
    // Another leader waits as long from its begin, whatever it has heard of.
    leader.reign(2, &copies, BootMs(990));
    standbys_renew(&mut leader, 1_800);
    assert_eq!(leader.decide(&copies, BootMs(1_889)), Decision::Wait(BootMs(1_890)));
    assert_eq!(taken(leader.decide(&copies, BootMs(1_890))), Some((process(3, 1), Why::Silent, 0)));
    let late = leader.renew(&copies, renewal(process(1, 1), None), BootMs(1_891));
    assert_eq!(late, Err(Refused::Fenced), "while the change is under way");
}

#[test]
fn an_end_of_a_lease_before_its_time_is_proved_s12() {
    let copies = counted();
    for is_later_life in [false, true] {
        let mut leader = leader();
        assert_eq!(leader.renew(&copies, renewal(process(1, 1), None), BootMs(100)), Ok(800));
        standbys_renew(&mut leader, 150);
        match is_later_life {
            true => leader.alive(process(1, 2), BootMs(150)),
            false => leader.ended(process(1, 1)),
        }
        assert_eq!(taken(leader.decide(&copies, BootMs(151))), Some((process(3, 1), Why::Ended, 90)));
        assert_eq!(leader.renew(&copies, renewal(process(1, 1), None), BootMs(152)), Err(Refused::Fenced));
    }
}

#[test]
fn an_owner_that_has_started_again_gives_way_to_a_standby_that_is_near_s12() {
    let (copies, back) = (counted(), process(1, 2));
    let mut leader = leader();
    assert_eq!(leader.renew(&copies, renewal(back, None), BootMs(10)), Err(Refused::NotOwner));
    assert!(!leader.may_lead(&copies, back, BootMs(199)), "standbys have not had the time to say where they are");
    assert!(leader.may_lead(&copies, back, BootMs(200)), "nobody else is here");
    let far = renewal(process(2, 1), Some(position(50, 1_001)));
    assert_eq!(leader.renew(&copies, far, BootMs(210)), Err(Refused::NotOwner));
    assert!(leader.may_lead(&copies, back, BootMs(220)) && taken(leader.decide(&copies, BootMs(220))).is_none());
    standbys_renew(&mut leader, 230);
    assert!(!leader.may_lead(&copies, back, BootMs(230)));
    assert_eq!(taken(leader.decide(&copies, BootMs(230))), Some((process(3, 1), Why::Ended, 90)));
}

/// It may have been heard of and not have renewed yet. After a lease's time nobody waits for it any more.
#[test]
fn an_owner_that_has_started_again_is_waited_for_a_lease_s12() {
    let copies = counted();
    for renews in [false, true] {
        let mut leader = leader();
        leader.alive(process(1, 2), BootMs(10));
        leader.alive(process(1, 2), BootMs(500));
        if renews {
            assert_eq!(leader.renew(&copies, renewal(process(1, 2), None), BootMs(50)), Err(Refused::NotOwner));
        }
        let far = renewal(process(2, 1), Some(position(50, 1_001)));
        assert_eq!(leader.renew(&copies, far, BootMs(900)), Err(Refused::NotOwner));
        let until = if renews { 950 } else { 910 };
        assert_eq!(taken(leader.decide(&copies, BootMs(until - 1))), None);
        assert_eq!(taken(leader.decide(&copies, BootMs(until))), Some((process(2, 1), Why::Ended, 90)));
    }
}

#[test]
fn a_process_that_lives_is_taken_over_once_a_minute_s13() {
    let (mut leader, mut copies) = (leader(), counted());
    standbys_renew(&mut leader, 800);
    assert_eq!(taken(leader.decide(&copies, BootMs(900))), Some((process(3, 1), Why::Silent, 0)));
    let (Ok(()), owner) =
        (copies.apply(Change::TakeOver { known: term(1), to: process(3, 1), rests_ms: 0 }), process(3, 1))
    else {
        panic!("it is electable")
    };
    leader.done(true, BootMs(910));
    assert_eq!(leader.renew(&copies, renewal(owner, None), BootMs(920)), Ok(800));
    let two = renewal(process(2, 1), Some(position(50, 0)));
    assert_eq!(leader.renew(&copies, two, BootMs(2_000)), Err(Refused::NotOwner));
    assert_eq!(leader.decide(&copies, BootMs(2_001)), Decision::Wait(BootMs(60_910)));
    leader.ended(owner);
    assert!(matches!(leader.decide(&copies, BootMs(2_002)), Decision::TakeOver { why: Why::Ended, .. }));
}

#[test]
fn a_useless_owner_loses_its_lease_to_a_standby_that_is_of_use_s13() {
    let copies = counted();
    let owner = |health| Renewal { process: process(1, 1), health, position: None };
    let stuck = owner(Health { stuck_ms: 5_000, ..Health::default() });
    let stalled = owner(Health { stalled_ms: 5_000, ..Health::default() });
    let mut leader = leader();
    assert_eq!(leader.renew(&copies, stuck, BootMs(10)), Ok(800), "nobody else is here");
    standbys_renew(&mut leader, 20);
    assert_eq!(leader.renew(&copies, stuck, BootMs(30)), Err(Refused::Useless));
    assert_eq!(leader.renew(&copies, stalled, BootMs(30)), Ok(800), "the standbys' writes do not come through either");
    let health = Health { reaches_majority: true, ..Health::default() };
    let two = Renewal { health, ..renewal(process(2, 1), Some(position(50, 0))) };
    assert_eq!(leader.renew(&copies, two, BootMs(40)), Err(Refused::NotOwner));
    assert_eq!(leader.renew(&copies, stalled, BootMs(50)), Err(Refused::Useless));
    let brief = owner(Health { stuck_ms: 4_999, stalled_ms: 4_999, ..Health::default() });
    assert_eq!(leader.renew(&copies, brief, BootMs(60)), Ok(800));
    let failed = Health { disk_failed: true, ..Health::default() };
    assert_eq!(leader.renew(&copies, owner(failed), BootMs(70)), Err(Refused::Useless));
    // Neither of the standbys has a disk that works.
    for node in [2, 3] {
        let standby = Renewal { health: failed, ..renewal(process(node, 1), Some(position(50, 0))) };
        assert_eq!(leader.renew(&copies, standby, BootMs(80)), Err(Refused::NotOwner));
    }
    assert_eq!(leader.renew(&copies, owner(failed), BootMs(90)), Ok(800));
}

#[test]
fn a_yield_ends_a_lease_of_its_term_s10() {
    let (mut leader, copies) = (leader(), counted());
    assert_eq!(leader.renew(&copies, renewal(process(1, 1), None), BootMs(100)), Ok(800));
    standbys_renew(&mut leader, 150);
    leader.yielded(process(1, 1), term(2), NodeNumber(2), true);
    assert!(taken(leader.decide(&copies, BootMs(151))).is_none(), "of another term");
    leader.yielded(process(1, 1), term(1), NodeNumber(2), true);
    assert_eq!(leader.renew(&copies, renewal(process(1, 1), None), BootMs(152)), Err(Refused::Fenced));
    assert!(leader.may_lead(&copies, process(1, 1), BootMs(152)), "it may take it back");
    assert_eq!(taken(leader.decide(&copies, BootMs(153))), Some((process(2, 1), Why::Yielded, 0)));
    assert!(!leader.may_lead(&copies, process(1, 1), BootMs(154)), "a change is under way");
}

#[test]
fn the_longest_log_goes_before_the_least_lag_and_the_priority_s5() {
    let copies = counted();
    let best = |two: Position, three: Position| {
        let mut leader = leader();
        for (node, position) in [(2, two), (3, three)] {
            leader.renew(&copies, renewal(process(node, 1), Some(position)), BootMs(1)).expect_err("no owner");
        }
        leader.ended(process(1, 1));
        taken(leader.decide(&copies, BootMs(2))).map(|(to, ..)| to.node.0)
    };
    let of = |log, behind, priority| Position { priority, ..position(log, behind) };
    assert_eq!(best(of(61, 9, 9), of(60, 0, 1)), Some(2));
    assert_eq!(best(of(60, 9, 1), of(60, 8, 9)), Some(3));
    assert_eq!(best(of(60, 9, 2), of(60, 9, 1)), Some(3));
    assert_eq!(best(of(60, 9, 1), of(60, 9, 1)), Some(2));
    assert_eq!(best(Position { is_beside_leader: true, ..position(60, 9) }, position(60, 9)), Some(3));
    assert_eq!((best(of(60, 9, 0), of(10, 99, 1)), best(of(60, 9, 0), of(10, 99, 0))), (Some(3), None));
}

#[test]
fn a_successor_has_the_time_of_a_lease_to_renew_s6() {
    let (mut leader, mut copies) = (leader(), counted());
    leader.ended(process(1, 1));
    standbys_renew(&mut leader, 2_000);
    assert_eq!(taken(leader.decide(&copies, BootMs(2_000))), Some((process(3, 1), Why::Ended, 90)));
    copies.apply(Change::TakeOver { known: term(1), to: process(3, 1), rests_ms: 90 }).expect("it is electable");
    leader.done(true, BootMs(2_010));
    assert_eq!(leader.decide(&copies, BootMs(2_011)), Decision::Wait(BootMs(2_911)));
}
