//! The block against a `Vec`, and its bytes.

use super::*;
use proptest::prelude::*;

fn strings() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 0..20),
        1 => proptest::collection::vec(any::<u8>(), 60..130),
        1 => (4090usize..4110).prop_map(|n| vec![b'x'; n]),
        1 => (16370usize..16390).prop_map(|n| vec![b'y'; n]),
        3 => any::<i64>().prop_map(|n| n.to_string().into_bytes()),
        3 => (-300i64..300).prop_map(|n| n.to_string().into_bytes()),
        1 => (0u32..63, -2i64..3).prop_map(|(bit, d)| ((1i64 << bit) + d).to_string().into_bytes()),
        1 => (0u32..63, -2i64..3).prop_map(|(bit, d)| (-(1i64 << bit) + d).to_string().into_bytes()),
    ]
}

#[derive(Clone, Debug)]
enum Op {
    PushFront(Vec<u8>),
    PushBack(Vec<u8>),
    Raw(Vec<u8>),
    Insert(usize, Vec<u8>),
    Replace(usize, Vec<u8>),
    Remove(usize, usize),
    PopFront(usize),
    PopBack(usize),
    Split(usize),
    Retain(usize),
    Shrink,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => strings().prop_map(Op::PushFront),
        4 => strings().prop_map(Op::PushBack),
        1 => strings().prop_map(Op::Raw),
        3 => (any::<usize>(), strings()).prop_map(|(i, s)| Op::Insert(i, s)),
        3 => (any::<usize>(), strings()).prop_map(|(i, s)| Op::Replace(i, s)),
        2 => (any::<usize>(), 0usize..4).prop_map(|(i, n)| Op::Remove(i, n)),
        1 => (0usize..8).prop_map(Op::PopFront),
        1 => (0usize..8).prop_map(Op::PopBack),
        1 => any::<usize>().prop_map(Op::Split),
        1 => any::<usize>().prop_map(Op::Retain),
        1 => Just(Op::Shrink),
    ];
    proptest::collection::vec(op, 1..80)
}

fn all(block: &Block) -> Vec<Vec<u8>> {
    block.iter().map(|e| e.to_vec()).collect()
}

proptest! {
    #[test]
    fn like_a_vec(ops in ops()) {
        let mut block = Block::new();
        let mut model: Vec<Vec<u8>> = Vec::new();
        for op in ops {
            match op {
                Op::PushFront(s) => {
                    block.push_front(Elem::from_bytes(&s));
                    model.insert(0, s);
                }
                Op::PushBack(s) => {
                    block.push_back(Elem::from_bytes(&s));
                    model.push(s);
                }
                Op::Raw(s) => {
                    block.push_back(Elem::Bytes(&s));
                    model.push(s);
                }
                Op::Insert(i, s) => {
                    let i = i % (model.len() + 1);
                    let pos = block.seek(i).expect("in range");
                    block.insert(pos, Elem::from_bytes(&s));
                    prop_assert!(block.get(pos).is(&Needle::new(&s)));
                    model.insert(i, s);
                }
                Op::Replace(i, s) => if !model.is_empty() {
                    let i = i % model.len();
                    block.replace(block.seek(i).expect("in range"), Elem::from_bytes(&s));
                    model[i] = s;
                }
                Op::Remove(i, n) => {
                    let i = i % (model.len() + 1);
                    if n % 2 == 0 {
                        block.remove(block.seek(i).expect("in range"), n);
                    } else {
                        block.remove_range(i..i + n);
                    }
                    model.drain(i..(i + n).min(model.len()));
                }
                Op::PopFront(n) => for _ in 0..n {
                    block.pop_front();
                    if !model.is_empty() { model.remove(0); }
                }
                Op::PopBack(n) => for _ in 0..n {
                    block.pop_back();
                    model.pop();
                }
                Op::Split(i) => {
                    let rest = block.split_off(i % (model.len() + 1));
                    prop_assert_eq!(all(&rest), &model[i % (model.len() + 1)..]);
                    block.append(&rest);
                }
                Op::Retain(seed) => {
                    let (mut i, mut j) = (seed % 5, seed % 5);
                    block.retain(|_| { i += 1; !i.is_multiple_of(4) });
                    model.retain(|_| { j += 1; !j.is_multiple_of(4) });
                }
                Op::Shrink => {
                    block.shrink_to_fit();
                    prop_assert!(block.heap_bytes() <= block.bytes().next_multiple_of(16));
                }
            }
            prop_assert_eq!(block.len(), model.len());
            prop_assert_eq!(&all(&block), &model);
            let back: Vec<_> = block.iter().rev().map(|e| e.to_vec()).collect();
            prop_assert!(back.iter().rev().eq(model.iter()));
            prop_assert_eq!(Block::from_bytes(block.as_bytes()), Ok(block.clone()));
            prop_assert_eq!(block.iter().map(Block::size_of).sum::<usize>(), block.bytes());
            if let Some(s) = model.get(model.len() / 2) {
                let at = model.iter().position(|x| x == s);
                prop_assert_eq!(block.find(&Needle::new(s), 0, 1).map(|f| f.0), at);
                prop_assert_eq!(block.iter_from(model.len() / 2).next().map(|e| e.to_vec()), Some(s.clone()));
                prop_assert_eq!(block.iter_to(model.len() / 2 + 1).next_back().map(|e| e.str_len()), Some(s.len()));
            }
            let mut at = block.first();
            let mut seen = 0;
            while let Some(pos) = at {
                prop_assert_eq!(&block.get(pos).to_vec(), &model[seen]);
                seen += 1;
                at = block.next(pos);
            }
            prop_assert_eq!(seen, model.len());
        }
    }

    #[test]
    fn damaged_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(block) = Block::from_bytes(&bytes) {
            prop_assert_eq!(block.iter().count(), block.len());
            prop_assert_eq!(block.iter().rev().count(), block.len());
        }
    }

    #[test]
    fn changed_bytes_never_panic(items in proptest::collection::vec(strings(), 1..6), at: usize, to: u8) {
        let mut block = Block::new();
        items.iter().for_each(|s| block.push_back(Elem::from_bytes(s)));
        let mut bytes = block.as_bytes().to_vec();
        let at = at % bytes.len();
        bytes[at] = to;
        if let Ok(block) = Block::from_bytes(&bytes) {
            prop_assert_eq!(block.iter().rev().count(), block.len());
        }
        bytes.truncate(at);
        let _ = Block::from_bytes(&bytes);
    }
}

