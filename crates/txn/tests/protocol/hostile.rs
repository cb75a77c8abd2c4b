//! Peers may send anything in any order, and work may end at any time: nothing panics, and answers are for good.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::glue::dice::Dice;
use crate::glue::program;
use clocks::{BootMs, UnixMs};
use txn::{
    Action, Coordinator, Event, Execution, HybridTime, Life, Member, Message, NodeId, Origin, Part, Participant,
    ParticipantId, Prepare, RecordKind, Refusal, Settings, Stamp, Status, TxnId,
};

fn life(dice: &mut Dice) -> Life {
    Life { node: NodeId(dice.next() % 3), incarnation: 1 + dice.next() % 2 }
}

fn member(dice: &mut Dice) -> Member {
    Member { id: ParticipantId(dice.next() % 3), incarnation: 1 + dice.next() % 2 }
}

fn tx(dice: &mut Dice) -> TxnId {
    let attempt = [0, 1, 2, u32::MAX][dice.below(4)];
    TxnId { origin: Origin { life: life(dice), lane: 0 }, sequence: [0, 1, 2, u64::MAX][dice.below(4)], attempt }
}

fn refusal(dice: &mut Dice) -> Refusal {
    match dice.below(8) {
        0 => Refusal::Conflict,
        1 => Refusal::Stale,
        2 => Refusal::Over,
        3 => Refusal::Moved,
        4 => Refusal::Changed,
        5 => Refusal::Untimely { now: UnixMs([0, 1, u64::MAX][dice.below(3)]), ends: None },
        6 => Refusal::Untimely { now: UnixMs(1), ends: Some(UnixMs([0, 1, 2, u64::MAX][dice.below(4)])) },
        _ => Refusal::Failed((*b"x").into()),
    }
}

fn message(dice: &mut Dice, tx: TxnId) -> Message {
    let number = [0, 1, 2, u64::MAX][dice.below(4)];
    match dice.below(19) {
        kind @ (0 | 1 | 9) => {
            let mut members: Vec<Member> = (0..dice.below(4)).map(|_| member(dice)).collect();
            members.sort();
            members.dedup_by_key(|member| member.id);
            let (locks, commands) = program(1, &[1], &[2]);
            let stamp = Stamp { time: HybridTime(number), ..Stamp::default() };
            let members = members.into();
            let logged = dice.percent(70);
            let prepare = Arc::new(Prepare {
                tx,
                stamp,
                members,
                locks,
                commands,
                logged,
                patient: dice.percent(30),
                finished: number,
                moment: UnixMs(number),
            });
            if kind == 9 { Message::Fetch(prepare) } else { Message::Prepare(prepare) }
        }
        2 => Message::Prepared { tx, replies: dice.percent(50).then(|| Arc::from([1])) },
        3 => Message::Refused { tx, why: refusal(dice) },
        4 => Message::Commit { tx, finished: number },
        5 => Message::Abort { tx, finished: number },
        6 => Message::Acknowledged { tx },
        7 => Message::Inquire { tx, incarnation: number },
        8 if dice.percent(80) => {
            let bereft = Status::Bereft { lost: dice.next() % 3 };
            let statuses =
                [Status::Pending, Status::Prepared, Status::Refused, Status::Committed, Status::Aborted, bereft];
            Message::Status { tx, status: statuses[dice.below(6)] }
        }
        10 => Message::Fetched { tx, round: dice.next() as u32 % 3, found: Arc::from([1]) },
        11 => {
            let members = Arc::from([member(dice)]);
            Message::Proceed { tx, members, logged: dice.percent(50), commands: Arc::from([1]) }
        }
        12 => Message::Hold { tx },
        13 => Message::Leave { tx },
        14 => Message::Slow { tx, function: dice.percent(50) },
        15 => {
            let (locks, _) = program(1, &[1], &[3 + dice.next() as u16 % 2]);
            Message::Widen { tx, round: [0, 1, 2, u32::MAX][dice.below(4)], locks }
        }
        16 => Message::CallOff { tx },
        17 => Message::Stuck { tx },
        _ => Message::Finished { origin: tx.origin, below: number },
    }
}

