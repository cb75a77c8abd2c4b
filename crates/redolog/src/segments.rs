//! The files of a stream: their names, spare segments, and the file that says where the stream ends.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Lsn;
use crate::disk::{Disk, File, PAGE};
use crate::fail::point;
use crate::format::{CleanEnd, END_SIZE, Format, Name, SEGMENT_HEADER, SegmentHeader};
use crate::lack::Lack;

/// The sizes of a stream's files.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a segment; a multiple of [`PAGE`] that is not below is taken.
    pub segment: u32,
    /// Segments kept to be used again.
    pub spares: usize,
    /// With fewer bytes left writes are refused (rule L8).
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

/// A stream in a folder, and the way that it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    pub(crate) format: Format,
    /// Identity of the data.
    pub(crate) node: [u8; 16],
    /// Which stream.
    pub(crate) stream: u16,
    /// Of how many.
    pub(crate) streams: u16,
    /// The folder's life, which begins with this process: higher than every earlier one.
    pub(crate) life: u64,
    /// The acceptor whose folder it is; zeros if it is none's.
    pub(crate) acceptor: [u8; 16],
    /// The shard of the log; 0 if it belongs to none yet.
    pub(crate) shard: u32,
}

/// A segment that is full.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Full {
    pub(crate) name: String,
    pub(crate) size: u64,
    /// Every record in it is at or below this.
    pub(crate) end: Lsn,
    /// The last block of the log in it or before it, and where that ends.
    pub(crate) last: (Name, Lsn),
}

/// Spare segments at most, unless [`Limits`] say more.
const SPARES_MAX: usize = 8;

/// Spare segments, all of the size of [`Limits`]. Other threads than the writer make and retire them.
pub(crate) struct Spares<F> {
    kept: Mutex<Kept<F>>,
    limits: Limits,
    incarnation: u64,
    /// The number of the last one that was made: each has a name of its own.
    made: AtomicU64,
}

/// By name. The next ones are open, so that the writer can go on without a descriptor; not all are, for they may be
/// many.
struct Kept<F> {
    ready: VecDeque<(F, String)>,
    closed: VecDeque<String>,
}

