//! Sorted sets against a `BTreeMap`, in both forms.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Default)]
struct Model(BTreeMap<Vec<u8>, f64>);

impl Model {
    /// In the order of (score, member); -0 and 0 are one score.
    fn sorted(&self) -> Vec<(Vec<u8>, f64)> {
        let mut all: Vec<_> = self.0.iter().map(|(m, s)| (m.clone(), *s)).collect();
        all.sort_by(|a, b| a.1.partial_cmp(&b.1).unwrap().then_with(|| a.0.cmp(&b.0)));
        all
    }

    fn add(&mut self, score: f64, member: &[u8], o: AddOptions) -> Result<Added, NotANumber> {
        let Some(old) = self.0.get(member).copied() else {
            if o.if_present {
                return Ok(Added::Refused);
            }
            self.0.insert(member.to_vec(), score);
            return Ok(Added::New(score));
        };
        let new = if o.increment { old + score } else { score };
        if o.if_absent {
            return Ok(Added::Refused);
        }
        if new.is_nan() {
            return Err(NotANumber);
        }
        if (o.if_greater && new <= old) || (o.if_less && new >= old) {
            return Ok(Added::Refused);
        }
        if new == old {
            return Ok(Added::Same(old));
        }
        self.0.insert(member.to_vec(), new);
        Ok(Added::Changed(new))
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(f64, Vec<u8>, AddOptions),
    AddMany(u16),
    Remove(Vec<u8>),
    RemoveAt(usize),
    RemoveRange(usize, usize),
    RemoveScores(ScoreRange),
    Clone,
}

fn member() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (0u32..60).prop_map(|i| format!("m{i}").into_bytes()),
        2 => prop::collection::vec(97u8..99, 0..3),
        2 => (0u8..6, 45usize..80).prop_map(|(b, n)| { let mut v = vec![b'x'; n]; v.push(b); v }),
    ]
}

fn score() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (-3i32..4).prop_map(f64::from),
        1 => Just(-0.0),
        1 => Just(f64::INFINITY),
        1 => Just(f64::NEG_INFINITY),
        1 => any::<f64>().prop_filter("a number", |s| !s.is_nan()),
    ]
}

fn options() -> impl Strategy<Value = AddOptions> {
    (0u8..8, any::<bool>()).prop_map(|(kind, increment)| AddOptions {
        if_absent: kind == 1,
        if_present: kind == 2,
        if_greater: kind == 3,
        if_less: kind == 4,
        increment,
    })
}

fn bound() -> impl Strategy<Value = ScoreBound> {
    (score(), any::<bool>()).prop_map(|(s, ex)| if ex { ScoreBound::Exclusive(s) } else { ScoreBound::Inclusive(s) })
}

fn score_range() -> impl Strategy<Value = ScoreRange> {
    (bound(), bound()).prop_map(|(min, max)| ScoreRange { min, max })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => (score(), member(), options()).prop_map(|(s, m, o)| Step::Add(s, m, o)),
        1 => any::<u16>().prop_map(Step::AddMany),
        3 => member().prop_map(Step::Remove),
        3 => any::<usize>().prop_map(Step::RemoveAt),
        1 => (any::<usize>(), any::<usize>()).prop_map(|(a, b)| Step::RemoveRange(a, b)),
        1 => score_range().prop_map(Step::RemoveScores),
        1 => Just(Step::Clone),
    ]
}

fn limits() -> Limits {
    Limits { zset_max_listpack_entries: 12, zset_max_listpack_value: 70, ..Limits::default() }
}

fn collect(set: &ZSet, reverse: bool) -> Vec<(Vec<u8>, f64)> {
    set.iter(0..u64::MAX, reverse).map(|(m, s)| (m.to_vec(), s)).collect()
}

fn same(set: &ZSet, model: &Model) {
    let expected = model.sorted();
    assert_eq!(collect(set, false), expected);
    assert_eq!(set.len(), expected.len() as u64);
    if let Form::Large(large) = &set.0 {
        large.check();
    }
}

/// The members that a scan from 0 to 0 visits, a few at a time.
fn scan_all(set: &ZSet, count: u64) -> Vec<(Vec<u8>, f64)> {
    let mut all = Vec::new();
    let mut cursor = 0;
    loop {
        cursor = set.scan(cursor, count, |m, s| all.push((m.to_vec(), s)));
        if cursor == 0 {
            return all;
        }
    }
}

