//! The replies that clients get (rule T9), and the work of coordinators and participants when something is moved,
//! cannot be done or is lost for good.

use std::sync::Arc;

use crate::glue::program;
use clocks::{BootMs, UnixMs};
use txn::{
    Action, Coordinator, Event, Execution, HybridTime, Life, Member, Message, NodeId, Origin, Part, Participant,
    ParticipantId, Recipient, Record, RecordKind, Refusal, Settings, Status, TxnId,
};

const SETTINGS: Settings = Settings {
    patience_ms: 500,
    resend_ms: 100,
    outcome_ms: 100,
    read_ms: 100,
    hold_ms: 100,
    moment_ms: 1000,
    backoff_ms: 4,
    backoff_max_ms: 10,
};

fn life(node: u64, incarnation: u64) -> Life {
    Life { node: NodeId(node), incarnation }
}

fn member(node: u64, incarnation: u64) -> Member {
    Member { id: ParticipantId(node), incarnation }
}

fn part(node: u64, key: u16) -> Part {
    let (locks, commands) = program(1, &[], &[key]);
    Part { member: member(node, 1), locks, commands, writes: true }
}

fn coordinator() -> Coordinator {
    Coordinator::new(Origin { life: life(9, 1), lane: 3 }, SETTINGS)
}

fn parted() -> (Coordinator, Vec<Part>) {
    (coordinator(), vec![part(2, 2), part(1, 1)])
}

/// A coordinator with a transaction at nodes 1 and 2, which have been asked.
fn begun() -> (Coordinator, u64) {
    let (mut coordinator, parts) = parted();
    let mut events = Vec::new();
    let sequence = coordinator.begin(BootMs(0), HybridTime(70), parts, &mut events);
    assert_eq!(events.len(), 2);
    (coordinator, sequence)
}

fn tell(coordinator: &mut Coordinator, now: u64, from: u64, message: Message) -> Vec<Event> {
    let mut events = Vec::new();
    coordinator.message(BootMs(now), member(from, 1), message, &mut events);
    events
}

fn tick(coordinator: &mut Coordinator, now: u64) -> Vec<Event> {
    let mut events = Vec::new();
    coordinator.tick(BootMs(now), &mut events);
    events
}

fn prepared(tx: TxnId) -> Message {
    Message::Prepared { tx, replies: Some(Arc::new([7])) }
}

fn refused(tx: TxnId, why: Refusal) -> Message {
    Message::Refused { tx, why }
}

/// The messages sent, by receiver and kind.
fn sent(events: &[Event]) -> Vec<(u64, &'static str)> {
    let kind = |event: &Event| match event {
        Event::Send { to, message } => Some((
            to.0,
            match message {
                Message::Prepare(_) => "prepare",
                Message::Commit { .. } => "commit",
                Message::Abort { .. } => "abort",
                Message::Finished { .. } => "finished",
                Message::Hold { .. } => "hold",
                Message::CallOff { .. } => "call off",
                _ => "other",
            },
        )),
        _ => None,
    };
    events.iter().filter_map(kind).collect()
}

#[test]
fn the_client_is_answered_when_all_are_prepared() {
    let (mut coordinator, sequence) = begun();
    let tx = coordinator.current(sequence).expect("open");
    assert_eq!(tell(&mut coordinator, 1, 2, prepared(tx)), []);
    assert_eq!(tell(&mut coordinator, 1, 2, prepared(tx)), [], "said twice is said once");
    let events = tell(&mut coordinator, 2, 1, prepared(tx));
    let reply: Arc<[u8]> = Arc::new([7]);
    let replies = vec![(ParticipantId(1), Arc::clone(&reply)), (ParticipantId(2), reply)];
    assert_eq!(events[0], Event::Reply { sequence, replies });
    assert_eq!(sent(&events), [(1, "commit"), (2, "commit")]);
    assert_eq!(coordinator.finished(), sequence);
    tell(&mut coordinator, 3, 1, Message::Acknowledged { tx });
    assert_eq!(sent(&tick(&mut coordinator, 102)), [(2, "commit")], "until it is acknowledged");
    tell(&mut coordinator, 103, 2, Message::Acknowledged { tx });
    assert_eq!(coordinator.finished(), sequence + 1);
    assert_eq!(sent(&tick(&mut coordinator, 203)), [(1, "finished"), (2, "finished")]);
    assert_eq!(coordinator.next_tick(), None);
}

