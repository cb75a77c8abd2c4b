//! Copies of shards' data in the metadata: standbys, and terms that they are given.

use proptest::prelude::*;
use quorum::Cut;
use standby::{Change, NodeNumber, Process, Refusal as Rule, Standby};

use super::*;
use crate::codec::Reader;
use crate::{AcceptorId, Continued, Term};

fn id(n: u8) -> NodeId {
    NodeId([n; 20])
}

fn describe(n: u8, incarnation: u64) -> Describe {
    let (port, bus_port, client_port) = (100 + u16::from(n), 200 + u16::from(n), 0);
    Describe { id: id(n), incarnation, host: "h".to_owned(), port, bus_port, client_port }
}

fn join(n: u8, level: u16) -> Command {
    Command::Join { node: describe(n, 1), settings: Vec::new(), level }
}

fn alive(n: u8, incarnation: u64) -> Command {
    Command::Alive { node: describe(n, incarnation), settings: Vec::new(), level: level::STANDBYS }
}

/// Nodes 1 and 2 with slots, nodes 3 to 5 without, each with a shard of its number, and the log-server 6. Shard 1 has
/// copies of its log at nodes 1, 3 and 4, and a term.
fn formed(level: u16) -> State {
    let mut state = State::new();
    let nodes = (1..=2).map(|n| describe(n, 1)).collect();
    state.apply(&Command::Form { cluster: ClusterId([7; 20]), nodes, settings: Vec::new(), level });
    (3..=5).for_each(|n| done(&mut state, &join(n, level)));
    done(&mut state, &Command::JoinLog { node: describe(6, 1), settings: Vec::new(), level });
    let acceptor = |n: u8| Acceptor { id: AcceptorId([n; 16]), node: id(n) };
    state.shards.all.get_mut(&ShardId(1)).unwrap().settled = [1, 3, 4].map(acceptor).to_vec();
    done(&mut state, &lead(1, 0, (1, 1)));
    state
}

fn process(node: u32, life: u64) -> Process {
    Process { node: NodeNumber(node), life }
}

fn term(number: u32) -> Term {
    Term::new(number).unwrap()
}

fn lead(shard: u32, known: u32, (n, incarnation): (u8, u64)) -> Command {
    Command::Lead(Lead { shard: ShardId(shard), known: term(known), id: id(n), incarnation, of_log: 0 })
}

fn change(change: Change) -> Command {
    Command::Copies(ChangeCopies { shard: ShardId(1), change })
}

fn pin(node: u32, life: u64) -> Command {
    change(Change::Pin { standby: process(node, life) })
}

fn count(of: u32, by: (u32, u64), standby: (u32, u64), covered: u64) -> Command {
    let (by, standby) = (process(by.0, by.1), process(standby.0, standby.1));
    change(Change::Count { term: term(of), by, standby, covered: Cut(covered), floor: Cut(5) })
}

fn give_up(of: u32, by: (u32, u64), standby: (u32, u64)) -> Command {
    change(Change::GiveUp { term: term(of), by: process(by.0, by.1), standby: process(standby.0, standby.1) })
}

fn remove(node: u32, life: u64) -> Command {
    change(Change::Remove { standby: process(node, life) })
}

fn take_over(known: u32, to: (u32, u64)) -> Command {
    change(Change::TakeOver { known: term(known), to: process(to.0, to.1), rests_ms: 225 })
}

/// Node 3 may take shard 1 over, which is in term 2.
fn counted() -> State {
    let mut state = formed(level::STANDBYS);
    done(&mut state, &pin(3, 1));
    done(&mut state, &count(2, (1, 1), (3, 1), 5));
    state
}

fn done(state: &mut State, command: &Command) {
    let response = state.apply(command);
    assert!(matches!(response, Response::Done { .. }), "{command}: {response:?}");
    assert_eq!(State::restore(&state.snapshot()).as_ref(), Ok(&*state), "{command}");
}

