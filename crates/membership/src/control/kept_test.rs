use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use openraft::EntryPayload;
use proptest::prelude::*;

use super::*;
use crate::control::levels;
use crate::control::types::{
    AppendRequest, AppendResponse, CommittedLeaderId, Members, SnapshotMeta, StoredMembers, VoteRequest, VoteResponse,
};
use crate::level;
use crate::meta::{ChangeId, Command, Describe, State, of_version_3};

fn id(n: u8) -> NodeId {
    NodeId([n; 20])
}

fn log_id(term: u64, index: u64) -> LogId {
    LogId::new(CommittedLeaderId::new(term), index)
}

fn node_of(n: u8) -> Describe {
    Describe { id: id(n), incarnation: 1, host: "h".to_owned(), port: 1, bus_port: 2, client_port: 3 }
}

fn members(node: fn(u8) -> Describe) -> Members {
    let nodes = BTreeMap::from([(id(1), node(1)), (id(2), node(2))]);
    Members::new(vec![BTreeSet::from([id(1)])], nodes).unwrap()
}

fn snapshot(node: fn(u8) -> Describe) -> Snapshot {
    let last_membership = StoredMembers::new(None, members(node));
    Snapshot {
        meta: SnapshotMeta { last_log_id: Some(log_id(2, 4)), last_membership },
        snapshot: State::new().snapshot(),
    }
}

fn load(libraries: &[u8]) -> EntryPayload<Command, NodeId, Describe> {
    EntryPayload::Normal(Command::Libraries { known: 3, change: [8; 16], payload: libraries.into() })
}

/// The file of libraries of [`kept`].
fn find(change: &ChangeId) -> Result<Arc<[u8]>, Malformed> {
    if *change == [8; 16] { Ok(Arc::from(*b"xyz")) } else { Err(Malformed("a file of libraries")) }
}

fn entries() -> Vec<Entry> {
    let entry = |index, payload| Entry { log_id: log_id(3, index), payload };
    vec![
        entry(5, EntryPayload::Blank),
        entry(6, EntryPayload::Normal(Command::Leave { id: id(9) })),
        entry(7, EntryPayload::Membership(members(node_of))),
        entry(8, load(b"xyz")),
    ]
}

fn kept() -> Kept {
    Kept {
        node: id(1),
        incarnation: 2,
        cluster: Some(ClusterId([7; 20])),
        inherited: true,
        data: Some([5; 16]),
        vote: Some(Vote::new_committed(3, id(1))),
        committed: Some(log_id(3, 6)),
        purged: Some(log_id(2, 4)),
        snapshot: Some(snapshot(node_of)),
        entries: entries().into_iter().map(|entry| (entry.log_id.index, entry)).collect(),
    }
}

/// The file as version 3 or 4 had it, without entries.
fn earlier(kept: &Kept, version: u8, ports: bool) -> Vec<u8> {
    let mut out = Kept { snapshot: None, entries: BTreeMap::new(), ..kept.clone() }.encode();
    // No snapshot, no entries.
    out.truncate(out.len() - (1 + 4));
    out[12] = version;
    let Snapshot { meta, snapshot } = kept.snapshot.as_ref().unwrap();
    let mut snapshot_of_then = Vec::new();
    meta.last_log_id.put(&mut snapshot_of_then);
    meta.last_membership.put(&mut snapshot_of_then);
    if !ports {
        for n in [1, 2] {
            let place = [&[n; 20][..], b"\x01\0\0\0\0\0\0\0\x01\0\0\0h\x01\0\x02\0"].concat();
            let at = snapshot_of_then.windows(place.len()).position(|window| window == place).unwrap() + place.len();
            snapshot_of_then.drain(at..at + 2);
        }
    }
    crate::codec::put_bytes(&mut snapshot_of_then, &of_version_3(&State::restore(snapshot).unwrap()));
    out.push(1);
    out.extend_from_slice(&snapshot_of_then);
    put_count(&mut out, 0);
    out
}

