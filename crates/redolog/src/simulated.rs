//! A disk in memory for simulations and tests. Writes go to a cache. A crash keeps an arbitrary choice of the unsynced
//! sectors. Of the renames, creations and removals since the folder's last sync it keeps a prefix, as a journal would.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{Direct, Disk, File, PAGE};

const SECTOR: usize = 512;

/// A source of chance: a seed, and its present state.
#[derive(Clone, Debug)]
pub struct Chance(pub u64);

impl Chance {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.bits() % n
    }
}

#[derive(Default)]
struct Data {
    /// The contents as a reader sees them.
    now: Vec<u8>,
    /// The durable contents.
    durable: Vec<u8>,
    /// Sectors that the next sync makes durable. The sectors of a failed sync are in none, as in Linux.
    dirty: BTreeSet<usize>,
    /// Writes are dropped: a planted bug.
    swallowed: bool,
}

type Contents = Arc<Mutex<Data>>;

/// A change of names.
enum Change {
    Create(String, Contents),
    Rename(String, String),
    Remove(String),
}

impl Change {
    fn apply(self, names: &mut BTreeMap<String, Contents>) {
        match self {
            Change::Create(name, contents) => drop(names.insert(name, contents)),
            Change::Remove(name) => drop(names.remove(&name)),
            Change::Rename(from, to) => {
                if let Some(contents) = names.remove(&from) {
                    names.insert(to, contents);
                }
            }
        }
    }
}

/// The state of a sync that fails, and takes its time.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Slow {
    #[default]
    None,
    Next,
    UnderWay,
}

#[derive(Default)]
struct Inside {
    /// Names as a reader sees them, and as they are durable; the changes since.
    now: BTreeMap<String, Contents>,
    durable: BTreeMap<String, Contents>,
    changes: Vec<Change>,
    /// True if a sync of a file does nothing: a planted bug.
    forgets_to_sync: bool,
    /// The power fails after so many writes, syncs and changes of names.
    power: Option<u64>,
    /// It has failed.
    dead: bool,
    /// How many of them there were.
    steps: u64,
    /// After so many syncs of files one fails.
    bad_sync: Option<u64>,
    /// The next sync of a file fails, and takes its time.
    slow: Slow,
    /// The error of a failed sync.
    bad_sync_says: Option<io::ErrorKind>,
    /// A failed sync is repeated, and seems to succeed: a planted bug.
    retries_syncs: bool,
    /// Bytes by which files can still grow.
    room: Option<u64>,
    /// Files cannot be opened nor made, because the process has too many open.
    out_of_descriptors: bool,
    /// Writes without room are dropped, and seem to be there: a planted bug.
    swallows: bool,
    /// Syncs wait while this is set.
    stalled: bool,
    /// Writes do.
    stalls_writes: bool,
}

impl Inside {
    /// A change is about to happen. True: the power fails during it.
    fn step(&mut self) -> io::Result<bool> {
        if self.dead {
            return Err(no_power());
        }
        self.steps += 1;
        if let Some(left) = &mut self.power {
            self.dead = *left == 0;
            *left = left.saturating_sub(1);
        }
        Ok(self.dead)
    }

    fn check_descriptors(&self) -> io::Result<()> {
        if self.out_of_descriptors { Err(io::Error::from_raw_os_error(libc::EMFILE)) } else { Ok(()) }
    }
}

fn no_power() -> io::Error {
    io::Error::other("no power")
}

fn and_then(fails: bool) -> io::Result<()> {
    if fails { Err(no_power()) } else { Ok(()) }
}

/// The disk; clones are the same one.
#[derive(Clone, Default)]
pub struct Simulated(Arc<Mutex<Inside>>);

impl Simulated {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The power fails: unsynced bytes are kept in part.
    pub fn crash(&self, chance: &mut Chance) {
        let mut inside = self.inside();
        let mut names = std::mem::take(&mut inside.durable);
        let changes = std::mem::take(&mut inside.changes);
        let kept = match chance.below(3) {
            0 => 0,
            1 => changes.len(),
            _ => chance.below(changes.len() as u64 + 1) as usize,
        };
        changes.into_iter().take(kept).for_each(|change| change.apply(&mut names));
        for contents in names.values() {
            let mut data = lock(contents);
            let Data { now, durable, dirty, .. } = &mut *data;
            durable.resize(now.len().max(durable.len()), 0);
            let keep = chance.below(4);
            for sector in std::mem::take(dirty) {
                let kept = match keep {
                    0 => false,
                    1 => true,
                    _ => chance.below(2) == 0,
                };
                if kept {
                    let place = sector * SECTOR..((sector + 1) * SECTOR).min(now.len());
                    durable[place.clone()].copy_from_slice(&now[place]);
                }
            }
            *now = durable.clone();
        }
        let (room, steps) = (inside.room, inside.steps);
        *inside = Inside { now: names.clone(), durable: names, room, steps, ..Inside::default() };
    }

