//! LZF, the compression of RDB strings (Marc Lehmann's liblzf format).
//!
//! A control byte below 32 starts a run of that many plus one literal bytes. Any other starts a back reference. Its
//! upper three bits are the length minus two (seven: one more byte of length follows), its lower five and the next byte
//! the distance minus one.

use crate::Corrupt;

const LITERALS_MAX: usize = 32;
const DISTANCE_MAX: usize = 1 << 13;
const MATCH_MIN: usize = 3;
const MATCH_MAX: usize = 2 + 7 + 255;
/// A back reference of three bytes makes at most [`MATCH_MAX`] bytes.
const EXPANSION_MAX: usize = MATCH_MAX / 3;

/// The `length` bytes that `input` stands for. Allocates at most 88 times the input's size, whatever `length` says.
pub(super) fn decompress(input: &[u8], length: usize) -> Result<Vec<u8>, Corrupt> {
    const BAD: Corrupt = Corrupt("invalid compressed string");
    if length == 0 || length > input.len().saturating_mul(EXPANSION_MAX) {
        return Err(BAD);
    }
    if !headroom::has_room(2 * length, length) {
        return Err(Corrupt("no memory for a compressed string"));
    }
    let mut out = Vec::with_capacity(length);
    let mut rest = input;
    while let Some((&control, after)) = rest.split_first() {
        rest = after;
        let control = usize::from(control);
        if control < LITERALS_MAX {
            let (literals, after) = rest.split_at_checked(control + 1).ok_or(BAD)?;
            rest = after;
            if literals.len() > length - out.len() {
                return Err(BAD);
            }
            out.extend_from_slice(literals);
            continue;
        }
        let mut run = (control >> 5) + 2;
        if run == 9 {
            let (&more, after) = rest.split_first().ok_or(BAD)?;
            rest = after;
            run += usize::from(more);
        }
        let (&low, after) = rest.split_first().ok_or(BAD)?;
        rest = after;
        let distance = ((control & 0x1f) << 8 | usize::from(low)) + 1;
        let start = out.len().checked_sub(distance).ok_or(BAD)?;
        if run > length - out.len() {
            return Err(BAD);
        }
        if distance >= run {
            out.extend_from_within(start..start + run);
        } else {
            // The run reads its own output: a repeated pattern.
            for index in start..start + run {
                out.push(out[index]);
            }
        }
    }
    if out.len() == length { Ok(out) } else { Err(BAD) }
}

/// `input` compressed to at most `limit` bytes; `None` if that cannot be done.
pub(super) fn compress(input: &[u8], limit: usize) -> Option<Vec<u8>> {
    // Positions are 32 bits wide; larger values are not worth the time anyway.
    if u32::try_from(input.len()).is_err() {
        return None;
    }
    let table_bits = input.len().ilog2().clamp(6, 14);
    // Where three bytes were last seen, plus one.
    let mut table = vec![0u32; 1 << table_bits];
    let mut out = Vec::with_capacity(limit.min(input.len() / 2 + 16));
    let (mut at, mut literals) = (0, 0);
    while at + MATCH_MIN <= input.len() {
        let key = u32::from_be_bytes([0, input[at], input[at + 1], input[at + 2]]);
        let slot = (key.wrapping_mul(0x9e37_79b1) >> (32 - table_bits)) as usize;
        let seen = std::mem::replace(&mut table[slot], at as u32 + 1) as usize;
        let run = match seen.checked_sub(1) {
            Some(before) if at - before <= DISTANCE_MAX => common_prefix(&input[before..], &input[at..]),
            _ => 0,
        };
        if run < MATCH_MIN {
            at += 1;
            continue;
        }
        write_literals(&mut out, &input[literals..at]);
        let offset = at - seen;
        let high = (offset >> 8) as u8;
        match run - 2 {
            short @ ..7 => out.push((short as u8) << 5 | high),
            long => out.extend_from_slice(&[7 << 5 | high, (long - 7) as u8]),
        }
        out.push(offset as u8);
        at += run;
        literals = at;
        if out.len() > limit {
            return None;
        }
    }
    write_literals(&mut out, &input[literals..]);
    (out.len() <= limit).then_some(out)
}

fn write_literals(out: &mut Vec<u8>, literals: &[u8]) {
    for run in literals.chunks(LITERALS_MAX) {
        out.push(run.len() as u8 - 1);
        out.extend_from_slice(run);
    }
}

fn common_prefix(before: &[u8], here: &[u8]) -> usize {
    before.iter().zip(here).take(MATCH_MAX).take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn compressible() -> impl Strategy<Value = Vec<u8>> {
        let run = (proptest::collection::vec(0u8..4, 1..6), 1usize..200);
        proptest::collection::vec(run, 1..20)
            .prop_map(|runs| runs.into_iter().flat_map(|(pattern, times)| pattern.repeat(times)).collect())
    }

    proptest! {
        #[test]
        fn what_is_compressed_comes_back(input in compressible()) {
            if let Some(compressed) = compress(&input, usize::MAX) {
                prop_assert_eq!(decompress(&compressed, input.len()), Ok(input));
            }
        }

        #[test]
        fn noise_comes_back(input in proptest::collection::vec(any::<u8>(), 1..2000)) {
            let compressed = compress(&input, usize::MAX).unwrap();
            prop_assert_eq!(decompress(&compressed, input.len()), Ok(input));
        }

        #[test]
        fn any_input_is_survived(input in proptest::collection::vec(any::<u8>(), 0..100), length in 0usize..1000) {
            if let Ok(out) = decompress(&input, length) {
                prop_assert_eq!(out.len(), length);
            }
        }
    }

    #[test]
    fn a_limit_is_kept() {
        let zeros = [0; 1000];
        let compressed = compress(&zeros, 20).unwrap();
        assert!(compressed.len() <= 20);
        assert_eq!(compress(&zeros, 3), None);
        assert_eq!(compress(b"abcdefghijklmnopqrstuvwxyz", 22), None);
        assert_eq!(decompress(b"\xff\xff\xff", usize::MAX), Err(Corrupt("invalid compressed string")));
    }

    #[test]
    fn matches_reach_as_far_as_the_format_allows() {
        for distance in [DISTANCE_MAX - 1, DISTANCE_MAX, DISTANCE_MAX + 1] {
            let mut input: Vec<u8> = (0..distance).map(|index| (index * index / 7 % 251) as u8).collect();
            input.extend_from_within(..300);
            let compressed = compress(&input, usize::MAX).unwrap();
            assert_eq!(decompress(&compressed, input.len()).unwrap(), input);
        }
    }
}
