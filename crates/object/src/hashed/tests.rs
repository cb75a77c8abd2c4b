//! The table against a `BTreeMap`, with marks as the hash gives them and with marks that many keys share.

use std::collections::BTreeMap;

use clocks::UnixMs;
use proptest::prelude::*;

use super::leaf::Record;
use super::{Mark, Table};

/// Key, one byte of expiry (0 is none), then anything. The key is the first two bytes.
struct Usual;
/// The same with only eight marks.
struct Crowded;

fn expiry_of(record: &[u8]) -> UnixMs {
    match record[2] {
        0 => UnixMs::NEVER,
        at => UnixMs(u64::from(at)),
    }
}

impl Record for Usual {
    const EXPIRES: bool = true;
    fn key(record: &[u8]) -> &[u8] {
        &record[..2]
    }
    fn expiry(record: &[u8]) -> UnixMs {
        expiry_of(record)
    }
    fn is_record(record: &[u8]) -> bool {
        record.len() > 2
    }
}

impl Record for Crowded {
    const EXPIRES: bool = true;
    fn key(record: &[u8]) -> &[u8] {
        &record[..2]
    }
    fn expiry(record: &[u8]) -> UnixMs {
        expiry_of(record)
    }
    fn is_record(record: &[u8]) -> bool {
        record.len() > 2
    }
    fn mark(key: &[u8]) -> Mark {
        Mark(u32::from(key[0] & 7) * 1000)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Set { key: u16, expiry: u8, len: usize },
    Remove(u16),
    RemoveNth(u16),
    Reclaim { now: u8, max: usize },
    Freeze,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0..1200u16;
    let step = prop_oneof![
        8 => (key.clone(), prop_oneof![3 => Just(0u8), 1 => 1..=255u8], prop_oneof![12 => 0..40usize, 2 => 0..700usize, 1 => 0..12_000usize])
            .prop_map(|(key, expiry, len)| Step::Set { key, expiry, len }),
        3 => key.prop_map(Step::Remove),
        1 => any::<u16>().prop_map(Step::RemoveNth),
        1 => (any::<u8>(), 0..60usize).prop_map(|(now, max)| Step::Reclaim { now, max }),
        1 => Just(Step::Freeze),
    ];
    prop::collection::vec(step, 0..600)
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn agree<R: Record>(table: &Table<R>, model: &Model) {
    assert_eq!(table.len(), model.len() as u64);
    let all: Vec<&[u8]> = table.iter().collect();
    assert!(all.is_sorted_by_key(|record| R::mark(R::key(record))));
    let sorted: Model = all.iter().map(|record| (R::key(record).to_vec(), record.to_vec())).collect();
    assert!(&sorted == model);
    for (rank, record) in all.iter().enumerate().step_by(7) {
        assert_eq!(table.nth(rank as u64), Some(*record));
        assert_eq!(table.get(R::key(record)), Some(*record));
    }
    assert_eq!(table.nth(table.len()), None);
    assert_eq!(table.expiry(), model.values().map(|record| expiry_of(record)).min().unwrap_or(UnixMs::NEVER));
    for count in [1, 10, 1000] {
        let (mut seen, mut from) = (Vec::new(), Mark::default());
        while let Some(next) = table.scan(from, count, |record| seen.push(record)) {
            assert!(next > from);
            from = next;
        }
        assert_eq!(seen, all);
    }
}

fn run<R: Record>(steps: Vec<Step>) {
    let (mut table, mut model) = (Table::<R>::new(), Model::new());
    let mut frozen: Vec<(Table<R>, Model)> = Vec::new();
    for step in steps {
        match step {
            Step::Set { key, expiry, len } => {
                let (key, rest) = (key.to_le_bytes(), vec![key as u8; len]);
                let record = [&key[..], &[expiry], &rest].concat();
                table.change(&key, |mut place| {
                    assert_eq!(place.record(), model.get(&key[..]).map(Vec::as_slice));
                    place.set(&[&key, &[expiry], &rest]);
                    assert_eq!(place.record(), Some(&record[..]));
                });
                model.insert(key.to_vec(), record);
            }
            Step::Remove(key) => {
                let key = key.to_le_bytes();
                let removed = table.change(&key, |mut place| place.remove());
                assert_eq!(removed, model.remove(&key[..]).is_some());
            }
            Step::RemoveNth(rank) => {
                let taken = table.remove_nth(u64::from(rank) % 512, <[u8]>::to_vec);
                assert_eq!(taken.is_some(), u64::from(rank) % 512 < model.len() as u64);
                if let Some(record) = taken {
                    assert_eq!(model.remove(R::key(&record)), Some(record));
                }
            }
            Step::Reclaim { now, max } => {
                let now = UnixMs(u64::from(now));
                let due = model.values().filter(|record| expiry_of(record) <= now).count();
                let n = table.reclaim(now, max, |record| {
                    assert!(expiry_of(record) <= now);
                    assert_eq!(model.remove(R::key(record)).as_deref(), Some(record));
                });
                assert_eq!(n, due.min(max));
            }
            Step::Freeze => frozen.push((table.clone(), model.clone())),
        }
    }
    agree(&table, &model);
    // A clone keeps its contents when the original changes.
    for (table, model) in frozen.iter().take(3) {
        agree(table, model);
    }
    agree(&Table::<R>::build(model.values().map(Vec::as_slice)), &model);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn behaves_like_a_map(steps in steps()) {
        run::<Usual>(steps);
    }

    #[test]
    fn behaves_like_a_map_when_marks_are_shared(steps in steps()) {
        run::<Crowded>(steps);
    }

    #[test]
    fn scan_shows_whatever_stays(stay in 1..300u16, steps in prop::collection::vec((any::<bool>(), 300..1500u16), 400), count in 1..30usize) {
        let mut table = Table::<Usual>::new();
        for key in 0..stay {
            table.change(&key.to_le_bytes(), |mut place| place.set(&[&key.to_le_bytes(), &[0; 60]]));
        }
        let (mut seen, mut from) = (std::collections::BTreeSet::new(), Mark::default());
        let mut steps = steps.into_iter();
        loop {
            let next = table.scan(from, count, |record| { seen.insert(u16::from_le_bytes([record[0], record[1]])); });
            let Some(next) = next else { break };
            from = next;
            for (add, key) in steps.by_ref().take(20) {
                table.change(&key.to_le_bytes(), |mut place| {
                    if add { place.set(&[&key.to_le_bytes(), &[0; 100]]) } else { place.remove(); }
                });
            }
        }
        prop_assert!((0..stay).all(|key| seen.contains(&key)));
    }
}

#[test]
fn of_equal_keys_one_is_kept() {
    assert_eq!(Table::<Usual>::build([&[1, 2, 0][..], &[1, 3, 0], &[1, 2, 0, 9]]).len(), 2);
}
