//! The tree against a sorted `Vec`, with its invariants checked after every step. Nodes are tiny in tests, so a few
//! hundred elements make several levels.

use proptest::prelude::*;

use super::*;

type Element = (u32, Vec<u8>, f64);
type Model = Vec<Element>;

/// Checks order, separators, counts and depth; the depth below `node`.
fn check(node: &Node<u32, f64>, low: Option<(u32, &[u8])>, high: Option<(u32, &[u8])>) -> (usize, u64) {
    match node {
        Node::Leaf(leaf) => {
            let keys: Vec<_> = (0..leaf.len()).map(|i| (leaf.number(i), leaf.string(i))).collect();
            assert!(keys.is_sorted_by(|a, b| a < b));
            assert!(low.is_none_or(|low| keys.first().is_none_or(|&k| low <= k)));
            assert!(high.is_none_or(|high| keys.last().is_none_or(|&k| k < high)));
            (0, leaf.len() as u64)
        }
        Node::Inner(inner) => {
            let n = inner.children.len();
            assert!(n > 0 && inner.counts.len() == n && inner.separators.len() == n - 1);
            assert!(inner.children.iter().all(|child| child.stamp() <= inner.stamp), "nothing newer below");
            let separator = |i: usize| (inner.separators.number(i), inner.separators.string(i));
            let mut depth = None;
            for i in 0..n {
                let low = if i == 0 { low } else { Some(separator(i - 1)) };
                let high = if i + 1 == n { high } else { Some(separator(i)) };
                let (below, count) = check(&inner.children[i], low, high);
                assert_eq!(count, inner.counts[i]);
                assert!(count > 0);
                assert_eq!(*depth.get_or_insert(below), below);
            }
            (depth.unwrap_or(0) + 1, inner.counts.iter().sum())
        }
    }
}

fn same(tree: &Tree<u32, f64>, model: &Model) {
    let (_, count) = check(&tree.root, None, None);
    assert_eq!((count, tree.len()), (model.len() as u64, model.len() as u64));
    assert_eq!(tree.heap(), tree.root.heap());
    let mut labels = Vec::new();
    let shown = tree.changed(0, |page| {
        labels.push(page.label);
        Ok::<_, ()>(())
    });
    assert_eq!(shown, Ok(()));
    assert_eq!(labels.len() as u64, tree.ledger().leaves);
    labels.sort_unstable();
    assert!(labels.windows(2).all(|pair| pair[0] < pair[1]), "labels are distinct");
    let all: Vec<_> = tree.range(0, u64::MAX).map(|(n, s, v)| (n, s.to_vec(), v)).collect();
    assert_eq!(&all, model);
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u32, Vec<u8>, f64),
    /// Many in a row, upwards or downwards.
    Run(u32, bool),
    Remove(u32, Vec<u8>),
    RemoveAt(usize),
    Cut(usize, usize),
    Clone,
}

fn string() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(97u8..100, 0..4),
        1 => (0u8..4, 40usize..60).prop_map(|(b, n)| { let mut v = vec![b'x'; n]; v.push(b); v }),
        1 => prop::collection::vec(any::<u8>(), 0..80),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0u32..12, string(), any::<u16>().prop_map(f64::from)).prop_map(|(n, s, v)| Step::Insert(n, s, v)),
        1 => (any::<u32>(), any::<bool>()).prop_map(|(n, up)| Step::Run(n % 1000, up)),
        3 => (0u32..12, string()).prop_map(|(n, s)| Step::Remove(n, s)),
        4 => any::<usize>().prop_map(Step::RemoveAt),
        1 => (any::<usize>(), any::<usize>()).prop_map(|(a, b)| Step::Cut(a, b)),
        1 => Just(Step::Clone),
    ]
}

fn insert(tree: &mut Tree<u32, f64>, model: &mut Model, n: u32, s: &[u8], v: f64) {
    let new = tree.update(n, Item::new(s), |_| Some(v)).is_none();
    match model.binary_search_by(|(a, b, _)| (*a, b.as_slice()).cmp(&(n, s))) {
        Ok(i) => {
            assert!(!new);
            model[i].2 = v;
        }
        Err(i) => {
            assert!(new);
            model.insert(i, (n, s.to_vec(), v));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 200 }))]

    #[test]
    fn behaves_like_a_sorted_vec(steps in prop::collection::vec(step(), 1..120), probe in (0u32..13, string())) {
        let mut tree = Tree::new();
        let mut model = Model::new();
        let mut old = Vec::new();
        for step in steps {
            tree.ledger_mut().begin(1);
            match step {
                Step::Insert(n, s, v) => insert(&mut tree, &mut model, n, &s, v),
                Step::Run(start, up) => for i in 0..60u32 {
                    let i = if up { i } else { 60 - i };
                    insert(&mut tree, &mut model, start, format!("{i:04}").as_bytes(), 0.0);
                },
                Step::Remove(n, s) => {
                    let expected = model.iter().position(|e| e.0 == n && e.1 == s).map(|i| model.remove(i).2);
                    assert_eq!(tree.take(n, &s).map(|e| e.0), expected);
                }
                Step::RemoveAt(i) => if !model.is_empty() {
                    let (n, s, v) = model.remove(i % model.len());
                    assert_eq!(tree.take(n, &s).map(|e| e.0), Some(v));
                },
                Step::Cut(a, b) => if !model.is_empty() {
                    let (a, b) = (a % model.len(), b % (model.len() + 1));
                    tree.remove_range(a as u64, b as u64);
                    if a < b { model.drain(a..b); }
                },
                Step::Clone => old.push((tree.clone(), model.clone())),
            }
            same(&tree, &model);
        }
        for (tree, model) in &old {
            same(tree, model);
        }

        let backwards: Vec<_> = tree.range(0, u64::MAX).rev().map(|(n, s, v)| (n, s.to_vec(), v)).collect();
        prop_assert_eq!(backwards, model.iter().rev().cloned().collect::<Vec<_>>());
        for (i, (n, s, v)) in model.iter().enumerate() {
            prop_assert_eq!(tree.get(*n, s), Some(*v));
            prop_assert_eq!(tree.rank(Place { number: *n, tie: Tie::Below(s) }), i as u64);
            prop_assert_eq!(tree.range(i as u64, i as u64 + 1).next().map(|e| e.1), Some(s.as_slice()));
        }
        let (n, s) = probe;
        let before = |f: &dyn Fn(&Element) -> bool| model.iter().filter(|e| f(e)).count() as u64;
        prop_assert_eq!(tree.rank(Place { number: n, tie: Tie::First }), before(&|e| e.0 < n));
        prop_assert_eq!(tree.rank(Place { number: n, tie: Tie::Last }), before(&|e| e.0 <= n));
        prop_assert_eq!(tree.rank(Place { number: n, tie: Tie::Below(&s) }), before(&|e| (e.0, &e.1) < (n, &s)));
        prop_assert_eq!(tree.rank(Place { number: n, tie: Tie::Through(&s) }), before(&|e| (e.0, &e.1) <= (n, &s)));
    }
}
