//! Bytes of messages and records: numbers are LEB128, and no input is trusted.

use std::sync::Arc;

use crate::{HybridTime, Life, Lock, Member, NodeId, Origin, ParticipantId, Stamp, TxnId, locks::Mode};

/// The version of records that is written, and the only one that is read.
pub(crate) const RECORD: u8 = 1;
/// The same for messages.
pub(crate) const MESSAGE: u8 = 3;

/// Bytes that are no message or record, and the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed(pub &'static str);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

const CUT: Malformed = Malformed("cut short");

pub(crate) struct Writer<'a>(pub(crate) &'a mut Vec<u8>);

impl Writer<'_> {
    pub(crate) fn u8(&mut self, v: u8) {
        self.0.push(v);
    }

    pub(crate) fn varint(&mut self, mut v: u64) {
        while v >= 0x80 {
            self.0.push(v as u8 | 0x80);
            v >>= 7;
        }
        self.0.push(v as u8);
    }

    pub(crate) fn u64(&mut self, v: u64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, v: &[u8]) {
        self.varint(v.len() as u64);
        self.0.extend_from_slice(v);
    }

    pub(crate) fn member(&mut self, v: Member) {
        self.u64(v.id.0);
        self.varint(v.incarnation);
    }

    pub(crate) fn members(&mut self, v: &[Member]) {
        self.varint(v.len() as u64);
        v.iter().for_each(|member| self.member(*member));
    }

    pub(crate) fn origin(&mut self, v: Origin) {
        self.u64(v.life.node.0);
        self.varint(v.life.incarnation);
        self.varint(u64::from(v.lane));
    }

    pub(crate) fn tx(&mut self, v: TxnId) {
        self.origin(v.origin);
        self.varint(v.sequence);
        self.varint(u64::from(v.attempt));
    }

    pub(crate) fn stamp(&mut self, v: Stamp) {
        self.u64(v.time.0);
        self.u64(v.node.0);
        self.varint(u64::from(v.lane));
    }

    pub(crate) fn locks(&mut self, v: &[Lock]) {
        self.varint(v.len() as u64);
        for lock in v {
            self.varint(u64::from(lock.db) << 1 | u64::from(lock.mode == Mode::Exclusive));
            self.bytes(&lock.key);
        }
    }
}

pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        let (&v, rest) = self.0.split_first().ok_or(CUT)?;
        self.0 = rest;
        Ok(v)
    }

    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        let mut v = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            if shift == 63 && byte > 1 {
                break;
            }
            v |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(v);
            }
        }
        Err(Malformed("a number that is too long"))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        let (head, rest) = self.0.split_first_chunk::<8>().ok_or(CUT)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*head))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.varint()?;
        let length = usize::try_from(length).map_err(|_| CUT)?;
        let (head, rest) = self.0.split_at_checked(length).ok_or(CUT)?;
        self.0 = rest;
        Ok(head)
    }

    /// A count of items that take at least `least` bytes each: nothing is allocated for items that cannot be there.
    fn many<T>(
        &mut self,
        least: usize,
        mut one: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Arc<[T]>, Malformed> {
        let n = usize::try_from(self.varint()?).map_err(|_| CUT)?;
        if n > self.0.len() / least {
            return Err(CUT);
        }
        (0..n).map(|_| one(self)).collect()
    }

    pub(crate) fn member(&mut self) -> Result<Member, Malformed> {
        Ok(Member { id: ParticipantId(self.u64()?), incarnation: self.varint()? })
    }

    /// Each participant once.
    pub(crate) fn members(&mut self) -> Result<Arc<[Member]>, Malformed> {
        let members = self.many(9, Self::member)?;
        let once = members.windows(2).all(|pair| pair[0].id < pair[1].id);
        if once { Ok(members) } else { Err(Malformed("participants that are not in order")) }
    }

    pub(crate) fn origin(&mut self) -> Result<Origin, Malformed> {
        let life = Life { node: NodeId(self.u64()?), incarnation: self.varint()? };
        Ok(Origin { life, lane: self.lane()? })
    }

    fn lane(&mut self) -> Result<u16, Malformed> {
        u16::try_from(self.varint()?).map_err(|_| Malformed("a coordinator's number"))
    }

    pub(crate) fn tx(&mut self) -> Result<TxnId, Malformed> {
        let (origin, sequence) = (self.origin()?, self.varint()?);
        let attempt = u32::try_from(self.varint()?).map_err(|_| Malformed("an attempt's number"))?;
        Ok(TxnId { origin, sequence, attempt })
    }

    pub(crate) fn round(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.varint()?).map_err(|_| Malformed("the number of a round"))
    }

    pub(crate) fn stamp(&mut self) -> Result<Stamp, Malformed> {
        Ok(Stamp { time: HybridTime(self.u64()?), node: NodeId(self.u64()?), lane: self.lane()? })
    }

    /// Each key once.
    pub(crate) fn locks(&mut self) -> Result<Arc<[Lock]>, Malformed> {
        let locks = self.many(2, |reader| {
            let word = reader.varint()?;
            let db = u16::try_from(word >> 1).map_err(|_| Malformed("a database's number"))?;
            let mode = if word & 1 == 1 { Mode::Exclusive } else { Mode::Shared };
            Ok(Lock { db, key: reader.bytes()?.into(), mode })
        })?;
        let once = locks.windows(2).all(|pair| pair[0].place() < pair[1].place());
        if once { Ok(locks) } else { Err(Malformed("keys that are not in order")) }
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("neither yes nor no")),
        }
    }

    pub(crate) fn version(&mut self, known: u8) -> Result<(), Malformed> {
        if self.u8()? == known { Ok(()) } else { Err(Malformed("a version that is not known")) }
    }

    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("more than there should be")) }
    }
}
