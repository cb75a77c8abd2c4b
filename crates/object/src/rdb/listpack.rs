//! Listpacks: Redis's form of small collections since version 7.
//!
//! ```text
//! total bytes (4), number of entries or ffff (2), entries, ff
//! ```
//!
//! An entry is a tag with a length or an integer, the string if it is one, and the size of that in base 128 for walking
//! back.

use crate::Corrupt;
use crate::block::Elem;

const HEADER: usize = 6;
const END: u8 = 0xff;
const COUNT_UNKNOWN: u16 = u16::MAX;

const SHORT_STRING: u8 = 0x80;
const INT_13: u8 = 0xc0;
const MEDIUM_STRING: u8 = 0xe0;
const LONG_STRING: u8 = 0xf0;
const INT_16: u8 = 0xf1;
const INT_24: u8 = 0xf2;
const INT_32: u8 = 0xf3;
const INT_64: u8 = 0xf4;

/// The entries of a listpack, each checked when it is reached; an error ends the walk, and a wrong count is one.
pub(super) struct Entries<'a> {
    rest: &'a [u8],
    announced: u16,
    seen: u64,
}

/// Checks the frame of a listpack and returns its entries.
pub(super) fn entries(bytes: &[u8]) -> Result<Entries<'_>, Corrupt> {
    const BAD: Corrupt = Corrupt("listpack frame");
    let (&total, rest) = bytes.split_first_chunk::<4>().ok_or(BAD)?;
    let (&announced, rest) = rest.split_first_chunk::<2>().ok_or(BAD)?;
    let Some((&END, rest)) = rest.split_last() else { return Err(BAD) };
    if u32::from_le_bytes(total) as usize != bytes.len() {
        return Err(BAD);
    }
    Ok(Entries { rest, announced: u16::from_le_bytes(announced), seen: 0 })
}

impl<'a> Entries<'a> {
    fn entry(&mut self) -> Result<Elem<'a>, Corrupt> {
        const BAD: Corrupt = Corrupt("listpack entry");
        let [tag, rest @ ..] = self.rest else { return Err(BAD) };
        let string = |head: usize, length: usize| {
            let end = head.checked_add(length)?;
            Some((Elem::Bytes(self.rest.get(head..end)?), end))
        };
        let int = |bytes: usize| Some((Elem::Int(signed(rest.get(..bytes)?)), 1 + bytes));
        let entry = match *tag {
            0..SHORT_STRING => Some((Elem::Int(i64::from(*tag)), 1)),
            SHORT_STRING..INT_13 => string(1, usize::from(tag & 0x3f)),
            INT_13..MEDIUM_STRING => rest.first().map(|&low| {
                let value = i64::from(tag & 0x1f) << 8 | i64::from(low);
                (Elem::Int(if value < 1 << 12 { value } else { value - (1 << 13) }), 2)
            }),
            MEDIUM_STRING..LONG_STRING => {
                rest.first().and_then(|&low| string(2, usize::from(tag & 0x0f) << 8 | usize::from(low)))
            }
            LONG_STRING => {
                rest.first_chunk().and_then(|&length| string(5, usize::try_from(u32::from_le_bytes(length)).ok()?))
            }
            INT_16 => int(2),
            INT_24 => int(3),
            INT_32 => int(4),
            INT_64 => int(8),
            _ => None,
        };
        let (elem, size) = entry.ok_or(BAD)?;
        let (back, back_size) = back_length(size);
        self.rest = self.rest[size..].strip_prefix(&back[..back_size]).ok_or(BAD)?;
        self.seen += 1;
        Ok(elem)
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Elem<'a>, Corrupt>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            let right = self.announced == COUNT_UNKNOWN || u64::from(self.announced) == self.seen;
            // Said once: the next call ends the walk.
            self.announced = COUNT_UNKNOWN;
            return (!right).then_some(Err(Corrupt("listpack count")));
        }
        let entry = self.entry();
        if entry.is_err() {
            (self.rest, self.announced) = (&[], COUNT_UNKNOWN);
        }
        Some(entry)
    }
}

/// Two's complement, little-endian, 1 to 8 bytes.
pub(super) fn signed(bytes: &[u8]) -> i64 {
    let mut word = [0; 8];
    let len = bytes.len().min(8);
    word[8 - len..].copy_from_slice(&bytes[..len]);
    i64::from_le_bytes(word) >> (64 - 8 * len)
}

/// The back-length of an entry of `size` bytes. The bounds are Redis's, one below what would fit.
fn back_length(size: usize) -> ([u8; 5], usize) {
    let len = match size {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    };
    let mut bytes = [0; 5];
    for (index, byte) in bytes[..len].iter_mut().enumerate() {
        *byte = (size >> (7 * (len - 1 - index))) as u8 & 0x7f | if index == 0 { 0 } else { 0x80 };
    }
    (bytes, len)
}

