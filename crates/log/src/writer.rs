//! Writes a stream: blocks into segments that are made ahead and used again.
//!
//! A block that is to be durable at once is written past the cache, in whole pages: the page in which it begins is written
//! again with what it held. Several may be on their way at once ([`Writer::depart`]): then each begins a page of its own. Otherwise a block
//! goes through the cache, and is synced later, by somebody else if need be.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::aligned::Aligned;
use crate::disk::{Disk, File, PAGE};
use crate::fail::point;
use crate::flight::{Flight, Flights};
use crate::format::{
    BLOCK_HEADER, BODY_MAX, Block, CleanEnd, END_SIZE, PART_HEADER, Part, RawRecord, SEGMENT_HEADER, SegmentHeader,
};
use crate::{Lsn, Taken};

/// Most full segments that are not synced: it bounds what is written again after a crash.
const UNSYNCED_MAX: usize = 2;

/// How a stream is kept.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a segment; a multiple of [`PAGE`] that is not below is taken.
    pub segment: u32,
    /// Segments kept to be used again.
    pub spares: usize,
    /// Bytes that must be left for writes to be taken (rule L8).
    pub reserve: u64,
    /// Most bytes of records in a block. A longer record is written in parts.
    pub block: usize,
}

impl Limits {
    /// Segments of this size, and a quarter of one left, at most 16 MB.
    pub fn of(segment: u32) -> Self {
        Self { segment, spares: 2, reserve: u64::from(segment / 4).min(16 << 20), block: 16 << 20 }
    }

    /// Bytes of a segment.
    pub(crate) fn size(&self) -> u64 {
        u64::from(self.segment).next_multiple_of(PAGE as u64).max(2 * PAGE as u64)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::of(64 << 20)
    }
}

/// Who a log belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Identity of the node's data.
    pub node: [u8; 16],
    /// Which stream.
    pub stream: u16,
    /// Of how many.
    pub streams: u16,
    /// Of this process: higher than that of every earlier one.
    pub incarnation: u64,
}

/// A segment that is full.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Full {
    pub(crate) name: String,
    pub(crate) size: u64,
    /// Every record in it is at or below this.
    pub(crate) end: Lsn,
}

/// Segments that are kept to be used again at most, unless [`Limits`] say more.
const SPARES_MAX: usize = 8;

/// Segments to be used, by name, all of the size of [`Limits`]. Made and retired by others than the writer.
pub(crate) struct Spares {
    names: Mutex<VecDeque<String>>,
    limits: Limits,
    incarnation: u64,
}

impl Spares {
    fn lock(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Makes one. `number`: unlike that of any other that was made in this incarnation.
    pub(crate) fn make<D: Disk>(&self, disk: &D, number: u64) -> io::Result<()> {
        let (making, spare) = (making(self.incarnation, number), format!("spare-{:x}-{number:x}", self.incarnation));
        disk.create(&making, self.limits.size())?;
        disk.rename(&making, &spare)?;
        self.lock().push_back(spare);
        Ok(())
    }

    /// Gives up segments: see [`Self::retire`]. As many may be kept as are given up at once: the log will grow by as many again before that happens next, and
    /// one that is made costs as much writing as what goes into it.
    pub(crate) fn retire_all<D: Disk>(&self, disk: &D, full: &[Full]) -> io::Result<()> {
        let most = if self.limits.spares == 0 { 0 } else { self.limits.spares.max(full.len().min(SPARES_MAX)) };
        full.iter().try_for_each(|full| self.retire(disk, full, most))
    }

    /// Keeps a segment to be used again, if there are not enough, or removes it.
    fn retire<D: Disk>(&self, disk: &D, full: &Full, most: usize) -> io::Result<()> {
        point("log-before-truncate");
        if self.count() < most && full.size == self.limits.size() {
            let spare = format!("spare-{}", full.name);
            disk.rename(&full.name, &spare)?;
            // Before it gets a new header: a crash must not find that under the old name.
            disk.sync()?;
            self.lock().push_back(spare);
        } else {
            disk.remove(&full.name)?;
        }
        point("log-after-truncate");
        Ok(())
    }
}

/// What is written and not synced.
pub(crate) struct Unsynced<F> {
    /// Full segments.
    older: Vec<Arc<F>>,
    present: Arc<F>,
    /// Once it is synced, everything up to here is.
    cut: Lsn,
    /// The last block of it: there may be later ones with the same cut.
    sequence: u64,
}

impl<F: File> Unsynced<F> {
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.older.iter().chain([&self.present]).try_for_each(|file| file.sync())
    }
}

