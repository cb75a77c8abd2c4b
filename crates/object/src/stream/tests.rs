//! A stream against a model, and its bytes.

use super::*;
use crate::Limits;
use proptest::prelude::*;
use std::collections::BTreeMap;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// By ID: consumer and count.
type Deliveries = BTreeMap<Id, (Vec<u8>, u64)>;

/// The contents of a stream, in the plainest form.
#[derive(Default, Debug, Clone, PartialEq)]
struct Model {
    entries: BTreeMap<Id, Fields>,
    last: Id,
    max_deleted: Id,
    added: u64,
    groups: BTreeMap<Vec<u8>, Deliveries>,
    /// Pending entries by group, the oldest first.
    oldest: BTreeMap<Vec<u8>, Vec<Id>>,
}

impl Model {
    /// An entry of a group was delivered, released or acknowledged: it leaves its place, and goes behind all others of
    /// its kind.
    fn turn(&mut self, group: &[u8], id: Id, released: Option<bool>) {
        let pending = &self.groups[group];
        let order = self.oldest.entry(group.to_vec()).or_default();
        order.retain(|other| *other != id);
        let released_before = order.iter().filter(|id| pending[id].0.is_empty()).count();
        match released {
            Some(true) => order.insert(released_before, id),
            Some(false) => order.push(id),
            None => {}
        }
    }

    /// The stream was stored and read again: entries with an owner have one time here, and so the order of their IDs.
    fn reread(&mut self) {
        for (group, order) in &mut self.oldest {
            let pending = &self.groups[group];
            let released = order.iter().filter(|id| pending[id].0.is_empty()).count();
            order[released..].sort_unstable();
        }
    }
}

fn contents(stream: &Stream) -> Model {
    let marks = stream.log.marks();
    let fields = |entry: Entry<'_>| entry.pairs().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    let oldest = |group: &Group| group.clone().oldest().map(|delivery| delivery.id).collect::<Vec<_>>();
    let group = |group: &Group| {
        let released: Vec<Delivery> = group.pending_from(Id::MIN).filter(Delivery::is_released).collect();
        assert_eq!(group.released_len(), released.len() as u64);
        assert!(released.iter().all(|delivery| delivery.time == 0));
        let pending: BTreeMap<_, _> =
            group.pending_from(Id::MIN).map(|d| (d.id, (group.name(d.consumer).to_vec(), d.count))).collect();
        for (member, consumer) in group.consumers() {
            let own: Vec<Id> = consumer.pending_from(Id::MIN).collect();
            let all: Vec<Id> = group.pending_from(Id::MIN).filter(|d| d.consumer == member).map(|d| d.id).collect();
            assert_eq!(own, all);
            assert_eq!(own.len() as u64, consumer.pending_len());
        }
        pending
    };
    Model {
        entries: stream.log.range(Id::MIN, Id::MAX).map(|entry| (entry.id, fields(entry))).collect(),
        last: marks.last,
        max_deleted: marks.max_deleted,
        added: marks.added,
        groups: stream.groups.iter().map(|(name, g)| (name.to_vec(), group(g))).collect(),
        oldest: stream.groups.iter().map(|(name, g)| (name.to_vec(), oldest(g))).collect(),
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(u64, u64, u8, Vec<u8>),
    Delete(prop::sample::Index),
    TrimLength(u64, bool),
    TrimBelow(prop::sample::Index, bool),
    Deliver(u8, u8, prop::sample::Index),
    Release(u8, prop::sample::Index),
    Acknowledge(u8, prop::sample::Index),
    AcknowledgeEverywhere(prop::sample::Index),
    TrimReferred(u64, bool),
    LookAtOldest(u8),
    NearLastTurn(u8),
    Dismiss(u8, u8),
    Destroy(u8),
    Clone,
    Recode,
    Store,
    Dump,
}

fn step() -> impl Strategy<Value = Step> {
    let value = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..20),
        2 => any::<i64>().prop_map(|n| n.to_string().into_bytes()),
        1 => (0usize..9000).prop_map(|n| vec![b'x'; n]),
    ];
    let index = any::<prop::sample::Index>;
    prop_oneof![
        20 => (0u64..3, 0u64..300, 0u8..6, value).prop_map(|(ms, seq, names, value)| Step::Add(ms, seq, names, value)),
        3 => index().prop_map(Step::Delete),
        1 => (0u64..40, any::<bool>()).prop_map(|(n, approx)| Step::TrimLength(n, approx)),
        1 => (index(), any::<bool>()).prop_map(|(at, approx)| Step::TrimBelow(at, approx)),
        4 => (0u8..2, 0u8..3, index()).prop_map(|(g, c, at)| Step::Deliver(g, c, at)),
        2 => (0u8..2, index()).prop_map(|(g, at)| Step::Release(g, at)),
        2 => (0u8..2, index()).prop_map(|(g, at)| Step::Acknowledge(g, at)),
        1 => index().prop_map(Step::AcknowledgeEverywhere),
        1 => (0u64..40, any::<bool>()).prop_map(|(n, drop)| Step::TrimReferred(n, drop)),
        1 => (0u8..2).prop_map(Step::LookAtOldest),
        1 => (0u8..2).prop_map(Step::NearLastTurn),
        1 => (0u8..2, 0u8..3).prop_map(|(g, c)| Step::Dismiss(g, c)),
        1 => (0u8..2).prop_map(Step::Destroy),
        1 => Just(Step::Clone),
        1 => Just(Step::Recode),
        1 => Just(Step::Store),
        1 => Just(Step::Dump),
    ]
}