/// A command that changes nothing, as it is so already.
fn is_so(state: &mut State, command: &Command) {
    let before = state.clone();
    done(state, command);
    assert_eq!(*state, before, "{command}");
}

fn refused(state: &mut State, command: &Command) -> Refusal {
    let before = state.clone();
    match state.apply(command) {
        Response::Refused(why) => {
            assert_eq!(*state, before, "{command}");
            why
        }
        Response::Done { .. } => panic!("{command} is not refused"),
    }
}

fn rule(why: Rule) -> Refusal {
    Refusal::Copies { shard: ShardId(1), why: CopiesRefusal::Rule(why) }
}

fn of(state: &State) -> &Shard {
    &state.shards.all[&ShardId(1)]
}

/// The life of a standby, and whether it is pinned and electable.
fn flags(state: &State, node: u32) -> Option<(u64, bool, bool)> {
    of(state).standbys.get(&NodeNumber(node)).map(|of| (of.life, of.is_pinned, of.is_electable))
}

#[test]
fn a_standby_is_pinned_and_counted_and_given_up_s4() {
    let mut state = formed(level::STANDBYS);
    done(&mut state, &pin(3, 1));
    assert_eq!(flags(&state, 3), Some((1, true, false)));
    assert!(
        state.shards.gone.contains(&ShardId(3)) && state.shards.of(id(3)).next().is_none(),
        "its own shard is gone"
    );
    is_so(&mut state, &pin(3, 1));
    assert_eq!(refused(&mut state, &count(2, (1, 1), (3, 1), 4)), rule(Rule::IsCut));
    assert_eq!(refused(&mut state, &count(2, (1, 2), (3, 1), 5)), rule(Rule::NotOwner));
    let other = Refusal::OtherTerm { shard: ShardId(1), term: term(2) };
    assert_eq!(refused(&mut state, &count(1, (1, 1), (3, 1), 5)), other);
    assert_eq!(refused(&mut state, &take_over(2, (3, 1))), rule(Rule::NotElectable));
    done(&mut state, &count(2, (1, 1), (3, 1), 5));
    assert_eq!(flags(&state, 3), Some((1, true, true)));
    is_so(&mut state, &count(2, (1, 1), (3, 1), 6));
    done(&mut state, &give_up(2, (1, 1), (3, 1)));
    assert_eq!(flags(&state, 3), Some((1, false, false)));
    is_so(&mut state, &give_up(2, (1, 1), (3, 1)));
    assert_eq!(refused(&mut state, &pin(3, 1)), rule(Rule::EarlierLife(1)), "this life was given up");
    done(&mut state, &alive(3, 2));
    assert_eq!(refused(&mut state, &pin(3, 1)), Refusal::EarlierLife { id: id(3), known: 2 });
    done(&mut state, &pin(3, 2));
    assert_eq!(refused(&mut state, &count(2, (1, 1), (3, 1), 9)), rule(Rule::EarlierLife(2)), "a word from before");
}

/// An operator takes a standby out. It is pinned again only in a later life, by somebody who says so.
#[test]
fn a_standby_that_is_removed_is_none_any_more() {
    let mut state = counted();
    done(&mut state, &alive(3, 2));
    assert_eq!(refused(&mut state, &remove(3, 1)), Refusal::EarlierLife { id: id(3), known: 2 });
    assert_eq!(refused(&mut state, &remove(1, 1)), rule(Rule::IsOwner));
    assert_eq!(refused(&mut state, &remove(4, 1)), rule(Rule::NotPinned));
    assert!(state.has_standbys() && state.copied_shards().len() == 1);
    done(&mut state, &remove(3, 2));
    is_so(&mut state, &remove(3, 2));
    assert_eq!(flags(&state, 3), Some((2, false, false)));
    assert!(!of(&state).has_standbys() && !state.has_standbys() && state.copied_shards().is_empty());
    assert_eq!(refused(&mut state, &count(2, (1, 1), (3, 2), 9)), rule(Rule::NotPinned), "a word from before");
    assert_eq!(refused(&mut state, &pin(3, 2)), rule(Rule::EarlierLife(2)), "it starts again first");
    // A node that is lost can be taken out, too.
    done(&mut state, &pin(4, 1));
    let other = Describe { id: id(9), ..describe(4, 1) };
    done(&mut state, &Command::Join { node: other, settings: Vec::new(), level: level::STANDBYS });
    done(&mut state, &remove(4, 1));
    done(&mut state, &alive(3, 3));
    done(&mut state, &pin(3, 3));
    assert!(state.has_standbys());
}

