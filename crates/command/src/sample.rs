//! Random choices among the elements of a collection, by rank.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::rng::Rng;

/// Most bytes of a reply of random elements. A negative count asks for any number of them, repetitions included, and
/// could fill the memory otherwise.
const REPLY_BYTES_MAX: usize = if cfg!(test) { 1 << 20 } else { 1 << 30 };

/// `count` different numbers below `n`, ascending; every choice is equally likely. `count` is at most `n`.
///
/// Takes time and memory in proportion to `count` (Floyd's algorithm; Bentley, "A sample of brilliance", 1987).
pub(crate) fn distinct(rng: &mut Rng, n: u64, count: u64) -> BTreeSet<u64> {
    let mut chosen = BTreeSet::new();
    for last in n.saturating_sub(count)..n {
        let candidate = rng.below(last + 1);
        if !chosen.insert(candidate) {
            chosen.insert(last);
        }
    }
    chosen
}

/// Chooses `count` of `n` elements that are visited one after another, every choice being equally likely (Knuth, The
/// Art of Computer Programming, volume 2, algorithm S). It is the better way if most are chosen.
pub(crate) struct Sieve {
    left: u64,
    wanted: u64,
}

impl Sieve {
    /// `count` is at most `n`.
    pub fn new(n: u64, count: u64) -> Self {
        Sieve { left: n, wanted: count }
    }

    /// True if the next element is chosen.
    pub fn next(&mut self, rng: &mut Rng) -> bool {
        let chosen = rng.below(self.left) < self.wanted;
        self.left = self.left.saturating_sub(1);
        self.wanted -= u64::from(chosen);
        chosen
    }
}

/// An error if a reply of random elements has become too large: so many bytes have been written, `start` before it.
pub(crate) fn check_size(written: usize, start: usize) -> Result<(), Error> {
    if written - start > REPLY_BYTES_MAX {
        return Err(Error::new("ERR too many random elements for one reply"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each of `n` is chosen in many choices of `count`.
    fn histogram(n: u64, count: u64, mut choose: impl FnMut(&mut Rng) -> Vec<u64>) -> Vec<u64> {
        let (mut rng, mut times) = (Rng::new(1), vec![0; n as usize]);
        for _ in 0..10_000 {
            let chosen = choose(&mut rng);
            assert_eq!(chosen.len() as u64, count);
            assert!(chosen.is_sorted_by(|a, b| a < b));
            chosen.into_iter().for_each(|i| times[i as usize] += 1);
        }
        times
    }

    #[test]
    fn every_element_is_chosen_equally_often() {
        for (n, count) in [(7, 3), (7, 7), (7, 0), (1, 1), (10, 9)] {
            let floyd = histogram(n, count, |rng| distinct(rng, n, count).into_iter().collect());
            let sieve = histogram(n, count, |rng| {
                let mut sieve = Sieve::new(n, count);
                (0..n).filter(|_| sieve.next(rng)).collect()
            });
            let expected = 10_000 * count / n;
            for times in floyd.into_iter().chain(sieve) {
                assert!(times.abs_diff(expected) < 300, "{times} times instead of {expected}");
            }
        }
    }
}
