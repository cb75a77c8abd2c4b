//! The last log lines about nodes: a fault that repeats is logged once.

use std::collections::{BTreeMap, BTreeSet};

/// So many are remembered.
const TOLD_MAX: usize = 256;

/// The lines, by the node that they were about.
#[derive(Default)]
pub struct Told(BTreeMap<String, BTreeSet<String>>);

impl Told {
    /// True if this is new for the node; it is remembered. Several nodes may be behind one name.
    pub fn is_new(&mut self, of: &str, what: &str) -> bool {
        if self.0.get(of).is_some_and(|told| told.contains(what)) {
            return false;
        }
        // A line is repeated so that memory does not grow with the number of callers.
        if self.0.values().map(BTreeSet::len).sum::<usize>() >= TOLD_MAX {
            self.0.clear();
        }
        self.0.entry(of.to_owned()).or_default().insert(what.to_owned())
    }

    /// The node is well again: a later fault is new.
    pub fn forget(&mut self, of: &str) {
        self.0.remove(of);
    }
}

#[test]
fn it_is_said_once() {
    let mut told = Told::default();
    assert!(told.is_new("a", "wrong") && !told.is_new("a", "wrong") && told.is_new("b", "wrong"));
    assert!(told.is_new("a", "worse"));
    assert!(!told.is_new("a", "wrong") && !told.is_new("a", "worse"), "two nodes that come in turn");
    told.forget("a");
    assert!(told.is_new("a", "worse") && !told.is_new("b", "wrong"));
}