#[test]
fn a_conflict_is_never_the_clients_problem() {
    let (mut coordinator, sequence) = begun();
    let first = coordinator.current(sequence).expect("open");
    let mut now = 1;
    for attempt in 1..10 {
        let tx = coordinator.current(sequence).expect("open");
        assert_eq!(tx, TxnId { attempt: 2 * attempt - 1, ..first });
        let events = tell(&mut coordinator, now, 1, refused(tx, Refusal::Conflict));
        assert_eq!(sent(&events), [(2, "abort")]);
        assert_eq!(events.len(), 1);
        tell(&mut coordinator, now, 2, Message::Acknowledged { tx });
        now = coordinator.next_tick().expect("it tries again").0;
        let events = tick(&mut coordinator, now);
        assert_eq!(sent(&events), [(1, "prepare")], "first where somebody was in its way");
        assert_eq!(asked(&events), [(70, true)], "only the stamp survives");
        assert_eq!(
            sent(&tick(&mut coordinator, now + 100)),
            [(1, "prepare")],
            "it waits there, and has nothing elsewhere"
        );
        let tx = coordinator.current(sequence).expect("open");
        let events = tell(&mut coordinator, now + 101, 1, prepared(tx));
        assert_eq!(sent(&events), [(2, "prepare")]);
        assert_eq!(asked(&events), [(70, false)]);
        assert_eq!(sent(&tell(&mut coordinator, now + 101, 1, prepared(tx))), [], "it is said twice");
        // The other transaction is in its way now.
        let events = tell(&mut coordinator, now + 102, 2, refused(tx, Refusal::Conflict));
        assert_eq!(sent(&events), [(1, "abort")]);
        tell(&mut coordinator, now + 102, 1, Message::Acknowledged { tx });
        now = coordinator.next_tick().expect("it tries again").0;
        assert_eq!(sent(&tick(&mut coordinator, now)), [(2, "prepare")]);
        let tx = coordinator.current(sequence).expect("open");
        assert_eq!(sent(&tell(&mut coordinator, now, 2, prepared(tx))), [(1, "prepare")]);
    }
}

/// The ages of those that are asked to prepare, and true if they may wait.
fn asked(events: &[Event]) -> Vec<(u64, bool)> {
    let prepares = events.iter().filter_map(|event| match event {
        Event::Send { message: Message::Prepare(prepare), .. } => Some((prepare.stamp.time.0, prepare.patient)),
        _ => None,
    });
    prepares.collect()
}

/// A node that was not asked cannot be prepared: the outcome is not left to the others.
#[test]
fn who_is_lost_before_it_is_asked_is_nobodys_doubt() {
    let (mut coordinator, sequence) = begun();
    let tx = coordinator.current(sequence).expect("open");
    tell(&mut coordinator, 1, 1, refused(tx, Refusal::Conflict));
    tell(&mut coordinator, 1, 2, Message::Acknowledged { tx });
    let now = coordinator.next_tick().expect("it tries again").0;
    assert_eq!(sent(&tick(&mut coordinator, now)), [(1, "prepare")]);
    let mut events = Vec::new();
    coordinator.lost(BootMs(now), ParticipantId(2), &mut events);
    assert_eq!(sent(&events), [(1, "abort")]);
    assert!(events.contains(&Event::Reroute { sequence }));
}

/// Others may wait for locks that an ended attempt still holds.
#[test]
fn who_is_not_asked_yet_hears_that_earlier_attempts_are_over() {
    let (mut coordinator, sequence) = begun();
    let tx = coordinator.current(sequence).expect("open");
    assert_eq!(sent(&tell(&mut coordinator, 1, 1, refused(tx, Refusal::Conflict))), [(2, "abort")]);
    let now = coordinator.next_tick().expect("it tries again").0;
    assert_eq!(sent(&tick(&mut coordinator, now)), [(1, "prepare")]);
    assert_eq!(sent(&tick(&mut coordinator, now + 100)), [(2, "abort"), (1, "prepare")], "it was not acknowledged");
    let mut events = Vec::new();
    coordinator.linked(BootMs(now + 101), ParticipantId(2), &mut events);
    assert_eq!(sent(&events), [(2, "abort")]);
    assert_eq!(coordinator.waits_for(ParticipantId(2)).map(|(_, binds)| binds).collect::<Vec<_>>(), [false]);
    assert_eq!(coordinator.waits_for(ParticipantId(1)).map(|(_, binds)| binds).collect::<Vec<_>>(), [true]);
}

