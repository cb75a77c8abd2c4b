//! Levels in the metadata (rule U1). The bytes of a cluster without levels do not change.

use standby::{Change, Process};

use super::command::Heard;
use super::*;
use crate::codec::Reader;
use crate::{AcceptorId, Term};

fn id(n: u8) -> NodeId {
    NodeId([n; 20])
}

fn describe(n: u8, incarnation: u64) -> Describe {
    let port = u16::from(n);
    Describe { id: id(n), incarnation, host: "h".to_owned(), port, bus_port: 100 + port, client_port: 200 + port }
}

fn formed(level: u16) -> State {
    let mut state = State::new();
    let nodes = (1..=3).map(|n| describe(n, 1)).collect();
    state.apply(&Command::Form { cluster: ClusterId([7; 20]), nodes, settings: Vec::new(), level });
    state
}

fn join(n: u8, level: u16) -> Command {
    Command::Join { node: describe(n, 1), settings: Vec::new(), level }
}

fn alive(n: u8, incarnation: u64, level: u16) -> Command {
    Command::Alive { node: describe(n, incarnation), settings: Vec::new(), level }
}

fn heard(n: u8, incarnation: u64, level: u16) -> Heard {
    Heard { id: id(n), incarnation, level }
}

fn raise(level: u16, heard: &[Heard]) -> Command {
    Command::Raise { level, heard: heard.to_vec() }
}

fn refused(state: &mut State, command: &Command) -> Refusal {
    match state.apply(command) {
        Response::Refused(why) => why,
        Response::Done { .. } => panic!("{command} is not refused"),
    }
}

fn bytes(command: &Command) -> Vec<u8> {
    let mut out = Vec::new();
    command.put(&mut out);
    assert_eq!(Command::read(&mut Reader::new(&out)).as_ref(), Ok(command));
    out
}

#[test]
fn the_level_rises_when_all_members_speak_it_and_never_falls() {
    let mut state = formed(0);
    assert_eq!(state.level(), 8);
    let all = [heard(1, 1, 9), heard(2, 1, 9), heard(3, 1, 9)];
    let low = |n, has| Refusal::LowLevel { id: id(n), has, needs: 9 };
    assert_eq!(refused(&mut state, &raise(9, &all[..2])), low(3, 8), "one was not heard");
    let earlier = [all[0], all[1], heard(3, 2, 9)];
    assert_eq!(refused(&mut state, &raise(9, &earlier)), low(3, 8), "it was another life of one");
    assert_eq!(refused(&mut state, &raise(9, &[all[0], heard(2, 1, 8), all[2]])), low(2, 8));
    state.apply(&raise(9, &all));
    assert_eq!((state.level(), state.map(|_| true).level()), (9, 9));
    let version = state.version();
    state.apply(&raise(8, &all));
    state.apply(&raise(9, &[]));
    assert_eq!((state.level(), state.version()), (9, version));
}

#[test]
fn a_node_that_does_not_reach_the_level_is_refused() {
    let mut state = formed(9);
    assert_eq!(refused(&mut state, &join(4, 0)), Refusal::LowLevel { id: id(4), has: 8, needs: 9 });
    let why = refused(&mut state, &alive(2, 2, 8));
    assert_eq!(why.to_string(), format!("the build of node {} speaks up to level 8, and level 9 is needed", id(2)));
    state.apply(&join(4, 10));
    state.apply(&alive(2, 2, 0));
    let levels: Vec<u16> = state.map(|_| true).nodes().iter().map(|node| node.level).collect();
    assert_eq!(levels, [9, 9, 9, 10], "who says none keeps the one that is known");
    // A lost node has no part in the level: it holds no other back, and is refused if it comes back.
    let mut state = formed(0);
    state.apply(&Command::Join { node: Describe { id: id(9), ..describe(3, 1) }, settings: Vec::new(), level: 0 });
    state.apply(&raise(9, &[heard(1, 1, 9), heard(2, 1, 9), heard(9, 1, 9)]));
    assert_eq!(state.level(), 9);
    assert_eq!(refused(&mut state, &alive(3, 2, 0)), Refusal::LowLevel { id: id(3), has: 8, needs: 9 });
}

/// Bytes for a node of a build before levels are written as that build writes them, until all nodes speak a higher
/// level.
#[test]
fn below_a_level_nothing_is_written_that_an_earlier_build_does_not_read() {
    for command in [join(4, 0), alive(2, 2, 0), alive(2, 2, 8), Command::Leave { id: id(1) }] {
        let mut out = Vec::new();
        command.put(&mut out);
        assert_eq!(out[0], 4, "{command}");
    }
    let mut state = formed(0);
    assert_eq!(state.snapshot().state[4..8], [4, 0, 0, 0]);
    assert_eq!(State::restore(&state.snapshot()).as_ref(), Ok(&state));
    state.apply(&raise(9, &[heard(1, 1, 9), heard(2, 1, 9), heard(3, 1, 11)]));
    assert_eq!(state.snapshot().state[4..8], [5, 0, 0, 0]);
    assert_eq!(State::restore(&state.snapshot()).as_ref(), Ok(&state));
}

#[test]
fn a_level_that_this_build_does_not_speak_is_not_restored() {
    let mut state = formed(9);
    state.level = crate::level::HIGHEST + 1;
    assert!(State::restore(&state.snapshot()).is_err());
}

