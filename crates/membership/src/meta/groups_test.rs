//! Groups, the acceptors in them, and their change.

use super::*;
use crate::codec::Reader;
use crate::{AcceptorId, Continued, Term};

fn id(n: u8) -> NodeId {
    NodeId([n; 20])
}

fn describe(n: u8, incarnation: u64) -> Describe {
    let (port, bus_port) = (100 + u16::from(n), 200 + u16::from(n));
    Describe { id: id(n), incarnation, host: "h".to_owned(), port, bus_port, client_port: 0 }
}

/// Nodes 1 to 4 with shards of their numbers, and the log-server 5.
fn formed() -> State {
    formed_of(level::SHARDS)
}

fn formed_of(level: u16) -> State {
    let mut state = State::new();
    let nodes = (1..=4).map(|n| describe(n, 1)).collect();
    state.apply(&Command::Form { cluster: ClusterId([7; 20]), nodes, settings: Vec::new(), level });
    done(&mut state, &Command::JoinLog { node: describe(5, 1), settings: Vec::new(), level });
    state
}

fn done(state: &mut State, command: &Command) {
    let response = state.apply(command);
    assert!(matches!(response, Response::Done { .. }), "{command}: {response:?}");
    assert_eq!(State::restore(&state.snapshot()).as_ref(), Ok(&*state), "{command}");
}

fn refused(state: &mut State, command: &Command) -> Refusal {
    match state.apply(command) {
        Response::Refused(why) => why,
        Response::Done { .. } => panic!("{command} is not refused"),
    }
}

fn at(member: u8, dir: &str) -> Place {
    Place { member: id(member), dir: dir.to_owned() }
}

fn default(members: &[u8]) -> Vec<Place> {
    members.iter().map(|member| at(*member, "-")).collect()
}

fn add(name: &str, places: Vec<Place>) -> Command {
    Command::Group(GroupCommand::Add(Group { name: name.to_owned(), places }))
}

fn replace(name: &str, old: Place, new: Place) -> Command {
    Command::Group(GroupCommand::Replace { name: name.to_owned(), old, new })
}

fn uses(name: &str, shards: &[u32]) -> Command {
    let shards = shards.iter().map(|shard| ShardId(*shard)).collect();
    Command::Group(GroupCommand::Use { name: name.to_owned(), shards })
}

fn acceptor(n: u8) -> AcceptorId {
    AcceptorId([n; 16])
}

fn report(shard: u32, place: Place, folder: u8) -> Command {
    let (shard, id) = (ShardId(shard), acceptor(folder));
    Command::Group(GroupCommand::Report(Report { shard, place, incarnation: 1, id, streams: 2 }))
}

/// The folders 10, 20 and 30 for shard 1.
fn three_report(state: &mut State) {
    for (member, folder) in [(1, 10), (2, 20), (3, 30)] {
        done(state, &report(1, at(member, "-"), folder));
    }
}

/// The next term of a shard.
fn lead(state: &mut State, shard: u32) -> u32 {
    let Shard { owner, term, .. } = *of(state, shard);
    let incarnation = state.incarnation(owner).unwrap();
    done(state, &Command::Lead(Lead { shard: ShardId(shard), known: term, id: owner, incarnation, of_log: 0 }));
    of(state, shard).term.get()
}

fn settle(state: &State, shard: u32, folders: &[u8]) -> Settle {
    let Shard { id, owner, incarnation, term, .. } = *of(state, shard);
    Settle { shard: id, id: owner, incarnation, term, acceptors: folders.iter().map(|n| acceptor(*n)).collect() }
}

fn settled(state: &mut State, shard: u32, folders: &[u8]) {
    let settle = settle(state, shard, folders);
    done(state, &Command::Group(GroupCommand::Settle(settle)));
}

fn recover(shard: u32, to: u8) -> Command {
    Command::Group(GroupCommand::Recover(Recover { shard: ShardId(shard), to: id(to) }))
}

fn of(state: &State, shard: u32) -> &Shard {
    &state.shards.all[&ShardId(shard)]
}