fn fields_of(names: u8, value: &[u8]) -> Fields {
    (0..1 + names % 3)
        .map(|i| (format!("name{}", if names > 2 { i } else { 7 + i }).into_bytes(), value.to_vec()))
        .collect()
}

fn pick(model: &Model, at: &prop::sample::Index) -> Option<Id> {
    let ids: Vec<Id> = model.entries.keys().copied().collect();
    (!ids.is_empty()).then(|| ids[at.index(ids.len())])
}

fn apply(step: &Step, stream: &mut Stream, model: &mut Model, limits: &Limits) {
    let name = |n: &u8| vec![b'a' + n];
    match step {
        Step::Add(ms, seq, names, value) => {
            let id = Id::new(model.last.ms + ms, if *ms == 0 { model.last.seq + seq } else { *seq });
            let fields = fields_of(*names, value);
            let pairs = fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
            let added = stream.log.append(id, fields.len(), pairs, limits);
            assert_eq!(added.is_ok(), id > model.last);
            if added.is_ok() {
                model.entries.insert(id, fields);
                model.last = id;
                model.added += 1;
            }
        }
        Step::Delete(at) => {
            let id = pick(model, at).unwrap_or(Id::new(1, 1));
            let there = model.entries.remove(&id).is_some();
            assert_eq!(stream.log.delete(id), there);
            assert!(!stream.log.delete(id));
            if there {
                model.max_deleted = model.max_deleted.max(id);
            }
        }
        Step::TrimLength(len, approx) => {
            let removed = stream.log.trim(Trim::Length(*len), *approx, 0);
            let most = (model.entries.len() as u64).saturating_sub(*len);
            assert!(if *approx { removed <= most } else { removed == most });
            (0..removed).for_each(|_| drop(model.entries.pop_first()));
        }
        Step::TrimBelow(at, approx) => {
            let Some(id) = pick(model, at) else { return };
            let removed = stream.log.trim(Trim::Below(id), *approx, 0);
            let most = model.entries.range(..id).count() as u64;
            assert!(if *approx { removed <= most } else { removed == most });
            (0..removed).for_each(|_| drop(model.entries.pop_first()));
        }
        Step::Deliver(group, consumer, at) => {
            stream.groups.create(&name(group), Group::new(Id::MIN, 0));
            let pending = model.groups.entry(name(group)).or_default();
            model.oldest.entry(name(group)).or_default();
            let group_name = name(group);
            let group = stream.groups.get_mut(&group_name).expect("created");
            let (member, _) = group.enroll(&name(consumer), 5);
            let ids: Vec<Id> = model.entries.keys().copied().collect();
            if ids.is_empty() {
                return;
            }
            let id = ids[at.index(ids.len())];
            let count = group.delivery(id).map_or(1, |d| d.count + 1);
            group.deliver(Delivery::new(id, 7, count, member));
            pending.insert(id, (name(consumer), count));
            model.turn(&group_name, id, Some(false));
        }
        Step::Release(group, at) => {
            let Some(pending) = model.groups.get_mut(&name(group)) else { return };
            let ids: Vec<Id> = pending.keys().copied().collect();
            if ids.is_empty() {
                return;
            }
            let id = ids[at.index(ids.len())];
            pending.insert(id, (Vec::new(), 3));
            model.turn(&name(group), id, Some(true));
            stream.groups.get_mut(&name(group)).expect("as in the model").deliver(Delivery::released(id, 3));
        }
        Step::AcknowledgeEverywhere(at) => {
            let id = pick(model, at).unwrap_or(Id::new(1, 1));
            let mut there = false;
            for group in model.groups.keys().cloned().collect::<Vec<_>>() {
                there |= model.groups.get_mut(&group).expect("as listed").remove(&id).is_some();
                model.turn(&group, id, None);
            }
            assert_eq!(stream.groups.acknowledge(id), there);
        }
        Step::TrimReferred(len, drop_references) => {
            let limits = [References::Respect, References::Drop];
            let trimmed = stream.trim(Trim::Length(*len), false, 0, limits[usize::from(*drop_references)]);
            let surplus = model.entries.len().saturating_sub(*len as usize);
            let is_pending = |model: &Model, id: &Id| model.groups.values().any(|pending| pending.contains_key(id));
            // By its last ID, no group has read anything: if there is one, no entry is acknowledged by all.
            let doomed: Vec<Id> = match drop_references {
                true => model.entries.keys().copied().take(surplus).collect(),
                false if model.groups.is_empty() => model.entries.keys().copied().take(surplus).collect(),
                false => Vec::new(),
            };
            let referred: Vec<Id> = doomed.iter().copied().filter(|id| is_pending(model, id)).collect();
            assert_eq!(trimmed, Trimmed { front: doomed.len() as u64, others: Vec::new(), unreferenced: referred });
            for id in doomed {
                model.entries.remove(&id);
                for group in model.groups.keys().cloned().collect::<Vec<_>>() {
                    model.groups.get_mut(&group).expect("as listed").remove(&id);
                    model.turn(&group, id, None);
                }
            }
        }
        Step::LookAtOldest(group) => {
            stream.groups.get_mut(&name(group)).map(|group| group.oldest().count());
        }
        Step::NearLastTurn(group) => {
            if let Some(group) = stream.groups.get_mut(&name(group)) {
                group.turn = group.turn.max(u32::MAX - 2);
            }
        }
        Step::Acknowledge(group, at) => {
            let Some(pending) = model.groups.get_mut(&name(group)) else { return };
            let ids: Vec<Id> = pending.keys().copied().collect();
            let id = if ids.is_empty() { Id::new(1, 0) } else { ids[at.index(ids.len())] };
            let there = pending.remove(&id).is_some();
            model.turn(&name(group), id, None);
            let group = stream.groups.get_mut(&name(group)).expect("as in the model");
            assert_eq!(group.acknowledge(id), there);
        }
        Step::Dismiss(group, consumer) => {
            let Some(pending) = model.groups.get_mut(&name(group)) else { return };
            let group_name = name(group);
            let group = stream.groups.get_mut(&group_name).expect("as in the model");
            let before = pending.len();
            pending.retain(|_, (owner, _)| *owner != name(consumer));
            model.oldest.get_mut(&group_name).expect("as listed").retain(|id| pending.contains_key(id));
            let gone = group.dismiss(&name(consumer)).unwrap_or(0);
            assert_eq!(gone, (before - pending.len()) as u64);
        }
        Step::Destroy(group) => {
            let there = model.groups.remove(&name(group)).is_some();
            model.oldest.remove(&name(group));
            assert_eq!(stream.groups.destroy(&name(group)).is_some(), there);
        }
        Step::Clone => {
            let copy = stream.clone();
            apply(&Step::Add(1, 1, 1, b"other".to_vec()), stream, model, limits);
            // Changes of the original do not touch the copy.
            assert_eq!(copy.len() + 1, stream.len());
        }
        Step::Recode => {
            let mut bytes = Vec::new();
            stream.encode(&mut bytes);
            *stream = Stream::decode(&bytes).expect("what was encoded");
            let mut again = Vec::new();
            stream.encode(&mut again);
            assert_eq!(again, bytes);
            model.reread();
        }
        Step::Store => {
            let mut bytes = Vec::new();
            stream.save(&mut bytes);
            *stream = Stream::load(&bytes).expect("what was saved");
            model.reread();
        }
        Step::Dump => {
            let payload = crate::rdb::dump(crate::rdb::ValueRef::Stream(stream));
            match crate::rdb::restore(&payload, limits) {
                Ok(crate::rdb::Value::Stream(restored)) => {
                    *stream = restored;
                    model.reread();
                }
                Ok(_) => panic!("another type"),
                Err(why) => panic!("{why:?}"),
            }
        }
    }
}

