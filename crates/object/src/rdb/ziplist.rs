//! Ziplists (before Redis 7), zipmaps (before 2.6) and intsets: read only, but for the intset, which sets still use.

use super::listpack::signed;
use crate::Corrupt;
use crate::block::Elem;

const END: u8 = 0xff;

/// The entries of a ziplist, each checked when it is reached; an error ends the walk.
pub(super) struct Entries<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Size of the entry before, which every entry repeats.
    before: usize,
    announced_last: usize,
    announced: u16,
    seen: u64,
}

/// Where entries begin in a ziplist: behind total bytes, offset of the last entry, number of entries.
const HEADER: usize = 10;

/// Checks the frame of a ziplist and returns its entries.
pub(super) fn entries(bytes: &[u8]) -> Result<Entries<'_>, Corrupt> {
    const BAD: Corrupt = Corrupt("ziplist frame");
    let Some((&[a, b, c, d, e, f, g, h, i, j], [.., END])) = bytes.split_first_chunk::<HEADER>() else {
        return Err(BAD);
    };
    let last = u32::from_le_bytes([e, f, g, h]) as usize;
    if u32::from_le_bytes([a, b, c, d]) as usize != bytes.len() || last > bytes.len() - 1 {
        return Err(BAD);
    }
    let body = &bytes[..bytes.len() - 1];
    Ok(Entries {
        bytes: body,
        at: HEADER,
        before: 0,
        announced_last: last,
        announced: u16::from_le_bytes([i, j]),
        seen: 0,
    })
}

impl<'a> Entries<'a> {
    fn entry(&mut self) -> Result<Elem<'a>, Corrupt> {
        const BAD: Corrupt = Corrupt("ziplist entry");
        let entry = &self.bytes[self.at..];
        let (before, head) = match entry {
            [254, a, b, c, d, ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, 5),
            [before @ 0..254, ..] => (usize::from(*before), 1),
            _ => return Err(BAD),
        };
        if before != self.before {
            return Err(BAD);
        }
        let rest = &entry[head..];
        let [tag, after @ ..] = rest else { return Err(BAD) };
        let string = |head: usize, length: usize| {
            let end = head.checked_add(length)?;
            Some((Elem::Bytes(rest.get(head..end)?), end))
        };
        let int = |bytes: usize| Some((Elem::Int(signed(after.get(..bytes)?)), 1 + bytes));
        let parsed = match *tag {
            0..0x40 => string(1, usize::from(*tag)),
            0x40..0x80 => after.first().and_then(|&low| string(2, usize::from(tag & 0x3f) << 8 | usize::from(low))),
            0x80..0xc0 => {
                after.first_chunk().and_then(|&length| string(5, usize::try_from(u32::from_be_bytes(length)).ok()?))
            }
            0xc0 => int(2),
            0xd0 => int(4),
            0xe0 => int(8),
            0xf0 => int(3),
            0xfe => int(1),
            0xf1..=0xfd => Some((Elem::Int(i64::from(tag & 0x0f) - 1), 1)),
            _ => None,
        };
        let (elem, size) = parsed.ok_or(BAD)?;
        self.before = head + size;
        self.at += self.before;
        self.seen += 1;
        Ok(elem)
    }

    /// True if the header agrees with the entries.
    fn consistent(&self) -> bool {
        (self.announced == u16::MAX || u64::from(self.announced) == self.seen)
            && (self.seen == 0 || self.at - self.before == self.announced_last)
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Elem<'a>, Corrupt>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            let consistent = self.consistent();
            (self.announced, self.seen) = (u16::MAX, 0);
            return (!consistent).then_some(Err(Corrupt("ziplist header")));
        }
        let entry = self.entry();
        if entry.is_err() {
            (self.bytes, self.announced, self.seen) = (&[], u16::MAX, 0);
        }
        Some(entry)
    }
}

