use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::sync::Mutex;

use openraft::EntryPayload;

use super::*;
use crate::ClusterId;
use crate::control::types::{CommittedLeaderId, Entry, LogId, Snapshot, SnapshotMeta, StoredMembers, Wire};
use crate::meta::{Command, Describe, State};

#[test]
fn a_folder_counts_its_starts_and_is_locked() {
    let path = std::env::temp_dir().join(format!("holdfast-kept-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let mut random = |bytes: &mut [u8]| bytes.fill(4);
    let (folder, first) = Folder::open(&path, None, true, &mut random).unwrap();
    assert_eq!((first.node, first.incarnation, first.cluster), (NodeId([4; 20]), 1, None));
    let why = Folder::open(&path, None, true, &mut random).err().unwrap().to_string();
    assert!(why.ends_with("another server uses this folder"), "{why}");
    drop(folder);
    let (folder, second) = Folder::open(&path, None, true, &mut |_| panic!("it has a name")).unwrap();
    assert_eq!((second.node, second.incarnation), (NodeId([4; 20]), 2));
    // A start that was interrupted while it wrote has left this file.
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
    let (mut folder, mut kept) = open(Some([2; 16])).unwrap();
    assert_eq!(kept.data, Some([2; 16]), "who belongs to none has promised nothing");
    kept.cluster = Some(ClusterId([7; 20]));
    folder.write(&kept.encode(), &kept.shelf()).unwrap();
    drop(folder);
    assert_eq!(open(Some([2; 16])).unwrap().1.incarnation, 3);
    let why = open(Some([3; 16])).err().unwrap().to_string();
    assert!(why.contains("is gone"), "{why}");
    assert_eq!(open(None).unwrap().1.data, Some([2; 16]), "a life in memory changes nothing on the disks");
    assert!(open(Some([3; 16])).is_err());
    assert_eq!(open(Some([2; 16])).unwrap().1.incarnation, 5, "what is refused does not count");
    std::fs::remove_dir_all(&path).unwrap();
}

/// The changes of names that were not made durable, as far as the next life finds them.
#[derive(Clone, Copy, Debug)]
enum End {
    /// It finds all: the process has ended.
    Killed,
    /// It finds none: the power has failed.
    Lost,
    /// It finds the last one alone: the power has failed, and the system had written that one first.
    LastAlone,
}

const ENDS: [End; 3] = [End::Killed, End::Lost, End::LastAlone];

/// Files in memory. A life ends when `left` is 0, before the next step.
#[derive(Clone, Default)]
struct Simulated(Arc<Mutex<Memory>>);

#[derive(Clone, Default)]
struct Memory {
    left: usize,
    /// The files that a process sees.
    now: BTreeMap<String, Vec<u8>>,
    /// The files that were made durable.
    durable: BTreeMap<String, Vec<u8>>,
    /// The last name that was changed since then, and its file.
    last: Option<(String, Vec<u8>)>,
    steps: Vec<String>,
}

impl Simulated {
    fn step(&self, what: String, step: impl FnOnce(&mut Memory)) -> io::Result<()> {
        let mut memory = self.0.lock().unwrap();
        memory.left = memory.left.checked_sub(1).ok_or(io::Error::other("this life has ended"))?;
        memory.steps.push(what);
        step(&mut memory);
        Ok(())
    }

    /// The next life, which ends after so many steps.
    fn next_life(&self, end: End, left: usize) -> Self {
        let memory = self.0.lock().unwrap().clone();
        let now = match end {
            End::Killed => memory.now,
            End::Lost => memory.durable,
            End::LastAlone => memory.durable.into_iter().chain(memory.last).collect(),
        };
        Self(Arc::new(Mutex::new(Memory { left, durable: now.clone(), now, ..Memory::default() })))
    }

    fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().now.keys().cloned().collect()
    }

    fn open(&self) -> Result<(Folder, Kept), KeptError> {
        Folder::begin(Box::new(self.clone()), Path::new("cluster"), None, false, &mut |bytes| bytes.fill(4))
    }
}

impl Files for Simulated {
    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.0.lock().unwrap().now.get(name).cloned().ok_or(io::ErrorKind::NotFound.into())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.names())
    }

    fn write(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        // A file that is half written is never read.
        let half = bytes[..bytes.len() / 2].to_vec();
        self.step(format!("begin {name}"), |memory| drop(memory.now.insert(name.to_owned(), half)))?;
        self.step(format!("write {name}"), |memory| drop(memory.now.insert(name.to_owned(), bytes.to_vec())))
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.step(format!("rename {to}"), |memory| {
            let bytes = memory.now.remove(from).unwrap();
            memory.last = Some((to.to_owned(), bytes.clone()));
            memory.now.insert(to.to_owned(), bytes);
        })
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.step(format!("remove {name}"), |memory| {
            memory.now.remove(name);
            // The file may be gone at once, though the folder was not synced.
            memory.durable.remove(name);
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        self.step("sync".to_owned(), |memory| (memory.durable, memory.last) = (memory.now.clone(), None))
    }

    fn reserve(&mut self, _: usize) {}

    fn release(&mut self) -> bool {
        false
    }
}

fn entry(index: u64, command: Command) -> (u64, Entry) {
    (index, Entry { log_id: LogId::new(CommittedLeaderId::new(1), index), payload: EntryPayload::Normal(command) })
}

fn load(known: u64, change: u8) -> Command {
    Command::Libraries { known, change: [change; 16], payload: vec![change; 3000].into() }
}

/// The states that a node keeps, one change after the other: libraries come, go into a snapshot, and are replaced.
fn lives() -> Vec<Kept> {
    let mut kept = Kept { node: NodeId([4; 20]), incarnation: 1, ..Kept::default() };
    let mut state = State::new();
    let node = Describe { id: kept.node, host: "h".to_owned(), ..Describe::default() };
    state.apply(&Command::Form { cluster: ClusterId([7; 20]), nodes: vec![node], settings: Vec::new(), level: 0 });
    let mut all = vec![kept.clone()];
    for change in 1..4u8 {
        let command = load(u64::from(change) - 1, change);
        state.apply(&command);
        kept.entries.extend([entry(u64::from(change) * 2, command)]);
        all.push(kept.clone());
        kept.entries.extend([entry(u64::from(change) * 2 + 1, Command::Leave { id: NodeId([9; 20]) })]);
        all.push(kept.clone());
        if change == 2 {
            let meta = SnapshotMeta { last_log_id: None, last_membership: StoredMembers::default() };
            kept.snapshot = Some(Snapshot { meta, snapshot: state.snapshot() });
            all.push(kept.clone());
            kept.entries.clear();
            all.push(kept.clone());
        }
    }
    kept.entries.clear();
    all.push(kept);
    all
}

/// However a life ends, the next one has all acknowledged changes, and the last one as a whole or not at all.
#[test]
fn no_end_of_a_life_loses_anything() {
    let all = lives();
    let same = |a: &Kept, b: &Kept| (a.encode(), a.shelf()) == (b.encode(), b.shelf());
    for end in ENDS {
        for steps in 0.. {
            let files = Simulated::default().next_life(End::Killed, steps);
            let mut folder = files.open().ok().map(|(folder, _)| folder);
            let mut acknowledged = None;
            let mut asked = None;
            for kept in &all {
                let Some(folder) = &mut folder else { break };
                asked = Some(kept);
                if folder.write(&kept.encode(), &kept.shelf()).is_err() {
                    break;
                }
                acknowledged = Some(kept);
            }
            let is_done = acknowledged.is_some_and(|kept| same(kept, all.last().unwrap()));
            let next = files.next_life(end, usize::MAX);
            let found = read_all(&next).unwrap().map(|(kept, _)| kept);
            let is_one = |of: Option<&Kept>| found.as_ref().zip(of).is_some_and(|(found, of)| same(found, of));
            // Before the first change it has the file that the start has written, or none.
            let is_fresh = found.as_ref().is_none_or(|kept| kept.entries.is_empty() && kept.snapshot.is_none());
            assert!(
                is_one(acknowledged) || is_one(asked) || acknowledged.is_none() && is_fresh,
                "{end:?}: {:?}",
                files.0.lock().unwrap().steps
            );
            let (_folder, kept) = next.open().unwrap();
            let wanted = kept.shelf().keys().map(shelf::file_of).chain([FILE.to_owned()]).collect::<BTreeSet<_>>();
            assert_eq!(next.names().into_iter().collect::<BTreeSet<_>>(), wanted, "nothing else is left");
            if is_done {
                break;
            }
        }
    }
}

/// A start with the file of an earlier version, with libraries in it, may end at any step.
#[test]
fn no_end_of_the_first_start_of_a_new_version_loses_anything() {
    let kept = &lives()[7];
    assert!(kept.snapshot.is_some() && kept.entries.values().any(|entry| shelf::of_entry(entry).is_some()));
    let mut then = Kept { snapshot: None, entries: BTreeMap::new(), ..kept.clone() }.encode();
    then.truncate(then.len() - (1 + 4));
    then[12] = 4;
    let Snapshot { meta, snapshot } = kept.snapshot.as_ref().unwrap();
    then.push(1);
    meta.last_log_id.put(&mut then);
    meta.last_membership.put(&mut then);
    crate::codec::put_bytes(&mut then, &crate::meta::of_version_3(&State::restore(snapshot).unwrap()));
    crate::codec::put_count(&mut then, kept.entries.len());
    kept.entries.values().for_each(|entry| entry.put(&mut then));
    let sum = crate::codec::crc(&[&then[12..]]);
    then[8..12].copy_from_slice(&sum.to_le_bytes());
    let length = then.len();
    for end in ENDS {
        for steps in 0.. {
            let files = Simulated::default();
            files.0.lock().unwrap().now.insert(FILE.to_owned(), then.clone());
            let files = files.next_life(End::Killed, steps);
            let is_done = files.open().is_ok();
            let next = files.next_life(end, usize::MAX);
            let (_folder, found) = next.open().unwrap();
            assert_eq!(found.shelf(), kept.shelf());
            let as_it_was = Kept { incarnation: kept.incarnation, inherited: false, ..found };
            assert_eq!(as_it_was.encode(), kept.encode());
            assert!(next.read(FILE).unwrap().len() + 3000 < length, "the libraries are apart");
            if is_done {
                break;
            }
        }
    }
}

#[test]
fn damaged_libraries_stop_the_start() {
    let files = Simulated::default().next_life(End::Killed, usize::MAX);
    let (mut folder, _) = files.open().unwrap();
    let kept = &lives()[1];
    folder.write(&kept.encode(), &kept.shelf()).unwrap();
    let name = shelf::file_of(&[1; 16]);
    let bytes = files.read(&name).unwrap();
    assert_eq!(shelf::decode(&[1; 16], &bytes).unwrap()[..], [1; 3000]);
    let golden = [&b"\x01\0\0\0"[..], &[1; 16], b"\xb8\x0b\0\0", &[1; 3000]].concat();
    assert_eq!((&bytes[..8], &bytes[12..]), (&b"HOLDLIBS"[..], &golden[..]));
    let with = |bytes: Option<Vec<u8>>| {
        let files = files.next_life(End::Killed, usize::MAX);
        let now = &mut files.0.lock().unwrap().now;
        match bytes {
            Some(bytes) => now.insert(name.clone(), bytes),
            None => now.remove(&name),
        };
        Simulated(Arc::clone(&files.0))
    };
    for at in [0, 9, 12, 20, 40] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        let why = with(Some(damaged)).open().err().unwrap().to_string();
        assert!(why.contains(&name) && why.contains("Nothing was changed"), "{why}");
    }
    let other = shelf::encode(&[2; 16], &[1; 3000]);
    for bytes in [None, Some(other), Some(Vec::new())] {
        let why = with(bytes).open().err().unwrap().to_string();
        assert!(why.contains(&name), "{why}");
    }
    assert!(with(Some(bytes.clone())).open().is_ok());
}