/// A queue may hold many whose coordinator has ended and is not back.
#[test]
fn who_waits_patiently_is_given_up_if_its_coordinator_is_silent() {
    let (locks, commands) = program(1, &[], &[1]);
    let members = Arc::new([member(1, 1), member(2, 1)]);
    let stamp = txn::Stamp { time: HybridTime(1), node: NodeId(9), lane: 0 };
    let tx = TxnId { origin: Origin { life: life(9, 1), lane: 0 }, sequence: 1, attempt: 2 };
    let moment = UnixMs::ZERO;
    let prepare =
        txn::Prepare { tx, stamp, members, locks, commands, logged: true, patient: true, finished: 0, moment };
    for message in [Message::Prepare, Message::Fetch] {
        let said = |patient| message(Arc::new(txn::Prepare { patient, ..prepare.clone() }));
        let mut actions = Vec::new();
        let mut participant = Participant::new(member(1, 1), SETTINGS);
        participant.message(BootMs(0), life(9, 1), said(true), &mut actions);
        participant.message(BootMs(90), life(9, 1), said(true), &mut actions);
        participant.message(BootMs(150), life(9, 1), Message::Hold { tx }, &mut actions);
        actions.clear();
        participant.tick(BootMs(249), &mut actions);
        assert_eq!(actions, []);
        participant.tick(BootMs(250), &mut actions);
        assert!(matches!(&actions[..], [Action::Unlock { .. }]), "{actions:?}");
        participant.message(BootMs(260), life(9, 1), said(true), &mut actions);
        assert!(matches!(&actions[1..], [Action::Send { message: Message::Refused { .. }, .. }]), "{actions:?}");
        // A part with its locks is not given up, and one that is not patient may be awaited elsewhere.
        for granted in [true, false] {
            let mut participant = Participant::new(member(1, 1), SETTINGS);
            participant.message(BootMs(0), life(9, 1), said(granted), &mut actions);
            if granted {
                participant.locked(tx, true, &mut actions);
            }
            actions.clear();
            participant.tick(BootMs(5000), &mut actions);
            assert_eq!(actions, []);
        }
    }
}

/// A command between BEGIN and COMMIT reads a key that many want.
#[test]
fn who_only_looks_keeps_its_place_as_long_as_its_coordinator_is_heard_of() {
    let settings = Settings { hold_ms: 3000, ..SETTINGS };
    let mut coordinator = Coordinator::new(Origin { life: life(9, 1), lane: 3 }, settings);
    let mut participant = Participant::new(member(1, 1), settings);
    let mut events = Vec::new();
    let sequence =
        coordinator.begin_fetching(BootMs(0), HybridTime(70), vec![Part { writes: false, ..part(1, 1) }], &mut events);
    let tx = coordinator.current(sequence).expect("open");
    let mut actions = Vec::new();
    for now in 0..100 {
        coordinator.tick(BootMs(now * 100), &mut events);
        for event in events.drain(..) {
            let Event::Send { message, .. } = event else { panic!("{event:?}") };
            participant.message(BootMs(now * 100), life(9, 1), message, &mut actions);
        }
        participant.tick(BootMs(now * 100), &mut actions);
    }
    assert!(matches!(&actions[..], [Action::Lock { .. }]), "{actions:?}");
    // It has its locks, and reads slowly.
    let mut slow = participant.clone();
    slow.locked(tx, true, &mut actions);
    slow.tick(BootMs(50_000), &mut actions);
    assert!(matches!(&actions[1..], [Action::Fetch { .. }]), "{actions:?}");
    // Its coordinator is silent.
    actions.clear();
    participant.tick(BootMs(20_000), &mut actions);
    assert!(matches!(&actions[..], [Action::Unlock { .. }]), "{actions:?}");
}

/// A node that must not take part in anything yet says so at once, and for good.
#[test]
fn who_takes_part_in_nothing_refuses_and_remembers_it() {
    let (locks, commands) = program(1, &[], &[1]);
    let members = Arc::new([member(1, 1), member(2, 1)]);
    let stamp = txn::Stamp { time: HybridTime(1), node: NodeId(9), lane: 0 };
    let tx = |sequence| TxnId { origin: Origin { life: life(9, 1), lane: 0 }, sequence, attempt: 1 };
    let prepare = |sequence, finished| {
        let (members, locks, commands) = (members.clone(), locks.clone(), commands.clone());
        Arc::new(txn::Prepare {
            tx: tx(sequence),
            stamp,
            members,
            locks,
            commands,
            logged: true,
            patient: false,
            finished,
            moment: UnixMs::ZERO,
        })
    };
    let mut participant = Participant::refusing(member(1, 1), SETTINGS, b"not yet");
    let say = |participant: &mut Participant, from, message| {
        let mut actions = Vec::new();
        participant.message(BootMs(0), life(from, 1), message, &mut actions);
        actions
    };
    let refused = |sequence, why| {
        [Action::Send { to: Recipient::Coordinator(NodeId(9)), message: Message::Refused { tx: tx(sequence), why } }]
    };
    let why = || Refusal::Failed(Box::new(*b"not yet"));
    assert_eq!(say(&mut participant, 9, Message::Prepare(prepare(1, 0))), refused(1, why()));
    assert_eq!(say(&mut participant, 9, Message::Fetch(prepare(2, 0))), refused(2, why()));
    let inquire = |sequence| Message::Inquire { tx: tx(sequence), incarnation: 1 };
    assert_eq!(say(&mut participant, 2, inquire(1)), [], "what is answered has to be logged before");
    assert_eq!(say(&mut participant, 2, inquire(3)), []);
    assert_eq!((participant.len(), participant.records().count()), (2, 0));
    participant.serve();
    assert_eq!(say(&mut participant, 9, Message::Prepare(prepare(1, 0))), refused(1, Refusal::Over), "it is for good");
    assert_eq!(say(&mut participant, 2, inquire(1)), [Action::Append { record: Record::Refuse { tx: tx(1) } }]);
    assert!(matches!(&say(&mut participant, 9, Message::Prepare(prepare(4, 3)))[..], [Action::Lock { .. }]));
    assert!(!participant.knows(tx(2)), "nobody will ask about it");
}