#[test]
fn a_node_with_slots_or_another_shard_is_no_standby() {
    let mut state = formed(level::STANDBYS);
    assert_eq!(refused(&mut state, &pin(1, 1)), rule(Rule::IsOwner));
    assert_eq!(refused(&mut state, &pin(2, 1)), Refusal::OwnsSlots { id: id(2), slots: 8192 });
    let unknown = |number| Refusal::Copies { shard: ShardId(1), why: CopiesRefusal::NoNode(number) };
    assert_eq!(refused(&mut state, &pin(9, 1)), unknown(9));
    assert_eq!(refused(&mut state, &pin(6, 1)), unknown(6), "a log-server has no data");
    assert_eq!(refused(&mut state, &pin(3, 2)), Refusal::EarlierLife { id: id(3), known: 1 }, "nobody knows this life");
    let elsewhere = |life| {
        let change = Change::Pin { standby: process(3, life) };
        Command::Copies(ChangeCopies { shard: ShardId(2), change })
    };
    done(&mut state, &pin(3, 1));
    let stands_by = Refusal::Copies { shard: ShardId(2), why: CopiesRefusal::StandsBy(ShardId(1)) };
    assert_eq!(refused(&mut state, &elsewhere(1)), stands_by);
    done(&mut state, &give_up(2, (1, 1), (3, 1)));
    assert!(matches!(refused(&mut state, &elsewhere(1)), Refusal::Copies { .. }), "it starts again first");
    done(&mut state, &alive(3, 2));
    done(&mut state, &elsewhere(2));
    assert_eq!((flags(&state, 3), state.shards.all[&ShardId(2)].standbys.len()), (None, 1));
    let gone = Command::Copies(ChangeCopies { shard: ShardId(3), change: Change::Pin { standby: process(4, 1) } });
    assert_eq!(refused(&mut state, &gone), GroupRefusal::NoShard(ShardId(3)).into());
}

#[test]
fn a_standby_takes_over_with_the_next_term_g1() {
    let mut state = counted();
    done(&mut state, &alive(3, 7));
    assert_eq!(refused(&mut state, &take_over(2, (3, 1))), Refusal::EarlierLife { id: id(3), known: 7 });
    let epoch = state.epoch;
    done(&mut state, &take_over(2, (3, 7)));
    assert_eq!((of(&state).owner, of(&state).incarnation, of(&state).term), (id(3), 7, term(8)));
    assert_eq!((of(&state).rests_ms, flags(&state, 1), flags(&state, 3)), (225, Some((1, true, false)), None));
    let map = state.map(|_| true);
    assert_eq!((map.slots_of(2), map.node(2).epoch, map.epoch()), (8192, epoch + 1, epoch + 1));
    assert!(matches!(map.continued(1), Some(Continued::By(node)) if node.id == id(3)));
    is_so(&mut state, &take_over(2, (3, 7)));
    assert!(matches!(refused(&mut state, &lead(1, 2, (1, 1))), Refusal::NotOwner { .. }), "the owner of before");
    assert!(matches!(refused(&mut state, &count(2, (1, 1), (4, 1), 5)), Refusal::OtherTerm { .. }));
    // It comes back, and the log names nobody else any more.
    done(&mut state, &alive(1, 2));
    done(&mut state, &count(8, (3, 7), (1, 2), 5));
    done(&mut state, &take_over(8, (1, 2)));
    assert_eq!((of(&state).owner, of(&state).term), (id(1), term(9)));
    let map = state.map(|_| true);
    assert_eq!(map.former_owners().collect::<Vec<_>>(), [3]);
    assert!(map.continued(1).is_none() && matches!(map.continued(3), Some(Continued::By(node)) if node.id == id(1)));
}

