//! Log groups and log-servers: processes make the folders of their places, and the cluster knows them.

use membership::meta::{Acceptor, Command, Group, GroupCommand, Kind, Lead, Place, Recover, Response, Settle, Shard};
use membership::{NodeId, ShardId};

use crate::harness::{Nodes, wait};

fn place(member: NodeId, dir: &str) -> Place {
    Place { member, dir: dir.to_owned() }
}

fn change(nodes: &Nodes, node: usize, change: GroupCommand) -> Response {
    nodes.nodes[node].submit(Command::Group(change)).unwrap()
}

fn shard_of(nodes: &Nodes, id: NodeId) -> Shard {
    nodes.nodes[0].map().shards_of(id).next().unwrap().clone()
}

/// The owner of a shard brings its pending acceptors up, takes another term, and settles them, until there are three of
/// these names. Processes report their folders in any order, so a set of two may come first.
fn settle(nodes: &Nodes, owner: usize, is_wanted: impl Fn(&[Acceptor]) -> bool) {
    let id = nodes.nodes[owner].id();
    wait("the acceptors are settled", || {
        let Shard { id: shard, term: known, incarnation, pending, settled, .. } = shard_of(nodes, id);
        let Some(pending) = pending else { return (settled.len() == 3 && is_wanted(&settled)).then_some(()) };
        let acceptors = pending.iter().map(|acceptor| acceptor.id).collect();
        let lead = Command::Lead(Lead { shard, known, id, incarnation, of_log: 0 });
        nodes.nodes[owner].submit(lead).unwrap();
        let term = wait("there is another term", || Some(shard_of(nodes, id).term).filter(|term| *term > known));
        // A folder may have reported itself meanwhile: then the set is another one.
        change(nodes, owner, GroupCommand::Settle(Settle { shard, id, incarnation, term, acceptors }));
        None
    });
}

#[test]
fn a_group_gets_its_folders_and_a_wiped_one_does_not_vote_g9() {
    let mut nodes = Nodes::prepared(37, 3);
    nodes.nodes[2].settings.kind = Kind::Log;
    nodes.nodes.iter_mut().for_each(|node| node.start());
    wait("the log-server is in", || (nodes.nodes[0].map().log_servers().len() == 1).then_some(()));
    let map = nodes.nodes[0].map();
    assert_eq!((map.nodes().len(), map.assigned()), (2, membership::SLOTS), "it was a seed, and owns nothing");
    let [one, two, log] = [0, 1, 2].map(|node| nodes.nodes[node].id());
    let places = vec![place(one, "-"), place(two, "-"), place(log, "/a")];
    let group = |name: &str, places: &[Place]| Group { name: name.to_owned(), places: places.to_vec() };
    wait("level 11", || (nodes.nodes[0].map().level() >= 11).then_some(()));
    change(&nodes, 1, GroupCommand::Add(group("default", &places)));
    (0..2).for_each(|node| settle(&nodes, node, |_| true));
    // The log-server loses its folders. What it makes in their place is in no set.
    let before = shard_of(&nodes, one).settled;
    nodes.nodes[2].stop();
    nodes.nodes[2].copies.lock().unwrap().clear();
    nodes.nodes[2].start();
    let trouble = wait("it is told", || {
        let status = nodes.nodes[0].status();
        status.nodes.iter().find(|node| node.id == log).map(|node| node.trouble.clone()).filter(|why| !why.is_empty())
    });
    assert!(trouble.contains("another folder was at"), "{trouble}");
    assert_eq!(shard_of(&nodes, one).settled, before);
    let new = place(log, "/a");
    change(&nodes, 0, GroupCommand::Replace { name: "default".to_owned(), old: new.clone(), new });
    for (node, id) in [(0, one), (1, two)] {
        let old = shard_of(&nodes, id).settled;
        settle(&nodes, node, |settled| settled != old);
    }
    wait("it is well", || {
        let status = nodes.nodes[0].status();
        status.nodes.iter().all(|node| node.trouble.is_empty()).then_some(())
    });
    assert_ne!(shard_of(&nodes, one).settled, before);
}

#[test]
fn a_shard_is_recovered_when_its_owner_is_down_and_a_majority_answers() {
    let mut nodes = Nodes::formed(38, 4);
    nodes.add().start();
    nodes.serve();
    // Four that vote could not lose two.
    nodes.vote(5);
    let ids: Vec<NodeId> = nodes.nodes.iter().map(|node| node.id()).collect();
    let places = ids[..3].iter().map(|id| place(*id, "-")).collect();
    change(&nodes, 0, GroupCommand::Add(Group { name: "default".to_owned(), places }));
    settle(&nodes, 1, |_| true);
    let shard: ShardId = shard_of(&nodes, ids[1]).id;
    let recover = || GroupCommand::Recover(Recover { shard, to: ids[4] });
    let refused = |why: &str| {
        let said = nodes.nodes[0].submit(Command::Group(recover())).unwrap_err();
        assert!(said.contains(why), "{said}");
    };
    refused("may be alive");
    nodes.nodes[1].stop();
    // With one more machine of the group lost, one of three copies is left.
    nodes.nodes[2].stop();
    wait("they are silent", || (nodes.nodes[0].control().silent().len() == 2).then_some(()));
    let why = wait("the lease of the owner is over", || {
        nodes.nodes[0].submit(Command::Group(recover())).err().filter(|why| !why.contains("may be alive"))
    });
    assert!(
        why.contains("1 of 3 copies") && why.contains(&ids[1].to_string()) && why.contains(&ids[2].to_string()),
        "{why}"
    );
    nodes.nodes[2].start();
    wait("a majority answers", || {
        let recovered = nodes.nodes[0].submit(Command::Group(recover()));
        matches!(recovered, Ok(Response::Done { .. })).then_some(())
    });
    wait("the fifth owns the slots", || {
        let map = nodes.nodes[4].map();
        (map.slots_of(map.index_of(ids[4])?) > 0).then_some(())
    });
    // It asks for a term of its own.
    wait("it has a term", || {
        let of = shard_of(&nodes, ids[4]);
        (of.id == shard && of.incarnation == 1 && of.pending.is_some()).then_some(())
    });
    // It may be asked for again: it is so.
    let before = shard_of(&nodes, ids[4]);
    assert!(matches!(change(&nodes, 0, recover()), Response::Done { .. }));
    assert_eq!(shard_of(&nodes, ids[4]).term, before.term);
}
