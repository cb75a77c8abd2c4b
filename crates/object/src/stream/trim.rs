//! Trimming that considers consumer groups: entries that are still pending are kept, or stop being pending.

use super::Stream;
use super::id::Id;
use super::log::Trim;

/// The treatment of references to removed entries, and of entries with references.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum References {
    /// Groups keep their pending entries (`KEEPREF`).
    Keep,
    /// Removed entries are no longer pending in any group (`DELREF`).
    Drop,
    /// Only what every group has read and acknowledged is removed (`ACKED`).
    Respect,
}

/// The result of trimming.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct Trimmed {
    /// Entries removed in front.
    pub front: u64,
    /// Entries removed behind others that stay, in order.
    pub others: Vec<Id>,
    /// Removed entries that were pending in some group.
    pub unreferenced: Vec<Id>,
}

impl Trimmed {
    /// How many entries were removed.
    pub fn len(&self) -> u64 {
        self.front + self.others.len() as u64
    }

    /// True if there were none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Stream {
    /// Trims as [`super::Log::trim`] does. Where references matter, entries are checked one by one, `approx` or not, as
    /// in Redis.
    pub fn trim(&mut self, to: Trim, approx: bool, limit: u64, references: References) -> Trimmed {
        if references == References::Keep {
            return Trimmed { front: self.log.trim(to, approx, limit), ..Trimmed::default() };
        }
        let removed = self.doomed(to, limit, references);
        let first = self.log.range(Id::MIN, Id::MAX).map(|entry| entry.id);
        let front = first.zip(&removed).take_while(|(id, doomed)| id == *doomed).count();
        self.log.remove_first(front as u64);
        let others = removed[front..].to_vec();
        for id in &others {
            self.log.remove(*id);
        }
        let mut unreferenced = Vec::new();
        if references == References::Drop {
            unreferenced = removed;
            unreferenced.retain(|id| self.groups.acknowledge(*id));
        }
        Trimmed { front: front as u64, others, unreferenced }
    }

    /// The entries to be removed, in order. Nodes bound the search: it goes on behind one only if all of that could be
    /// removed.
    fn doomed(&self, to: Trim, limit: u64, references: References) -> Vec<Id> {
        let (mut doomed, mut left) = (Vec::new(), self.len());
        let tail = [&self.log.tail].into_iter().filter(|tail| tail.live > 0);
        for node in self.log.sealed.leaves_from(0).map(|(node, _)| node).chain(tail) {
            let live = u64::from(node.live);
            let enough = matches!(to, Trim::Length(len) if left <= len);
            if enough || limit > 0 && doomed.len() as u64 + live > limit {
                break;
            }
            let whole = match to {
                Trim::Length(len) => left.saturating_sub(live) >= len,
                Trim::Below(id) => node.last < id,
            };
            for raw in node.raw() {
                let stop = match to {
                    Trim::Length(len) => left <= len,
                    Trim::Below(id) => raw.id >= id,
                };
                if stop {
                    break;
                }
                if !raw.deleted && (references == References::Drop || !self.groups.refer_to(raw.id)) {
                    doomed.push(raw.id);
                    left -= 1;
                }
            }
            if !whole {
                break;
            }
        }
        doomed
    }
}
