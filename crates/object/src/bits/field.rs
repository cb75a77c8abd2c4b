//! BITFIELD: integers of 1 to 64 bits at any bit position, highest bit first.

/// A type of BITFIELD: `i1` to `i64`, `u1` to `u63`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    signed: bool,
    bits: u8,
}

/// The treatment of a value out of range (OVERFLOW).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// Modulo the range.
    Wrap,
    /// The nearest value of the range.
    Saturate,
    /// Nothing: the operation is not done.
    Fail,
}

impl Field {
    /// The type named `name`, such as `u8` or `i64`.
    pub fn parse(name: &[u8]) -> Option<Self> {
        let (signed, bits) = match name {
            [b'i', bits @ ..] => (true, bits),
            [b'u', bits @ ..] => (false, bits),
            _ => return None,
        };
        let bits = crate::number::parse_i64(bits)?;
        // RESP has no unsigned 64-bit integer, so neither has BITFIELD.
        let most = if signed { 64 } else { 63 };
        (1..=most).contains(&bits).then_some(Self { signed, bits: bits as u8 })
    }

    /// Width in bits, 1 to 64.
    pub fn bits(self) -> u64 {
        u64::from(self.bits)
    }

    /// Smallest and largest value.
    fn range(self) -> (i128, i128) {
        if self.signed { (-1 << (self.bits - 1), (1 << (self.bits - 1)) - 1) } else { (0, (1 << self.bits) - 1) }
    }

    /// The value at bit `offset` of `bytes`; bits beyond the end are 0.
    pub fn get(self, bytes: &[u8], offset: u64) -> i64 {
        // At most 64 bits at an offset of at most 7 within nine bytes.
        let mut window = [0; 16];
        if let Some(rest) = usize::try_from(offset / 8).ok().and_then(|start| bytes.get(start..)) {
            let len = rest.len().min(9);
            window[..len].copy_from_slice(&rest[..len]);
        }
        let left = (u128::from_be_bytes(window) << (offset % 8) >> 64) as u64;
        let unused = 64 - u32::from(self.bits);
        if self.signed { left as i64 >> unused } else { (left >> unused) as i64 }
    }

    /// Writes the low bits of `value` at bit `offset` of `bytes`. Bits that would lie beyond the end are dropped: the
    /// caller makes the string long enough.
    pub fn set(self, bytes: &mut [u8], offset: u64, value: i64) {
        let Some(rest) = usize::try_from(offset / 8).ok().and_then(|start| bytes.get_mut(start..)) else { return };
        let len = rest.len().min(9);
        let mut window = [0; 16];
        window[..len].copy_from_slice(&rest[..len]);
        let shift = 128 - u32::from(self.bits) - (offset % 8) as u32;
        let ones = (1u128 << self.bits) - 1;
        let bits = u128::from_be_bytes(window) & !(ones << shift) | (value as u128 & ones) << shift;
        rest[..len].copy_from_slice(&bits.to_be_bytes()[..len]);
    }

    /// The value that SET stores for `value`. As in Redis, a negative value is out of an unsigned range on its upper
    /// side.
    pub fn fit(self, value: i64, overflow: Overflow) -> Option<i64> {
        let value = if self.signed { i128::from(value) } else { i128::from(value as u64) };
        self.bound(value, overflow)
    }

    /// The value that INCRBY stores for `value + increment`; `value` is the result of [`Self::get`].
    pub fn add(self, value: i64, increment: i64, overflow: Overflow) -> Option<i64> {
        self.bound(i128::from(value) + i128::from(increment), overflow)
    }