/// The owner's node gets the next term by the same rule, and says for how long it rests.
#[test]
fn a_later_life_of_the_owner_rests_s7() {
    let mut state = counted();
    done(&mut state, &alive(1, 2));
    let again = |known, life, of_log, rests_ms| {
        change(Change::Lead { known: term(known), by: process(1, life), of_log: term(of_log), rests_ms })
    };
    assert_eq!(refused(&mut state, &again(2, 1, 0, 225)), Refusal::EarlierLife { id: id(1), known: 2 });
    done(&mut state, &again(2, 2, 4, 225));
    assert_eq!((of(&state).term, of(&state).incarnation, of(&state).rests_ms), (term(5), 2, 225));
    is_so(&mut state, &again(2, 2, 4, 225));
    done(&mut state, &lead(1, 5, (1, 2)));
    assert_eq!((of(&state).term, of(&state).rests_ms, flags(&state, 3)), (term(6), 0, Some((1, true, true))));
    assert_eq!(refused(&mut state, &again(6, 2, (1 << 24) - 1, 0)), Refusal::TooMany, "terms have 24 bits");
    let of_another = Change::Lead { known: term(6), by: process(3, 1), of_log: term(0), rests_ms: 0 };
    assert_eq!(refused(&mut state, &change(of_another)), rule(Rule::NotOwner));
}

/// Nothing keeps the owner of a log without copies from writing to it (rule O3).
#[test]
fn a_log_without_copies_is_not_taken_over_o3() {
    let mut state = counted();
    state.shards.all.get_mut(&ShardId(1)).unwrap().settled.truncate(1);
    assert_eq!(refused(&mut state, &take_over(2, (3, 1))), GroupRefusal::OneCopy(ShardId(1)).into());
}

#[test]
fn a_node_that_goes_leaves_no_copy() {
    let mut state = counted();
    done(&mut state, &pin(5, 1));
    done(&mut state, &Command::Leave { id: id(5) });
    assert_eq!((flags(&state, 5), of(&state).standbys.len()), (None, 1));
    done(&mut state, &pin(4, 1));
    state.shards.all.get_mut(&ShardId(1)).unwrap().settled.truncate(2);
    done(&mut state, &Command::Forget { id: id(4) });
    assert_eq!((flags(&state, 4), of(&state).standbys.len()), (None, 1));
    // The data of an owner are not given up while a standby has them.
    let has = Refusal::Copies { shard: ShardId(1), why: CopiesRefusal::HasStandby(3) };
    done(&mut state, &join(8, level::STANDBYS));
    assert_eq!(refused(&mut state, &Command::Forget { id: id(1) }), has);
    let recover = Command::Group(GroupCommand::Recover(Recover { shard: ShardId(1), to: id(8) }));
    assert_eq!(refused(&mut state, &recover), has);
    done(&mut state, &give_up(2, (1, 1), (3, 1)));
    // A node that recovers a shard is no standby of it any more.
    done(&mut state, &pin(7, 1));
    done(&mut state, &recover);
    assert_eq!((of(&state).owner, flags(&state, 7), flags(&state, 1)), (id(8), None, None));
    done(&mut state, &lead(1, 2, (8, 1)));
    assert_eq!(of(&state).term, term(3));
    state.shards.all.get_mut(&ShardId(1)).unwrap().settled.clear();
    done(&mut state, &Command::Forget { id: id(3) });
    assert!(of(&state).standbys.is_empty());
    // A former owner of a shard begins with no other one: logs name it as the owner of that shard.
    let elsewhere = Command::Copies(ChangeCopies { shard: ShardId(2), change: Change::Pin { standby: process(1, 1) } });
    assert_eq!(refused(&mut state, &elsewhere), GroupRefusal::HasLost(id(1)).into());
}

