use proptest::prelude::*;

use super::*;
use crate::Slot;
use crate::codec::Reader;

fn id(n: u8) -> NodeId {
    NodeId([n; 20])
}

fn describe(n: u8, incarnation: u64) -> Describe {
    Describe {
        id: id(n),
        incarnation,
        host: "10.0.0.1".to_owned(),
        port: 7000 + u16::from(n),
        bus_port: 17000 + u16::from(n),
        client_port: 8000 + u16::from(n),
    }
}

fn form(nodes: &[u8]) -> Command {
    let nodes = nodes.iter().map(|&n| describe(n, 1)).collect();
    Command::Form {
        cluster: ClusterId([7; 20]),
        nodes,
        settings: vec![("databases".to_owned(), "16".to_owned())],
        level: 0,
    }
}

fn join(n: u8) -> Command {
    Command::Join { node: describe(n, 1), settings: Vec::new(), level: 0 }
}

fn formed(nodes: &[u8]) -> State {
    let mut state = State::new();
    assert_eq!(state.apply(&form(nodes)), Response::Done { version: 1, epoch: 1 });
    state
}

fn map(state: &State) -> Map {
    state.map(|_| true)
}

fn owned(state: &State) -> Vec<usize> {
    let map = map(state);
    (0..map.nodes().len() as u16).map(|index| map.slots_of(index)).collect()
}

fn refused(response: Response) -> Refusal {
    match response {
        Response::Refused(why) => why,
        Response::Done { .. } => panic!("not refused"),
    }
}

#[test]
fn a_cluster_is_formed_of_nodes_in_the_order_of_their_addresses() {
    let state = formed(&[3, 1, 2]);
    let map = map(&state);
    assert_eq!(map.nodes().iter().map(|n| (n.id, n.number)).collect::<Vec<_>>(), [(id(1), 1), (id(2), 2), (id(3), 3)]);
    let range = |start, end, node| Range { start: Slot::of(start), end: Slot::of(end), node };
    assert_eq!(map.ranges(), [range(0, 5461, 0), range(5462, 10922, 1), range(10923, 16383, 2)]);
    assert_eq!(map.nodes().iter().map(|n| n.epoch).collect::<Vec<_>>(), [1, 1, 1]);
    let mut again = state.clone();
    assert_eq!(refused(again.apply(&form(&[1]))), Refusal::AlreadyFormed);
    assert_eq!(again, state);
    assert_eq!(refused(State::new().apply(&join(1))), Refusal::NotFormed);
    assert_eq!(refused(State::new().apply(&form(&[1, 1]))), Refusal::SameAddress);
    assert_eq!(refused(State::new().apply(&form(&[]))), Refusal::TooMany);
}

#[test]
fn who_joins_owns_nothing_and_may_leave() {
    let mut state = formed(&[1, 2, 3]);
    state.apply(&join(4));
    assert_eq!(owned(&state), [5462, 5461, 5461, 0]);
    let version = state.version();
    state.apply(&join(4));
    assert_eq!(state.version(), version, "who has joined has joined");
    state.apply(&Command::Leave { id: id(4) });
    assert_eq!(owned(&state).len(), 3);
    state.apply(&join(4));
    assert_eq!(map(&state).nodes()[3].number, 5, "numbers are not used again");
    assert_eq!(refused(state.apply(&Command::Leave { id: id(1) })), Refusal::OwnsSlots { id: id(1), slots: 5462 });
}

#[test]
fn settings_that_contradict_are_refused() {
    let mut state = formed(&[1, 2, 3]);
    let with = |value: &str| Command::Join {
        node: describe(4, 1),
        settings: vec![("databases".to_owned(), value.to_owned())],
        level: 0,
    };
    let why = refused(state.apply(&with("32")));
    assert_eq!(why.to_string(), "databases is 32 at this node and 16 in the cluster");
    assert!(!state.has(id(4)));
    state.apply(&with("16"));
    assert!(state.has(id(4)));
    state.apply(&Command::Set { name: "databases".to_owned(), value: "32".to_owned() });
    assert_eq!(state.setting("databases"), Some("32"));
}

#[test]
fn an_earlier_life_is_refused() {
    let mut state = formed(&[1, 2]);
    let alive = |incarnation| Command::Alive { node: describe(2, incarnation), settings: Vec::new(), level: 0 };
    state.apply(&alive(5));
    assert_eq!(state.incarnation(id(2)), Some(5));
    assert_eq!(refused(state.apply(&alive(4))), Refusal::EarlierLife { id: id(2), known: 5 });
    let alive = Command::Alive { node: describe(9, 1), settings: Vec::new(), level: 0 };
    assert_eq!(refused(state.apply(&alive)), Refusal::Unknown(id(9)));
}

