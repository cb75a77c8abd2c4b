//! Writes a stream: records become frames, which its [`Placer`] places in the stream's folder.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::copies::Copied;
use crate::disk::Disk;
use crate::flight::Flight;
use crate::format::{Frame, Kind, Name, PART_HEADER, Part, RawRecord};
use crate::lack::Lack;
use crate::pieces::Piece;
use crate::place::{Placer, Position};
use crate::recover::Damage;
use crate::segments::{Identity, Limits};
use crate::tail::{Body, Put};
use crate::{Lsn, Taken};

/// The writer of one stream. After an error other than a lack ([`Lack`]) it is unknown what was written since the last
/// sync, and it must not be used on (rule L9).
pub struct Writer<D: Disk> {
    placer: Placer<D>,
    /// The term of its blocks.
    term: u32,
    /// Most bytes of a block's records.
    block: usize,
    /// The copies of the stream elsewhere.
    copied: Option<Box<Copied>>,
}

impl<D: Disk> Writer<D> {
    /// Begins a new segment behind the recovered part. Its first block says which part of that is valid (rule L5). The
    /// tail that may not be durable follows (rule L9): `blocks` puts its blocks. The segment gets its name when all of
    /// that is synced.
    pub(crate) fn begin(
        disk: Arc<D>,
        identity: Identity,
        limits: Limits,
        position: Position,
        term: u32,
        blocks: impl FnOnce(&mut Put<'_>) -> Result<(), Damage>,
    ) -> Result<Self, Damage> {
        let (base, end) = (position.base, position.end);
        let (placer, spare) = Placer::begin(disk, identity, limits, position)?;
        let mut writer = Self { placer, term, block: limits.block, copied: None };
        let start = writer.frame(Kind::Start, base, base, &[]);
        writer.placer.put(&start, false)?;
        blocks(&mut |Body { bytes, is_part, cut }| {
            if !writer.placer.has_room(bytes.len()) {
                return Err(io::Error::other("what a start writes again has grown while it was written").into());
            }
            let (kind, cut) = (if is_part { Kind::Part } else { Kind::Records }, cut.unwrap_or(writer.written()));
            Ok(writer.put(bytes, kind, (cut, end), false)?)
        })?;
        if end > writer.written() {
            writer.put(&[], Kind::Records, (end, end), false)?;
        }
        writer.placer.name_first(&spare)?;
        Ok(writer)
    }

    /// The writer behind a copy's last block, in the term of that.
    pub(crate) fn promoted(placer: Placer<D>, block: usize) -> Self {
        let term = placer.last().term;
        Self { placer, term, block, copied: None }
    }

    /// A writer that begins its segment later: see [`Placer::waiting`].
    pub(crate) fn waiting(
        disk: Arc<D>,
        identity: Identity,
        limits: Limits,
        position: Position,
        term: u32,
        lack: Lack,
    ) -> Result<Self, Damage> {
        let placer = Placer::waiting(disk, identity, limits, position, lack)?;
        Ok(Self { placer, term, block: limits.block, copied: None })
    }

    /// Begins the segment that the start could not make, with room for a body of `body` bytes. After a lack it may be
    /// called again.
    pub(crate) fn begin_late(&mut self, body: usize) -> io::Result<()> {
        let cut = self.written();
        let start = self.frame(Kind::Start, cut, cut, &[]);
        self.placer.begin_late(&start, body)
    }

    /// How far everything is durable.
    pub fn synced(&self) -> Lsn {
        self.placer.synced()
    }

    /// How far everything is written.
    pub fn written(&self) -> Lsn {
        self.placer.cut()
    }

    /// Has the blocks from here on given out to copies.
    pub(crate) fn copy_to(&mut self, copied: Copied) {
        self.copied = Some(Box::new(copied));
    }

    /// The copies of the stream elsewhere.
    pub(crate) fn copied(&self) -> Option<&Copied> {
        self.copied.as_deref()
    }

    #[cfg(test)]
    pub(crate) fn copied_mut(&mut self) -> Option<&mut Copied> {
        self.copied.as_deref_mut()
    }

    /// Tells copies how far the own folder is.
    pub(crate) fn tell_landed(&mut self) {
        if let Some(copied) = &mut self.copied {
            copied.tell(&self.placer);
        }
    }

    /// How far everything is on enough disks: on the own one, or on those of copies.
    pub(crate) fn durable(&self) -> Lsn {
        match &self.copied {
            None => self.placer.synced(),
            #[cfg(test)]
            Some(copied) if copied.trusts_own => self.placer.synced(),
            Some(copied) => copied.held().synced().min(self.placer.cut()),
        }
    }

    /// How far everything survives the end of this process: in the own system, or, if the own disk has failed, in enough
    /// others.
    pub(crate) fn survives(&self) -> Lsn {
        match &self.copied {
            Some(copied) if copied.is_own_lost() || self.placer.disk().is_around() => {
                copied.held().received().min(self.placer.cut())
            }
            _ => self.placer.cut(),
        }
    }

    /// Most bytes of a block that could be split.
    pub(crate) fn block_max(&self) -> usize {
        self.block
    }

    /// The stream's folder.
    pub(crate) fn placer(&mut self) -> &mut Placer<D> {
        &mut self.placer
    }

    /// Writes the taken records, `through` to the disk or not. [`Self::sync`] makes them durable.
    ///
    /// # Errors
    ///
    /// The disk has failed, or has no room. After a failed write the stream must not be written any more (rule L9).
    pub fn write(&mut self, bytes: &[u8], taken: &Taken, through: bool) -> io::Result<()> {
        self.write_from(bytes, taken, through, &mut 0)
    }

    /// Writes the taken records from byte `*done` on. After a lack ([`Lack`]) the caller calls it again with the new
    /// `*done`, when the resource is back; and if others have to sync first, when they have: see [`Self::sync`].
    pub(crate) fn write_from(
        &mut self,
        bytes: &[u8],
        taken: &Taken,
        through: bool,
        done: &mut usize,
    ) -> io::Result<()> {
        while let Some(piece) = Piece::next(&taken.ends, *done, self.block) {
            let from = std::mem::replace(done, piece.to);
            let is_last = taken.ends.last() == Some(&piece.to);
            let cuts = (if is_last { taken.cut } else { self.written() }, taken.cut);
            let written = match piece.part_of {
                None => self.put(&bytes[from..piece.to], Kind::Records, cuts, through),
                Some((begin, end)) => self.part(&bytes[begin..end], from - begin..piece.to - begin, cuts, through),
            };
            if written.is_err() {
                *done = from;
                return written;
            }
        }
        Ok(())
    }

    /// Writes a part of a record.
    fn part(&mut self, record: &[u8], range: Range<usize>, cuts: (Lsn, Lsn), through: bool) -> io::Result<()> {
        let lsn = RawRecord::whole(record).map_err(|broken| io::Error::other(broken.0))?.lsn;
        let (length, offset) = (record.len() as u64, range.start as u64);
        let mut body = Vec::with_capacity(PART_HEADER + range.len());
        Part { lsn, length, offset, bytes: &record[range] }.encode(&mut body);
        self.put(&body, Kind::Part, cuts, through)
    }

    /// Writes a block, `through` to the disk or not. None is in flight.
    fn put(&mut self, body: &[u8], kind: Kind, (cut, reach): (Lsn, Lsn), through: bool) -> io::Result<()> {
        self.begin_if_late(body)?;
        let frame = self.frame(kind, cut, reach, body);
        match &self.copied {
            None => self.placer.put(&frame, through),
            Some(copied) => put_copied(&mut self.placer, copied, &frame.summed(), through),
        }
    }

    /// The next block of the log.
    fn frame<'a>(&self, kind: Kind, cut: Lsn, reach: Lsn, body: &'a [u8]) -> Frame<'a> {
        let (identity, last) = (self.placer.identity(), self.placer.last());
        let name = Name { term: self.term, sequence: last.sequence + 1 };
        let (shard, stream) = (identity.shard, identity.stream);
        Frame { kind, shard, stream, name, before: last.term, cut, reach, body, sum: None }
    }

    /// A block that the caller writes past the cache: see [`Placer::depart`].
    pub(crate) fn depart(&mut self, body: &[u8], cut: Lsn, now: u64) -> io::Result<Option<Flight<D::File>>> {
        self.begin_if_late(body)?;
        let frame = self.frame(Kind::Records, cut, cut, body);
        let Some(copied) = &self.copied else { return self.placer.depart(&frame, now) };
        let frame = frame.summed();
        let flight = self.placer.depart(&frame, now)?;
        if flight.is_some() {
            copied.departs(&frame)?;
        }
        Ok(flight)
    }

    /// Places the start block of a later term behind everything that is written, and makes it durable. The copies have it
    /// from their owner.
    pub(crate) fn begin_term(&mut self, term: u32) -> io::Result<()> {
        if term <= self.term {
            return Ok(());
        }
        self.begin_if_late(&[])?;
        let cut = self.written();
        let mut start = self.frame(Kind::Start, cut, cut, &[]);
        start.name.term = term;
        self.placer.put(&start, false)?;
        self.term = term;
        self.placer.sync().map(drop)
    }

    fn begin_if_late(&mut self, body: &[u8]) -> io::Result<()> {
        if self.placer.waits().is_some() { self.begin_late(body.len()) } else { Ok(()) }
    }

    /// Makes everything written durable: see [`Placer::sync`].
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WouldBlock`]: another thread is syncing, and its result has to be heard first. Other errors: the
    /// disk has failed.
    pub fn sync(&mut self) -> io::Result<Lsn> {
        self.placer.sync()
    }

    /// Gives up segments: see [`Placer::truncate`].
    ///
    /// # Errors
    ///
    /// The disk has failed to remove or to rename a segment, or to sync the folder.
    pub fn truncate(&mut self, end: Lsn) -> io::Result<()> {
        self.placer.truncate(end)
    }
}

/// Writes a block that copies get, too: they are sent it before the own disk is waited for.
fn put_copied<D: Disk>(placer: &mut Placer<D>, copied: &Copied, frame: &Frame<'_>, through: bool) -> io::Result<()> {
    if !through {
        placer.put(frame, false)?;
        return copied.departs(frame);
    }
    let mut flight = placer.depart(frame, 0)?.ok_or_else(|| io::Error::other("a block is in flight"))?;
    copied.departs(frame)?;
    flight.write_in_step()?;
    placer.land(flight);
    Ok(())
}