/// The segment that is written to.
struct Present<F> {
    file: Arc<F>,
    name: String,
    size: u64,
    number: u64,
}

/// The writer of one stream. It holds nothing back: what is to be written past the cache is handed out. After an error other than [`is_full`] nothing is known of what was written since the last sync: it
/// must not be used on (rule L9).
pub struct Writer<D: Disk> {
    disk: Arc<D>,
    identity: Identity,
    limits: Limits,
    present: Present<D::File>,
    /// Where the next block begins.
    at: u64,
    /// Number of the last block.
    sequence: u64,
    /// Up to where everything is written, and synced.
    cut: Lsn,
    synced: Lsn,
    /// Of what is written in several blocks, the last of which has the next cut: that cut.
    reach: Lsn,
    /// Full segments that are not synced.
    older: Vec<Arc<D::File>>,
    /// Whether the present one is not.
    dirty: bool,
    full: VecDeque<Full>,
    spares: Arc<Spares>,
    /// What the page in which the next block begins holds before it.
    page: Vec<u8>,
    buffer: Aligned,
    flights: Flights,
    /// A planted bug: blocks that are in flight together have a page in common.
    #[cfg(test)]
    pub(crate) shares_pages: bool,
}

/// Where a stream goes on.
pub(crate) struct Position {
    /// Of the last segment.
    pub(crate) number: u64,
    pub(crate) sequence: u64,
    /// Up to where what is there is valid and durable.
    pub(crate) base: Lsn,
    /// Up to where everything is valid: `tail` brings what is above `base`.
    pub(crate) end: Lsn,
    pub(crate) tail: Tail,
    pub(crate) full: VecDeque<Full>,
    pub(crate) spares: Vec<String>,
}

/// Records that are written again.
pub(crate) struct Tail {
    pub(crate) bytes: Vec<u8>,
    pub(crate) taken: Taken,
}

/// What of several records one block holds.
struct Piece {
    /// Where it ends.
    to: usize,
    /// Where the record begins and ends of which it is a part.
    part_of: Option<(usize, usize)>,
}

impl Piece {
    /// The piece from `from` on, of records that end here, if blocks are of so many bytes. `None`: there is nothing more.
    fn next(ends: &[usize], from: usize, block: usize) -> Option<Piece> {
        let index = ends.partition_point(|end| *end <= from);
        let (begin, end) = (index.checked_sub(1).map_or(0, |last| ends[last]), *ends.get(index)?);
        if end - begin > block {
            return Some(Piece { to: end.min(from + block), part_of: Some((begin, end)) });
        }
        // As many whole records as there is room for.
        let count = ends[index..].partition_point(|end| end - from <= block);
        Some(Piece { to: ends[index + count - 1], part_of: None })
    }

    /// Bytes of its block, if it begins here.
    fn size(&self, from: usize) -> usize {
        Block::size(self.to - from + if self.part_of.is_some() { PART_HEADER } else { 0 })
    }
}

pub(crate) fn name(number: u64) -> String {
    format!("{number:016x}.log")
}

fn making(incarnation: u64, number: u64) -> String {
    format!("making-{incarnation:x}-{number:x}")
}

/// The number under which the file is made that says where the log ends.
const END: u64 = u64::MAX - 1;

pub(crate) fn end_name(incarnation: u64) -> String {
    format!("end-{incarnation:x}")
}

/// Whether it is a file that says where the log ended.
pub(crate) fn is_end(name: &str) -> bool {
    name.starts_with("end-")
}

pub(crate) fn is_spare(name: &str) -> bool {
    name.starts_with("spare-")
}

/// Whether it is a file that was to become a spare.
pub(crate) fn is_made(name: &str) -> bool {
    name.starts_with("making-")
}

