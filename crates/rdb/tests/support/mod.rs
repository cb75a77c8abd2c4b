//! Values for tests, and their contents in a form that can be compared.
#![allow(dead_code, reason = "each test uses a part")]

use clocks::UnixMs;
use object::hash::Expiry;
use object::list::End;
use object::stream::{Delivery, Group, Id, Stream};
use object::{Hash, Limits, List, Set, ZSet};
use proptest::prelude::*;
use rdb::{Entry, EntryRef, Error, Item, Reader, Target, Value, Writer, Written};

pub const TARGETS: [Target; 4] = [Target::Redis72, Target::Redis80, Target::Redis88, Target::Valkey9];

/// The contents of a value: its type, and its parts in an order that does not depend on its form.
pub fn described(value: &Value<'_>) -> (&'static str, Vec<String>) {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    match value {
        Value::String(bytes) => ("string", vec![text(bytes)]),
        Value::List(list) => ("list", list.iter().map(|elem| text(&elem.to_vec())).collect()),
        Value::Set(set) => ("set", sorted(set.iter().map(|member| text(&member.to_vec())))),
        Value::ZSet(zset) => {
            // A listpack has no negative zero.
            let parts =
                zset.iter(0..zset.len(), false).map(|(member, score)| format!("{} {:?}", text(member), score + 0.0));
            ("zset", sorted(parts))
        }
        Value::Hash(hash) => {
            let field = |field: object::hash::Field<'_>| {
                format!(
                    "{} {} {:?}",
                    text(&field.name.to_vec()),
                    text(&field.value.to_vec()),
                    field.expiry.map(|at| at.0)
                )
            };
            ("hash", sorted(hash.fields().map(field)))
        }
        Value::Stream(stream) => ("stream", described_stream(stream)),
    }
}

fn sorted(parts: impl Iterator<Item = String>) -> Vec<String> {
    let mut parts: Vec<String> = parts.collect();
    parts.sort();
    parts
}

fn described_stream(stream: &Stream) -> Vec<String> {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let mut parts = vec![format!("{:?}", stream.log.marks())];
    for entry in stream.log.range(Id::MIN, Id::MAX) {
        let pairs: Vec<String> =
            entry.pairs().map(|(n, v)| format!("{}={}", text(&n.to_vec()), text(&v.to_vec()))).collect();
        parts.push(format!("{} {}", entry.id, pairs.join(" ")));
    }
    for (name, group) in stream.groups.iter() {
        parts.push(format!("group {} {} {}", text(name), group.last, group.entries_read));
        for pending in group.pending_from(Id::MIN) {
            let consumer = if pending.is_released() { "nobody".into() } else { text(group.name(pending.consumer)) };
            parts.push(format!("pending {} {} {} {consumer}", pending.id, pending.time, pending.count));
        }
        let consumers = group.consumers().map(|(_, consumer)| {
            format!(
                "consumer {} {} {} {}",
                text(&consumer.name),
                consumer.seen,
                consumer.active,
                consumer.pending_len()
            )
        });
        parts.extend(sorted(consumers));
    }
    parts
}

/// All items of a file.
pub fn items(file: &[u8]) -> Result<Vec<Item>, Error> {
    let mut reader = Reader::new(file)?;
    let mut items = Vec::new();
    while let Some(item) = reader.next_item()? {
        items.push(item);
    }
    Ok(items)
}

/// All keys of a file.
pub fn entries(file: &[u8]) -> Result<Vec<Entry>, Error> {
    let entry = |item| if let Item::Entry(entry) = item { Some(entry) } else { None };
    Ok(items(file)?.into_iter().filter_map(entry).collect())
}

/// A file with these keys, except those that the target cannot hold.
pub fn file_of(target: Target, entries: &[EntryRef<'_>]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), target).unwrap();
    writer.aux(b"redis-ver", b"7.2.0").unwrap();
    writer.function(b"#!lua name=lib\nredis.register_function('f', function() return 1 end)").unwrap();
    for entry in entries {
        let _: Written = writer.entry(*entry).unwrap();
    }
    writer.finish().unwrap()
}

pub fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => (0usize..20_000, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
        4 => any::<i64>().prop_map(|value| value.to_string().into_bytes()),
        4 => (-300i64..300).prop_map(|value| value.to_string().into_bytes()),
    ]
}

fn list(elements: &[Vec<u8>]) -> Value<'static> {
    let mut list = List::new();
    list.push_all(End::Back, elements.iter().map(Vec::as_slice), &Limits::default());
    Value::List(list)
}

fn set(members: &[Vec<u8>]) -> Value<'static> {
    let mut set = Set::new();
    members.iter().for_each(|member| {
        set.add(member, &Limits::default());
    });
    Value::Set(set)
}

fn zset(members: &[(Vec<u8>, f64)]) -> Value<'static> {
    let mut zset = ZSet::new();
    members.iter().for_each(|(member, score)| {
        zset.insert(*score, member, &Limits::default()).unwrap();
    });
    Value::ZSet(zset)
}