#[test]
fn who_does_not_hear_of_aborts_is_not_asked_again_and_again() {
    let (mut coordinator, sequence) = begun();
    let mut asked = 0;
    for now in 1..5000 {
        let events = tick(&mut coordinator, now);
        asked += sent(&events).iter().filter(|(to, what)| *to == 1 && *what == "prepare").count();
        let tx = coordinator.current(sequence).expect("open");
        // The first asked is prepared, and aborted then, as the other one refuses.
        let (first, other) = if tx.attempt % 2 == 1 { (2, 1) } else { (1, 2) };
        tell(&mut coordinator, now, first, prepared(tx));
        tell(&mut coordinator, now, other, refused(tx, Refusal::Conflict));
    }
    assert!((30..70).contains(&asked), "{asked}");
}

#[test]
fn what_cannot_be_done_is_told_and_done_nowhere() {
    let (mut coordinator, sequence) = begun();
    let tx = coordinator.current(sequence).expect("open");
    tell(&mut coordinator, 1, 1, prepared(tx));
    let why = Refusal::Failed((*b"OOM").into());
    let events = tell(&mut coordinator, 1, 2, refused(tx, why.clone()));
    assert!(events.contains(&Event::Failed { sequence, why }));
    assert_eq!(sent(&events), [(1, "abort")]);
    assert_eq!(coordinator.finished(), sequence, "1 may still be prepared");
    tell(&mut coordinator, 2, 1, Message::Acknowledged { tx });
    assert!(coordinator.is_empty());
}

#[test]
fn what_has_moved_is_asked_elsewhere() {
    let (mut coordinator, sequence) = begun();
    let tx = coordinator.current(sequence).expect("open");
    let events = tell(&mut coordinator, 1, 2, refused(tx, Refusal::Moved));
    assert!(events.contains(&Event::Reroute { sequence }));
    coordinator.routed(BootMs(2), sequence, vec![part(1, 1), part(3, 2)]);
    let now = coordinator.next_tick().expect("it tries again").0;
    assert_eq!(sent(&tick(&mut coordinator, now)), [(1, "prepare"), (3, "prepare")]);
    let second = coordinator.current(sequence).expect("open");
    tell(&mut coordinator, now, 1, prepared(second));
    let events = tell(&mut coordinator, now, 3, prepared(second));
    assert!(matches!(events[0], Event::Reply { .. }));
    tell(&mut coordinator, now, 1, Message::Acknowledged { tx: second });
    tell(&mut coordinator, now, 3, Message::Acknowledged { tx: second });
    assert_eq!(coordinator.finished(), sequence, "1 has not acknowledged that the first attempt is over");
    tell(&mut coordinator, now, 1, Message::Acknowledged { tx });
    assert!(coordinator.is_empty());
    // Or there is no node to go to.
    let (mut coordinator, sequence) = begun();
    let tx = coordinator.current(sequence).expect("open");
    tell(&mut coordinator, 1, 2, refused(tx, Refusal::Moved));
    let mut events = Vec::new();
    coordinator.fail(BootMs(2), sequence, Refusal::Moved, &mut events);
    assert_eq!(events, [Event::Failed { sequence, why: Refusal::Moved }]);
    assert_eq!(sent(&tick(&mut coordinator, 200)), [(1, "abort")]);
}