#[test]
fn golden_bytes() {
    let alive = [&b"\x05\x03"[..], &[2; 20], b"\x02\0\0\0\0\0\0\0\x01\0\0\0h\x02\0\x66\0\xca\0\0\0\0\0\x09\0"];
    assert_eq!(bytes(&self::alive(2, 2, 9)), alive.concat());
    let raise = [&b"\x05\x0a\x09\0\x01\0\0\0"[..], &[3; 20], b"\x01\0\0\0\0\0\0\0\x0a\0"];
    assert_eq!(bytes(&self::raise(9, &[heard(3, 1, 10)])), raise.concat());
    let mut out = Vec::new();
    let why = Response::Refused(Refusal::LowLevel { id: id(3), has: 8, needs: 9 });
    why.put(&mut out);
    assert_eq!(out, [&b"\x05\x10"[..], &[3; 20], b"\x08\0\x09\0"].concat());
    assert_eq!(Response::read(&mut Reader::new(&out)), Ok(why));
    let mut state = State::new();
    let nodes = vec![describe(1, 1)];
    state.apply(&Command::Form { cluster: ClusterId([7; 20]), nodes, settings: Vec::new(), level: 9 });
    let snapshot = [
        &b"\x05\0\0\0\x01"[..],
        &[7; 20],
        b"\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x09\0\x01\0\0\0",
        &[1; 20],
        b"\x01\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\x01\0\0\0h\x01\0\x65\0\xc9\0\x09\0",
        b"\0\0\0\0\x01\0\0\0\xff\x3f\x01\0\0\0",
        &[0; 8 + 16 + 4 + 4],
        &[0; 8 + 4],
    ];
    assert_eq!(state.snapshot().state[4..], snapshot.concat());
}

#[test]
fn machines_are_known_from_their_level_on() {
    let locate =
        |n, incarnation, machine: &str| Command::Locate { id: id(n), incarnation, machine: machine.to_owned() };
    let machines =
        |state: &State| -> Vec<String> { state.map(|_| true).nodes().iter().map(|n| n.machine.clone()).collect() };
    let mut state = formed(9);
    assert!(matches!(refused(&mut state, &locate(2, 1, "m")), Refusal::LowLevel { .. }), "others could not read it");
    assert_eq!(state.snapshot().state[4..8], [5, 0, 0, 0]);
    state.apply(&raise(10, &[heard(1, 1, 10), heard(2, 1, 10), heard(3, 1, 10)]));
    assert_eq!(state.snapshot().state[4..8], [6, 0, 0, 0]);
    state.apply(&locate(2, 1, "m"));
    assert_eq!(machines(&state), ["", "m", ""]);
    assert_eq!(refused(&mut state, &locate(2, 2, "x")), Refusal::EarlierLife { id: id(2), known: 1 });
    assert_eq!(refused(&mut state, &locate(7, 1, "x")), Refusal::Unknown(id(7)));
    // A node that starts again stays where it was, until it says otherwise.
    state.apply(&alive(2, 2, 10));
    assert_eq!(machines(&state), ["", "m", ""]);
    let version = state.version();
    state.apply(&locate(2, 2, "m"));
    assert_eq!(state.version(), version, "it was known");
    assert_eq!(State::restore(&state.snapshot()).as_ref(), Ok(&state));
    let golden = [&b"\x06\x0b"[..], &[2; 20], b"\x02\0\0\0\0\0\0\0\x01\0\0\0m"].concat();
    assert_eq!(bytes(&locate(2, 2, "m")), golden);
    let member = [
        &[2; 20][..],
        b"\x02\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0\x01\0\0\0h\x02\0\x66\0\xca\0\x0a\0\x01\0\0\0m",
    ]
    .concat();
    let snapshot = state.snapshot().state;
    assert!(snapshot.windows(member.len()).any(|bytes| bytes == member), "{snapshot:?}");
}

/// Rule U1: a leader writes no command into the metadata's log whose format nodes of the cluster's level may not read.
/// Formers and commands that say a level are written as the level has them.
#[test]
fn a_command_needs_the_level_that_its_format_is_of() {
    let shard = ShardId(1);
    let place = Place { member: id(1), dir: DEFAULT_DIR.to_owned() };
    let group = Group { name: "g".to_owned(), places: vec![place.clone()] };
    let (one, incarnation, acceptor) = (id(1), 1, AcceptorId([1; 16]));
    let groups = [
        GroupCommand::Add(group),
        GroupCommand::Use { name: "g".to_owned(), shards: vec![shard] },
        GroupCommand::Replace { name: "g".to_owned(), old: place.clone(), new: place.clone() },
        GroupCommand::Report(Report { shard, place, incarnation, id: acceptor, streams: 1 }),
        GroupCommand::Settle(Settle { shard, id: one, incarnation, term: Term::ZERO, acceptors: vec![acceptor] }),
        GroupCommand::Recover(Recover { shard, to: one }),
    ];
    let others = [
        Command::Leave { id: one },
        Command::Forget { id: one },
        Command::Locate { id: one, incarnation, machine: "m".to_owned() },
        Command::Lead(Lead { shard, known: Term::ZERO, id: one, incarnation, of_log: 0 }),
        Command::SetShard(SetShard { shard, id: one, incarnation, settings: Default::default() }),
        Command::Copies(ChangeCopies { shard, change: Change::Pin { standby: Process::default() } }),
        Command::JoinLog { node: describe(1, 1), settings: Vec::new(), level: level::SHARDS },
        join(4, 0),
        alive(1, 2, 0),
    ];
    for command in groups.map(Command::Group).into_iter().chain(others) {
        let of_format = match bytes(&command)[0] {
            4 => level::FIRST,
            6 => level::MACHINES,
            7 => level::SHARDS,
            8 => level::SHARD_SETTINGS,
            9 => level::STANDBYS,
            other => panic!("{command}: format {other}"),
        };
        assert_eq!(command.needs(), of_format, "{command}");
    }
}