/// The folders of a shard: settled, and pending.
fn sets(state: &State, shard: u32) -> (Vec<u8>, Option<Vec<u8>>) {
    let folders = |acceptors: &[Acceptor]| acceptors.iter().map(|acceptor| acceptor.id.0[0]).collect();
    let of = of(state, shard);
    (folders(&of.settled), of.pending.as_deref().map(folders))
}

fn no(why: GroupRefusal) -> Refusal {
    Refusal::Group(why)
}

#[test]
fn a_group_is_a_name_and_places_of_members() {
    let mut state = formed();
    let group = add("g", vec![at(1, "-"), at(5, "/mnt/a"), at(5, "/mnt/b")]);
    done(&mut state, &group);
    let version = state.version();
    done(&mut state, &group);
    assert_eq!(state.version(), version, "it is there");
    assert_eq!(refused(&mut state, &add("g", default(&[1]))), no(GroupRefusal::Exists("g".to_owned())));
    for name in ["", "-", "a b", "ü", &"x".repeat(65)] {
        assert_eq!(refused(&mut state, &add(name, default(&[1]))), no(GroupRefusal::BadName), "{name}");
    }
    assert_eq!(refused(&mut state, &add("h", default(&[9]))), Refusal::Unknown(id(9)));
    assert_eq!(refused(&mut state, &add("h", Vec::new())), no(GroupRefusal::BadPlaces));
    assert_eq!(refused(&mut state, &add("h", default(&[1, 2, 1]))), no(GroupRefusal::Twice(at(1, "-"))));
    for dir in ["", "a", "/a\nb"] {
        assert_eq!(refused(&mut state, &add("h", vec![at(1, dir)])), no(GroupRefusal::BadDir(dir.to_owned())));
    }
    assert_eq!(refused(&mut state, &uses("h", &[])), no(GroupRefusal::NoGroup("h".to_owned())));
    assert_eq!(refused(&mut state, &uses("g", &[9])), no(GroupRefusal::NoShard(ShardId(9))));
    // Its members stay.
    let stays = no(GroupRefusal::InGroup(id(5), "g".to_owned()));
    assert_eq!(refused(&mut state, &Command::Leave { id: id(5) }), stays);
    assert_eq!(refused(&mut state, &Command::Forget { id: id(5) }), stays);
    done(&mut state, &replace("g", at(5, "/mnt/a"), at(2, "-")));
    done(&mut state, &replace("g", at(5, "/mnt/b"), at(3, "-")));
    let version = state.version();
    done(&mut state, &replace("g", at(5, "/mnt/b"), at(3, "-")));
    assert_eq!(state.version(), version, "it is so already");
    done(&mut state, &Command::Leave { id: id(5) });
}

#[test]
fn below_its_level_a_cluster_has_no_groups_and_no_log_servers() {
    let mut state = State::new();
    let nodes = vec![describe(1, 1)];
    state.apply(&Command::Form { cluster: ClusterId([7; 20]), nodes, settings: Vec::new(), level: 10 });
    let low = Refusal::EarlierLevel { has: 10, needs: 11 };
    assert_eq!(refused(&mut state, &add("g", default(&[1]))), low);
    let join = Command::JoinLog { node: describe(5, 1), settings: Vec::new(), level: 11 };
    assert_eq!(refused(&mut state, &join), low);
}

#[test]
fn a_log_server_owns_nothing() {
    let mut state = formed();
    assert_eq!((state.slots_of(id(5)), state.shards.of(id(5)).count()), (0, 0));
    let map = state.map(|_| true);
    assert_eq!(map.nodes().iter().map(|node| node.id).collect::<Vec<_>>(), [1, 2, 3, 4].map(id));
    assert_eq!(map.log_servers().iter().map(|node| node.id).collect::<Vec<_>>(), [id(5)]);
    assert_eq!((map.index_of(id(5)), map.member(id(5)).map(|member| member.port)), (None, Some(105)));
    assert_eq!(map.gone().count(), 0);
    done(&mut state, &Command::Forget { id: id(1) });
    assert_eq!(state.slots_of(id(5)), 0, "it inherits nothing");
    done(&mut state, &Command::Alive { node: describe(5, 2), settings: Vec::new(), level: 11 });
    assert_eq!(state.map(|_| true).log_servers().len(), 1, "a start does not make it a node");
}

