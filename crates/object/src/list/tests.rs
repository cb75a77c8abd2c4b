//! The list against a `VecDeque`.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Op {
    Push(End, Vec<Vec<u8>>),
    Pop(End, u8),
    DropEnd(End, u16),
    Set(usize, Vec<u8>),
    Insert(usize, Vec<u8>),
    RemoveEqual(End, usize, u8),
    RemoveRange(usize, u16),
    Trim(usize, usize),
    Codec,
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![Just(End::Front), Just(End::Back)]
}

/// Few distinct values, so that equal ones occur; sizes from numbers to more than a leaf.
fn item() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (0u32..20).prop_map(|n| n.to_string().into_bytes()),
        6 => (0u8..5).prop_map(|n| vec![b'a' + n; 40]),
        2 => (0u8..5).prop_map(|n| vec![b'a' + n; 700]),
        1 => (0u8..3).prop_map(|n| vec![b'a' + n; 9000]),
    ]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => (end(), proptest::collection::vec(item(), 1..60)).prop_map(|(e, v)| Op::Push(e, v)),
        3 => (end(), 0u8..60).prop_map(|(e, n)| Op::Pop(e, n)),
        1 => (end(), 0u16..90).prop_map(|(e, n)| Op::DropEnd(e, n)),
        3 => (any::<usize>(), item()).prop_map(|(i, v)| Op::Set(i, v)),
        3 => (any::<usize>(), item()).prop_map(|(i, v)| Op::Insert(i, v)),
        2 => (end(), any::<usize>(), 0u8..50).prop_map(|(e, i, n)| Op::RemoveEqual(e, i, n)),
        1 => (any::<usize>(), 0u16..100).prop_map(|(i, n)| Op::RemoveRange(i, n)),
        1 => (any::<usize>(), any::<usize>()).prop_map(|(i, n)| Op::Trim(i, n)),
        1 => Just(Op::Codec),
    ];
    proptest::collection::vec(op, 1..50)
}

