//! Shards, their terms, and what is gone.

use super::*;
use crate::codec::Reader;
use crate::{AcceptorId, Term};

fn id(n: u8) -> NodeId {
    NodeId([n; 20])
}

fn describe(n: u8, incarnation: u64) -> Describe {
    let (port, bus_port, client_port) = (100 + u16::from(n), 200 + u16::from(n), 0);
    Describe { id: id(n), incarnation, host: "h".to_owned(), port, bus_port, client_port }
}

/// Nodes 1, 2, ... at a level.
fn formed(nodes: u8, level: u16) -> State {
    let mut state = State::new();
    let nodes = (1..=nodes).map(|n| describe(n, 1)).collect();
    state.apply(&Command::Form { cluster: ClusterId([7; 20]), nodes, settings: Vec::new(), level });
    state
}

fn join(n: u8) -> Command {
    Command::Join { node: describe(n, 1), settings: Vec::new(), level: 12 }
}

fn term(number: u32) -> Term {
    Term::new(number).unwrap()
}

fn lead(shard: u32, known: u32, (n, incarnation): (u8, u64), of_log: u32) -> Command {
    Command::Lead(Lead { shard: ShardId(shard), known: term(known), id: id(n), incarnation, of_log })
}

fn done(state: &mut State, command: &Command) {
    let response = state.apply(command);
    assert!(matches!(response, Response::Done { .. }), "{response:?}");
}

fn refused(state: &mut State, command: &Command) -> Refusal {
    match state.apply(command) {
        Response::Refused(why) => why,
        Response::Done { .. } => panic!("{command} is not refused"),
    }
}

fn of(state: &State, shard: u32) -> &Shard {
    &state.shards.all[&ShardId(shard)]
}

/// The life of the owner that has the term, and the term.
fn led(state: &State, shard: u32) -> (u64, u32) {
    (of(state, shard).incarnation, of(state, shard).term.get())
}

#[test]
fn a_term_is_given_once_to_one_process_g1() {
    let mut state = formed(3, level::SHARDS);
    done(&mut state, &lead(2, 0, (2, 1), 0));
    assert_eq!(led(&state, 2), (1, 2), "it is above the starts of the node");
    let version = state.version();
    done(&mut state, &lead(2, 0, (2, 1), 0));
    assert_eq!((led(&state, 2), state.version()), ((1, 2), version), "asked again, for a lost answer");
    // The process may ask for the next one, if it knows the last.
    done(&mut state, &lead(2, 2, (2, 1), 7));
    assert_eq!(led(&state, 2), (1, 8), "it is above the node's own log");
    // Another life of the node needs another term, and the former life gets none.
    done(&mut state, &Command::Alive { node: describe(2, 2), settings: Vec::new(), level: 11 });
    assert_eq!(led(&state, 2), (1, 8), "a start alone has no term");
    assert_eq!(refused(&mut state, &lead(2, 8, (2, 1), 0)), Refusal::EarlierLife { id: id(2), known: 2 });
    let other = Refusal::OtherTerm { shard: ShardId(2), term: term(8) };
    assert_eq!(refused(&mut state, &lead(2, 2, (2, 2), 0)), other, "the term that it knows was another process's");
    done(&mut state, &lead(2, 8, (2, 2), 0));
    assert_eq!(led(&state, 2), (2, 9));
    // No other node gets one.
    assert_eq!(refused(&mut state, &lead(2, 9, (3, 1), 0)), Refusal::NotOwner { id: id(3), shard: ShardId(2) });
    assert_eq!(refused(&mut state, &lead(9, 0, (3, 1), 0)), Refusal::NotOwner { id: id(3), shard: ShardId(9) });
    assert_eq!(refused(&mut state, &lead(2, 9, (9, 1), 0)), Refusal::Unknown(id(9)));
    assert_eq!(refused(&mut state, &lead(1, 0, (1, 1), (1 << 24) - 1)), Refusal::TooMany, "terms have 24 bits");
    assert_eq!(State::restore(&state.snapshot()).as_ref(), Ok(&state));
}

