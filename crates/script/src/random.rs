//! `math.random` as in Redis: the 48-bit generator of `lrand48`, the same numbers on every platform.

/// A generator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Random(u64);

impl Random {
    const MAX: i32 = i32::MAX;

    /// As `srand48` seeds it.
    pub(crate) fn seeded(seed: i32) -> Self {
        Self(u64::from(seed as u32) << 16 | 0x330e)
    }

    /// The next 31 bits.
    fn next(&mut self) -> i32 {
        self.0 = self.0.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & 0xffff_ffff_ffff;
        (self.0 >> 17) as i32
    }

    /// At least 0 and below 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        f64::from(self.next() % Self::MAX) / f64::from(Self::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_lrand48() {
        let mut random = Random::seeded(0);
        assert_eq!([random.next(), random.next(), random.next()], [366_850_414, 1_610_402_240, 206_956_554]);
    }
}
