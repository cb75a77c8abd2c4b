//! Group commit: all records left since the last round are written and synced at once, and then the watermark moves.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};

use crate::copies::Copied;
use crate::disk::Disk;
use crate::flight::Flight;
use crate::format::Record;
use crate::intake::{Intake, Take, empty};
use crate::writer::Writer;
use crate::{Lsn, Taken};

/// How far each stream is committed as the configuration promises (rules L5, L6).
pub struct Watermarks {
    promised: Box<[AtomicU64]>,
    synced: Box<[AtomicU64]>,
}

impl Watermarks {
    /// The watermarks of streams that end here, on the disk.
    pub fn new(ends: &[Lsn]) -> Self {
        let marks = || ends.iter().map(|end| AtomicU64::new(end.0)).collect();
        Self { promised: marks(), synced: marks() }
    }

    /// The watermark of a stream.
    ///
    /// # Panics
    /// If there is no such stream.
    #[inline]
    pub fn of(&self, stream: u16) -> Lsn {
        Lsn(self.promised[usize::from(stream)].load(Acquire))
    }

    /// How far a stream is on the disk and survives, whatever its watermark promises (rule L6): at or below the
    /// watermark.
    ///
    /// # Panics
    ///
    /// If there is no such stream.
    #[inline]
    pub fn synced(&self, stream: u16) -> Lsn {
        Lsn(self.synced[usize::from(stream)].load(Acquire))
    }

    /// How many streams there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.promised.len()
    }

    /// The watermarks, in the order of the streams.
    pub fn all(&self) -> impl ExactSizeIterator<Item = Lsn> {
        self.promised.iter().map(|mark| Lsn(mark.load(Acquire)))
    }

    /// Takes over how far others are committed, and not how far they are on the disk. For simulations, which hand these
    /// out instead.
    pub fn copy_promised(&self, from: &Watermarks) {
        for (mark, end) in self.promised.iter().zip(from.all()) {
            mark.store(end.0, Release);
        }
    }

    fn is_committed(&self, dependency: Lsn) -> bool {
        self.promised.get(usize::from(dependency.stream())).is_some_and(|end| dependency.0 <= end.load(Acquire))
    }

    fn is_synced(&self, dependency: Lsn) -> bool {
        self.synced.get(usize::from(dependency.stream())).is_some_and(|end| dependency.0 <= end.load(Acquire))
    }
}

/// The promise of a reply that leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promise {
    /// It is on the disk (`appendfsync always`).
    Synced,
    /// It has been given to the system (`everysec`, `no`): it survives the end of the process, not of the machine.
    Written,
}

/// The marks of a stream that have moved.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Moved {
    /// Its watermark: committed as promised.
    pub(crate) committed: bool,
    /// The end of what is known to survive on the disk.
    pub(crate) synced: bool,
}

impl Moved {
    pub(crate) fn any(self) -> bool {
        self.committed || self.synced
    }

    pub(crate) fn or(self, other: Self) -> Self {
        Self { committed: self.committed || other.committed, synced: self.synced || other.synced }
    }
}

/// How a round ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Round {
    /// There was nothing to do.
    Idle,
    /// A worker is inside its gate: again, soon.
    Soon,
    /// The watermark is where it was: another stream must come first, or no record was new.
    Waiting,
    /// The watermark has moved: replies may leave, and other streams may find what they waited for.
    Moved,
}

/// The committer of one stream. The stream's threads take its steps in turns; tests call [`Committer::round`].
pub struct Committer<D: Disk> {
    stream: u16,
    intake: Intake,
    writer: Writer<D>,
    marks: Arc<Watermarks>,
    promise: Promise,
    /// Records up to here may have been left while a sync was promised: they keep that.
    strong: Lsn,
    /// Records that stand on records in other streams which were not known to survive on the disk (rule L6).
    standing: BTreeMap<Lsn, Vec<Lsn>>,
    /// With a weaker promise: the dependencies of the records up to here are committed.
    settled: Lsn,
    /// The records that were taken and are not written.
    buffer: Vec<u8>,
    /// Up to here every record is written: some LSNs belong to none.
    passed: Lsn,
}

impl<D: Disk> Committer<D> {
    /// The committer of stream `stream`.
    pub fn new(stream: u16, intake: Intake, writer: Writer<D>, marks: Arc<Watermarks>, promise: Promise) -> Self {
        Self {
            stream,
            intake,
            writer,
            marks,
            promise,
            strong: Lsn::ZERO,
            standing: BTreeMap::new(),
            settled: Lsn::ZERO,
            buffer: Vec::new(),
            passed: Lsn::ZERO,
        }
    }