fn check(stream: &Stream, model: &Model) {
    let found = contents(stream);
    assert_eq!((&found.groups, &found.oldest), (&model.groups, &model.oldest));
    assert_eq!(&found, model);
    let marks = stream.log.marks();
    assert_eq!(marks.len, model.entries.len() as u64);
    assert_eq!(marks.first, model.entries.keys().next().copied().unwrap_or(Id::MIN));
    assert_eq!(stream.log.last_entry(), model.entries.keys().next_back().copied());
    let back: Vec<Id> = stream.log.range_back(Id::MIN, Id::MAX).map(|entry| entry.id).collect();
    assert_eq!(back, model.entries.keys().rev().copied().collect::<Vec<_>>());
    assert_eq!(stream.log.nodes() == 0, stream.is_empty());
}

proptest! {
    #[test]
    fn behaves_as_the_model(steps in prop::collection::vec(step(), 1..150), entries in 1u64..6, bytes in 0usize..3) {
        let limits = Limits { stream_node_max_entries: entries, stream_node_max_bytes: bytes * 2000, ..Limits::default() };
        let (mut stream, mut model) = (Stream::new(), Model::default());
        for step in &steps {
            apply(step, &mut stream, &mut model, &limits);
        }
        check(&stream, &model);
    }

    #[test]
    fn ranges_are_those_of_the_model(
        steps in prop::collection::vec(step(), 1..100),
        bounds in prop::collection::vec((any::<prop::sample::Index>(), -1i64..2, any::<prop::sample::Index>(), -1i64..2), 10),
    ) {
        let limits = Limits { stream_node_max_entries: 4, ..Limits::default() };
        let (mut stream, mut model) = (Stream::new(), Model::default());
        for step in &steps {
            apply(step, &mut stream, &mut model, &limits);
        }
        for (a, da, b, db) in bounds {
            let near = |at, by: i64| pick(&model, &at).map_or(Id::MIN, |id| Id { seq: id.seq.wrapping_add_signed(by), ..id });
            let (start, end) = (near(a, da), near(b, db));
            if start > end {
                prop_assert_eq!(stream.log.range(start, end).count(), 0);
                prop_assert_eq!(stream.log.range_back(start, end).count(), 0);
                continue;
            }
            let want: Vec<Id> = model.entries.range(start..=end).map(|(id, _)| *id).collect();
            let got: Vec<Id> = stream.log.range(start, end).map(|entry| entry.id).collect();
            prop_assert_eq!(&got, &want);
            let mut back: Vec<Id> = stream.log.range_back(start, end).map(|entry| entry.id).collect();
            back.reverse();
            prop_assert_eq!(&back, &want);
            prop_assert_eq!(stream.log.get(start).is_some(), model.entries.contains_key(&start));
        }
    }

    #[test]
    fn damage_is_refused_or_harmless(steps in prop::collection::vec(step(), 1..30), at: prop::sample::Index, to: u8) {
        let limits = Limits { stream_node_max_entries: 3, ..Limits::default() };
        let (mut stream, mut model) = (Stream::new(), Model::default());
        for step in &steps {
            apply(step, &mut stream, &mut model, &limits);
        }
        let mut bytes = Vec::new();
        stream.encode(&mut bytes);
        let at = at.index(bytes.len());
        prop_assert!(Stream::decode(&bytes[..at]).is_err());
        bytes[at] = to;
        if let Ok(other) = Stream::decode(&bytes) {
            contents(&other);
        }
    }
}

