//! The hash that orders the large forms of hashes and sets.
//!
//! The order of fields and members inside a tree is that of a 64-bit hash of their bytes. So they spread evenly, and a
//! scan cursor can be a prefix of the hash. There is one seed per process. The owner of randomness (the binary at its
//! start, a simulator with its own seed) hands it in once, before the first large value exists.

use std::hash::Hasher;
use std::sync::OnceLock;

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;

/// The seed if none was handed in: for tests and tools. A server must hand one in, because a client that knows the seed
/// can choose members that collide.
const DEFAULT: u64 = 0x486f_6c64_6661_7374;

static SEED: OnceLock<(u64, SharedSeed)> = OnceLock::new();

fn expand(seed: u64) -> (u64, SharedSeed) {
    (seed, SharedSeed::from_u64(seed))
}

/// Fixes the seed for the life of the process.
///
/// Returns false if another seed is already in use: the trees built with it would not be found again.
pub fn hand_in(seed: u64) -> bool {
    SEED.get_or_init(|| expand(seed)).0 == seed
}

/// The 64-bit hash of a field or a member.
#[inline]
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let (seed, shared) = SEED.get_or_init(|| expand(DEFAULT));
    let mut hasher = FoldHasher::with_seed(*seed, shared);
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_stays() {
        let before = hash(b"field");
        assert!(!hand_in(DEFAULT ^ 1), "a hash was taken: the seed is fixed");
        assert!(hand_in(DEFAULT));
        assert_eq!(hash(b"field"), before);
    }

    #[test]
    fn lengths_and_bytes_matter() {
        let inputs: [&[u8]; 6] = [b"", b"a", b"aa", b"aaa", b"\0", b"\0\0"];
        for (i, a) in inputs.iter().enumerate() {
            for b in &inputs[i + 1..] {
                assert_ne!(hash(a), hash(b), "{a:?} and {b:?}");
            }
        }
    }
}
