//! Checks that clients saw lists as if the transactions that append to them had run one after the other.

use std::collections::BTreeMap;

/// The knowledge about a transaction whose client was answered.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Observed {
    pub id: u32,
    /// A key of any node (keys are not in two nodes), and its list then.
    pub reads: Vec<(u16, Vec<u32>)>,
    pub writes: Vec<u16>,
    /// When the client asked and when it was answered. A transaction that is answered before another begins comes
    /// before it.
    pub began: u64,
    pub answered: u64,
}

/// Compares with the present lists. They may lack acknowledged changes that are not installed yet, except if
/// `complete`.
pub fn check(observed: &[Observed], lists: &BTreeMap<u16, Vec<u32>>, complete: bool) -> Result<(), String> {
    let empty = Vec::new();
    let list = |key: &u16| lists.get(key).unwrap_or(&empty);
    let mut edges: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut edge = |a: u32, b: u32| {
        if a != b {
            edges.entry(a).or_default().push(b);
            edges.entry(b).or_default();
        }
    };
    for (key, list) in lists {
        let mut sorted = list.clone();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(format!("key {key}: somebody appended twice: {list:?}"));
        }
        list.windows(2).for_each(|pair| edge(pair[0], pair[1]));
    }
    for tx in observed {
        for (key, read) in &tx.reads {
            let list = list(key);
            let common = read.len().min(list.len());
            if read[..common] != list[..common] || (complete && read.len() > list.len()) {
                return Err(format!("key {key}: {} read {read:?}, which {list:?} never was", tx.id));
            }
            if let Some(last) = read.last() {
                edge(*last, tx.id);
            }
            if let Some(next) = list.get(read.len()) {
                edge(tx.id, *next);
                if tx.writes.contains(key) && *next != tx.id {
                    return Err(format!("key {key}: {} read {read:?} and appended; it became {list:?}", tx.id));
                }
            }
        }
        for key in &tx.writes {
            if complete && !list(key).contains(&tx.id) {
                return Err(format!("key {key}: {} was answered and is not in {:?}", tx.id, list(key)));
            }
        }
        for later in observed.iter().filter(|later| later.began > tx.answered) {
            edge(tx.id, later.id);
        }
    }
    acyclic(&edges)
}

fn acyclic(edges: &BTreeMap<u32, Vec<u32>>) -> Result<(), String> {
    let mut before: BTreeMap<u32, usize> = edges.keys().map(|id| (*id, 0)).collect();
    for to in edges.values().flatten() {
        *before.entry(*to).or_default() += 1;
    }
    let mut free: Vec<u32> = before.iter().filter(|(_, n)| **n == 0).map(|(id, _)| *id).collect();
    let mut done = 0;
    while let Some(id) = free.pop() {
        done += 1;
        for to in edges.get(&id).into_iter().flatten() {
            if let Some(n) = before.get_mut(to) {
                *n -= 1;
                if *n == 0 {
                    free.push(*to);
                }
            }
        }
    }
    if done == before.len() {
        return Ok(());
    }
    let circle: Vec<u32> = before.iter().filter(|(_, n)| **n > 0).map(|(id, _)| *id).collect();
    Err(format!("no order of {circle:?} explains what they saw"))
}