#[test]
fn a_wiped_node_is_a_new_one_and_its_slots_stay_until_it_is_forgotten() {
    let mut state = formed(&[1, 2, 3]);
    let wiped = Describe { id: id(9), ..describe(3, 1) };
    state.apply(&Command::Join { node: wiped, settings: Vec::new(), level: 0 });
    assert_eq!(state.nodes(), [(id(1), false), (id(2), false), (id(3), true), (id(9), false)]);
    assert_eq!(owned(&state), [5462, 5461, 5461, 0]);
    let response = state.apply(&Command::Forget { id: id(3) });
    assert_eq!(response, Response::Done { version: 3, epoch: 2 });
    assert_eq!(owned(&state), [5462, 5461, 5461]);
    let map = map(&state);
    assert_eq!(map.node(map.owner_of(Slot::LAST).unwrap()).id, id(9), "who has least inherits");
    assert_eq!(map.nodes().iter().map(|n| n.epoch).collect::<Vec<_>>(), [1, 1, 2]);
    assert_eq!(refused(state.apply(&Command::Forget { id: id(3) })), Refusal::Unknown(id(3)));
    let mut alone = formed(&[1]);
    assert_eq!(refused(alone.apply(&Command::Forget { id: id(1) })), Refusal::LastNode);
}

fn load(known: u64, change: u8, payload: &[u8]) -> Command {
    Command::Libraries { known, change: [change; 16], payload: payload.into() }
}

#[test]
fn of_two_changes_of_the_libraries_one_is_made_from_the_other() {
    let mut state = formed(&[1, 2, 3]);
    assert_eq!(state.libraries().version, 0);
    assert_eq!(refused(State::new().apply(&load(0, 1, b"a"))), Refusal::NotFormed);
    assert_eq!(state.apply(&load(0, 1, b"a")), Response::Done { version: 2, epoch: 1 });
    assert_eq!(refused(state.apply(&load(0, 2, b"b"))), Refusal::Superseded { version: 1 });
    assert_eq!((state.libraries().version, &*state.libraries().payload), (1, &b"a"[..]));
    // A node that has heard no answer asks again.
    let before = state.clone();
    assert_eq!(state.apply(&load(0, 1, b"a")), Response::Done { version: 2, epoch: 1 });
    assert_eq!(state, before, "it was made once");
    state.apply(&load(1, 2, b"ab"));
    assert_eq!((state.libraries().version, &*state.libraries().payload), (2, &b"ab"[..]));
    assert_eq!(refused(state.apply(&load(0, 1, b"a"))), Refusal::Superseded { version: 2 });
    let large = vec![0; LIBRARIES_MAX + 1];
    assert_eq!(refused(state.apply(&load(2, 3, &large))), Refusal::LibrariesTooLarge { bytes: large.len() as u64 });
    assert_eq!(State::restore(&state.snapshot()).unwrap(), state);
    state.apply(&load(2, 3, &large[1..]));
    assert_eq!(State::restore(&state.snapshot()).unwrap(), state, "as large as may be");
}

fn configure(first: bool, settings: &[(&str, &[u8])]) -> Command {
    let setting = |(name, value): &(&str, &[u8])| Setting { name: (*name).to_owned(), value: value.to_vec() };
    Command::Configure { first, settings: settings.iter().map(setting).collect() }
}

#[test]
fn of_two_changes_of_a_setting_the_later_one_holds() {
    let mut state = formed(&[1, 2, 3]);
    let get = |state: &State, name: &str| state.configuration().get(name).map(<[u8]>::to_vec);
    assert_eq!(refused(State::new().apply(&configure(true, &[]))), Refusal::NotFormed);
    assert_eq!(refused(state.apply(&configure(false, &[("a", b"1")]))), Refusal::Unconfigured);
    assert_eq!(state.apply(&configure(true, &[("a", b"1")])), Response::Done { version: 2, epoch: 1 });
    assert_eq!(state.apply(&configure(true, &[("a", b"9"), ("b", b"9")])), Response::Done { version: 2, epoch: 1 });
    assert_eq!((get(&state, "a"), get(&state, "b")), (Some(b"1".to_vec()), None), "it had its first ones");
    assert_eq!(state.apply(&configure(false, &[("b", b"2"), ("a", b"1")])), Response::Done { version: 3, epoch: 1 });
    assert_eq!(state.apply(&configure(false, &[("b", b"2")])), Response::Done { version: 3, epoch: 1 });
    assert_eq!(state.configuration().version(), 2, "the same is no change");
    // Several at once are one change: all of them, or none.
    state.apply(&configure(false, &[("b", b"3"), ("a", b"4")]));
    assert_eq!((get(&state, "a"), get(&state, "b")), (Some(b"4".to_vec()), Some(b"3".to_vec())));
    let mut empty = formed(&[1]);
    empty.apply(&configure(true, &[]));
    assert_eq!(empty.configuration().version(), 1, "to have none is to have begun");
    assert_eq!(State::restore(&state.snapshot()).unwrap(), state);
}

