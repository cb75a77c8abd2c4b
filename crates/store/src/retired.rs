//! Prefixes that are retired, and what may be written because of them.

use std::collections::BTreeSet;
use std::ops::Bound::{Included, Unbounded};

use crate::batch::check_key;
use crate::{Batch, Error, Op, VALUE_MAX};

/// Prefixes without entries below them, whatever the tables say. None of them begins with another.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Retired(BTreeSet<Vec<u8>>);

impl Retired {
    /// Adds a prefix; those that begin with it are no longer needed.
    pub fn insert(&mut self, prefix: &[u8]) {
        if self.covers(prefix) {
            return;
        }
        let below: Vec<_> = self
            .0
            .range::<[u8], _>((Included(prefix), Unbounded))
            .take_while(|p| p.starts_with(prefix))
            .cloned()
            .collect();
        for prefix in below {
            self.0.remove(&prefix);
        }
        self.0.insert(prefix.to_vec());
    }

    pub fn remove(&mut self, prefix: &[u8]) {
        self.0.remove(prefix);
    }

    pub fn contains(&self, prefix: &[u8]) -> bool {
        self.0.contains(prefix)
    }

    /// True if `key` begins with one of them. As none begins with another, only the last one before it can be it.
    pub fn covers(&self, key: &[u8]) -> bool {
        !self.0.is_empty()
            && self.0.range::<[u8], _>((Unbounded, Included(key))).next_back().is_some_and(|p| key.starts_with(p))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.0.iter()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// Checks that a batch may be written. Returns the prefixes that are retired after it, if it changes them.
///
/// # Errors
/// A key or value is too long, or is put below a retired prefix.
pub fn check(batch: &Batch, retired: &Retired) -> Result<Option<Retired>, Error> {
    let mut changed: Option<Retired> = None;
    for op in batch.ops() {
        match op {
            Op::Put(key, value) => {
                check_key(key)?;
                if value.len() > VALUE_MAX {
                    return Err(Error::Invalid(format!("a value has {} bytes", value.len())));
                }
                if changed.as_ref().unwrap_or(retired).covers(key) {
                    return Err(Error::Invalid(format!("a put below a retired prefix: {key:02x?}")));
                }
            }
            Op::Delete(key) => check_key(key)?,
            Op::Retire(prefix) => {
                check_key(prefix)?;
                changed.get_or_insert_with(|| retired.clone()).insert(prefix);
            }
        }
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retired_prefixes_cover_what_begins_with_them() {
        let mut retired = Retired::default();
        assert!(!retired.covers(b"a"));
        retired.insert(b"ab");
        retired.insert(b"abc");
        assert_eq!(retired.len(), 1);
        retired.insert(b"b1");
        retired.insert(b"b2");
        assert!(retired.covers(b"ab") && retired.covers(b"abz") && retired.covers(b"b1x"));
        assert!(!retired.covers(b"a") && !retired.covers(b"ac") && !retired.covers(b"b") && !retired.covers(b"b3"));
        retired.insert(b"b");
        assert_eq!(retired.iter().map(Vec::as_slice).collect::<Vec<_>>(), [b"ab".as_slice(), b"b"]);
        assert!(retired.covers(b"b3"));
        retired.remove(b"b");
        assert!(!retired.covers(b"b1"));
    }
}