#[test]
fn golden_bytes() {
    let kept = Kept { snapshot: None, cluster: None, ..kept() };
    let node = |n: u8| [&[n; 20][..], b"\x01\0\0\0\0\0\0\0\x01\0\0\0h\x01\0\x02\0\x03\0"].concat();
    let golden = [
        &b"\x05\0\0\0"[..],
        &[1; 20],
        b"\x02\0\0\0\0\0\0\0",
        &[0; 21],
        b"\x01",
        b"\x01",
        &[5; 16],
        b"\x01\x03\0\0\0\0\0\0\0",
        &[1; 20],
        b"\x01",
        b"\x01\x03\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0",
        b"\x01\x02\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0",
        b"\0",
        b"\x04\0\0\0",
        b"\x03\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\0",
        b"\x03\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\x01\x04\x04",
        &[9; 20],
        b"\x03\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x03",
        b"\x01\0\0\0\x01\0\0\0",
        &[1; 20],
        b"\x02\0\0\0",
        &node(1),
        &node(2),
        b"\x03\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\x04\x03\0\0\0\0\0\0\0",
        &[8; 16],
    ];
    let bytes = kept.encode();
    assert_eq!(&bytes[..8], b"HOLDMETA");
    assert_eq!(bytes[12..], golden.concat());
    let sealed = |mut bytes: Vec<u8>| {
        let sum = crc(&[&bytes[12..]]);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        Kept::decode(&bytes, &mut find).unwrap().encode()
    };
    // All of them had commands of version 1.
    let mut older = bytes.clone();
    let command = older.windows(2).position(|two| two == [4, 4]).unwrap();
    older[command] = 1;
    assert_eq!(sealed(older), bytes);
    // Version 4 had libraries among the other bytes. In version 3 members had no port for smart clients either, neither
    // in entries nor in snapshots.
    let port_free: fn(u8) -> Describe = |n| Describe { client_port: 0, ..node_of(n) };
    for (version, of, ports) in [(4, node_of as fn(u8) -> Describe, true), (3, port_free, false)] {
        let now = Kept { snapshot: Some(snapshot(of)), entries: BTreeMap::new(), ..self::kept() };
        assert_eq!(sealed(earlier(&now, version, ports)), now.encode(), "version {version}");
    }
    let mut inline = b"\x03\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\x01".to_vec();
    let EntryPayload::Normal(command) = load(b"xyz") else { panic!("a command") };
    command.put(&mut inline);
    let mut whole = [&bytes[..bytes.len() - 41], &inline].concat();
    assert_eq!(sealed(whole.clone()), bytes, "libraries within an entry");
    whole.pop();
    let sum = crc(&[&whole[12..]]);
    whole[8..12].copy_from_slice(&sum.to_le_bytes());
    assert!(Kept::decode(&whole, &mut find).is_err());
    let entry = [b"\x03\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x02\0\0\0\0\x01\0\0\0", &node(1)[..37]].concat();
    let EntryPayload::Membership(members) = Entry::whole(&entry).unwrap().payload else { panic!("members") };
    assert_eq!(members.get_node(&id(1)), Some(&port_free(1)));
    // Version 2 did not name the data, and version 1 did not name their node either.
    let second = [b"HOLDMETA\0\0\0\0\x02\0\0\0", &bytes[16..66], &bytes[83..]].concat();
    assert_eq!(sealed(second), Kept { data: None, ..kept.clone() }.encode());
    let first = [b"HOLDMETA\0\0\0\0\x01\0\0\0", &bytes[16..65], &bytes[83..]].concat();
    assert_eq!(sealed(first), Kept { data: None, inherited: false, ..kept }.encode());
}

#[test]
fn what_is_kept_is_read_back() {
    for kept in [kept(), Kept::default()] {
        let bytes = kept.encode();
        let read = Kept::decode(&bytes, &mut find).unwrap();
        assert_eq!(read.shelf(), kept.shelf());
        assert_eq!(read.encode(), bytes);
        assert_eq!(
            (read.node, read.incarnation, read.cluster, read.inherited, read.vote),
            (kept.node, kept.incarnation, kept.cluster, kept.inherited, kept.vote)
        );
        assert_eq!((read.data, read.committed, read.purged), (kept.data, kept.committed, kept.purged));
        assert_eq!(read.snapshot.map(|s| (s.meta, s.snapshot)), kept.snapshot.map(|s| (s.meta, s.snapshot)));
        assert_eq!(read.entries.len(), kept.entries.len());
    }
    let mut hole = kept();
    hole.entries.remove(&6);
    assert!(Kept::decode(&hole.encode(), &mut find).is_err(), "a log with a hole is none");
    let mut nothing = |_: &ChangeId| Err(Malformed("a file of libraries"));
    assert!(Kept::decode(&kept().encode(), &mut nothing).is_err(), "a log whose libraries are gone");
}

proptest! {
    #[test]
    fn one_changed_byte_is_noticed(at: prop::sample::Index, by in 1u8..) {
        let mut bytes = kept().encode();
        let at = at.index(bytes.len());
        bytes[at] ^= by;
        prop_assert!(Kept::decode(&bytes, &mut find).is_err());
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(prop_oneof![Just(0u8), 0u8..4, any::<u8>()], 0..150)) {
        let mut file = kept().encode();
        file.truncate(16);
        file.extend_from_slice(&bytes);
        let sum = crc(&[&file[12..]]);
        file[8..12].copy_from_slice(&sum.to_le_bytes());
        let _ = Kept::decode(&file, &mut find);
        let _ = AppendRequest::whole(&bytes);
        let _ = VoteRequest::whole(&bytes);
        let _ = Snapshot::whole(&bytes);
        let _ = VoteResponse::whole(&bytes).map(|answer| assert_eq!(answer.to_bytes(), bytes));
        let _ = AppendResponse::whole(&bytes).map(|answer| assert_eq!(answer.to_bytes(), bytes));
    }
}

#[test]
fn messages_are_read_back() {
    let append = AppendRequest {
        vote: Vote::new(4, id(2)),
        prev_log_id: Some(log_id(2, 4)),
        entries: entries(),
        leader_commit: None,
    };
    assert_eq!(AppendRequest::whole(&append.to_bytes()).unwrap().to_bytes(), append.to_bytes());
    for answer in [
        AppendResponse::Success,
        AppendResponse::PartialSuccess(Some(log_id(1, 2))),
        AppendResponse::Conflict,
        AppendResponse::HigherVote(Vote::new(9, id(3))),
    ] {
        assert_eq!(AppendResponse::whole(&answer.to_bytes()), Ok(answer));
    }
    let vote = VoteRequest::new(Vote::new(4, id(2)), Some(log_id(2, 4)));
    assert_eq!(VoteRequest::whole(&vote.to_bytes()), Ok(vote));
}

#[test]
fn a_level_counts_when_it_is_committed() {
    let form =
        |level| Command::Form { cluster: ClusterId([7; 20]), nodes: vec![node_of(1)], settings: Vec::new(), level };
    let entry = Entry { log_id: log_id(3, 5), payload: EntryPayload::Normal(form(level::HIGHEST)) };
    let kept = |committed| Kept {
        committed: Some(log_id(3, committed)),
        entries: BTreeMap::from([(5, entry.clone())]),
        ..kept()
    };
    assert_eq!([4, 5].map(|committed| levels::known(&kept(committed))), [level::FIRST, level::HIGHEST]);
}