#[test]
fn settings_have_a_bound() {
    let mut state = formed(&[1]);
    state.apply(&configure(true, &[]));
    let value = vec![7; VALUE_MAX];
    let names: Vec<String> = (0..CONFIGURED_MAX + 1).map(|n| format!("s{n}")).collect();
    let large: Vec<(&str, &[u8])> = names[..CONFIGURATION_MAX / VALUE_MAX].iter().map(|n| (&**n, &*value)).collect();
    assert!(matches!(refused(state.apply(&configure(false, &large))), Refusal::ConfigurationTooLarge { .. }));
    state.apply(&configure(false, &large[1..]));
    assert_eq!(state.configuration().values().count(), large.len() - 1);
    let mut state = formed(&[1]);
    let many: Vec<(&str, &[u8])> = names.iter().map(|name| (&**name, &b""[..])).collect();
    assert!(matches!(refused(state.apply(&configure(true, &many))), Refusal::ConfigurationTooLarge { .. }));
    let mut bytes = Vec::new();
    configure(false, &[("a", &[value, vec![7]].concat())]).put(&mut bytes);
    assert!(Command::read(&mut Reader::new(&bytes)).is_err(), "a value that is too long");
}

#[test]
fn secrets_are_not_shown() {
    let command = configure(false, &[("requirepass", b"s3cret")]);
    let mut state = formed(&[1]);
    state.apply(&configure(true, &[("requirepass", b"s3cret")]));
    let shown = format!("{command:?} {command} {:?}", state.configuration());
    assert!(shown.contains("requirepass") && !shown.contains("s3cret") && !shown.contains("115"), "{shown}");
}