/// Whether an error says that there is no room: it may go away (rule L8).
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl<D: Disk> Writer<D> {
    /// Begins a new segment behind what was recovered, with a block that says what of that is valid (rule L5), and with the tail
    /// of which nobody knows whether it is durable (rule L9). The segment gets its name when all that is synced.
    pub(crate) fn begin(disk: Arc<D>, identity: Identity, limits: Limits, position: Position) -> io::Result<Self> {
        let Position { number, sequence, base, end, tail, full, spares } = position;
        let spares = Spares { names: Mutex::new(spares.into()), limits, incarnation: identity.incarnation };
        if !disk.list()?.iter().any(|name| is_end(name)) {
            // From now on there always is one: every segment that is begun says so.
            if !prepare_end(&*disk, &identity, number, 0)? {
                return Err(io::ErrorKind::StorageFull.into());
            }
            say_end(&*disk, &identity)?;
            disk.sync()?;
        }
        let number = number + 1;
        let (mut size, mut from) = (SEGMENT_HEADER + Block::size(0), 0);
        while let Some(piece) = Piece::next(&tail.taken.ends, from, limits.block) {
            size += piece.size(from);
            from = piece.to;
        }
        let size = size.next_multiple_of(PAGE) as u64;
        let (file, spare, size) = match take(&*disk, &spares, size, 0) {
            // Room for what must be there: reads are served, and writes when there is more.
            Err(error) if is_full(&error) => {
                let name = making(identity.incarnation, u64::MAX);
                (create_anew(&*disk, &name, size)?, name, size)
            }
            taken => taken?,
        };
        let header = encode_header(&identity, size, number, base, base);
        let mut writer = Self {
            disk,
            identity,
            limits,
            present: Present { file: Arc::new(file), name: name(number), size, number },
            at: SEGMENT_HEADER as u64,
            sequence,
            cut: base,
            synced: base,
            reach: base,
            older: Vec::new(),
            dirty: true,
            full,
            spares: Arc::new(spares),
            page: header.to_vec(),
            buffer: Aligned::default(),
            flights: Flights::default(),
            #[cfg(test)]
            shares_pages: false,
        };
        writer.present.file.write(0, &header)?;
        writer.block(&[], base, false)?;
        if !tail.taken.ends.is_empty() {
            writer.write(&tail.bytes, &tail.taken, false)?;
        } else if end > base {
            writer.block(&[], end, false)?;
        }
        debug_assert_eq!(writer.cut, end, "what is above the base is in the tail");
        writer.sync()?;
        let says = prepare_end(&*writer.disk, &identity, number, writer.sequence)?;
        writer.disk.rename(&spare, &writer.present.name)?;
        if says {
            // Names change in this order, on the disk as well.
            say_end(&*writer.disk, &identity)?;
        }
        writer.disk.sync()?;
        writer.forget_ends()?;
        Ok(writer)
    }

    /// Up to where everything is durable.
    pub fn synced(&self) -> Lsn {
        self.synced
    }

    /// Up to where everything is written.
    pub fn written(&self) -> Lsn {
        self.cut
    }

    /// Most bytes of a block that could be split.
    pub(crate) fn block_max(&self) -> usize {
        self.limits.block
    }

    /// Bytes of all segments in use.
    pub fn size(&self) -> u64 {
        self.present.size + self.full.iter().map(|full| full.size).sum::<u64>()
    }

    /// Bytes for which there is room already.
    pub(crate) fn room(&self) -> u64 {
        self.present.size - self.at + self.spares.count() as u64 * self.limits.size()
    }

    pub(crate) fn spares(&self) -> &Arc<Spares> {
        &self.spares
    }

    pub(crate) fn disk(&self) -> &Arc<D> {
        &self.disk
    }

    /// Writes what was taken, `through` to the disk or not. [`Self::sync`] makes it durable.
    pub fn write(&mut self, bytes: &[u8], taken: &Taken, through: bool) -> io::Result<()> {
        self.write_from(bytes, taken, through, &mut 0)
    }

    /// Writes what was taken from byte `*done` on. If there is no room (see [`is_full`]), it is called again with what `*done` has
    /// become, when there is.
    pub(crate) fn write_from(
        &mut self,
        bytes: &[u8],
        taken: &Taken,
        through: bool,
        done: &mut usize,
    ) -> io::Result<()> {
        self.reach = taken.cut;
        while let Some(piece) = Piece::next(&taken.ends, *done, self.limits.block) {
            let from = std::mem::replace(done, piece.to);
            let is_last = taken.ends.last() == Some(&piece.to);
            let cut = if is_last { taken.cut } else { self.cut };
            let written = match piece.part_of {
                None => self.block(&bytes[from..piece.to], cut, through),
                Some((begin, end)) => self.part(&bytes[begin..end], from - begin..piece.to - begin, cut, through),
            };
            if written.is_err() {
                *done = from;
                return written;
            }
        }
        Ok(())
    }

    /// Writes a part of a record.
    fn part(&mut self, record: &[u8], range: Range<usize>, cut: Lsn, through: bool) -> io::Result<()> {
        let lsn = RawRecord::whole(record).map_err(|broken| io::Error::other(broken.0))?.lsn;
        let (length, offset) = (record.len() as u64, range.start as u64);
        let mut body = Vec::with_capacity(PART_HEADER + range.len());
        Part { lsn, length, offset, bytes: &record[range] }.encode(&mut body);
        self.body(&body, true, cut, through)
    }

    /// Writes a last, empty block that says that everything is synced, which it is: the next start has nothing to write again. And says
    /// so beside the segments.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        self.sync()?;
        if self.at + Block::size(0) as u64 <= self.present.size {
            self.block(&[], self.cut, false)?;
            self.sync()?;
        }
        if prepare_end(&*self.disk, &self.identity, self.present.number, self.sequence)? {
            say_end(&*self.disk, &self.identity)?;
            self.disk.sync()?;
        }
        Ok(())
    }

    /// Removes what earlier incarnations have said of their ends, if there is something newer.
    fn forget_ends(&self) -> io::Result<()> {
        let name = end_name(self.identity.incarnation);
        let names = self.disk.list()?;
        let old = names.iter().filter(|other| is_end(other) && names.contains(&name) && **other != name);
        old.into_iter().try_for_each(|old| self.disk.remove(old))
    }

    /// A block that is to be written past the cache, by whoever gets it: the caller writes it and says so by [`Self::land`]. Others may
    /// be in flight meanwhile. `None`: those that are have to land first, and then it is to be called again; nothing has
    /// happened. `now`: of a clock, for [`Self::in_flight_since`].
    pub(crate) fn depart(&mut self, body: &[u8], cut: Lsn, now: u64) -> io::Result<Option<Flight<D::File>>> {
        self.depart_as(body, false, cut, now)
    }

    fn depart_as(&mut self, body: &[u8], is_part: bool, cut: Lsn, now: u64) -> io::Result<Option<Flight<D::File>>> {
        let size = check_size(body)?;
        let alone = self.flights.count() == 0;
        #[cfg(test)]
        let shares = self.shares_pages;
        #[cfg(not(test))]
        let shares = false;
        if self.flights.has_last() && !shares {
            // It may have a part of this page.
            let next = self.at.next_multiple_of(PAGE as u64);
            if next + size as u64 > self.present.size {
                return Ok(None);
            }
            if next > self.at {
                self.page.clear();
                self.at = next;
            }
        } else if self.at + size as u64 > self.present.size {
            if !alone {
                return Ok(None);
            }
            self.next_segment(body.len())?;
        }
        if self.is_dirty() {
            self.sync()?;
        }
        let mut buffer = self.flights.buffer();
        let before = self.encode(&mut buffer, body, is_part, size, cut);
        buffer.pad();
        let at = self.at - before as u64;
        self.passed(&buffer, before + size, size, cut);
        self.flights.depart(self.sequence, cut, body.len(), now);
        let mut flight = Flight::new(self.present.file.clone(), at, buffer, self.sequence);
        (flight.body, flight.since) = (body.len(), now);
        Ok(Some(flight))
    }

    /// A block that departed has been written.
    pub(crate) fn land(&mut self, flight: Flight<D::File>) {
        self.synced = self.flights.land(flight).unwrap_or(self.synced).max(self.synced);
    }

    /// How many blocks are in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.flights.count()
    }

    /// Bytes of records in flight.
    pub(crate) fn bytes_in_flight(&self) -> u64 {
        self.flights.bytes()
    }

    /// When the block departed that has been in flight for longest.
    pub(crate) fn in_flight_since(&self) -> Option<u64> {
        self.flights.since()
    }

    /// Writes a block, `through` to the disk or not. None is in flight.
    fn block(&mut self, body: &[u8], cut: Lsn, through: bool) -> io::Result<()> {
        self.body(body, false, cut, through)
    }

    fn body(&mut self, body: &[u8], is_part: bool, cut: Lsn, through: bool) -> io::Result<()> {
        if through {
            let flight =
                self.depart_as(body, is_part, cut, 0)?.ok_or_else(|| io::Error::other("a block is in flight"))?;
            flight.write()?;
            self.land(flight);
            return Ok(());
        }
        debug_assert_eq!(self.flights.count(), 0, "nothing goes through the cache while a block is in flight");
        let size = check_size(body)?;
        if self.at + size as u64 > self.present.size {
            self.next_segment(body.len())?;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let before = self.encode(&mut buffer, body, is_part, size, cut);
        self.present.file.write(self.at, &buffer.bytes()[before..before + size])?;
        self.dirty = true;
        point("log-after-append");
        self.passed(&buffer, before + size, size, cut);
        self.buffer = buffer;
        Ok(())
    }

    /// The next block, behind what its page holds. How much that is.
    fn encode(&self, buffer: &mut Aligned, body: &[u8], is_part: bool, size: usize, cut: Lsn) -> usize {
        let (incarnation, sequence) = (self.identity.incarnation, self.sequence + 1);
        let block = Block { incarnation, sequence, cut, synced: self.synced, is_part, body };
        buffer.clear(self.page.len() + size, 2 * self.limits.block);
        buffer.append(|bytes| {
            bytes.extend_from_slice(&self.page);
            block.encode(bytes);
        });
        self.page.len()
    }

    /// What this buffer holds up to `end` has its place: the next block comes behind it.
    fn passed(&mut self, buffer: &Aligned, end: usize, size: usize, cut: Lsn) {
        self.page.clear();
        self.page.extend_from_slice(&buffer.bytes()[end / PAGE * PAGE..end]);
        self.at += size as u64;
        self.sequence += 1;
        self.cut = cut;
    }

    fn next_segment(&mut self, body: usize) -> io::Result<()> {
        if self.older.len() >= UNSYNCED_MAX {
            self.sync()?;
        }
        let number = self.present.number + 1;
        let (file, spare, size) = take(&*self.disk, &self.spares, self.limits.size(), body)?;
        // The last block may not be on the disk yet.
        let says = prepare_end(&*self.disk, &self.identity, number, 0)?;
        let reach = self.reach.max(self.cut);
        let header = encode_header(&self.identity, size, number, self.cut, reach);
        file.write(0, &header)?;
        file.sync()?;
        // It gets its name when it is what that says.
        let present = Present { file: Arc::new(file), name: name(number), size, number };
        point("log-before-rename");
        self.disk.rename(&spare, &present.name)?;
        point("log-after-rename");
        if says {
            say_end(&*self.disk, &self.identity)?;
        }
        self.disk.sync()?;
        let Present { file, name, size, .. } = std::mem::replace(&mut self.present, present);
        if std::mem::take(&mut self.dirty) {
            self.older.push(file);
        }
        self.full.push_back(Full { name, size, end: reach });
        self.at = SEGMENT_HEADER as u64;
        self.page = header.to_vec();
        Ok(())
    }

    /// Whether something is written through the cache and not synced.
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty || !self.older.is_empty()
    }

    /// Makes everything written durable; no block is in flight. Up to where everything is, then.
    pub fn sync(&mut self) -> io::Result<Lsn> {
        if self.flights.count() > 0 {
            return Err(io::Error::other("a block is in flight"));
        }
        if self.is_dirty() {
            point("log-before-sync");
            self.unsynced().sync()?;
            point("log-after-sync");
            self.older.clear();
            self.dirty = false;
        }
        self.synced = self.cut;
        Ok(self.synced)
    }

    /// What is to be synced now, for another thread to do.
    pub(crate) fn unsynced(&self) -> Unsynced<D::File> {
        Unsynced {
            older: self.older.clone(),
            present: self.present.file.clone(),
            cut: self.cut,
            sequence: self.sequence,
        }
    }

    /// How many full segments are not synced.
    pub(crate) fn unsynced_segments(&self) -> usize {
        self.older.len()
    }

    /// That has been synced.
    pub(crate) fn note_synced(&mut self, unsynced: &Unsynced<D::File>) {
        self.older.retain(|file| !unsynced.older.iter().any(|other| Arc::ptr_eq(file, other)));
        self.synced = self.synced.max(unsynced.cut);
        if unsynced.sequence == self.sequence {
            self.dirty = false;
        }
    }

    /// Gives up segments whose records are all at or below `end`: they are durable elsewhere (rule C3). Some are kept to be used
    /// again.
    pub fn truncate(&mut self, end: Lsn) -> io::Result<()> {
        let full = self.retired(end);
        self.spares.retire_all(&*self.disk, &full)
    }

    /// The segments that [`Self::truncate`] gives up, for another thread to do that.
    pub(crate) fn retired(&mut self, end: Lsn) -> Vec<Full> {
        let count = self.full.iter().take_while(|full| full.end <= end).count();
        self.full.drain(..count).collect()
    }
}

