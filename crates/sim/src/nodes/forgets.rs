//! Planted mistakes: records of transactions that a start does not see in its log.

use command::effects::{self, Effects};
use keyspace::Keyspace;
use txn::Record;

/// The record that a start does not see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forgets {
    /// The record that an attempt is prepared: as if it had been said before it was logged (rule T4).
    Prepares,
    /// The record that an attempt is committed, with its effects (rule T5).
    Commits,
}

impl Forgets {
    /// The rest of a record's effects.
    pub fn of(self, keyspace: &Keyspace, encoded: &[u8]) -> Vec<u8> {
        let mut kept = Effects { recording: true, ..Default::default() };
        for effect in effects::decode(encoded).flatten() {
            let record = effect.transaction().and_then(|record| Record::decode(record).ok());
            match (self, record) {
                (Forgets::Prepares, Some(Record::Prepare(_))) => {}
                // The effects behind it are those of the attempt.
                (Forgets::Commits, Some(Record::Commit { .. })) => return kept.encoded,
                (_, Some(record)) => {
                    let mut bytes = Vec::new();
                    record.encode(&mut bytes);
                    kept.push_transaction(&bytes);
                }
                (_, None) if effect.key.is_empty() => return encoded.to_vec(),
                (_, None) => {
                    let payload = effect.payload.0;
                    let key = keyspace.hasher().key(effect.key);
                    kept.push(effect.op, effect.db, &key, |w| w.0.extend_from_slice(payload));
                }
            }
        }
        kept.encoded
    }
}
