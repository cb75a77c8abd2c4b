//! The copy of a stream in a folder: the blocks come from the stream's owner, and have their names.
//!
//! A copy may have blocks that its owner's log does not have. They are dropped by a new *life* of the folder: a segment
//! whose first block says which blocks of the log stand.

mod reader;

use std::io;
use std::sync::Arc;

pub use self::reader::Reader;
use crate::Lsn;
use crate::chain::Chain;
use crate::disk::Disk;
use crate::flight::Flight;
use crate::format::{Format, Frame, Kind, Mark, Name};
use crate::own::{Guarded, GuardedFile};
use crate::place::{Placer, Position};
use crate::recover::{Damage, keep_spares};
use crate::scan::Scan;
use crate::segments::{Full, Identity, Limits, Spares};
use crate::writer::Writer;

/// The folder of a copy, and the stream that it is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder {
    /// The acceptor whose folder it is.
    pub acceptor: [u8; 16],
    /// The shard of the log.
    pub shard: u32,
    /// The stream.
    pub stream: u16,
    /// How many streams the shard has.
    pub streams: u16,
}

/// The blocks that a new life of a folder keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// Blocks up to this one.
    UpTo(Name),
    /// None: the log begins behind this block, which ends here.
    Nothing(Name, Lsn),
}

/// The copy of a stream. After an error other than a lack ([`crate::Lack`]) it is unknown what was written since the
/// last sync, and it must not be used on (rule L9).
pub struct Replica<D: Disk> {
    disk: Arc<D>,
    holder: Holder,
    limits: Limits,
    /// Until the first life of this process has begun.
    scan: Option<Scan<D>>,
    placer: Option<Placer<D>>,
    /// The last block and its end.
    last: (Name, Lsn),
    /// The folder's last life.
    life: u64,
    reader: Reader<D>,
    /// Records at or below are not there any more.
    begins: Lsn,
    /// No record that ever was here is above.
    highest: Lsn,
}

impl<D: Disk> Replica<D> {
    /// Reads the folder. Nothing is changed.
    ///
    /// # Errors
    /// The folder cannot be read, what had been synced is damaged, or it holds another stream.
    pub fn open(disk: D, holder: Holder, limits: Limits) -> Result<Self, Damage> {
        let scan = Scan::new(disk)?;
        let disk = scan.disk.clone();
        let other = scan.segments().iter().map(|segment| segment.header).find(|header| {
            let shard = header.shard != 0 && header.shard != holder.shard;
            shard || (header.stream, header.streams) != (holder.stream, holder.streams)
        });
        if let Some(other) = other {
            let Holder { shard, stream, streams, .. } = holder;
            return Err(Damage::Streams(format!(
                "{} holds stream {} of {} of shard {}, not stream {stream} of {streams} of shard {shard}",
                disk.describe(""),
                other.stream,
                other.streams,
                other.shard,
            )));
        }
        let last = (scan.chain.last(), scan.end);
        let life = scan.segments().last().map_or(0, |segment| segment.header.life);
        let reader = Reader::new(disk.clone());
        let (begins, highest) = (scan.begins(), scan.highest);
        Ok(Self { disk, holder, limits, scan: Some(scan), placer: None, last, life, reader, begins, highest })
    }

