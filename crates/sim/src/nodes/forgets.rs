//! Planted mistakes: records of transactions that a start does not see in its log.

use command::effects::{self, Effects};
use keyspace::Keyspace;
use txn::Record;

/// What is not seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forgets {
    /// That an attempt is prepared: as if it had not been logged before it was said (rule T4).
    Prepares,
    /// That an attempt is committed, and what it has done (rule T5).
    Commits,
}

impl Forgets {
    /// What is left of a record's effects.
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
