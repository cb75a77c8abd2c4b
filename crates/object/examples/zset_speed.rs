//! How long the operations of sorted sets take, in nanoseconds, and how many bytes a member costs.
//!
//! `cargo run --release -p object --example zset_speed`

#![allow(clippy::disallowed_methods, reason = "an example that measures time")]

use std::hint::black_box;
use std::time::Instant;

use object::zset::{ScoreBound, ScoreRange};
use object::{Limits, ZSet};

/// Numbers below `n` in an order that is neither that of insertion nor that of hashes.
fn shuffled(n: u64) -> impl Iterator<Item = u64> {
    // The factor has no divisor in common with the numbers used here.
    (0..n).map(move |i| i.wrapping_mul(7_368_787) % n)
}

fn time(label: &str, operations: u64, run: impl FnOnce()) {
    let start = Instant::now();
    run();
    println!("  {label:<24} {:8.1} ns", start.elapsed().as_nanos() as f64 / operations as f64);
}

fn main() {
    let limits = Limits::default();
    for n in [100u64, 100_000, 1_000_000] {
        println!("{n} members");
        let members: Vec<String> = shuffled(n).map(|i| format!("user:{i:08}")).collect();
        // Scores come in an order of their own.
        let scores: Vec<f64> = shuffled(n).map(|i| (i.wrapping_mul(2_654_435_761) % n) as f64).collect();
        let all = || members.iter().zip(&scores).map(|(member, score)| (member.as_bytes(), *score));
        let mut set = ZSet::new();
        time("insert", n, || all().for_each(|(member, score)| _ = set.insert(score, member, &limits)));
        let beside = set.memory() as f64 / n as f64 - 13.0;
        println!("  {:<24} {beside:8.1} bytes a member beside it", set.encoding());
        time("score", n, || all().for_each(|(member, _)| _ = black_box(set.score(member))));
        time("rank", n, || all().for_each(|(member, _)| _ = black_box(set.rank(member))));
        time("count by score", n, || {
            scores.iter().for_each(|&score| {
                let (min, max) = (ScoreBound::Inclusive(score), ScoreBound::Exclusive(score + 100.0));
                black_box(set.score_range(&ScoreRange { min, max }));
            });
        });
        time("range of 100, by rank", n / 100, || {
            shuffled(n / 100).for_each(|i| set.iter(i * 100..i * 100 + 100, false).for_each(|m| _ = black_box(m)));
        });
        time("change score", n, || all().for_each(|(member, score)| _ = set.insert(score + 0.5, member, &limits)));
        time("remove", n, || all().for_each(|(member, _)| _ = set.remove(member)));
        time("insert, ascending", n, || {
            members.iter().zip(0u32..).for_each(|(m, i)| _ = set.insert(f64::from(i), m.as_bytes(), &limits));
        });
        set = ZSet::new();
        time("insert, equal scores", n, || all().for_each(|(member, _)| _ = set.insert(0.0, member, &limits)));
    }
}