    /// Changes the promise of replies. Records that were left under a stronger promise keep it: the stream is synced
    /// first, and copies are asked to (rule L6).
    ///
    /// # Errors
    ///
    /// The disk has failed to sync. The committer must not be used again (rule L9).
    pub fn set_promise(&mut self, promise: Promise) -> io::Result<()> {
        if self.promise != promise && self.is_unsynced() {
            self.writer.sync()?;
        }
        if self.promise != promise {
            if promise == Promise::Written {
                self.strong = self.writer.written();
                // Those that got a block through the cache have not synced it, even if the own disk has.
                self.writer.copied().into_iter().for_each(Copied::sync);
            }
            // Records that were left under the stronger promise may stand on these, too.
            self.settled = Lsn::ZERO;
        }
        self.promise = promise;
        Ok(())
    }

    /// Takes the records that were left, writes them, syncs them if that is promised, and moves the watermark as far as
    /// it may go. After an error the committer must not be used again (rule L9).
    ///
    /// # Errors
    ///
    /// The disk has failed to write or to sync.
    pub fn round(&mut self) -> io::Result<Round> {
        let mut round = Round::Idle;
        match self.take() {
            Take::Soon => round = Round::Soon,
            Take::Nothing => {}
            Take::Taken(taken) => {
                self.write(&taken)?;
                if !taken.ends.is_empty() && self.promise == Promise::Synced {
                    self.writer.sync()?;
                }
                round = Round::Waiting;
            }
        }
        Ok(if self.advance().any() { Round::Moved } else { round })
    }

    /// Takes the records that were left: the first step of a round.
    pub(crate) fn take(&mut self) -> Take {
        let taken = self.intake.take(&mut self.buffer);
        if let Take::Taken(taken) = &taken {
            self.note_dependencies(taken);
        }
        taken
    }

    /// Writes the records that were taken: the second step.
    pub(crate) fn write(&mut self, taken: &Taken) -> io::Result<()> {
        self.write_from(taken, &mut 0)
    }

    /// As [`Self::write`], from byte `*done` on: see [`Writer::write_from`].
    pub(crate) fn write_from(&mut self, taken: &Taken, done: &mut usize) -> io::Result<()> {
        if taken.ends.is_empty() {
            self.passed = taken.cut;
            self.writer.copied().into_iter().for_each(|copied| copied.passed(taken.cut));
            return Ok(());
        }
        self.writer.write_from(&self.buffer, taken, self.promise == Promise::Synced, done)?;
        empty(&mut self.buffer);
        Ok(())
    }

    /// Instead of [`Self::write`]: returns a block that the caller writes past the cache, while others may be in
    /// flight. The caller then calls [`Self::land`]. `None`: the blocks in flight have to land first; call it again
    /// then. `now`: of a clock, for [`Placer::in_flight_since`](crate::place::Placer::in_flight_since).
    pub(crate) fn depart(&mut self, taken: &Taken, now: u64) -> io::Result<Option<Flight<D::File>>> {
        let mut flight = self.writer.depart(&self.buffer, taken.cut, now)?;
        if let Some(flight) = &mut flight {
            flight.records = taken.ends.len();
            empty(&mut self.buffer);
        }
        Ok(flight)
    }

    /// True if the taken records can [`Self::depart`]: they are written as one block.
    pub(crate) fn is_one_block(&self) -> bool {
        self.buffer.len() <= self.writer.block_max()
    }

    /// True if the taken records can [`Self::depart`] without any change of files.
    pub(crate) fn departs_at_once(&mut self) -> bool {
        self.is_one_block() && self.writer.placer().departs_at_once(self.buffer.len())
    }

    /// Notes that a block that departed has been written.
    pub(crate) fn land(&mut self, flight: Flight<D::File>) {
        self.writer.placer().land(flight);
    }

    /// Has the next cut be at or above this, although no record may be.
    pub(crate) fn want_passed(&mut self, cut: Lsn) {
        self.intake.want(cut);
    }

    /// Where records are left.
    pub(crate) fn intake(&self) -> &Intake {
        &self.intake
    }

    /// True if the watermark waits for commits of other streams.
    pub(crate) fn is_waiting(&self) -> bool {
        match self.promise {
            Promise::Synced => !self.standing.is_empty(),
            Promise::Written => self.standing.range(self.settled.next()..).next().is_some(),
        }
    }

