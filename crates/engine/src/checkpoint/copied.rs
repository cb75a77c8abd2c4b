//! Copies of one hold of a latch: small values as the bytes to be written, large ones frozen, to be encoded later.

use std::num::NonZeroU64;
use std::sync::Arc;

use clocks::UnixMs;
use keyspace::{Blob, EntryRef, Key, Mark, Space, Str, Version};
use object::saved::{Frozen, ValueRef, save_small};
use store::Error;

use super::format::{self, Head};
use super::output::Output;

/// One change of the store.
struct Item {
    /// Where its key ends in the bytes.
    key_end: usize,
    /// The end of its value, or of the bytes before the record of a large one.
    end: usize,
    /// The store has an object under the key.
    had_object: bool,
    what: What,
}

enum What {
    Small,
    Blob(Arc<Blob>),
    Large(Frozen),
    Deleted,
}

/// See the module's text. It is reused, so that nothing is allocated under a latch.
pub(super) struct Copied {
    bytes: Vec<u8>,
    items: Vec<Item>,
    /// So many of them have been moved to the output, and so many bytes.
    moved: (usize, usize),
    large: usize,
    /// The number of the next freeze: no two are the same, not even in different lives of the server.
    epoch: u64,
}

impl Copied {
    /// With room for the copies of a hold, and for the longest value after that. `epoch`: that of the next freeze.
    pub(super) fn new(epoch: u64) -> Self {
        Self {
            bytes: Vec::with_capacity(128 * 1024),
            items: Vec::with_capacity(1024),
            moved: (0, 0),
            large: 0,
            epoch: epoch.max(1),
        }
    }

    /// The number of the next freeze.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Goes on counting at `epoch`.
    pub(super) fn set_epoch(&mut self, epoch: NonZeroU64) {
        self.epoch = epoch.get();
    }

    /// True if nothing was copied.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Bytes copied, and a share for each item that is shared.
    pub(super) fn weight(&self) -> usize {
        self.bytes.len() + 512 * self.large
    }

    /// Copies an entry, which holds the changes of its key up to `version`. `frozen`: its value, if it is a large
    /// collection. `had`: what the store has. Returns the time before which nothing of it expires.
    pub(super) fn put(
        &mut self,
        space: Space,
        key: &Key<'_>,
        entry: EntryRef<'_>,
        frozen: Option<Frozen>,
        version: Version,
        had: Mark,
    ) -> UnixMs {
        format::entry_key(space, key, &mut self.bytes);
        let key_end = self.bytes.len();
        let head = Head::of(entry, version);
        head.write(key.bytes, &mut self.bytes);
        let what = match (frozen, entry.string()) {
            (Some(frozen), _) => What::Large(frozen),
            (None, Ok(Str::Blob(blob))) => What::Blob(blob.clone()),
            _ => {
                save_small(entry.saved(), &mut self.bytes);
                What::Small
            }
        };
        self.large += usize::from(!matches!(what, What::Small));
        self.items.push(Item { key_end, end: self.bytes.len(), had_object: had.is_object(), what });
        head.earliest()
    }

    /// Notes that a key was gone at `version`.
    pub(super) fn put_gone(&mut self, space: Space, key: &Key<'_>, version: Version, had: Mark) {
        format::entry_key(space, key, &mut self.bytes);
        let key_end = self.bytes.len();
        format::write_gone(key.bytes, version, &mut self.bytes);
        self.items.push(Item { key_end, end: self.bytes.len(), had_object: had.is_object(), what: What::Small });
    }

    /// Notes that nothing is needed for a key.
    pub(super) fn delete(&mut self, space: Space, key: &Key<'_>, had: Mark) {
        format::entry_key(space, key, &mut self.bytes);
        let end = self.bytes.len();
        self.items.push(Item { key_end: end, end, had_object: had.is_object(), what: What::Deleted });
    }

    /// Moves everything to the store's output, in the store's order, without any latch. After an error the rest is
    /// moved the next time.
    pub(super) fn move_to(&mut self, output: &mut Output) -> Result<(), Error> {
        while let Some(item) = self.items.get(self.moved.0) {
            let (key, head) = (&self.bytes[self.moved.1..item.key_end], &self.bytes[item.key_end..item.end]);
            output.make_room()?;
            match &item.what {
                What::Small => output.put(key, head, item.had_object),
                What::Deleted => output.delete(key, item.had_object),
                What::Large(frozen) => output.put_large(key, head, frozen, item.had_object)?,
                What::Blob(blob) => {
                    let mut value = Vec::with_capacity(head.len() + blob.len() + 1);
                    value.extend_from_slice(head);
                    save_small(ValueRef::Blob(blob), &mut value);
                    output.put(key, &value, item.had_object);
                }
            }
            self.moved = (self.moved.0 + 1, item.end);
        }
        self.items.clear();
        self.bytes.clear();
        (self.moved, self.large) = ((0, 0), 0);
        // Long keys are few.
        if self.bytes.capacity() > 1 << 20 {
            *self = Self::new(self.epoch);
        }
        Ok(())
    }
}
