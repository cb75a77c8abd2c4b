//! A store as the text of [`crate::saved`] wants it.

use super::*;

/// A store as the module's text wants it.
#[derive(Default)]
pub(super) struct Store {
    pub records: BTreeMap<u8, Vec<u8>>,
    pub leaves: BTreeMap<(u64, u64), Vec<u8>>,
}

/// The writes of a checkpoint for a key.
pub(super) enum Write {
    Nothing,
    Record(Vec<u8>),
    Frozen(Frozen),
}

impl Store {
    fn forget(&mut self, object: u64) {
        self.leaves.retain(|(other, _), _| *other != object);
    }

    /// The number of leaves that were put.
    pub fn write(&mut self, key: u8, write: &Write) -> usize {
        let old = self.records.get(&key).cloned();
        let frozen = match write {
            Write::Nothing | Write::Record(_) => {
                old.and_then(|old| object_of(&old)).into_iter().for_each(|object| self.forget(object));
                match write {
                    Write::Record(record) => _ = self.records.insert(key, record.clone()),
                    _ => _ = self.records.remove(&key),
                }
                return 0;
            }
            Write::Frozen(frozen) => frozen,
        };
        let changes = frozen.changes(old.as_deref());
        changes.discarded().into_iter().for_each(|object| self.forget(object));
        for labels in changes.removed() {
            self.leaves.retain(|(object, label), _| *object != changes.object() || !labels.contains(label));
        }
        let mut count = 0;
        let put = |label, bytes: &[u8]| {
            self.leaves.insert((changes.object(), label), bytes.to_vec());
            count += 1;
            Ok::<(), ()>(())
        };
        assert_eq!(changes.leaves(put), Ok(()));
        let mut header = Vec::new();
        changes.header(&mut header);
        self.records.insert(key, header);
        count
    }

    pub fn read(&self, key: u8) -> Option<Collection> {
        match self.read_any(key)? {
            Assembled::Collection(collection) => Some(collection),
            Assembled::String(_) => panic!("a string"),
        }
    }

    pub fn read_any(&self, key: u8) -> Option<Assembled> {
        let record = self.records.get(&key)?;
        match load(record).expect("what was saved") {
            Loaded::Collection(collection) => Some(Assembled::Collection(collection)),
            Loaded::Large(mut assembler) => {
                let object = assembler.object();
                assert_eq!(object_of(record), Some(object));
                for ((_, label), bytes) in self.leaves.range((object, 0)..=(object, u64::MAX)) {
                    assembler.add(*label, bytes).expect("what was saved");
                }
                Some(assembler.finish().expect("what was saved"))
            }
            _ => panic!("a short string"),
        }
    }
}
