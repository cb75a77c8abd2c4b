//! The amount that is written, and corners that random histories seldom come to.

use super::*;

/// Puts a value into a store, and changes it a little. Returns the number of leaves that are written then, each time.
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
    // The leaf that loses the member, the one that gets it, and the one that is split off from that.
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
fn small_changes_of_streams_write_few_leaves() {
    let limits = Limits::default();
    let mut stream = Stream::new();
    let append = |stream: &mut Stream, seq: u64| {
        let pairs = [(&b"field"[..], &b"value"[..])].into_iter();
        assert_eq!(stream.log.append(Id::new(1, seq), 1, pairs, &limits), Ok(()));
    };
    (1..=20_000).for_each(|seq| append(&mut stream, seq));
    for name in [b"a", b"b"] {
        assert!(stream.groups.create(name, Group::new(Id::MIN, 0)));
        let group = stream.groups.get_mut(name).expect("created");
        let (consumer, _) = group.enroll(b"consumer", 0);
        (1..=10_000).for_each(|seq| group.deliver(Delivery::new(Id::new(1, seq), 0, 1, consumer)));
    }
    let counts = rewritten(stream.clone(), |stream, i| append(stream, 20_000 + u64::from(i)));
    assert!(counts.iter().all(|n| (1..=2).contains(n)), "{counts:?}");
    // The group, and one leaf of its pending entries.
    let counts = rewritten(stream, |stream, i| {
        let group = stream.groups.get_mut(b"b").expect("created");
        assert!(group.acknowledge(Id::new(1, u64::from(i) * 7)));
    });
    assert!(counts.iter().all(|n| *n == 2), "{counts:?}");
}

/// Saves a large value as a checkpoint would, and compares the store's contents.
fn checkpoint<S: Subject>(store: &mut Store, value: &mut S, epoch: u64) {
    let frozen = value.freeze(NonZeroU64::new(epoch).expect("not 0")).expect("large");
    store.write(0, &Write::Frozen(frozen));
    assert_eq!(store.read(0).and_then(S::from).map(|v| image(v.value())), Some(image(value.value())));
}

#[test]
fn corners_of_streams() {
    let limits = Limits::default();
    let (mut stream, mut store) = (Stream::new(), Store::default());
    let deliver = |stream: &mut Stream, name: &[u8], count: u64| {
        let group = stream.groups.get_mut(name).expect("created");
        let (consumer, _) = group.enroll(b"consumer", 0);
        (0..count).for_each(|seq| group.deliver(Delivery::new(Id::new(1, seq), 0, 1, consumer)));
    };
    assert!(stream.groups.create(b"a", Group::new(Id::MIN, 0)));
    deliver(&mut stream, b"a", 1000);
    for seq in 1..=3 {
        let pairs = [(&b"field"[..], &b"value"[..])].into_iter();
        assert_eq!(stream.log.append(Id::new(1, seq), 1, pairs, &limits), Ok(()));
    }
    checkpoint(&mut store, &mut stream, 1);
    // Pending entries are made anew for the consumers that stay.
    let group = stream.groups.get_mut(b"a").expect("created");
    let (other, _) = group.enroll(b"other", 0);
    (0..500).for_each(|seq| group.deliver(Delivery::new(Id::new(1, seq), 0, 2, other)));
    assert_eq!(group.dismiss(b"consumer"), Some(500));
    checkpoint(&mut store, &mut stream, 100);
    // In the last node alone.
    assert_eq!(stream.log.trim(Trim::Length(2), false, 0), 1);
    checkpoint(&mut store, &mut stream, 2);
    assert!(stream.log.delete(Id::new(1, 3)));
    checkpoint(&mut store, &mut stream, 3);
    assert_eq!(stream.log.trim(Trim::Length(0), false, 0), 1);
    checkpoint(&mut store, &mut stream, 4);
    // The same group under another number.
    let group = stream.groups.destroy(b"a").expect("created");
    assert!(stream.groups.create(b"b", group));
    checkpoint(&mut store, &mut stream, 5);
    // More groups than there are numbers.
    for epoch in 6..30 {
        assert!(stream.groups.create(b"c", Group::new(Id::MIN, 0)));
        deliver(&mut stream, b"c", 3);
        checkpoint(&mut store, &mut stream, epoch);
        assert!(stream.groups.destroy(b"c").is_some());
    }
    let objects = store.leaves.keys().map(|(object, _)| *object).max();
    assert!(objects.is_some_and(|object| object > 6), "written whole when they ran out");
    let labels = store.leaves.keys().map(|(_, label)| label >> 44).max();
    assert!(labels.is_some_and(|section| section <= crate::stream::SECTIONS_MAX));
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
