//! The tree against a `Vec`, with a leaf of plain numbers.

use super::node::{Child, FANOUT, Node};
use super::*;
use proptest::prelude::*;

/// Numbers, each pretending to take 512 bytes so that a leaf holds sixteen.
/// `COUNTED`: labels are counted up, as in collections with an order.
#[derive(Clone, Default, Debug, PartialEq)]
struct Numbers<const COUNTED: bool = true>(Vec<u32>);

const ITEM_BYTES: usize = 512;

impl<const COUNTED: bool> Leaf for Numbers<COUNTED> {
    type Sep = u32;
    const KEEPS_LEAST: bool = true;
    const SORTED: bool = COUNTED;
    fn least(&self) -> u64 {
        self.0.iter().copied().min().map_or(u64::MAX, u64::from)
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn bytes(&self) -> usize {
        self.0.len() * ITEM_BYTES
    }
    fn split(&mut self, keep: usize) -> Self {
        Numbers(self.0.split_off((keep / ITEM_BYTES).clamp(1, self.0.len() - 1)))
    }
    fn append(&mut self, mut next: Self) {
        self.0.append(&mut next.0);
    }
    fn remove_range(&mut self, range: Range<usize>) {
        self.0.drain(range);
    }
    fn first_sep(&self) -> u32 {
        self.0[0]
    }
}

fn forward<const COUNTED: bool>(tree: &Tree<Numbers<COUNTED>>, rank: u64) -> Vec<u32> {
    tree.leaves_from(rank).flat_map(|(leaf, at)| leaf.0[at..].iter().copied()).collect()
}

fn backward<const COUNTED: bool>(tree: &Tree<Numbers<COUNTED>>, rank: u64) -> Vec<u32> {
    tree.leaves_back(rank).flat_map(|(leaf, at)| leaf.0[..at].iter().rev().copied()).collect()
}

/// Checks every structural promise; returns the elements.
fn check<const COUNTED: bool>(tree: &Tree<Numbers<COUNTED>>, sorted: bool) -> Vec<u32> {
    fn walk<const COUNTED: bool>(
        children: &[Child<Numbers<COUNTED>>],
        root: bool,
        depth: usize,
        depths: &mut Vec<usize>,
        (totals, labels): (&mut Totals, &mut Vec<u64>),
    ) {
        assert!(children.len() <= FANOUT);
        assert!(root || !children.is_empty());
        for child in children {
            match &child.node {
                Node::Leaf(leaf) => {
                    assert!(!leaf.is_empty());
                    assert_eq!(child.len, leaf.len() as u64);
                    assert_eq!(child.least, leaf.least());
                    assert!(leaf.bytes() <= LEAF_BYTES_MAX);
                    totals.bytes += leaf.bytes();
                    totals.heap += leaf.heap_bytes();
                    labels.push(child.label);
                    depths.push(depth);
                }
                Node::Inner(inner) => {
                    assert_eq!(child.len, inner.children.iter().map(|c| c.len).sum::<u64>());
                    assert_eq!(child.least, inner.least());
                    assert!(inner.children.iter().all(|c| c.stamp <= child.stamp), "nothing newer below");
                    walk(&inner.children, false, depth + 1, depths, (totals, labels));
                }
            }
        }
    }
    let (mut depths, mut totals, mut labels) = (Vec::new(), Totals::default(), Vec::new());
    walk(&tree.root.children, true, 0, &mut depths, (&mut totals, &mut labels));
    assert_eq!(labels.len() as u64, tree.leaf_count());
    assert!(COUNTED || labels.is_sorted(), "labels in the order of leaves");
    labels.sort_unstable();
    assert!(labels.windows(2).all(|pair| pair[0] < pair[1]), "labels are distinct");
    assert!(depths.windows(2).all(|w| w[0] == w[1]), "leaves at one depth");
    assert_eq!(totals, tree.ledger().map_or(Totals::default(), |ledger| ledger.totals));
    let all = forward(tree, 0);
    if let Some(least) = all.iter().min() {
        assert_eq!(tree.least(), u64::from(*least));
        let (base, leaf) = tree.find_least(tree.least()).expect("some leaf has it");
        assert!(leaf.0.contains(least));
        assert_eq!(all[base as usize], leaf.0[0]);
    }
    assert!(tree.find_least(tree.least().wrapping_sub(1)).is_none() || tree.least() == 0);
    assert_eq!(all.len() as u64, tree.len());
    if sorted {
        assert!(all.is_sorted());
        let step = (all.len() / 40).max(1);
        for (i, x) in all.iter().enumerate().step_by(step) {
            let (base, leaf) = tree.find(|sep| sep <= x).expect("not empty");
            let at = leaf.0.partition_point(|y| y < x);
            assert_eq!(leaf.0.get(at), Some(x), "found by separator");
            assert_eq!(base as usize + at, i);
        }
    }
    all
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u32, u8),
    Remove(u32, u8),
    Front(u8),
    Back(u8),
    RemoveRange(u32, u32),
    Rebuild,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => (any::<u32>(), 0u8..200).prop_map(|(at, n)| Op::Insert(at, n)),
        4 => (any::<u32>(), 0u8..40).prop_map(|(at, n)| Op::Remove(at, n)),
        1 => (0u8..30).prop_map(Op::Front),
        1 => (0u8..30).prop_map(Op::Back),
        2 => (any::<u32>(), 0u32..600).prop_map(|(at, n)| Op::RemoveRange(at, n)),
        1 => Just(Op::Rebuild),
    ];
    proptest::collection::vec(op, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn by_rank_like_a_vec(ops in ops()) {
        let mut tree = Tree::<Numbers<false>>::new();
        let mut model: Vec<u32> = Vec::new();
        let mut next = 0;
        for op in ops {
            let frozen = (tree.clone(), model.clone());
            tree.ledger_mut().begin(1);
            let len = model.len() as u32;
            match op {
                Op::Insert(at, n) => {
                    let at = at % (len + 1);
                    let items: Vec<u32> = (next..next + u32::from(n)).collect();
                    next += u32::from(n);
                    tree.modify(at.into(), |leaf, i| leaf.0.splice(i..i, items.iter().copied()).for_each(drop));
                    model.splice(at as usize..at as usize, items);
                }
                Op::Remove(at, n) => for _ in 0..n {
                    if model.is_empty() { break }
                    let at = at % model.len() as u32;
                    let got = tree.modify(at.into(), |leaf, i| leaf.0.remove(i));
                    prop_assert_eq!(got, model.remove(at as usize));
                },
                Op::Front(n) => {
                    let items: Vec<u32> = (next..next + u32::from(n)).collect();
                    next += u32::from(n);
                    tree.push_front_leaf(Numbers(items.clone()));
                    model.splice(0..0, items);
                }
                Op::Back(n) => {
                    let items: Vec<u32> = (next..next + u32::from(n)).collect();
                    next += u32::from(n);
                    tree.push_back_leaf(Numbers(items.clone()));
                    model.extend(items);
                }
                Op::RemoveRange(at, n) => {
                    let at = at % (len + 1);
                    tree.remove_range(at.into()..u64::from(at + n));
                    model.drain(at as usize..(at + n).min(len) as usize);
                }
                Op::Rebuild => tree = Tree::build(model.iter().copied(), true, |leaf: &mut Numbers<false>, x| leaf.0.push(x)),
            }
            prop_assert_eq!(&check(&tree, false), &model);
            prop_assert_eq!(&check(&frozen.0, false), &frozen.1, "a clone does not change");
            let mid = model.len() / 3;
            prop_assert_eq!(&forward(&tree, mid as u64)[..], &model[mid..]);
            let back: Vec<u32> = model[..mid].iter().rev().copied().collect();
            prop_assert_eq!(backward(&tree, mid as u64), back);
            if let Some(x) = model.get(mid) {
                let (leaf, at) = tree.get(mid as u64).expect("in range");
                prop_assert_eq!(leaf.0.get(at), Some(x));
            }
            prop_assert_eq!(tree.first().and_then(|l| l.0.first()), model.first());
            prop_assert_eq!(tree.last().and_then(|l| l.0.last()), model.last());
        }
    }

    #[test]
    fn by_separator_like_a_sorted_vec(ops in ops()) {
        let mut tree = Tree::<Numbers>::new();
        let mut model: Vec<u32> = Vec::new();
        for op in ops {
            tree.ledger_mut().begin(1);
            let len = model.len() as u32;
            match op {
                Op::Insert(seed, n) => for k in 0..u32::from(n) * 4 {
                    let x = seed.wrapping_add(k).wrapping_mul(2654435761);
                    let Err(at) = model.binary_search(&x) else { continue };
                    model.insert(at, x);
                    let rank = tree.modify_at(|sep| *sep <= x, |leaf, base| {
                        let at = leaf.0.partition_point(|y| *y < x);
                        leaf.0.insert(at, x);
                        base + at as u64
                    });
                    prop_assert_eq!(rank, at as u64);
                },
                Op::Remove(at, n) => for _ in 0..n {
                    if model.is_empty() { break }
                    let x = model.remove(at as usize % model.len());
                    tree.modify_at(|sep| *sep <= x, |leaf, _| leaf.0.retain(|y| *y != x));
                },
                Op::Front(_) => {
                    // Only smaller items may come to the front.
                    let first = model.first().copied().unwrap_or(1000);
                    let items: Vec<u32> = (first.saturating_sub(20)..first).collect();
                    tree.push_front_leaf(Numbers(items.clone()));
                    model.splice(0..0, items);
                }
                Op::Back(_) | Op::Rebuild => tree = Tree::from_leaves(tree.leaves_from(0).map(|(leaf, _)| leaf.clone()).collect::<Vec<_>>()),
                Op::RemoveRange(at, n) => {
                    let at = at % (len + 1);
                    tree.remove_range(at.into()..u64::from(at + n));
                    model.drain(at as usize..(at + n).min(len) as usize);
                }
            }
            prop_assert_eq!(&check(&tree, true), &model);
        }
    }
}