#[test]
fn a_shard_has_copies_at_its_owner_and_at_others() {
    let places = default(&[1, 2, 3]);
    let members = |shard: u32, owner: u8| {
        let copies = copies(&places, ShardId(shard), id(owner));
        copies.iter().map(|place| place.member.0[0]).collect::<Vec<_>>()
    };
    assert_eq!(members(1, 1), [1, 3, 2]);
    assert_eq!(members(2, 2), [2, 1, 3]);
    assert_eq!((members(3, 4), members(4, 4), members(5, 4)), (vec![4, 1, 2], vec![4, 2, 3], vec![4, 3, 1]));
    // Two places of the owner's machine are of no use to it.
    let of_one = [at(1, "/a"), at(1, "/b"), at(2, "-")];
    assert_eq!(copies(&of_one, ShardId(7), id(1)), [at(1, "-"), at(2, "-")]);
}

#[test]
fn acceptors_become_pending_and_are_settled_by_their_owner_g11() {
    let mut state = formed();
    assert_eq!(refused(&mut state, &report(1, at(1, "-"), 10)), no(GroupRefusal::NoPlace(at(1, "-"))));
    done(&mut state, &add("g", default(&[1, 2, 3])));
    done(&mut state, &uses("g", &[1]));
    // The owner comes first, and says how many streams its log has.
    let none = no(GroupRefusal::OtherStreams(ShardId(1), 0));
    assert_eq!(refused(&mut state, &report(1, at(2, "-"), 20)), none);
    assert_eq!(refused(&mut state, &report(2, at(2, "-"), 22)), no(GroupRefusal::NoPlace(at(2, "-"))));
    done(&mut state, &report(1, at(1, "-"), 10));
    assert_eq!(sets(&state, 1), (vec![10], None), "what the owner wrote alone is a group of one");
    let report_of =
        |streams| Report { shard: ShardId(1), place: at(2, "-"), incarnation: 1, id: acceptor(20), streams };
    let other = refused(&mut state, &Command::Group(GroupCommand::Report(report_of(3))));
    assert_eq!(other, no(GroupRefusal::OtherStreams(ShardId(1), 2)));
    done(&mut state, &report(1, at(2, "-"), 20));
    done(&mut state, &report(1, at(3, "-"), 30));
    assert_eq!(sets(&state, 1), (vec![10], Some(vec![10, 30, 20])));
    // It is settled with a term that was given after the choice.
    let early = settle(&state, 1, &[10, 30, 20]);
    assert_eq!(
        refused(&mut state, &Command::Group(GroupCommand::Settle(early))),
        no(GroupRefusal::OtherAcceptors(ShardId(1)))
    );
    lead(&mut state, 1);
    let other = Settle { term: Term::new(9).unwrap(), ..settle(&state, 1, &[10, 30, 20]) };
    assert!(matches!(refused(&mut state, &Command::Group(GroupCommand::Settle(other))), Refusal::OtherTerm { .. }));
    let stranger = Settle { id: id(2), ..settle(&state, 1, &[10, 30, 20]) };
    assert!(matches!(refused(&mut state, &Command::Group(GroupCommand::Settle(stranger))), Refusal::NotOwner { .. }));
    let fewer = settle(&state, 1, &[10, 30]);
    assert!(matches!(refused(&mut state, &Command::Group(GroupCommand::Settle(fewer))), Refusal::Group(_)));
    settled(&mut state, 1, &[10, 30, 20]);
    assert_eq!(sets(&state, 1), (vec![10, 30, 20], None));
    settled(&mut state, 1, &[10, 30, 20]);
    // It goes back to one copy.
    done(&mut state, &uses("", &[1]));
    assert_eq!(sets(&state, 1), (vec![10, 30, 20], Some(vec![10])));
    lead(&mut state, 1);
    settled(&mut state, 1, &[10]);
    assert_eq!(sets(&state, 1), (vec![10], None));
}