/// Rule U1: the bytes below the level are those of before, and read as a shard without standbys.
#[test]
fn below_the_level_there_are_no_standbys() {
    let mut state = formed(level::HEIRS);
    let early = Refusal::EarlierLevel { has: 12, needs: 13 };
    assert_eq!(refused(&mut state, &pin(3, 1)), early);
    assert!(early.to_string().contains("`holdfast cluster finalize`"));
    let earlier = state.snapshot();
    assert_eq!(earlier.state[4..8], [8, 0, 0, 0]);
    assert_eq!(State::restore(&earlier).as_ref(), Ok(&state));
    let heard: Vec<Heard> = (1..=6).map(|n| Heard { id: id(n), incarnation: 1, level: 13 }).collect();
    done(&mut state, &Command::Raise { level: 13, heard });
    let now = state.snapshot();
    assert_eq!(now.state[4..8], [9, 0, 0, 0]);
    assert_eq!(now.state.len(), earlier.state.len() + 5 * (4 + 8), "each shard says that it has no standbys");
    done(&mut state, &pin(3, 1));
}

#[test]
fn golden_bytes() {
    let bytes = |command: &Command| {
        let mut out = Vec::new();
        command.put(&mut out);
        assert_eq!(Command::read(&mut Reader::new(&out)).as_ref(), Ok(command));
        let mut earlier = out.clone();
        earlier[0] = 8;
        assert!(Command::read(&mut Reader::new(&earlier)).is_err(), "version 8 has none");
        out
    };
    let (of_3, of_1) = (b"\x03\0\0\0\x07\0\0\0\0\0\0\0", b"\x01\0\0\0\x02\0\0\0\0\0\0\0");
    let head = |tag: u8| [&b"\x09\x10\x01\0\0\0"[..], &[tag]].concat();
    assert_eq!(bytes(&pin(3, 7)), [&head(1)[..], of_3].concat());
    let covered = b"\x06\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0";
    assert_eq!(bytes(&count(4, (1, 2), (3, 7), 6)), [&head(2)[..], b"\x04\0\0\0", of_1, of_3, covered].concat());
    assert_eq!(bytes(&give_up(4, (1, 2), (3, 7))), [&head(3)[..], b"\x04\0\0\0", of_1, of_3].concat());
    let rests = b"\xe1\0\0\0\0\0\0\0";
    assert_eq!(bytes(&take_over(4, (3, 7))), [&head(4)[..], b"\x04\0\0\0", of_3, rests].concat());
    let lead = Change::Lead { known: term(4), by: process(3, 7), of_log: term(9), rests_ms: 225 };
    assert_eq!(bytes(&change(lead)), [&head(5)[..], b"\x04\0\0\0", of_3, b"\x09\0\0\0", rests].concat());
    assert_eq!(bytes(&remove(3, 7)), [&head(6)[..], of_3].concat());
    let refusal = |why: CopiesRefusal| {
        let (mut out, refused) = (Vec::new(), Response::Refused(Refusal::Copies { shard: ShardId(1), why }));
        refused.put(&mut out);
        assert_eq!(Response::read(&mut Reader::new(&out)), Ok(refused));
        out
    };
    for (why, golden) in [
        (CopiesRefusal::NoNode(3), &b"\x01\x03\0\0\0"[..]),
        (CopiesRefusal::StandsBy(ShardId(3)), b"\x02\x03\0\0\0"),
        (CopiesRefusal::HasStandby(3), b"\x03\x03\0\0\0"),
        (CopiesRefusal::Rule(Rule::NotOwner), b"\x04"),
        (CopiesRefusal::Rule(Rule::IsOwner), b"\x05"),
        (CopiesRefusal::Rule(Rule::EarlierLife(3)), b"\x06\x03\0\0\0\0\0\0\0"),
        (CopiesRefusal::Rule(Rule::NotPinned), b"\x07"),
        (CopiesRefusal::Rule(Rule::IsCut), b"\x08"),
        (CopiesRefusal::Rule(Rule::NotElectable), b"\x09"),
        (CopiesRefusal::Rule(Rule::NoTerm), b"\x0a"),
        (CopiesRefusal::Rule(Rule::OtherTerm(term(3))), b"\x0b\x03\0\0\0"),
    ] {
        assert_eq!(refusal(why), [&b"\x09\x16\x01\0\0\0"[..], golden].concat());
    }
    let mut state = counted();
    done(&mut state, &pin(4, 1));
    done(&mut state, &pin(5, 1));
    done(&mut state, &give_up(2, (1, 1), (5, 1)));
    done(&mut state, &join(8, level::STANDBYS));
    done(&mut state, &pin(7, 1));
    done(&mut state, &remove(7, 1));
    state.shards.all.get_mut(&ShardId(1)).unwrap().rests_ms = 225;
    let golden = [
        // The term of its acceptors, its streams, no settings.
        &b"\0\0\0\0\0\0\0\0\0\0"[..],
        b"\x04\0\0\0",
        b"\x03\0\0\0\x01\0\0\0\0\0\0\0\x03",
        b"\x04\0\0\0\x01\0\0\0\0\0\0\0\x01",
        b"\x05\0\0\0\x01\0\0\0\0\0\0\0\0",
        b"\x07\0\0\0\x01\0\0\0\0\0\0\0\x04",
        rests,
    ]
    .concat();
    let snapshot = state.snapshot();
    assert!(snapshot.state.windows(golden.len()).any(|bytes| bytes == golden), "{:?}", snapshot.state);
    assert_eq!(State::restore(&snapshot).as_ref(), Ok(&state));
}

