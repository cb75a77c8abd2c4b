//! The dense form: 6 bits per register, four registers in three bytes. `registers` is what follows the header, 12288 bytes.

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

/// Raises `all` to these registers.
pub(super) fn merge_into(registers: &[u8], all: &mut Registers) {
    for (group, all) in registers.as_chunks::<3>().0.iter().zip(all.as_chunks_mut::<4>().0) {
        let group = four(group);
        *all = std::array::from_fn(|i| all[i].max(group[i]));
    }
}

/// Raises these registers to `all`, whose values are below 64.
pub(super) fn raise_all(registers: &mut [u8], all: &Registers) {
    for (group, all) in registers.as_chunks_mut::<3>().0.iter_mut().zip(all.as_chunks::<4>().0) {
        let old = four(group);
        let [a, b, c, d] = std::array::from_fn(|i| all[i].min(MASK).max(old[i]));
        *group = [a | b << 6, b >> 2 | c << 4, c >> 4 | d << 2];
    }
}

fn four(&[a, b, c]: &[u8; 3]) -> [u8; 4] {
    [a & MASK, (a >> 6 | b << 2) & MASK, (b >> 4 | c << 4) & MASK, c >> 2]
}

/// How many registers have each value. Several counters for one value: neighbours are often equal, and a counter that was
/// just written has to be waited for.
pub(super) fn histogram(registers: &[u8]) -> Histogram {
    count_values(registers.as_chunks::<3>().0.iter().map(four))
}

/// The same of registers in groups of four.
pub(super) fn count_values(groups: impl Iterator<Item = [u8; 4]>) -> Histogram {
    let mut lanes = [[0u32; VALUES]; 4];
    for group in groups {
        for (lane, value) in lanes.iter_mut().zip(group) {
            lane[usize::from(value & MASK)] += 1;
        }
    }
    std::array::from_fn(|value| lanes.iter().map(|lane| lane[value]).sum())
}
