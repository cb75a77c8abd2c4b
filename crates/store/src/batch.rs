//! Changes that are written at once.

use crate::Error;

/// The longest key, in bytes.
pub const KEY_MAX: usize = 65_000;

/// The longest value, in bytes.
pub const VALUE_MAX: usize = u32::MAX as usize - 1;

/// Bytes of a value above which a batch gets exactly the room that it needs, and gives it back.
const LARGE: usize = 1 << 20;

/// Keys that begin with this byte are the store's own.
pub(crate) const OWN: u8 = 0xff;

/// Before the prefix in the key of the record that says that a prefix is retired.
pub(crate) const RETIRED: [u8; 2] = [OWN, b'r'];

/// One change. Later ones in a batch count more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op<'a> {
    /// The key has this value.
    Put(&'a [u8], &'a [u8]),
    /// The key is not there.
    Delete(&'a [u8]),
    /// No key begins with this prefix, and none ever will: a database generation that was flushed, an object that is
    /// gone.
    Retire(&'a [u8]),
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Put,
    Delete,
    Retire,
}

/// Changes that are written at once. May be cleared and filled again.
#[derive(Clone, Default, Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Kind, end of the key, end of the value in `bytes`.
    ops: Vec<(Kind, usize, usize)>,
}

impl Batch {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn push(&mut self, kind: Kind, key: &[u8], value: &[u8]) {
        if value.len() >= LARGE {
            // Just as large as needed: the system may have no memory for twice that.
            self.bytes.reserve_exact(key.len() + value.len());
        }
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ops.push((kind, key_end, self.bytes.len()));
    }

    /// The key has this value. Keys have 1 to [`KEY_MAX`] bytes and do not begin with 0xff; values have at most
    /// [`VALUE_MAX`].
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.push(Kind::Put, key, value);
    }

    /// The key is not there.
    pub fn delete(&mut self, key: &[u8]) {
        self.push(Kind::Delete, key, &[]);
    }

    /// No key begins with `prefix`, and none ever will: a later put below it is refused while the store still knows.
    /// Costs as much as one put; the space is given back later, mostly without reading its contents.
    pub fn retire(&mut self, prefix: &[u8]) {
        self.push(Kind::Retire, prefix, &[]);
    }

    /// Bytes of keys and values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Number of changes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// True if there are no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Takes all changes out, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        if self.bytes.capacity() > 4 * LARGE {
            self.bytes.shrink_to(LARGE);
        }
        self.ops.clear();
    }

    /// The changes in their order.
    pub fn ops(&self) -> impl Iterator<Item = Op<'_>> {
        let mut start = 0;
        self.ops.iter().map(move |&(kind, key_end, end)| {
            let key = &self.bytes[start..key_end];
            let value = &self.bytes[key_end..end];
            start = end;
            match kind {
                Kind::Put => Op::Put(key, value),
                Kind::Delete => Op::Delete(key),
                Kind::Retire => Op::Retire(key),
            }
        })
    }
}

/// Checks that a caller may use this key or prefix.
pub(crate) fn check_key(key: &[u8]) -> Result<(), Error> {
    match key.first() {
        None => Err(Error::Invalid("a key must not be empty".into())),
        Some(&OWN) => Err(Error::Invalid("keys that begin with 0xff are the store's own".into())),
        Some(_) if key.len() > KEY_MAX => {
            Err(Error::Invalid(format!("a key has {} bytes, more than {KEY_MAX}", key.len())))
        }
        Some(_) => Ok(()),
    }
}

/// The first key after all that begin with `prefix`; none if there is no such key.
pub(crate) fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&b| b != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_gives_back_what_was_put_in() {
        let mut batch = Batch::new();
        for _ in 0..2 {
            batch.clear();
            batch.put(b"a", b"1");
            batch.put(b"b", b"");
            batch.delete(b"c");
            batch.retire(b"d");
            let ops: Vec<_> = batch.ops().collect();
            assert_eq!(ops, [Op::Put(b"a", b"1"), Op::Put(b"b", b""), Op::Delete(b"c"), Op::Retire(b"d")]);
            assert_eq!((batch.len(), batch.bytes()), (4, 5));
        }
    }

    #[test]
    fn the_end_of_a_prefix() {
        assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_end(&[1, 0xff, 0xff]), Some(vec![2]));
        assert_eq!(prefix_end(&[0xff, 0xff]), None);
        assert_eq!(prefix_end(&[]), None);
    }
}