/// A snapshot with standbys that no commands could have made is no state.
#[test]
fn bytes_that_lie_about_standbys_are_refused() {
    let restored = |standbys: &[(u32, Standby)], shard: u32| {
        let mut state = counted();
        state
            .shards
            .all
            .get_mut(&ShardId(shard))
            .unwrap()
            .standbys
            .extend(standbys.iter().map(|(node, standby)| (NodeNumber(*node), *standby)));
        State::restore(&state.snapshot()).map(drop)
    };
    let pinned = Standby { life: 1, is_pinned: true, is_electable: false, is_wanted: true };
    // The shard of node 4 is there, so that it stands by for none.
    for (node, shard, what) in [
        (1, 1, "its owner"),
        (2, 1, "the owner of another shard"),
        (4, 1, "the owner of an empty shard"),
        (3, 2, "a standby of another shard"),
        (6, 1, "a log-server"),
        (9, 1, "nobody"),
    ] {
        assert!(restored(&[(node, pinned)], shard).is_err(), "{what}");
    }
    assert!(restored(&[], 1).is_ok());
    let electable = Standby { life: 1, is_pinned: false, is_electable: true, is_wanted: true };
    assert!(restored(&[(3, electable)], 1).is_err(), "electable without a pin");
    let mut bytes = Vec::new();
    standbys::put(&mut bytes, &[(NodeNumber(3), pinned), (NodeNumber(4), pinned)].into());
    let read = |bytes: &[u8]| standbys::read(&mut Reader::new(bytes));
    assert!(read(&bytes).is_ok_and(|standbys| standbys.len() == 2));
    let mut twice = bytes.clone();
    twice[4 + 13] = 3;
    assert!(read(&twice).is_err(), "one twice");
    let mut unknown = bytes.clone();
    unknown[4 + 12] = 5;
    assert!(read(&unknown).is_err(), "a flag that this build does not know");
    assert!(read(&bytes[..bytes.len() - 1]).is_err());
    bytes[2] = 1;
    assert!(read(&bytes).is_err(), "more than there are nodes");
}

