//! Hashes against a `BTreeMap`, in all forms.

use std::collections::BTreeMap;

use clocks::UnixMs;
use proptest::prelude::*;

use super::*;

/// Name to value and expiry.
type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<UnixMs>)>;

/// Thresholds low enough to be met often.
fn limits() -> Limits {
    Limits { hash_max_listpack_entries: 10, hash_max_listpack_value: 16, ..Limits::default() }
}

#[derive(Clone, Debug)]
enum Step {
    Set(Vec<u8>, Vec<u8>, Expiry),
    Remove(Vec<u8>),
    SetExpiry(Vec<u8>, Option<UnixMs>),
    Reclaim(UnixMs, usize),
    Expect(usize),
    Freeze,
}

fn string() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => (-9..9i64).prop_map(|n| n.to_string().into_bytes()),
        4 => "[abc]{0,2}".prop_map(String::into_bytes),
        1 => any::<i64>().prop_map(|n| n.to_string().into_bytes()),
        1 => Just(b"007".to_vec()),
        1 => (0..20usize).prop_map(|n| vec![b'x'; n]),
    ]
}

fn expiry() -> impl Strategy<Value = Expiry> {
    prop_oneof![2 => Just(Expiry::Keep), 2 => Just(Expiry::Clear), 1 => (1..100u64).prop_map(|at| Expiry::At(UnixMs(at)))]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (string(), string(), expiry()).prop_map(|(name, value, expiry)| Step::Set(name, value, expiry)),
        5 => string().prop_map(Step::Remove),
        4 => (string(), prop::option::of((1..100u64).prop_map(UnixMs))).prop_map(|(name, expiry)| Step::SetExpiry(name, expiry)),
        1 => (0..100u64, 0..9usize).prop_map(|(now, max)| Step::Reclaim(UnixMs(now), max)),
        1 => (0..12usize).prop_map(Step::Expect),
        1 => Just(Step::Freeze),
    ];
    prop::collection::vec(step, 0..100)
}

fn contents<'a>(fields: impl Iterator<Item = Field<'a>>) -> Model {
    fields.map(|field| (field.name.to_vec(), (field.value.to_vec(), field.expiry))).collect()
}

fn agree(hash: &Hash, model: &Model) {
    assert_eq!(hash.len(), model.len() as u64);
    assert_eq!(hash.is_empty(), model.is_empty());
    assert_eq!(&contents(hash.fields()), model);
    assert_eq!(hash.next_expiry(), model.values().filter_map(|(_, expiry)| *expiry).min());
    for now in [0, 1, 50, 200].map(UnixMs) {
        let live: Model = model
            .iter()
            .filter(|(_, (_, at))| at.is_none_or(|at| at >= now))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        assert_eq!(contents(hash.iter(now)), live);
        assert_eq!(hash.live_len(now), live.len() as u64);
        for (name, (value, _)) in model {
            let shown = hash.get(name, now).map(|value| value.to_vec());
            assert_eq!(shown.as_ref(), live.contains_key(name).then_some(value));
        }
    }
    for (rank, field) in hash.fields().enumerate() {
        assert_eq!(hash.nth(rank as u64), Some(field));
    }
    assert_eq!(hash.nth(hash.len()), None);
    let (mut seen, mut cursor) = (Vec::new(), 0);
    loop {
        cursor = hash.scan(cursor, 3, |field| seen.push(field));
        if cursor == 0 {
            break;
        }
    }
    assert!(seen.into_iter().eq(hash.fields()));
    let mut bytes = Vec::new();
    hash.encode(&mut bytes);
    let again = Hash::decode(&bytes).expect("just encoded");
    assert_eq!((again.encoding(), again.next_expiry()), (hash.encoding(), hash.next_expiry()));
    assert_eq!(&contents(again.fields()), model);
}

fn step(hash: &mut Hash, model: &mut Model, limits: &Limits, step: Step) {
    match step {
        Step::Set(name, value, expiry) => {
            let created = hash.set(&name, &value, expiry, limits);
            let old = model.get(&name).map(|(_, at)| *at);
            assert_eq!(created, old.is_none());
            let at = match expiry {
                Expiry::Keep => old.flatten(),
                Expiry::Clear => None,
                Expiry::At(at) => Some(at),
            };
            model.insert(name, (value, at));
        }
        Step::Remove(name) => assert_eq!(hash.remove(&name), model.remove(&name).is_some()),
        Step::SetExpiry(name, expiry) => {
            assert_eq!(hash.set_expiry(&name, expiry), model.contains_key(&name));
            if let Some((_, at)) = model.get_mut(&name) {
                *at = expiry;
            }
        }
        Step::Reclaim(now, max) => {
            let due = model.values().filter(|(_, at)| at.is_some_and(|at| at < now)).count();
            let taken = hash.reclaim(now, max, |name| {
                let (_, at) = model.remove(&name.to_vec()).expect("was there");
                assert!(at.is_some_and(|at| at < now));
            });
            assert_eq!(taken, due.min(max));
        }
        Step::Expect(count) => hash.expect(count, limits),
        Step::Freeze => {}
    }
}

