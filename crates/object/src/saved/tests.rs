//! Values and the store against each other: whatever happens to values, what is assembled is what was frozen.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use proptest::prelude::*;

use super::*;
use crate::Limits;
use crate::hash::Expiry;
use crate::list::End;

/// A collection that random changes are made to.
trait Subject: Freeze + Clone + Default {
    fn change(&mut self, change: &Change, limits: &Limits);
    fn value(&self) -> ValueRef<'_>;
    fn from(collection: Collection) -> Option<Self>;
}

/// What each subject makes of it is its own affair.
#[derive(Clone, Debug)]
struct Change {
    what: u8,
    /// Where, of 10,000.
    place: u32,
    count: u16,
    /// Length of strings.
    len: u16,
}

fn text(n: u32, len: u16) -> Vec<u8> {
    let mut text = format!("{n}:").into_bytes();
    text.resize(text.len().max(usize::from(len)), b'.');
    text
}

impl Change {
    fn at(&self, len: u64) -> u64 {
        len * u64::from(self.place) / 10_000
    }

    fn texts(&self) -> impl Iterator<Item = Vec<u8>> {
        let change = self.clone();
        (0..u32::from(self.count)).map(move |i| text((change.place + i) % 10_000, change.len))
    }
}

impl Subject for List {
    fn change(&mut self, change: &Change, limits: &Limits) {
        let at = change.at(self.len());
        match change.what {
            0..=2 => change.texts().for_each(|text| self.push(End::Back, &text, limits)),
            3..=4 => change.texts().for_each(|text| self.push(End::Front, &text, limits)),
            5..=6 => change.texts().for_each(|text| self.insert(at, &text, limits)),
            7 => change.texts().zip(at..).for_each(|(text, i)| _ = self.set(i, &text, limits)),
            8 => self.remove_range(at..at + u64::from(change.count), limits),
            9 => self.drop_end(
                if change.len.is_multiple_of(2) { End::Front } else { End::Back },
                change.count.into(),
                limits,
            ),
            10 => _ = self.remove_equal(End::Front, &text(change.place, change.len), 3, limits),
            _ => (0..change.count).for_each(|_| _ = self.pop(End::Front, limits, |_| ())),
        }
    }

    fn value(&self) -> ValueRef<'_> {
        ValueRef::List(self)
    }

    fn from(collection: Collection) -> Option<Self> {
        if let Collection::List(list) = collection { Some(list) } else { None }
    }
}

impl Subject for Set {
    fn change(&mut self, change: &Change, limits: &Limits) {
        match change.what {
            0..=5 => change.texts().for_each(|text| _ = self.add(&text, limits)),
            6..=9 => change.texts().for_each(|text| _ = self.remove(&text)),
            _ => (0..change.count).for_each(|_| _ = self.remove_nth(change.at(self.len()), |_| ())),
        }
    }

    fn value(&self) -> ValueRef<'_> {
        ValueRef::Set(self)
    }

    fn from(collection: Collection) -> Option<Self> {
        if let Collection::Set(set) = collection { Some(set) } else { None }
    }
}

impl Subject for Hash {
    fn change(&mut self, change: &Change, limits: &Limits) {
        let expiry = if change.len.is_multiple_of(3) { Expiry::At(1 + u64::from(change.len)) } else { Expiry::Keep };
        match change.what {
            0..=5 => change.texts().for_each(|text| _ = self.set(&text[..2], &text, expiry, limits)),
            6..=7 => change.texts().for_each(|text| _ = self.set(&text, b"value", expiry, limits)),
            8..=9 => change.texts().for_each(|text| _ = self.remove(&text)),
            10 => change.texts().for_each(|text| _ = self.set_expiry(&text, Some(1 + u64::from(change.count)))),
            _ => _ = self.reclaim(change.len.into(), change.count.into(), |_| ()),
        }
    }

    fn value(&self) -> ValueRef<'_> {
        ValueRef::Hash(self)
    }

    fn from(collection: Collection) -> Option<Self> {
        if let Collection::Hash(hash) = collection { Some(hash) } else { None }
    }
}

impl Subject for ZSet {
    fn change(&mut self, change: &Change, limits: &Limits) {
        let at = change.at(self.len());
        match change.what {
            0..=3 => change.texts().zip(0u32..).for_each(|(text, i)| {
                _ = self.insert(f64::from(change.place % 100 + i % 7), &text, limits);
            }),
            4..=5 => change.texts().zip(0u32..).for_each(|(text, i)| _ = self.insert(f64::from(i), &text, limits)),
            6..=9 => change.texts().for_each(|text| _ = self.remove(&text)),
            _ => self.remove_range(at..at + u64::from(change.count)),
        }
    }

