//! Lost participants whose log another one has (rule T5): single messages.

use std::sync::Arc;

use clocks::{BootMs, UnixMs};
use txn::{
    Action, Coordinator, Event, HybridTime, Life, Member, Message, NodeId, Origin, Part, Participant, ParticipantId,
    Prepare, Recipient, Refusal, Settings, Stamp, Status, TxnId,
};

use crate::glue::program;

/// The lost one, in its last life, and its heir in its first.
const LOST: Member = Member { id: ParticipantId(1), incarnation: 7 };
const HEIR: Member = Member { id: ParticipantId(3), incarnation: 2 };
const OTHER: Member = Member { id: ParticipantId(2), incarnation: 1 };
const NOW: BootMs = BootMs::ZERO;

fn origin() -> Origin {
    Origin { life: Life { node: NodeId(9), incarnation: 1 }, lane: 0 }
}

fn tx(attempt: u32) -> TxnId {
    TxnId { origin: origin(), sequence: 1, attempt }
}

fn life(member: Member) -> Life {
    Life { node: NodeId(member.id.0), incarnation: member.incarnation }
}

fn heir(knows: bool) -> Participant {
    let mut participant = Participant::new(HEIR, Settings::default());
    if knows {
        participant.continued(NOW, LOST.id, HEIR.id);
    }
    participant
}

fn hears(participant: &mut Participant, from: Life, message: Message) -> Vec<Action> {
    let mut actions = Vec::new();
    participant.message(NOW, from, message, &mut actions);
    actions
}

fn prepare(members: &[Member], fetches: bool) -> Message {
    let (locks, commands) = program(1, &[], &[1]);
    let prepare = Arc::new(Prepare {
        tx: tx(1),
        stamp: Stamp::default(),
        members: members.into(),
        locks,
        commands,
        logged: true,
        patient: false,
        finished: 0,
        moment: UnixMs::ZERO,
    });
    if fetches { Message::Fetch(prepare) } else { Message::Prepare(prepare) }
}

/// The lost one has not prepared it, and never will. Nor does the heir take a part of its own in such an attempt: the
/// coordinator would take answers of one for those of the other.
#[test]
fn an_heir_takes_no_new_part_for_the_lost_one() {
    for members in [&[LOST, OTHER][..], &[LOST, OTHER, HEIR]] {
        for fetches in [false, true] {
            let said = hears(&mut heir(true), origin().life, prepare(members, fetches));
            let stale = Message::Refused { tx: tx(1), why: Refusal::Stale };
            assert_eq!(said, [Action::Send { to: Recipient::Coordinator(NodeId(9)), message: stale }]);
        }
    }
    assert!(matches!(hears(&mut heir(true), origin().life, prepare(&[OTHER, HEIR], false))[..], [Action::Lock { .. }]));
}

#[test]
fn an_heir_says_that_what_is_not_in_the_log_was_refused() {
    let inquiry = || Message::Inquire { tx: tx(1), incarnation: LOST.incarnation };
    let refused = Message::Status { tx: tx(1), status: Status::Refused };
    let to = Recipient::Participant(OTHER.id);
    assert_eq!(hears(&mut heir(true), life(OTHER), inquiry()), [Action::Send { to, message: refused }]);
    assert_eq!(hears(&mut heir(false), life(OTHER), inquiry()), [], "it is no heir: a later life of it is asked");
}

/// A coordinator with a transaction at the lost one and another one.
fn begun() -> (Coordinator, u64) {
    let mut coordinator = Coordinator::new(origin(), Settings::default());
    let part = |member: Member| {
        let (locks, commands) = program(1, &[], &[member.id.0 as u16]);
        Part { member, locks, commands, writes: true }
    };
    let sequence = coordinator.begin(NOW, HybridTime(1), vec![part(LOST), part(OTHER)], &mut Vec::new());
    (coordinator, sequence)
}

fn tells(coordinator: &mut Coordinator, from: Member, message: Message) -> Vec<Event> {
    let mut events = Vec::new();
    coordinator.message(NOW, from, message, &mut events);
    events
}

fn prepared(replies: Option<Arc<[u8]>>) -> Message {
    Message::Prepared { tx: tx(1), replies }
}

#[test]
fn a_coordinator_hears_the_heir_for_the_lost_one() {
    let (mut coordinator, sequence) = begun();
    let replies = Some(Arc::from([1]));
    assert_eq!(tells(&mut coordinator, OTHER, prepared(replies.clone())), []);
    let mut events = Vec::new();
    coordinator.continued(NOW, LOST.id, HEIR.id, &mut events);
    assert!(matches!(&events[..], [Event::Send { to, message: Message::Prepare(_) }] if *to == LOST.id));
    assert_eq!(tells(&mut coordinator, LOST, prepared(replies)), [], "it is not heard any more");
    let events = tells(&mut coordinator, HEIR, prepared(None));
    assert_eq!(events[0], Event::Close { sequence }, "it is committed, and the replies are lost");
    for from in [OTHER, HEIR] {
        assert!(!coordinator.is_empty());
        tells(&mut coordinator, from, Message::Acknowledged { tx: tx(1) });
    }
    assert!(coordinator.is_empty(), "all have acknowledged");
}

#[test]
fn what_an_heir_refuses_goes_to_the_present_owners() {
    let (mut coordinator, sequence) = begun();
    coordinator.continued(NOW, LOST.id, HEIR.id, &mut Vec::new());
    let events = tells(&mut coordinator, HEIR, Message::Refused { tx: tx(1), why: Refusal::Stale });
    assert!(events.contains(&Event::Reroute { sequence }), "{events:?}");
}
