//! Many ordered places read as one.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use lsm_tree::{InternalValue, Memtable, SeqNo, Slice, Table, ValueType};

use super::view::{Held, Run, View, ends, table_error};
use crate::Error;

/// The ends of a range, owned.
pub type Bounds = (Bound<Slice>, Bound<Slice>);

type Item = Result<InternalValue, Error>;
type Source = Box<dyn Iterator<Item = Item> + Send>;

/// Entries taken out of a memtable at a time.
const CHUNK: usize = 128;

/// The newest version of every key of some places, tombstones included, in the order of keys.
pub struct Merge {
    /// The newest first.
    sources: Vec<Source>,
    heap: BinaryHeap<Head>,
    /// The error before the first entry.
    failed: Option<Error>,
    last: Option<Slice>,
}

struct Head {
    item: InternalValue,
    source: usize,
}

impl Ord for Head {
    /// The greatest is what comes first: the smallest key, of the newest source, of the highest sequence number.
    fn cmp(&self, other: &Self) -> Ordering {
        let mine = (&*other.item.key.user_key, other.source, self.item.key.seqno);
        mine.cmp(&(&*self.item.key.user_key, self.source, other.item.key.seqno))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

impl Merge {
    /// Of these places, the newest first.
    fn new(sources: Vec<Source>) -> Self {
        let mut merge = Self { heap: BinaryHeap::with_capacity(sources.len()), sources, failed: None, last: None };
        for source in 0..merge.sources.len() {
            if let Err(error) = merge.pull(source) {
                merge.failed = Some(error);
                break;
            }
        }
        merge
    }

    /// Everything a view has in a range, as of `seq`.
    pub fn of_view(view: &View, bounds: &Bounds, seq: SeqNo) -> Self {
        let mut sources = vec![memory(view.active.clone(), bounds, seq)];
        sources.extend(view.layers.iter().map(|layer| source(&layer.held, bounds, seq)));
        sources.extend(view.durable.runs.iter().map(|run| of_run(run.clone(), bounds)));
        Self::new(sources)
    }

    /// All of some layers, the newest first.
    pub fn of_layers<'a>(layers: impl Iterator<Item = &'a Held>) -> Self {
        Self::of_layers_in(layers, &(Bound::Unbounded, Bound::Unbounded))
    }

    /// The entries of some layers in a range, the newest first.
    pub fn of_layers_in<'a>(layers: impl Iterator<Item = &'a Held>, bounds: &Bounds) -> Self {
        Self::new(layers.map(|held| source(held, bounds, SeqNo::MAX - 1)).collect())
    }

    fn pull(&mut self, source: usize) -> Result<(), Error> {
        if let Some(item) = self.sources[source].next() {
            self.heap.push(Head { item: item?, source });
        }
        Ok(())
    }
}

impl Iterator for Merge {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        if let Some(error) = self.failed.take() {
            self.heap.clear();
            return Some(Err(error));
        }
        loop {
            let Head { item, source } = self.heap.pop()?;
            if let Err(error) = self.pull(source) {
                self.heap.clear();
                return Some(Err(error));
            }
            if self.last.as_ref() != Some(&item.key.user_key) {
                self.last = Some(item.key.user_key.clone());
                return Some(Ok(item));
            }
        }
    }
}

fn source(held: &Held, bounds: &Bounds, seq: SeqNo) -> Source {
    match held {
        Held::Memory(table) => memory(table.clone(), bounds, seq),
        Held::Run(run) => of_run(run.clone(), bounds),
    }
}

/// The entries of a memtable up to `seq`. They are taken out in chunks, because an iterator cannot own what it
/// iterates.
fn memory(memory: Arc<Memtable>, bounds: &Bounds, seq: SeqNo) -> Source {
    let at = |key: &Slice, seqno| InternalValue::from_components(key.clone(), "", seqno, ValueType::Value).key;
    // Versions of a key are ordered from the highest sequence number down.
    let mut from = match &bounds.0 {
        Bound::Included(key) => Bound::Included(at(key, SeqNo::MAX)),
        Bound::Excluded(key) => Bound::Excluded(at(key, 0)),
        Bound::Unbounded => Bound::Unbounded,
    };
    let to = match &bounds.1 {
        Bound::Included(key) => Bound::Included(at(key, 0)),
        Bound::Excluded(key) => Bound::Excluded(at(key, SeqNo::MAX)),
        Bound::Unbounded => Bound::Unbounded,
    };
    let mut ready = VecDeque::new();
    let mut done = false;
    Box::new(std::iter::from_fn(move || {
        loop {
            if let Some(item) = ready.pop_front() {
                return Some(Ok(item));
            }
            if done {
                return None;
            }
            let mut taken = 0;
            let mut last = None;
            for entry in memory.items.range((from.clone(), to.clone())).take(CHUNK) {
                taken += 1;
                last = Some(entry.key().clone());
                if entry.key().seqno <= seq {
                    ready.push_back(InternalValue { key: entry.key().clone(), value: entry.value().clone() });
                }
            }
            done = taken < CHUNK;
            if let Some(last) = last {
                from = Bound::Excluded(last);
            }
        }
    }))
}

/// The entries of a run, which opens table after table.
fn of_run(run: Run, bounds: &Bounds) -> Source {
    let first = match &bounds.0 {
        Bound::Included(key) => run.partition_point(|table| ends(table).1 < &**key),
        Bound::Excluded(key) => run.partition_point(|table| ends(table).1 <= &**key),
        Bound::Unbounded => 0,
    };
    let bounds = bounds.clone();
    let mut at = first;
    let mut open: Option<(Ordered, Table)> = None;
    Box::new(std::iter::from_fn(move || {
        loop {
            if let Some((entries, table)) = &mut open {
                match entries.next() {
                    Some(Ok(item)) => return Some(Ok(item)),
                    Some(Err(error)) => return Some(Err(table_error(&table.path, &error))),
                    None => open = None,
                }
            }
            let table = run.get(at)?.clone();
            at += 1;
            let past = match &bounds.1 {
                Bound::Included(key) => ends(&table).0 > &**key,
                Bound::Excluded(key) => ends(&table).0 >= &**key,
                Bound::Unbounded => false,
            };
            if past {
                at = run.len();
                return None;
            }
            open = Some((Ordered::new(&table, &bounds), table));
        }
    }))
}

/// The entries of a table. A block that is whole but in the wrong place shows by the order of keys.
struct Ordered {
    entries: Box<dyn Iterator<Item = lsm_tree::Result<InternalValue>> + Send>,
    last: Option<Slice>,
}

impl Ordered {
    fn new(table: &Table, bounds: &Bounds) -> Self {
        Self { entries: Box::new(table.range(bounds.clone())), last: None }
    }
}

impl Iterator for Ordered {
    type Item = lsm_tree::Result<InternalValue>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = match self.entries.next()? {
            Ok(item) => item,
            Err(error) => return Some(Err(error)),
        };
        if self.last.as_ref().is_some_and(|last| *last > item.key.user_key) {
            return Some(Err(lsm_tree::Error::InvalidHeader("keys are out of order")));
        }
        self.last = Some(item.key.user_key.clone());
        Some(Ok(item))
    }
}
