use std::collections::{BTreeMap, BTreeSet};

use openraft::EntryPayload;
use proptest::prelude::*;

use super::*;
use crate::control::types::{
    AppendRequest, AppendResponse, CommittedLeaderId, Members, SnapshotMeta, StoredMembers, VoteRequest, VoteResponse,
};
use crate::meta::{Command, Describe, State};

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

fn entries() -> Vec<Entry> {
    let entry = |index, payload| Entry { log_id: log_id(3, index), payload };
    vec![
        entry(5, EntryPayload::Blank),
        entry(6, EntryPayload::Normal(Command::Leave { id: id(9) })),
        entry(7, EntryPayload::Membership(members(node_of))),
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

#[test]
fn golden_bytes() {
    let kept = Kept { snapshot: None, cluster: None, ..kept() };
    let node = |n: u8| [&[n; 20][..], b"\x01\0\0\0\0\0\0\0\x01\0\0\0h\x01\0\x02\0\x03\0"].concat();
    let golden = [
        &b"\x04\0\0\0"[..],
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
        b"\x03\0\0\0",
        b"\x03\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\0",
        b"\x03\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\x01\x03\x04",
        &[9; 20],
        b"\x03\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x03",
        b"\x01\0\0\0\x01\0\0\0",
        &[1; 20],
        b"\x02\0\0\0",
        &node(1),
        &node(2),
    ];
    let bytes = kept.encode();
    assert_eq!(&bytes[..8], b"HOLDMETA");
    assert_eq!(bytes[12..], golden.concat());
    let sealed = |mut bytes: Vec<u8>| {
        let sum = crc(&[&bytes[12..]]);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        Kept::decode(&bytes).unwrap().encode()
    };
    // Commands were of version 1 in all of them.
    let mut older = bytes.clone();
    let command = older.windows(2).position(|two| two == [3, 4]).unwrap();
    older[command] = 1;
    assert_eq!(sealed(older), bytes);
    // In version 3 members had no port for smart clients, neither in entries nor in snapshots.
    let port_free: fn(u8) -> Describe = |n| Describe { client_port: 0, ..node_of(n) };
    let before =
        |of: fn(u8) -> Describe| Kept { snapshot: Some(snapshot(of)), entries: BTreeMap::new(), ..self::kept() };
    let mut third = before(port_free).encode();
    for n in [1, 2] {
        let place = [&[n; 20][..], b"\x01\0\0\0\0\0\0\0\x01\0\0\0h\x01\0\x02\0"].concat();
        let at = third.windows(place.len()).position(|window| window == place).unwrap() + place.len();
        third.drain(at..at + 2);
    }
    third[12] = 3;
    assert_eq!(sealed(third), before(port_free).encode());
    let entry = [b"\x03\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x02\0\0\0\0\x01\0\0\0", &node(1)[..37]].concat();
    let EntryPayload::Membership(members) = Entry::whole(&entry).unwrap().payload else { panic!("members") };
    assert_eq!(members.get_node(&id(1)), Some(&port_free(1)));
    // Version 2 did not name the data, and version 1 did not say whose they are either.
    let second = [b"HOLDMETA\0\0\0\0\x02\0\0\0", &bytes[16..66], &bytes[83..]].concat();
    assert_eq!(sealed(second), Kept { data: None, ..kept.clone() }.encode());
    let first = [b"HOLDMETA\0\0\0\0\x01\0\0\0", &bytes[16..65], &bytes[83..]].concat();
    assert_eq!(sealed(first), Kept { data: None, inherited: false, ..kept }.encode());
}

#[test]
fn what_is_kept_is_read_back() {
    for kept in [kept(), Kept::default()] {
        let bytes = kept.encode();
        let read = Kept::decode(&bytes).unwrap();
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
    assert!(Kept::decode(&hole.encode()).is_err(), "a log with a hole is none");
}

#[test]
fn a_folder_counts_its_starts_and_is_locked() {
    let path = std::env::temp_dir().join(format!("holdfast-kept-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let mut random = |bytes: &mut [u8]| bytes.fill(4);
    let (folder, first) = Folder::open(&path, None, true, &mut random).unwrap();
    assert_eq!((first.node, first.incarnation, first.cluster), (id(4), 1, None));
    let why = Folder::open(&path, None, true, &mut random).err().unwrap().to_string();
    assert!(why.ends_with("another server uses this folder"), "{why}");
    drop(folder);
    let (folder, second) = Folder::open(&path, None, true, &mut |_| panic!("it has a name")).unwrap();
    assert_eq!((second.node, second.incarnation), (id(4), 2));
    // A start that was interrupted while it wrote has left this.
    std::fs::write(path.join("state.new"), b"half").unwrap();
    drop(folder);
    let (folder, third) = Folder::open(&path, None, true, &mut random).unwrap();
    assert_eq!(third.incarnation, 3);
    assert!(first.inherited && second.inherited && third.inherited, "nobody has settled it");
    drop(folder);
    let (folder, fourth) = Folder::open(&path, None, false, &mut random).unwrap();
    drop(folder);
    let (_folder, fifth) = Folder::open(&path, None, true, &mut random).unwrap();
    assert!(!fourth.inherited && !fifth.inherited, "what comes after nothing is its own");
    std::fs::remove_dir_all(&path).unwrap();
}

#[test]
fn a_node_of_a_cluster_does_not_go_on_without_its_data() {
    let path = std::env::temp_dir().join(format!("holdfast-kept-data-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let open = |data: Option<DataId>| Folder::open(&path, data, false, &mut |bytes| bytes.fill(4));
    assert_eq!(open(Some([1; 16])).unwrap().1.data, Some([1; 16]));
    let (folder, mut kept) = open(Some([2; 16])).unwrap();
    assert_eq!(kept.data, Some([2; 16]), "who belongs to none has promised nothing");
    kept.cluster = Some(ClusterId([7; 20]));
    folder.write(&kept.encode()).unwrap();
    drop(folder);
    assert_eq!(open(Some([2; 16])).unwrap().1.incarnation, 3);
    let why = open(Some([3; 16])).err().unwrap().to_string();
    assert!(why.contains("is gone"), "{why}");
    assert_eq!(open(None).unwrap().1.data, Some([2; 16]), "a life in memory changes nothing on the disks");
    assert!(open(Some([3; 16])).is_err());
    assert_eq!(open(Some([2; 16])).unwrap().1.incarnation, 5, "what is refused does not count");
    std::fs::remove_dir_all(&path).unwrap();
}

proptest! {
    #[test]
    fn one_changed_byte_is_noticed(at: prop::sample::Index, by in 1u8..) {
        let mut bytes = kept().encode();
        let at = at.index(bytes.len());
        bytes[at] ^= by;
        prop_assert!(Kept::decode(&bytes).is_err());
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(prop_oneof![Just(0u8), 0u8..4, any::<u8>()], 0..150)) {
        let mut file = kept().encode();
        file.truncate(16);
        file.extend_from_slice(&bytes);
        let sum = crc(&[&file[12..]]);
        file[8..12].copy_from_slice(&sum.to_le_bytes());
        let _ = Kept::decode(&file);
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