/// A cluster below the level has the bytes that an earlier build reads, and no terms. Its slots are those of shards
/// with the numbers of the nodes.
#[test]
fn a_cluster_of_an_earlier_level_becomes_one_of_shards() {
    let mut state = formed(3, level::MACHINES);
    done(&mut state, &Command::Forget { id: id(2) });
    let low = Refusal::LowLevel { id: id(1), has: 10, needs: 11 };
    assert_eq!(refused(&mut state, &lead(1, 0, (1, 1), 0)), low);
    let earlier = state.snapshot();
    assert_eq!(earlier.state[4..8], [6, 0, 0, 0]);
    let mut upgraded = State::restore(&earlier).unwrap();
    assert_eq!(upgraded, state);
    let map = upgraded.map(|_| true);
    let heard = [1, 3].map(|n| Heard { id: id(n), incarnation: 1, level: 11 });
    done(&mut upgraded, &Command::Raise { level: 11, heard: heard.to_vec() });
    assert_eq!(upgraded.snapshot().state[4..8], [7, 0, 0, 0]);
    let now = upgraded.map(|_| true);
    assert_eq!((map.ranges(), map.shards()), (now.ranges(), now.shards()));
    let shards: Vec<_> = now.shards().iter().map(|shard| (shard.id.0, shard.owner, shard.term)).collect();
    assert_eq!(shards, [(1, id(1), Term::ZERO), (3, id(3), Term::ZERO)]);
    assert_eq!((now.gone().collect::<Vec<_>>(), now.gone_shards()), (vec![2], &[ShardId(2)][..]));
    done(&mut upgraded, &lead(3, 0, (3, 1), 4));
    assert_eq!(led(&upgraded, 3), (1, 5));
    done(&mut upgraded, &join(4));
    assert_eq!(State::restore(&upgraded.snapshot()).as_ref(), Ok(&upgraded));
}

/// Shards have numbers of their own: that of a dissolved one says nothing about the node that has it too.
#[test]
fn numbers_of_shards_are_not_those_of_nodes_a8() {
    let mut state = formed(2, level::SHARDS);
    // As after a node without a shard.
    state.next_number = 4;
    state.shards.gone_nodes.insert(3);
    done(&mut state, &join(7));
    assert_eq!(state.shards().map(|shard| (shard.id.0, shard.owner)).last(), Some((3, id(7))), "node 4 owns shard 3");
    assert_eq!(state.map(|_| true).gone().collect::<Vec<_>>(), [3]);
    done(&mut state, &Command::Forget { id: id(1) });
    let map = state.map(|_| true);
    assert_eq!((map.gone().collect::<Vec<_>>(), map.gone_shards()), (vec![1, 3], &[ShardId(1)][..]));
    assert_eq!((state.slots_of(id(7)), state.slots_of_shard(ShardId(3))), (SLOTS / 2, SLOTS / 2));
    assert_eq!(map.ranges().iter().map(|range| map.node(range.node).number).collect::<Vec<_>>(), [4, 2]);
    done(&mut state, &Command::Forget { id: id(7) });
    let map = state.map(|_| true);
    assert_eq!((map.gone().collect::<Vec<_>>(), map.gone_shards()), (vec![1, 3, 4], &[ShardId(1), ShardId(3)][..]));
    assert_eq!(State::restore(&state.snapshot()).as_ref(), Ok(&state));
}

