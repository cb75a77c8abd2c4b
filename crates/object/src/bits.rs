//! Bitmaps over byte strings: bit 0 is the highest bit of the first byte, and beyond the end every bit is 0.
//!
//! The operations of BITCOUNT, BITPOS, BITOP and BITFIELD, a machine word at a time. Positions are in bits and fit
//! easily: a string has at most 2^29 bytes unless `proto-max-bulk-len` is raised, and an allocation never reaches 2^60.

mod combine;
mod field;

pub use combine::{Combine, combine};
pub use field::{Field, Overflow};

/// Number of set bits (BITCOUNT).
pub fn count(bytes: &[u8]) -> u64 {
    // Several independent sums let the compiler keep vector registers full.
    let (blocks, rest) = bytes.as_chunks::<32>();
    let (words, tail) = rest.as_chunks::<8>();
    let ones = |word: &[u8; 8]| u64::from(u64::from_ne_bytes(*word).count_ones());
    let blocks: u64 = blocks.iter().flat_map(|block| block.as_chunks::<8>().0).map(ones).sum();
    let words: u64 = words.iter().map(ones).sum();
    let tail: u64 = tail.iter().map(|byte| u64::from(byte.count_ones())).sum();
    blocks + words + tail
}

/// Number of set bits from bit `first` to bit `last`, both included; bits beyond the end do not count.
pub fn count_range(bytes: &[u8], first: u64, last: u64) -> u64 {
    let Some(range) = Range::of(bytes, first, last) else { return 0 };
    let inner = count(&bytes[range.first_byte..=range.last_byte]);
    let before = bytes[range.first_byte] & !range.first_mask;
    let after = bytes[range.last_byte] & !range.last_mask;
    inner - u64::from(before.count_ones()) - u64::from(after.count_ones())
}

/// Position of the first bit equal to `bit` from `first` to `last`, both included; also `None` if it would lie beyond
/// the end.
pub fn position(bytes: &[u8], bit: bool, first: u64, last: u64) -> Option<u64> {
    let Range { first_byte, last_byte, first_mask, last_mask } = Range::of(bytes, first, last)?;
    // Turned round so that a set bit is looked for, then cut at both ends.
    let flip = if bit { 0 } else { 0xff };
    let look = |index: usize| {
        let mut byte = bytes[index] ^ flip;
        if index == first_byte {
            byte &= first_mask;
        }
        if index == last_byte {
            byte &= last_mask;
        }
        (byte != 0).then(|| index as u64 * 8 + u64::from(byte.leading_zeros()))
    };
    if let Some(found) = look(first_byte) {
        return Some(found);
    }
    if first_byte == last_byte {
        return None;
    }
    let start = first_byte + 1;
    if let Some(skipped) = first_other(&bytes[start..last_byte], flip) {
        return look(start + skipped);
    }
    look(last_byte)
}

/// Index of the first byte that is not `byte`.
fn first_other(bytes: &[u8], byte: u8) -> Option<usize> {
    let pattern = [byte; 8];
    let (words, rest) = bytes.as_chunks::<8>();
    match words.iter().position(|word| *word != pattern) {
        Some(index) => words[index].iter().position(|&other| other != byte).map(|offset| index * 8 + offset),
        None => rest.iter().position(|&other| other != byte).map(|offset| words.len() * 8 + offset),
    }
}

/// The bit at `position` (GETBIT).
pub fn get(bytes: &[u8], position: u64) -> bool {
    let byte = usize::try_from(position / 8).ok().and_then(|index| bytes.get(index)).copied().unwrap_or(0);
    byte & mask(position) != 0
}

/// Sets the bit at `position` and returns its former value (SETBIT). `None`, with nothing done, if the string is too
/// short.
pub fn set(bytes: &mut [u8], position: u64, bit: bool) -> Option<bool> {
    let byte = bytes.get_mut(usize::try_from(position / 8).ok()?)?;
    let mask = mask(position);
    let was = *byte & mask != 0;
    if bit {
        *byte |= mask;
    } else {
        *byte &= !mask;
    }
    Some(was)
}

fn mask(position: u64) -> u8 {
    0x80 >> (position % 8)
}

/// A non-empty range of bits within a string: its bytes, and which bits of the outer two belong to it.
struct Range {
    first_byte: usize,
    last_byte: usize,
    first_mask: u8,
    last_mask: u8,
}

impl Range {
    /// Bits `first..=last`, cut at the end of `bytes`.
    fn of(bytes: &[u8], first: u64, last: u64) -> Option<Self> {
        let last = last.min((bytes.len() as u64 * 8).checked_sub(1)?);
        if first > last {
            return None;
        }
        Some(Self {
            first_byte: (first / 8) as usize,
            last_byte: (last / 8) as usize,
            first_mask: 0xff >> (first % 8),
            last_mask: 0xff << (7 - last % 8),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Strings with long runs of equal bytes, where the word-wise loops have their edges.
    pub(super) fn bitmap() -> impl Strategy<Value = Vec<u8>> {
        let run = (prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 0usize..30);
        proptest::collection::vec(run, 0..8)
            .prop_map(|runs| runs.into_iter().flat_map(|(byte, len)| std::iter::repeat_n(byte, len)).collect())
    }

    fn bits(bytes: &[u8]) -> Vec<bool> {
        bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte & (0x80 >> bit) != 0)).collect()
    }

    proptest! {
        #[test]
        fn counts_as_the_model(bytes in bitmap(), first in 0u64..900, last in 0u64..900) {
            let model = bits(&bytes);
            prop_assert_eq!(count(&bytes), model.iter().filter(|&&bit| bit).count() as u64);
            let ranged = model.iter().enumerate()
                .filter(|&(index, &bit)| bit && (first..=last).contains(&(index as u64))).count();
            prop_assert_eq!(count_range(&bytes, first, last), ranged as u64);
        }

        #[test]
        fn positions_as_the_model(bytes in bitmap(), bit: bool, first in 0u64..900, last in 0u64..900) {
            let model = bits(&bytes).iter().enumerate()
                .position(|(index, &other)| other == bit && (first..=last).contains(&(index as u64)));
            prop_assert_eq!(position(&bytes, bit, first, last), model.map(|index| index as u64));
        }

        #[test]
        fn single_bits_as_the_model(bytes in bitmap(), at in 0u64..900, bit: bool) {
            let mut model = bits(&bytes);
            prop_assert_eq!(get(&bytes, at), model.get(at as usize).copied().unwrap_or(false));
            let mut changed = bytes.clone();
            let was = model.get_mut(at as usize).map(|slot| std::mem::replace(slot, bit));
            prop_assert_eq!(set(&mut changed, at, bit), was);
            prop_assert_eq!(bits(&changed), model);
        }
    }

    #[test]
    fn far_positions_are_clear() {
        assert!(!get(b"\xff", u64::MAX));
        assert_eq!(set(&mut [0xff], u64::MAX, true), None);
        assert_eq!(count_range(b"\xff", 0, u64::MAX), 8);
        assert_eq!(position(b"\xff", false, 0, u64::MAX), None);
        assert_eq!(position(b"", true, 0, u64::MAX), None);
    }
}
