//! The messages of coordinators and participants.
//!
//! ```text
//! message := version u8 (3) · kind u8 · body                            docs/formats.md, "Transactions over nodes"
//! ```
//! The link that carries it guards its bytes. Still, the reader checks them: bytes that no version writes are refused.

use std::sync::Arc;

use clocks::UnixMs;

use crate::locks::Mode;
use crate::wire::{MESSAGE, Malformed, Reader, Writer};
use crate::{Life, Member, Origin, Recipient, Sender, Stamp, TxnId};

/// A key that an attempt locks at a participant.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Lock {
    /// Logical database.
    pub db: u16,
    /// The key.
    pub key: Box<[u8]>,
    /// The mode.
    pub mode: Mode,
}

impl Lock {
    /// The key of the lock table.
    pub fn place(&self) -> (u16, &[u8]) {
        (self.db, &self.key)
    }

    /// In order, and each key once, as strongly as it is named: what a [`Prepare`] takes.
    pub fn normalized(mut locks: Vec<Lock>) -> Arc<[Lock]> {
        locks.sort_by(|a, b| a.place().cmp(&b.place()).then(b.mode.cmp(&a.mode)));
        locks.dedup_by(|next, kept| next.place() == kept.place());
        locks.into()
    }
}

/// A coordinator asks a participant to prepare its part of an attempt.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Prepare {
    /// Which attempt.
    pub tx: TxnId,
    /// How old the transaction is.
    pub stamp: Stamp,
    /// All participants in order, and in which lives: any other life refuses (rule T1).
    pub members: Arc<[Member]>,
    /// The locks of this participant, in order, each key once.
    pub locks: Arc<[Lock]>,
    /// Its commands.
    pub commands: Arc<[u8]>,
    /// A participant writes: all participants log (rule T2). Otherwise none does (rule T3).
    pub logged: bool,
    /// No other participant was asked yet: it may wait for older transactions.
    pub patient: bool,
    /// All transactions of this coordinator with a lower sequence are finished (rule T5).
    pub finished: u64,
    /// The moment of the keys of all participants (`coordinator/moment.rs`).
    pub moment: UnixMs,
}

/// The reason why a participant does not take part in an attempt: nothing of it is or will be there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Refusal {
    /// Wait-die: it is younger than a transaction in its way. Trying again helps.
    Conflict,
    /// The attempt names another life of the node. Trying again with this one helps.
    Stale,
    /// The attempt is over: aborted, or followed by a later one.
    Over,
    /// The node does not own the keys, or does not serve now. Asking their owner helps.
    Moved,
    /// A watched key, or a key that was read, has changed: the client is told.
    Changed,
    /// It cannot be executed; the text is for the client.
    Failed(Box<[u8]>),
    /// Its keys may have another state at the moment that the attempt names. Trying again with another one helps.
    Untimely {
        /// The participant's clock.
        now: UnixMs,
        /// When the first of its keys expires, if that is before the moment; `None`: the moment is over.
        ends: Option<UnixMs>,
    },
}

/// A participant's knowledge of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Status {
    /// It waits for locks or executes.
    Pending,
    /// Its Prepare is committed. For good.
    Prepared,
    /// It is not and will never be prepared. For good.
    Refused,
    /// All were prepared. For good.
    Committed,
    /// A participant refused. For good.
    Aborted,
    /// It is prepared, and from now on hears only the remaining participants: so many are lost for good, and the
    /// coordinator has ended or leaves it to them (rule T5).
    Bereft {
        /// How many, at least one.
        lost: u64,
    },
}