#[test]
fn participants_stand_everything() {
    let settings = Settings::default();
    for seed in 0..400 {
        let mut dice = Dice(seed);
        let mut participant = Participant::new(Member { id: ParticipantId(0), incarnation: 1 }, settings);
        let mut held: BTreeMap<TxnId, i32> = BTreeMap::new();
        for _ in 0..400 {
            let (tx, now, mut out) = (tx(&mut dice), BootMs(dice.next() % 5000), Vec::new());
            match dice.below(12) {
                11 if dice.percent(20) => {
                    // It may be the heir itself.
                    let [lost, heir] = [(); 2].map(|()| ParticipantId(dice.next() % 3));
                    participant.continued(now, lost, heir);
                }
                10 => participant.fetched(now, tx, Arc::from([1]), &mut out),
                0 => participant.locked(tx, dice.percent(70), &mut out),
                1 => {
                    let done = Execution::Done { effects: Arc::new([1]), replies: Arc::new([]) };
                    let refused = Execution::Refused(refusal(&mut dice));
                    participant.executed(tx, if dice.percent(80) { done } else { refused }, &mut out);
                }
                2 => {
                    let kinds = [RecordKind::Prepare, RecordKind::Commit, RecordKind::Abort, RecordKind::Refuse];
                    participant.committed(now, tx, kinds[dice.below(4)], &mut out);
                }
                3 => participant.tick([now, BootMs::NEVER][dice.below(2)], &mut out),
                4 if dice.percent(10) => {
                    let node = NodeId(1 + dice.next() % 2);
                    participant.lost(now, ParticipantId::of(node));
                    participant.gone(now, node, &mut out);
                }
                _ => {
                    let message = message(&mut dice, tx);
                    participant.message(now, life(&mut dice), message, &mut out);
                }
            }
            for action in out {
                match action {
                    // A part that widens has some locks, and gives all back at once.
                    Action::Lock { widens: true, .. } => {}
                    Action::Lock { tx, .. } => *held.entry(tx).or_default() += 1,
                    Action::Unlock { tx, .. } => *held.entry(tx).or_default() -= 1,
                    _ => {}
                }
            }
            assert!(held.values().all(|n| *n <= 1), "seed {seed}: asked for locks it has");
        }
        let in_doubt: Vec<TxnId> = participant.in_doubt().map(|prepared| prepared.tx).collect();
        assert!(in_doubt.iter().all(|tx| held.get(tx) == Some(&1)), "seed {seed}: prepared without its locks");
    }
}

#[test]
fn coordinators_stand_everything() {
    for seed in 0..400 {
        let mut dice = Dice(seed);
        let origin = Origin { life: Life { node: NodeId(0), incarnation: 1 }, lane: 0 };
        let mut coordinator = Coordinator::new(origin, Settings::default());
        let mut answers: BTreeMap<u64, u32> = BTreeMap::new();
        for _ in 0..400 {
            let (any, now, mut out) = (tx(&mut dice), BootMs(dice.next() % 5000), Vec::new());
            let sequence = dice.next() % 4;
            // Mostly about open transactions.
            let tx = coordinator.current(sequence).filter(|_| dice.percent(80)).unwrap_or(any);
            let part = |node: u64| {
                let (locks, commands) = program(1, &[], &[node as u16]);
                Part { member: Member { id: ParticipantId(node), incarnation: 1 }, locks, commands, writes: node != 2 }
            };
            match dice.below(16) {
                15 if dice.percent(20) => {
                    let [lost, heir] = [(); 2].map(|()| ParticipantId(dice.next() % 3));
                    coordinator.continued(now, lost, heir, &mut out);
                }
                14 => _ = coordinator.widen(now, (sequence, tx.attempt), vec![part(dice.next() % 3)], &mut out),
                10 => {
                    coordinator.begin_fetching(
                        now,
                        HybridTime(now.0),
                        (1 + dice.next() % 2..3).map(part).collect(),
                        &mut out,
                    );
                }
                11 => _ = coordinator.proceed(now, (sequence, tx.attempt), &[], &mut out),
                12 => _ = coordinator.again(now, (sequence, tx.attempt), vec![part(2)], &mut out),
                13 if dice.percent(20) => _ = coordinator.give_up(now, (sequence, tx.attempt), &mut out),
                0 => {
                    coordinator.begin(now, HybridTime(now.0), (1 + dice.next() % 2..3).map(part).collect(), &mut out);
                }
                1 => coordinator.tick([now, BootMs::NEVER][dice.below(2)], &mut out),
                2 => coordinator.linked(now, ParticipantId(dice.next() % 3), &mut out),
                3 if dice.percent(20) => _ = coordinator.abandon(now, sequence, &mut out),
                5 if dice.percent(50) => coordinator.routed(now, sequence, vec![part(2)]),
                5 => coordinator.fail(now, sequence, Refusal::Moved, &mut out),
                6 if dice.percent(10) => coordinator.lost(now, ParticipantId(dice.next() % 3), &mut out),
                _ => {
                    let message = message(&mut dice, tx);
                    coordinator.message(now, member(&mut dice), message, &mut out);
                }
            }
            for event in out {
                if let Event::Reply { sequence, .. } | Event::Close { sequence } | Event::Failed { sequence, .. } =
                    event
                {
                    *answers.entry(sequence).or_default() += 1;
                }
            }
            assert!(answers.values().all(|n| *n == 1), "seed {seed}: answered twice");
        }
    }
}
