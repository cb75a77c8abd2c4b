//! Random histories of two keys: changes, copies, renames, undos, failed checkpoints, restarts.

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Change(u8, Change),
    /// Saves the value, or freezes it and writes it with the next step of this kind.
    Save(u8, bool),
    /// Freezes the value and forgets that: the disk was full.
    Fail(u8),
    /// Writes the value and reads it back.
    Reload(u8),
    Copy(u8, u8),
    Rename(u8, u8),
    Delete(u8),
    /// Goes back to the value at the last such step.
    Undo(u8),
}

fn change() -> impl Strategy<Value = Change> {
    let len = prop_oneof![Just(0u16), 1..60u16, 100..1500u16];
    let count = prop_oneof![1..4u16, 10..60u16, 100..300u16];
    (0..12u8, 0..10_000u32, count, len).prop_map(|(what, place, count, len)| Change {
        what,
        place,
        // Long strings are few, to save time.
        count: if len > 99 { count.min(60) } else { count },
        len,
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..2u8;
    let step = prop_oneof![
        12 => (key(), change()).prop_map(|(key, change)| Step::Change(key, change)),
        6 => (key(), any::<bool>()).prop_map(|(key, later)| Step::Save(key, later)),
        1 => key().prop_map(Step::Fail),
        2 => key().prop_map(Step::Reload),
        1 => (key(), key()).prop_map(|(from, to)| Step::Copy(from, to)),
        1 => (key(), key()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => key().prop_map(Step::Delete),
        1 => key().prop_map(Step::Undo),
    ];
    prop::collection::vec(step, 1..60)
}

/// A value, an earlier state of it, and a frozen state that is not written yet, with its image.
struct Key<S> {
    value: Option<S>,
    before: Option<S>,
    pending: Option<(Write, Option<S>)>,
}

struct World<S> {
    keys: [Key<S>; 2],
    store: Store,
    epoch: u64,
}

impl<S: Subject> World<S> {
    fn freeze(&mut self, key: u8) -> Write {
        self.epoch += 1;
        let Some(value) = &mut self.keys[usize::from(key)].value else { return Write::Nothing };
        let epoch = NonZeroU64::new(self.epoch).expect("counted up");
        match value.freeze(epoch) {
            Some(frozen) => Write::Frozen(frozen),
            None => {
                assert!(!value.is_large());
                let mut record = Vec::new();
                save_small(value.value(), &mut record);
                Write::Record(record)
            }
        }
    }

    /// Writes the frozen state, and compares the store's contents with it.
    fn write(&mut self, key: u8) -> Option<S> {
        let (write, was) = self.keys[usize::from(key)].pending.take()?;
        self.store.write(key, &write);
        let read = self.store.read(key).and_then(S::from);
        assert_eq!(read.as_ref().map(|v| image(v.value())), was.as_ref().map(|v| image(v.value())));
        let objects: Vec<u64> = self.store.records.values().filter_map(|record| object_of(record)).collect();
        assert!(self.store.leaves.keys().all(|(object, _)| objects.contains(object)), "leaves of nobody");
        read
    }

    fn save(&mut self, key: u8) -> Option<S> {
        self.write(key);
        let write = self.freeze(key);
        let was = self.keys[usize::from(key)].value.clone();
        self.keys[usize::from(key)].pending = Some((write, was));
        self.write(key)
    }

    fn step(&mut self, step: &Step, limits: &Limits) {
        let (Step::Change(key, _)
        | Step::Save(key, _)
        | Step::Fail(key)
        | Step::Reload(key)
        | Step::Copy(key, _)
        | Step::Rename(key, _)
        | Step::Delete(key)
        | Step::Undo(key)) = step;
        let at = usize::from(*key);
        match step {
            Step::Change(_, change) => {
                let value = self.keys[at].value.get_or_insert_default();
                value.change(change, limits);
            }
            Step::Save(_, false) => _ = self.save(*key),
            Step::Save(_, true) => {
                self.write(*key);
                let write = self.freeze(*key);
                let was = self.keys[at].value.clone();
                self.keys[at].pending = Some((write, was));
            }
            Step::Fail(_) => _ = self.freeze(*key),
            Step::Reload(_) => self.keys[at].value = self.save(*key),
            Step::Copy(_, to) => self.keys[usize::from(*to)].value = self.keys[at].value.clone(),
            Step::Rename(_, to) => {
                let value = self.keys[at].value.take();
                self.keys[usize::from(*to)].value = value;
            }
            Step::Delete(_) => self.keys[at].value = None,
            Step::Undo(_) => {
                let value = self.keys[at].value.clone();
                self.keys[at].value = std::mem::replace(&mut self.keys[at].before, value);
            }
        }
    }
}

fn histories<S: Subject>(steps: &[Step], limits: &Limits) {
    let key = || Key { value: None, before: None, pending: None };
    let mut world = World::<S> { keys: [key(), key()], store: Store::default(), epoch: 0 };
    for step in steps {
        world.step(step, limits);
    }
    for key in [0, 1] {
        world.save(key);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 60 }))]

    #[test]
    fn lists_come_back(steps in steps()) {
        histories::<List>(&steps, &Limits::default());
    }

    #[test]
    fn sets_come_back(steps in steps()) {
        histories::<Set>(&steps, &Limits { set_max_listpack_entries: 20, ..Limits::default() });
    }

    #[test]
    fn hashes_come_back(steps in steps()) {
        histories::<Hash>(&steps, &Limits { hash_max_listpack_entries: 20, ..Limits::default() });
    }

    #[test]
    fn sorted_sets_come_back(steps in steps()) {
        histories::<ZSet>(&steps, &Limits { zset_max_listpack_entries: 20, ..Limits::default() });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 150 }))]

    #[test]
    fn streams_come_back(steps in steps()) {
        histories::<Stream>(&steps, &Limits::default());
    }
}
