//! Transactions that only read log nothing (rule T3): a participant may lose their locks.

use std::collections::BTreeMap;

use crate::glue::history::{Observed, check};
use crate::glue::{Mistake, Said, Server, decode_reads, program};
use clocks::BootMs;
use txn::{Coordinator, Event, HybridTime, Life, Member, Message, NodeId, Origin, Part, ParticipantId, Settings};

const D: u64 = 100;
const SETTINGS: Settings = Settings {
    patience_ms: 500,
    resend_ms: 500,
    outcome_ms: 500,
    read_ms: D,
    hold_ms: 500,
    moment_ms: 1000,
    backoff_ms: 1,
    backoff_max_ms: 1,
};

fn life(node: u64) -> Life {
    Life { node: NodeId(node), incarnation: 1 }
}

fn member(node: u64) -> Member {
    Member { id: ParticipantId(node), incarnation: 1 }
}

fn coordinator(node: u64) -> Coordinator {
    Coordinator::new(Origin { life: life(node), lane: 0 }, SETTINGS)
}

fn server(node: u64) -> Server {
    Server::new(life(node), SETTINGS, Mistake::None)
}

/// Key 1 is at the first server, key 2 at the second.
fn begin(coordinator: &mut Coordinator, now: u64, id: u32, servers: [Life; 2], writes: bool) -> Vec<Message> {
    let part = |(key, server): (u16, Life)| {
        let (locks, commands) = if writes { program(id, &[], &[key]) } else { program(id, &[key], &[]) };
        Part { member: Member::of(server), locks, commands, writes }
    };
    let parts = [1, 2].into_iter().zip(servers).map(part).collect();
    let mut events = Vec::new();
    coordinator.begin(BootMs(now), HybridTime(u64::from(id)), parts, &mut events);
    messages(events)
}

fn messages(events: Vec<Event>) -> Vec<Message> {
    let sent = |event| if let Event::Send { message, .. } = event { Some(message) } else { None };
    events.into_iter().filter_map(sent).collect()
}

/// Gives a server a message and commits its appended records. Returns the messages that it sends.
fn tell(server: &mut Server, now: u64, from: Life, message: Message) -> Vec<Message> {
    let mut said = Vec::new();
    server.message(BootMs(now), from, message, &mut said);
    server.flush(BootMs(now), &mut said);
    let sent = |said| if let Said::Send(_, message) = said { Some(message) } else { None };
    said.into_iter().filter_map(sent).collect()
}

/// A transaction (1) reads at the first server, which crashes. Another (2) writes at both, if the first serves soon
/// enough. Then the first transaction reads at the second server, 50 ms after it was begun or later. Returns its
/// client's reply, and the lists.
fn history(serves_after: u64) -> (Option<Observed>, BTreeMap<u16, Vec<u32>>, Vec<Message>) {
    let (mut reader, mut writer) = (coordinator(8), coordinator(9));
    let (mut one, mut two) = (server(1), server(2));
    let prepares = begin(&mut reader, 0, 1, [one.me, two.me], false);
    let first = tell(&mut one, 1, life(8), prepares[0].clone());
    one.crash(BootMs(2), 0, &mut Vec::new());
    let start = 3 + serves_after;
    let asked = begin(&mut writer, start, 2, [one.me, two.me], true);
    let mut done = Vec::new();
    for (server, message) in [&mut one, &mut two].into_iter().zip(asked) {
        for answer in tell(server, start, life(9), message) {
            let mut events = Vec::new();
            writer.message(BootMs(start), Member::of(server.me), answer, &mut events);
            done.extend(messages(events));
        }
    }
    for (server, message) in [&mut one, &mut two].into_iter().zip(done) {
        tell(server, start, life(9), message);
    }
    let late = start.max(50);
    let second = tell(&mut two, late, life(8), prepares[1].clone());
    let mut events = Vec::new();
    for (from, answer) in [(member(1), first), (member(2), second)] {
        answer.into_iter().for_each(|answer| reader.message(BootMs(late), from, answer, &mut events));
    }
    let seen = events.iter().find_map(|event| match event {
        Event::Reply { replies, .. } => Some(replies.iter().flat_map(|(_, reply)| decode_reads(reply)).collect()),
        _ => None,
    });
    let seen = seen.map(|reads| Observed { id: 1, reads, writes: vec![], began: 0, answered: late });
    let mut lists = one.store.clone();
    lists.extend(two.store.clone());
    (seen, lists, messages(events))
}

