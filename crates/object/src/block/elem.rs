//! One element of a block: its value and its bytes.

use crate::Corrupt;
use crate::number::{i64_text_len, parse_i64};

/// Longest tag and length of an element, integers included.
pub(super) const HEADER_MAX: usize = 9;

/// Longest back-length: a `usize` in base 128.
const BACK_MAX: usize = 10;

const SHORT: u8 = 0x80;
const MEDIUM: u8 = 0xc0;
const LONG: u8 = 0xd0;
const HUGE: u8 = 0xd1;
const INT: u8 = 0xe0;

/// An element: a byte string, or a number that stands for its canonical decimal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elem<'a> {
    /// A byte string.
    Bytes(&'a [u8]),
    /// The integer whose shortest decimal form is the string.
    Int(i64),
}

/// A string to look for, with its number if it is one, so that it is parsed once.
#[derive(Clone, Copy, Debug)]
pub struct Needle<'a> {
    bytes: &'a [u8],
    int: Option<i64>,
}

impl<'a> Needle<'a> {
    /// Prepares a string for comparison with elements.
    pub fn new(bytes: &'a [u8]) -> Self {
        Needle { bytes, int: parse_i64(bytes) }
    }

    /// The string.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The string as the element [`Elem::from_bytes`] makes of it.
    pub fn elem(&self) -> Elem<'a> {
        self.int.map_or(Elem::Bytes(self.bytes), Elem::Int)
    }
}

impl<'a> Elem<'a> {
    /// The shortest element for a string: an integer where the string is the canonical form of one.
    ///
    /// A block whose strings all went through here compares equal exactly where the strings do.
    pub fn from_bytes(bytes: &'a [u8]) -> Self {
        parse_i64(bytes).map_or(Elem::Bytes(bytes), Elem::Int)
    }

    /// The string, written into `digits` if the element is a number.
    pub fn as_bytes<'b>(&self, digits: &'b mut itoa::Buffer) -> &'b [u8]
    where
        'a: 'b,
    {
        match *self {
            Elem::Bytes(bytes) => bytes,
            Elem::Int(int) => digits.format(int).as_bytes(),
        }
    }

    /// The string, owned.
    pub fn to_vec(&self) -> Vec<u8> {
        self.as_bytes(&mut itoa::Buffer::new()).to_vec()
    }

    /// Appends the string.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes(&mut itoa::Buffer::new()));
    }

    /// Length of the string in bytes.
    pub fn str_len(&self) -> usize {
        match *self {
            Elem::Bytes(bytes) => bytes.len(),
            Elem::Int(int) => i64_text_len(int),
        }
    }

    /// True if this is that string.
    pub fn is(&self, needle: &Needle<'_>) -> bool {
        match *self {
            Elem::Bytes(bytes) => bytes == needle.bytes,
            Elem::Int(int) => needle.int == Some(int),
        }
    }
}

/// Writes tag, length and number into `head`; returns how much of it is used, and the string that follows.
pub(super) fn header<'a>(elem: Elem<'a>, head: &mut [u8; HEADER_MAX]) -> (usize, &'a [u8]) {
    match elem {
        Elem::Int(int @ 0..=127) => {
            head[0] = int as u8;
            (1, &[])
        }
        Elem::Int(int) => {
            // A sign bit and what differs from it.
            let bits = 65 - (int ^ (int >> 63)).leading_zeros() as usize;
            let n = bits.div_ceil(8);
            head[0] = INT + n as u8;
            head[1..].copy_from_slice(&int.to_le_bytes());
            (1 + n, &[])
        }
        Elem::Bytes(bytes) => {
            let n = match bytes.len() {
                len @ 0..=63 => {
                    head[0] = SHORT | len as u8;
                    1
                }
                len @ 64..=4095 => {
                    head[0] = MEDIUM | (len & 15) as u8;
                    head[1] = (len >> 4) as u8;
                    2
                }
                len => match u32::try_from(len) {
                    Ok(len) => {
                        head[0] = LONG;
                        head[1..5].copy_from_slice(&len.to_le_bytes());
                        5
                    }
                    Err(_) => {
                        head[0] = HUGE;
                        head[1..].copy_from_slice(&(len as u64).to_le_bytes());
                        9
                    }
                },
            };
            (n, bytes)
        }
    }
}

/// Length of header and of string of the element that begins here, without the back-length. `bytes` is not empty.
fn parts(bytes: &[u8]) -> (usize, usize) {
    let tag = bytes[0];
    match tag {
        0..SHORT => (1, 0),
        SHORT..MEDIUM => (1, usize::from(tag & 63)),
        MEDIUM..LONG => (2, usize::from(tag & 15) | usize::from(bytes[1]) << 4),
        LONG => (5, little(&bytes[1..5]) as usize),
        HUGE => (9, little(&bytes[1..9]) as usize),
        _ => (1 + usize::from(tag & 15), 0),
    }
}

fn little(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// The element that begins here. `bytes` begins with a whole element.
pub(super) fn read(bytes: &[u8]) -> Elem<'_> {
    read_sized(bytes).0
}

/// The element that begins here and the bytes it takes with its back-length.
#[inline]
pub(super) fn read_sized(bytes: &[u8]) -> (Elem<'_>, usize) {
    match bytes[0] {
        small @ 0..SHORT => (Elem::Int(i64::from(small)), 2),
        tag @ SHORT..MEDIUM => {
            let end = 1 + usize::from(tag & 63);
            (Elem::Bytes(&bytes[1..end]), end + 1)
        }
        _ => read_longer(bytes),
    }
}