    fn bound(self, value: i128, overflow: Overflow) -> Option<i64> {
        let (least, most) = self.range();
        if (least..=most).contains(&value) {
            return Some(value as i64);
        }
        match overflow {
            Overflow::Fail => None,
            Overflow::Saturate => Some(value.clamp(least, most) as i64),
            Overflow::Wrap => {
                let unused = 64 - u32::from(self.bits);
                let left = (value as u64) << unused;
                Some(if self.signed { left as i64 >> unused } else { (left >> unused) as i64 })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{get, set};
    use super::*;
    use proptest::prelude::*;

    fn field() -> impl Strategy<Value = Field> {
        (any::<bool>(), 1u8..65)
            .prop_map(|(signed, bits)| Field { signed, bits: if signed { bits } else { bits.min(63) } })
    }

    fn overflow() -> impl Strategy<Value = Overflow> {
        prop_oneof![Just(Overflow::Wrap), Just(Overflow::Saturate), Just(Overflow::Fail)]
    }

    /// Values near the edges of every width.
    fn value() -> impl Strategy<Value = i64> {
        let near = (0u32..64, -2i64..3).prop_map(|(bit, by)| (1u64 << bit) as i64 ^ by);
        prop_oneof![any::<i64>(), near]
    }

    #[test]
    fn types_are_named_as_in_redis() {
        for good in ["i1", "i64", "u1", "u63", "u8", "i16"] {
            let field = Field::parse(good.as_bytes()).unwrap();
            assert_eq!(format!("{}{}", if field.signed { 'i' } else { 'u' }, field.bits), good);
        }
        for bad in ["", "i", "u", "i0", "i65", "u0", "u64", "I8", "8", "i08", "i+8", "i-8", "i8 ", "x8"] {
            assert_eq!(Field::parse(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn overflow_as_redis_does_it() {
        let (u8, i8) = (Field::parse(b"u8").unwrap(), Field::parse(b"i8").unwrap());
        assert_eq!(u8.add(255, 1, Overflow::Wrap), Some(0));
        assert_eq!(u8.add(0, -1, Overflow::Wrap), Some(255));
        assert_eq!(u8.add(250, 10, Overflow::Saturate), Some(255));
        assert_eq!(u8.add(5, -10, Overflow::Saturate), Some(0));
        assert_eq!(u8.add(255, 1, Overflow::Fail), None);
        assert_eq!(i8.add(127, 1, Overflow::Wrap), Some(-128));
        assert_eq!(i8.add(-128, -1, Overflow::Saturate), Some(-128));
        assert_eq!(u8.fit(-1, Overflow::Wrap), Some(255));
        assert_eq!(u8.fit(-1, Overflow::Saturate), Some(255));
        assert_eq!(u8.fit(-1, Overflow::Fail), None);
        assert_eq!(i8.fit(200, Overflow::Saturate), Some(127));
        let i64 = Field::parse(b"i64").unwrap();
        assert_eq!(i64.add(i64::MAX, 1, Overflow::Wrap), Some(i64::MIN));
        assert_eq!(i64.add(i64::MIN, -1, Overflow::Saturate), Some(i64::MIN));
    }

    proptest! {
        #[test]
        fn a_field_is_its_bits(mut bytes in proptest::collection::vec(any::<u8>(), 0..20), offset in 0u64..170,
            field in field(), value in value())
        {
            let before = bytes.clone();
            field.set(&mut bytes, offset, value);
            let mut model = before.clone();
            for bit in 0..field.bits() {
                set(&mut model, offset + bit, value >> (field.bits() - 1 - bit) & 1 == 1);
            }
            prop_assert_eq!(&bytes, &model);
            let mut read = (0..field.bits()).fold(0i128, |read, bit| read << 1 | i128::from(get(&bytes, offset + bit)));
            if field.signed && get(&bytes, offset) {
                read -= 1 << field.bits();
            }
            prop_assert_eq!(i128::from(field.get(&bytes, offset)), read);
        }

        #[test]
        fn a_result_is_in_range_and_right(field in field(), value in value(), by in value(), overflow in overflow()) {
            let mut room = [0; 8];
            field.set(&mut room, 0, value);
            let start = field.get(&room, 0);
            let (least, most) = field.range();
            let exact = i128::from(start) + i128::from(by);
            match field.add(start, by, overflow) {
                Some(sum) => {
                    let sum = i128::from(sum);
                    prop_assert!((least..=most).contains(&sum));
                    if (least..=most).contains(&exact) {
                        prop_assert_eq!(sum, exact);
                    } else if overflow == Overflow::Wrap {
                        prop_assert_eq!((exact - sum) % (1 << field.bits()), 0);
                    } else {
                        prop_assert_eq!(sum, if exact < least { least } else { most });
                    }
                }
                None => prop_assert!(overflow == Overflow::Fail && !(least..=most).contains(&exact)),
            }
            if overflow == Overflow::Wrap {
                prop_assert_eq!(field.fit(value, overflow), Some(start));
            }
        }
    }
}
