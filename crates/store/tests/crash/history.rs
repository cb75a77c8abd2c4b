//! The batches that a child writes. Each is known from a seed and its number, so the contents of a store follow from
//! the number alone.

use std::collections::BTreeMap;
use std::ops::Bound;

use store::conformance::noise;
use store::{Batch, Op, Store};

/// The key that every batch writes its number to.
const MARK: [u8; 1] = [1];

/// Keys that are overwritten all the time.
const KEYS: u64 = 400;

fn dice(seed: u64, number: u64) -> impl FnMut(u64) -> u64 {
    let mut bytes = noise(seed.wrapping_mul(0x1_0000_0001) ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93));
    move |sides| {
        let drawn = (0..4).fold(0, |n, _| n << 8 | u64::from(bytes.next().unwrap_or(0)));
        drawn % sides
    }
}

/// True if the child flushes after this batch.
pub fn is_flushed(seed: u64, number: u64) -> bool {
    number == 0 || dice(seed ^ 0xf1, number)(6) == 0
}

/// The batch with this number.
pub fn batch(seed: u64, number: u64) -> Batch {
    let mut dice = dice(seed, number);
    let mut batch = Batch::new();
    for _ in 0..dice(30) {
        let key = [&[2], dice(KEYS).to_be_bytes().as_slice()].concat();
        if dice(5) == 0 {
            batch.delete(&key);
        } else {
            let value: Vec<u8> = noise(dice(1 << 32)).take(dice(400) as usize).collect();
            batch.put(&key, &value);
        }
    }
    // Objects of many leaves that live for a while.
    let object = |number: u64| [&[3], (number / 20).to_be_bytes().as_slice()].concat();
    for leaf in 0..dice(20) {
        batch.put(&[object(number).as_slice(), &[leaf as u8]].concat(), &[number as u8; 100]);
    }
    if number >= 40 && number.is_multiple_of(20) {
        batch.retire(&object(number - 40));
    }
    batch.put(&MARK, &number.to_be_bytes());
    batch
}

/// The contents of a store after this batch.
pub fn contents(seed: u64, number: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut entries = BTreeMap::new();
    for number in 1..=number {
        for op in batch(seed, number).ops() {
            match op {
                Op::Put(key, value) => drop(entries.insert(key.to_vec(), value.to_vec())),
                Op::Delete(key) => drop(entries.remove(key)),
                Op::Retire(prefix) => entries.retain(|key: &Vec<u8>, _| !key.starts_with(prefix)),
            }
        }
    }
    entries
}

/// The last batch that is in the store.
pub fn mark(store: &dyn Store) -> Result<u64, String> {
    let found = store.get(&MARK).map_err(|e| e.to_string())?;
    Ok(found.and_then(|value| value.try_into().ok()).map_or(0, u64::from_be_bytes))
}

/// Checks that the store is in a state that it may have once batch `acknowledged` was acknowledged. Returns its last
/// batch.
pub fn judge(store: &dyn Store, seed: u64, acknowledged: u64) -> Result<u64, String> {
    let mark = mark(store)?;
    if mark < acknowledged {
        return Err(format!("lost: it has batch {mark}, and {acknowledged} was flushed"));
    }
    if !is_flushed(seed, mark) {
        return Err(format!("torn: it has batch {mark}, after which there was no flush"));
    }
    let snapshot = store.snapshot();
    let found = snapshot.range((Bound::Unbounded, Bound::Unbounded)).collect::<Result<BTreeMap<_, _>, _>>();
    let found = found.map_err(|e| e.to_string())?;
    let expected = contents(seed, mark);
    if found != expected {
        let wrong = expected.keys().chain(found.keys()).find(|key| found.get(*key) != expected.get(*key));
        return Err(format!("wrong: batch {mark}, but key {wrong:02x?} is not as it was then"));
    }
    for (key, value) in &expected {
        if store.get(key).map_err(|e| e.to_string())?.as_ref() != Some(value) {
            return Err(format!("wrong: batch {mark}, but key {key:02x?} is read otherwise"));
        }
    }
    Ok(mark)
}