    fn value(&self) -> ValueRef<'_> {
        ValueRef::ZSet(self)
    }

    fn from(collection: Collection) -> Option<Self> {
        if let Collection::ZSet(zset) = collection { Some(zset) } else { None }
    }
}

/// Everything about a value that anybody sees.
fn image(value: ValueRef<'_>) -> (Vec<u8>, &'static str, Option<u64>) {
    let mut bytes = Vec::new();
    save_small(value, &mut bytes);
    match value {
        ValueRef::List(list) => (bytes, list.encoding(), None),
        ValueRef::Set(set) => (bytes, set.encoding(), None),
        ValueRef::ZSet(zset) => (bytes, zset.encoding(), None),
        ValueRef::Hash(hash) => (bytes, hash.encoding(), hash.next_expiry()),
        ValueRef::Stream(stream) => (bytes, stream.encoding(), None),
        _ => (bytes, "string", None),
    }
}

/// A store as the module's text wants it.
#[derive(Default)]
struct Store {
    records: BTreeMap<u8, Vec<u8>>,
    leaves: BTreeMap<(u64, u64), Vec<u8>>,
}

/// What a checkpoint puts for a key.
enum Write {
    Nothing,
    Record(Vec<u8>),
    Frozen(Frozen),
}

impl Store {
    fn forget(&mut self, object: u64) {
        self.leaves.retain(|(other, _), _| *other != object);
    }

    /// How many leaves were put.
    fn write(&mut self, key: u8, write: &Write) -> usize {
        let old = self.records.get(&key).cloned();
        let frozen = match write {
            Write::Nothing | Write::Record(_) => {
                old.and_then(|old| object_of(&old)).into_iter().for_each(|object| self.forget(object));
                match write {
                    Write::Record(record) => _ = self.records.insert(key, record.clone()),
                    _ => _ = self.records.remove(&key),
                }
                return 0;
            }
            Write::Frozen(frozen) => frozen,
        };
        let changes = frozen.changes(old.as_deref());
        changes.discarded().into_iter().for_each(|object| self.forget(object));
        for labels in changes.removed() {
            self.leaves.retain(|(object, label), _| *object != changes.object() || !labels.contains(label));
        }
        let mut count = 0;
        let put = |label, bytes: &[u8]| {
            self.leaves.insert((changes.object(), label), bytes.to_vec());
            count += 1;
            Ok::<(), ()>(())
        };
        assert_eq!(changes.leaves(put), Ok(()));
        let mut header = Vec::new();
        changes.header(&mut header);
        self.records.insert(key, header);
        count
    }