/// Builds a listpack.
pub(super) struct Builder {
    bytes: Vec<u8>,
    count: u64,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; HEADER], count: 0 }
    }

    /// Size if finished now.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() + 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends a string; canonical integers are stored as such, as Redis does.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.push_elem(Elem::from_bytes(bytes));
    }

    /// Appends an element.
    pub(super) fn push_elem(&mut self, elem: Elem<'_>) {
        let start = self.bytes.len();
        match elem {
            Elem::Int(value) => self.write_int(value),
            Elem::Bytes(bytes) => {
                match bytes.len() {
                    length @ 0..64 => self.bytes.push(SHORT_STRING | length as u8),
                    length @ 64..4096 => {
                        self.bytes.extend_from_slice(&[MEDIUM_STRING | (length >> 8) as u8, length as u8]);
                    }
                    length => {
                        self.bytes.push(LONG_STRING);
                        self.bytes.extend_from_slice(&(length as u32).to_le_bytes());
                    }
                }
                self.bytes.extend_from_slice(bytes);
            }
        }
        let (back, back_size) = back_length(self.bytes.len() - start);
        self.bytes.extend_from_slice(&back[..back_size]);
        self.count += 1;
    }

    fn write_int(&mut self, value: i64) {
        let (tag, bytes) = match value {
            0..=127 => return self.bytes.push(value as u8),
            -4096..=4095 => {
                let value = value as u16 & 0x1fff;
                return self.bytes.extend_from_slice(&[INT_13 | (value >> 8) as u8, value as u8]);
            }
            -0x8000..=0x7fff => (INT_16, 2),
            -0x80_0000..=0x7f_ffff => (INT_24, 3),
            -0x8000_0000..=0x7fff_ffff => (INT_32, 4),
            _ => (INT_64, 8),
        };
        self.bytes.push(tag);
        self.bytes.extend_from_slice(&value.to_le_bytes()[..bytes]);
    }

    /// The listpack. Callers keep it far below 4 GB.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(END);
        let total = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&total.to_le_bytes());
        let count = u16::try_from(self.count).unwrap_or(COUNT_UNKNOWN);
        self.bytes[4..HEADER].copy_from_slice(&count.to_le_bytes());
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn element() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..200),
            (0usize..6000).prop_map(|len| vec![b'x'; len]),
            any::<i64>().prop_map(|value| value.to_string().into_bytes()),
            (0u32..63, -2i64..3).prop_map(|(bit, by)| ((1i64 << bit) + by).to_string().into_bytes()),
            (0u32..63, -2i64..3).prop_map(|(bit, by)| (-(1i64 << bit) + by).to_string().into_bytes()),
        ]
    }

    fn build(elements: &[Vec<u8>]) -> Vec<u8> {
        let mut builder = Builder::new();
        for element in elements {
            builder.push(element);
        }
        let len = builder.len();
        let bytes = builder.finish();
        assert_eq!(bytes.len(), len);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Corrupt> {
        entries(bytes)?.map(|entry| entry.map(|elem| elem.to_vec())).collect()
    }

    proptest! {
        #[test]
        fn elements_come_back(elements in proptest::collection::vec(element(), 0..30)) {
            let bytes = build(&elements);
            prop_assert_eq!(read(&bytes), Ok(elements));
        }

        #[test]
        fn damage_is_survived(elements in proptest::collection::vec(element(), 1..5), at: prop::sample::Index, to: u8) {
            let mut bytes = build(&elements);
            let at = at.index(bytes.len());
            bytes[at] = to;
            let _ = read(&bytes);
            bytes.truncate(at);
            prop_assert!(read(&bytes).is_err());
        }
    }

    #[test]
    fn many_elements_are_not_counted_in_the_header() {
        let elements = vec![b"1".to_vec(); 70_000];
        let bytes = build(&elements);
        assert_eq!(bytes[4..6], [0xff, 0xff]);
        assert_eq!(read(&bytes).unwrap().len(), 70_000);
    }

    #[test]
    fn back_lengths_change_size_where_redis_changes_it() {
        for (size, bytes) in [
            (127, &[0x7f][..]),
            (128, &[0x01, 0x80]),
            (16_382, &[0x7f, 0xfe]),
            (16_383, &[0x00, 0xff, 0xff]),
            (2_097_150, &[0x7f, 0xff, 0xfe]),
            (2_097_151, &[0x00, 0xff, 0xff, 0xff]),
            (268_435_455, &[0x00, 0xff, 0xff, 0xff, 0xff]),
        ] {
            let (back, len) = back_length(size);
            assert_eq!(&back[..len], bytes, "{size}");
        }
    }

    #[test]
    fn golden_bytes() {
        // [1, "abc", -3, 70000]
        let bytes = b"\x17\0\0\0\x04\0\x01\x01\x83abc\x04\xdf\xfd\x02\xf2\x70\x11\x01\x04\xff";
        assert_eq!(bytes.len(), 0x17 - 1);
        let elements = [&b"1"[..], b"abc", b"-3", b"70000"].map(<[u8]>::to_vec);
        let mut expected = bytes.to_vec();
        expected[0] = expected.len() as u8;
        assert_eq!(build(&elements), expected);
    }
}
