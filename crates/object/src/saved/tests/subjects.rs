//! Collections that are changed at random, and their images.

use clocks::UnixMs;

use super::*;

/// A collection that is changed at random.
pub(super) trait Subject: Freeze + Clone + Default {
    fn change(&mut self, change: &Change, limits: &Limits);
    fn value(&self) -> ValueRef<'_>;
    fn from(collection: Collection) -> Option<Self>;
}

/// A random change; each subject interprets it.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub what: u8,
    /// The place, of 10,000.
    pub place: u32,
    pub count: u16,
    /// Length of strings.
    pub len: u16,
}

pub(super) fn text(n: u32, len: u16) -> Vec<u8> {
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
        let expiry =
            if change.len.is_multiple_of(3) { Expiry::At(UnixMs(1 + u64::from(change.len))) } else { Expiry::Keep };
        match change.what {
            0..=5 => change.texts().for_each(|text| _ = self.set(&text[..2], &text, expiry, limits)),
            6..=7 => change.texts().for_each(|text| _ = self.set(&text, b"value", expiry, limits)),
            8..=9 => change.texts().for_each(|text| _ = self.remove(&text)),
            10 => change.texts().for_each(|text| _ = self.set_expiry(&text, Some(UnixMs(1 + u64::from(change.count))))),
            _ => _ = self.reclaim(UnixMs(change.len.into()), change.count.into(), |_| ()),
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

impl Subject for Stream {
    fn change(&mut self, change: &Change, limits: &Limits) {
        let limits = Limits { stream_node_max_bytes: 600, stream_node_max_entries: 20, ..limits.clone() };
        let at = Id::new(u64::from(change.place) / 3, 0);
        let name = [b'a' + (change.place % 2) as u8];
        match change.what {
            0..=2 => {
                for text in change.texts() {
                    let id = self.log.next_id(UnixMs(at.ms));
                    let pairs = [(&b"field"[..], &text[..]), (&text[..1], b"7")];
                    let pairs = pairs[..1 + usize::from(change.len % 2)].iter().copied();
                    let added = id.map(|id| self.log.append(id, pairs.len(), pairs, &limits));
                    assert_eq!(added, Some(Ok(())));
                }
            }
            3 => {
                let (skip, count) = (change.at(self.len()) as usize, usize::from(change.count));
                let ids: Vec<Id> = match change.place % 3 {
                    0 => self.log.range_back(Id::MIN, Id::MAX).take(count).map(|e| e.id).collect(),
                    // All but some.
                    1 => self.log.range(Id::MIN, Id::MAX).map(|e| e.id).filter(|id| id.seq % 100 > 10).collect(),
                    _ => self.log.range(Id::MIN, Id::MAX).skip(skip).take(count).map(|e| e.id).collect(),
                };
                ids.into_iter().for_each(|id| _ = self.log.delete(id));
            }
            4 => {
                let most = if change.place.is_multiple_of(2) {
                    change.at(50)
                } else {
                    self.len().saturating_sub(change.count.into())
                };
                _ = self.log.trim(Trim::Length(most), change.len > 9, 0);
            }
            5 => {
                let marks = self.log.marks();
                self.log.set_marks(self.log.last_entry().unwrap_or(marks.last), marks.added, marks.max_deleted);
            }
            6 => {
                if !self.groups.create(&name, Group::new(at, -1)) {
                    let group = self.groups.destroy(&name).expect("it is there");
                    // As it is, maybe under another name.
                    match change.len % 3 {
                        0 => _ = self.groups.create(&name, group),
                        1 => _ = self.groups.create(b"c", group),
                        _ => {}
                    }
                }
            }
            7 => _ = self.groups.get_mut(&name).map(|group| group.dismiss(&text(change.place % 4, 0))),
            8 => {
                let Some(group) = self.groups.get_mut(&name) else { return };
                let ids: Vec<Id> = group.pending_from(at).take(change.count.into()).map(|d| d.id).collect();
                ids.into_iter().for_each(|id| assert!(group.acknowledge(id)));
            }
            _ => {
                let Some(group) = self.groups.get_mut(&name) else { return };
                let (consumer, _) = group.enroll(&text(change.place % 4, 0), at.ms as i64);
                for id in 0..change.count.into() {
                    group.deliver(Delivery::new(Id::new(at.ms, id), 5, 1, consumer));
                }
            }
        }
    }

    fn value(&self) -> ValueRef<'_> {
        ValueRef::Stream(self)
    }

    fn from(collection: Collection) -> Option<Self> {
        if let Collection::Stream(stream) = collection { Some(stream) } else { None }
    }
}

/// Everything about a value that a client can see.
pub(super) fn image(value: ValueRef<'_>) -> (Vec<u8>, &'static str, Option<UnixMs>) {
    let mut bytes = Vec::new();
    save_small(value, &mut bytes);
    match value {
        ValueRef::List(list) => (bytes, list.encoding(), None),
        ValueRef::Set(set) => (bytes, set.encoding(), None),
        ValueRef::ZSet(zset) => (bytes, zset.encoding(), None),
        ValueRef::Hash(hash) => (bytes, hash.encoding(), hash.next_expiry()),
        ValueRef::Stream(stream) => {
            // Numbers in labels are of no importance.
            bytes.clear();
            stream.encode(&mut bytes);
            stream.save_own(&mut bytes);
            let tail = Some(&stream.log.tail).filter(|tail| tail.live > 0);
            stream.log.sealed.leaves_from(0).map(|(node, _)| node).chain(tail).for_each(|node| node.save(&mut bytes));
            for (_, group) in stream.groups.iter() {
                for (_, consumer) in group.consumers() {
                    consumer.pending_from(Id::MIN).for_each(|id| bytes.extend_from_slice(&id.ms.to_le_bytes()));
                }
            }
            (bytes, stream.encoding(), None)
        }
        _ => (bytes, "string", None),
    }
}