    /// The process ends: written bytes stay written, and are no more durable than before.
    pub fn kill(&self) {
        let mut inside = self.inside();
        (inside.power, inside.bad_sync, inside.out_of_descriptors, inside.dead) = (None, None, false, false);
    }

    /// True if the power has failed.
    pub fn is_dead(&self) -> bool {
        self.inside().dead
    }

    /// How many writes, syncs and changes of names there have been.
    pub fn steps(&self) -> u64 {
        self.inside().steps
    }

    /// From here on files are not synced, though they say so.
    pub fn forget_to_sync(&self) {
        self.inside().forgets_to_sync = true;
    }

    /// From here on they are synced again.
    pub fn sync_again(&self) {
        self.inside().forgets_to_sync = false;
    }

    /// From now on a failed sync is repeated, and reports success.
    pub fn retry_failed_syncs(&self) {
        self.inside().retries_syncs = true;
    }

    /// From now on files without room are made all the same, and writes to them are dropped.
    pub fn swallow_when_full(&self) {
        self.inside().swallows = true;
    }

    /// The power fails after so many more changes, in the middle of the next one.
    pub fn fail_power_after(&self, steps: u64) {
        self.inside().power = Some(steps);
    }

    /// After so many more syncs of files one fails, and its bytes are not durable.
    pub fn fail_sync_after(&self, syncs: u64) {
        self.inside().bad_sync = Some(syncs);
    }

    /// The error of a failed sync from now on.
    pub fn failed_syncs_say(&self, kind: io::ErrorKind) {
        self.inside().bad_sync_says = Some(kind);
    }

    /// The next sync of a file fails when [`Self::end_slow_failure`] is called: its bytes are not durable, and no other
    /// caller is told.
    pub fn fail_slowly(&self) {
        self.inside().slow = Slow::Next;
    }

    /// True if that sync has begun.
    pub fn is_failing(&self) -> bool {
        self.inside().slow == Slow::UnderWay
    }

    /// Ends that sync.
    pub fn end_slow_failure(&self) {
        self.inside().slow = Slow::None;
    }

    /// Bytes by which files can grow from now on; `None`: any.
    pub fn set_room(&self, room: Option<u64>) {
        self.inside().room = room;
    }

    /// True if the process has no descriptor for another file, from now on.
    pub fn set_out_of_descriptors(&self, out: bool) {
        self.inside().out_of_descriptors = out;
    }

    /// True if the room for files is limited, or no more can be opened.
    pub fn is_tight(&self) -> bool {
        let inside = self.inside();
        inside.room.is_some() || inside.out_of_descriptors
    }

    /// True if syncs take for ever.
    pub fn stall(&self, stalled: bool) {
        self.inside().stalled = stalled;
    }

    /// True if writes take for ever, also those into the cache.
    pub fn stall_writes(&self, stalled: bool) {
        self.inside().stalls_writes = stalled;
    }

    /// Flips a bit of a durable file.
    pub fn damage(&self, name: &str, at: usize) {
        let inside = self.inside();
        let mut data = lock(&inside.now[name]);
        data.now[at] ^= 1;
        data.durable[at] ^= 1;
    }

    /// Names of the files.
    pub fn names(&self) -> Vec<String> {
        self.inside().now.keys().cloned().collect()
    }

    /// Another disk with the durable contents of this one.
    pub fn clone_durable(&self) -> Self {
        let inside = self.inside();
        Self::of(&inside.durable, |data| data.durable.clone())
    }

    /// Another disk with the contents that a reader sees here.
    pub fn clone_now(&self) -> Self {
        let inside = self.inside();
        Self::of(&inside.now, |data| data.now.clone())
    }

    fn of(names: &BTreeMap<String, Contents>, bytes: impl Fn(&Data) -> Vec<u8>) -> Self {
        let copy = |(name, contents): (&String, &Contents)| {
            let durable = bytes(&lock(contents));
            let data = Data { now: durable.clone(), durable, ..Data::default() };
            (name.clone(), Arc::new(Mutex::new(data)))
        };
        let names: BTreeMap<_, _> = names.iter().map(copy).collect();
        Self(Arc::new(Mutex::new(Inside { now: names.clone(), durable: names, ..Inside::default() })))
    }
}

fn lock(contents: &Contents) -> MutexGuard<'_, Data> {
    contents.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An open file.
pub struct Open(Contents, Simulated);

