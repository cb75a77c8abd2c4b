//! A sorted set as bytes.
//!
//! ```text
//! version (1): 1
//! flags (1): bit 0 set for the large form
//! elements to the end, in order: score (8, little-endian), length of the member (varint, LEB128), member
//! ```

use super::large::Large;
use super::small::Small;
use super::{Form, ZSet};
use crate::Corrupt;

const VERSION: u8 = 1;
const LARGE: u8 = 1;

/// Most bytes of elements that are read into the small form, whatever the flags say: damaged or hostile bytes must not
/// make every later operation slow.
const SMALL_BYTES_MAX: usize = 1 << 20;

fn write_varint(out: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut v = 0u64;
    for shift in (0..63).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        v |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(v);
        }
    }
    None
}

pub(super) fn write_element(out: &mut Vec<u8>, score: f64, member: &[u8]) {
    out.extend(score.to_le_bytes());
    write_varint(out, member.len() as u64);
    out.extend_from_slice(member);
}

/// Takes the first element off `bytes`.
pub(super) fn read_element<'a>(bytes: &mut &'a [u8]) -> Option<(f64, &'a [u8])> {
    let (score, rest) = bytes.split_first_chunk::<8>()?;
    *bytes = rest;
    let len = usize::try_from(read_varint(bytes)?).ok()?;
    let (member, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some((f64::from_le_bytes(*score), member))
}

impl ZSet {
    /// Appends the set's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend([VERSION, if matches!(self.0, Form::Large(_)) { LARGE } else { 0 }]);
        self.iter(0..self.len(), false).for_each(|(member, score)| write_element(out, score, member));
    }

    /// Reads what [`ZSet::encode`] wrote. Never panics; allocates no more than a small multiple of `bytes`.
    ///
    /// # Errors
    ///
    /// The bytes are no sorted set.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let [VERSION, flags @ 0..=LARGE, elements @ ..] = bytes else {
            return Err(Corrupt("unknown version or flags of a sorted set"));
        };
        let large = *flags == LARGE || elements.len() > SMALL_BYTES_MAX;
        let mut set = ZSet(if large { Form::Large(Box::new(Large::new())) } else { Form::Small(Small::new()) });
        let mut members = Vec::new();
        let mut last: Option<(f64, &[u8])> = None;
        let mut rest = elements;
        while !rest.is_empty() {
            let element = read_element(&mut rest).ok_or(Corrupt("a sorted set is cut short"))?;
            let (score, member) = element;
            if score.is_nan() || last.is_some_and(|last| last >= element) {
                return Err(Corrupt("a sorted set is not sorted"));
            }
            last = Some(element);
            match &mut set.0 {
                Form::Small(small) => {
                    small.push(score, member);
                    members.push(member);
                }
                Form::Large(large) if large.score(member).is_some() => return Err(TWICE),
                Form::Large(large) => large.insert(score, member),
            }
        }
        members.sort_unstable();
        if members.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(TWICE);
        }
        Ok(set)
    }
}

pub(super) const TWICE: Corrupt = Corrupt("a sorted set has a member twice");
