//! How long the operations of hashes and sets take, in nanoseconds, and how many bytes a field costs.
//!
//! `cargo run --release -p object --example hash_speed`

#![allow(clippy::disallowed_methods, reason = "an example that measures time")]

use std::hint::black_box;
use std::time::Instant;

use clocks::UnixMs;
use object::hash::Expiry;
use object::{Hash, Limits, Set};

/// The names of fields in an order that is neither that of insertion nor that of hashes.
fn shuffled(n: u64) -> impl Iterator<Item = u64> {
    // The factor has no divisor in common with the numbers used here.
    (0..n).map(move |i| i.wrapping_mul(7_368_787) % n)
}

/// Prints the best time of several rounds of `operations` each: other programs only ever add to it.
fn time(label: &str, rounds: u64, operations: u64, mut run: impl FnMut()) {
    let round = |_| {
        let start = Instant::now();
        run();
        start.elapsed().as_nanos()
    };
    let best = (0..rounds).map(round).min().unwrap_or(0);
    println!("  {label:<20} {:8.1} ns", best as f64 / operations as f64);
}

fn main() {
    let limits = Limits::default();
    for n in [100u64, 1_000, 100_000, 1_000_000] {
        println!("{n} fields");
        let rounds = (2_000_000 / n).clamp(7, 100);
        let names: Vec<String> = shuffled(n).map(|i| format!("field:{i}")).collect();
        let absent: Vec<String> = names.iter().map(|name| format!("{name}?")).collect();
        let bytes = names.iter().map(String::len).sum::<usize>() as f64 / n as f64;
        let value = [b'v'; 32];
        let mut hash = Hash::new();
        time("set, new", 1, n, || {
            names.iter().for_each(|name| _ = hash.set(name.as_bytes(), &value, Expiry::Clear, &limits));
        });
        println!(
            "  {:<20} {:8.1} bytes a field beside name and value",
            hash.encoding(),
            hash.memory() as f64 / n as f64 - 32.0 - bytes
        );
        time("set, present", rounds, n, || {
            names.iter().for_each(|name| _ = hash.set(name.as_bytes(), &value, Expiry::Clear, &limits));
        });
        time("get", rounds, n, || names.iter().for_each(|name| _ = black_box(hash.get(name.as_bytes(), UnixMs::ZERO))));
        time("get, absent", rounds, n, || {
            absent.iter().for_each(|name| _ = black_box(hash.get(name.as_bytes(), UnixMs::ZERO)))
        });
        time("walk", rounds, n, || hash.iter(UnixMs::ZERO).for_each(|field| _ = black_box(field)));
        time("by rank", rounds, n, || shuffled(n).for_each(|rank| _ = black_box(hash.nth(rank))));
        let mut copy = Hash::new();
        names.iter().for_each(|name| _ = copy.set(name.as_bytes(), &value, Expiry::Clear, &limits));
        let mut copy = Some(copy);
        time("drop", 1, n, || copy = None);
        let clone = hash.clone();
        time("remove, all shared", 1, n, || names.iter().for_each(|name| _ = hash.remove(name.as_bytes())));
        drop(clone);

        let mut set = Set::new();
        time("set: add", 1, n, || names.iter().for_each(|name| _ = set.add(name.as_bytes(), &limits)));
        println!("  {:<20} {:8.1} bytes a member beside it", set.encoding(), set.memory() as f64 / n as f64 - bytes);
        time("set: contains", rounds, n, || names.iter().for_each(|name| _ = black_box(set.contains(name.as_bytes()))));
    }
}