#[test]
fn golden_bytes() {
    let mut block = Block::new();
    for s in ["a", "7", "-1", "300", "007", "-9223372036854775808", ""] {
        block.push_back(Elem::from_bytes(s.as_bytes()));
    }
    let golden: &[u8] = &[
        0x81, b'a', 2, // a string of one byte
        7, 1, // a small number
        0xe1, 0xff, 2, // -1
        0xe2, 0x2c, 0x01, 3, // 300
        0x83, b'0', b'0', b'7', 4, // not canonical, so a string
        0xe8, 0, 0, 0, 0, 0, 0, 0, 0x80, 9, // the lowest number
        0x80, 1, // the empty string
    ];
    assert_eq!(block.as_bytes(), golden);
}

#[test]
fn longer_forms() {
    for n in [63, 64, 125, 126, 127, 4095, 4096, 16381, 16384, 70_000] {
        let s = vec![b's'; n];
        let mut block = Block::new();
        block.push_back(Elem::Bytes(b"before"));
        block.push_back(Elem::from_bytes(&s));
        assert_eq!(block.iter().next_back(), Some(Elem::Bytes(&s)));
        assert_eq!(Block::from_bytes(block.as_bytes()), Ok(block));
    }
}

#[test]
fn a_queue_neither_grows_nor_moves_much() {
    let mut block = Block::new();
    for i in 0..100 {
        block.push_back(Elem::Int(1000 + i));
    }
    for i in 0..100_000 {
        block.push_back(Elem::Int(1000 + i % 10));
        block.pop_front();
        assert!(block.heap_bytes() < 1200);
    }
    for i in 0..100_000 {
        block.push_front(Elem::Int(1000 + i % 10));
        block.pop_back();
        assert!(block.heap_bytes() < 1200);
    }
}

#[test]
fn split_index_keeps_pairs() {
    let mut block = Block::new();
    for i in 0..10 {
        block.push_back(Elem::Int(i));
    }
    assert_eq!(block.split_index(0, 1), 1);
    assert_eq!(block.split_index(block.bytes() / 2, 1), 5);
    assert_eq!(block.split_index(usize::MAX, 1), 9);
    assert_eq!(block.split_index(0, 2), 2);
    assert_eq!(block.split_index(block.bytes() / 2, 2), 6);
    assert_eq!(block.split_index(usize::MAX, 2), 8);
}
