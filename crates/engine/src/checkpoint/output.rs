//! The output to the store: batches of changes, and those of the objects with leaves there.

use std::collections::BTreeMap;
use std::sync::Arc;

use keyspace::Space;
use object::saved::{Changes, Frozen, object_of};
use store::{Batch, Error, Store};

use super::format;

/// Bytes that are written at once: as many as are copied and wait in memory, and a hold's worth.
const BATCH_BYTES: usize = if cfg!(test) { 2000 } else { 1 << 20 };
/// Headers that are remembered at least until they are written.
const HEADERS_MAX: usize = if cfg!(test) { 2 } else { 4096 };

/// See the module's text.
pub(super) struct Output {
    pub(super) store: Arc<dyn Store>,
    /// The changes that were collected and are not written. After an error they stay, and are written first.
    batch: Batch,
    /// Headers of large values under the keys of their entries: at least those that are not written.
    headers: BTreeMap<Box<[u8]>, Box<[u8]>>,
    /// Bytes of keys and values written since the round began.
    pub(super) bytes: u64,
    /// Changes of keys written since the round began.
    pub(super) changes: u64,
    scratch: Vec<u8>,
}

impl Output {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, batch: Batch::new(), headers: BTreeMap::new(), bytes: 0, changes: 0, scratch: Vec::new() }
    }

    /// Writes the collected changes. After an error none of them is written, and none is lost.
    pub(super) fn write(&mut self) -> Result<(), Error> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.store.write(&self.batch)?;
        self.bytes += self.batch.bytes() as u64;
        self.changes += self.batch.len() as u64;
        self.batch.clear();
        // They can be read from the store.
        if self.headers.len() > HEADERS_MAX {
            self.headers.clear();
        }
        Ok(())
    }

    /// Makes room for more, by writing the collected changes if they are many.
    pub(super) fn make_room(&mut self) -> Result<(), Error> {
        if self.batch.bytes() >= BATCH_BYTES { self.write() } else { Ok(()) }
    }

    /// Puts an entry in which the store describes itself.
    pub(super) fn put_own(&mut self, key: &[u8], value: &[u8]) {
        self.batch.put(key, value);
    }

    /// Marks a space whose contents are no longer needed.
    pub(super) fn retire(&mut self, space: Space) {
        let prefix = format::space_prefix(space);
        self.batch.retire(&prefix);
        self.batch.retire(&format::leaves_prefix(space));
        self.headers.retain(|key, _| !key.starts_with(&prefix));
    }

    /// The entry under `key` gets this value, and no leaves. `had_object`: so far it has some.
    pub(super) fn put(&mut self, key: &[u8], value: &[u8], had_object: bool) {
        self.drop_object(key, had_object);
        self.batch.put(key, value);
    }

    /// There is no entry under `key`.
    pub(super) fn delete(&mut self, key: &[u8], had_object: bool) {
        self.drop_object(key, had_object);
        self.batch.delete(key);
    }

    fn drop_object(&mut self, key: &[u8], had_object: bool) {
        if !had_object {
            return;
        }
        if let Some(object) = self.header(key).as_deref().and_then(object_of) {
            self.batch.retire(&format::object_prefix(key, object));
        }
        self.headers.remove(key);
    }

    /// The header of the object under a key.
    fn header(&self, key: &[u8]) -> Option<Box<[u8]>> {
        if let Some(header) = self.headers.get(key) {
            return Some(header.clone());
        }
        // If it cannot be read, its leaves stay behind, and the value is written whole.
        let value = self.store.get(key).ok().flatten()?;
        format::record_of(&value).ok().map(Into::into)
    }

    /// The entry under `key` gets a large value. `head` precedes its record. Only the differences to the store are
    /// written. After an error it has to be put once more.
    pub(super) fn put_large(&mut self, key: &[u8], head: &[u8], value: &Frozen, had_object: bool) -> Result<(), Error> {
        let header = if had_object { self.header(key) } else { None };
        let changes: Changes<'_> = value.changes(header.as_deref());
        if let Some(object) = changes.discarded() {
            self.batch.retire(&format::object_prefix(key, object));
        }
        let prefix = format::object_prefix(key, changes.object());
        for labels in changes.removed() {
            for label in labels {
                self.batch.delete(&format::leaf_key(&prefix, label));
                self.make_room()?;
            }
        }
        changes.leaves(|label, bytes| {
            self.batch.put(&format::leaf_key(&prefix, label), bytes);
            self.make_room()
        })?;
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        scratch.extend_from_slice(head);
        changes.header(&mut scratch);
        self.headers.insert(key.into(), scratch[head.len()..].into());
        self.batch.put(key, &scratch);
        self.scratch = scratch;
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn forget(&mut self) {
        self.batch.clear();
    }
}