#[test]
fn what_is_prepared_is_committed_and_told_though_nobody_waits_and_what_is_refused_is_over() {
    let (mut coordinator, sequence) = begun();
    let tx = coordinator.current(sequence).expect("open");
    let mut events = Vec::new();
    assert!(coordinator.abandon(BootMs(1), sequence, &mut events));
    assert_eq!(sent(&events), [(1, "call off"), (2, "call off")]);
    let again = [(1, "prepare"), (2, "prepare"), (1, "call off"), (2, "call off")];
    assert_eq!(sent(&tick(&mut coordinator, 200)), again, "what is said again is called off again");
    tell(&mut coordinator, 200, 1, prepared(tx));
    assert_eq!(sent(&tick(&mut coordinator, 400)), [(2, "prepare"), (2, "call off")]);
    let events = tell(&mut coordinator, 1, 2, prepared(tx));
    assert!(matches!(events[0], Event::Reply { .. }), "{events:?}");
    assert_eq!((sent(&events).len(), events.len()), (2, 3));
    assert!(!coordinator.abandon(BootMs(1), sequence, &mut Vec::new()), "it has been told");
    // An attempt that is refused then is not tried again.
    for why in [Refusal::Conflict, Refusal::Moved, Refusal::Changed] {
        let (mut coordinator, sequence) = begun();
        let tx = coordinator.current(sequence).expect("open");
        assert!(coordinator.abandon(BootMs(1), sequence, &mut Vec::new()));
        let events = tell(&mut coordinator, 1, 2, refused(tx, why.clone()));
        assert_eq!((sent(&events), events.len()), (vec![(1, "abort")], 2));
        assert_eq!(events[1], Event::Failed { sequence, why });
        tell(&mut coordinator, 1, 1, Message::Acknowledged { tx });
        assert!(coordinator.is_empty());
    }
    // A transaction that waits for its next attempt is over at once.
    let (mut coordinator, sequence) = begun();
    let tx = coordinator.current(sequence).expect("open");
    tell(&mut coordinator, 1, 2, refused(tx, Refusal::Conflict));
    assert!(!coordinator.abandon(BootMs(1), sequence, &mut Vec::new()));
    tell(&mut coordinator, 1, 1, Message::Acknowledged { tx });
    assert!(coordinator.is_empty());
}

/// A participant that waits for its locks refuses an attempt that is called off; one that has bound itself does not.
#[test]
fn what_is_called_off_is_refused_where_it_waits() {
    let (mut coordinator, mut events) = (coordinator(), Vec::new());
    let sequence = coordinator.begin(BootMs(0), HybridTime(70), vec![part(1, 1), part(2, 2)], &mut events);
    let tx = coordinator.current(sequence).expect("open");
    let prepare = events.into_iter().find_map(|event| match event {
        Event::Send { to: ParticipantId(1), message } => Some(message),
        _ => None,
    });
    let called_off = |participant: &mut Participant| {
        let mut actions = Vec::new();
        participant.message(BootMs(2), life(9, 1), Message::CallOff { tx }, &mut actions);
        actions
    };
    let mut participant = Participant::new(member(1, 1), SETTINGS);
    assert_eq!(called_off(&mut participant), [], "it has not heard of it");
    participant.message(BootMs(1), life(9, 1), prepare.expect("node 1 is asked"), &mut Vec::new());
    let mut waiting = participant.clone();
    let actions = called_off(&mut waiting);
    assert!(matches!(actions[0], Action::Unlock { .. }), "{actions:?}");
    assert_eq!(
        actions[1..],
        [Action::Send { to: Recipient::Coordinator(NodeId(9)), message: refused(tx, Refusal::Over) }]
    );
    assert!(!waiting.is_queued(tx));
    participant.locked(tx, true, &mut Vec::new());
    assert_eq!(called_off(&mut participant), [], "it executes");
    let execution = Execution::Done { effects: Arc::new([1]), replies: Arc::new([2]) };
    participant.executed(tx, execution, &mut Vec::new());
    participant.committed(BootMs(3), tx, RecordKind::Prepare, &mut Vec::new());
    assert_eq!(called_off(&mut participant), [], "it is prepared");
}

#[test]
fn who_has_said_what_is_there_hears_often_that_it_is_still_wanted() {
    let settings = Settings { outcome_ms: 2000, hold_ms: 3000, ..SETTINGS };
    let mut coordinator = Coordinator::new(Origin { life: life(9, 1), lane: 3 }, settings);
    let sequence = coordinator.begin_fetching(BootMs(0), HybridTime(70), vec![part(1, 1), part(2, 2)], &mut Vec::new());
    let tx = coordinator.current(sequence).expect("open");
    tell(&mut coordinator, 0, 1, Message::Fetched { tx, round: 0, found: Arc::new([1]) });
    for now in 1..20 {
        assert_eq!(
            sent(&tick(&mut coordinator, now * 100)),
            [(2, "other"), (1, "hold")],
            "the other one has not answered"
        );
    }
    let events = tell(&mut coordinator, 2000, 2, Message::Fetched { tx, round: 0, found: Arc::new([2]) });
    assert!(matches!(events[0], Event::Fetched { .. }), "{events:?}");
    for now in 21..40 {
        assert_eq!(sent(&tick(&mut coordinator, now * 100)), [(1, "hold"), (2, "hold")], "the node has not run it");
    }
    assert!(coordinator.proceed(BootMs(4000), (sequence, 1), &[], &mut Vec::new()));
    assert_eq!(sent(&tick(&mut coordinator, 4100)), [(1, "other"), (2, "other")]);
}