#[test]
fn a_pending_set_grows_until_a_term_is_given_with_it() {
    let mut state = formed();
    done(&mut state, &add("default", default(&[1, 2, 3])));
    done(&mut state, &report(1, at(1, "-"), 10));
    assert_eq!(sets(&state, 1), (vec![10], None), "one of three is no majority");
    done(&mut state, &report(1, at(2, "-"), 20));
    assert_eq!(sets(&state, 1).1, Some(vec![10, 20]));
    lead(&mut state, 1);
    done(&mut state, &report(1, at(3, "-"), 30));
    assert_eq!(sets(&state, 1).1, Some(vec![10, 20]), "the owner has sealed these");
    settled(&mut state, 1, &[10, 20]);
    assert_eq!(sets(&state, 1), (vec![10, 20], Some(vec![10, 30, 20])), "then the rest comes");
    // A node that joins gets copies in the default group by itself.
    done(&mut state, &Command::Join { node: describe(6, 1), settings: Vec::new(), level: 11 });
    done(&mut state, &report(5, at(6, "-"), 60));
    done(&mut state, &report(5, at(3, "-"), 35));
    assert_eq!(sets(&state, 5), (vec![60], Some(vec![60, 35])));
}

#[test]
fn a_wiped_folder_votes_when_an_operator_has_given_it_its_place_g9() {
    let mut state = formed();
    done(&mut state, &add("g", default(&[1, 2, 3])));
    done(&mut state, &uses("g", &[1, 2]));
    three_report(&mut state);
    // The log has no copies yet: nothing else has its data.
    done(&mut state, &replace("g", at(1, "-"), at(1, "-")));
    assert_eq!(refused(&mut state, &report(1, at(1, "-"), 11)), no(GroupRefusal::OtherFolder(at(1, "-"))));
    lead(&mut state, 1);
    settled(&mut state, 1, &[10, 30, 20]);
    done(&mut state, &report(1, at(2, "-"), 20));
    assert_eq!(refused(&mut state, &report(1, at(2, "-"), 21)), no(GroupRefusal::OtherFolder(at(2, "-"))));
    assert_eq!(sets(&state, 1), (vec![10, 30, 20], None));
    let copied = report(2, at(2, "-"), 20);
    assert_eq!(refused(&mut state, &copied), no(GroupRefusal::SameFolder(at(2, "-"))), "a copy of a folder");
    let late = Report { shard: ShardId(1), place: at(2, "-"), incarnation: 0, id: acceptor(21), streams: 2 };
    let late = refused(&mut state, &Command::Group(GroupCommand::Report(late)));
    assert_eq!(late, Refusal::EarlierLife { id: id(2), known: 1 });
    // The operator gives the place anew.
    done(&mut state, &replace("g", at(2, "-"), at(2, "-")));
    assert_eq!(sets(&state, 1), (vec![10, 30, 20], Some(vec![10, 30])), "a majority is there");
    done(&mut state, &report(1, at(2, "-"), 21));
    assert_eq!(sets(&state, 1), (vec![10, 30, 20], Some(vec![10, 30, 21])));
    // The new folder is lost, too, while the change is under way: it is withdrawn.
    lead(&mut state, 1);
    done(&mut state, &replace("g", at(2, "-"), at(5, "/mnt/a")));
    assert_eq!(sets(&state, 1), (vec![10, 30, 20], Some(vec![10, 30])));
    let withdrawn = settle(&state, 1, &[10, 30, 21]);
    assert!(matches!(refused(&mut state, &Command::Group(GroupCommand::Settle(withdrawn))), Refusal::Group(_)));
    done(&mut state, &report(1, at(5, "/mnt/a"), 50));
    lead(&mut state, 1);
    settled(&mut state, 1, &[10, 30, 50]);
    assert_eq!(sets(&state, 1), (vec![10, 30, 50], None));
    // Others have the log of an owner whose folder is lost.
    done(&mut state, &replace("g", at(1, "-"), at(1, "-")));
    assert_eq!(sets(&state, 1), (vec![10, 30, 50], None));
    done(&mut state, &report(1, at(1, "-"), 11));
    assert_eq!(sets(&state, 1), (vec![10, 30, 50], Some(vec![11, 30, 50])));
    let gone = no(GroupRefusal::NoPlace(at(2, "-")));
    assert_eq!(refused(&mut state, &replace("g", at(2, "-"), at(4, "-"))), gone);
    assert_eq!(refused(&mut state, &replace("g", at(1, "-"), at(3, "-"))), no(GroupRefusal::Twice(at(3, "-"))));
}

