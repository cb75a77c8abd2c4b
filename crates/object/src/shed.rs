//! Freeing a large value in steps.
//!
//! A collection of ten million elements is a hundred thousand allocations. Dropping it at once would make every other
//! client wait. So each collection has a method `shed(&mut self, budget: &mut usize)`. It frees nodes from the end,
//! takes from the budget roughly one for each allocation freed, and stops when the budget is spent. If budget is left,
//! nothing large is left of the value, and dropping it costs little. Nodes that are shared with a clone are only let
//! go.
//!
//! A value that has begun to shed must not be used for anything else: its counts no longer agree with its contents.

/// A large allocation costs more: the system gets its pages back.
const BYTES_PER_UNIT: usize = 64 * 1024;

/// The cost of freeing one allocation of `bytes`, in units of the budget.
pub(crate) fn cost(bytes: usize) -> usize {
    1 + bytes / BYTES_PER_UNIT
}

#[cfg(test)]
mod tests {
    use crate::{Hash, Limits, List, Set, ZSet, list::End};

    /// Sheds in steps of `step`; how many it took.
    fn steps(step: usize, mut shed: impl FnMut(&mut usize)) -> usize {
        for n in 1..1_000_000 {
            let mut budget = step;
            shed(&mut budget);
            if budget > 0 {
                return n;
            }
        }
        panic!("it never ends");
    }

    #[test]
    fn values_are_freed_in_steps_and_clones_stay_whole() {
        let limits = Limits::default();
        let names: Vec<Vec<u8>> = (0..20_000).map(|i| format!("element {i}").into_bytes()).collect();
        let mut list = List::new();
        let mut set = Set::new();
        let mut hash = Hash::new();
        let mut zset = ZSet::new();
        for (i, name) in names.iter().enumerate() {
            list.push(End::Back, name, &limits);
            set.add(name, &limits);
            hash.set(name, name, crate::hash::Expiry::Clear, &limits);
            let long = [name.as_slice(), &[b'x'; 300]].concat();
            assert!(zset.insert(i as f64, if i % 2 == 0 { name } else { &long }, &limits).is_ok());
        }
        let clones = (list.clone(), set.clone(), hash.clone(), zset.clone());
        assert_eq!(steps(10, |b| list.shed(b)), 1, "everything is shared");
        assert_eq!(steps(10, |b| zset.shed(b)), 1);
        drop((list, set, hash, zset));

        let (mut list, mut set, mut hash, mut zset) = clones;
        assert_eq!((list.len(), set.len(), hash.len(), zset.len()), (20_000, 20_000, 20_000, 20_000));
        assert!(steps(10, |b| list.shed(b)) >= 3);
        assert!(steps(10, |b| set.shed(b)) >= 3);
        assert!(steps(10, |b| hash.shed(b)) >= 5);
        assert!(steps(10, |b| zset.shed(b)) >= 50);
    }

    #[test]
    fn small_values_have_nothing_to_shed() {
        let mut budget = 1;
        List::new().shed(&mut budget);
        Set::new().shed(&mut budget);
        Hash::new().shed(&mut budget);
        ZSet::new().shed(&mut budget);
        assert_eq!(budget, 1);
    }
}
