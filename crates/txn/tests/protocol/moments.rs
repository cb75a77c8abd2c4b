//! The moment that an attempt over several nodes names, so that keys expire for all of it or for none.

use std::sync::Arc;

use clocks::{BootMs, UnixMs};
use txn::locks::Mode;
use txn::{
    Action, Coordinator, Event, HybridTime, Life, Lock, Member, Message, NodeId, Origin, Part, Participant,
    ParticipantId, Prepare, Refusal, Settings, TxnId,
};

/// The Unix time when the boot clock is at 0.
const EPOCH: UnixMs = UnixMs(1_700_000_000_000);
const AHEAD: u64 = Settings::DEFAULT.moment_ms;

fn life(node: u64) -> Life {
    Life { node: NodeId(node), incarnation: 1 }
}

fn member(node: u64) -> Member {
    Member { id: ParticipantId(node), incarnation: 1 }
}

/// A transaction that writes at two nodes, and the Prepares that were sent.
fn begun(now: BootMs) -> (Coordinator, Vec<Arc<Prepare>>) {
    let mut coordinator = Coordinator::new(Origin { life: life(9), lane: 0 }, Settings::DEFAULT);
    coordinator.set_clock(BootMs::ZERO, EPOCH);
    let locks = Lock::normalized(vec![Lock { db: 0, key: (*b"k").into(), mode: Mode::Exclusive }]);
    let part = |node| Part { member: member(node), locks: locks.clone(), commands: Arc::default(), writes: true };
    let mut events = Vec::new();
    coordinator.begin(now, HybridTime(1), vec![part(1), part(2)], &mut events);
    (coordinator, prepares(events))
}

fn prepares(events: Vec<Event>) -> Vec<Arc<Prepare>> {
    let prepare = |event| match event {
        Event::Send { message: Message::Prepare(prepare), .. } => Some(prepare),
        _ => None,
    };
    events.into_iter().filter_map(prepare).collect()
}

fn moments(prepares: &[Arc<Prepare>]) -> Vec<UnixMs> {
    prepares.iter().map(|prepare| prepare.moment).collect()
}

/// A participant refuses the present attempt at `now`. Returns the moment of the next one.
fn refused(
    coordinator: &mut Coordinator,
    tx: TxnId,
    now: u64,
    theirs: UnixMs,
    ends: Option<UnixMs>,
) -> (TxnId, UnixMs) {
    let why = Refusal::Untimely { now: theirs, ends };
    let mut events = Vec::new();
    coordinator.message(BootMs(now), member(1), Message::Refused { tx, why }, &mut events);
    let mut prepares = prepares(events);
    if prepares.is_empty() {
        let mut events = Vec::new();
        coordinator.tick(coordinator.next_tick().expect("it is tried again"), &mut events);
        prepares = self::prepares(events);
    }
    assert_eq!(prepares.len(), 2);
    assert_eq!(prepares[0].moment, prepares[1].moment, "one for all");
    (prepares[0].tx, prepares[0].moment)
}

#[test]
fn it_is_a_little_ahead_and_the_same_for_all() {
    let (mut coordinator, sent) = begun(BootMs(50));
    assert_eq!(moments(&sent), [EPOCH + 50 + AHEAD; 2]);
    let mut again = Vec::new();
    coordinator.linked(BootMs(400), ParticipantId(1), &mut again);
    assert_eq!(moments(&prepares(again)), [EPOCH + 50 + AHEAD], "also when it is sent again");
}

#[test]
fn who_is_ahead_of_it_is_followed() {
    let (mut coordinator, sent) = begun(BootMs::ZERO);
    let theirs = EPOCH + 5000;
    let (tx, moment) = refused(&mut coordinator, sent[0].tx, 10, theirs, None);
    assert!(moment > theirs + AHEAD, "{moment}");
    // The attempt took long for another reason: there is more time the next time.
    let (_, later) = refused(&mut coordinator, tx, 8000, EPOCH + 8000, None);
    assert!(later >= EPOCH + 8000 + 2 * AHEAD, "{later}");
}

#[test]
fn a_key_that_ends_soon_is_gone_before() {
    let (mut coordinator, sent) = begun(BootMs::ZERO);
    let (mut tx, ends) = (sent[0].tx, EPOCH + 100);
    for now in [10, 60, 80] {
        let (next, moment) = refused(&mut coordinator, tx, now, EPOCH + now, Some(ends));
        assert!((EPOCH + now..=ends).contains(&moment), "{now}: {moment}");
        tx = next;
    }
    // By one clock the key has not expired, by the other it has.
    let (tx, moment) = refused(&mut coordinator, tx, 110, EPOCH + 150, None);
    assert!(moment >= EPOCH + 150, "{moment}");
    let (_, moment) = refused(&mut coordinator, tx, 120, EPOCH + 90, Some(ends));
    assert!(moment >= EPOCH + 160, "no moment helps before it has ended by both: {moment}");
}

/// No key expires by the coordinator's clock.
#[test]
fn a_coordinator_that_is_ahead_names_the_moments_of_others() {
    let (mut coordinator, sent) = begun(BootMs(60_000));
    let (theirs, ends) = (EPOCH + 10, EPOCH + 3000);
    let (_, moment) = refused(&mut coordinator, sent[0].tx, 60_001, theirs, Some(ends));
    assert!((theirs + AHEAD..=ends).contains(&moment), "{moment}");
}

/// A participant whose clock is past the moment may take part if all its keys exist. If one does not, it refuses.
#[test]
fn keys_that_are_there_are_of_a_moment_that_is_over() {
    let (mut coordinator, sent) = begun(BootMs::ZERO);
    // A key of a node that is far ahead expires soon, and then one of another node sooner, by a right clock.
    let (tx, _) = refused(&mut coordinator, sent[0].tx, 10, EPOCH + 9000, Some(EPOCH + 9500));
    let ends = EPOCH + 3000;
    let (tx, moment) = refused(&mut coordinator, tx, 20, EPOCH + 20, Some(ends));
    assert!((EPOCH + 20..=ends).contains(&moment), "{moment}");
    let (tx, moment) = refused(&mut coordinator, tx, 30, EPOCH + 9020, None);
    assert!(moment >= EPOCH + 9020, "{moment}");
    // It begins again after a while, as there is no such moment.
    let (_, moment) = refused(&mut coordinator, tx, 40, EPOCH + 40, Some(ends));
    assert!((EPOCH + 40..EPOCH + 9000).contains(&moment), "{moment}");
}

#[test]
fn who_is_alone_is_of_any_moment() {
    let (_, sent) = begun(BootMs::ZERO);
    for members in [1, 2] {
        let mut participant = Participant::new(member(1), Settings::DEFAULT);
        let prepare = Prepare { members: sent[0].members[..members].into(), ..(*sent[0]).clone() };
        let mut actions = Vec::new();
        participant.message(BootMs::ZERO, life(9), Message::Prepare(prepare.into()), &mut actions);
        actions.clear();
        participant.locked(sent[0].tx, true, &mut actions);
        let of = |action: &Action| if let Action::Execute { moment, .. } = action { Some(*moment) } else { None };
        let expected = if members == 1 { None } else { Some(sent[0].moment) };
        assert_eq!(actions.iter().find_map(of), Some(expected));
    }
}