    fn read(&self, key: u8) -> Option<Collection> {
        let record = self.records.get(&key)?;
        match load(record).expect("what was saved") {
            Loaded::Collection(collection) => Some(collection),
            Loaded::Large(mut assembler) => {
                let object = assembler.object();
                assert_eq!(object_of(record), Some(object));
                for ((_, label), bytes) in self.leaves.range((object, 0)..=(object, u64::MAX)) {
                    assembler.add(*label, bytes).expect("what was saved");
                }
                Some(assembler.finish().expect("what was saved"))
            }
            _ => panic!("a string"),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Change(u8, Change),
    /// Saves what is there, or freezes it and writes it with the next step of this kind.
    Save(u8, bool),
    /// Freezes and forgets it: the disk was full.
    Fail(u8),
    /// Writes it and reads it back.
    Reload(u8),
    Copy(u8, u8),
    Rename(u8, u8),
    Delete(u8),
    /// Goes back to how it was at the last such step.
    Undo(u8),
}

fn change() -> impl Strategy<Value = Change> {
    let len = prop_oneof![Just(0u16), 1..60u16, 100..1500u16];
    let count = prop_oneof![1..4u16, 10..60u16, 100..300u16];
    (0..12u8, 0..10_000u32, count, len).prop_map(|(what, place, count, len)| Change {
        what,
        place,
        // So that it takes no longer with long strings.
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

/// A value that is there, how it was once, and what was frozen of it and is not written yet, with the image of that.
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

    /// Writes what was frozen and compares what the store has then with how it was.
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

/// Puts a value into a store, changes it a little, and tells how many leaves are written then.
fn rewritten<S: Subject>(mut value: S, mut change: impl FnMut(&mut S, u32)) -> Vec<usize> {
    let mut store = Store::default();
    let mut counts = Vec::new();
    for epoch in 1..50u32 {
        let frozen = value.freeze(NonZeroU64::from(NonZeroU64::new(epoch.into()).expect("not 0"))).expect("large");
        counts.push(store.write(0, &Write::Frozen(frozen)));
        change(&mut value, epoch);
    }
    assert_eq!(store.read(0).and_then(S::from).map(|v| image(v.value()).1), Some(image(value.value()).1));
    assert!(counts.remove(0) > 20);
    counts
}

#[test]
fn small_changes_write_few_leaves() {
    let limits = Limits::default();
    let names: Vec<Vec<u8>> = (0..20_000u32).map(|i| text(i, 10)).collect();
    let mut zset = ZSet::new();
    let (mut list, mut set, mut hash) = (List::new(), Set::new(), Hash::new());
    for (name, i) in names.iter().zip(0u32..) {
        assert!(zset.insert(i.into(), name, &limits).is_ok());
        list.push(End::Back, name, &limits);
        set.add(name, &limits);
        hash.set(name, name, Expiry::Clear, &limits);
    }
    // The leaf that loses the member, the one that gets it, and the one that is split off that.
    let counts = rewritten(zset, |zset, i| _ = zset.insert(f64::from(i * 7919 % 20_000), &text(i, 10), &limits));
    assert!(counts.iter().all(|n| (1..=3).contains(n)), "{counts:?}");
    let counts = rewritten(hash, |hash, i| _ = hash.set(&text(i, 10), b"another", Expiry::Clear, &limits));
    assert!(counts.iter().all(|n| *n == 1), "{counts:?}");
    let counts = rewritten(set, |set, i| _ = set.remove(&text(i, 10)));
    assert!(counts.iter().all(|n| *n == 1), "{counts:?}");
    let counts = rewritten(list, |list, i| list.push(End::Back, &text(i, 10), &limits));
    assert!(counts.iter().all(|n| (1..=2).contains(n)), "{counts:?}");
}

#[test]
fn a_place_that_grows_without_end_runs_out_of_labels_and_goes_on() {
    let limits = Limits::default();
    let (mut list, mut store) = (List::new(), Store::default());
    for i in 0..2000u32 {
        list.push(End::Back, &text(i, 100), &limits);
    }
    let mut wholes = 0;
    for epoch in 1..60u32 {
        (0..100).for_each(|i| list.insert(1000, &text(i, 100), &limits));
        let frozen = list.freeze(NonZeroU64::new(epoch.into()).expect("not 0")).expect("large");
        let count = store.write(0, &Write::Frozen(frozen));
        wholes += usize::from(count > 20);
        assert_eq!(store.read(0).and_then(<List as Subject>::from).as_ref(), Some(&list));
    }
    assert!((2..6).contains(&wholes), "{wholes} times all was written");
}

/// The header, and the leaves as far as they are shown: label and bytes.
fn frozen_bytes<S: Subject>(mut value: S) -> (Vec<u8>, Vec<(u64, Vec<u8>)>) {
    let frozen = value.freeze(NonZeroU64::new(0x0102_0304_0506_0708).expect("not 0")).expect("large");
    let changes = frozen.changes(None);
    let (mut header, mut leaves) = (Vec::new(), Vec::new());
    changes.header(&mut header);
    let put = |label, bytes: &[u8]| {
        leaves.push((label, bytes[..bytes.len().min(24)].to_vec()));
        Ok::<(), ()>(())
    };
    assert_eq!(changes.leaves(put), Ok(()));
    (header, leaves)
}

const IDS: [u8; 16] = [8, 7, 6, 5, 4, 3, 2, 1, 8, 7, 6, 5, 4, 3, 2, 1];

/// The bytes of version 1. If this fails, stores that exist cannot be read any more.
#[test]
fn formats_stay() {
    let limits = Limits::default();
    let long = vec![b'x'; 8300];

    let mut list = List::new();
    list.push(End::Back, b"a", &limits);
    list.push(End::Back, b"300", &limits);
    list.push(End::Back, &long, &limits);
    let (header, leaves) = frozen_bytes(list);
    assert_eq!(header, [&[0x19][..], &IDS, &[2, 3, 1]].concat());
    assert_eq!(leaves.len(), 2);
    assert_eq!(leaves[0], (1 << 63, vec![0x19, 0x81, b'a', 2, 0xe2, 0x2c, 0x01, 3]));
    assert_eq!(leaves[1].0, (1 << 63) + (1 << 32));
    assert_eq!(leaves[1].1[..8], [0x19, 0xd0, 0x6c, 0x20, 0, 0, b'x', b'x']);

    let seed = seed_check_bytes();
    let mut set = Set::new();
    set.add(&long, &limits);
    let (header, leaves) = frozen_bytes(set);
    assert_eq!(header, [&[0x1a][..], &IDS, &[1, 1], &seed].concat());
    assert_eq!((leaves[0].0, &leaves[0].1[..5]), (0, &[0x1a, 0xec, 0x40, b'x', b'x'][..]));

    let mut hash = Hash::new();
    hash.set(b"field", &long, Expiry::At(0x0605_0403_0201), &limits);
    let (header, leaves) = frozen_bytes(hash);
    assert_eq!(header, [&[0x1c][..], &IDS, &[1, 1], &seed].concat());
    let start = [&[0x1c, 0xf8, 0x40, 5 << 1 | 1, 1, 2, 3, 4, 5, 6][..], b"fieldxx"].concat();
    assert_eq!((leaves[0].0, &leaves[0].1[..17]), (0, &start[..]));

    let mut zset = ZSet::new();
    assert!(zset.insert(1.5, b"m", &limits).is_ok() && zset.insert(2.0, &long, &limits).is_ok());
    let (header, leaves) = frozen_bytes(zset);
    assert_eq!(header[..19], [&[0x1b][..], &IDS, &[leaves.len() as u8, 2]].concat());
    assert_eq!(leaves[0].1[..11], [0x1b, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 1, b'm']);

    let small = |value| {
        let mut record = Vec::new();
        save_small(value, &mut record);
        record
    };
    assert_eq!(small(ValueRef::Int(-2)), [0x10, 3]);
    assert_eq!(small(ValueRef::Short(b"ab")), *b"\x11ab");
    assert_eq!(small(ValueRef::Raw(b"ab")), *b"\x12ab");
    assert_eq!(small(ValueRef::Blob(b"ab")), *b"\x13ab");
    let mut list = List::new();
    list.push(End::Back, b"a", &limits);
    assert_eq!(small(ValueRef::List(&list)), [0x14, 1, 0, 0x81, b'a', 2]);
}

/// Golden bytes for the seed that tests have; another would give other bytes in this place.
fn seed_check_bytes() -> [u8; 8] {
    crate::hashed::seed_check().to_le_bytes()
}

#[test]
fn strings_come_back() {
    let mut record = Vec::new();
    for int in [0, 1, -1, i64::MIN, i64::MAX] {
        record.clear();
        save_small(ValueRef::Int(int), &mut record);
        assert!(matches!(load(&record), Ok(Loaded::Int(read)) if read == int));
    }
    for bytes in [&b""[..], b"a", &[0; 100_000]] {
        for value in [ValueRef::Short(bytes), ValueRef::Raw(bytes), ValueRef::Blob(bytes)] {
            record.clear();
            save_small(value, &mut record);
            let same = match (value, load(&record)) {
                (ValueRef::Short(_), Ok(Loaded::Short(read))) => read == bytes,
                (ValueRef::Raw(_), Ok(Loaded::Raw(read))) => read == bytes,
                (ValueRef::Blob(_), Ok(Loaded::Blob(read))) => read == bytes,
                _ => false,
            };
            assert!(same && object_of(&record).is_none());
        }
    }
}

#[test]
fn marks_of_another_process_are_made_anew() {
    let limits = Limits::default();
    let mut hash = Hash::new();
    (0..1000).for_each(|i| _ = hash.set(&text(i, 10), b"value", Expiry::At(u64::from(i) + 5), &limits));
    let mut store = Store::default();
    let frozen = hash.freeze(NonZeroU64::MIN).expect("large");
    store.write(0, &Write::Frozen(frozen));
    let record = store.records.get_mut(&0).expect("written");
    *record.last_mut().expect("not empty") ^= 1;
    let mut read = store.read(0).and_then(<Hash as Subject>::from).expect("a hash");
    assert_eq!(image(read.value()), image(hash.value()));
    // It knows of no freeze, so it is written whole.
    assert!(read.freeze(NonZeroU64::MAX).expect("large").changes(Some(&store.records[&0])).discarded().is_some());
}

#[test]
fn frozen_values_cross_threads_and_small_ones_take_no_more_room() {
    fn crosses<T: Send>() {}
    crosses::<Frozen>();
    // Whatever large collections remember must not make small ones larger.
    assert_eq!((size_of::<List>(), size_of::<Set>(), size_of::<Hash>(), size_of::<ZSet>()), SIZES);
}

const SIZES: (usize, usize, usize, usize) = (56, 48, 48, 40);

proptest! {
    #[test]
    fn any_bytes_are_refused_or_read(
        record in prop::collection::vec(any::<u8>(), 0..60),
        kind in 0u8..14,
        leaves in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..3),
    ) {
        let mut record = record;
        record.insert(0, VERSION | kind);
        if let Ok(Loaded::Large(mut assembler)) = load(&record) {
            for (leaf, label) in leaves.iter().zip(0..) {
                let leaf = [&[VERSION | kind][..], leaf].concat();
                if assembler.add(label, &leaf).is_err() {
                    return Ok(());
                }
            }
            _ = assembler.finish();
        }
    }
}
