//! Places blocks in a stream's folder: in segments that are made ahead and used again. It knows a block's frame, and not
//! how records become frames (`writer.rs`): a copy of a stream is placed in the same way.
//!
//! A block that is to be durable at once is written past the cache, in whole pages. The page in which it begins is
//! written again with its earlier bytes. Several may be on their way at once ([`Placer::depart`]): then each begins a
//! page of its own. Otherwise a block goes through the cache, and is synced later, perhaps by another thread.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use crate::Lsn;
use crate::aligned::Aligned;
use crate::copies::Landed;
use crate::disk::{Direct, Disk, File, PAGE};
use crate::fail::point;
use crate::flight::{Flight, Flights};
use crate::format::{BODY_MAX, Block, Format, Frame, Kind, Mark, Name, Place, SEGMENT_HEADER};
use crate::lack::Lack;
use crate::own::{Guarded, GuardedFile, Own};
use crate::scan::earlier;
use crate::segments::{
    Full, Identity, Limits, Segment, Spares, encode_header, end_name, ensure_end, finally, is_end, least_size, name,
    prepare_end, say_end, take, take_first, was_made,
};

/// Most full segments that are not synced: it bounds the bytes that are written again after a crash.
const UNSYNCED_MAX: usize = 2;

/// Bytes that are written and not synced.
pub(crate) struct Unsynced<F> {
    /// Full segments.
    older: Vec<Arc<F>>,
    present: Arc<F>,
    /// Once it is synced, everything up to here is.
    cut: Lsn,
    /// Its last block: there may be later ones with the same cut.
    block: u64,
}

impl<F: File> Unsynced<F> {
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.older.iter().chain([&self.present]).try_for_each(|file| finally(file.sync()))
    }
}

/// Where a stream goes on.
#[derive(Clone)]
pub(crate) struct Position {
    /// The numbers of the last segment and of the last block.
    pub(crate) segment: u64,
    pub(crate) block: u64,
    /// The last block of the log.
    pub(crate) last: Name,
    /// The end of the valid and durable part.
    pub(crate) base: Lsn,
    /// The end of the valid part, and how many bytes the blocks take that bring the records above `base`.
    pub(crate) end: Lsn,
    pub(crate) tail: u64,
    pub(crate) full: VecDeque<Full>,
    pub(crate) spares: Vec<String>,
}

/// The segment that is written to.
struct Present<F> {
    file: Arc<F>,
    name: String,
    size: u64,
    number: u64,
}

/// The blocks of one stream in one folder. It does not wait for writes past the cache: it hands them out. After an error
/// other than a lack ([`Lack`]) it is unknown what was written since the last sync, and it must not be used on (rule
/// L9).
pub(crate) struct Placer<D: Disk> {
    disk: Arc<Guarded<D>>,
    identity: Identity,
    limits: Limits,
    present: Present<GuardedFile<D::File>>,
    /// Where the next block begins.
    at: u64,
    /// Number of the last block in this folder, and the name of the log's last one.
    block: u64,
    last: Name,
    /// The resource that the start lacked for a segment of its own. Until it has one, the present segment is the last
    /// of the process before, and counts as full.
    waits: Option<Lack>,
    /// The lack for which the present segment is smaller than others, until it is asked for.
    short: Option<Lack>,
    /// How far everything is written, and synced.
    cut: Lsn,
    synced: Lsn,
    /// The number of the last block that is synced.
    synced_block: u64,
    /// No record in the blocks up to here is above this: the next cut, while some blocks of a split one are written, of
    /// which the last has that cut.
    reach: Lsn,
    /// Full segments that are not synced.
    older: Vec<Arc<GuardedFile<D::File>>>,
    /// True if the present one is not.
    dirty: bool,
    /// Another thread is syncing written bytes: see [`Self::give_unsynced`].
    given: bool,
    full: VecDeque<Full>,
    spares: Arc<Spares<GuardedFile<D::File>>>,
    /// The bytes before the next block in its page.
    page: Vec<u8>,
    buffer: Aligned,
    flights: Flights,
    /// A planted bug: blocks that are in flight together have a page in common.
    #[cfg(test)]
    pub(crate) shares_pages: bool,
}

