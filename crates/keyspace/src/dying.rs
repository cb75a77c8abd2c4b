//! Large deleted values that wait to be freed, in steps.
//!
//! A key is gone at once. Its value, perhaps millions of elements, is freed little by little in the turns of the
//! worker's loop.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::heap;
use crate::value::{Blob, Value};

/// Collections with less heap than this are freed at once: some tens of allocations.
const COLLECTION_BYTES: usize = 256 * 1024;
/// Strings below this are freed at once; the system takes 0.1 ms or so to take back a megabyte.
const STRING_BYTES: usize = 1 << 20;
/// Bytes of a string given back to the system for one unit of the budget.
const STRING_STEP: usize = 64 * 1024;

/// A worker's share of them.
#[derive(Default)]
pub(crate) struct Dying {
    values: VecDeque<Value>,
    /// Bytes at the front of the first one, a long string, that were given back to the system.
    returned: usize,
}

impl Dying {
    /// Drops a value: at once if that is quick.
    pub(crate) fn add(&mut self, value: Value) {
        let large = match &value {
            Value::Blob(blob) => blob.capacity() >= STRING_BYTES,
            Value::Collection(collection) => collection.memory() >= COLLECTION_BYTES,
            Value::Int(_) | Value::Short(_) | Value::Raw(_) => false,
        };
        if large {
            self.values.push_back(value);
        }
    }

    /// True if nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// How many values wait.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Frees about `budget` allocations. True: nothing is left.
    pub(crate) fn step(&mut self, mut budget: usize) -> bool {
        while budget > 0
            && let Some(value) = self.values.front_mut()
        {
            match value {
                Value::Collection(collection) => collection.shed(&mut budget),
                Value::Blob(blob) => self.returned += shrink(blob, self.returned, &mut budget),
                Value::Int(_) | Value::Short(_) | Value::Raw(_) => {}
            }
            if budget > 0 {
                self.values.pop_front();
                self.returned = 0;
                budget -= 1;
            }
        }
        self.values.is_empty()
    }
}

/// Gives the memory of a string's bytes from `from` on back to the system, as far as the budget goes. Returns how many
/// bytes; if budget is left, all of them are.
fn shrink(blob: &mut Arc<Blob>, from: usize, budget: &mut usize) -> usize {
    // A reader still has it, perhaps a reply: it is freed when the reader lets go.
    let Some(bytes) = Arc::get_mut(blob) else { return 0 };
    bytes.clear();
    let spare = bytes.spare_capacity_mut();
    let end = spare.len().min(from.saturating_add(budget.saturating_mul(STRING_STEP)));
    let Some(part) = spare.get_mut(from..end) else { return 0 };
    *budget = budget.saturating_sub(part.len().div_ceil(STRING_STEP));
    if let Some(start) = NonNull::new(part.as_mut_ptr().cast::<u8>()) {
        // SAFETY: the range is the spare room of a vector that is ours alone: nobody relies on its contents, and bytes
        // that become zero are as good as any.
        unsafe { heap::give_back(start, part.len()) };
    }
    part.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{Limits, Set};

    #[test]
    fn large_values_go_in_steps() {
        let mut dying = Dying::default();
        let mut set = Set::new();
        for i in 0..100_000 {
            set.add(format!("member:{i}").as_bytes(), &Limits::default());
        }
        dying.add(Value::Int(5));
        dying.add(set.into());
        dying.add(Value::Blob(Arc::new(vec![1; 10 << 20])));
        let shared = Arc::new(vec![7; 10 << 20]);
        dying.add(Value::Blob(shared.clone()));
        assert_eq!(dying.values.len(), 3);
        let mut steps = 0;
        while !dying.step(20) {
            steps += 1;
        }
        assert!((15..100).contains(&steps), "{steps}");
        assert!(shared.iter().all(|&b| b == 7) && Arc::strong_count(&shared) == 1);
    }
}