proptest! {
    #[test]
    fn behaves_like_a_map(steps in steps()) {
        let (limits, mut hash, mut model) = (limits(), Hash::new(), Model::new());
        let mut frozen = Vec::new();
        for next in steps {
            if let Step::Freeze = next {
                frozen.push((hash.clone(), model.clone()));
            }
            step(&mut hash, &mut model, &limits, next);
        }
        agree(&hash, &model);
        for (hash, model) in &frozen {
            agree(hash, model);
        }
        hash.fit(&Limits { hash_max_listpack_entries: 0, ..limits });
        agree(&hash, &model);
    }

    #[test]
    fn any_bytes_decode_or_fail(form in 0..4u8, rest in prop::collection::vec(any::<u8>(), 0..60)) {
        let bytes = [&[1, form][..], &rest].concat();
        if let Ok(hash) = Hash::decode(&bytes) {
            agree(&hash, &contents(hash.fields()));
        }
    }

    #[test]
    fn damaged_bytes_decode_or_fail(steps in steps(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let (limits, mut hash, mut model) = (limits(), Hash::new(), Model::new());
        steps.into_iter().for_each(|next| step(&mut hash, &mut model, &limits, next));
        let mut bytes = Vec::new();
        hash.encode(&mut bytes);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(hash) = Hash::decode(&bytes) {
            agree(&hash, &contents(hash.fields()));
        }
        if let Ok(hash) = Hash::decode(&bytes[..at]) {
            agree(&hash, &contents(hash.fields()));
        }
    }
}

#[test]
fn forms_change_where_redis_changes_them() {
    let limits = Limits { hash_max_listpack_entries: 2, hash_max_listpack_value: 4, ..Limits::default() };
    let mut hash = Hash::new();
    hash.set(b"a", b"1", Expiry::Clear, &limits);
    assert!(!hash.set_expiry(b"b", Some(UnixMs(5))));
    assert_eq!(hash.encoding(), "listpack");
    assert!(hash.set_expiry(b"a", Some(UnixMs(5))));
    assert_eq!(hash.encoding(), "listpackex");
    hash.set(b"b", b"1234", Expiry::Clear, &limits);
    assert_eq!(hash.encoding(), "listpackex");
    let mut long = hash.clone();
    long.set(b"b", b"12345", Expiry::Clear, &limits);
    assert_eq!(long.encoding(), "hashtable");
    hash.set(b"c", b"", Expiry::At(UnixMs(3)), &limits);
    assert_eq!((hash.encoding(), hash.next_expiry(), hash.len()), ("hashtable", Some(UnixMs(3)), 3));
    let mut expected = Hash::new();
    expected.expect(3, &limits);
    assert_eq!(expected.encoding(), "hashtable");
}

#[test]
fn encoding_is_fixed_to_the_byte() {
    let limits = limits();
    let bytes = |hash: &Hash| {
        let mut out = Vec::new();
        hash.encode(&mut out);
        out
    };
    let mut hash = Hash::new();
    hash.set(b"a", b"7", Expiry::Clear, &limits);
    assert_eq!(bytes(&hash), [1, 0, 0x81, b'a', 2, 7, 1]);
    hash.set_expiry(b"a", Some(UnixMs(258)));
    assert_eq!(bytes(&hash), [1, 1, 0x81, b'a', 2, 7, 1, 0xe2, 2, 1, 3]);
    hash.expect(1000, &limits);
    assert_eq!(bytes(&hash), [1, 2, 9, 3, 2, 1, 0, 0, 0, 0, b'a', b'7']);
}

#[test]
fn a_large_hash_is_reclaimed_in_steps() {
    let (limits, mut hash) = (Limits::default(), Hash::new());
    for n in 0..10_000u64 {
        let expiry = if n % 2 == 0 { Expiry::At(UnixMs(1 + n)) } else { Expiry::Clear };
        hash.set(format!("field:{n}").as_bytes(), b"value", expiry, &limits);
    }
    let (full, clone) = (hash.memory(), hash.clone());
    assert!((10_000 * 20..10_000 * 50).contains(&full), "{full} bytes");
    assert_eq!(hash.next_expiry(), Some(UnixMs(1)));
    let mut steps = 0;
    while hash.reclaim(UnixMs(20_000), 100, |_| {}) > 0 {
        steps += 1;
    }
    assert_eq!((steps, hash.len(), hash.next_expiry()), (50, 5000, None));
    assert!(hash.memory() < full * 2 / 3);
    assert_eq!((clone.len(), clone.memory(), clone.next_expiry()), (10_000, full, Some(UnixMs(1))));
}