fn lex_bound(which: u8, member: &[u8]) -> LexBound<'_> {
    match which % 6 {
        0 => LexBound::Min,
        1 => LexBound::Max,
        2 | 3 => LexBound::Inclusive(member),
        _ => LexBound::Exclusive(member),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn behaves_like_a_map(
        steps in prop::collection::vec(step(), 1..80),
        range in score_range(),
        (from, to) in (0u64..150, 0u64..150),
        probe in member(),
    ) {
        let limits = limits();
        let mut set = ZSet::new();
        let mut model = Model::default();
        let mut old = Vec::new();
        for step in steps {
            let was_large = set.encoding() == "skiplist";
            match step {
                Step::Add(s, m, o) => prop_assert_eq!(set.add(s, &m, o, &limits), model.add(s, &m, o)),
                Step::AddMany(from) => for i in 0..50u16 {
                    let (s, m) = (f64::from(i % 7), format!("n{}", from.wrapping_add(i)).into_bytes());
                    let o = AddOptions::default();
                    prop_assert_eq!(set.add(s, &m, o, &limits), model.add(s, &m, o));
                },
                Step::Remove(m) => prop_assert_eq!(set.remove(&m), model.0.remove(&m)),
                Step::RemoveAt(i) => if !model.0.is_empty() {
                    let (m, s) = model.sorted().swap_remove(i % model.0.len());
                    model.0.remove(&m);
                    prop_assert_eq!(set.remove(&m), Some(s));
                },
                Step::RemoveRange(a, b) => {
                    let (a, b) = (a % (model.0.len() + 1), b % (model.0.len() + 3));
                    set.remove_range(a as u64..b as u64);
                    for (m, _) in model.sorted().iter().take(b).skip(a) { model.0.remove(m); }
                }
                Step::RemoveScores(range) => {
                    set.remove_range(set.score_range(&range));
                    model.0.retain(|_, s| range.is_above(*s) || range.is_below(*s));
                }
                Step::Clone => old.push((set.clone(), model.clone())),
            }
            same(&set, &model);
            let large = was_large || model.0.len() > 12 || model.0.keys().any(|m| m.len() > 70);
            prop_assert_eq!(set.encoding(), if large { "skiplist" } else { "listpack" });
        }
        old.iter().for_each(|(set, model)| same(set, model));

        let sorted = model.sorted();
        prop_assert_eq!(collect(&set, true), sorted.iter().rev().cloned().collect::<Vec<_>>());
        let part: Vec<_> = sorted.iter().take(to as usize).skip(from as usize).cloned().collect();
        let iter = |reverse| set.iter(from..to, reverse).map(|(m, s)| (m.to_vec(), s)).collect::<Vec<_>>();
        prop_assert_eq!(set.iter(from..to, true).len(), part.len());
        prop_assert_eq!(iter(false), part.clone());
        prop_assert_eq!(iter(true), part.into_iter().rev().collect::<Vec<_>>());
        for (i, (m, s)) in sorted.iter().enumerate() {
            prop_assert_eq!(set.rank(m), Some((i as u64, *s)));
            prop_assert_eq!(set.get(i as u64), Some((m.as_slice(), *s)));
        }
        prop_assert_eq!(set.score(&probe), model.0.get(&probe).copied());
        prop_assert_eq!(set.rank(&probe).map(|r| r.1), model.0.get(&probe).copied());

        let ranks = set.score_range(&range);
        let below = sorted.iter().filter(|(_, s)| range.is_above(*s)).count() as u64;
        let inside = sorted.iter().filter(|(_, s)| !range.is_above(*s) && !range.is_below(*s)).count() as u64;
        prop_assert_eq!(ranks.end - ranks.start, inside);
        prop_assert!(inside == 0 || ranks.start == below);

        let mut scanned = scan_all(&set, 3);
        scanned.sort_by(|a, b| a.0.cmp(&b.0));
        prop_assert_eq!(scanned, model.0.iter().map(|(m, s)| (m.clone(), *s)).collect::<Vec<_>>());

        let mut bytes = Vec::new();
        set.encode(&mut bytes);
        let decoded = ZSet::decode(&bytes).unwrap();
        same(&decoded, &model);
        prop_assert_eq!(decoded.encoding(), set.encoding());
    }

    #[test]
    fn ranges_of_members(
        members in prop::collection::btree_set(member(), 0..60),
        (a, b) in ((any::<u8>(), member()), (any::<u8>(), member())),
    ) {
        let mut set = ZSet::new();
        for m in &members {
            set.insert(1.0, m, &limits()).unwrap();
        }
        let range = LexRange { min: lex_bound(a.0, &a.1), max: lex_bound(b.0, &b.1) };
        let expected: Vec<_> = members.iter().filter(|m| !range.is_above(m) && !range.is_below(m)).cloned().collect();
        let found: Vec<_> = set.iter(set.lex_range(&range), false).map(|(m, _)| m.to_vec()).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn decoding_survives_damage(
        members in prop::collection::btree_map(member(), score(), 0..30),
        damage in prop::collection::vec((any::<usize>(), any::<u8>()), 1..4),
        cut in any::<usize>(),
    ) {
        let mut set = ZSet::new();
        for (m, s) in &members {
            set.insert(*s, m, &limits()).unwrap();
        }
        let mut bytes = Vec::new();
        set.encode(&mut bytes);
        for (at, byte) in damage {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len() - cut % 3);
        if let Ok(set) = ZSet::decode(&bytes) {
            let mut again = Vec::new();
            set.encode(&mut again);
            same(&ZSet::decode(&again).unwrap(), &Model(set.iter(0..u64::MAX, false).map(|(m, s)| (m.to_vec(), s)).collect()));
        }
    }
}

/// Elements may change their scores during a scan: those that stay must be visited all the same.
#[test]
fn a_scan_is_complete_while_others_come_and_go() {
    let limits = limits();
    let mut set = ZSet::new();
    for i in 0..500 {
        set.insert(f64::from(i), format!("stays{i}").as_bytes(), &limits).unwrap();
    }
    let mut seen = std::collections::BTreeSet::new();
    let (mut cursor, mut round) = (0, 0);
    loop {
        cursor = set.scan(cursor, 10, |m, _| {
            seen.insert(m.to_vec());
        });
        if cursor == 0 {
            break;
        }
        round += 1;
        for i in 0..20 {
            set.insert(f64::from(i), format!("new{round}-{i}").as_bytes(), &limits).unwrap();
            set.remove(format!("new{}-{i}", round - 2).as_bytes());
            set.insert(f64::from(1000 - i), format!("stays{}", i * 7).as_bytes(), &limits).unwrap();
        }
    }
    assert!((0..500).all(|i| seen.contains(format!("stays{i}").as_bytes())));
}

#[test]
fn twice_the_same_member_is_corrupt() {
    for flags in [0, 1] {
        let mut bytes = vec![1, flags];
        for score in [1.0f64, 2.0] {
            bytes.extend(score.to_le_bytes());
            bytes.extend(b"\x01a");
        }
        assert!(ZSet::decode(&bytes).is_err());
    }
}