fn commands() -> impl Strategy<Value = Command> {
    let shard = || (1u32..6).prop_map(ShardId);
    let process = || (1u32..7, 1u64..4).prop_map(|(node, life)| process(node, life));
    let known = || (0u32..9).prop_map(term);
    let change = prop_oneof![
        4 => process().prop_map(|standby| Change::Pin { standby }),
        6 => (known(), process(), process(), 0u64..9).prop_map(|(term, by, standby, covered)| Change::Count {
            term, by, standby, covered: Cut(covered), floor: Cut(4)
        }),
        1 => (known(), process(), process()).prop_map(|(term, by, standby)| Change::GiveUp { term, by, standby }),
        1 => process().prop_map(|standby| Change::Remove { standby }),
        4 => (known(), process(), 0u64..3).prop_map(|(known, to, rests_ms)| Change::TakeOver { known, to, rests_ms }),
        3 => (known(), process(), known(), 0u64..3)
            .prop_map(|(known, by, of_log, rests_ms)| Change::Lead { known, by, of_log, rests_ms }),
    ];
    prop_oneof![
        12 => (shard(), change).prop_map(|(shard, change)| Command::Copies(ChangeCopies { shard, change })),
        2 => (1u8..6, 1u64..4).prop_map(|(n, life)| alive(n, life)),
        1 => (1u8..7).prop_map(|n| Command::Forget { id: id(n) }),
        1 => (1u8..7).prop_map(|n| Command::Leave { id: id(n) }),
        1 => (shard(), 1u8..6).prop_map(|(shard, n)| Command::Group(GroupCommand::Recover(Recover { shard, to: id(n) }))),
        1 => (shard(), known(), 1u8..6, 1u64..4).prop_map(|(shard, known, n, incarnation)| Command::Lead(Lead {
            shard, known, id: id(n), incarnation, of_log: 0
        })),
    ]
}

/// Commands that fit the state more often than any: of what a shard has now.
fn fitted(state: &State, command: Command, fits: bool) -> Command {
    let Command::Copies(ask) = command else { return command };
    let Some(of) = state.shards.all.get(&ask.shard).filter(|_| fits) else { return command };
    let number = state.members.get(&of.owner).map_or(0, |member| member.number);
    let owner = process(number, of.incarnation);
    let lives = |at: Process| {
        let member = state.members.values().find(|member| member.number == at.node.0);
        process(at.node.0, member.map_or(at.life, |member| member.incarnation))
    };
    let change = match ask.change {
        Change::Pin { standby } => Change::Pin { standby: lives(standby) },
        Change::Count { standby, covered, floor, .. } => {
            Change::Count { term: of.term, by: owner, standby: lives(standby), covered, floor }
        }
        Change::Remove { standby } => Change::Remove { standby: lives(standby) },
        Change::GiveUp { standby, .. } => Change::GiveUp { term: of.term, by: owner, standby },
        Change::TakeOver { to, rests_ms, .. } => Change::TakeOver { known: of.term, to: lives(to), rests_ms },
        Change::Lead { of_log, rests_ms, .. } => Change::Lead { known: of.term, by: lives(owner), of_log, rests_ms },
    };
    Command::Copies(ChangeCopies { change, ..ask })
}