/// A change of anything but libraries writes one small file.
#[test]
fn libraries_are_written_once() {
    let files = Simulated::default().next_life(End::Killed, usize::MAX);
    let (mut folder, _) = files.open().unwrap();
    let mut kept = lives()[1].clone();
    folder.write(&kept.encode(), &kept.shelf()).unwrap();
    files.0.lock().unwrap().steps.clear();
    let first = crate::meta::Setting { name: "a".to_owned(), value: b"1".to_vec() };
    kept.entries.extend([entry(3, Command::Configure { first: true, settings: vec![first] })]);
    folder.write(&kept.encode(), &kept.shelf()).unwrap();
    let steps = files.0.lock().unwrap().steps.clone();
    assert_eq!(steps, ["begin state.new", "write state.new", "rename state", "sync"]);
    assert!(files.read(FILE).unwrap().len() < 500);
}

#[test]
fn only_the_server_reads_the_files() {
    let path = std::env::temp_dir().join(format!("holdfast-kept-mode-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    // A file of an earlier version, left by a start that was interrupted.
    fs::write(path.join("state.new"), b"half").unwrap();
    let (mut folder, _) = Folder::open(&path, None, false, &mut |bytes| bytes.fill(4)).unwrap();
    let kept = &lives()[1];
    folder.write(&kept.encode(), &kept.shelf()).unwrap();
    for name in [FILE.to_owned(), shelf::file_of(&[1; 16])] {
        let mode = fs::metadata(path.join(&name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    fs::remove_dir_all(&path).unwrap();
}
