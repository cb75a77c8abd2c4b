//! BITOP: several strings into one, shorter ones padded with zeros.

/// An operation of BITOP. `Diff` to `One` came with Redis 8.2. For the first three of them the first source is `X`, the
/// others are `Y1, Y2, ...`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// Set in every source.
    And,
    /// Set in some source.
    Or,
    /// Set in an odd number of sources.
    Xor,
    /// Clear in the only source.
    Not,
    /// Set in `X` and in no `Y`.
    Diff,
    /// Set in some `Y`, not in `X`.
    Diff1,
    /// Set in `X` and in some `Y`.
    AndOr,
    /// Set in exactly one source.
    One,
}

/// Bytes handled per round. The running block and its companion stay in the first-level cache, and each source is read
/// once, front to back.
const BLOCK: usize = 4096;

/// The result of `operation` over `sources`, as long as the longest of them.
pub fn combine(operation: Combine, sources: &[&[u8]]) -> Vec<u8> {
    let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let mut result = vec![0; len];
    let mut others = [0; BLOCK];
    for (index, block) in result.chunks_mut(BLOCK).enumerate() {
        let len = block.len();
        let parts = sources.iter().map(|source| source.get(index * BLOCK..).unwrap_or(&[]));
        combine_block(operation, parts.map(|part| &part[..part.len().min(len)]), block, &mut others[..len]);
    }
    result
}

/// One block: `out` is zero at first; no part is longer than it.
fn combine_block<'a>(operation: Combine, mut parts: impl Iterator<Item = &'a [u8]>, out: &mut [u8], others: &mut [u8]) {
    let first = parts.next().unwrap_or(&[]);
    match operation {
        Combine::And => {
            out[..first.len()].copy_from_slice(first);
            for part in parts {
                apply(out, part, |left, right| left & right);
                out[part.len()..].fill(0);
            }
        }
        Combine::Or | Combine::Xor => {
            out[..first.len()].copy_from_slice(first);
            for part in parts {
                match operation {
                    Combine::Or => apply(out, part, |left, right| left | right),
                    _ => apply(out, part, |left, right| left ^ right),
                }
            }
        }
        Combine::Not => {
            out.fill(0xff);
            apply(out, first, |left, right| left ^ right);
        }
        Combine::Diff | Combine::Diff1 | Combine::AndOr => {
            for part in parts {
                apply(out, part, |left, right| left | right);
            }
            others.fill(0);
            others[..first.len()].copy_from_slice(first);
            match operation {
                Combine::Diff => apply(out, others, |some, x| x & !some),
                Combine::Diff1 => apply(out, others, |some, x| some & !x),
                _ => apply(out, others, |some, x| some & x),
            }
        }
        Combine::One => {
            // `out` has the bits seen exactly once, `others` those seen more often.
            out[..first.len()].copy_from_slice(first);
            others.fill(0);
            for part in parts {
                let ((seen, repeated), part) = ((&mut out[..part.len()], &mut others[..part.len()]), part);
                for ((seen, repeated), &bits) in seen.iter_mut().zip(repeated).zip(part) {
                    *repeated |= *seen & bits;
                    *seen = (*seen | bits) & !*repeated;
                }
            }
        }
    }
}

/// `left = operation(left, right)` as far as `right` goes, a word at a time.
#[inline(always)]
fn apply(left: &mut [u8], right: &[u8], operation: impl Fn(u64, u64) -> u64) {
    let (left_words, left_rest) = left[..right.len()].as_chunks_mut::<8>();
    let (right_words, right_rest) = right.as_chunks::<8>();
    for (left, right) in left_words.iter_mut().zip(right_words) {
        *left = operation(u64::from_ne_bytes(*left), u64::from_ne_bytes(*right)).to_ne_bytes();
    }
    for (left, right) in left_rest.iter_mut().zip(right_rest) {
        *left = operation(u64::from(*left), u64::from(*right)) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::bitmap;
    use super::*;
    use proptest::prelude::*;

    const ALL: [Combine; 8] = [
        Combine::And,
        Combine::Or,
        Combine::Xor,
        Combine::Not,
        Combine::Diff,
        Combine::Diff1,
        Combine::AndOr,
        Combine::One,
    ];

    /// One byte of the result from the bytes of all sources, bit by bit.
    fn model(operation: Combine, bytes: &[u8]) -> u8 {
        (0..8).fold(0, |result, bit| {
            let set: Vec<bool> = bytes.iter().map(|byte| byte >> bit & 1 == 1).collect();
            let count = set.iter().filter(|&&bit| bit).count();
            let (x, y) = (set[0], set[1..].contains(&true));
            let bit_set = match operation {
                Combine::And => count == set.len(),
                Combine::Or => count > 0,
                Combine::Xor => count % 2 == 1,
                Combine::Not => !x,
                Combine::Diff => x && !y,
                Combine::Diff1 => !x && y,
                Combine::AndOr => x && y,
                Combine::One => count == 1,
            };
            result | u8::from(bit_set) << bit
        })
    }

    proptest! {
        #[test]
        fn combines_as_the_model(sources in proptest::collection::vec(bitmap(), 1..5), operation in 0..ALL.len()) {
            let operation = ALL[operation];
            let sources = if operation == Combine::Not { &sources[..1] } else { &sources[..] };
            let slices: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
            let len = sources.iter().map(Vec::len).max().unwrap();
            let expected: Vec<u8> = (0..len)
                .map(|index| {
                    let bytes: Vec<u8> = slices.iter().map(|source| source.get(index).copied().unwrap_or(0)).collect();
                    model(operation, &bytes)
                })
                .collect();
            prop_assert_eq!(combine(operation, &slices), expected);
        }
    }

    #[test]
    fn blocks_join() {
        let long: Vec<u8> = (0..3 * BLOCK + 5).map(|index| (index % 251) as u8).collect();
        let short = &long[..BLOCK + 3];
        for operation in ALL {
            let sources: &[&[u8]] = if operation == Combine::Not { &[&long] } else { &[short, &long, b""] };
            let result = combine(operation, sources);
            assert_eq!(result.len(), long.len());
            for (index, &byte) in result.iter().enumerate() {
                let bytes: Vec<u8> = sources.iter().map(|source| source.get(index).copied().unwrap_or(0)).collect();
                assert_eq!(byte, model(operation, &bytes), "{operation:?} at {index}");
            }
        }
        assert_eq!(combine(Combine::Or, &[b"", b""]), b"");
    }
}
