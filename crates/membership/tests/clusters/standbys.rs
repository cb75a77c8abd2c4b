//! Shards with standbys: the leader of the metadata decides by renewals, and a lease names the term of the shard.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::time::Duration;

use membership::control::{Control, Following, Parent, Standing};
use membership::handshake::Party;
use membership::meta::{
    Acceptor, ChangeCopies, Command, Group, GroupCommand, Lead, Place, Refusal, Response, Settle, Shard,
};
use membership::{NodeId, ShardId, Term, level};
use standby::{Change, NodeNumber, Part, Process};

use crate::harness::{Node, Nodes, PATIENCE, wait};

fn shard_of(nodes: &Nodes, id: NodeId) -> Shard {
    nodes.nodes[0].map().shards_of(id).next().unwrap().clone()
}

fn process(nodes: &Nodes, node: usize) -> Process {
    let (map, id) = (nodes.nodes[0].map(), nodes.nodes[node].id());
    let known = map.member(id).unwrap();
    Process { node: NodeNumber(known.number), life: known.incarnation }
}

fn change(nodes: &Nodes, shard: &Shard, change: Change) {
    nodes.nodes[0].done(&Command::Copies(ChangeCopies { shard: shard.id, change }));
}

/// What a node hears of a change that it proposes.
fn proposed(propose: impl FnOnce(Box<dyn FnOnce(Result<(), String>) + Send>)) -> Result<(), String> {
    let (sender, receiver) = channel();
    propose(Box::new(move |done| drop(sender.send(done))));
    receiver.recv_timeout(PATIENCE).unwrap()
}

/// A copy of the log on three nodes: the owner takes terms until it is settled.
fn settle(nodes: &Nodes, owner: usize) {
    let id = nodes.nodes[owner].id();
    wait("the acceptors are settled", || {
        let Shard { id: shard, term: known, incarnation, pending, settled, .. } = shard_of(nodes, id);
        let Some(pending) = pending else { return (settled.len() == 3).then_some(()) };
        let acceptors = pending.iter().map(|acceptor: &Acceptor| acceptor.id).collect();
        let lead = Command::Lead(Lead { shard, known, id, incarnation, of_log: 0 });
        nodes.nodes[owner].submit(lead).unwrap();
        let term = wait("there is another term", || Some(shard_of(nodes, id).term).filter(|term| *term > known));
        // A folder may have reported itself meanwhile: then the set is another one.
        let settle = Settle { shard, id, incarnation, term, acceptors };
        nodes.nodes[owner].submit(Command::Group(GroupCommand::Settle(settle))).unwrap();
        None
    });
}

fn follows(priority: u32) -> Standing {
    let (log, covered) = (quorum::Cut(9), quorum::Cut(8));
    let following = Following { log, covered, behind_bytes: 10, behind_ms: 20, applied_bytes: 30, priority };
    Standing { following: Some(following), ..Standing::default() }
}

/// Three nodes with slots and a fourth one, which is a counted standby of the second one's shard, whose log has three
/// copies.
fn counted(test: u8, priority: u32) -> (Nodes, Shard) {
    counted_with(test, priority, None)
}

fn counted_with(test: u8, priority: u32, lease: Option<Duration>) -> (Nodes, Shard) {
    let mut nodes = Nodes::prepared(test, 3);
    nodes.add();
    nodes.nodes.iter_mut().for_each(|node| node.settings.lease = lease.unwrap_or(node.settings.lease));
    nodes.nodes[..3].iter_mut().for_each(Node::start);
    nodes.serve();
    nodes.nodes[3].start();
    nodes.serve();
    wait("the level", || (nodes.nodes[0].map().level() >= level::STANDBYS).then_some(()));
    nodes.vote(4);
    let places = [0, 1, 3].map(|node| Place { member: nodes.nodes[node].id(), dir: "-".to_owned() });
    let group = Group { name: "default".to_owned(), places: places.to_vec() };
    nodes.nodes[0].done(&Command::Group(GroupCommand::Add(group)));
    settle(&nodes, 1);
    let shard = shard_of(&nodes, nodes.nodes[1].id());
    let (by, standby) = (process(&nodes, 1), process(&nodes, 3));
    *nodes.nodes[3].standing.lock().unwrap() = follows(priority);
    assert_eq!(nodes.nodes[1].control().leased(), None, "without standbys a lease is a node's");
    assert_eq!(proposed(|then| nodes.nodes[3].control().pin(shard.id, then)), Ok(()));
    let count = Change::Count { term: shard.term, by, standby, covered: quorum::Cut(5), floor: quorum::Cut(5) };
    change(&nodes, &shard, count);
    wait("leases are of terms", || {
        let (term, until) = nodes.nodes[1].control().leased()?;
        (term == shard.term && until > crate::harness::now()).then_some(())
    });
    (nodes, shard)
}

