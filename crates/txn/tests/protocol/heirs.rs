//! Earlier names of participants, and their heirs (rule T5): single messages.

use std::sync::Arc;

use clocks::{BootMs, UnixMs};
use txn::{
    Action, Coordinator, Event, HybridTime, Life, Member, Message, NodeId, Origin, Part, Participant, ParticipantId,
    Prepare, Recipient, Refusal, Sender, Settings, Stamp, Status, TxnId,
};

use crate::glue::program;

/// The earlier name, in its last life, and its heir in a term.
const LOST: Member = Member { id: ParticipantId(1), incarnation: 7 };
const HEIR: Member = Member { id: ParticipantId(3), incarnation: 8 };
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
    let inquiry = |incarnation| Message::Inquire { tx: tx(1), incarnation };
    let refused = Message::Status { tx: tx(1), status: Status::Refused };
    let said = Action::Send { to: Recipient::Participant(OTHER.id), message: refused };
    assert_eq!(hears(&mut heir(true), life(OTHER), inquiry(LOST.incarnation)), [said]);
    assert_eq!(hears(&mut heir(true), life(OTHER), inquiry(HEIR.incarnation + 1)), [], "a later term is asked");
}

/// Messages of a participant count as the shard's that its node has, as far as the receiver knows.
#[test]
fn a_node_without_a_shard_is_heard_as_a_coordinator_alone() {
    let nobody = Sender { life: life(OTHER), participant: None };
    let ask = || Message::Inquire { tx: tx(1), incarnation: HEIR.incarnation };
    let mut participant = heir(false);
    for message in [ask(), Message::Status { tx: tx(1), status: Status::Refused }, Message::Acknowledged { tx: tx(1) }]
    {
        let mut actions = Vec::new();
        participant.message(NOW, nobody, message, &mut actions);
        assert_eq!(actions, []);
    }
    let mut actions = Vec::new();
    participant.message(NOW, Sender { participant: Some(OTHER.id), ..nobody }, ask(), &mut actions);
    assert!(matches!(actions[..], [Action::Append { .. }]), "it says what is in its log: {actions:?}");
}

/// The process goes on in another term, as after a change of the copies of its log.
#[test]
fn a_later_term_of_a_process_refuses_what_names_an_earlier_one() {
    let mut participant = heir(false);
    participant.leads(Member { incarnation: HEIR.incarnation + 1, ..HEIR });
    let said = hears(&mut participant, origin().life, prepare(&[OTHER, HEIR], false));
    let stale = Message::Refused { tx: tx(1), why: Refusal::Stale };
    assert_eq!(said, [Action::Send { to: Recipient::Coordinator(NodeId(9)), message: stale }]);
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