/// The names and values of a zipmap, alternating.
pub(super) fn zipmap(bytes: &[u8]) -> Result<Vec<&[u8]>, Corrupt> {
    const BAD: Corrupt = Corrupt("zipmap");
    let [announced, rest @ .., END] = bytes else { return Err(BAD) };
    let mut rest = rest;
    let mut strings = Vec::new();
    while !rest.is_empty() {
        let is_value = strings.len() % 2 == 1;
        let (length, head) = match *rest {
            [254, a, b, c, d, ..] => match u32::from_le_bytes([a, b, c, d]) as usize {
                // A short length has one byte.
                0..254 => return Err(BAD),
                length => (length, 5),
            },
            [length @ 0..254, ..] => (usize::from(length), 1),
            _ => return Err(BAD),
        };
        rest = &rest[head..];
        // Behind a value's length stands how many unused bytes follow the value.
        let mut unused = 0;
        if is_value {
            let (&count, after) = rest.split_first().ok_or(BAD)?;
            (unused, rest) = (usize::from(count), after);
        }
        let (string, after) = rest.split_at_checked(length).ok_or(BAD)?;
        strings.push(string);
        rest = after.get(unused..).ok_or(BAD)?;
    }
    let count = strings.len() / 2;
    let counted = *announced >= 254 || usize::from(*announced) == count;
    if strings.len() % 2 == 1 || count == 0 || !counted { Err(BAD) } else { Ok(strings) }
}

/// The integers of an intset, in ascending order.
pub(super) fn intset(bytes: &[u8]) -> Result<impl ExactSizeIterator<Item = i64> + '_, Corrupt> {
    const BAD: Corrupt = Corrupt("intset");
    let (&[a, b, c, d, e, f, g, h], rest) = bytes.split_first_chunk::<8>().ok_or(BAD)?;
    let width = match u32::from_le_bytes([a, b, c, d]) {
        width @ (2 | 4 | 8) => width as usize,
        _ => return Err(BAD),
    };
    let count = u32::from_le_bytes([e, f, g, h]) as usize;
    if count == 0 || count.checked_mul(width) != Some(rest.len()) {
        return Err(BAD);
    }
    let values = rest.chunks_exact(width).map(signed);
    if !values.clone().is_sorted_by(|left, right| left < right) {
        return Err(Corrupt("intset order"));
    }
    Ok(values)
}