#[test]
fn a_node_serves_nothing_for_d_after_a_start() {
    // The reason for the rule: if the server serves at once, the reader sees half of the writer's change.
    let (seen, lists, _) = history(0);
    assert!(check(&[seen.expect("in time")], &lists, true).is_err());
    // With the rule the answers are too late: they do not count, and the locks are given back.
    let (seen, lists, sent) = history(D + 1);
    assert_eq!(lists, BTreeMap::from([(1, vec![2]), (2, vec![2])]));
    assert_eq!(seen, None);
    assert!(sent.iter().all(|message| matches!(message, Message::Abort { .. })), "{sent:?}");
}

#[test]
fn locks_of_what_only_read_are_held_for_d_and_no_longer() {
    let (mut reader, mut one) = (coordinator(8), server(1));
    let prepares = begin(&mut reader, 0, 1, [one.me, life(2)], false);
    assert!(matches!(tell(&mut one, 10, life(8), prepares[0].clone())[..], [Message::Prepared { .. }]));
    one.tick(BootMs(10 + D - 1), &mut Vec::new());
    assert!(!one.locks.is_empty());
    one.tick(BootMs(10 + D), &mut Vec::new());
    assert!(one.locks.is_empty());
    // The coordinator does not hear of the other server. It tries again and waits, with an attempt that is logged.
    assert_eq!(attempts(&mut reader, D - 1), []);
    assert_eq!(attempts(&mut reader, D), []);
    assert_eq!(attempts(&mut reader, D + 1), [(2, true); 2]);
}

/// The attempts that a coordinator sends at this time, and true if they are logged.
fn attempts(coordinator: &mut Coordinator, now: u64) -> Vec<(u32, bool)> {
    let mut events = Vec::new();
    coordinator.tick(BootMs(now), &mut events);
    prepares(&messages(events))
}

fn prepares(messages: &[Message]) -> Vec<(u32, bool)> {
    let attempt = |message: &Message| match message {
        Message::Prepare(prepare) => Some((prepare.tx.attempt, prepare.logged)),
        _ => None,
    };
    messages.iter().filter_map(attempt).collect()
}

/// Clocks of participants may be faster by a quarter.
#[test]
fn answers_count_for_three_quarters_of_d() {
    for (at, counts) in [(D / 4 * 3, true), (D / 4 * 3 + 1, false)] {
        let mut reader = coordinator(8);
        let mut servers = [server(1), server(2)];
        let asked = begin(&mut reader, 0, 1, [servers[0].me, servers[1].me], false);
        assert_eq!(prepares(&asked), [(1, false); 2]);
        let mut events = Vec::new();
        for (server, message) in servers.iter_mut().zip(asked) {
            for answer in tell(server, 1, life(8), message) {
                reader.message(BootMs(at), Member::of(server.me), answer, &mut events);
            }
        }
        assert_eq!(events.iter().any(|event| matches!(event, Event::Reply { .. })), counts, "{at}");
        // Attempts that begin meanwhile are logged at once. Later ones are tried without a log again.
        let begun = begin(&mut reader, at + 10 * D - 1, 2, [servers[0].me, servers[1].me], false);
        assert_eq!(prepares(&begun), [(1, !counts); 2], "{at}");
        let begun = begin(&mut reader, at + 10 * D, 3, [servers[0].me, servers[1].me], false);
        assert_eq!(prepares(&begun), [(1, false); 2], "{at}");
    }
}
