//! A state that no longer changes.

use std::ops::Bound;
use std::sync::Arc;

use lsm_tree::{SeqNo, Slice};

use super::Shared;
use super::merge::Merge;
use super::view::View;
use crate::batch::OWN;
use crate::{Entries, Error, Range, Snapshot};

/// A view, and the last batch that counts in it.
pub struct Taken {
    view: Arc<View>,
    seq: SeqNo,
    /// Keeps the folder locked as long as files of it are read.
    _shared: Arc<Shared>,
}

impl Taken {
    pub fn new(shared: Arc<Shared>) -> Self {
        let (view, seq) = shared.view();
        Self { view, seq, _shared: shared }
    }
}

impl Snapshot for Taken {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.view.get(key, self.seq)?.map(|found| found.value.to_vec()))
    }

    fn range(&self, (from, to): Range<'_>) -> Entries<'_> {
        let own = Bound::Excluded([OWN].as_slice());
        let to = match to {
            Bound::Included(key) if key.first() < Some(&OWN) => Bound::Included(key),
            Bound::Excluded(key) if key.first() < Some(&OWN) => Bound::Excluded(key),
            _ => own,
        };
        let empty = match (from, to) {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => from >= to,
            _ => false,
        };
        if empty {
            return Box::new(std::iter::empty());
        }
        let bounds = (from.map(Slice::from), to.map(Slice::from));
        let merge = Merge::of_view(&self.view, &bounds, self.seq);
        Box::new(merge.filter_map(|item| match item {
            Ok(item) if item.is_tombstone() || self.view.retired.covers(&item.key.user_key) => None,
            Ok(item) => Some(Ok((item.key.user_key.to_vec(), item.value.to_vec()))),
            Err(error) => Some(Err(error)),
        }))
    }
}