#[test]
fn golden_bytes() {
    let mut out = Vec::new();
    let ask = lead(3, 4, (2, 5), 6);
    ask.put(&mut out);
    assert_eq!(out, [&b"\x07\x0c\x03\0\0\0\x04\0\0\0"[..], &[2; 20], b"\x05\0\0\0\0\0\0\0\x06\0\0\0"].concat());
    assert_eq!(Command::read(&mut Reader::new(&out)), Ok(ask));
    let shard = ShardId(3);
    for (why, golden) in [
        (Refusal::NotOwner { id: id(2), shard }, [&b"\x07\x11"[..], &[2; 20], b"\x03\0\0\0"].concat()),
        (Refusal::OtherTerm { shard, term: term(8) }, b"\x07\x12\x03\0\0\0\x08\0\0\0".to_vec()),
    ] {
        out.clear();
        let response = Response::Refused(why);
        response.put(&mut out);
        assert_eq!(out, golden);
        assert_eq!(Response::read(&mut Reader::new(&out)), Ok(response));
    }
    let mut state = formed(2, level::SHARDS);
    done(&mut state, &Command::Forget { id: id(2) });
    done(&mut state, &lead(1, 0, (1, 1), 0));
    let only = state.shards.all.get_mut(&ShardId(1)).unwrap();
    only.group = "g".to_owned();
    only.settled = vec![Acceptor { id: AcceptorId([5; 16]), node: id(1) }];
    only.pending = Some(Vec::new());
    (only.pending_since, only.streams) = (term(1), 2);
    let place = Place { member: id(1), dir: "-".to_owned() };
    state.groups.set("g", &[place], ShardId(1), AcceptorId([5; 16]));
    let shards = [
        &b"\x03\0\0\0\x01\0\0\0\x01\0\0\0"[..],
        &[1; 20],
        b"\x01\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0g\x01\0\0\0",
        &[5; 16],
        &[1; 20],
        b"\x01\0\0\0\0\x01\0\0\0\x02\0",
        b"\x01\0\0\0\x02\0\0\0\x01\0\0\0\x02\0\0\0",
        b"\x01\0\0\0\x01\0\0\0g\x01\0\0\0",
        &[1; 20],
        b"\x01\0\0\0-\x01\0\0\0\x01\0\0\0",
        &[1; 20],
        b"\x01\0\0\0-",
        &[5; 16],
        b"\x01\0\0\0\xff\x3f\x01\0\0\0",
    ]
    .concat();
    let snapshot = state.snapshot();
    assert!(snapshot.state.windows(shards.len()).any(|bytes| bytes == shards), "{:?}", snapshot.state);
    assert_eq!(State::restore(&snapshot).as_ref(), Ok(&state));
}

fn set(shard: u32, (n, incarnation): (u8, u64), settings: &[(&str, &str)]) -> Command {
    let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Command::SetShard(SetShard { shard: ShardId(shard), id: id(n), incarnation, settings })
}

fn value<'a>(state: &'a State, shard: u32, name: &str) -> Option<&'a str> {
    of(state, shard).settings.get(name).map(String::as_str)
}

#[test]
fn only_the_process_that_owns_a_shard_changes_its_settings_a13() {
    let mut state = formed(2, level::SHARD_SETTINGS);
    assert_eq!(value(&state, 2, "appendfsync"), None);
    let always = [("appendfsync", "always"), ("appendonly", "yes")];
    done(&mut state, &set(2, (2, 1), &always));
    assert_eq!((value(&state, 2, "appendfsync"), value(&state, 1, "appendfsync")), (Some("always"), None));
    let version = state.version();
    done(&mut state, &set(2, (2, 1), &always));
    assert_eq!(state.version(), version, "they are the same");
    let other = Refusal::NotOwner { id: id(1), shard: ShardId(2) };
    assert_eq!(refused(&mut state, &set(2, (1, 1), &always)), other);
    assert_eq!(refused(&mut state, &set(2, (9, 1), &always)), Refusal::Unknown(id(9)));
    done(&mut state, &Command::Alive { node: describe(2, 2), settings: Vec::new(), level: 12 });
    let everysec = [("appendfsync", "everysec")];
    assert_eq!(refused(&mut state, &set(2, (2, 1), &everysec)), Refusal::EarlierLife { id: id(2), known: 2 });
    assert_eq!(value(&state, 2, "appendfsync"), Some("always"));
    done(&mut state, &set(2, (2, 2), &everysec));
    assert_eq!((value(&state, 2, "appendfsync"), value(&state, 2, "appendonly")), (Some("everysec"), None));
    let names: Vec<String> = (0..=SHARD_SETTINGS_MAX).map(|n| n.to_string()).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    assert_eq!(refused(&mut state, &set(2, (2, 2), &many)), Refusal::TooMany);
    assert_eq!(State::restore(&state.snapshot()).as_ref(), Ok(&state));
    // Below the level nothing holds them.
    let mut state = formed(2, level::SHARDS);
    let early = Refusal::EarlierLevel { has: 11, needs: 12 };
    assert_eq!(refused(&mut state, &set(2, (2, 1), &always)), early);
    assert_eq!(state.snapshot().state[4..8], [7, 0, 0, 0]);
    let heard = [1, 2].map(|n| Heard { id: id(n), incarnation: 1, level: 12 });
    done(&mut state, &Command::Raise { level: 12, heard: heard.to_vec() });
    assert_eq!(state.snapshot().state[4..8], [8, 0, 0, 0]);
    done(&mut state, &set(2, (2, 1), &always));
    assert_eq!(State::restore(&state.snapshot()).as_ref(), Ok(&state));
}

