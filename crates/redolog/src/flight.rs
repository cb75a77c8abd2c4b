//! Blocks on their way to the disk: several at once, of which the later may land first. A block is durable when it and
//! all earlier ones have landed.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use crate::Lsn;
use crate::aligned::Aligned;
use crate::disk::File;
use crate::fail::point;
use crate::own::GuardedFile;
use crate::segments::finally;

/// A block that is to be written past the cache, in whole pages that no other block in flight has a part of.
pub struct Flight<F> {
    file: Arc<GuardedFile<F>>,
    at: u64,
    bytes: Aligned,
    /// The block's number in the stream.
    sequence: u64,
    /// Bytes and number of its records.
    pub(crate) body: usize,
    pub(crate) records: usize,
    /// When it departed, by the clock of the caller.
    pub(crate) since: u64,
    /// True if the log goes around the disk, and the write is kept for later.
    is_kept: bool,
}

impl<F: File> Flight<F> {
    pub(crate) fn new(file: Arc<GuardedFile<F>>, at: u64, bytes: Aligned, sequence: u64) -> Self {
        Self { file, at, bytes, sequence, body: 0, records: 0, since: 0, is_kept: false }
    }

    /// A block that was kept for later.
    pub(crate) fn kept(file: Arc<GuardedFile<F>>, at: u64, sequence: u64) -> Self {
        Self { is_kept: true, ..Self::new(file, at, Aligned::default(), sequence) }
    }

    /// The file that it is written to.
    pub(crate) fn file(&self) -> &GuardedFile<F> {
        &self.file
    }

    /// Its place in the file, and its bytes.
    pub(crate) fn place(&self) -> (u64, &[u8]) {
        (self.at, self.bytes.bytes())
    }

    /// Writes it: durable when this, and the writes of all blocks before it, have returned. The caller then calls
    /// [`crate::Committer::land`].
    ///
    /// # Errors
    ///
    /// The disk has failed to write it. The stream must not be written any more (rule L9).
    pub fn write(&self) -> io::Result<()> {
        if self.is_kept {
            return Ok(());
        }
        point("log-before-sync");
        finally(self.file.write_through_here(self.at, self.bytes.bytes()))?;
        point("log-after-sync");
        Ok(())
    }

    /// Writes it in the middle of a step, which goes on if the disk does not return.
    pub(crate) fn write_in_step(&mut self) -> io::Result<()> {
        if self.is_kept {
            return Ok(());
        }
        point("log-before-sync");
        finally(self.file.write_through_patiently(self.at, std::mem::take(&mut self.bytes)))?;
        point("log-after-sync");
        Ok(())
    }

    /// Writes it as a disk has it that has not finished: any part of it may be durable. For simulations.
    ///
    /// # Errors
    ///
    /// The disk has failed to write it.
    pub fn begin(&self) -> io::Result<()> {
        if self.is_kept {
            return Ok(());
        }
        self.file.write(self.at, self.bytes.bytes())
    }
}

/// The facts about a block in flight.
struct Departed {
    cut: Lsn,
    body: usize,
    since: u64,
    landed: bool,
}

/// The blocks in flight, and those that have landed before an earlier one.
#[derive(Default)]
pub(crate) struct Flights {
    /// In the order of the stream: the first is in flight.
    departed: VecDeque<Departed>,
    /// Sequence of the first one.
    first: u64,
    /// How many are in flight.
    count: usize,
    /// Blocks up to this one that land later were given up.
    given_up: u64,
    /// Buffers to be used again.
    buffers: Vec<Aligned>,
}

impl Flights {
    /// How many blocks are in flight.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// True if the block that departed last is in flight.
    pub(crate) fn has_last(&self) -> bool {
        self.departed.back().is_some_and(|last| !last.landed)
    }

    /// Bytes of the bodies in flight.
    pub(crate) fn bytes(&self) -> u64 {
        self.departed.iter().filter(|block| !block.landed).map(|block| block.body as u64).sum()
    }

    /// When the oldest one in flight departed.
    pub(crate) fn since(&self) -> Option<u64> {
        self.departed.front().map(|block| block.since)
    }

    pub(crate) fn buffer(&mut self) -> Aligned {
        self.buffers.pop().unwrap_or_default()
    }

    /// Notes that a block departs. Sequences follow one another while any is in flight.
    pub(crate) fn depart(&mut self, sequence: u64, cut: Lsn, body: usize, since: u64) {
        if self.departed.is_empty() {
            self.first = sequence;
        }
        debug_assert_eq!(sequence, self.first + self.departed.len() as u64, "blocks depart in their order");
        self.departed.push_back(Departed { cut, body, since, landed: false });
        self.count += 1;
    }

    /// Waits for none of those in flight any more: the log goes around the disk, and they are on it before anything later
    /// is. Returns the number of the last block and its cut, if any was in flight.
    pub(crate) fn give_up(&mut self) -> Option<(u64, Lsn)> {
        let (last, count) = (self.departed.back()?.cut, self.departed.len() as u64);
        self.given_up = self.first + count - 1;
        self.departed.clear();
        self.count = 0;
        Some((self.given_up, last))
    }

    /// True if this block was given up.
    pub(crate) fn was_given_up<F>(&self, flight: &Flight<F>) -> bool {
        flight.sequence <= self.given_up
    }

    /// Notes that a block has landed. Returns up to where everything is durable, if that is further than before: the
    /// number of the last block and its cut.
    pub(crate) fn land<F>(&mut self, flight: Flight<F>) -> Option<(u64, Lsn)> {
        let index = flight.sequence.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        let block = index.and_then(|index| self.departed.get_mut(index)).filter(|block| !block.landed);
        debug_assert!(block.is_some(), "it departed, and has not landed");
        block?.landed = true;
        self.count -= 1;
        self.buffers.push(flight.bytes.emptied());
        let mut durable = None;
        while let Some(block) = self.departed.pop_front_if(|block| block.landed) {
            durable = Some((self.first, block.cut));
            self.first += 1;
        }
        durable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Disk;
    use crate::simulated::{Chance, Simulated};

    #[test]
    fn what_has_landed_counts_when_all_before_it_has() {
        let disk = crate::own::Guarded::new(Arc::new(Simulated::default()));
        let file = Arc::new(disk.create("file", 4096).unwrap());
        for seed in 0..100 {
            let mut chance = Chance(seed);
            let mut flights = Flights::default();
            let (mut air, mut landed, mut next, mut durable) = (Vec::new(), Vec::new(), 1 + chance.below(9), Lsn::ZERO);
            let first = next;
            for _ in 0..50 {
                if air.len() < 4 && chance.below(2) == 0 {
                    flights.depart(next, Lsn(next * 10), 1, next);
                    air.push(next);
                    next += 1;
                } else if !air.is_empty() {
                    let sequence = air.swap_remove(chance.below(air.len() as u64) as usize);
                    landed.push(sequence);
                    let end = flights.land(Flight::new(file.clone(), 0, Aligned::default(), sequence));
                    let prefix = (first..).take_while(|sequence| landed.contains(sequence)).last();
                    let further = prefix.map(|last| (last, Lsn(last * 10))).filter(|(_, end)| *end > durable);
                    assert_eq!(end, further);
                    durable = end.map_or(durable, |(_, end)| end);
                }
                assert_eq!(flights.count(), air.len());
                assert_eq!(flights.bytes(), air.len() as u64);
                assert_eq!(flights.since(), air.iter().min().copied());
                assert_eq!(flights.has_last(), air.contains(&(next - 1)));
            }
        }
    }
}
