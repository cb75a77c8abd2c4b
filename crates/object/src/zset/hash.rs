//! The hash that orders the index of members.
//!
//! It needs no seed. Members with one hash are kept in the order of their bytes. So a client gains nothing by making
//! many of them, and ZSCAN's cursors stay valid across restarts and nodes. It must never change: cursors are made of
//! it.

/// Multiplies and folds the two halves of the product together: every bit of the input reaches every bit of the result.
fn fold(x: u64) -> u64 {
    const ODD: u64 = 0xa076_1d64_78bd_642f;
    let product = u128::from(x) * u128::from(ODD);
    product as u64 ^ (product >> 64) as u64
}

/// A 32-bit hash of a member.
pub(super) fn hash(member: &[u8]) -> u32 {
    const START: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = START ^ member.len() as u64;
    let (words, rest) = member.as_chunks::<8>();
    for word in words {
        state = fold(state.wrapping_add(u64::from_le_bytes(*word)));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    state = fold(state.wrapping_add(u64::from_le_bytes(last)) ^ START.rotate_left(32));
    (fold(state) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::hash;

    /// Cursors of clients are made of these numbers.
    #[test]
    fn never_changes() {
        assert_eq!([hash(b""), hash(b"a"), hash(b"member:1")], [381095208, 2759333143, 2821126752]);
    }

    #[test]
    fn numbered_members_spread_evenly() {
        let mut buckets = [0u32; 256];
        for i in 0..25_600 {
            buckets[(hash(format!("user:{i:08}").as_bytes()) >> 24) as usize] += 1;
        }
        // 100 expected in each, with a standard deviation of 10.
        assert!(buckets.iter().all(|&n| (50..150).contains(&n)), "{buckets:?}");
    }
}
