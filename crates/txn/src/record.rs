//! The log records of participants.
//!
//! ```text
//! record := version u8 (1) · kind u8 · body                             docs/formats.md, "Transactions over nodes"
//! ```

use std::sync::Arc;

use crate::wire::{Malformed, RECORD, Reader, Writer};
use crate::{Lock, Member, Stamp, TxnId};

/// A participant's part of an attempt, executed and not yet installed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Prepared {
    /// Which attempt.
    pub tx: TxnId,
    /// How old the transaction is.
    pub stamp: Stamp,
    /// All participants, in order.
    pub members: Arc<[Member]>,
    /// The locks until the outcome, also those of keys that were only read (rule T2).
    pub locks: Arc<[Lock]>,
    /// The effects on this node's keys.
    pub effects: Arc<[u8]>,
}

/// One record of a participant's log.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Record {
    /// The node is bound: only the outcome frees it.
    Prepare(Arc<Prepared>),
    /// All were prepared. The log's record holds the effects, too, as applied ones.
    Commit {
        /// Which attempt.
        tx: TxnId,
        /// All participants.
        members: Arc<[Member]>,
    },
    /// A participant refused: the prepared effects are not applied.
    Abort {
        /// Which attempt.
        tx: TxnId,
    },
    /// The node has said that it does not take part, and never will (rule T4).
    Refuse {
        /// Which attempt.
        tx: TxnId,
    },
}

/// The kind of an attempt's record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RecordKind {
    /// [`Record::Prepare`]
    Prepare,
    /// [`Record::Commit`]
    Commit,
    /// [`Record::Abort`]
    Abort,
    /// [`Record::Refuse`]
    Refuse,
}

impl Record {
    /// The attempt that it is about.
    pub fn tx(&self) -> TxnId {
        match self {
            Record::Prepare(prepared) => prepared.tx,
            Record::Commit { tx, .. } | Record::Abort { tx } | Record::Refuse { tx } => *tx,
        }
    }

    /// Its kind.
    pub fn kind(&self) -> RecordKind {
        match self {
            Record::Prepare(_) => RecordKind::Prepare,
            Record::Commit { .. } => RecordKind::Commit,
            Record::Abort { .. } => RecordKind::Abort,
            Record::Refuse { .. } => RecordKind::Refuse,
        }
    }

    /// Appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut w = Writer(out);
        w.u8(RECORD);
        match self {
            Record::Prepare(p) => {
                w.u8(1);
                w.tx(p.tx);
                w.stamp(p.stamp);
                w.members(&p.members);
                w.locks(&p.locks);
                w.bytes(&p.effects);
            }
            Record::Commit { tx, members } => {
                w.u8(2);
                w.tx(*tx);
                w.members(members);
            }
            Record::Abort { tx } => {
                w.u8(3);
                w.tx(*tx);
            }
            Record::Refuse { tx } => {
                w.u8(4);
                w.tx(*tx);
            }
        }
    }

    /// Reads one, which must be all there is.
    ///
    /// # Errors
    /// If the bytes are not what some [`Self::encode`] has written.
    pub fn decode(bytes: &[u8]) -> Result<Record, Malformed> {
        let mut r = Reader(bytes);
        r.version(RECORD)?;
        let record = match r.u8()? {
            1 => Record::Prepare(Arc::new(Prepared {
                tx: r.tx()?,
                stamp: r.stamp()?,
                members: r.members()?,
                locks: r.locks()?,
                effects: r.bytes()?.into(),
            })),
            2 => Record::Commit { tx: r.tx()?, members: r.members()? },
            3 => Record::Abort { tx: r.tx()? },
            4 => Record::Refuse { tx: r.tx()? },
            _ => return Err(Malformed("a record that is not known")),
        };
        r.end()?;
        Ok(record)
    }
}