#[test]
fn a_node_without_slots_takes_over_a_shard_with_copies() {
    let mut state = formed();
    done(&mut state, &Command::Join { node: describe(6, 1), settings: Vec::new(), level: 11 });
    assert_eq!(refused(&mut state, &recover(1, 6)), no(GroupRefusal::OneCopy(ShardId(1))));
    done(&mut state, &add("g", default(&[1, 2, 3])));
    done(&mut state, &uses("g", &[1]));
    three_report(&mut state);
    let term = lead(&mut state, 1);
    settled(&mut state, 1, &[10, 30, 20]);
    assert_eq!(state.may_recover(ShardId(1), id(1)), Err(no(GroupRefusal::Owns(id(1), ShardId(1)))));
    assert_eq!(refused(&mut state, &recover(9, 6)), no(GroupRefusal::NoShard(ShardId(9))));
    assert_eq!(refused(&mut state, &recover(1, 5)), Refusal::Unknown(id(5)), "a log-server has no keys");
    assert!(matches!(refused(&mut state, &recover(1, 2)), Refusal::OwnsSlots { .. }));
    let (slots, epoch) = (state.slots_of(id(1)), state.map(|_| true).epoch());
    done(&mut state, &recover(1, 6));
    assert_eq!((state.slots_of(id(1)), state.slots_of(id(6))), (0, slots));
    assert_eq!(state.map(|_| true).epoch(), epoch + 1);
    assert!(state.map(|_| true).gone_shards().contains(&ShardId(5)), "its own shard, which had no slots");
    let now = of(&state, 1);
    assert_eq!((now.owner, now.incarnation, now.term.get()), (id(6), 0, term), "it asks for a term of its own");
    assert_eq!(sets(&state, 1), (vec![10, 30, 20], None), "the lost folder still counts");
    let version = state.version();
    done(&mut state, &recover(1, 6));
    assert_eq!(state.version(), version, "it is so already");
    done(&mut state, &report(1, at(6, "-"), 60));
    assert_eq!(sets(&state, 1).1, Some(vec![60, 20, 30]));
    assert_eq!(lead(&mut state, 1), term + 1);
    settled(&mut state, 1, &[60, 20, 30]);
}

/// Rule T5: logs name the nodes that have owned a shard, and others ask the present owner about them.
#[test]
fn former_owners_of_a_shard_are_known_for_good() {
    let mut state = formed_of(level::HEIRS);
    for n in [6, 7] {
        done(&mut state, &Command::Join { node: describe(n, 1), settings: Vec::new(), level: level::HEIRS });
    }
    done(&mut state, &add("g", default(&[1, 2, 3])));
    done(&mut state, &uses("g", &[1]));
    three_report(&mut state);
    lead(&mut state, 1);
    settled(&mut state, 1, &[10, 30, 20]);
    let number = |state: &State, n: u8| state.map(|_| true).member(id(n)).unwrap().number;
    let [first, second] = [1, 6].map(|n| number(&state, n));
    let by = |state: &State, number: u32| match state.map(|_| true).continued(number) {
        Some(Continued::By(node)) => Some(node.id),
        _ => None,
    };
    assert_eq!(state.map(|_| true).continued(first), None);
    done(&mut state, &recover(1, 6));
    assert_eq!(state.map(|_| true).continued(first), Some(Continued::Waits), "no life of it has the log");
    lead(&mut state, 1);
    assert_eq!(by(&state, first), Some(id(6)));
    assert_eq!(refused(&mut state, &recover(1, 1)), no(GroupRefusal::HasLost(id(1))));
    // The heir is lost as well, and the first owner is forgotten.
    done(&mut state, &recover(1, 7));
    assert_eq!(state.map(|_| true).continued(first), Some(Continued::Waits));
    lead(&mut state, 1);
    done(&mut state, &replace("g", at(1, "-"), at(7, "-")));
    done(&mut state, &report(1, at(7, "-"), 70));
    lead(&mut state, 1);
    let pending = sets(&state, 1).1.unwrap();
    settled(&mut state, 1, &pending);
    done(&mut state, &Command::Forget { id: id(1) });
    assert_eq!([first, second].map(|number| by(&state, number)), [Some(id(7)); 2]);
    let map = state.map(|_| true);
    assert_eq!(
        (map.gone().collect::<Vec<_>>(), map.former_owners().collect::<Vec<_>>()),
        (vec![first], vec![first, second])
    );
    let snapshot = state.snapshot().state;
    let former =
        [&[2, 0, 0, 0][..], &first.to_le_bytes(), &[1, 0, 0, 0], &second.to_le_bytes(), &[1, 0, 0, 0]].concat();
    assert_eq!(snapshot[4..8], [8, 0, 0, 0]);
    assert!(snapshot.windows(former.len()).any(|bytes| bytes == former), "{snapshot:?}");
    // With its last owner the log is gone.
    done(&mut state, &replace("g", at(7, "-"), at(2, "/x")));
    done(&mut state, &Command::Forget { id: id(7) });
    let map = state.map(|_| true);
    assert_eq!([first, second].map(|number| map.continued(number)), [Some(Continued::Lost); 2]);
}