#[test]
fn replies_that_are_lost_close_the_connection() {
    let (mut coordinator, sequence) = begun();
    let tx = coordinator.current(sequence).expect("open");
    tell(&mut coordinator, 1, 1, prepared(tx));
    let mut events = Vec::new();
    coordinator.message(BootMs(2), member(2, 1), Message::Acknowledged { tx }, &mut events);
    coordinator.peer(BootMs(2), member(2, 2), &mut events);
    assert_eq!(sent(&events), [(2, "prepare")], "a new life is asked what it knows");
    let events = tell(&mut coordinator, 3, 2, Message::Prepared { tx, replies: None });
    assert_eq!(events[0], Event::Close { sequence });
    // Except parts without commands.
    let (mut coordinator, parts) = parted();
    let sequence = coordinator.begin_known(BootMs(0), HybridTime(0), parts, &mut Vec::new());
    let tx = coordinator.current(sequence).expect("open");
    tell(&mut coordinator, 1, 1, Message::Prepared { tx, replies: None });
    let events = tell(&mut coordinator, 1, 2, Message::Prepared { tx, replies: None });
    assert!(matches!(&events[0], Event::Reply { replies, .. } if replies.len() == 2), "{events:?}");
}

#[test]
fn a_node_that_is_lost_for_good_holds_nobody_up() {
    let (mut coordinator, sequence) = begun();
    let tx = coordinator.current(sequence).expect("open");
    tell(&mut coordinator, 1, 1, prepared(tx));
    let mut events = Vec::new();
    coordinator.lost(BootMs(2), ParticipantId(2), &mut events);
    let leave = Event::Send { to: ParticipantId(1), message: Message::Leave { tx } };
    assert_eq!(events, [leave.clone(), Event::Close { sequence }], "who is left may know what it has answered");
    tell(&mut coordinator, 3, 2, prepared(tx));
    assert_eq!(tick(&mut coordinator, 102), [leave], "until it is settled");
    tell(&mut coordinator, 103, 1, Message::Acknowledged { tx });
    assert!(coordinator.is_empty());
    // The participant has answered.
    let (mut coordinator, sequence) = begun();
    let tx = coordinator.current(sequence).expect("open");
    tell(&mut coordinator, 1, 2, prepared(tx));
    tell(&mut coordinator, 1, 1, prepared(tx));
    tell(&mut coordinator, 3, 1, Message::Acknowledged { tx });
    coordinator.lost(BootMs(3), ParticipantId(2), &mut Vec::new());
    assert!(coordinator.is_empty());
    // The participant is to be asked again: its keys have other owners now.
    let (mut coordinator, sequence) = begun();
    let tx = coordinator.current(sequence).expect("open");
    tell(&mut coordinator, 1, 1, refused(tx, Refusal::Conflict));
    let mut events = Vec::new();
    coordinator.lost(BootMs(2), ParticipantId(2), &mut events);
    assert_eq!(events, [Event::Reroute { sequence }]);
    coordinator.routed(BootMs(2), sequence, vec![part(1, 1)]);
    assert_eq!(sent(&tick(&mut coordinator, 12)), [(1, "prepare")]);
}

/// A participant that is prepared for `tx`, whose other members are 2 and 3.
fn in_doubt() -> (Participant, TxnId) {
    let origin = Origin { life: life(9, 1), lane: 0 };
    let tx = TxnId { origin, sequence: 1, attempt: 1 };
    let (locks, commands) = program(1, &[], &[1]);
    let members = Arc::new([member(1, 1), member(2, 1), member(3, 1)]);
    let stamp = txn::Stamp { time: HybridTime(1), node: NodeId(9), lane: 0 };
    let moment = UnixMs::ZERO;
    let prepare =
        txn::Prepare { tx, stamp, members, locks, commands, logged: true, patient: false, finished: 0, moment };
    let mut participant = Participant::new(member(1, 1), SETTINGS);
    let mut actions = Vec::new();
    participant.message(BootMs(0), life(9, 1), Message::Prepare(Arc::new(prepare)), &mut actions);
    participant.locked(tx, true, &mut actions);
    let done = Execution::Done { effects: Arc::new([1]), replies: Arc::new([2]) };
    participant.executed(tx, done, &mut actions);
    participant.committed(BootMs(0), tx, RecordKind::Prepare, &mut actions);
    assert_eq!(participant.in_doubt().count(), 1);
    (participant, tx)
}