/// Properties that hold after any change.
fn check(before: &State, after: &State, response: &Response) {
    if let Response::Refused(_) = response {
        assert_eq!(before, after, "a refusal changes nothing");
    }
    assert_eq!(before == after, before.version() == after.version(), "another state has another version");
    let standbys = |state: &State| -> Vec<(ShardId, NodeNumber, Standby)> {
        let all = state.shards.all.values();
        all.flat_map(|of| of.standbys.iter().map(|(node, standby)| (of.id, *node, *standby))).collect()
    };
    for (shard, node, standby) in standbys(after) {
        assert!(after.members.values().any(|member| member.number == node.0), "no copy is left of a node that is gone");
        assert!(standby.is_pinned || !standby.is_electable);
        assert!(standby.is_wanted || !standby.is_pinned, "the log waits for none that was removed");
        if standby.is_electable {
            let was = standbys(before).iter().any(|(of, at, was)| (*of, *at) == (shard, node) && was.is_pinned);
            assert!(was, "nothing is counted without a pin (rule S4)");
        }
    }
    for shard in after.shards() {
        let Some(was) = before.shards.all.get(&shard.id) else { continue };
        assert!(was.term <= shard.term, "terms rise");
        let owner = |of: &Shard| (of.owner, of.incarnation);
        assert!(was.term < shard.term || owner(was) == owner(shard) || shard.incarnation == 0, "each is given once");
        if was.term < shard.term && was.owner != shard.owner {
            let number = after.members.get(&shard.owner).map_or(0, |member| member.number);
            let standby = was.standbys.get(&NodeNumber(number));
            assert!(standby.is_some_and(|standby| standby.is_electable), "only counted standbys take over (rule S5)");
        }
    }
}

proptest! {
    #[test]
    fn copies_follow_the_rules(commands in prop::collection::vec((commands(), prop::bool::weighted(0.8)), 1..40)) {
        let mut state = formed(level::STANDBYS);
        state.shards.all.get_mut(&ShardId(2)).unwrap().settled = state.shards.all[&ShardId(1)].settled.clone();
        let mut other = state.clone();
        for (command, fits) in commands {
            let command = fitted(&state, command, fits);
            let mut bytes = Vec::new();
            command.put(&mut bytes);
            let mut from = Reader::new(&bytes);
            prop_assert_eq!(&Command::read(&mut from).unwrap(), &command);
            prop_assert!(from.is_empty());
            let before = state.clone();
            let response = state.apply(&command);
            check(&before, &state, &response);
            bytes.clear();
            response.put(&mut bytes);
            prop_assert_eq!(Response::read(&mut Reader::new(&bytes)).unwrap(), response.clone());
            // A node that has started from a snapshot goes on like the others.
            other = State::restore(&other.snapshot()).unwrap();
            prop_assert_eq!(other.apply(&command), response);
            prop_assert_eq!(&other, &state);
        }
    }

    /// A snapshot whose checksum is right and whose bytes are not is refused, or is a state that goes on.
    #[test]
    fn changed_bytes_of_a_snapshot_do_no_harm(at: prop::sample::Index, by in 1u8..) {
        let mut image = counted().snapshot();
        let at = 4 + at.index(image.state.len() - 4);
        image.state[at] ^= by;
        let sum = crate::codec::crc(&[&image.state[4..]]);
        image.state[..4].copy_from_slice(&sum.to_le_bytes());
        if let Ok(mut state) = State::restore(&image) {
            for command in [pin(4, 1), count(2, (1, 1), (4, 1), 9), take_over(2, (3, 1)), alive(1, 2), lead(1, 2, (1, 2))] {
                let _ = state.apply(&command);
            }
            let _ = state.map(|_| true);
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(prop_oneof![Just(0u8), 0u8..20, any::<u8>()], 0..60)) {
        let _ = standbys::read(&mut Reader::new(&bytes));
        let _ = Command::read(&mut Reader::new(&[&[9, 16, 1, 0, 0, 0][..], &bytes].concat()));
        let _ = Response::read(&mut Reader::new(&[&[9, 22, 1, 0, 0, 0][..], &bytes].concat()));
    }
}
