//! The dense form: 6 bits per register, four registers in three bytes. `registers` are the 12288 bytes after the
//! header.

use super::Registers;
use super::estimate::{Histogram, VALUES};

const MASK: u8 = 63;

/// A register; 0 beyond the last.
#[inline]
pub fn get(registers: &[u8], register: usize) -> u8 {
    let (byte, shift) = place(register);
    let low = registers.get(byte).copied().unwrap_or_default();
    let high = registers.get(byte + 1).copied().unwrap_or_default();
    (u16::from_le_bytes([low, high]) >> shift) as u8 & MASK
}

/// Sets a register to a value below 64; beyond the last there is nothing to set.
#[inline]
pub fn set(registers: &mut [u8], register: usize, value: u8) {
    let (byte, shift) = place(register);
    let value = u16::from(value & MASK) << shift;
    let mask = u16::from(MASK) << shift;
    for (byte, (value, mask)) in
        registers.iter_mut().skip(byte).zip(value.to_le_bytes().into_iter().zip(mask.to_le_bytes()))
    {
        *byte = *byte & !mask | value;
    }
}

/// The byte in which a register begins, and at which bit.
fn place(register: usize) -> (usize, usize) {
    (register * 6 / 8, register * 6 % 8)
}

/// Registers that are unpacked at a time, a lane of four bytes for each four of them, so that the compiler uses
/// vectors.
const GROUP: usize = 16;
/// Bytes they are packed in.
const PACKED: usize = GROUP * 6 / 8;

/// Raises `all` to these registers.
pub(super) fn merge_into(registers: &[u8], all: &mut Registers) {
    for (packed, all) in registers.as_chunks::<PACKED>().0.iter().zip(all.as_chunks_mut::<GROUP>().0) {
        let group = unpacked(packed);
        *all = std::array::from_fn(|i| all[i].max(group[i]));
    }
}

fn unpacked(packed: &[u8; PACKED]) -> [u8; GROUP] {
    let word = |at: usize| u32::from_le_bytes([packed[at], packed[at + 1], packed[at + 2], packed[at + 3]]);
    // Three bytes of each word count; the last is read from one byte before, so as to stay within the group.
    let words = [word(0), word(3), word(6), word(8) >> 8];
    let spread = words.map(|w| w & 0x3f | (w << 2) & 0x3f00 | (w << 4) & 0x3f_0000 | (w << 6) & 0x3f00_0000);
    let mut group = [0; GROUP];
    for (four, word) in group.as_chunks_mut::<4>().0.iter_mut().zip(spread) {
        *four = word.to_le_bytes();
    }
    group
}

/// Sets these registers to `all`, whose values are below 64.
pub(super) fn set_all(registers: &mut [u8], all: &Registers) {
    for (packed, all) in registers.as_chunks_mut::<6>().0.iter_mut().zip(all.as_chunks::<8>().0) {
        let all = u64::from_le_bytes(*all);
        // First the four of each half into three bytes, then the halves together.
        let halves = all & 0x0000_003f_0000_003f
            | (all >> 2) & 0x0000_0fc0_0000_0fc0
            | (all >> 4) & 0x0003_f000_0003_f000
            | (all >> 6) & 0x00fc_0000_00fc_0000;
        let whole = halves & 0xff_ffff | (halves >> 8) & 0xffff_ff00_0000;
        let [a, b, c, d, e, f, ..] = whole.to_le_bytes();
        *packed = [a, b, c, d, e, f];
    }
}

/// How many registers have each value.
pub(super) fn histogram(registers: &[u8]) -> Histogram {
    count_pairs(registers.as_chunks::<6>().0.iter().map(|&[a, b, c, d, e, f]| {
        let whole = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
        [whole, whole >> 12, whole >> 24, whole >> 36]
    }))
}

/// The same of registers that are unpacked.
pub(super) fn histogram_of(all: &Registers) -> Histogram {
    count_pairs(all.as_chunks::<8>().0.iter().map(|all| {
        let all = u64::from_le_bytes(*all);
        let pairs = all & 0x003f_003f_003f_003f | (all >> 2) & 0x0fc0_0fc0_0fc0_0fc0;
        [pairs, pairs >> 16, pairs >> 32, pairs >> 48]
    }))
}

/// The low 12 bits of each number are two registers. Pairs are counted first: that is half of the increments, and fewer
/// of them meet a counter that was just written and has to be waited for.
fn count_pairs(groups: impl Iterator<Item = [u64; 4]>) -> Histogram {
    let mut pairs = [[0u16; VALUES]; VALUES];
    let counters = pairs.as_flattened_mut();
    for pair in groups.flatten() {
        counters[(pair & 0xfff) as usize] += 1;
    }
    let mut histogram = pairs.map(|row| row.into_iter().map(u32::from).sum());
    let mut low = [0; VALUES];
    for row in &pairs {
        for (sum, count) in low.iter_mut().zip(row) {
            *sum += count;
        }
    }
    for (sum, low) in histogram.iter_mut().zip(low) {
        *sum += u32::from(low);
    }
    histogram
}