    /// The marks of other streams that have to move before one here can: see [`Moved`].
    pub(crate) fn waits_for(&self) -> Moved {
        let written = self.promise == Promise::Written;
        Moved { committed: written && self.is_waiting(), synced: !self.standing.is_empty() }
    }

    /// On how many other records these stand.
    #[cfg(test)]
    pub(crate) fn dependencies(&self) -> usize {
        self.standing.values().map(Vec::len).sum()
    }

    /// True if bytes are written, or on their way, and not synced.
    pub(crate) fn is_unsynced(&self) -> bool {
        self.writer.synced() < self.writer.written()
    }

    /// The present promise of replies.
    pub(crate) fn promise(&self) -> Promise {
        self.promise
    }

    /// Makes everything written durable (`everysec`).
    ///
    /// # Errors
    /// The disk has failed to sync. The committer must not be used again (rule L9).
    pub fn sync(&mut self) -> io::Result<()> {
        self.writer.sync()?;
        Ok(())
    }

    /// The stream's folder.
    pub(crate) fn placer(&mut self) -> &mut crate::place::Placer<D> {
        self.writer.placer()
    }

    /// The copies of the stream elsewhere.
    pub(crate) fn copied(&self) -> Option<&Copied> {
        self.writer.copied()
    }

    /// The stream's writer.
    pub fn writer(&mut self) -> &mut Writer<D> {
        &mut self.writer
    }

    fn note_dependencies(&mut self, taken: &Taken) {
        // With one stream there is nothing to depend on.
        if self.marks.count() < 2 || taken.ends.is_empty() {
            return;
        }
        for record in Record::all(&self.buffer).flatten().filter(|record| !record.dependencies.is_empty()) {
            // Another worker's record may have the same LSN.
            self.standing.entry(record.lsn).or_default().extend(record.dependencies);
        }
    }

    /// True if copies follow another owner: no mark moves any more (rule G6).
    fn is_over(&self) -> bool {
        self.writer.copied().is_some_and(|copied| copied.held().is_over())
    }

    /// Moves the watermark past the written or synced records. It stops before a record that stands on an uncommitted
    /// one (rule L5), or on one that is not on the disk if that is promised (rule L6). With copies, *on the disk* means that
    /// enough of them have it (rule G6).
    pub(crate) fn advance(&mut self) -> Moved {
        self.writer.tell_landed();
        if self.is_over() {
            return Moved::default();
        }
        let durable = self.writer.durable();
        let mut end = match self.promise {
            Promise::Written if durable >= self.strong => self.writer.survives(),
            _ => durable,
        };
        if end == self.writer.written() {
            end = end.max(self.passed);
        }
        let marks = &self.marks;
        end = match self.promise {
            Promise::Synced => before_first(&mut self.standing, end, |dependency| marks.is_synced(dependency)),
            Promise::Written => {
                let unsettled = self.standing.range(self.settled.next()..).take_while(|(lsn, _)| **lsn <= end);
                let mut first = None;
                for (lsn, dependencies) in unsettled {
                    if !dependencies.iter().all(|dependency| marks.is_committed(*dependency)) {
                        first = Some(*lsn);
                        break;
                    }
                    self.settled = *lsn;
                }
                first.map_or(end, Lsn::before)
            }
        };
        let mark = &self.marks.promised[usize::from(self.stream)];
        let committed = mark.load(Relaxed) < end.0;
        if committed {
            mark.store(end.0, Release);
        }
        Moved { committed, synced: self.show_synced() }
    }

    /// Moves the mark of what survives on the disk. A record that stands on one that does not survive does not survive
    /// either. If everything is synced, LSNs without records are passed as well. Returns whether it has moved.
    pub(crate) fn show_synced(&mut self) -> bool {
        self.writer.tell_landed();
        if self.is_over() {
            return false;
        }
        let marks = &self.marks;
        let (mark, durable) = (marks.of(self.stream), self.writer.durable());
        let end = if durable < self.writer.written() { durable.min(mark) } else { mark };
        let end = before_first(&mut self.standing, end, |dependency| marks.is_synced(dependency));
        marks.synced[usize::from(self.stream)].fetch_max(end.0, Release) < end.0
    }
}

/// The end, or the LSN before the first record up to there with a dependency that is not `there`. Earlier records are
/// forgotten.
fn before_first(records: &mut BTreeMap<Lsn, Vec<Lsn>>, end: Lsn, there: impl Fn(Lsn) -> bool) -> Lsn {
    while let Some(first) = records.first_entry().filter(|first| *first.key() <= end) {
        if !first.get().iter().all(|dependency| there(*dependency)) {
            return first.key().before();
        }
        first.remove();
    }
    end
}
