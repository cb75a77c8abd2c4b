//! A sorted array of integers, each in as few bytes as the widest of them needs.

use crate::Corrupt;

/// Distinct integers in ascending order, 2, 4 or 8 bytes each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ints {
    bytes: Vec<u8>,
    width: u8,
}

fn width_of(value: i64) -> u8 {
    if i16::try_from(value).is_ok() {
        2
    } else if i32::try_from(value).is_ok() {
        4
    } else {
        8
    }
}

impl Ints {
    pub const fn new() -> Self {
        Ints { bytes: Vec::new(), width: 2 }
    }

    pub fn len(&self) -> usize {
        self.bytes.len() / usize::from(self.width)
    }

    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The integer at an index below [`len`](Self::len).
    pub fn get(&self, index: usize) -> i64 {
        let width = usize::from(self.width);
        let place = &self.bytes[index * width..][..width];
        // Sign extension: the value is put into the upper bytes and shifted down.
        let mut word = [0; 8];
        word[8 - width..].copy_from_slice(place);
        i64::from_le_bytes(word) >> (64 - 8 * width)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = i64> + Clone + '_ {
        (0..self.len()).map(|index| self.get(index))
    }

    /// The index of a value, or else the index at which it belongs.
    ///
    /// # Errors
    ///
    /// Where the value belongs.
    pub fn find(&self, value: i64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle).cmp(&value) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// Adds a value; false if it is there already.
    pub fn add(&mut self, value: i64) -> bool {
        let Err(index) = self.find(value) else { return false };
        if width_of(value) > self.width {
            self.widen(width_of(value));
        }
        let width = usize::from(self.width);
        let (at, end) = (index * width, self.bytes.len());
        if self.bytes.capacity() - end < width {
            self.bytes.reserve_exact(width.max(end / 4).next_multiple_of(16));
        }
        self.bytes.resize(end + width, 0);
        self.bytes.copy_within(at..end, at + width);
        self.bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
        true
    }

    /// Removes the value at an index below [`len`](Self::len).
    pub fn remove_at(&mut self, index: usize) {
        let width = usize::from(self.width);
        self.bytes.drain(index * width..(index + 1) * width);
        if self.bytes.capacity() > 64 && self.bytes.capacity() / 4 > self.bytes.len() {
            self.bytes.shrink_to(self.bytes.len() * 2);
        }
    }

    fn widen(&mut self, width: u8) {
        let mut bytes = Vec::with_capacity((self.len() + 1) * usize::from(width));
        for value in self.iter() {
            bytes.extend_from_slice(&value.to_le_bytes()[..usize::from(width)]);
        }
        *self = Ints { bytes, width };
    }

    /// Appends the array with its width, as [`decode`](Self::decode) reads it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.width);
        out.extend_from_slice(&self.bytes);
    }

    /// # Errors
    ///
    /// The bytes are no set of integers.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let (width, array) = bytes.split_first().ok_or(Corrupt("intset cut short"))?;
        if !matches!(width, 2 | 4 | 8) || array.len() % usize::from(*width) != 0 {
            return Err(Corrupt("intset of an impossible width"));
        }
        let ints = Ints { bytes: array.to_vec(), width: *width };
        if !ints.iter().zip(ints.iter().skip(1)).all(|(a, b)| a < b) {
            return Err(Corrupt("intset out of order"));
        }
        Ok(ints)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn value() -> impl Strategy<Value = i64> {
        prop_oneof![-40..40i64, any::<i16>().prop_map(i64::from), any::<i32>().prop_map(i64::from), any::<i64>()]
    }

    proptest! {
        #[test]
        fn behaves_like_a_set(steps in prop::collection::vec((any::<bool>(), value()), 0..200)) {
            let (mut ints, mut model) = (Ints::new(), BTreeSet::new());
            for (add, value) in steps {
                if add {
                    prop_assert_eq!(ints.add(value), model.insert(value));
                } else {
                    let found = ints.find(value);
                    prop_assert_eq!(found.is_ok(), model.remove(&value));
                    if let Ok(index) = found {
                        ints.remove_at(index);
                    }
                }
                prop_assert_eq!(ints.len(), model.len());
            }
            prop_assert!(ints.iter().eq(model.iter().copied()));
            let mut out = Vec::new();
            ints.encode(&mut out);
            prop_assert_eq!(Ints::decode(&out), Ok(ints));
        }

        #[test]
        fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(ints) = Ints::decode(&bytes) {
                let mut out = Vec::new();
                ints.encode(&mut out);
                prop_assert_eq!(out, bytes);
            }
        }
    }
}