#[test]
fn below_their_level_former_owners_are_not_kept() {
    let mut state = formed();
    done(&mut state, &Command::Join { node: describe(6, 1), settings: Vec::new(), level: 11 });
    done(&mut state, &add("g", default(&[1, 2, 3])));
    done(&mut state, &uses("g", &[1]));
    three_report(&mut state);
    lead(&mut state, 1);
    settled(&mut state, 1, &[10, 30, 20]);
    done(&mut state, &recover(1, 6));
    assert_eq!(state.map(|_| true).former_owners().count(), 0);
    assert_eq!(state.snapshot().state[4..8], [7, 0, 0, 0], "nodes of a build before read it");
}

#[test]
fn a_node_with_a_copy_takes_over_nothing_and_stays_while_that_counts() {
    let mut state = formed();
    for n in [6, 7] {
        done(&mut state, &Command::Join { node: describe(n, 1), settings: Vec::new(), level: 11 });
    }
    done(&mut state, &add("g", default(&[1, 5, 6])));
    done(&mut state, &uses("g", &[1]));
    for (member, folder) in [(1, 10), (5, 50), (6, 60)] {
        done(&mut state, &report(1, at(member, "-"), folder));
    }
    let has_copy = no(GroupRefusal::HasCopy(id(6), ShardId(1)));
    lead(&mut state, 1);
    let pending = sets(&state, 1).1.unwrap();
    settled(&mut state, 1, &pending);
    assert_eq!(refused(&mut state, &recover(1, 6)), has_copy);
    // Its place is another's, and its copy counts until that one has everything.
    done(&mut state, &replace("g", at(6, "-"), at(7, "-")));
    let counts = no(GroupRefusal::Counts(id(6), ShardId(1)));
    assert_eq!(refused(&mut state, &Command::Forget { id: id(6) }), counts);
    assert_eq!(refused(&mut state, &Command::Leave { id: id(6) }), counts);
    assert_eq!(refused(&mut state, &recover(1, 6)), has_copy);
    done(&mut state, &report(1, at(7, "-"), 70));
    assert_eq!(refused(&mut state, &recover(1, 7)), no(GroupRefusal::HasCopy(id(7), ShardId(1))), "it is to get all");
    lead(&mut state, 1);
    let pending = sets(&state, 1).1.unwrap();
    settled(&mut state, 1, &pending);
    done(&mut state, &Command::Leave { id: id(6) });
}

#[test]
fn what_a_dissolved_shard_had_is_gone() {
    let mut state = formed();
    done(&mut state, &add("default", default(&[2, 3, 4])));
    for (member, folder) in [(1, 10), (3, 30), (4, 40)] {
        done(&mut state, &report(1, at(member, "-"), folder));
    }
    assert_eq!(state.map(|_| true).reported().len(), 3);
    done(&mut state, &Command::Forget { id: id(1) });
    assert!(state.map(|_| true).reported().is_empty());
}