/// A field: name, value, time of expiry.
type NamedField = (Vec<u8>, (Vec<u8>, Option<UnixMs>));

fn hash(fields: &[NamedField], most: usize) -> Value<'static> {
    let limits = Limits { hash_max_listpack_entries: most, ..Limits::default() };
    let mut hash = Hash::new();
    for (name, (value, expiry)) in fields {
        hash.set(name, value, expiry.map_or(Expiry::Clear, Expiry::At), &limits);
    }
    Value::Hash(hash)
}

/// A stream with these entries, of which some are deleted, and a group of two consumers.
pub fn stream(entries: &[(u64, Vec<u8>)], released: bool) -> Value<'static> {
    let limits = Limits { stream_node_max_entries: 7, ..Limits::default() };
    let mut stream = Stream::new();
    let mut id = Id::new(1, 0);
    // A file never says that a group has read more than there was.
    let mut group = Group::new(Id::new(5, 0), entries.len().min(3) as i64);
    let one = group.enroll(b"one", 1_700_000_000_000).0;
    let two = group.enroll(b"two", 1_700_000_000_001).0;
    for (at, (step, value)) in entries.iter().enumerate() {
        id = Id::new(id.ms + step, id.seq + 1);
        let name: &[u8] = if at % 5 == 4 { b"other" } else { b"name" };
        let pairs = [(name, value.as_slice())];
        stream.log.append(id, 1, pairs.into_iter(), &limits).unwrap();
        match at % 4 {
            0 => {
                group.deliver(Delivery::new(id, 1_700_000_000_000 + at as i64, 2, if at % 8 == 0 { one } else { two }))
            }
            1 if released => group.deliver(Delivery::released(id, 3)),
            2 => {
                stream.log.delete(id);
            }
            _ => {}
        }
    }
    stream.groups.create(b"group", group);
    Value::Stream(stream)
}

pub fn value() -> impl Strategy<Value = Value<'static>> {
    let score = prop_oneof![
        any::<f64>().prop_filter("scores are numbers", |score| !score.is_nan()),
        (-1000i32..1000).prop_map(|score| f64::from(score) / 8.0),
    ];
    let expiry = prop_oneof![Just(None), (1..=object::hash::EXPIRY_MAX.0).prop_map(|at| Some(UnixMs(at)))];
    prop_oneof![
        bytes().prop_map(|bytes| Value::String(bytes.into())),
        proptest::collection::vec(bytes(), 1..40).prop_map(|elements| list(&elements)),
        proptest::collection::btree_set(bytes(), 1..200)
            .prop_map(|set_of| set(&set_of.into_iter().collect::<Vec<_>>())),
        proptest::collection::btree_map(bytes(), score, 1..150)
            .prop_map(|members| zset(&members.into_iter().collect::<Vec<_>>())),
        (proptest::collection::btree_map(bytes(), (bytes(), expiry), 1..60), 0usize..120)
            .prop_map(|(fields, most)| hash(&fields.into_iter().collect::<Vec<_>>(), most)),
        (proptest::collection::vec((0u64..3, bytes()), 0..40), any::<bool>())
            .prop_map(|(entries, released)| stream(&entries, released)),
    ]
}

/// One value of each type and form, for tests that try every byte.
pub fn samples() -> Vec<Value<'static>> {
    let strings = |range: std::ops::Range<u32>| range.map(|n| format!("e{n}").into_bytes()).collect::<Vec<_>>();
    let ints = |range: std::ops::Range<u32>| range.map(|n| n.to_string().into_bytes()).collect::<Vec<_>>();
    let scores = |n: u32| strings(0..n).into_iter().enumerate().map(|(at, m)| (m, at as f64 / 4.0)).collect::<Vec<_>>();
    let fields = |n: u32, at: Option<UnixMs>| {
        strings(0..n).into_iter().map(|name| (name.clone(), (name, at))).collect::<Vec<_>>()
    };
    let last = (0..12).map(|n| (n % 3, format!("v{n}").into_bytes())).collect::<Vec<_>>();
    vec![
        Value::String(b"hello".as_slice().into()),
        Value::String(b"-300".as_slice().into()),
        Value::String(vec![b'a'; 100].into()),
        list(&strings(0..3)),
        list(&[vec![b'x'; 9000], b"7".to_vec()]),
        set(&ints(0..5)),
        set(&strings(0..5)),
        set(&[vec![b'x'; 70], b"y".to_vec()]),
        zset(&scores(4)),
        zset(&[(vec![b'x'; 70], 1.5), (b"y".to_vec(), f64::NEG_INFINITY)]),
        hash(&fields(3, None), 128),
        hash(&fields(3, Some(UnixMs(4_102_444_800_000))), 128),
        hash(&fields(3, None), 1),
        hash(&fields(3, Some(UnixMs(4_102_444_800_000))), 1),
        stream(&last, false),
        stream(&last, true),
    ]
}