#[test]
fn nodes_are_as_full_as_redis_makes_them() {
    let (mut stream, limits) = (Stream::new(), Limits::default());
    for seq in 1..=1000 {
        let pairs = [(&b"name"[..], &b"value"[..])].into_iter();
        assert_eq!(stream.log.append(Id::new(1, seq), 1, pairs, &limits), Ok(()));
    }
    assert_eq!(stream.log.nodes(), 10);
    assert_eq!(stream.log.trim(Trim::Length(150), true, 0), 800);
    assert_eq!(stream.log.trim(Trim::Length(150), true, 0), 0);
    assert_eq!(stream.log.trim(Trim::Length(150), false, 0), 50);
    assert_eq!(stream.log.marks().first, Id::new(1, 851));
}

#[test]
fn limits_of_trimming_are_kept() {
    let (mut stream, limits) = (Stream::new(), Limits { stream_node_max_entries: 10, ..Limits::default() });
    for seq in 1..=100 {
        let pairs = [(&b"a"[..], &b"b"[..])].into_iter();
        assert_eq!(stream.log.append(Id::new(1, seq), 1, pairs, &limits), Ok(()));
    }
    assert_eq!(stream.log.trim(Trim::Length(0), true, 25), 20);
    assert_eq!(stream.log.trim(Trim::Below(Id::new(1, 35)), true, 0), 10);
    assert_eq!(stream.log.trim(Trim::Below(Id::MAX), false, 0), 70);
    assert_eq!(stream.log.marks().first, Id::MIN);
    assert_eq!(stream.log.nodes(), 0);
}