impl<F: File> Spares<F> {
    pub(crate) fn new(names: Vec<String>, limits: Limits, incarnation: u64) -> Self {
        let kept = Mutex::new(Kept { ready: VecDeque::new(), closed: names.into() });
        Self { kept, limits, incarnation, made: AtomicU64::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, Kept<F>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self) -> usize {
        let kept = self.lock();
        kept.ready.len() + kept.closed.len()
    }

    /// How many can be used without any resource.
    pub(crate) fn ready(&self) -> usize {
        self.lock().ready.len()
    }

    /// Opens one that is kept, or makes one.
    pub(crate) fn make_ready<D: Disk<File = F>>(&self, disk: &D) -> io::Result<()> {
        if self.open(disk)? {
            return Ok(());
        }
        let number = self.made.fetch_add(1, Relaxed) + 1;
        let (making, spare) = (making(self.incarnation, number), format!("spare-{:x}-{number:x}", self.incarnation));
        let file = disk.create(&making, self.limits.size())?;
        disk.rename(&making, &spare)?;
        self.lock().ready.push_back((file, spare));
        Ok(())
    }

    /// Opens one more. False: none is closed.
    fn open<D: Disk<File = F>>(&self, disk: &D) -> io::Result<bool> {
        let Some(name) = self.lock().closed.pop_front() else { return Ok(false) };
        match disk.open(&name) {
            Ok(file) => self.lock().ready.push_back((file, name)),
            Err(error) => {
                self.lock().closed.push_front(name);
                return Err(error);
            }
        }
        Ok(true)
    }

    /// The next.
    fn take<D: Disk<File = F>>(&self, disk: &D) -> io::Result<Option<(F, String)>> {
        if self.ready() == 0 {
            self.open(disk)?;
        }
        Ok(self.lock().ready.pop_front())
    }

    /// Gives up segments: see [`Self::retire`]. As many may be kept as are given up at once. The log will grow by as
    /// many again before that happens next, and making one costs as much writing as filling it.
    pub(crate) fn retire_all<D: Disk<File = F>>(&self, disk: &D, full: &[Full]) -> io::Result<()> {
        let most = if self.limits.spares == 0 { 0 } else { self.limits.spares.max(full.len().min(SPARES_MAX)) };
        full.iter().try_for_each(|full| self.retire(disk, full, most))
    }

    /// Keeps a segment as a spare, if there are too few, or removes it.
    fn retire<D: Disk<File = F>>(&self, disk: &D, full: &Full, most: usize) -> io::Result<()> {
        point("log-before-truncate");
        if self.count() < most && full.size == self.limits.size() {
            let spare = format!("spare-{}", full.name);
            disk.rename(&full.name, &spare)?;
            // Before it gets a new header, which a crash must not find under the old name.
            disk.sync()?;
            self.lock().closed.push_back(spare);
        } else {
            disk.remove(&full.name)?;
        }
        point("log-after-truncate");
        Ok(())
    }
}

/// True if a stream has blocks of version 3, which have no names that copies could share. The log may be running.
///
/// # Errors
/// The folder cannot be read.
pub fn has_old_blocks<D: Disk>(disk: &D) -> io::Result<bool> {
    let mut bytes = [0; SEGMENT_HEADER];
    for name in disk.list()?.iter().filter(|name| is_segment(name)) {
        match disk.open(name).and_then(|file| file.read(0, &mut bytes)) {
            Ok(()) if SegmentHeader::decode(&bytes).is_ok_and(|header| header.format == Format::Three) => {
                return Ok(true);
            }
            // It was given up meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            read => read?,
        }
    }
    Ok(false)
}

/// The acceptor that has the newest segment of a folder, and its shard. None: there is no segment, it cannot be told, or
/// the log had no copies.
///
/// # Errors
/// The folder cannot be read.
pub fn newest_holder<D: Disk>(disk: &D) -> io::Result<Option<([u8; 16], u32)>> {
    let Some(newest) = disk.list()?.into_iter().filter(|name| is_segment(name)).max() else { return Ok(None) };
    let file = disk.open(&newest)?;
    let mut bytes = [0; SEGMENT_HEADER];
    if file.size()? < SEGMENT_HEADER as u64 {
        return Ok(None);
    }
    file.read(0, &mut bytes)?;
    let holder = SegmentHeader::decode(&bytes).ok().map(|header| (header.acceptor, header.shard));
    Ok(holder.filter(|(acceptor, _)| *acceptor != [0; 16]))
}

fn is_segment(name: &str) -> bool {
    name.ends_with(".log") && !is_spare(name) && !is_made(name) && !is_end(name)
}

/// The name of a segment.
pub(crate) fn name(number: u64) -> String {
    format!("{number:016x}.log")
}

/// The name of a file that is being made. `number`: unlike that of any other of this incarnation.
pub(crate) fn making(incarnation: u64, number: u64) -> String {
    format!("making-{incarnation:x}-{number:x}")
}

/// The number under which the file is made that says where the log ends.
const END: u64 = u64::MAX - 1;

/// The name of the file that says where the log ended.
pub(crate) fn end_name(incarnation: u64) -> String {
    format!("end-{incarnation:x}")
}

/// True if it is a file that says where the log ended.
pub(crate) fn is_end(name: &str) -> bool {
    name.starts_with("end-")
}

pub(crate) fn is_spare(name: &str) -> bool {
    name.starts_with("spare-")
}

/// True if it is a file that was to become a spare.
pub(crate) fn is_made(name: &str) -> bool {
    name.starts_with("making-")
}

/// The result of a sync. A lack of room for taken bytes is final: the system has dropped them, and says so once (rule
/// L9). Where space is assigned late, or counted, a full disk reports this.
pub(crate) fn finally(synced: io::Result<()>) -> io::Result<()> {
    synced.map_err(|error| if Lack::of(&error).is_some() { io::Error::other(format!("sync: {error}")) } else { error })
}

/// Makes the file that says that the stream goes at least so far, so that a missing segment is noticed.
pub(crate) fn prepare_end<D: Disk>(disk: &D, identity: &Identity, number: u64, sequence: u64) -> io::Result<()> {
    let Identity { node, stream, life, .. } = *identity;
    let end = CleanEnd { node, stream, number, sequence };
    let name = making(life, END);
    let file = create_anew(disk, &name, END_SIZE as u64)?;
    let written = file.write(0, &end.encode()).and_then(|()| file.sync());
    if written.is_err() {
        let _ = disk.remove(&name);
    }
    written
}

/// True if that file was made. Without the resources for it, it can be left out: an older one says less.
pub(crate) fn was_made(prepared: io::Result<()>) -> io::Result<bool> {
    match prepared {
        Err(error) if Lack::of(&error).is_some() => Ok(false),
        prepared => prepared.map(|()| true),
    }
}

/// Makes such a file if there is none. Every later segment says that there is one.
pub(crate) fn ensure_end<D: Disk>(disk: &D, identity: &Identity, number: u64) -> io::Result<()> {
    if disk.list()?.iter().any(|name| is_end(name)) {
        return Ok(());
    }
    prepare_end(disk, identity, number, 0)?;
    say_end(disk, identity)?;
    disk.sync()
}

/// Gives that file its name, when its statement is true after any crash that leaves it there.
pub(crate) fn say_end<D: Disk>(disk: &D, identity: &Identity) -> io::Result<()> {
    disk.rename(&making(identity.life, END), &end_name(identity.life))
}

pub(crate) fn encode_header(
    identity: &Identity,
    (size, number): (u64, u64),
    (base, reach): (Lsn, Lsn),
    (last, block): (Name, u64),
) -> [u8; SEGMENT_HEADER] {
    let Identity { format, node, stream, streams, life, acceptor, shard } = *identity;
    let has_end = true;
    let of_segment = SegmentHeader {
        format,
        node,
        stream,
        streams,
        size,
        number,
        life,
        base,
        reach,
        has_end,
        acceptor,
        shard,
        last,
        block,
    };
    of_segment.encode()
}

/// A file that becomes a segment.
pub(crate) struct Segment<F> {
    pub(crate) file: F,
    pub(crate) name: String,
    pub(crate) size: u64,
    /// The lack for which it is smaller than other segments.
    pub(crate) short: Option<Lack>,
}

/// The size of a segment that holds nothing but a first block with a body of so many bytes.
pub(crate) fn least_size(format: Format, body: usize) -> u64 {
    (SEGMENT_HEADER + format.size(body)).next_multiple_of(PAGE) as u64
}

/// The size of the first segment of a life, unless a spare is there: whoever begins one must not wait until a whole
/// segment is filled with zeros. The next one is made ahead.
const FIRST: u64 = 4 << 20;

/// A file with room for `least` bytes: a spare, if possible. If the disk has no room for a segment of the usual size,
/// it has `least` bytes. So records that must be written are written, and a checkpoint that waits for them can free
/// room.
pub(crate) fn take<D: Disk>(disk: &D, spares: &Spares<D::File>, least: u64) -> io::Result<Segment<D::File>> {
    take_or_make(disk, spares, (least, spares.limits.size()))
}

/// As [`take`], for the first segment of a life.
pub(crate) fn take_first<D: Disk>(disk: &D, spares: &Spares<D::File>, least: u64) -> io::Result<Segment<D::File>> {
    take_or_make(disk, spares, (least, spares.limits.size().min(FIRST)))
}

fn take_or_make<D: Disk>(
    disk: &D,
    spares: &Spares<D::File>,
    (least, usual): (u64, u64),
) -> io::Result<Segment<D::File>> {
    if least <= spares.limits.size()
        && let Some((file, name)) = spares.take(disk)?
    {
        return Ok(Segment { file, name, size: spares.limits.size(), short: None });
    }
    let (name, size) = (making(spares.incarnation, u64::MAX), least.max(usual));
    match create_anew(disk, &name, size) {
        Err(error) if least < size && Lack::of(&error).is_some_and(Lack::is_of_disk) => {
            let file = create_anew(disk, &name, least)?;
            Ok(Segment { file, name, size: least, short: Lack::of(&error) })
        }
        made => Ok(Segment { file: made?, name, size, short: None }),
    }
}

/// A new file. One of that name is the rest of a step that had no room for the next: no file refers to it.
pub(crate) fn create_anew<D: Disk>(disk: &D, name: &str, size: u64) -> io::Result<D::File> {
    match disk.create(name, size) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            disk.remove(name)?;
            disk.create(name, size)
        }
        made => made,
    }
}