#[test]
fn earlier_versions_are_read() {
    let node = Describe { host: "a".to_owned(), client_port: 0, ..describe(2, 5) };
    for version in [1, 2] {
        let alive = b"\x03".iter().chain(&[2; 20]).chain(b"\x05\0\0\0\0\0\0\0\x01\0\0\0a\x5a\x1b\x6a\x42\0\0\0\0");
        let bytes: Vec<u8> = [version].iter().chain(alive).copied().collect();
        let read = Command::read(&mut Reader::new(&bytes)).unwrap();
        assert_eq!(read, Command::Alive { node: node.clone(), settings: Vec::new(), level: 0 });
        assert_eq!(Response::read(&mut Reader::new(&[version, 7])).unwrap(), Response::Refused(Refusal::LastNode));
    }
    let mut state = State::new();
    let node = Describe { client_port: 0, ..describe(1, 1) };
    state.apply(&Command::Form { cluster: ClusterId([7; 20]), nodes: vec![node], settings: Vec::new(), level: 0 });
    let seal = |bytes: &mut Vec<u8>, version: u8| {
        bytes[4] = version;
        let sum = crate::codec::crc(&[&bytes[4..]]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
    };
    let restore = |bytes: &[u8]| State::restore(&Image { state: bytes.to_vec(), ..Image::default() });
    let mut bytes = of_version_3(&state);
    assert_eq!(restore(&bytes).unwrap(), state, "without settings");
    let host = bytes.windows(8).position(|window| window == b"10.0.0.1").unwrap();
    // The member's port for smart clients comes behind its two other ports.
    bytes.drain(host + 12..host + 14);
    seal(&mut bytes, 2);
    assert_eq!(restore(&bytes).unwrap(), state, "without a port for smart clients");
    bytes.truncate(bytes.len() - (8 + 16 + 4));
    seal(&mut bytes, 1);
    assert_eq!(restore(&bytes).unwrap(), state, "without libraries");
    let mut loaded = state.clone();
    loaded.apply(&load(0, 9, b"xyz"));
    assert_eq!(restore(&of_version_3(&loaded)).unwrap(), loaded, "libraries were among the other bytes");
    state.apply(&Command::Alive { node: describe(1, 2), settings: Vec::new(), level: 0 });
    assert_eq!(state.map(|_| true).node(0).client_port, 8001, "a node says it when it starts again");
}

#[test]
fn golden_bytes() {
    let mut out = Vec::new();
    Command::Alive { node: describe(2, 5), settings: vec![("a".to_owned(), "b".to_owned())], level: 0 }.put(&mut out);
    let golden = [
        &b"\x04\x03"[..],
        &[2; 20],
        b"\x05\0\0\0\0\0\0\0\x08\0\0\x0010.0.0.1\x5a\x1b\x6a\x42\x42\x1f\x01\0\0\0\x01\0\0\0a\x01\0\0\0b",
    ];
    assert_eq!(out, golden.concat());
    out.clear();
    load(3, 9, b"xyz").put(&mut out);
    assert_eq!(out, [&b"\x04\x08\x03\0\0\0\0\0\0\0"[..], &[9; 16], b"\x03\0\0\0xyz"].concat());
    out.clear();
    configure(false, &[("hz", b"\xff")]).put(&mut out);
    assert_eq!(out, b"\x04\x09\0\x01\0\0\0\x02\0\0\0hz\x01\0\0\0\xff");
    out.clear();
    Response::Refused(Refusal::Superseded { version: 4 }).put(&mut out);
    assert_eq!(out, b"\x04\x0c\x04\0\0\0\0\0\0\0");
    let mut state = formed(&[1]);
    state.apply(&load(0, 9, b"xyz"));
    state.apply(&configure(true, &[("hz", b"20")]));
    let snapshot = state.snapshot();
    assert_eq!((snapshot.change, &*snapshot.libraries), ([9; 16], &b"xyz"[..]));
    let golden = [
        &b"\x04\0\0\0\x01"[..],
        &[7; 20],
        b"\x03\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0",
        &[1; 20],
        b"\x01\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\x08\0\0\x0010.0.0.1\x59\x1b\x69\x42\x41\x1f",
        b"\x01\0\0\0\x09\0\0\0databases\x02\0\0\x0016\x01\0\0\0\xff\x3f\x01\0\0\0",
        b"\x01\0\0\0\0\0\0\0",
        &[9; 16],
        b"\x03\0\0\0",
        &crate::codec::crc(&[b"xyz"]).to_le_bytes(),
        b"\x01\0\0\0\0\0\0\0\x01\0\0\0\x02\0\0\0hz\x02\0\0\x0020",
    ];
    assert_eq!(snapshot.state[4..], golden.concat());
}

fn commands() -> impl Strategy<Value = Command> {
    let node = || {
        (0u8..6, 0u8..6, 1u64..4)
            .prop_map(|(n, place, incarnation)| Describe { id: id(n), ..describe(place, incarnation) })
    };
    let level = || prop::sample::select(vec![0, 9, 10]);
    let setting = || prop::collection::vec(("[ab]", "[xy]"), 0..2);
    prop_oneof![
        prop::collection::vec(node(), 0..4).prop_map(|nodes| Command::Form {
            cluster: ClusterId([1; 20]),
            nodes,
            settings: Vec::new(),
            level: 0
        }),
        Just(form(&[1, 2, 3])),
        (node(), setting(), level()).prop_map(|(node, settings, level)| Command::Join { node, settings, level }),
        (node(), setting(), level()).prop_map(|(node, settings, level)| Command::Alive { node, settings, level }),
        (9u16..12, prop::collection::vec((0u8..6, 1u64..4, 8u16..13), 0..9)).prop_map(|(level, heard)| {
            let heard = heard.into_iter().map(|(n, incarnation, level)| Heard { id: id(n), incarnation, level });
            Command::Raise { level, heard: heard.collect() }
        }),
        (1u32..8, 0u32..9, 0u8..6, 1u64..4, 0u32..5).prop_map(|(shard, known, n, incarnation, of_log)| {
            let (shard, known) = (ShardId(shard), crate::Term::new(known).unwrap_or_default());
            Command::Lead(Lead { shard, known, id: id(n), incarnation, of_log })
        }),
        (0u8..6).prop_map(|n| Command::Leave { id: id(n) }),
        (0u8..6).prop_map(|n| Command::Forget { id: id(n) }),
        (0u64..3, 0u8..3, prop::collection::vec(any::<u8>(), 0..9))
            .prop_map(|(known, change, payload)| load(known, change, &payload)),
        ("[ab]", "[xy]").prop_map(|(name, value)| Command::Set { name, value }),
        (any::<bool>(), prop::collection::vec(("[ab]", prop::collection::vec(any::<u8>(), 0..3)), 0..3)).prop_map(
            |(first, settings)| Command::Configure {
                first,
                settings: settings.into_iter().map(|(name, value)| Setting { name, value }).collect()
            }
        ),
    ]
}

/// Properties that hold after any change.
fn check(before: &State, after: &State, response: &Response) {
    let (old, new) = (map(before), map(after));
    match response {
        Response::Refused(_) => assert_eq!(before, after, "a refusal changes nothing"),
        Response::Done { version, epoch } => assert_eq!((*version, *epoch), (new.version(), new.epoch())),
    }
    assert_eq!(old == new, old.version() == new.version(), "another map has another version");
    assert!(old.version() <= new.version() && old.epoch() <= new.epoch(), "versions and epochs rise");
    assert!(old.level() <= new.level(), "and levels");
    assert!(new.nodes().iter().all(|node| node.lost || node.level >= new.level()), "all members speak what all speak");
    assert_eq!(new.assigned(), if new.cluster().is_some() { SLOTS } else { 0 }, "every slot has an owner");
    for window in new.ranges().windows(2) {
        assert_eq!(window[0].end.get() + 1, window[1].start.get(), "and one only");
        assert_ne!(window[0].node, window[1].node, "in as few ranges as can be");
    }
    for slot in Slot::all() {
        let (Some(was), Some(is)) = (old.owner_of(slot), new.owner_of(slot)) else { continue };
        let (was, is) = (old.node(was), new.node(is));
        if was.id != is.id {
            assert!(is.epoch > old.epoch(), "who gets a slot gets an epoch that nobody has had");
        }
    }
    let gone: Vec<u32> = (1..after.next_number).filter(|n| !new.nodes().iter().any(|node| node.number == *n)).collect();
    assert_eq!(new.gone().collect::<Vec<_>>(), gone, "nodes that are gone are named");
    for shard in new.shards() {
        assert!(new.index_of(shard.owner).is_some() && !new.gone_shards().contains(&shard.id), "a node owns it");
        assert!(shard.term == crate::Term::ZERO || u64::from(shard.term.get()) > shard.incarnation);
        let Some(before) = old.shards().iter().find(|before| before.id == shard.id) else { continue };
        assert!(before.term <= shard.term, "terms rise");
        let same = Shard { standbys: shard.standbys.clone(), ..before.clone() };
        assert!(before.term < shard.term || same == *shard, "and each is given once (rule G1)");
    }
    for node in new.nodes() {
        assert!(node.epoch <= new.epoch());
        if let Some(index) = old.index_of(node.id).map(|index| old.node(index)).filter(|old| old.number == node.number)
        {
            assert!(node.incarnation >= index.incarnation && node.epoch >= index.epoch);
        }
    }
}

proptest! {
    #[test]
    fn slots_are_covered_and_epochs_rise(commands in prop::collection::vec(commands(), 1..12)) {
        let (mut state, mut other) = (State::new(), State::new());
        for command in &commands {
            let mut bytes = Vec::new();
            command.put(&mut bytes);
            let mut from = Reader::new(&bytes);
            prop_assert_eq!(&Command::read(&mut from).unwrap(), command);
            prop_assert!(from.is_empty());
            let before = state.clone();
            let response = state.apply(command);
            check(&before, &state, &response);
            bytes.clear();
            response.put(&mut bytes);
            prop_assert_eq!(Response::read(&mut Reader::new(&bytes)).unwrap(), response.clone());
            // A node that has started from a snapshot goes on like the others.
            other = State::restore(&other.snapshot()).unwrap();
            prop_assert_eq!(other.apply(command), response);
            prop_assert_eq!(&other, &state);
        }
    }

    #[test]
    fn damage_of_a_snapshot_is_noticed(at: prop::sample::Index, by in 1u8..) {
        let mut state = formed(&[1, 2, 3]);
        state.apply(&load(0, 9, b"xyz"));
        let mut image = state.snapshot();
        let mut libraries = image.libraries.to_vec();
        let at = at.index(image.state.len() + libraries.len());
        match at.checked_sub(image.state.len()) {
            Some(at) => libraries[at] ^= by,
            None => image.state[at] ^= by,
        }
        let damaged = Image { libraries: libraries.into(), ..image };
        prop_assert!(State::restore(&damaged).is_err());
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(prop_oneof![Just(0u8), 0u8..12, any::<u8>()], 0..100)) {
        let image = Image { state: bytes.clone(), ..Image::default() };
        let _ = State::restore(&image);
        let _ = Command::read(&mut Reader::new(&bytes));
        let _ = Response::read(&mut Reader::new(&bytes));
    }
}