#[test]
fn a_silent_owner_is_taken_over_by_its_standby_s6() {
    let (mut nodes, shard) = counted(50, 100);
    let standby = nodes.nodes[3].id();
    let known = wait("the leader tells how far it is", || {
        let status = nodes.nodes[0].status();
        status.nodes.iter().find(|node| node.id == standby)?.standing
    });
    assert_eq!(known, follows(100));
    // The owner hears it with its lease, for the floor of its log.
    let heard = wait("the owner hears of it", || nodes.nodes[1].control().standbys().first().copied());
    assert_eq!((heard.process, Some(heard.following)), (process(&nodes, 3), follows(100).following));
    assert!(heard.at <= crate::harness::now() && nodes.nodes[3].control().standbys().is_empty());
    let part = |node: usize| nodes.nodes[node].control().part(true).map(|(of, part)| (of.id, part));
    assert_eq!((part(1), part(3)), (Some((shard.id, Part::Owns)), Some((shard.id, Part::Follows))));
    assert_eq!(nodes.nodes[3].control().leased(), None, "a standby's lease is a node's");
    let before = process(&nodes, 1);
    nodes.nodes[1].stop();
    let (term, until) = wait("it has a lease of its own term", || nodes.nodes[3].control().leased());
    let map = nodes.nodes[3].map();
    let of = map.shards().iter().find(|of| of.id == shard.id).unwrap();
    assert!((of.owner, of.term) == (standby, term) && term > shard.term && until > Default::default());
    assert!(map.slots_of(map.index_of(standby).unwrap()) > 0);
    let former = map.data_copies(of).unwrap().standby(before.node).copied();
    assert!(former.is_some_and(|former| former.is_pinned && !former.is_electable && former.life == before.life));
    // It comes back as a node without slots, and asks for no term.
    nodes.nodes[1].start();
    nodes.serve();
    assert_eq!((nodes.nodes[1].slots(&nodes.nodes[1].map()), nodes.nodes[1].control().leased()), (0, None));
    let part = |has_store| nodes.nodes[1].control().part(has_store).map(|(of, part)| (of.id, part));
    assert_eq!((part(true), part(false)), (Some((shard.id, Part::Follows)), Some((shard.id, Part::Pins))));
    let again = proposed(|then| nodes.nodes[1].control().pin(ShardId(99), then));
    assert!(again.is_err_and(|why| why.contains("no shard 99")));
    wait("its files know it", || {
        let (of, known) = Control::known_part(&nodes.nodes[1].settings.folder)?;
        (of.id == shard.id && of.owner == standby && known.is_pinned && !known.is_electable).then_some(())
    });
    assert!(Control::known_part(&nodes.nodes[0].settings.folder).is_none());
    let term_of = |nodes: &Nodes| shard_of(nodes, standby).term;
    assert_eq!(term_of(&nodes), term);
}

fn parent(secret: &[u8]) -> Parent {
    let random = Arc::new(|bytes: &mut [u8]| File::open("/dev/urandom").unwrap().read_exact(bytes).unwrap());
    Parent { secret: Arc::from(secret), tls: None, random }
}

/// The parent of the owner's process tells what it knows, to members in any order. The lease of the owner would last a
/// minute.
#[test]
fn an_owner_whose_parent_has_waited_for_it_is_taken_over_at_once_s12() {
    let (mut nodes, shard) = counted_with(52, 100, Some(Duration::from_secs(60)));
    let standby = nodes.nodes[3].id();
    let (cluster, node) = (nodes.nodes[1].control().cluster(), nodes.nodes[1].id());
    let ended = Party { cluster, node, incarnation: process(&nodes, 1).life };
    // One of those who are told is the process itself, and is gone.
    let members: Vec<_> =
        [1, 3, 2, 0].map(|n| nodes.nodes[n].control().bus()).map(|at| (at.ip().to_string(), at.port())).into();
    // The owner leads the metadata in one of four cases: then the parent waits for the next leader.
    nodes.nodes[1].stop();
    let never = AtomicBool::new(false);
    assert!(parent(b"other").tell_end(ended, &members, &AtomicBool::new(true)).is_err());
    parent(b"secret").tell_end(ended, &members, &never).unwrap();
    wait("the standby owns the shard", || {
        let map = nodes.nodes[3].map();
        map.shards().iter().find(|of| of.id == shard.id).filter(|of| of.owner == standby).map(drop)
    });
    let of = nodes.nodes[3].map().shards().iter().find(|of| of.id == shard.id).unwrap().clone();
    assert!(of.rests_ms >= standby::Settings::default().rests_ms(), "reads of its last moment may count");
}

/// A standby that never takes over leaves the owner's next life the next term. That one rests, as reads of the life
/// before may count (rule S7).
#[test]
fn an_owner_that_starts_again_has_the_next_term_if_no_standby_does_s12() {
    let (mut nodes, shard) = counted(51, 0);
    let id = nodes.nodes[1].id();
    let forged = Change::TakeOver { known: shard.term, to: process(&nodes, 3), rests_ms: 0 };
    let forged = nodes.nodes[0].submit(Command::Copies(ChangeCopies { shard: shard.id, change: forged }));
    assert!(
        forged.is_err_and(|why| why.contains("may be alive")),
        "nobody else takes the shard of a node with a lease"
    );
    nodes.nodes[1].stop();
    nodes.nodes[1].start();
    let of = wait("it has a term", || Some(shard_of(&nodes, id)).filter(|of| of.incarnation == 2));
    assert!(of.term > shard.term && of.rests_ms == standby::Settings::default().rests_ms());
    let standby = process(&nodes, 3).node;
    assert!(nodes.nodes[0].map().data_copies(&of).unwrap().is_electable(standby), "a count outlives terms");
    wait("it has a lease for that", || nodes.nodes[1].control().leased().filter(|(term, _)| *term >= of.term));
    // The former life's word counts no more.
    let by = Process { life: 1, ..process(&nodes, 1) };
    let give_up = Change::GiveUp { term: shard.term, by, standby: process(&nodes, 3) };
    let late = nodes.nodes[0].submit(Command::Copies(ChangeCopies { shard: shard.id, change: give_up }));
    assert!(matches!(late, Ok(Response::Refused(Refusal::OtherTerm { .. }))), "{late:?}");
    assert!(of.term > Term::ZERO);
}
