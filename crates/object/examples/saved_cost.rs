//! The cost of a checkpoint of a large collection after one small change: nanoseconds under the latch, microseconds off
//! it, leaves and bytes written, and the time to write all and to read it back.
//!
//! `cargo run --release -p object --example saved_cost`

#![allow(clippy::disallowed_methods, reason = "an example that measures time")]

use std::num::NonZeroU64;
use std::time::Instant;

use object::hash::Expiry;
use object::list::End;
use object::saved::{Freeze, Loaded, load};
use object::stream::Id;
use object::{Hash, Limits, List, Stream, ZSet};

const ROUNDS: u64 = 1000;

type Leaves = Vec<(u64, Vec<u8>)>;

/// Saves as a checkpoint does; the header, the leaves, and how long it took under the latch and off it, in nanoseconds.
fn save(value: &mut impl Freeze, epoch: u64, stored: Option<&[u8]>) -> (Vec<u8>, Leaves, [u128; 2]) {
    let start = Instant::now();
    let Some(frozen) = NonZeroU64::new(epoch).and_then(|epoch| value.freeze(epoch)) else { return Default::default() };
    let latched = start.elapsed().as_nanos();
    let start = Instant::now();
    let changes = frozen.changes(stored);
    let (mut header, mut leaves) = (Vec::new(), Leaves::new());
    let Ok(()) = changes.leaves(|label, bytes| {
        leaves.push((label, bytes.to_vec()));
        Ok::<(), std::convert::Infallible>(())
    });
    changes.header(&mut header);
    (header, leaves, [latched, start.elapsed().as_nanos()])
}

fn measure<V: Freeze>(name: &str, mut value: V, mut change: impl FnMut(&mut V, u64)) {
    let start = Instant::now();
    let (mut header, mut all, _) = save(&mut value, 1, None);
    let whole = start.elapsed();
    let bytes: usize = all.iter().map(|(_, leaf)| leaf.len()).sum();
    all.sort_unstable();
    let start = Instant::now();
    if let Ok(Loaded::Large(mut assembler)) = load(&header) {
        let added = all.iter().try_for_each(|(label, leaf)| assembler.add(*label, leaf));
        assert!(added.is_ok() && assembler.finish().is_ok(), "what was saved");
    }
    let read = start.elapsed();
    println!("{name}: {} leaves, {bytes} bytes: written in {whole:.1?}, read in {read:.1?}", all.len());
    drop(all);
    let (mut latched, mut off, mut leaves, mut written, mut most) = (0, 0, 0, 0, 0);
    for round in 0..ROUNDS {
        change(&mut value, round);
        let (new, changed, times) = save(&mut value, round + 2, Some(&header));
        header = new;
        latched += times[0];
        off += times[1];
        leaves += changed.len();
        most = most.max(changed.len());
        written += header.len() + changed.iter().map(|(_, leaf)| leaf.len()).sum::<usize>();
    }
    let mean = |n: f64| n / ROUNDS as f64;
    println!(
        "  a change: {:.0} ns under the latch, {:.1} us off it, {:.2} leaves (at most {most}), {:.0} bytes",
        mean(latched as f64),
        mean(off as f64) / 1000.0,
        mean(leaves as f64),
        mean(written as f64)
    );
}

fn main() {
    let (limits, n) = (Limits::default(), 1_000_000u64);
    let place = |i: u64| i.wrapping_mul(7_368_787) % n;
    let name = |i: u64| format!("user:{i:08}").into_bytes();
    let mut zset = ZSet::new();
    (0..n).map(place).for_each(|i| _ = zset.insert((i * 7919 % n) as f64, &name(i), &limits));
    measure("sorted set, ZADD", zset, |zset, i| _ = zset.insert(place(i * 31) as f64 + 0.5, &name(place(i)), &limits));
    let mut hash = Hash::new();
    (0..n).map(place).for_each(|i| _ = hash.set(&name(i), &[b'v'; 32], Expiry::Clear, &limits));
    measure("hash, HSET", hash, |hash, i| _ = hash.set(&name(place(i)), &[b'w'; 32], Expiry::Clear, &limits));
    let mut list = List::new();
    (0..n).for_each(|i| list.push(End::Back, &name(i), &limits));
    measure("list, LPUSH", list, |list, i| list.push(End::Front, &name(i), &limits));
    let mut stream = Stream::new();
    let append = |stream: &mut Stream, i| {
        let added = stream.log.append(Id::new(i, 0), 1, [(&b"field"[..], &name(i)[..])].into_iter(), &limits);
        assert_eq!(added, Ok(()));
    };
    (1..=n).for_each(|i| append(&mut stream, i));
    measure("stream, XADD", stream, |stream, i| append(stream, n + 1 + i));
}
