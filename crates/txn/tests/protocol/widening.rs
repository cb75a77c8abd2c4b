//! Attempts that are widened: the participants that are asked, the answers that count, and the locks that are given
//! back.

use std::sync::Arc;

use crate::glue::program;
use clocks::{BootMs, UnixMs};
use txn::{
    Action, Coordinator, Event, HybridTime, Life, Lock, Member, Message, NodeId, Origin, Part, Participant,
    ParticipantId, Prepare, Recipient, Refusal, Settings, Stamp, TxnId,
};

const SETTINGS: Settings = Settings { resend_ms: 100, hold_ms: 300, ..Settings::DEFAULT };

fn life(node: u64) -> Life {
    Life { node: NodeId(node), incarnation: 1 }
}

fn member(node: u64) -> Member {
    Member { id: ParticipantId(node), incarnation: 1 }
}

fn part(node: u64, key: u16) -> Part {
    let (locks, commands) = program(1, &[], &[key]);
    Part { member: member(node), locks, commands, writes: true }
}

/// A coordinator that has fetched a key of node 1 and one of node 2.
fn fetched() -> (Coordinator, TxnId) {
    let mut coordinator = Coordinator::new(Origin { life: life(9), lane: 3 }, SETTINGS);
    let sequence = coordinator.begin_fetching(BootMs(0), HybridTime(70), vec![part(1, 1), part(2, 2)], &mut Vec::new());
    let tx = coordinator.current(sequence).expect("open");
    tell(&mut coordinator, 0, 1, found(tx, 0));
    let events = tell(&mut coordinator, 0, 2, found(tx, 0));
    assert!(matches!(&events[..], [Event::Fetched { round: 0, found, .. }] if found.len() == 2), "{events:?}");
    (coordinator, tx)
}

fn found(tx: TxnId, round: u32) -> Message {
    Message::Fetched { tx, round, found: Arc::new([1]) }
}

fn tell(coordinator: &mut Coordinator, now: u64, from: u64, message: Message) -> Vec<Event> {
    let mut events = Vec::new();
    coordinator.message(BootMs(now), member(from), message, &mut events);
    events
}

fn messages(events: Vec<Event>) -> Vec<(u64, Message)> {
    let of = |event| if let Event::Send { to, message } = event { Some((to.0, message)) } else { None };
    events.into_iter().filter_map(of).collect()
}