#[test]
fn many_pending_entries_are_shared_by_clones() {
    let mut group = Group::new(Id::MIN, 0);
    let (member, _) = group.enroll(b"c", 0);
    for seq in 0..50_000 {
        group.deliver(Delivery::new(Id::new(1, seq), 0, 1, member));
    }
    let copy = group.clone();
    assert!(group.acknowledge(Id::new(1, 25_000)));
    assert_eq!((copy.pending_len(), group.pending_len()), (50_000, 49_999));
    assert_eq!(group.dismiss(b"c"), Some(49_999));
    assert_eq!(group.pending_len(), 0);
    assert_eq!(copy.pending_ends(), Some((Id::new(1, 0), Id::new(1, 49_999))));
}

#[test]
fn what_no_group_refers_to_is_trimmed_from_between() {
    let (mut stream, limits) = (Stream::new(), Limits { stream_node_max_entries: 2, ..Limits::default() });
    let id = |seq| Id::new(1, seq);
    for seq in 1..=6 {
        assert_eq!(stream.log.append(id(seq), 1, [(&b"f"[..], &b"v"[..])].into_iter(), &limits), Ok(()));
    }
    assert!(stream.groups.create(b"g", Group::new(id(5), 5)));
    let group = stream.groups.get_mut(b"g").expect("created");
    let (member, _) = group.enroll(b"c", 0);
    group.deliver(Delivery::new(id(2), 1, 1, member));
    // The sixth has not been read. The limit counts whole nodes before it looks into one.
    assert!(stream.clone().trim(Trim::Length(0), true, 1, References::Respect).is_empty());
    let trimmed = stream.trim(Trim::Length(0), true, 0, References::Respect);
    let others = vec![id(3), id(4), id(5)];
    assert_eq!(trimmed, Trimmed { front: 1, others, unreferenced: Vec::new() });
    assert_eq!((stream.len(), stream.log.marks().max_deleted), (2, Id::MIN));
    let trimmed = stream.trim(Trim::Below(id(6)), false, 0, References::Drop);
    assert_eq!(trimmed, Trimmed { front: 1, others: Vec::new(), unreferenced: vec![id(2)] });
    assert_eq!(stream.groups.get(b"g").map(Group::pending_len), Some(0));
}