impl<D: Disk> Placer<D> {
    /// Makes a segment behind the recovered part, which has no name yet: the caller puts its first blocks, and then calls
    /// [`Self::name_first`]. Also the file's present name.
    pub(crate) fn begin(
        disk: Arc<D>,
        identity: Identity,
        limits: Limits,
        position: Position,
    ) -> io::Result<(Self, String)> {
        let Position { segment, block, last, base, tail, full, spares, .. } = position;
        let disk = Guarded::new(disk);
        let spares = Spares::new(spares, limits, identity.life);
        ensure_end(&*disk, &identity, segment)?;
        let number = segment + 1;
        // An empty block before the tail, and maybe one behind it.
        let size = ((SEGMENT_HEADER + 2 * identity.format.size(0)) as u64 + tail).next_multiple_of(PAGE as u64);
        let Segment { file, name: spare, size, short } = take_first(&*disk, &spares, size)?;
        let header = encode_header(&identity, (size, number), (base, base), (last, block));
        file.write(0, &header)?;
        let placer = Self {
            disk,
            identity,
            limits,
            present: Present { file: Arc::new(file), name: name(number), size, number },
            at: SEGMENT_HEADER as u64,
            block,
            last,
            waits: None,
            short,
            cut: base,
            synced: base,
            synced_block: block,
            reach: base,
            older: Vec::new(),
            dirty: true,
            given: false,
            full,
            spares: Arc::new(spares),
            page: header.to_vec(),
            buffer: Aligned::default(),
            flights: Flights::default(),
            #[cfg(test)]
            shares_pages: false,
        };
        Ok((placer, spare))
    }

    /// Makes the first blocks durable, and then gives the segment its name: `spare` is its present one.
    pub(crate) fn name_first(&mut self, spare: &str) -> io::Result<()> {
        self.sync()?;
        let says = was_made(prepare_end(&*self.disk, &self.identity, self.present.number, self.block))?;
        self.disk.rename(spare, &self.present.name)?;
        finally(self.settle_names(says))
    }

    /// One that begins its segment later, because it lacks a resource now. The recovered part is durable where it lies,
    /// and none of it was cut. `position` has a last segment, which stays until then.
    pub(crate) fn waiting(
        disk: Arc<D>,
        identity: Identity,
        limits: Limits,
        position: Position,
        lack: Lack,
    ) -> io::Result<Self> {
        let Position { segment: number, block, last, end, full, spares, .. } = position;
        let disk = Guarded::new(disk);
        let file = Arc::new(disk.open(&name(number))?);
        Ok(Self {
            disk,
            identity,
            limits,
            present: Present { file, name: name(number), size: 0, number },
            at: 0,
            block,
            last,
            waits: Some(lack),
            short: None,
            cut: end,
            synced: end,
            synced_block: block,
            reach: end,
            older: Vec::new(),
            dirty: false,
            given: false,
            full,
            spares: Arc::new(Spares::new(spares, limits, identity.life)),
            page: Vec::new(),
            buffer: Aligned::default(),
            flights: Flights::default(),
            #[cfg(test)]
            shares_pages: false,
        })
    }

    fn format(&self) -> Format {
        self.identity.format
    }

    /// The stream, and the way that it is written.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The name of the log's last block.
    pub(crate) fn last(&self) -> Name {
        self.last
    }