fn installs(actions: &[Action]) -> bool {
    actions.iter().any(|action| matches!(action, Action::Install { .. }))
}

#[test]
fn a_participant_in_doubt_asks_and_waits_for_all() {
    let (mut participant, tx) = in_doubt();
    let mut actions = Vec::new();
    assert_eq!(participant.next_tick(), Some(BootMs(500)));
    participant.tick(BootMs(499), &mut actions);
    assert_eq!(actions, []);
    participant.tick(BootMs(500), &mut actions);
    let inquire = |node| Action::Send {
        to: Recipient::Participant(ParticipantId(node)),
        message: Message::Inquire { tx, incarnation: 1 },
    };
    assert_eq!(actions, [inquire(2), inquire(3)]);
    actions.clear();
    let say = |participant: &mut Participant, node, status| {
        let mut actions = Vec::new();
        participant.message(BootMs(501), life(node, 1), Message::Status { tx, status }, &mut actions);
        actions
    };
    assert_eq!(say(&mut participant, 2, Status::Prepared), []);
    assert_eq!(say(&mut participant, 3, Status::Pending), []);
    participant.tick(BootMs(1000), &mut actions);
    assert_eq!(actions, [inquire(3)], "what was said is for good");
    let mut other = participant.clone();
    assert!(installs(&say(&mut other, 3, Status::Prepared)));
    let actions = say(&mut participant, 3, Status::Refused);
    assert_eq!(actions[0], Action::Append { record: Record::Abort { tx } });
}

/// The node need not let a part wait for locks: it may refuse a part that has not answered, and that is for good (rule
/// T4).
#[test]
fn a_part_that_waits_for_locks_can_be_refused_and_no_other() {
    let origin = Origin { life: life(9, 1), lane: 0 };
    let tx = TxnId { origin, sequence: 1, attempt: 1 };
    let (locks, commands) = program(1, &[], &[1]);
    let stamp = txn::Stamp { time: HybridTime(1), node: NodeId(9), lane: 0 };
    let members = Arc::new([member(1, 1), member(2, 1)]);
    let (patient, logged) = (false, true);
    let moment = UnixMs::ZERO;
    let prepare = Arc::new(txn::Prepare { tx, stamp, members, locks, commands, logged, patient, finished: 0, moment });
    let mut participant = Participant::new(member(1, 1), SETTINGS);
    let why = || Refusal::Failed(Box::new(*b"no"));
    let mut actions = Vec::new();
    participant.message(BootMs(0), life(9, 1), Message::Prepare(prepare.clone()), &mut actions);
    actions.clear();
    assert!(participant.is_queued(tx) && participant.refuse_queued(tx, why(), &mut actions));
    let refused = Action::Send { to: Recipient::Coordinator(NodeId(9)), message: Message::Refused { tx, why: why() } };
    assert_eq!(actions, [Action::Unlock { tx, locks: prepare.locks.clone() }, refused]);
    actions.clear();
    participant.locked(tx, true, &mut actions);
    assert!(!participant.is_queued(tx) && !participant.refuse_queued(tx, why(), &mut actions), "it is over");
    assert_eq!(actions, [], "it comes too late");
    participant.message(BootMs(0), life(9, 1), Message::Prepare(prepare), &mut actions);
    assert!(matches!(&actions[..], [Action::Send { message: Message::Refused { .. }, .. }]), "{actions:?}");
    let (mut participant, tx) = in_doubt();
    let waiting: Vec<_> = participant.waiting().map(|(prepared, others)| (prepared.tx, others)).collect();
    assert_eq!(waiting, [(tx, vec![ParticipantId(2), ParticipantId(3)])]);
    actions.clear();
    assert!(!participant.refuse_queued(tx, why(), &mut actions));
    assert_eq!((actions.len(), participant.in_doubt().count()), (0, 1));
}

/// The actions of a participant that learns the status of another one.
fn status(participant: &mut Participant, tx: TxnId, of: u64, status: Status) -> Vec<Action> {
    let mut actions = Vec::new();
    participant.message(BootMs(3), life(of, 1), Message::Status { tx, status }, &mut actions);
    actions
}