fn bytes(command: &Command) -> Vec<u8> {
    let mut out = Vec::new();
    command.put(&mut out);
    assert_eq!(Command::read(&mut Reader::new(&out)).as_ref(), Ok(command));
    out
}

#[test]
fn golden_bytes() {
    let place = [&[2; 20][..], b"\x01\0\0\0-"].concat();
    let golden = [&b"\x07\x0e\x01\x01\0\0\0g\x01\0\0\0"[..], &place].concat();
    assert_eq!(bytes(&add("g", default(&[2]))), golden);
    assert_eq!(bytes(&uses("g", &[3])), b"\x07\x0e\x02\x01\0\0\0g\x01\0\0\0\x03\0\0\0");
    let golden = [&b"\x07\x0e\x03\x01\0\0\0g"[..], &place, &[4; 20], b"\x02\0\0\0/d"].concat();
    assert_eq!(bytes(&replace("g", at(2, "-"), at(4, "/d"))), golden);
    let golden = [&b"\x07\x0e\x04\x03\0\0\0"[..], &place, b"\x01\0\0\0\0\0\0\0", &[9; 16], b"\x02\0"].concat();
    assert_eq!(bytes(&report(3, at(2, "-"), 9)), golden);
    let term = Term::new(5).unwrap();
    let settle = Settle { shard: ShardId(3), id: id(2), incarnation: 6, term, acceptors: vec![acceptor(9)] };
    let golden =
        [&b"\x07\x0e\x05\x03\0\0\0"[..], &[2; 20], b"\x06\0\0\0\0\0\0\0\x05\0\0\0\x01\0\0\0", &[9; 16]].concat();
    assert_eq!(bytes(&Command::Group(GroupCommand::Settle(settle))), golden);
    assert_eq!(bytes(&recover(3, 2)), [&b"\x07\x0e\x06\x03\0\0\0"[..], &[2; 20]].concat());
    let join = Command::JoinLog { node: describe(5, 1), settings: Vec::new(), level: 11 };
    let golden = [&b"\x07\x0d"[..], &[5; 20], b"\x01\0\0\0\0\0\0\0\x01\0\0\0h\x69\0\xcd\0\0\0\0\0\0\0\x0b\0"].concat();
    assert_eq!(bytes(&join), golden);
}

#[test]
fn refusals_are_read_as_they_are_written() {
    let name = || "g".to_owned();
    let (place, shard) = (|| at(2, "/d"), ShardId(3));
    let all = [
        GroupRefusal::BadName,
        GroupRefusal::BadPlaces,
        GroupRefusal::BadDir("x".to_owned()),
        GroupRefusal::Exists(name()),
        GroupRefusal::NoGroup(name()),
        GroupRefusal::NoShard(shard),
        GroupRefusal::NoPlace(place()),
        GroupRefusal::Twice(place()),
        GroupRefusal::Lost(id(2)),
        GroupRefusal::InGroup(id(2), name()),
        GroupRefusal::OtherFolder(place()),
        GroupRefusal::SameFolder(place()),
        GroupRefusal::OtherAcceptors(shard),
        GroupRefusal::Owns(id(2), shard),
        GroupRefusal::OneCopy(shard),
        GroupRefusal::OtherStreams(shard, 2),
        GroupRefusal::HasLost(id(2)),
    ];
    for (number, why) in (1u8..).zip(all) {
        let response = Response::Refused(Refusal::Group(why));
        let mut out = Vec::new();
        response.put(&mut out);
        assert_eq!(out[..3], [7, 20, number]);
        assert_eq!(Response::read(&mut Reader::new(&out)), Ok(response));
    }
    let response = Response::Refused(Refusal::EarlierLevel { has: 10, needs: 11 });
    let mut out = Vec::new();
    response.put(&mut out);
    assert_eq!(out, b"\x07\x13\x0a\0\x0b\0");
    assert_eq!(Response::read(&mut Reader::new(&out)), Ok(response));
}