/// Makes the file that says that the stream goes as far as this at least, so that it is noticed if a segment is missing. False: there
/// is no room for it; an older one says less.
fn prepare_end<D: Disk>(disk: &D, identity: &Identity, number: u64, sequence: u64) -> io::Result<bool> {
    let Identity { node, stream, incarnation, .. } = *identity;
    let end = CleanEnd { node, stream, number, sequence };
    let name = making(incarnation, END);
    let made = create_anew(disk, &name, END_SIZE as u64).and_then(|file| {
        let written = file.write(0, &end.encode()).and_then(|()| file.sync());
        if written.is_err() {
            let _ = disk.remove(&name);
        }
        written
    });
    match made {
        Err(error) if is_full(&error) => Ok(false),
        made => made.map(|()| true),
    }
}

/// Gives that file its name, when what it says is true after any crash that leaves it there.
fn say_end<D: Disk>(disk: &D, identity: &Identity) -> io::Result<()> {
    disk.rename(&making(identity.incarnation, END), &end_name(identity.incarnation))
}

/// Bytes of a block with this body.
fn check_size(body: &[u8]) -> io::Result<usize> {
    if body.len() > BODY_MAX {
        return Err(io::Error::other("longer than a block can be"));
    }
    Ok(Block::size(body.len()))
}

