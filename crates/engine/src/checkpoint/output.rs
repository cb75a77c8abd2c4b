//! What goes to the store: batches of changes, and what is known of the objects there.

use std::collections::BTreeMap;
use std::sync::Arc;

use keyspace::Space;
use object::saved::{Changes, object_of};
use store::{Batch, Error, Op, Store};

use super::format;

/// Bytes that are written at once: as much as is copied and waits in memory, and a hold's worth.
const BATCH_BYTES: usize = if cfg!(test) { 2000 } else { 1 << 20 };

/// Large values have objects of leaves in the store: the header of each, under the store's key of its entry.
#[derive(Clone, Default, Debug)]
pub struct Objects(BTreeMap<Box<[u8]>, Box<[u8]>>);

impl Objects {
    /// The entry under this key has this record.
    pub(super) fn note(&mut self, key: &[u8], record: Option<&[u8]>) {
        match record.filter(|record| object_of(record).is_some()) {
            Some(record) => drop(self.0.insert(key.into(), record.into())),
            None => drop(self.0.remove(key)),
        }
    }
}

/// See the module's text.
pub(super) struct Output {
    pub(super) store: Arc<dyn Store>,
    batch: Batch,
    objects: Objects,
    /// Bytes of keys and values written since the round began.
    pub(super) bytes: u64,
    /// Changes of keys written since the round began.
    pub(super) changes: u64,
    scratch: Vec<u8>,
}

impl Output {
    pub(super) fn new(store: Arc<dyn Store>, objects: Objects) -> Self {
        Self { store, batch: Batch::new(), objects, bytes: 0, changes: 0, scratch: Vec::new() }
    }

    /// Writes what has been collected. After an error it is as if it had never been collected.
    pub(super) fn write(&mut self) -> Result<(), Error> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.bytes += self.batch.bytes() as u64;
        self.changes += self.batch.len() as u64;
        let written = self.store.write(&self.batch);
        if written.is_err() {
            self.mend();
        }
        self.batch.clear();
        written
    }

    /// Drops what has been collected and not written.
    pub(super) fn abandon(&mut self) {
        self.mend();
        self.batch.clear();
    }

    /// What the batch would have made of the store's objects has not come to be.
    fn mend(&mut self) {
        for op in self.batch.ops() {
            if let Op::Put(key, _) | Op::Delete(key) = op
                && format::is_entry(key)
            {
                // What cannot be read is written whole the next time; its leaves are left over.
                let value = self.store.get(key).ok().flatten();
                let record = value.as_deref().and_then(|value| format::record_of(value).ok());
                self.objects.note(key, record);
            }
        }
    }

    fn write_if_full(&mut self) -> Result<(), Error> {
        if self.batch.bytes() >= BATCH_BYTES { self.write() } else { Ok(()) }
    }

    /// What the store says about itself.
    pub(super) fn put_own(&mut self, key: &[u8], value: &[u8]) {
        self.batch.put(key, value);
    }

    /// Nothing of this space is needed any more.
    pub(super) fn retire(&mut self, space: Space) {
        let prefix = format::space_prefix(space);
        self.batch.retire(&prefix);
        self.batch.retire(&format::leaves_prefix(space));
        self.objects.0.retain(|key, _| !key.starts_with(&prefix));
    }

    /// The entry under `key` has this value, and no leaves.
    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.drop_object(key);
        self.batch.put(key, value);
        self.write_if_full()
    }

    /// There is no entry under `key`.
    pub(super) fn delete(&mut self, key: &[u8]) -> Result<(), Error> {
        self.drop_object(key);
        self.batch.delete(key);
        self.write_if_full()
    }

    fn drop_object(&mut self, key: &[u8]) {
        // Most stores have none.
        if self.objects.0.is_empty() {
            return;
        }
        if let Some(object) = self.objects.0.remove(key).as_deref().and_then(object_of) {
            self.batch.retire(&format::object_prefix(key, object));
        }
    }

    /// The entry under `key` has a large value: `head` precedes its record, `changes` makes what is to be written of what the store has.
    pub(super) fn put_large(&mut self, key: &[u8], head: &[u8], value: &object::saved::Frozen) -> Result<(), Error> {
        let header = self.objects.0.get(key).cloned();
        let changes: Changes<'_> = value.changes(header.as_deref());
        if let Some(object) = changes.discarded() {
            self.batch.retire(&format::object_prefix(key, object));
        }
        let prefix = format::object_prefix(key, changes.object());
        for labels in changes.removed() {
            for label in labels {
                self.batch.delete(&format::leaf_key(&prefix, label));
                self.write_if_full()?;
            }
        }
        changes.leaves(|label, bytes| {
            self.batch.put(&format::leaf_key(&prefix, label), bytes);
            self.write_if_full()
        })?;
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        scratch.extend_from_slice(head);
        changes.header(&mut scratch);
        self.objects.note(key, scratch.get(head.len()..));
        self.batch.put(key, &scratch);
        self.scratch = scratch;
        self.write_if_full()
    }
}