fn strings<'a>(elems: impl Iterator<Item = Elem<'a>>) -> Vec<Vec<u8>> {
    elems.map(|e| e.to_vec()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn like_a_deque(ops in ops()) {
        let limits = Limits::default();
        let mut list = List::new();
        let mut model: VecDeque<Vec<u8>> = VecDeque::new();
        for op in ops {
            let frozen = (list.clone(), model.clone());
            match op {
                Op::Push(end, items) => {
                    list.push_all(end, items.iter().map(Vec::as_slice), &limits);
                    for item in items {
                        match end {
                            End::Front => model.push_front(item),
                            End::Back => model.push_back(item),
                        }
                    }
                }
                Op::Pop(end, n) => for _ in 0..n {
                    let expected = match end {
                        End::Front => model.pop_front(),
                        End::Back => model.pop_back(),
                    };
                    prop_assert_eq!(list.pop(end, &limits, |e| e.to_vec()), expected);
                },
                Op::DropEnd(end, n) => {
                    list.drop_end(end, n.into(), &limits);
                    let n = usize::from(n).min(model.len());
                    match end {
                        End::Front => model.drain(..n),
                        End::Back => model.drain(model.len() - n..),
                    };
                }
                Op::Set(i, item) => {
                    let i = i % (model.len() + 1);
                    prop_assert_eq!(list.set(i as u64, &item, &limits), i < model.len());
                    if let Some(place) = model.get_mut(i) {
                        *place = item;
                    }
                }
                Op::Insert(i, item) => {
                    let i = i % (model.len() + 1);
                    list.insert(i as u64, &item, &limits);
                    model.insert(i, item);
                }
                Op::RemoveEqual(end, i, n) => if !model.is_empty() {
                    let item = model[i % model.len()].clone();
                    let mut at: Vec<usize> = (0..model.len()).filter(|i| model[*i] == item).collect();
                    if end == End::Back { at.reverse() }
                    at.truncate(n.into());
                    prop_assert_eq!(list.remove_equal(end, &item, n.into(), &limits), at.len() as u64);
                    at.sort();
                    at.iter().rev().for_each(|i| { model.remove(*i); });
                },
                Op::RemoveRange(i, n) => {
                    let i = i % (model.len() + 1);
                    let to = (i + usize::from(n)).min(model.len());
                    list.remove_range(i as u64..to as u64, &limits);
                    model.drain(i..to);
                }
                Op::Trim(i, j) => {
                    let (i, j) = (i % (model.len() + 1), j % (model.len() + 1));
                    list.trim(i as u64..j as u64, &limits);
                    model = if i < j { model.drain(i..j).collect() } else { VecDeque::new() };
                }
                Op::Codec => {
                    let mut bytes = Vec::new();
                    list.encode(&mut bytes);
                    let again = List::decode(&bytes).expect("own bytes");
                    prop_assert_eq!(again.encoding(), list.encoding());
                    list = again;
                }
            }
            prop_assert_eq!(list.len(), model.len() as u64);
            prop_assert!(strings(list.iter()).iter().eq(model.iter()));
            prop_assert!(strings(frozen.0.iter()).iter().eq(frozen.1.iter()), "a clone does not change");
            let (i, n) = (model.len() / 3, model.len() / 2);
            prop_assert!(strings(list.range(i as u64, n as u64)).iter().eq(model.iter().skip(i).take(n)));
            let back = strings(list.range_back((model.len() - i) as u64, n as u64));
            prop_assert!(back.iter().eq(model.iter().rev().skip(i).take(n)));
            prop_assert_eq!(list.get(i as u64).map(|e| e.to_vec()), model.get(i).cloned());
            if let Some(item) = model.get(i) {
                prop_assert_eq!(list.find(item), model.iter().position(|x| x == item).map(|i| i as u64));
            }
            let content: usize = model.iter().map(|s| s.len().min(2)).sum();
            prop_assert!(list.memory() >= content);
        }
    }

    #[test]
    fn damaged_bytes_never_panic(items in proptest::collection::vec(item(), 0..20), at: usize, to: u8) {
        let mut list = List::new();
        list.push_all(End::Back, items.iter().map(Vec::as_slice), &Limits::default());
        let mut bytes = Vec::new();
        list.encode(&mut bytes);
        let at = at % bytes.len();
        bytes[at] = to;
        if let Ok(list) = List::decode(&bytes) {
            prop_assert_eq!(list.iter().count() as u64, list.len());
        }
        bytes.truncate(at);
        let _ = List::decode(&bytes);
    }
}

fn list_of(items: &[&str], limits: &Limits) -> List {
    let mut list = List::new();
    items.iter().for_each(|item| list.push(End::Back, item.as_bytes(), limits));
    list
}

#[test]
fn encoding_by_number_of_elements() {
    let limits = Limits { list_max_listpack_size: 3, ..Limits::default() };
    let mut list = list_of(&["a", "b", "c"], &limits);
    assert_eq!(list.encoding(), "listpack");
    list.push(End::Back, b"d", &limits);
    assert_eq!(list.encoding(), "quicklist");
    list.drop_end(End::Back, 1, &limits);
    assert_eq!(list.encoding(), "quicklist", "not below half of the limit");
    let mut loaded = list.clone();
    loaded.reconsider(&limits);
    assert_eq!(loaded.encoding(), "listpack");
    list.drop_end(End::Back, 2, &limits);
    assert_eq!(list.encoding(), "listpack");
}

#[test]
fn encoding_by_bytes() {
    let limits = Limits { list_max_listpack_size: -6, ..Limits::default() };
    let mut list = list_of(&[&"x".repeat(60_000)], &limits);
    assert_eq!(list.encoding(), "listpack");
    list.push(End::Back, &[b'x'; 5536], &limits);
    assert_eq!(list.encoding(), "quicklist");

    let limits = Limits { list_max_listpack_size: -1, ..Limits::default() };
    let mut list = list_of(&["a", "b", &"x".repeat(5000)], &limits);
    assert_eq!(list.encoding(), "quicklist");
    list.trim(2..3, &limits);
    assert_eq!(list.encoding(), "quicklist");
    assert!(list.set(0, b"c", &limits));
    assert_eq!(list.encoding(), "listpack");
}

#[test]
fn a_queue_keeps_its_size() {
    let limits = Limits::default();
    for (at, to) in [(End::Front, End::Back), (End::Back, End::Front)] {
        let mut list = List::new();
        for i in 0..5000u32 {
            list.push(at, format!("element {i}").as_bytes(), &limits);
        }
        let memory = list.memory();
        for i in 5000..50_000u32 {
            list.push(at, format!("element {i}").as_bytes(), &limits);
            let old = list.pop(to, &limits, |e| e.to_vec());
            assert_eq!(old, Some(format!("element {}", i - 5000).into_bytes()));
        }
        assert!(list.memory() < memory * 3 / 2, "{} after, {memory} before", list.memory());
    }
}

#[test]
fn large_lists_are_dense() {
    let limits = Limits::default();
    for end in [End::Front, End::Back] {
        let mut list = List::new();
        for i in 0..20_000u32 {
            list.push(end, format!("element {i}").as_bytes(), &limits);
        }
        assert!(list.memory() < list.bytes() * 108 / 100, "{} for {}", list.memory(), list.bytes());
    }
}

#[test]
fn golden_bytes() {
    let mut out = Vec::new();
    list_of(&["a", "5"], &Limits::default()).encode(&mut out);
    assert_eq!(out, [1, 0, 0x81, b'a', 2, 5, 1]);
    assert_eq!(List::decode(&[2, 0]), Err(crate::Corrupt("unknown version or flags of a list")));
}
