//! Natural numbers of any size, with the few operations that exact decimal conversion needs.

/// A natural number, lowest limb first; the highest limb is not zero.
pub(super) struct Natural(Vec<u64>);

impl Natural {
    /// The number `value`.
    pub(super) fn new(value: u64) -> Self {
        Self(if value == 0 { Vec::new() } else { vec![value] })
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn bits(&self) -> usize {
        self.0.last().map_or(0, |top| self.0.len() * 64 - top.leading_zeros() as usize)
    }

    /// `self = self * factor + addend`.
    pub(super) fn multiply_add(&mut self, factor: u64, addend: u64) {
        let mut carry = addend;
        for limb in &mut self.0 {
            let product = u128::from(*limb) * u128::from(factor) + u128::from(carry);
            *limb = product as u64;
            carry = (product >> 64) as u64;
        }
        if carry != 0 {
            self.0.push(carry);
        }
    }

    /// `self = self / divisor`; the remainder is returned. `divisor` is not zero.
    pub(super) fn divide(&mut self, divisor: u64) -> u64 {
        let mut remainder = 0;
        for limb in self.0.iter_mut().rev() {
            let dividend = u128::from(remainder) << 64 | u128::from(*limb);
            *limb = (dividend / u128::from(divisor)) as u64;
            remainder = (dividend % u128::from(divisor)) as u64;
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        remainder
    }

    /// `self = self * base^power`, in steps as large as a limb holds. `base` is at least 2.
    pub(super) fn multiply_power(&mut self, base: u64, power: usize) {
        let (step, step_power) = largest_power(base);
        for _ in 0..power / step_power {
            self.multiply_add(step, 0);
        }
        self.multiply_add(base.pow((power % step_power) as u32), 0);
    }

    /// `self = self / base^power`. Returns true if anything was left over. `base` is at least 2.
    pub(super) fn divide_power(&mut self, base: u64, power: usize) -> bool {
        let (step, step_power) = largest_power(base);
        let mut inexact = false;
        for _ in 0..power / step_power {
            inexact |= self.divide(step) != 0;
        }
        inexact | (self.divide(base.pow((power % step_power) as u32)) != 0)
    }

    /// `self = self << bits`.
    pub(super) fn shift_left(&mut self, bits: usize) {
        if self.is_zero() {
            return;
        }
        self.multiply_add(1 << (bits % 64), 0);
        self.0.splice(0..0, std::iter::repeat_n(0, bits / 64));
    }

    /// The highest 128 bits (fewer if there are fewer), how many bits are below them, and whether one of those is set.
    pub(super) fn top_128(&self) -> (u128, usize, bool) {
        let dropped = self.bits().saturating_sub(128);
        let (limbs, bits) = (dropped / 64, dropped % 64);
        let limb = |index: usize| u128::from(self.0.get(limbs + index).copied().unwrap_or(0));
        let low = limb(0) | limb(1) << 64;
        let top = if bits == 0 { low } else { low >> bits | limb(2) << (128 - bits) };
        let lost = self.0.iter().take(limbs).any(|&limb| limb != 0) || limb(0) & ((1 << bits) - 1) != 0;
        (top, dropped, lost)
    }

    /// Appends the decimal text.
    pub(super) fn write_decimal(mut self, out: &mut Vec<u8>) {
        const STEP: u64 = 10u64.pow(19);
        let mut groups = Vec::with_capacity(self.0.len() * 2);
        while !self.is_zero() {
            groups.push(self.divide(STEP));
        }
        let mut buffer = itoa::Buffer::new();
        out.extend_from_slice(buffer.format(groups.pop().unwrap_or(0)).as_bytes());
        for group in groups.into_iter().rev() {
            let digits = buffer.format(group);
            out.extend(std::iter::repeat_n(b'0', 19 - digits.len()));
            out.extend_from_slice(digits.as_bytes());
        }
    }
}

/// The largest power of `base` in a limb, and its exponent.
fn largest_power(base: u64) -> (u64, usize) {
    let power = u64::MAX.ilog(base);
    (base.pow(power), power as usize)
}