#[test]
fn when_coordinator_and_a_participant_are_lost_the_others_settle_it() {
    let bereft = Status::Bereft { lost: 1 };
    let (mut participant, tx) = in_doubt();
    let mut actions = Vec::new();
    participant.lost(BootMs(1), ParticipantId(3));
    assert_eq!(status(&mut participant, tx, 2, bereft), [], "the coordinator may know");
    participant.gone(BootMs(1), NodeId(9), &mut actions);
    // A lost participant is not heard.
    assert_eq!(status(&mut participant, tx, 3, Status::Refused), []);
    participant.message(BootMs(1), life(9, 1), Message::Abort { tx, finished: 1 }, &mut actions);
    assert_eq!(actions, []);
    participant.message(BootMs(1), life(2, 1), Message::Inquire { tx, incarnation: 1 }, &mut actions);
    assert_eq!(
        actions,
        [Action::Send {
            to: Recipient::Participant(ParticipantId(2)),
            message: Message::Status { tx, status: bereft }
        }]
    );
    let mut settles = [participant.clone(), participant.clone(), participant];
    // The other one may have heard the lost one's answer, or still may.
    assert_eq!(status(&mut settles[0], tx, 2, Status::Prepared), []);
    actions = status(&mut settles[0], tx, 2, bereft);
    assert_eq!(actions[0], Action::Presumed { tx, lost: vec![ParticipantId(3)] });
    assert!(installs(&actions));
    assert!(installs(&status(&mut settles[1], tx, 2, Status::Committed)));
    let actions = status(&mut settles[2], tx, 2, Status::Aborted);
    assert_eq!(actions[0], Action::Append { record: Record::Abort { tx } });
    // The other one is told until it has the outcome.
    let mut actions = Vec::new();
    settles[0].committed(BootMs(3), tx, RecordKind::Commit, &mut actions);
    let told =
        Action::Send { to: Recipient::Participant(ParticipantId(2)), message: Message::Commit { tx, finished: 0 } };
    assert_eq!(actions.last(), Some(&told));
    settles[0].message(BootMs(4), life(2, 1), Message::Acknowledged { tx }, &mut actions);
    assert!(settles[0].is_empty());
}

#[test]
fn what_a_coordinator_leaves_to_the_participants_they_acknowledge_when_it_is_settled() {
    let (mut participant, tx) = in_doubt();
    let mut actions = Vec::new();
    participant.message(BootMs(1), life(9, 1), Message::Leave { tx }, &mut actions);
    participant.lost(BootMs(1), ParticipantId(3));
    assert_eq!(actions, []);
    assert!(installs(&status(&mut participant, tx, 2, Status::Bereft { lost: 1 })));
    participant.committed(BootMs(3), tx, RecordKind::Commit, &mut actions);
    assert_eq!(
        actions,
        [Action::Send { to: Recipient::Coordinator(NodeId(9)), message: Message::Acknowledged { tx } }]
    );
    assert_eq!(participant.len(), 1, "the coordinator says when it may be forgotten");
    // A participant that has not answered yet takes no part.
    let later = TxnId { sequence: 2, ..tx };
    actions.clear();
    participant.message(BootMs(4), life(9, 1), Message::Leave { tx: later }, &mut actions);
    assert_eq!(
        actions,
        [Action::Send { to: Recipient::Coordinator(NodeId(9)), message: Message::Acknowledged { tx: later } }]
    );
    participant.message(BootMs(4), life(2, 1), Message::Inquire { tx: later, incarnation: 1 }, &mut actions);
    assert_eq!(actions[1], Action::Append { record: Record::Refuse { tx: later } });
}

#[test]
fn what_is_finished_is_forgotten_and_not_done_again() {
    let (mut participant, tx) = in_doubt();
    let mut actions = Vec::new();
    let coordinator = life(9, 1);
    participant.message(BootMs(1), coordinator, Message::Commit { tx, finished: 1 }, &mut actions);
    assert!(installs(&actions));
    actions.clear();
    participant.committed(BootMs(2), tx, RecordKind::Commit, &mut actions);
    let acknowledged = Action::Send { to: Recipient::Coordinator(NodeId(9)), message: Message::Acknowledged { tx } };
    assert_eq!(actions.first(), Some(&acknowledged), "when it is in the log (rule T5)");
    participant.message(BootMs(3), coordinator, Message::Finished { origin: tx.origin, below: 2 }, &mut actions);
    assert!(participant.is_empty());
    actions.clear();
    let (locks, commands) = program(1, &[], &[1]);
    let stamp = txn::Stamp { time: HybridTime(1), node: NodeId(9), lane: 0 };
    let members = Arc::new([member(1, 1), member(2, 1)]);
    let moment = UnixMs::ZERO;
    let prepare =
        txn::Prepare { tx, stamp, members, locks, commands, logged: true, patient: false, finished: 0, moment };
    participant.message(BootMs(4), coordinator, Message::Prepare(Arc::new(prepare)), &mut actions);
    participant.message(BootMs(4), life(2, 1), Message::Inquire { tx, incarnation: 1 }, &mut actions);
    assert_eq!(actions, [], "it has been on its way for long");
    participant.message(BootMs(4), coordinator, Message::Commit { tx, finished: 1 }, &mut actions);
    assert_eq!(actions, [acknowledged]);
}
