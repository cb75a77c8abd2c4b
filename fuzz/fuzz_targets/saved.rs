//! Records and leaves of a store: any bytes are a value or are refused, and a value that is accepted works, and is
//! saved and read the same. The first byte chooses between bytes as they come and those of a value that was built, with
//! one of them changed.

#![no_main]

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use clocks::UnixMs;
use libfuzzer_sys::fuzz_target;
use object::hash::Expiry;
use object::list::End;
use object::saved::{Assembled, Collection, Freeze, Loaded, ValueRef, load, save_small};
use object::stream::{Delivery, Group, Id, Trim};
use object::{Hash, Limits, List, Set, Stream, ZSet};

type Leaves = BTreeMap<u64, Vec<u8>>;

fn value_ref(value: &Collection) -> ValueRef<'_> {
    match value {
        Collection::List(list) => ValueRef::List(list),
        Collection::Set(set) => ValueRef::Set(set),
        Collection::ZSet(zset) => ValueRef::ZSet(zset),
        Collection::Hash(hash) => ValueRef::Hash(hash),
        Collection::Stream(stream) => ValueRef::Stream(stream),
    }
}

fn image(value: &Collection) -> Vec<u8> {
    let mut out = Vec::new();
    match value {
        Collection::List(list) => list.encode(&mut out),
        Collection::Set(set) => set.encode(&mut out),
        Collection::ZSet(zset) => zset.encode(&mut out),
        Collection::Hash(hash) => hash.encode(&mut out),
        Collection::Stream(stream) => stream.encode(&mut out),
    }
    out
}

fn memory(value: &Collection) -> usize {
    match value {
        Collection::List(list) => list.memory(),
        Collection::Set(set) => set.memory(),
        Collection::ZSet(zset) => zset.memory(),
        Collection::Hash(hash) => hash.memory(),
        Collection::Stream(stream) => stream.memory(),
    }
}

/// Reads a collection.
fn read(record: &[u8], leaves: &Leaves) -> Option<Collection> {
    match load(record).ok()? {
        Loaded::Collection(collection) => Some(collection),
        Loaded::Large(mut assembler) => {
            for (label, leaf) in leaves {
                assembler.add(*label, leaf).ok()?;
            }
            match assembler.finish().ok()? {
                Assembled::Collection(collection) => Some(collection),
                Assembled::String(text) => {
                    assert!(text.capacity() <= leaves.values().map(Vec::len).sum::<usize>() * (leaves.len() + 1));
                    None
                }
            }
        }
        _ => None,
    }
}

/// Saves as a checkpoint does that finds `stored` in the store, whose leaves are changed to what it leaves there.
fn save(value: &mut Collection, epoch: u64, stored: Option<&[u8]>, leaves: &mut Leaves) -> Vec<u8> {
    let epoch = NonZeroU64::new(epoch).expect("not 0");
    let frozen = match value {
        Collection::List(list) => list.freeze(epoch),
        Collection::Set(set) => set.freeze(epoch),
        Collection::ZSet(zset) => zset.freeze(epoch),
        Collection::Hash(hash) => hash.freeze(epoch),
        Collection::Stream(stream) => stream.freeze(epoch),
    };
    let mut record = Vec::new();
    let Some(frozen) = frozen else {
        leaves.clear();
        save_small(value_ref(value), &mut record);
        return record;
    };
    let changes = frozen.changes(stored);
    if changes.object() == epoch.get() {
        leaves.clear();
    }
    for labels in changes.removed() {
        leaves.retain(|label, _| !labels.contains(label));
    }
    let put = |label, bytes: &[u8]| {
        leaves.insert(label, bytes.to_vec());
        Ok::<(), ()>(())
    };
    changes.leaves(put).expect("never fails");
    changes.header(&mut record);
    record
}