/// Between a coordinator and a participant, or between two participants.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Message {
    /// To a participant.
    Prepare(Arc<Prepare>),
    /// To a participant: lock, and send the values. Proceed follows, with the work.
    Fetch(Arc<Prepare>),
    /// To the coordinator: all is locked, and these are the values. Nothing binds the participant yet.
    Fetched {
        /// Which attempt.
        tx: TxnId,
        /// The round that asked for this; 0: Fetch.
        round: u32,
        /// The values.
        found: Arc<[u8]>,
    },
    /// To a participant that has sent its values: lock these keys as well, and send their values. It keeps its other
    /// locks.
    Widen {
        /// Which attempt.
        tx: TxnId,
        /// Counts the rounds of the attempt in which a participant is asked for more, from 1.
        round: u32,
        /// None of which the attempt has locked.
        locks: Arc<[Lock]>,
    },
    /// To a participant that has sent its values: do this work, and be prepared.
    Proceed {
        /// Which attempt.
        tx: TxnId,
        /// All participants, as in [`Prepare`]: Fetch named those of that time.
        members: Arc<[Member]>,
        /// As in [`Prepare`]: the answer to Fetch may have changed it.
        logged: bool,
        /// Its commands.
        commands: Arc<[u8]>,
    },
    /// To a participant that has sent its values: the coordinator is still at work.
    Hold {
        /// Which attempt.
        tx: TxnId,
    },
    /// To the coordinator: prepared, for good.
    Prepared {
        /// Which attempt.
        tx: TxnId,
        /// The replies of the commands; none if the participant has started again since.
        replies: Option<Arc<[u8]>>,
    },
    /// To the coordinator: not prepared, for good.
    Refused {
        /// Which attempt.
        tx: TxnId,
        /// The reason.
        why: Refusal,
    },
    /// To a participant: all are prepared.
    Commit {
        /// Which attempt.
        tx: TxnId,
        /// As in [`Prepare`]; 0 from other participants.
        finished: u64,
    },
    /// To a participant: another one refused, or the attempt only read and is over.
    Abort {
        /// Which attempt.
        tx: TxnId,
        /// As in [`Prepare`].
        finished: u64,
    },
    /// To the sender of a Commit or Abort: the participant has it on its disk, and knows it for as long as it may be
    /// asked.
    Acknowledged {
        /// Which attempt.
        tx: TxnId,
    },
    /// To a participant: what is its state at your node?
    Inquire {
        /// Which attempt.
        tx: TxnId,
        /// The life of the asked participant that the attempt names.
        incarnation: u64,
    },
    /// To the participant that inquired.
    Status {
        /// Which attempt.
        tx: TxnId,
        /// The answer.
        status: Status,
    },
    /// To a participant: another one is lost for good, and the coordinator has not decided, and will not: the remaining
    /// participants settle it among themselves. It is acknowledged like a Commit or an Abort, when they have.
    Leave {
        /// Which attempt.
        tx: TxnId,
    },
    /// To a participant that has sent its values: the coordinator is still at work, on a script that takes longer than
    /// it may. Commands that wait for its locks may be told so.
    Slow {
        /// Which attempt.
        tx: TxnId,
        /// The script is a function.
        function: bool,
    },
    /// To a participant: the client of the attempt has gone. A participant that still waits for its locks refuses; any
    /// other goes on, because it may have bound itself.
    CallOff {
        /// Which attempt.
        tx: TxnId,
    },
    /// To the coordinator: the participant waits for its log, whose disk hangs. Its answer may take any time.
    Stuck {
        /// Which attempt.
        tx: TxnId,
    },
    /// To a participant: it will not be asked about these any more (rule T5).
    Finished {
        /// The coordinator of the transactions.
        origin: Origin,
        /// All with a lower sequence.
        below: u64,
    },
}

impl Message {
    /// The attempt it is about; none of [`Message::Finished`].
    pub fn tx(&self) -> Option<TxnId> {
        match self {
            Message::Prepare(prepare) | Message::Fetch(prepare) => Some(prepare.tx),
            Message::Prepared { tx, .. }
            | Message::Fetched { tx, .. }
            | Message::Proceed { tx, .. }
            | Message::Widen { tx, .. }
            | Message::Hold { tx }
            | Message::Refused { tx, .. }
            | Message::Commit { tx, .. }
            | Message::Abort { tx, .. }
            | Message::Acknowledged { tx }
            | Message::Inquire { tx, .. }
            | Message::Leave { tx }
            | Message::Slow { tx, .. }
            | Message::CallOff { tx }
            | Message::Stuck { tx }
            | Message::Status { tx, .. } => Some(*tx),
            Message::Finished { .. } => None,
        }
    }

