//! What was logged of whom: what goes wrong again and again is said once.

use std::collections::{BTreeMap, BTreeSet};

/// So many are remembered.
const TOLD_MAX: usize = 256;

/// What was said, by whom it was about.
#[derive(Default)]
pub struct Told(BTreeMap<String, BTreeSet<String>>);

impl Told {
    /// Whether it was not said of them before; it is remembered. Several nodes may be behind one name.
    pub fn is_new(&mut self, of: &str, what: &str) -> bool {
        if self.0.get(of).is_some_and(|told| told.contains(what)) {
            return false;
        }
        // Said again rather than growing with whoever comes.
        if self.0.values().map(BTreeSet::len).sum::<usize>() >= TOLD_MAX {
            self.0.clear();
        }
        self.0.entry(of.to_owned()).or_default().insert(what.to_owned())
    }

    /// It is well again: if not, that is new.
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
