//! The log's state of transactions over nodes: the last record of each attempt that may still be asked about (rules T5,
//! C6).

use std::collections::BTreeMap;
use std::sync::Arc;

use object::Corrupt;
use txn::{Prepared, Record, TxnId};

/// See the module's text. A checkpoint keeps it, and a start goes on from it with the log's tail.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Outcomes(BTreeMap<TxnId, Record>);

impl Outcomes {
    /// Notes a record, the next one in the log.
    pub fn note(&mut self, record: Record) {
        // A decided attempt is not open again: a log that was cut may begin with records of ended ones.
        if let (Record::Prepare(_), Some(Record::Commit { .. } | Record::Abort { .. })) =
            (&record, self.0.get(&record.tx()))
        {
            return;
        }
        self.0.insert(record.tx(), record);
    }

    /// As [`Self::note`], of an effect of the log.
    ///
    /// # Errors
    /// If it is no record.
    pub fn note_encoded(&mut self, record: &[u8]) -> Result<(), Corrupt> {
        self.note(Record::decode(record).map_err(|malformed| Corrupt(malformed.0))?);
        Ok(())
    }

    /// Forgets attempts that no node knows any more.
    pub fn keep_only(&mut self, is_known: impl Fn(TxnId) -> bool) {
        self.0.retain(|tx, _| is_known(*tx));
    }

    /// All of them.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.0.values()
    }

    /// Attempts that are prepared, and whose outcome is not known.
    pub fn prepared(&self) -> impl Iterator<Item = &Arc<Prepared>> {
        self.0.values().filter_map(|record| if let Record::Prepare(prepared) = record { Some(prepared) } else { None })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends `length u32 · record` of each. Beyond 4 GB no value of the store has room for them: the caller checks
    /// that, because a length may then be too small.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for record in self.0.values() {
            let at = out.len();
            out.extend_from_slice(&[0; 4]);
            record.encode(out);
            let length = u32::try_from(out.len() - at - 4).unwrap_or(u32::MAX);
            out[at..at + 4].copy_from_slice(&length.to_le_bytes());
        }
    }

    /// Reads the bytes of [`Self::encode`], which must be all there are.
    pub(crate) fn decode(mut bytes: &[u8]) -> Result<Self, Corrupt> {
        const CUT: Corrupt = Corrupt("the states of transactions are cut short");
        let mut outcomes = Self::default();
        while !bytes.is_empty() {
            let (length, rest) = bytes.split_first_chunk().ok_or(CUT)?;
            let (record, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(CUT)?;
            outcomes.note_encoded(record)?;
            bytes = rest;
        }
        Ok(outcomes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use txn::{Life, Member, NodeId, Origin, Stamp};

    use super::*;

    fn prepare(sequence: u64) -> Record {
        let life = Life { node: NodeId(3), incarnation: 2 };
        let tx = TxnId { origin: Origin { life, lane: 1 }, sequence, attempt: 1 };
        let (members, locks, effects) = (Arc::from([Member::of(life)]), Arc::from([]), Arc::from(*b"x"));
        Record::Prepare(Arc::new(Prepared { tx, stamp: Stamp::default(), members, locks, effects }))
    }

    #[test]
    fn golden_bytes() {
        let mut outcomes = Outcomes::default();
        outcomes.note(prepare(1));
        outcomes.note(Record::Abort { tx: prepare(2).tx() });
        let mut bytes = Vec::new();
        outcomes.encode(&mut bytes);
        let prepared: &[u8] = b"\x2c\0\0\0\x01\x01\x03\0\0\0\0\0\0\0\x02\x01\x01\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
            \x01\x03\0\0\0\0\0\0\0\x02\0\x01x";
        assert_eq!(bytes, [prepared, b"\x0e\0\0\0\x01\x03\x03\0\0\0\0\0\0\0\x02\x01\x02\x01"].concat());
        assert_eq!(Outcomes::decode(&bytes).unwrap(), outcomes);
        assert!(Outcomes::decode(&bytes[..5]).is_err());
    }

    #[test]
    fn what_is_decided_stays_decided() {
        let mut outcomes = Outcomes::default();
        let tx = prepare(1).tx();
        outcomes.note(prepare(1));
        outcomes.note(Record::Abort { tx });
        outcomes.note(prepare(1));
        assert_eq!(outcomes.records().collect::<Vec<_>>(), [&Record::Abort { tx }]);
        outcomes.keep_only(|_| false);
        assert!(outcomes.is_empty());
    }

    proptest! {
        /// Lengths and counts may be anything: no memory is taken for bytes that are not there.
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(prop_oneof![Just(0u8), 1u8..5, any::<u8>()], 0..120)) {
            let _ = Outcomes::decode(&bytes);
            let length = (bytes.len() as u32).to_le_bytes();
            let decoded = Outcomes::decode(&[&length, &bytes[..]].concat());
            prop_assert_eq!(decoded.is_ok(), Record::decode(&bytes).is_ok());
        }

        #[test]
        fn no_damage_panics(at in 0usize..66, bytes in prop::collection::vec(any::<u8>(), 1..10), cut in 0usize..66) {
            let mut outcomes = Outcomes::default();
            outcomes.note(prepare(1));
            outcomes.note(Record::Abort { tx: prepare(2).tx() });
            let mut damaged = Vec::new();
            outcomes.encode(&mut damaged);
            let end = damaged.len().min(at + bytes.len());
            damaged.splice(at.min(end)..end, bytes);
            damaged.truncate(cut.max(1));
            if let Ok(read) = Outcomes::decode(&damaged) {
                let mut again = Vec::new();
                read.encode(&mut again);
                prop_assert_eq!(Outcomes::decode(&again).unwrap(), read);
            }
        }
    }
}