    /// True if there is nothing at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scan.as_ref().is_some_and(|scan| scan.segments().is_empty())
    }

    /// The folder's last life, the names of its blocks, and where the block before the first one ends: before the first
    /// life of this process has begun.
    #[must_use]
    pub fn found(&self) -> Option<(u64, &Chain, Lsn)> {
        let scan = self.scan.as_ref()?;
        Some((self.life, &scan.chain, scan.base()))
    }

    /// The folder's last life; 0: none has begun.
    #[must_use]
    pub fn life(&self) -> u64 {
        self.life
    }

    /// True if another acceptor has the newest segment, before the first life of this process has begun. Segments of a
    /// log without copies are no acceptor's.
    #[must_use]
    pub fn is_of_another(&self) -> bool {
        let newest = self.scan.as_ref().and_then(|scan| scan.segments().last());
        newest.is_some_and(|newest| ![[0; 16], self.holder.acceptor].contains(&newest.header.acceptor))
    }

    /// The folder, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        self.disk.describe("")
    }

    /// Files whose ends were torn, and where: nothing behind that had been synced.
    pub fn torn(&self) -> Option<&(String, u64)> {
        self.scan.as_ref()?.torn.as_ref()
    }

    /// The last block, and where it ends.
    #[must_use]
    pub fn last(&self) -> (Name, Lsn) {
        self.last
    }

    /// Begins a life of the folder: what it keeps is made durable, then the segment that voids the rest. Nothing is in
    /// flight. After a lack it may be called again.
    ///
    /// # Errors
    /// The disk has failed, or has no room for a segment; or the block to keep is not there.
    pub fn begin(&mut self, life: u64, keep: Keep) -> io::Result<()> {
        let (mark, name, cut) = match keep {
            Keep::UpTo(name) => (Mark::Life, name, self.end_of(name)?),
            Keep::Nothing(name, cut) => (Mark::Reset, name, cut),
        };
        let (shard, stream) = (self.holder.shard, self.holder.stream);
        let (kind, before, reach, body, sum) = (Kind::Records, name.term, cut, &[][..], None);
        let first = Frame { kind, shard, stream, name, before, cut, reach, body, sum };
        match &mut self.placer {
            Some(placer) => placer.begin_life(life, mark, &first)?,
            None => self.placer = Some(self.begin_first(life, mark, &first)?),
        }
        (self.scan, self.last, self.life) = (None, (name, cut), life);
        if matches!(keep, Keep::Nothing(..)) {
            self.begins = self.begins.max(cut);
        }
        self.highest = self.highest.max(cut);
        self.reader.forget();
        Ok(())
    }

    fn begin_first(&self, life: u64, mark: Mark, first: &Frame<'_>) -> io::Result<Placer<D>> {
        let scan = self.scan.as_ref().ok_or_else(|| io::Error::other("a copy that was given up"))?;
        scan.write_blocks_in_place()?;
        let Holder { acceptor, shard, stream, streams } = self.holder;
        let node = scan.segments().first().map_or(acceptor, |segment| segment.header.node);
        let identity = Identity { format: Format::Four, node, stream, streams, life, acceptor, shard };
        let spares = keep_spares(scan, &self.limits)?;
        let (segment, block, full) = (scan.newest(), scan.number, scan.full());
        let (last, base, end) = (first.name, first.cut, first.cut);
        let position = Position { segment, block, last, base, end, tail: 0, full, spares };
        let (mut placer, spare) = Placer::begin(self.disk.clone(), identity, self.limits, position)?;
        placer.put_marked(first, mark)?;
        placer.name_first(&spare)?;
        Ok(placer)
    }

    /// Where a block ends.
    fn end_of(&mut self, name: Name) -> io::Result<Lsn> {
        if name == self.last.0 {
            return Ok(self.last.1);
        }
        let mut end = self.base_of(name);
        self.reader.read(name.sequence, name.sequence, 0, |frame, _| {
            end = Some(frame.cut).filter(|_| frame.name == name).or(end);
        })?;
        end.ok_or_else(|| io::Error::other(format!("block {} of term {} is to be kept", name.sequence, name.term)))
    }

    /// Where the block ends behind which the folder's first one follows, if it is this.
    fn base_of(&mut self, name: Name) -> Option<Lsn> {
        if name == Name::default() {
            return Some(Lsn::ZERO);
        }
        self.reader.end_before(name)
    }

    fn placer(&mut self) -> io::Result<&mut Placer<D>> {
        self.placer.as_mut().ok_or_else(|| io::Error::other("a copy whose life has not begun"))
    }

    /// A block that the caller writes past the cache, and then gives to [`Self::land`]. `None`: others have to land
    /// first, and it is to be called again then. It follows the last block in the log.
    ///
    /// # Errors
    /// The disk has failed, or has no room for a segment.
    pub fn depart(&mut self, frame: &Frame<'_>) -> io::Result<Option<Flight<D::File>>> {
        let flight = self.placer()?.depart(frame, 0)?;
        if flight.is_some() {
            self.has(frame);
        }
        Ok(flight)
    }

    /// Notes that a block has been written.
    pub fn land(&mut self, flight: Flight<D::File>) {
        if let Some(placer) = &mut self.placer {
            placer.land(flight);
        }
    }

    /// How many blocks are in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.placer.as_ref().map_or(0, Placer::in_flight)
    }

    /// Writes the next block through the cache. None is in flight.
    ///
    /// # Errors
    /// The disk has failed, or has no room for a segment.
    pub fn put(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        self.placer()?.put(frame, false)?;
        self.has(frame);
        Ok(())
    }

    fn has(&mut self, frame: &Frame<'_>) {
        self.last = (frame.name, frame.cut);
        self.highest = self.highest.max(frame.reach);
    }

    /// Makes everything written durable. No block is in flight.
    ///
    /// # Errors
    /// The disk has failed.
    pub fn sync(&mut self) -> io::Result<()> {
        self.placer()?.sync().map(|_| ())
    }

    /// Writes that everything is synced: the next start has nothing to write again. No block is in flight.
    ///
    /// # Errors
    /// The disk has failed, or has no room.
    pub fn close(&mut self) -> io::Result<()> {
        self.placer.as_mut().map_or(Ok(()), Placer::close)
    }

    /// The segments whose blocks all lie at or below a place in the log: it begins behind that now.
    pub fn retire(&mut self, sequence: u64) -> Retired<D> {
        let from = self.placer.as_ref().map(|placer| (placer.disk().clone(), placer.spares().clone()));
        let files = self.placer.as_mut().map_or_else(Vec::new, |placer| placer.retired_to(sequence));
        self.begins = files.iter().map(|full| full.end).fold(self.begins, Lsn::max);
        Retired { files, from }
    }

    /// Bytes of its segments.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.placer.as_ref().map_or(0, Placer::size)
    }

    /// Bytes of records for which there is room, whatever is lacking.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.placer.as_ref().map_or(0, Placer::room)
    }

    /// A spare segment that is to be made, as there is less room than `Limits::reserve` asks for: by a thread that may
    /// wait. Nothing is asked for before a life has begun.
    pub fn spare(&mut self) -> Option<Spare<D>> {
        let is_low = self.room() < self.limits.reserve;
        let placer = self.placer.as_ref().filter(|_| is_low)?;
        Some(Spare { disk: placer.disk().clone(), spares: placer.spares().clone() })
    }

    /// The begin of the stream: records at or below are not there any more.
    #[must_use]
    pub fn begins(&self) -> Lsn {
        self.begins
    }

    /// An LSN that no record is above which ever was here, void ones included (rule L1).
    #[must_use]
    pub fn highest(&self) -> Lsn {
        self.highest
    }

    /// The writer of a log that goes on behind the last block, in its term. `block`: see [`Limits`].
    pub(crate) fn promote(self, block: usize) -> io::Result<Writer<D>> {
        let placer = self.placer.ok_or_else(|| io::Error::other("a copy whose life has not begun"))?;
        if placer.in_flight() > 0 {
            return Err(io::Error::other("a block is in flight"));
        }
        Ok(Writer::promoted(placer, block))
    }

    /// What is there, read as a start reads it. No block is in flight.
    pub(crate) fn scan(&self) -> Result<Scan<D>, Damage> {
        Scan::of(self.disk.clone())
    }

    /// A reader of its blocks, for another thread.
    #[must_use]
    pub fn reader(&self) -> Reader<D> {
        Reader::new(self.disk.clone())
    }
}

/// Segments that are given up: for a thread that may wait for the disk.
pub struct Retired<D: Disk> {
    files: Vec<Full>,
    from: Option<From<D>>,
}

/// A spare segment that is to be made.
pub struct Spare<D: Disk> {
    disk: Arc<Guarded<D>>,
    spares: Arc<Spares<GuardedFile<D::File>>>,
}

impl<D: Disk> Spare<D> {
    /// Makes it.
    ///
    /// # Errors
    /// The disk has failed, or has no room for it.
    pub fn make(self) -> io::Result<()> {
        self.spares.make_ready(&*self.disk)
    }
}

/// A folder, and its spare segments.
type From<D> = (Arc<Guarded<D>>, Arc<Spares<GuardedFile<<D as Disk>::File>>>);

impl<D: Disk> Retired<D> {
    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Gives them up. Some are kept to be used again.
    ///
    /// # Errors
    /// The disk has failed.
    pub fn give_up(self) -> io::Result<()> {
        self.from.map_or(Ok(()), |(disk, spares)| spares.retire_all(&*disk, &self.files))
    }
}