/// Builds an intset from ascending integers.
pub(super) fn build_intset(values: &[i64]) -> Vec<u8> {
    let fits = |bytes: u32| values.iter().all(|&value| value << (64 - 8 * bytes) >> (64 - 8 * bytes) == value);
    let width: u32 = if fits(2) {
        2
    } else if fits(4) {
        4
    } else {
        8
    };
    let mut bytes = Vec::with_capacity(8 + values.len() * width as usize);
    bytes.extend_from_slice(&width.to_le_bytes());
    bytes.extend_from_slice(&(values.len() as u32).to_le_bytes());
    for value in values {
        bytes.extend_from_slice(&value.to_le_bytes()[..width as usize]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn read(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Corrupt> {
        entries(bytes)?.map(|entry| entry.map(|elem| elem.to_vec())).collect()
    }

    /// A ziplist as an old Redis wrote it.
    fn ziplist(elements: &[Vec<u8>]) -> Vec<u8> {
        let (mut body, mut before, mut last) = (Vec::new(), 0usize, HEADER);
        for element in elements {
            let start = body.len();
            last = HEADER + start;
            match before {
                0..254 => body.push(before as u8),
                _ => {
                    body.push(254);
                    body.extend_from_slice(&(before as u32).to_le_bytes());
                }
            }
            match Elem::from_bytes(element) {
                Elem::Int(value @ 0..=12) => body.push(0xf1 + value as u8),
                Elem::Int(value) => {
                    let (tag, bytes) = match value {
                        -0x80..=0x7f => (0xfe, 1),
                        -0x8000..=0x7fff => (0xc0, 2),
                        -0x80_0000..=0x7f_ffff => (0xf0, 3),
                        -0x8000_0000..=0x7fff_ffff => (0xd0, 4),
                        _ => (0xe0, 8),
                    };
                    body.push(tag);
                    body.extend_from_slice(&value.to_le_bytes()[..bytes]);
                }
                Elem::Bytes(bytes) => {
                    match bytes.len() {
                        length @ 0..64 => body.push(length as u8),
                        length @ 64..16384 => body.extend_from_slice(&(0x4000 | length as u16).to_be_bytes()),
                        length => {
                            body.push(0x80);
                            body.extend_from_slice(&(length as u32).to_be_bytes());
                        }
                    }
                    body.extend_from_slice(bytes);
                }
            }
            before = body.len() - start;
        }
        let mut bytes = ((HEADER + body.len() + 1) as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(&(last as u32).to_le_bytes());
        bytes.extend_from_slice(&(elements.len() as u16).to_le_bytes());
        bytes.extend(body);
        bytes.push(END);
        bytes
    }

    fn element() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..300),
            (0usize..20000).prop_map(|len| vec![b'x'; len]),
            any::<i64>().prop_map(|value| value.to_string().into_bytes()),
            (0u32..63, -2i64..3).prop_map(|(bit, by)| (-(1i64 << bit) + by).to_string().into_bytes()),
            (-2i64..15).prop_map(|value| value.to_string().into_bytes()),
        ]
    }

    proptest! {
        #[test]
        fn ziplists_are_read(elements in proptest::collection::vec(element(), 0..20)) {
            prop_assert_eq!(read(&ziplist(&elements)), Ok(elements));
        }

        #[test]
        fn damaged_ziplists_are_survived(elements in proptest::collection::vec(element(), 1..5),
            at: prop::sample::Index, to: u8)
        {
            let mut bytes = ziplist(&elements);
            let at = at.index(bytes.len());
            bytes[at] = to;
            let _ = read(&bytes);
            bytes.truncate(at);
            prop_assert!(read(&bytes).is_err());
        }

        #[test]
        fn intsets_come_back(values in proptest::collection::btree_set(
            prop_oneof![-100i64..100, -40000i64..40000, any::<i64>()], 1..50))
        {
            let values: Vec<i64> = BTreeSet::into_iter(values).collect();
            prop_assert_eq!(intset(&build_intset(&values)).unwrap().collect::<Vec<_>>(), values);
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = read(&bytes);
            let _ = zipmap(&bytes);
            let _ = intset(&bytes).map(|values| values.len());
        }
    }

    #[test]
    fn the_examples_of_redis() {
        let bytes = b"\x0f\0\0\0\x0c\0\0\0\x02\0\x00\xf3\x02\xf6\xff";
        assert_eq!(read(bytes), Ok(vec![b"2".to_vec(), b"5".to_vec()]));
        let bytes = b"\x02\x03foo\x03\x00bar\x05hello\x05\x00world\xff";
        assert_eq!(zipmap(bytes), Ok(vec![&b"foo"[..], b"bar", b"hello", b"world"]));
        let unused = b"\x01\x03foo\x03\x02bar..\xff";
        assert_eq!(zipmap(unused), Ok(vec![&b"foo"[..], b"bar"]));
    }

    #[test]
    fn inconsistent_intsets_are_refused() {
        assert!(intset(b"\x02\0\0\0\x02\0\0\0\x01\0\x01\0").is_err(), "duplicate");
        assert!(intset(b"\x02\0\0\0\x02\0\0\0\x02\0\x01\0").is_err(), "order");
        assert!(intset(b"\x02\0\0\0\x03\0\0\0\x01\0\x02\0").is_err(), "count");
        assert!(intset(b"\x03\0\0\0\x01\0\0\0\x01\0\x02").is_err(), "width");
        assert!(intset(b"\x02\0\0\0\0\0\0\0").is_err(), "empty");
        assert_eq!(intset(b"\x02\0\0\0\x02\0\0\0\xff\xff\x01\0").unwrap().collect::<Vec<_>>(), [-1, 1]);
    }
}
