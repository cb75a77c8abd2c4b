//! What was copied in one hold of a latch: small values as the bytes to be written, large ones shared, to be encoded afterwards.

use keyspace::{EntryRef, Key, Kind, Space, Value};
use store::Batch;

use super::format::{self, Head};

/// Collections that take more than this are shared and not encoded under the latch.
const SMALL_BYTES: usize = if cfg!(test) { 256 } else { 2048 };

/// One change of the store.
struct Item {
    /// Where its key ends in the bytes.
    key_end: usize,
    /// Where its value, or what precedes a large one, ends.
    end: usize,
    what: What,
}

enum What {
    Small,
    Large(Value),
    Deleted,
}

/// See the module's text. Made to be used again and again: nothing is allocated under a latch.
pub(super) struct Copied {
    bytes: Vec<u8>,
    items: Vec<Item>,
    large: usize,
}

impl Copied {
    /// With room for what a hold copies before it ends, and the longest value after that.
    pub(super) fn new() -> Self {
        Self { bytes: Vec::with_capacity(128 * 1024), items: Vec::with_capacity(1024), large: 0 }
    }

    /// Bytes copied, and a share for each item.
    pub(super) fn weight(&self) -> usize {
        self.bytes.len() + 512 * self.large
    }

    /// Copies an entry, which holds what was done to it up to `version`.
    pub(super) fn put(&mut self, space: Space, key: &Key<'_>, entry: EntryRef<'_>, version: u64) {
        format::entry_key(space, key, &mut self.bytes);
        let key_end = self.bytes.len();
        Head::of(entry, version).write(key.bytes, &mut self.bytes);
        let large = match entry.kind() {
            Kind::Int | Kind::Short | Kind::Raw => false,
            Kind::Blob => true,
            _ => entry.memory() > SMALL_BYTES,
        };
        let what = if large {
            self.large += 1;
            What::Large(entry.to_value())
        } else {
            entry.write_image(&mut self.bytes);
            What::Small
        };
        self.items.push(Item { key_end, end: self.bytes.len(), what });
    }

    /// Notes that a key was gone at `version`.
    pub(super) fn put_gone(&mut self, space: Space, key: &Key<'_>, version: u64) {
        format::entry_key(space, key, &mut self.bytes);
        let key_end = self.bytes.len();
        format::write_gone(version, &mut self.bytes);
        self.items.push(Item { key_end, end: self.bytes.len(), what: What::Small });
    }

    /// Notes that nothing is needed of a key.
    pub(super) fn delete(&mut self, space: Space, key: &Key<'_>) {
        format::entry_key(space, key, &mut self.bytes);
        let end = self.bytes.len();
        self.items.push(Item { key_end: end, end, what: What::Deleted });
    }

    /// Moves everything to the batch, in its order. Without any latch.
    pub(super) fn move_to(&mut self, batch: &mut Batch) {
        let mut start = 0;
        let mut image = Vec::new();
        for item in self.items.drain(..) {
            let (key, head) = (&self.bytes[start..item.key_end], &self.bytes[item.key_end..item.end]);
            start = item.end;
            match item.what {
                What::Small => batch.put(key, head),
                What::Deleted => batch.delete(key),
                What::Large(value) => {
                    image.clear();
                    image.extend_from_slice(head);
                    value.write_image(&mut image);
                    batch.put(key, &image);
                }
            }
        }
        self.bytes.clear();
        self.large = 0;
        // Long keys are few.
        if self.bytes.capacity() > 1 << 20 {
            *self = Self::new();
        }
    }
}
