//! MurmurHash64A by Austin Appleby (public domain), the hash of Redis's HyperLogLogs.

const M: u64 = 0xc6a4_a793_5bd1_e995;
const R: u32 = 47;

#[inline]
pub(super) fn hash(data: &[u8], seed: u64) -> u64 {
    let mut hash = seed ^ (data.len() as u64).wrapping_mul(M);
    let (words, tail) = data.as_chunks::<8>();
    for word in words {
        let mut k = u64::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> R;
        hash = (hash ^ k.wrapping_mul(M)).wrapping_mul(M);
    }
    if !tail.is_empty() {
        let last = tail.iter().rev().fold(0, |k, byte| k << 8 | u64::from(*byte));
        hash = (hash ^ last).wrapping_mul(M);
    }
    hash = (hash ^ hash >> R).wrapping_mul(M);
    hash ^ hash >> R
}