#[test]
fn appending_in_order_fills_leaves() {
    let mut tree = Tree::<Numbers>::new();
    for x in 0..10_000u32 {
        tree.modify_at(|sep| *sep <= x, |leaf, _| leaf.0.push(x));
    }
    check(&tree, true);
    assert!(tree.leaf_count() < 10_000 / 13, "{} leaves of at most 16", tree.leaf_count());
}

#[test]
fn descending_in_order_fills_leaves() {
    let mut tree = Tree::<Numbers>::new();
    for x in (0..10_000u32).rev() {
        tree.modify_at(|sep| *sep <= x, |leaf, _| leaf.0.insert(0, x));
    }
    check(&tree, true);
    assert!(tree.leaf_count() < 10_000 / 12, "{} leaves of at most 16", tree.leaf_count());
}

#[test]
fn emptied_element_by_element() {
    let mut tree = Tree::build(0..5000u32, false, |leaf: &mut Numbers, x| leaf.0.push(x));
    let full = tree.memory();
    while !tree.is_empty() {
        tree.modify(tree.len() / 2, |leaf, at| leaf.0.remove(at.min(leaf.0.len() - 1)));
    }
    assert_eq!(check(&tree, true), Vec::<u32>::new());
    assert!(tree.memory() < 100 && full > 5000 * ITEM_BYTES);
}