fn encode_header(identity: &Identity, size: u64, number: u64, base: Lsn, reach: Lsn) -> [u8; SEGMENT_HEADER] {
    let Identity { node, stream, streams, incarnation } = *identity;
    SegmentHeader { node, stream, streams, size, number, incarnation, base, reach, has_end: true }.encode()
}

/// A file with room for `size` bytes and a body of `body` bytes at least: a spare, if one will do. It, its name and its size.
fn take<D: Disk>(disk: &D, spares: &Spares, size: u64, body: usize) -> io::Result<(D::File, String, u64)> {
    let needed = (SEGMENT_HEADER + BLOCK_HEADER + body + 8).next_multiple_of(PAGE) as u64;
    let size = needed.max(size).max(spares.limits.size());
    let spare = if size == spares.limits.size() { spares.lock().pop_front() } else { None };
    if let Some(spare) = spare {
        let file = disk.open(&spare)?;
        return Ok((file, spare, size));
    }
    let name = making(spares.incarnation, u64::MAX);
    Ok((create_anew(disk, &name, size)?, name, size))
}

/// A new file. One of that name is what a step left that had no room for what comes next: nobody knows it.
fn create_anew<D: Disk>(disk: &D, name: &str, size: u64) -> io::Result<D::File> {
    match disk.create(name, size) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            disk.remove(name)?;
            disk.create(name, size)
        }
        made => made,
    }
}
