//! A stream of a running acceptor: its folder, and what is to be done there.

use std::collections::VecDeque;
use std::io;

use quorum::{Block, BlockId, Done, FolderLife, Keep, ShardId, StreamId, Term};
use redolog::{Disk, Flight, Lack, Reader, Replica, Spare};

use crate::folder::{decoded, encoded, name_of};
use crate::port::Listener;

/// Bytes of blocks that one read gives, unless one block alone has more.
const READ_BYTES: usize = 4 << 20;

/// Writes of a stream that are under way at once. They keep its disk busy, and leave threads for other streams.
pub const WRITES: usize = 2;

/// The tasks of the hand, in this order.
pub enum Task {
    Write {
        life: FolderLife,
        through: bool,
        block: Block,
    },
    Sync {
        life: FolderLife,
        upto: u64,
    },
    /// `last`: the last block that is kept.
    Begin {
        life: FolderLife,
        keep: Keep,
        last: BlockId,
    },
}

/// A write past the cache that a thread is to wait for, and its block.
pub struct Departed<D: Disk> {
    pub flight: Flight<D::File>,
    pub life: FolderLife,
    pub sequence: u64,
}

/// How far a task came.
pub enum Came<D: Disk> {
    Done(Done),
    /// The hand goes back, and the write is waited for.
    Departed(Departed<D>),
    /// Writes in flight have to land first.
    Later,
}

/// A read, and the connection that asked for it.
pub struct Wanted {
    pub term: Term,
    pub from: u64,
    pub upto: u64,
    pub asker: Option<Listener>,
}

pub struct Lane<D: Disk> {
    /// None: a thread has it.
    pub hand: Option<Replica<D>>,
    pub queue: VecDeque<Task>,
    /// Writes that have returned: the hand notes them.
    pub landed: Vec<Flight<D::File>>,
    /// Writes that have not.
    pub in_flight: usize,
    pub reader: Option<Reader<D>>,
    /// A life has begun since the last read: the reader may stand at a block that it dropped.
    pub is_reader_late: bool,
    /// How many lives have begun, and a reader of the folder for a standby's reader to begin with.
    pub lives: u64,
    pub for_taps: Reader<D>,
    pub reads: VecDeque<Wanted>,
    /// The next read lacked a resource. It is tried again after a while.
    pub read_waits: bool,
    /// The place up to which blocks are to be given up.
    pub cut: Option<u64>,
    /// The next task waits until a write in flight has landed.
    pub is_later: bool,
    /// The resource that the next task lacks. It is tried again after a while.
    pub lack: Option<Lack>,
    pub waits: bool,
    /// A segment that is to be made ahead, and true while a thread makes one.
    pub spare: Option<Spare<D>>,
    pub is_making: bool,
    /// The resource that it lacked. It is tried again after a while.
    pub lacks_ahead: Option<Lack>,
    pub waits_ahead: bool,
    pub synced: BlockId,
    pub size: u64,
}

impl<D: Disk> Lane<D> {
    pub fn new(replica: Replica<D>) -> Self {
        Self {
            reader: Some(replica.reader()),
            for_taps: replica.reader(),
            lives: 0,
            hand: Some(replica),
            queue: VecDeque::new(),
            landed: Vec::new(),
            in_flight: 0,
            is_reader_late: false,
            reads: VecDeque::new(),
            read_waits: false,
            cut: None,
            is_later: false,
            lack: None,
            waits: false,
            spare: None,
            is_making: false,
            lacks_ahead: None,
            waits_ahead: false,
            synced: BlockId::default(),
            size: 0,
        }
    }

    /// Drops what is to be done.
    pub fn give_up(&mut self) {
        self.queue.clear();
        self.reads.clear();
        self.read_waits = false;
        (self.cut, self.lack, self.waits) = (None, None, false);
        (self.spare, self.lacks_ahead, self.waits_ahead) = (None, None, false);
    }

    /// True if the hand has something to do.
    pub fn has_work(&self) -> bool {
        let may_begin = match self.queue.front() {
            Some(Task::Write { .. }) => self.in_flight < WRITES,
            Some(Task::Sync { .. } | Task::Begin { .. }) => true,
            None => false,
        };
        self.hand.is_some() && (may_begin && !self.is_later && !self.waits || self.cut.is_some())
    }

    /// True if something is to be tried again after a while.
    pub fn waits_for_resource(&self) -> bool {
        self.waits || self.waits_ahead || self.read_waits
    }

    /// The resource for which it takes no more blocks (rule L8).
    pub fn lack(&self) -> Option<Lack> {
        self.lack.or(self.lacks_ahead)
    }

    /// Asks for a segment ahead, if that is due and the hand is here.
    pub fn look_ahead(&mut self) {
        if !self.is_making && !self.waits_ahead && self.spare.is_none() {
            self.spare = self.hand.as_mut().and_then(Replica::spare);
        }
    }

    pub fn close(&mut self) -> io::Result<()> {
        let Some(mut hand) = self.hand.take() else { return Ok(()) };
        self.landed.drain(..).for_each(|flight| hand.land(flight));
        hand.close()
    }
}

/// Carries a task out.
///
/// # Errors
/// The disk lacks a resource, or has failed.
pub fn carry_out<D: Disk>(
    hand: &mut Replica<D>,
    (shard, stream): (ShardId, StreamId),
    task: &Task,
) -> io::Result<Came<D>> {
    match task {
        Task::Write { life, through, block } => {
            let before = Term::new(hand.last().0.term).unwrap_or(Term::MAX);
            let frame = decoded(shard, stream, before, block).map_err(|why| io::Error::other(why.0))?;
            let (life, sequence) = (*life, block.id.sequence);
            if *through {
                let flight = hand.depart(&frame)?;
                return Ok(flight.map_or(Came::Later, |flight| Came::Departed(Departed { flight, life, sequence })));
            }
            if hand.in_flight() > 0 {
                return Ok(Came::Later);
            }
            hand.put(&frame)?;
            Ok(Came::Done(Done::Written { stream, life, sequence }))
        }
        Task::Sync { .. } | Task::Begin { .. } if hand.in_flight() > 0 => Ok(Came::Later),
        Task::Sync { life, upto } => {
            hand.sync()?;
            Ok(Came::Done(Done::Synced { stream, life: *life, upto: *upto }))
        }
        Task::Begin { life, keep, last } => {
            let keep = match keep {
                Keep::UpTo(_) => redolog::Keep::UpTo(name_of(*last)),
                Keep::Nothing(base) => redolog::Keep::Nothing(name_of(base.id), redolog::Lsn(base.cut.0)),
            };
            hand.begin(life.0, keep)?;
            if let redolog::Keep::Nothing(base, _) = keep {
                hand.retire(base.sequence).give_up()?;
            }
            Ok(Came::Done(Done::Begun { stream, life: *life }))
        }
    }
}

/// Reads blocks. Fewer come back if they are long, and none if others are there.
pub fn read<D: Disk>(
    reader: &mut Reader<D>,
    (shard, stream): (ShardId, StreamId),
    (term, from, upto): (Term, u64, u64),
) -> io::Result<Done> {
    let mut blocks = Vec::new();
    reader.read(from, upto, READ_BYTES, |frame, bytes| blocks.extend(encoded(shard, frame, bytes)))?;
    Ok(Done::Read { stream, term, blocks })
}