    /// The coordinator of this node that it is for; none: it is for the participant.
    pub fn coordinator(&self, me: Life) -> Option<u16> {
        match self {
            Message::Prepared { tx, .. }
            | Message::Fetched { tx, .. }
            | Message::Refused { tx, .. }
            | Message::Stuck { tx } => Some(tx.origin.lane),
            // Participants acknowledge to one another when the coordinator is gone.
            Message::Acknowledged { tx } if tx.origin.life == me => Some(tx.origin.lane),
            _ => None,
        }
    }

    /// The sender of this message to a participant, if it comes from this node: the answer goes there. None: a
    /// participant has sent it, and there is none at the node any more.
    pub(crate) fn sender(&self, from: Sender) -> Option<Recipient> {
        let is_of_participant = match self {
            Message::Inquire { .. } | Message::Status { .. } | Message::Acknowledged { .. } => true,
            // Participants tell one another the outcome when the coordinator is gone.
            Message::Commit { tx, .. } => tx.origin.life != from.life,
            _ => false,
        };
        match is_of_participant {
            true => from.participant.map(Recipient::Participant),
            false => Some(Recipient::Coordinator(from.life.node)),
        }
    }

    /// Appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut w = Writer(out);
        w.u8(MESSAGE);
        match self {
            Message::Prepare(p) | Message::Fetch(p) => {
                w.u8(if matches!(self, Message::Prepare(_)) { 1 } else { 10 });
                w.tx(p.tx);
                w.stamp(p.stamp);
                w.members(&p.members);
                w.locks(&p.locks);
                w.bytes(&p.commands);
                w.u8(u8::from(p.logged) | u8::from(p.patient) << 1);
                w.varint(p.finished);
                w.u64(p.moment.0);
            }
            Message::Prepared { tx, replies } => {
                w.u8(2);
                w.tx(*tx);
                w.u8(u8::from(replies.is_some()));
                if let Some(replies) = replies {
                    w.bytes(replies);
                }
            }
            Message::Refused { tx, why } => {
                w.u8(3);
                w.tx(*tx);
                match why {
                    Refusal::Conflict => w.u8(1),
                    Refusal::Stale => w.u8(2),
                    Refusal::Over => w.u8(3),
                    Refusal::Moved => w.u8(4),
                    Refusal::Changed => w.u8(5),
                    Refusal::Failed(text) => {
                        w.u8(6);
                        w.bytes(text);
                    }
                    Refusal::Untimely { now, ends } => {
                        w.u8(7);
                        w.u64(now.0);
                        w.u8(u8::from(ends.is_some()));
                        if let Some(ends) = ends {
                            w.u64(ends.0);
                        }
                    }
                }
            }
            Message::Commit { tx, finished } => {
                w.u8(4);
                w.tx(*tx);
                w.varint(*finished);
            }
            Message::Abort { tx, finished } => {
                w.u8(5);
                w.tx(*tx);
                w.varint(*finished);
            }
            Message::Acknowledged { tx } => {
                w.u8(6);
                w.tx(*tx);
            }
            Message::Inquire { tx, incarnation } => {
                w.u8(7);
                w.tx(*tx);
                w.varint(*incarnation);
            }
            Message::Status { tx, status } => {
                w.u8(8);
                w.tx(*tx);
                w.u8(match status {
                    Status::Pending => 1,
                    Status::Prepared => 2,
                    Status::Refused => 3,
                    Status::Committed => 4,
                    Status::Aborted => 5,
                    Status::Bereft { .. } => 6,
                });
                if let Status::Bereft { lost } = status {
                    w.varint(*lost);
                }
            }
            Message::Finished { origin, below } => {
                w.u8(9);
                w.origin(*origin);
                w.varint(*below);
            }
            Message::Fetched { tx, round, found } => {
                w.u8(11);
                w.tx(*tx);
                w.varint(u64::from(*round));
                w.bytes(found);
            }
            Message::Proceed { tx, members, logged, commands } => {
                w.u8(12);
                w.tx(*tx);
                w.members(members);
                w.u8(u8::from(*logged));
                w.bytes(commands);
            }
            Message::Hold { tx } => {
                w.u8(13);
                w.tx(*tx);
            }
            Message::Leave { tx } => {
                w.u8(14);
                w.tx(*tx);
            }
            Message::Slow { tx, function } => {
                w.u8(15);
                w.tx(*tx);
                w.u8(u8::from(*function));
            }
            Message::Widen { tx, round, locks } => {
                w.u8(16);
                w.tx(*tx);
                w.varint(u64::from(*round));
                w.locks(locks);
            }
            Message::CallOff { tx } => {
                w.u8(17);
                w.tx(*tx);
            }
            Message::Stuck { tx } => {
                w.u8(18);
                w.tx(*tx);
            }
        }
    }

    /// Reads one, which must be all there is.
    ///
    /// # Errors
    /// If the bytes are not what some [`Self::encode`] has written.
    pub fn decode(bytes: &[u8]) -> Result<Message, Malformed> {
        let mut r = Reader(bytes);
        r.version(MESSAGE)?;
        let message = match r.u8()? {
            1 => Message::Prepare(prepare(&mut r)?),
            2 => {
                let tx = r.tx()?;
                let replies = if r.flag()? { Some(r.bytes()?.into()) } else { None };
                Message::Prepared { tx, replies }
            }
            3 => Message::Refused {
                tx: r.tx()?,
                why: match r.u8()? {
                    1 => Refusal::Conflict,
                    2 => Refusal::Stale,
                    3 => Refusal::Over,
                    4 => Refusal::Moved,
                    5 => Refusal::Changed,
                    6 => Refusal::Failed(r.bytes()?.into()),
                    7 => {
                        let now = UnixMs(r.u64()?);
                        let ends = if r.flag()? { Some(UnixMs(r.u64()?)) } else { None };
                        Refusal::Untimely { now, ends }
                    }
                    _ => return Err(Malformed("a refusal that is not known")),
                },
            },
            4 => Message::Commit { tx: r.tx()?, finished: r.varint()? },
            5 => Message::Abort { tx: r.tx()?, finished: r.varint()? },
            6 => Message::Acknowledged { tx: r.tx()? },
            7 => Message::Inquire { tx: r.tx()?, incarnation: r.varint()? },
            8 => Message::Status {
                tx: r.tx()?,
                status: match r.u8()? {
                    1 => Status::Pending,
                    2 => Status::Prepared,
                    3 => Status::Refused,
                    4 => Status::Committed,
                    5 => Status::Aborted,
                    6 => Status::Bereft { lost: r.varint()? },
                    _ => return Err(Malformed("a status that is not known")),
                },
            },
            9 => Message::Finished { origin: r.origin()?, below: r.varint()? },
            10 => Message::Fetch(prepare(&mut r)?),
            11 => Message::Fetched { tx: r.tx()?, round: r.round()?, found: r.bytes()?.into() },
            12 => {
                Message::Proceed { tx: r.tx()?, members: r.members()?, logged: r.flag()?, commands: r.bytes()?.into() }
            }
            13 => Message::Hold { tx: r.tx()? },
            14 => Message::Leave { tx: r.tx()? },
            15 => Message::Slow { tx: r.tx()?, function: r.flag()? },
            16 => Message::Widen { tx: r.tx()?, round: r.round()?, locks: r.locks()? },
            17 => Message::CallOff { tx: r.tx()? },
            18 => Message::Stuck { tx: r.tx()? },
            _ => return Err(Malformed("a message that is not known")),
        };
        r.end()?;
        Ok(message)
    }
}

fn prepare(r: &mut Reader<'_>) -> Result<Arc<Prepare>, Malformed> {
    let (tx, stamp, members) = (r.tx()?, r.stamp()?, r.members()?);
    let (locks, commands) = (r.locks()?, r.bytes()?.into());
    let how = r.u8()?;
    if how > 3 {
        return Err(Malformed("a way to prepare that is not known"));
    }
    let (logged, patient) = (how & 1 == 1, how & 2 == 2);
    let (finished, moment) = (r.varint()?, UnixMs(r.u64()?));
    Ok(Arc::new(Prepare { tx, stamp, members, locks, commands, logged, patient, finished, moment }))
}