#[test]
fn only_who_has_further_keys_is_asked_and_only_answers_of_the_round_count() {
    let (mut coordinator, tx) = fetched();
    let which = (tx.sequence, tx.attempt);
    let mut events = Vec::new();
    assert!(coordinator.widen(BootMs(1), which, vec![part(2, 4), part(3, 3)], &mut events));
    let asked = messages(events);
    let [(2, Message::Widen { round: 1, locks, .. }), (3, Message::Fetch(fetch))] = &asked[..] else {
        panic!("{asked:?}")
    };
    assert_eq!((&**locks, fetch.members.len()), (&*part(2, 4).locks, 3));
    assert!(!coordinator.widen(BootMs(1), which, vec![part(1, 5)], &mut Vec::new()), "it has not been answered");
    assert_eq!(tell(&mut coordinator, 2, 2, found(tx, 0)), [], "said before");
    assert_eq!(tell(&mut coordinator, 2, 1, found(tx, 0)), [], "not asked");
    assert_eq!(tell(&mut coordinator, 2, 3, found(tx, 0)), []);
    let events = tell(&mut coordinator, 2, 2, found(tx, 1));
    let [Event::Fetched { round: 1, found, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(found.iter().map(|(node, _)| node.0).collect::<Vec<_>>(), [2, 3]);
    let mut events = Vec::new();
    assert!(coordinator.proceed(BootMs(3), which, &[], &mut events));
    let names_all = |message: &Message| matches!(message, Message::Proceed { members, .. } if members.len() == 3);
    let told = messages(events);
    assert!(told.len() == 3 && told.iter().all(|(_, message)| names_all(message)), "{told:?}");
}

/// Rounds may follow each other fast.
#[test]
fn who_is_not_asked_hears_often_that_it_is_still_wanted() {
    let (mut coordinator, tx) = fetched();
    let (mut last, mut longest) = (0, 0);
    for round in 1..200 {
        let now = 5 * u64::from(round);
        let mut events = Vec::new();
        assert!(coordinator.widen(BootMs(now), (tx.sequence, 1), vec![part(1, 2 * round as u16 + 1)], &mut events));
        coordinator.tick(BootMs(now + 1), &mut events);
        tell(&mut coordinator, now + 2, 1, found(tx, round));
        if messages(events).contains(&(2, Message::Hold { tx })) {
            longest = longest.max(now - last);
            last = now;
        }
    }
    assert!(last > 850 && longest <= SETTINGS.hold_ms / 2, "{last} {longest}");
}

#[test]
fn the_next_attempt_asks_for_all_that_is_known() {
    let (mut coordinator, tx) = fetched();
    assert!(coordinator.widen(BootMs(1), (tx.sequence, 1), vec![part(2, 4), part(3, 3)], &mut Vec::new()));
    let events = tell(&mut coordinator, 2, 2, Message::Refused { tx, why: Refusal::Conflict });
    let over = messages(events);
    assert!(matches!(&over[..], [(1, Message::Abort { .. }), (3, Message::Abort { .. })]), "{over:?}");
    let mut events = Vec::new();
    coordinator.tick(BootMs(1000), &mut events);
    // The node with the conflict is asked first.
    let is_next = |prepare: &Prepare| prepare.tx.attempt == 2 && prepare.patient;
    let first = messages(events);
    let first = first.iter().find_map(|(to, message)| match message {
        Message::Fetch(prepare) if is_next(prepare) => Some((*to, prepare.locks.len())),
        _ => None,
    });
    assert_eq!(first, Some((2, 2)));
}

/// A part at node 1 that has sent its values.
fn part_that_has_fetched() -> (Participant, TxnId) {
    let origin = Origin { life: life(9), lane: 0 };
    let tx = TxnId { origin, sequence: 1, attempt: 1 };
    let (locks, commands) = program(1, &[], &[2]);
    let (members, stamp) = (Arc::new([member(1)]), Stamp { time: HybridTime(1), node: NodeId(9), lane: 0 });
    let fetch =
        Prepare { tx, stamp, members, locks, commands, logged: true, patient: true, finished: 0, moment: UnixMs::ZERO };
    let mut participant = Participant::new(member(1), SETTINGS);
    let mut actions = Vec::new();
    participant.message(BootMs(0), life(9), Message::Fetch(Arc::new(fetch)), &mut actions);
    participant.locked(tx, true, &mut actions);
    participant.fetched(BootMs(0), tx, Arc::new([1]), &mut actions);
    (participant, tx)
}

fn widen(participant: &mut Participant, (tx, round, key): (TxnId, u32, u16)) -> Vec<Action> {
    let mut actions = Vec::new();
    participant.message(BootMs(1), life(9), Message::Widen { tx, round, locks: part(1, key).locks }, &mut actions);
    actions
}

fn keys(locks: &[Lock]) -> Vec<u16> {
    locks.iter().map(|lock| u16::from_be_bytes([lock.key[0], lock.key[1]])).collect()
}

/// The keys that these actions unlock, at once.
fn unlocked(actions: &[Action]) -> Vec<u16> {
    let unlocks: Vec<_> = actions.iter().filter(|action| matches!(action, Action::Unlock { .. })).collect();
    let [Action::Unlock { locks, .. }] = &unlocks[..] else { panic!("{actions:?}") };
    keys(locks)
}

#[test]
fn whatever_ends_a_part_gives_all_back() {
    let ends: [fn(&mut Participant, TxnId, &mut Vec<Action>); 6] = [
        // An older transaction has the key.
        |participant, tx, out| participant.locked(tx, false, out),
        |participant, tx, out| participant.message(BootMs(2), life(9), Message::Abort { tx, finished: 0 }, out),
        // The holder of the key is in doubt.
        |participant, tx, out| assert!(participant.refuse_queued(tx, Refusal::Moved, out)),
        // Its coordinator is silent, or has ended.
        |participant, _, out| participant.tick(BootMs(1000), out),
        |participant, _, out| participant.peer(BootMs(2), Life { incarnation: 2, ..life(9) }, out),
        // It was granted, and given up while it read.
        |participant, tx, out| {
            participant.locked(tx, true, out);
            participant.message(BootMs(2), life(9), Message::Abort { tx, finished: 0 }, out);
            participant.fetched(BootMs(3), tx, Arc::new([1]), out);
        },
    ];
    for end in ends {
        let (mut participant, tx) = part_that_has_fetched();
        let actions = widen(&mut participant, (tx, 3, 5));
        let [Action::Lock { locks, patient: false, widens: true, .. }] = &actions[..] else { panic!("{actions:?}") };
        assert_eq!(keys(locks), [5]);
        assert!(participant.is_queued(tx));
        let mut actions = Vec::new();
        participant.locked(tx, true, &mut actions);
        assert!(matches!(&actions[..], [Action::Fetch { locks, .. }] if keys(locks) == [5]), "{actions:?}");
        participant.fetched(BootMs(1), tx, Arc::new([2]), &mut actions);
        widen(&mut participant, (tx, 4, 1));
        let mut actions = Vec::new();
        end(&mut participant, tx, &mut actions);
        assert_eq!(unlocked(&actions), [1, 2, 5]);
        assert!(!participant.is_queued(tx));
    }
}

#[test]
fn a_round_that_comes_again_is_answered_again_and_an_earlier_one_is_not() {
    let (mut participant, tx) = part_that_has_fetched();
    assert_eq!(widen(&mut participant, (tx, 2, 5)).len(), 1);
    assert_eq!(widen(&mut participant, (tx, 2, 5)), [], "it waits");
    let mut actions = Vec::new();
    participant.locked(tx, true, &mut actions);
    assert_eq!(widen(&mut participant, (tx, 2, 5)), [], "it is looked at");
    participant.fetched(BootMs(1), tx, Arc::new([2]), &mut actions);
    let answer = Message::Fetched { tx, round: 2, found: Arc::new([2]) };
    assert_eq!(
        widen(&mut participant, (tx, 2, 5)),
        [Action::Send { to: Recipient::Coordinator(NodeId(9)), message: answer }]
    );
    assert_eq!(widen(&mut participant, (tx, 1, 7)), []);
    // The part that it is bound to has all keys, and names all members.
    let (members, commands) = (Arc::from([member(1), member(2)]), Arc::from([1]));
    let mut actions = Vec::new();
    participant.message(BootMs(2), life(9), Message::Proceed { tx, members, logged: true, commands }, &mut actions);
    assert!(matches!(&actions[..], [Action::Proceed { locks, .. }] if keys(locks) == [2, 5]), "{actions:?}");
    actions.clear();
    let done = txn::Execution::Done { effects: Arc::new([1]), replies: Arc::default() };
    participant.executed(tx, done, &mut actions);
    let [Action::Append { record: txn::Record::Prepare(prepared) }] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!((keys(&prepared.locks), prepared.members.len()), (vec![2, 5], 2));
    assert_eq!(widen(&mut participant, (tx, 3, 7)), [], "it has come late");
}

/// A node that does not know the part any more takes no part in the attempt: the part may have held locks, and does not
/// now.
#[test]
fn a_part_that_is_not_known_is_not_widened() {
    let tx = TxnId { origin: Origin { life: life(9), lane: 0 }, sequence: 1, attempt: 1 };
    let mut participant = Participant::new(member(1), SETTINGS);
    let refused = |why| [Action::Send { to: Recipient::Coordinator(NodeId(9)), message: Message::Refused { tx, why } }];
    assert_eq!(widen(&mut participant, (tx, 1, 5)), refused(Refusal::Stale));
    assert_eq!(widen(&mut participant, (tx, 1, 5)), refused(Refusal::Over));
}