impl Open {
    fn data(&self) -> MutexGuard<'_, Data> {
        lock(&self.0)
    }
}

impl Disk for Simulated {
    type File = Open;

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.names())
    }

    fn open(&self, name: &str) -> io::Result<Open> {
        let inside = self.inside();
        inside.check_descriptors()?;
        let contents = inside.now.get(name).ok_or(io::ErrorKind::NotFound)?.clone();
        drop(inside);
        Ok(Open(contents, self.clone()))
    }

    fn create(&self, name: &str, size: u64) -> io::Result<Open> {
        let mut inside = self.inside();
        inside.check_descriptors()?;
        let fails = inside.step()?;
        let (swallows, mut swallowed) = (inside.swallows, false);
        if let Some(room) = &mut inside.room {
            match room.checked_sub(size) {
                Some(left) => *room = left,
                None if swallows => swallowed = true,
                None => return Err(io::ErrorKind::StorageFull.into()),
            }
        }
        if inside.now.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // A file that was being made when the power failed is there in part.
        let size = size as usize / if fails { 2 } else { 1 };
        let data = Data { now: vec![0; size], durable: vec![0; size], dirty: BTreeSet::new(), swallowed };
        let contents = Arc::new(Mutex::new(data));
        inside.now.insert(name.into(), contents.clone());
        inside.changes.push(Change::Create(name.into(), contents.clone()));
        drop(inside);
        and_then(fails)?;
        Ok(Open(contents, self.clone()))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut inside = self.inside();
        let fails = inside.step()?;
        let contents = inside.now.remove(from).ok_or(io::ErrorKind::NotFound)?;
        // The file that says where the log ends is replaced; no other is.
        assert!(inside.now.insert(to.into(), contents).is_none() || to.starts_with("end-"), "{to} was there");
        inside.changes.push(Change::Rename(from.into(), to.into()));
        and_then(fails)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut inside = self.inside();
        let fails = inside.step()?;
        let contents = inside.now.remove(name).ok_or(io::ErrorKind::NotFound)?;
        let size = lock(&contents).now.len() as u64;
        inside.room = inside.room.map(|room| room + size);
        inside.changes.push(Change::Remove(name.into()));
        and_then(fails)
    }

    fn sync(&self) -> io::Result<()> {
        let mut inside = self.inside();
        and_then(inside.step()?)?;
        inside.durable = inside.now.clone();
        inside.changes.clear();
        Ok(())
    }
}

impl File for Open {
    fn size(&self) -> io::Result<u64> {
        Ok(self.data().now.len() as u64)
    }

    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let data = self.data();
        let bytes = data.now.get(at as usize..at as usize + buffer.len());
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let fails = self.1.inside().step()?;
        while self.1.inside().stalls_writes {
            std::thread::yield_now();
        }
        let mut data = self.data();
        let place = at as usize..at as usize + bytes.len();
        if data.swallowed {
            return and_then(fails);
        }
        data.now.get_mut(place.clone()).ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(bytes);
        data.dirty.extend(place.start / SECTOR..place.end.div_ceil(SECTOR));
        and_then(fails)
    }

    fn sync(&self) -> io::Result<()> {
        and_then(self.1.inside().step()?)?;
        while self.1.inside().stalled {
            std::thread::yield_now();
        }
        let mut inside = self.1.inside();
        if inside.slow == Slow::Next {
            inside.slow = Slow::UnderWay;
            drop(inside);
            self.data().dirty.clear();
            while self.1.is_failing() {
                std::thread::yield_now();
            }
            return Err(io::Error::other("the disk does not answer"));
        }
        let bad = match &mut inside.bad_sync {
            Some(0) => inside.bad_sync.take().is_some(),
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        };
        if inside.forgets_to_sync {
            return Ok(());
        }
        let (retried, says) = (inside.retries_syncs, inside.bad_sync_says);
        drop(inside);
        let mut data = self.data();
        let Data { now, durable, dirty, .. } = &mut *data;
        for sector in std::mem::take(dirty) {
            let place = sector * SECTOR..((sector + 1) * SECTOR).min(now.len());
            if !bad {
                durable[place.clone()].copy_from_slice(&now[place]);
            }
        }
        match says {
            _ if !bad || retried => Ok(()),
            Some(kind) => Err(kind.into()),
            None => Err(io::Error::other("the disk does not answer")),
        }
    }

    fn write_through(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        assert!(at.is_multiple_of(PAGE as u64) && bytes.len().is_multiple_of(PAGE), "whole pages");
        assert_eq!(bytes.as_ptr().align_offset(PAGE), 0, "aligned memory");
        self.write(at, bytes)?;
        self.sync()
    }

    fn direct(&self) -> Direct {
        Direct::Here
    }
}