/// A log that others have copies of is the shard's: it cannot be switched off under them. The settings stay with the
/// shard when another node recovers it.
#[test]
fn settings_belong_to_the_shard_and_not_to_its_owner_a13() {
    let mut state = formed(3, level::SHARD_SETTINGS);
    let everysec = [("appendfsync", "everysec"), ("appendonly", "yes")];
    let off = [("appendfsync", "everysec"), ("appendonly", "no")];
    done(&mut state, &join(4));
    done(&mut state, &set(1, (1, 1), &off));
    done(&mut state, &set(1, (1, 1), &everysec));
    let acceptor = |n: u8| Acceptor { id: AcceptorId([n; 16]), node: id(n) };
    state.shards.all.get_mut(&ShardId(1)).unwrap().pending = Some(vec![acceptor(1), acceptor(2)]);
    assert_eq!(refused(&mut state, &set(1, (1, 1), &off)), Refusal::HasCopies(ShardId(1)));
    let only = state.shards.all.get_mut(&ShardId(1)).unwrap();
    (only.settled, only.pending) = (vec![acceptor(1), acceptor(2), acceptor(3)], None);
    assert_eq!(refused(&mut state, &set(1, (1, 1), &off)), Refusal::HasCopies(ShardId(1)));
    let recover = Recover { shard: ShardId(1), to: id(4) };
    done(&mut state, &Command::Group(GroupCommand::Recover(recover)));
    assert_eq!((of(&state, 1).owner, value(&state, 1, "appendfsync")), (id(4), Some("everysec")));
}

#[test]
fn golden_bytes_of_settings() {
    let mut out = Vec::new();
    let ask = set(3, (2, 5), &[("a", "b")]);
    ask.put(&mut out);
    let golden = [&b"\x08\x0f\x03\0\0\0"[..], &[2; 20], b"\x05\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0a\x01\0\0\0b"];
    assert_eq!(out, golden.concat());
    assert_eq!(Command::read(&mut Reader::new(&out)), Ok(ask));
    out[0] = 7;
    assert!(Command::read(&mut Reader::new(&out)).is_err(), "version 7 has none");
    out.clear();
    let refused = Response::Refused(Refusal::HasCopies(ShardId(3)));
    refused.put(&mut out);
    assert_eq!(out, b"\x08\x15\x03\0\0\0");
    assert_eq!(Response::read(&mut Reader::new(&out)), Ok(refused));
    let mut state = formed(1, level::SHARD_SETTINGS);
    done(&mut state, &set(1, (1, 1), &[("a", "b")]));
    let shards = [
        &b"\x02\0\0\0\x01\0\0\0\x01\0\0\0"[..],
        &[1; 20],
        &[0; 8 + 4 + 4 + 4 + 1 + 4 + 2],
        b"\x01\0\0\0\x01\0\0\0a\x01\0\0\0b",
        &[0; 4 + 4 + 4 + 4 + 4],
        b"\x01\0\0\0\xff\x3f\x01\0\0\0",
    ]
    .concat();
    let snapshot = state.snapshot();
    assert_eq!(snapshot.state[4..8], [8, 0, 0, 0]);
    assert!(snapshot.state.windows(shards.len()).any(|bytes| bytes == shards), "{:?}", snapshot.state);
    assert_eq!(State::restore(&snapshot).as_ref(), Ok(&state));
}
