//! From the registers to the cardinality: the estimator of Otmar Ertl, "New cardinality estimation algorithms for
//! HyperLogLog sketches" (arXiv:1702.01284), algorithm 6. It needs no correction for small or large sets.
//!
//! The order of the operations is Redis's, so that every estimate is the same to the last digit.

use super::{INDEX_BITS, REGISTERS};

/// Number of values a register can have. Adding gives 0 to 51.
pub(super) const VALUES: usize = 64;

/// How many registers have each value.
pub(super) type Histogram = [u32; VALUES];

/// The greatest value but one that adding gives: bits of the hash that do not choose the register.
const Q: usize = (u64::BITS - INDEX_BITS) as usize;
/// 1 / (2 ln 2).
const ALPHA: f64 = 0.721_347_520_444_481_7;

pub(super) fn cardinality(histogram: &Histogram) -> i64 {
    let m = REGISTERS as f64;
    let mut z = m * tau((m - f64::from(histogram[Q + 1])) / m);
    for &registers in histogram[1..=Q].iter().rev() {
        z = (z + f64::from(registers)) * 0.5;
    }
    z += m * sigma(f64::from(histogram[0]) / m);
    let estimate = (ALPHA * m * m / z).round();
    // Registers that no hash gives make it infinite; the processor's answer to that, and so Redis's, is the least
    // integer.
    if estimate < i64::MAX as f64 { estimate as i64 } else { i64::MIN }
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}