    /// The next block.
    fn block<'a>(&self, frame: &Frame<'a>, mark: Mark) -> Block<'a> {
        let (life, number) = (self.identity.life, self.block + 1);
        let synced = match self.format() {
            Format::Three => self.synced.0,
            Format::Four => self.synced_block,
        };
        Block { place: Place { mark, life, number, synced }, frame: *frame }
    }

    /// How far everything is durable.
    pub(crate) fn synced(&self) -> Lsn {
        self.synced
    }

    /// How far the blocks of the log are here. Its places and the folder's numbers rise alike.
    pub(crate) fn landed(&self) -> Landed {
        let last = self.last.sequence;
        let synced = last.saturating_sub(self.block - self.synced_block);
        // What goes past the cache is synced when it is written.
        Landed { written: if self.flights.count() > 0 { synced } else { last }, synced }
    }

    /// How far everything is written.
    pub(crate) fn cut(&self) -> Lsn {
        self.cut
    }

    /// True if a block with a body of so many bytes has room in the present segment.
    pub(crate) fn has_room(&self, body: usize) -> bool {
        self.at + self.format().size(body) as u64 <= self.present.size
    }

    /// The resource that the start lacked, if the writer still has no segment of its own.
    pub(crate) fn waits(&self) -> Option<Lack> {
        self.waits
    }

    /// The resource that the next segment lacks, as far as known, and told once: the present one is smaller for it.
    pub(crate) fn take_short(&mut self) -> Option<Lack> {
        self.short.take()
    }

    /// The resource that a start lacks, as far as it is known.
    pub(crate) fn known_lack(&mut self) -> Option<Lack> {
        self.waits.or(self.short.take())
    }

    /// The resource that a start lacks for its next segment, if the present one has less room than `reserve`. It is
    /// known before records are left: records that are taken without room would be waited for (rule L8).
    pub(crate) fn lack_at_start(&mut self, reserve: u64) -> io::Result<Option<Lack>> {
        let known = self.known_lack();
        if known.is_some() || self.room() >= reserve {
            return Ok(known);
        }
        match self.spares.make_ready(&*self.disk) {
            Ok(()) => Ok(None),
            Err(error) => Lack::of(&error).map(Some).ok_or(error),
        }
    }

    /// Begins the segment that the start could not make: with the block `first`, which is empty, and room for a body of
    /// `body` bytes. The first block is durable before the next one is written (rule L5). After a lack it may be called
    /// again.
    pub(crate) fn begin_late(&mut self, first: &Frame<'_>, body: usize) -> io::Result<()> {
        ensure_end(&*self.disk, &self.identity, self.present.number)?;
        let (number, block) = (self.present.number + 1, self.block + 1);
        let least = least_size(self.format(), body + self.format().size(0));
        let Segment { file, name: spare, size, short } = take(&*self.disk, &self.spares, least)?;
        let before = (self.last, self.block);
        let mut bytes = encode_header(&self.identity, (size, number), (self.cut, self.cut), before).to_vec();
        self.block(first, Mark::Block).encode(self.format(), &mut bytes);
        file.write(0, &bytes)?;
        finally(file.sync())?;
        let says = was_made(prepare_end(&*self.disk, &self.identity, number, block))?;
        self.disk.rename(&spare, &name(number))?;
        finally(self.settle_names(says))?;
        self.present = Present { file: Arc::new(file), name: name(number), size, number };
        (self.at, self.page, self.block, self.waits) = (bytes.len() as u64, bytes, block, None);
        self.last = first.name;
        self.short = short;
        Ok(())
    }

    /// Begins a life of the folder, with the block that says so: `mark` says what its name means. Blocks that were written
    /// before are made durable first. After a lack it may be called again.
    pub(crate) fn begin_life(&mut self, life: u64, mark: Mark, first: &Frame<'_>) -> io::Result<()> {
        self.sync()?;
        ensure_end(&*self.disk, &self.identity, self.present.number)?;
        let identity = Identity { life, ..self.identity };
        let (number, block) = (self.present.number + 1, self.block + 1);
        let least = least_size(identity.format, 0);
        let Segment { file, name: spare, size, short } = take_first(&*self.disk, &self.spares, least)?;
        let before = (first.name, self.block);
        let mut bytes = encode_header(&identity, (size, number), (first.cut, first.cut), before).to_vec();
        let place = Place { mark, life, number: block, synced: self.synced_block };
        Block { place, frame: *first }.encode(identity.format, &mut bytes);
        file.write(0, &bytes)?;
        finally(file.sync())?;
        let says = was_made(prepare_end(&*self.disk, &identity, number, block))?;
        self.disk.rename(&spare, &name(number))?;
        self.identity = identity;
        finally(self.settle_names(says))?;
        let present = Present { file: Arc::new(file), name: name(number), size, number };
        let Present { name, size, .. } = std::mem::replace(&mut self.present, present);
        self.full.push_back(Full { name, size, end: self.reach, last: (self.last, self.cut) });
        if mark == Mark::Life {
            // Of blocks that were dropped nothing is needed.
            let kept = (first.name, first.cut);
            self.full.iter_mut().for_each(|full| full.last = earlier(full.last, kept));
        }
        (self.at, self.page, self.block) = (bytes.len() as u64, bytes, block);
        (self.cut, self.reach, self.last) = (first.cut, first.cut, first.name);
        (self.synced, self.synced_block, self.short) = (first.cut, block, short);
        Ok(())
    }

    /// Makes the name of a start's segment durable. Names change in this order, on the disk as well.
    fn settle_names(&self, says: bool) -> io::Result<()> {
        if says {
            say_end(&*self.disk, &self.identity)?;
        }
        self.disk.sync()?;
        self.forget_ends()
    }

    /// Bytes of all segments in use.
    pub(crate) fn size(&self) -> u64 {
        self.present.size + self.full.iter().map(|full| full.size).sum::<u64>()
    }

    /// Bytes for which there is room already, whatever is lacking.
    pub(crate) fn room(&self) -> u64 {
        self.present.size - self.at + self.spares.ready() as u64 * self.limits.size()
    }

    pub(crate) fn spares(&self) -> &Arc<Spares<GuardedFile<D::File>>> {
        &self.spares
    }

    pub(crate) fn disk(&self) -> &Arc<Guarded<D>> {
        &self.disk
    }

    /// From now on the stream goes on when this disk fails (rule G10).
    pub(crate) fn guard(&self, own: Arc<Own>) {
        self.disk.guard(own);
    }

    /// Writes a last, empty block that says that everything is synced: the next start has nothing to write again. And
    /// says so beside the segments.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        if self.waits.is_some() {
            // Nothing was written.
            return Ok(());
        }
        self.sync()?;
        if self.has_room(0) {
            self.put_last()?;
            self.sync()?;
        }
        if was_made(prepare_end(&*self.disk, &self.identity, self.present.number, self.block))? {
            say_end(&*self.disk, &self.identity)?;
            self.disk.sync()?;
        }
        Ok(())
    }

    /// Places the block that says that the stream was stopped in order. It is none of the log: the log goes on behind its
    /// last block, at other copies as well. In the format before it has to be one.
    fn put_last(&mut self) -> io::Result<()> {
        let (old, Name { term, sequence }) = (self.format() == Format::Three, self.last);
        let frame = Frame {
            kind: Kind::Records,
            shard: self.identity.shard,
            stream: self.identity.stream,
            name: Name { term, sequence: sequence + u64::from(old) },
            before: term,
            cut: self.cut,
            reach: self.cut,
            body: &[],
            sum: None,
        };
        self.put_marked(&frame, if old { Mark::Block } else { Mark::End })
    }

    /// Removes the files of earlier incarnations about their ends, if there is a newer one.
    fn forget_ends(&self) -> io::Result<()> {
        let name = end_name(self.identity.life);
        let names = self.disk.list()?;
        let old = names.iter().filter(|other| is_end(other) && names.contains(&name) && **other != name);
        old.into_iter().try_for_each(|old| self.disk.remove(old))
    }

    /// A block that the caller writes past the cache and then gives to [`Self::land`]. Others may be in flight
    /// meanwhile. `None`: those have to land first, and then it is to be called again; nothing has happened. `now`: of
    /// a clock, for [`Self::in_flight_since`].
    pub(crate) fn depart(&mut self, frame: &Frame<'_>, now: u64) -> io::Result<Option<Flight<D::File>>> {
        let body = frame.body.len();
        let size = self.check_size(frame.body)?;
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
            self.next_segment(body)?;
        }
        if self.is_dirty() {
            self.sync()?;
        }
        let mut buffer = self.flights.buffer();
        let before = self.place(&mut buffer, frame, Mark::Block, size);
        buffer.pad();
        let at = self.at - before as u64;
        self.passed(&buffer, before + size, size, frame);
        self.flights.depart(self.block, frame.cut, body, now);
        let file = self.present.file.clone();
        let mut flight = match file.keep_through(at, buffer)? {
            Some(buffer) => Flight::new(file, at, buffer, self.block),
            None => Flight::kept(file, at, self.block),
        };
        (flight.body, flight.since) = (body, now);
        Ok(Some(flight))
    }

    /// True if a block of so many bytes can [`Self::depart`] without any change of files. That is so if it has room in
    /// the present segment, and nothing is to be synced before it.
    pub(crate) fn departs_at_once(&self, body: usize) -> bool {
        let end = self.at.next_multiple_of(PAGE as u64) + self.format().size(body) as u64;
        end <= self.present.size && !self.is_dirty() && !matches!(self.present.file.direct(), Direct::No)
    }

    /// Notes that a block that departed has been written.
    pub(crate) fn land(&mut self, flight: Flight<D::File>) {
        if let Some((block, cut)) = self.flights.land(flight) {
            self.synced = cut.max(self.synced);
            self.synced_block = block.max(self.synced_block);
        }
    }

    /// The log goes around the disk from now on. Blocks in flight count as landed, and so does a sync that another thread
    /// is at: later ones are done when these have returned. Returns how many blocks these are.
    pub(crate) fn go_around(&mut self) -> usize {
        let (flights, is_given) = (self.flights.count(), std::mem::take(&mut self.given));
        self.disk.go_around(flights + usize::from(is_given));
        if let Some((block, cut)) = self.flights.give_up() {
            self.synced = cut.max(self.synced);
            self.synced_block = block.max(self.synced_block);
        }
        flights
    }

    /// True if this block, which has returned, was given up.
    pub(crate) fn was_given_up(&self, flight: &Flight<D::File>) -> bool {
        self.flights.was_given_up(flight)
    }

    /// How many blocks are in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.flights.count()
    }

    /// Bytes of records in flight.
    pub(crate) fn bytes_in_flight(&self) -> u64 {
        self.flights.bytes()
    }

    /// When the oldest block in flight departed.
    pub(crate) fn in_flight_since(&self) -> Option<u64> {
        self.flights.since()
    }

    /// Places a block, `through` to the disk or not. None is in flight.
    pub(crate) fn put(&mut self, frame: &Frame<'_>, through: bool) -> io::Result<()> {
        if through {
            let mut flight = self.depart(frame, 0)?.ok_or_else(|| io::Error::other("a block is in flight"))?;
            flight.write_in_step()?;
            self.land(flight);
            return Ok(());
        }
        self.put_marked(frame, Mark::Block)
    }

    /// Places a block through the cache. None is in flight.
    pub(crate) fn put_marked(&mut self, frame: &Frame<'_>, mark: Mark) -> io::Result<()> {
        debug_assert_eq!(self.flights.count(), 0, "nothing goes through the cache while a block is in flight");
        let size = self.check_size(frame.body)?;
        if self.at + size as u64 > self.present.size {
            self.next_segment(frame.body.len())?;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let before = self.place(&mut buffer, frame, mark, size);
        self.present.file.write(self.at, &buffer.bytes()[before..before + size])?;
        self.dirty = true;
        point("log-after-append");
        self.passed(&buffer, before + size, size, frame);
        self.buffer = buffer.emptied();
        Ok(())
    }

    /// Appends the next block behind the bytes of its page. Returns how many bytes those are.
    fn place(&self, buffer: &mut Aligned, frame: &Frame<'_>, mark: Mark, size: usize) -> usize {
        buffer.clear(self.page.len() + size);
        buffer.append(|bytes| {
            bytes.extend_from_slice(&self.page);
            self.block(frame, mark).encode(self.format(), bytes);
        });
        self.page.len()
    }

    /// The bytes of this buffer up to `end` have their place: the next block comes behind them.
    fn passed(&mut self, buffer: &Aligned, end: usize, size: usize, frame: &Frame<'_>) {
        self.page.clear();
        self.page.extend_from_slice(&buffer.bytes()[end / PAGE * PAGE..end]);
        self.at += size as u64;
        self.block += 1;
        (self.cut, self.reach, self.last) = (frame.cut, frame.reach, frame.name);
    }

    fn next_segment(&mut self, body: usize) -> io::Result<()> {
        if self.older.len() >= UNSYNCED_MAX {
            self.sync()?;
        }
        let number = self.present.number + 1;
        let Segment { file, name: spare, size, short } =
            take(&*self.disk, &self.spares, least_size(self.format(), body))?;
        // The last block may not be on the disk yet.
        let says = was_made(prepare_end(&*self.disk, &self.identity, number, 0))?;
        let before = (self.last, self.block);
        let header = encode_header(&self.identity, (size, number), (self.cut, self.reach), before);
        file.write(0, &header)?;
        finally(file.sync())?;
        // It gets its name when its statement is true.
        let present = Present { file: Arc::new(file), name: name(number), size, number };
        point("log-before-rename");
        self.disk.rename(&spare, &present.name)?;
        point("log-after-rename");
        if says {
            say_end(&*self.disk, &self.identity)?;
        }
        finally(self.disk.sync())?;
        let Present { file, name, size, .. } = std::mem::replace(&mut self.present, present);
        if std::mem::take(&mut self.dirty) {
            self.older.push(file);
        }
        self.full.push_back(Full { name, size, end: self.reach, last: (self.last, self.cut) });
        self.short = short;
        self.at = SEGMENT_HEADER as u64;
        self.page = header.to_vec();
        Ok(())
    }

    /// True if bytes are written through the cache and not synced.
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty || !self.older.is_empty()
    }

    /// Makes everything written durable; no block is in flight. Returns up to where everything is durable.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WouldBlock`]: another thread is syncing, and its result has to be heard first
    /// ([`Self::note_synced`]). Of two threads that sync a file the system tells one that it has failed (rule L9).
    pub(crate) fn sync(&mut self) -> io::Result<Lsn> {
        if self.flights.count() > 0 {
            return Err(io::Error::other("a block is in flight"));
        }
        if self.is_dirty() {
            if self.given {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            point("log-before-sync");
            self.unsynced().sync()?;
            point("log-after-sync");
            self.older.clear();
            self.dirty = false;
        }
        (self.synced, self.synced_block) = (self.cut, self.block);
        Ok(self.synced)
    }

    /// The bytes to sync now, for another thread. Until its result is heard, no other thread syncs: [`Self::sync`] says
    /// that it would have to wait, and so does every call that needs a sync first.
    pub(crate) fn give_unsynced(&mut self) -> Unsynced<GuardedFile<D::File>> {
        self.given = true;
        self.unsynced()
    }

    fn unsynced(&self) -> Unsynced<GuardedFile<D::File>> {
        Unsynced { older: self.older.clone(), present: self.present.file.clone(), cut: self.cut, block: self.block }
    }

    /// How many full segments are not synced.
    pub(crate) fn unsynced_segments(&self) -> usize {
        self.older.len()
    }

    /// Notes that the other thread has synced them.
    pub(crate) fn note_synced(&mut self, unsynced: &Unsynced<GuardedFile<D::File>>) {
        self.given = false;
        self.older.retain(|file| !unsynced.older.iter().any(|other| Arc::ptr_eq(file, other)));
        self.synced = self.synced.max(unsynced.cut);
        self.synced_block = self.synced_block.max(unsynced.block);
        if unsynced.block == self.block {
            self.dirty = false;
        }
    }

    /// Gives up segments whose records are all at or below `end`: they are durable elsewhere (rule C3). Some are kept
    /// to be used again.
    ///
    /// # Errors
    /// The disk has failed to remove or to rename a segment, or to sync the folder.
    pub(crate) fn truncate(&mut self, end: Lsn) -> io::Result<()> {
        let full = self.retired(end);
        self.spares.retire_all(&*self.disk, &full)
    }

    /// True if there are segments whose records are all at or below `end`.
    pub(crate) fn may_retire(&self, end: Lsn) -> bool {
        self.count_retired(end) > 0
    }

    fn count_retired(&self, end: Lsn) -> usize {
        let count = self.full.iter().take_while(|full| full.end <= end).count();
        // Without a segment of its own, only the last one shows how far the stream has gone.
        let kept = usize::from(self.waits.is_some());
        count.min(self.full.len().saturating_sub(kept))
    }

    /// The segments that [`Self::truncate`] gives up, for another thread to do that.
    pub(crate) fn retired(&mut self, end: Lsn) -> Vec<Full> {
        let count = self.count_retired(end);
        self.full.drain(..count).collect()
    }

    /// The segments whose blocks all lie at or below a place in the log, or were dropped.
    pub(crate) fn retired_to(&mut self, sequence: u64) -> Vec<Full> {
        let count = self.full.iter().take_while(|full| full.last.0.sequence <= sequence).count();
        self.full.drain(..count).collect()
    }

    /// Bytes of a block with this body.
    fn check_size(&self, body: &[u8]) -> io::Result<usize> {
        if body.len() > BODY_MAX {
            return Err(io::Error::other("longer than a block can be"));
        }
        Ok(self.format().size(body.len()))
    }
}
