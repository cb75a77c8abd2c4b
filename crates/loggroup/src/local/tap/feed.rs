//! One stream of a standby's reader: its blocks from memory and from the folder, and the records in them.

use std::collections::VecDeque;

use quorum::{Block, BlockId, Cut, History, Mark, ShardId, StreamId};
use redolog::{Disk, Gather, Gathered, Lsn, Reader, Recovered};

use super::Ended;
use crate::folder::{decoded, encoded};

/// Records of a block, or of several that were split from one.
struct Records {
    /// The place of the last of these blocks.
    block: u64,
    gathered: Gathered,
    /// The next record that is not applied, and the end of those that are valid.
    next: usize,
    end: usize,
}

pub struct Feed<D: Disk> {
    shard: ShardId,
    id: StreamId,
    reader: Reader<D>,
    /// The folder's lives that the reader has heard of.
    pub lives: u64,
    /// The last block that is in memory here, and the last one that the follower has.
    pub loaded: BlockId,
    pub fed: BlockId,
    /// Where that one ends.
    pub cut: Cut,
    pub mark: Mark,
    blocks: VecDeque<Block>,
    gather: Gather,
    records: VecDeque<Records>,
    /// Bytes of blocks, and of records.
    pub block_bytes: usize,
    pub record_bytes: usize,
    /// Memory had records up to here at first.
    had: Lsn,
    /// Blocks that were taken so far, and their bytes.
    pub taken: (u64, u64),
    /// How often blocks that are committed were not found in the folder.
    misses: u32,
}

/// So often blocks may not be found that a cut, or a life, has moved meanwhile.
const MISSES_MAX: u32 = 3;

impl<D: Disk> Feed<D> {
    pub fn new((shard, id): (ShardId, StreamId), reader: Reader<D>, begin: (BlockId, Cut), had: Cut) -> Self {
        let (at, cut) = begin;
        Self {
            shard,
            id,
            reader,
            lives: 0,
            loaded: at,
            fed: at,
            cut,
            mark: Mark { committed: at, quiet: None },
            blocks: VecDeque::new(),
            gather: Gather::new(Lsn(cut.0)),
            records: VecDeque::new(),
            block_bytes: 0,
            record_bytes: 0,
            had: Lsn(had.0),
            taken: (0, 0),
            misses: 0,
        }
    }

    /// The stream begins later: memory has everything up to there.
    pub fn begin(&mut self, id: BlockId, cut: Cut) {
        self.blocks.clear();
        self.records.clear();
        (self.loaded, self.fed, self.cut) = (id, id, cut);
        (self.block_bytes, self.record_bytes) = (0, 0);
        self.gather = Gather::new(Lsn(cut.0));
    }

    /// Takes blocks that follow those which are here.
    pub fn load(&mut self, blocks: Vec<Block>) {
        for block in blocks {
            self.loaded = block.id;
            self.block_bytes += block.body.len();
            self.taken = (self.taken.0 + 1, self.taken.1 + block.body.len() as u64);
            self.blocks.push_back(block);
        }
        self.misses = 0;
    }

    /// Reads blocks up to a place from the folder, about as many bytes. They are committed: `history` names them.
    ///
    /// # Errors
    /// The disk has failed to read, or has others there; or it lacks a resource for now.
    pub fn read(&mut self, history: &History, upto: u64, most: usize) -> Result<(), Ended> {
        let (from, shard, mut blocks) = (self.loaded.sequence + 1, self.shard, Vec::new());
        let read = self.reader.read(from, upto, most, |frame, bytes| blocks.extend(encoded(shard, frame, bytes)));
        read.map_err(Ended::Io)?;
        let named = (from..).zip(&blocks).take_while(|(at, block)| history.at(*at) == Some(block.id)).count();
        blocks.truncate(named);
        if blocks.is_empty() {
            self.reader.forget();
            self.misses += 1;
            let is_gone = self.misses > MISSES_MAX;
            let gone = || Ended::Io(std::io::Error::other(format!("stream {}: block {from} is not there", self.id.0)));
            return if is_gone { Err(gone()) } else { Ok(()) };
        }
        self.load(blocks);
        Ok(())
    }

    /// Forgets where the folder was read: a life has begun there.
    pub fn forget(&mut self) {
        self.reader.forget();
    }

    /// The place up to which all records are applied.
    pub fn place(&self) -> u64 {
        self.records.front().map_or(self.fed.sequence, |first| first.block - 1)
    }

    pub fn has_blocks(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Takes the records out of the next block, and says what the follower has to know of it. `had`: what memory has.
    ///
    /// # Errors
    /// The block's bytes are no records, or it has the end of one that is not here.
    pub fn feed(&mut self) -> Result<Option<standby::Block>, Ended> {
        let Some(block) = self.blocks.pop_front() else { return Ok(None) };
        self.block_bytes -= block.body.len();
        let broken = |what: &str| Ended::Io(std::io::Error::other(format!("block {}: {what}", block.id.sequence)));
        let frame = decoded(self.shard, self.id, self.fed.term, &block).map_err(|why| broken(why.0))?;
        let gathered = self.gather.add(&frame).map_err(|why| broken(why.0))?;
        (self.fed, self.cut) = (block.id, block.cut);
        let mut records = Vec::new();
        if block.is_start {
            self.void_above(Lsn(block.cut.0));
        } else if let Some(gathered) = gathered {
            if gathered.lacks().is_some_and(|lsn| lsn > self.had) {
                return Err(Ended::Gap);
            }
            let new = || gathered.lsns().skip_while(|lsn| *lsn <= self.had).map(|lsn| Cut(lsn.0));
            records = new().collect();
            let end = gathered.lsns().len();
            let next = end - records.len();
            if next < end {
                self.record_bytes += gathered.bytes();
                self.records.push_back(Records { block: block.id.sequence, gathered, next, end });
            }
        }
        Ok(Some(standby::Block { id: block.id, cut: block.cut, is_start: block.is_start, records }))
    }

    /// A start block says that records above an LSN in the blocks before it are void.
    fn void_above(&mut self, cut: Lsn) {
        for records in &mut self.records {
            let valid = records.gathered.lsns().take_while(|lsn| *lsn <= cut).count();
            records.end = records.end.min(valid).max(records.next);
        }
        self.pop();
    }

    /// Lets go of records that are applied or void.
    pub fn pop(&mut self) {
        while let Some(done) = self.records.pop_front_if(|records| records.next >= records.end) {
            self.record_bytes -= done.gathered.bytes();
        }
    }

    /// The records of an LSN, which are the next ones behind `at`, appended to a batch.
    pub fn batch<'a>(&'a self, at: &mut Place, lsn: Lsn, batch: &mut Vec<Recovered<'a>>) {
        while let Some(records) = self.records.get(at.index) {
            at.next = at.next.max(records.next);
            while at.next < records.end
                && let Some((found, effects)) = records.gathered.get(at.next)
                && found <= lsn
            {
                batch.push(Recovered { stream: self.id.0, lsn: found, effects });
                at.next += 1;
            }
            if at.next < records.end {
                return;
            }
            *at = Place { index: at.index + 1, next: 0 };
        }
    }

    /// The batch up to this place is applied.
    pub fn applied(&mut self, at: Place) {
        for (index, records) in self.records.iter_mut().enumerate().take(at.index + 1) {
            let next = if index < at.index { records.end } else { at.next };
            records.next = records.next.max(next);
        }
        self.pop();
    }
}

/// A place among the records of a stream.
#[derive(Clone, Copy, Default)]
pub struct Place {
    index: usize,
    next: usize,
}