fn read_longer(bytes: &[u8]) -> (Elem<'_>, usize) {
    let (elem, size) = read_longer_bare(bytes);
    (elem, size + back_len_size(size))
}

fn read_longer_bare(bytes: &[u8]) -> (Elem<'_>, usize) {
    let (head, len) = parts(bytes);
    let size = head + len;
    let elem = if bytes[0] < INT {
        Elem::Bytes(&bytes[head..size])
    } else {
        let unused = 64 - 8 * (head as u32 - 1);
        Elem::Int((little(&bytes[1..head]) << unused) as i64 >> unused)
    };
    (elem, size)
}

/// Appends an element without a back-length: for runs that are only walked forwards.
#[inline]
pub(crate) fn append_bare(out: &mut Vec<u8>, elem: Elem<'_>) {
    let mut head = [0; HEADER_MAX];
    let (n, bytes) = header(elem, &mut head);
    out.extend_from_slice(&head[..n]);
    out.extend_from_slice(bytes);
}

/// The element without a back-length that begins here, and the bytes it takes. `bytes` begins with a whole element.
#[inline]
pub(crate) fn read_bare(bytes: &[u8]) -> (Elem<'_>, usize) {
    match bytes[0] {
        small @ 0..SHORT => (Elem::Int(i64::from(small)), 1),
        tag @ SHORT..MEDIUM => {
            let end = 1 + usize::from(tag & 63);
            (Elem::Bytes(&bytes[1..end]), end)
        }
        _ => read_longer_bare(bytes),
    }
}

/// [`read_bare`] of bytes that may be anything. Other forms than the shortest are read, too.
pub(crate) fn take_bare(bytes: &[u8]) -> Option<(Elem<'_>, usize)> {
    let head = head_len(*bytes.first()?)?;
    bytes.get(..head)?;
    let (head, len) = parts(bytes);
    bytes.get(..head.checked_add(len)?)?;
    Some(read_bare(bytes))
}

/// Bytes of tag and length of an element of this tag; `None`: there is no such tag.
fn head_len(tag: u8) -> Option<usize> {
    Some(match tag {
        0..MEDIUM => 1,
        MEDIUM..LONG => 2,
        LONG => 5,
        HUGE => 9,
        0xe1..=0xe8 => 1 + usize::from(tag & 15),
        _ => return None,
    })
}

/// Bytes the element that begins here takes, back-length included.
#[inline]
pub(super) fn size(bytes: &[u8]) -> usize {
    // The short forms have a back-length of one byte.
    match bytes[0] {
        0..SHORT => 2,
        tag @ SHORT..MEDIUM => 2 + usize::from(tag & 63),
        tag @ INT.. => 2 + usize::from(tag & 15),
        _ => {
            let (head, len) = parts(bytes);
            head + len + back_len_size(head + len)
        }
    }
}

/// Bytes the element that ends here takes, back-length included. `bytes` ends with a whole element.
#[inline]
pub(super) fn size_before(bytes: &[u8]) -> usize {
    match bytes.last() {
        Some(size @ 0..=127) => usize::from(*size) + 1,
        _ => size_before_longer(bytes),
    }
}

fn size_before_longer(bytes: &[u8]) -> usize {
    let (mut size, mut shift, mut digits) = (0, 0, 0);
    for digit in bytes.iter().rev().take(BACK_MAX) {
        size |= usize::from(digit & 127) << shift;
        shift += 7;
        digits += 1;
        if digit & 128 == 0 {
            break;
        }
    }
    size + digits
}

/// Bytes of the back-length of an element of this size.
pub(super) fn back_len_size(size: usize) -> usize {
    match size {
        0..=0x7f => 1,
        0x80..=0x3fff => 2,
        _ => (size.ilog2() / 7 + 1) as usize,
    }
}

/// The back-length of an element of this size.
pub(super) fn back_len(size: usize) -> ([u8; BACK_MAX], usize) {
    let mut digits = [0; BACK_MAX];
    let n = back_len_size(size);
    write_back_len(&mut digits[..n], size);
    (digits, n)
}

/// Fills a place of exactly [`back_len_size`] bytes.
pub(super) fn write_back_len(place: &mut [u8], mut size: usize) {
    for digit in place.iter_mut().rev() {
        *digit = (size & 127) as u8 | 128;
        size >>= 7;
    }
    if let Some(first) = place.first_mut() {
        *first &= 127;
    }
}

/// Checks that a whole element begins here, as [`header`] would have written it; returns the bytes it takes.
pub(super) fn check(bytes: &[u8]) -> Result<usize, Corrupt> {
    const SHORT_OF: Corrupt = Corrupt("element cut short");
    let tag = *bytes.first().ok_or(SHORT_OF)?;
    let head = head_len(tag).ok_or(Corrupt("unknown tag of an element"))?;
    if bytes.len() < head {
        return Err(SHORT_OF);
    }
    let (head, len) = parts(bytes);
    let size = head.checked_add(len).ok_or(SHORT_OF)?;
    if bytes.len().checked_sub(size).is_none_or(|rest| rest < back_len_size(size)) {
        return Err(SHORT_OF);
    }
    let (elem, total) = read_sized(bytes);
    let mut written = [0; HEADER_MAX];
    let (n, _) = header(elem, &mut written);
    let (back, k) = back_len(size);
    if n != head || written[..n] != bytes[..n] || bytes[size..total] != back[..k] {
        return Err(Corrupt("element not in its shortest form"));
    }
    Ok(total)
}
