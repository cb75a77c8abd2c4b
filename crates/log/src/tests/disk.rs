//! A simulated disk. Writes go to a cache; a crash keeps an arbitrary choice of the sectors that were not synced, and of the
//! renames, creations and removals since the last sync of the folder a prefix.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use crate::disk::{Disk, File};

const SECTOR: usize = 512;

/// A source of chance.
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

#[derive(Default)]
struct Data {
    /// As a reader sees it.
    now: Vec<u8>,
    /// As it is durable.
    durable: Vec<u8>,
}

type Contents = Arc<Mutex<Data>>;

#[derive(Default)]
struct Inside {
    /// Names as a reader sees them, and as they are durable.
    now: BTreeMap<String, Contents>,
    durable: BTreeMap<String, Contents>,
    /// Whether a sync of a file does nothing: a planted bug.
    forgets_to_sync: bool,
}

/// The disk; clones are the same one.
#[derive(Clone, Default)]
pub struct Simulated(Arc<Mutex<Inside>>);

impl Simulated {
    /// The power fails: what was not synced is there in part.
    pub fn crash(&self, chance: &mut Chance) {
        let mut inside = self.0.lock().unwrap();
        let names = if chance.below(2) == 0 { inside.durable.clone() } else { inside.now.clone() };
        for contents in names.values() {
            let mut data = contents.lock().unwrap();
            let Data { now, durable } = &mut *data;
            durable.resize(now.len().max(durable.len()), 0);
            let keep = chance.below(4);
            for (old, new) in durable.chunks_mut(SECTOR).zip(now.chunks(SECTOR)) {
                let kept = match keep {
                    0 => false,
                    1 => true,
                    _ => chance.below(2) == 0,
                };
                if kept {
                    old[..new.len()].copy_from_slice(new);
                }
            }
            *now = durable.clone();
        }
        inside.now = names.clone();
        inside.durable = names;
    }

    /// From here on files are not synced, though they say so.
    pub fn forget_to_sync(&self) {
        self.0.lock().unwrap().forgets_to_sync = true;
    }

    /// Turns a bit of a durable file over.
    pub fn damage(&self, name: &str, at: usize) {
        let inside = self.0.lock().unwrap();
        let mut data = inside.now[name].lock().unwrap();
        data.now[at] ^= 1;
        data.durable[at] ^= 1;
    }

    /// Names of the files.
    pub fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().now.keys().cloned().collect()
    }
}

/// An open file.
pub struct Open(Contents, Simulated);

impl Disk for Simulated {
    type File = Open;

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.names())
    }

    fn open(&self, name: &str) -> io::Result<Open> {
        let inside = self.0.lock().unwrap();
        let contents = inside.now.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Open(contents.clone(), self.clone()))
    }

    fn create(&self, name: &str, size: u64) -> io::Result<Open> {
        let contents = Contents::default();
        contents.lock().unwrap().now = vec![0; size as usize];
        self.0.lock().unwrap().now.insert(name.into(), contents.clone());
        Ok(Open(contents, self.clone()))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut inside = self.0.lock().unwrap();
        let contents = inside.now.remove(from).ok_or(io::ErrorKind::NotFound)?;
        inside.now.insert(to.into(), contents);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.lock().unwrap().now.remove(name).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync(&self) -> io::Result<()> {
        let mut inside = self.0.lock().unwrap();
        inside.durable = inside.now.clone();
        Ok(())
    }
}

impl File for Open {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().now.len() as u64)
    }

    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let data = self.0.lock().unwrap();
        let bytes = data.now.get(at as usize..at as usize + buffer.len());
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut data = self.0.lock().unwrap();
        let place = data.now.get_mut(at as usize..at as usize + bytes.len());
        place.ok_or(io::ErrorKind::StorageFull)?.copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        if !self.1.0.lock().unwrap().forgets_to_sync {
            let mut data = self.0.lock().unwrap();
            data.durable = data.now.clone();
        }
        Ok(())
    }
}