/// Changes a value: three bytes say how.
fn change(value: &mut Collection, step: [u8; 3]) {
    let limits = Limits { stream_node_max_entries: 10, ..Limits::default() };
    let [what, place, many] = step;
    let text = |i: u8| {
        let mut text = format!("{}:", place.wrapping_add(i)).into_bytes();
        text.resize(text.len() + usize::from(what / 16) * 20, b'.');
        text
    };
    match value {
        Collection::List(list) => match what % 4 {
            0 => (0..many).for_each(|i| list.push(End::Back, &text(i), &limits)),
            1 => (0..many).for_each(|i| list.insert(u64::from(place) * 10, &text(i), &limits)),
            2 => list.remove_range(place.into()..u64::from(place) + u64::from(many), &limits),
            _ => (0..many).for_each(|_| _ = list.pop(End::Front, &limits, |_| ())),
        },
        Collection::Set(set) => match what % 2 {
            0 => (0..many).for_each(|i| _ = set.add(&text(i), &limits)),
            _ => (0..many).for_each(|i| _ = set.remove(&text(i))),
        },
        Collection::ZSet(zset) => match what % 3 {
            0 => (0..many).for_each(|i| _ = zset.insert(f64::from(i % 9), &text(i), &limits)),
            1 => (0..many).for_each(|i| _ = zset.remove(&text(i))),
            _ => zset.remove_range(place.into()..u64::from(place) + u64::from(many)),
        },
        Collection::Hash(hash) => match what % 4 {
            0 => (0..many).for_each(|i| _ = hash.set(&text(i), &text(i), Expiry::Keep, &limits)),
            1 => (0..many).for_each(|i| _ = hash.set(&text(i), b"1", Expiry::At(UnixMs(1 + u64::from(place))), &limits)),
            2 => (0..many).for_each(|i| _ = hash.remove(&text(i))),
            _ => _ = hash.reclaim(UnixMs(many.into()), place.into(), |_| ()),
        },
        Collection::Stream(stream) => match what % 6 {
            0 => {
                for i in 0..many {
                    let Some(id) = stream.log.next_id(UnixMs(place.into())) else { return };
                    let text = text(i);
                    let pairs = [(&text[..1], &text[..])].into_iter();
                    // The size is far below the limit, and the ID is the next.
                    let added = stream.log.append(id, 1, pairs, &limits);
                    assert_eq!(added, Ok(()));
                }
            }
            1 => {
                let ids: Vec<Id> = stream.log.range(Id::MIN, Id::MAX).map(|entry| entry.id).collect();
                ids.into_iter().skip(place.into()).take(many.into()).for_each(|id| assert!(stream.log.delete(id)));
            }
            2 => _ = stream.log.trim(Trim::Length(place.into()), many % 2 == 0, 0),
            3 if !stream.groups.create(&[many], Group::new(Id::MIN, 0)) => _ = stream.groups.destroy(&[many]),
            4 => {
                let Some(group) = stream.groups.get_mut(&[place % 4]) else { return };
                let (consumer, _) = group.enroll(&[what], 1);
                let delivery = |i| Delivery::new(Id::new(place.into(), i), 1, 1, consumer);
                (0..many.into()).for_each(|i| group.deliver(delivery(i)));
            }
            5 => {
                let Some(group) = stream.groups.get_mut(&[place % 4]) else { return };
                let ids: Vec<Id> = group.pending_from(Id::MIN).take(many.into()).map(|delivery| delivery.id).collect();
                ids.into_iter().for_each(|id| assert!(group.acknowledge(id)));
                group.dismiss(&[what]);
            }
            _ => {}
        },
    }
}

/// A value that was accepted takes changes, and comes back from a store after each checkpoint.
fn use_it(mut value: Collection, steps: &[u8]) {
    let (mut leaves, mut stored) = (Leaves::new(), None);
    for (epoch, step) in (1u64 << 40..).zip(steps.chunks(3).take(4)) {
        let record = save(&mut value, epoch, stored.as_deref(), &mut leaves);
        let again = read(&record, &leaves).expect("what was saved");
        assert!(image(&again) == image(&value), "it comes back the same");
        stored = Some(record);
        if let Ok(step) = step.try_into() {
            change(&mut value, step);
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&mode, rest)) = data.split_first() else { return };
    let (mut leaves, mut bytes) = (Leaves::new(), rest.len());
    let (record, steps) = if mode % 2 == 0 {
        // Length (1), record; then as often as there are bytes: label (8), length (1), leaf.
        let Some((&len, rest)) = rest.split_first() else { return };
        let (record, mut rest) = rest.split_at(rest.len().min(len.into()));
        while let Some((label, more)) = rest.split_first_chunk() {
            let Some((&len, more)) = more.split_first() else { break };
            let (leaf, more) = more.split_at(more.len().min(len.into()));
            leaves.insert(u64::from_be_bytes(*label), leaf.to_vec());
            rest = more;
        }
        (record.to_vec(), rest)
    } else {
        let Some(([which, at, to, damaged], rest)) = rest.split_first_chunk() else { return };
        let mut value = match mode / 2 % 5 {
            0 => Collection::List(List::new()),
            1 => Collection::Set(Set::new()),
            2 => Collection::ZSet(ZSet::new()),
            3 => Collection::Hash(Hash::new()),
            _ => Collection::Stream(Stream::new()),
        };
        for step in rest.as_chunks().0.iter().take(20) {
            // Twice what has leaves; more would only take longer.
            if memory(&value) < 32 << 10 {
                change(&mut value, *step);
            }
        }
        let mut record = save(&mut value, 1, None, &mut leaves);
        bytes = record.len() + leaves.values().map(Vec::len).sum::<usize>();
        let n = leaves.len() + 1;
        let part = leaves.values_mut().chain([&mut record]).nth(usize::from(*which) % n).expect("below their number");
        let len = part.len();
        if let Some(byte) = part.get_mut(usize::from(*at) * (1 + usize::from(*damaged) * len / 65536) % len.max(1)) {
            *byte ^= to;
        }
        (record, rest)
    };
    let Some(value) = read(&record, &leaves) else { return };
    // An element costs a few dozen bytes beside its own, a consumer about a hundred.
    assert!(memory(&value) <= 64 * 1024 + bytes * 160, "{} of {bytes}", memory(&value));
    use_it(value, steps);
});
