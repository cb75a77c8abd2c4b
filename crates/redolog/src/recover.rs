//! Recovery: the part of the streams that survives a crash, in the order in which it happened.

use std::fmt;
use std::io;

use crate::Lsn;
use crate::chain::Chain;
use crate::copies::Lead;
use crate::disk::{Disk, File};
use crate::format::{Format, Name, SegmentHeader};
use crate::lack::Lack;
use crate::merge::merge;
use crate::place::Position;
use crate::scan::Scan;
use crate::segments::{Identity, Limits};
use crate::tail::{Put, Tail};
use crate::writer::Writer;

/// The reason why a log cannot be used. Nothing has been changed.
#[derive(Debug)]
pub enum Damage {
    /// Something is not as it was written.
    At {
        /// The file.
        file: String,
        /// Where in it, in bytes.
        offset: u64,
        /// The fault.
        what: &'static str,
    },
    /// The streams are not those of one node.
    Streams(String),
    /// A folder or file cannot be read or written.
    Io(io::Error),
}

impl Damage {
    pub(crate) fn at(file: &str, offset: u64, what: &'static str) -> Self {
        Damage::At { file: file.into(), offset, what }
    }
}

impl From<io::Error> for Damage {
    fn from(error: io::Error) -> Self {
        Damage::Io(error)
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::At { file, offset, what } => write!(f, "{file} at byte {offset}: {what}"),
            Damage::Streams(what) => f.write_str(what),
            Damage::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Damage {}

/// A record that survived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recovered<'a> {
    /// Its stream.
    pub stream: u16,
    /// Its position.
    pub lsn: Lsn,
    /// Its effects.
    pub effects: &'a [u8],
}

/// The findings.
pub struct Recovery<D: Disk> {
    scans: Vec<Scan<D>>,
    node: Option<[u8; 16]>,
    durable: Vec<Lsn>,
    /// The format that is wanted.
    format: Format,
    /// The end of each stream: known when all records have been read.
    ends: Option<Vec<Lsn>>,
    /// The claim of the process, if the log has copies.
    lead: Option<Lead>,
}

/// Reads the streams of a node, one folder each, in their order. Nothing is changed. `durable`: below these positions
/// everything is durable elsewhere, so that a dependency on it survived (rule L5); empty if nothing is.
///
/// # Errors
/// A folder cannot be read, its files are not of one log, or what had been synced is damaged.
pub fn recover<D: Disk>(disks: Vec<D>, durable: &[Lsn]) -> Result<Recovery<D>, Damage> {
    Recovery::of(disks.into_iter().map(Scan::new).collect::<Result<Vec<_>, _>>()?, durable)
}

impl<D: Disk> Recovery<D> {
    /// Of streams that were read.
    pub(crate) fn of(scans: Vec<Scan<D>>, durable: &[Lsn]) -> Result<Self, Damage> {
        let mut recovery =
            Recovery { scans, node: None, durable: durable.into(), format: Format::Four, ends: None, lead: None };
        recovery.check()?;
        Ok(recovery)
    }

    /// Checks that all segments are of one node and of all its streams (rule L11).
    fn check(&mut self) -> Result<(), Damage> {
        let Some(known) = self.scans.iter().find_map(|scan| scan.segments().first()).map(|segment| segment.header)
        else {
            return Ok(());
        };
        self.node = Some(known.node);
        // The first start may have ended before all streams began.
        let is_new = self.scans.iter().all(|scan| scan.records == 0 && scan.newest() <= 1);
        let first_of = |scan: &Scan<D>| match scan.segments().first() {
            Some(segment) if segment.header.node == known.node => format!("stream {}", segment.header.stream),
            Some(_) => "a stream of another node".into(),
            None => "nothing".into(),
        };
        let wrong = self.scans.iter().zip(0u16..).any(|(scan, stream)| {
            let of_set = |header: &SegmentHeader| (header.node, header.streams, header.stream);
            let wanted = (known.node, self.scans.len() as u16, stream);
            scan.segments().is_empty() && !is_new
                || scan.segments().iter().any(|segment| of_set(&segment.header) != wanted)
        });
        if wrong {
            let given: Vec<_> =
                self.scans.iter().map(|scan| format!("{} holds {}", scan.disk.describe(""), first_of(scan))).collect();
            return Err(Damage::Streams(format!(
                "the log consists of the streams 0 to {}, each in a folder of its own, in this order; given are {} folders: {}",
                known.streams.saturating_sub(1),
                given.len(),
                given.join(", ")
            )));
        }
        Ok(())
    }

    /// The node the log belongs to; `None` if there is no log yet.
    pub fn node(&self) -> Option<[u8; 16]> {
        self.node
    }

    /// Streams without any files: no start has begun them, or they are gone.
    pub fn missing(&self) -> impl Iterator<Item = u16> {
        self.scans.iter().zip(0..).filter(|(scan, _)| scan.segments().is_empty()).map(|(_, stream)| stream)
    }

    /// An LSN above all that were ever in the streams, cut records included (rule L1).
    pub fn highest(&self) -> Lsn {
        self.scans.iter().map(|scan| scan.highest).max().unwrap_or_default()
    }

    /// True if there is any record.
    pub fn has_records(&self) -> bool {
        self.scans.iter().any(|scan| scan.records > 0)
    }

    /// The highest incarnation that has written to it.
    pub fn incarnation(&self) -> u64 {
        let segments = self.scans.iter().flat_map(|scan| scan.segments());
        segments.map(|segment| segment.header.life).max().unwrap_or(0)
    }

    /// Has [`Self::open`] write this format, if no segment has a later one: by default the newest. A segment of an earlier
    /// format behind a later one could not say which block of the log comes before it.
    pub fn write_in(&mut self, format: Format) {
        self.format = format;
    }

    /// The latest format of what is there.
    pub(crate) fn found_format(&self) -> Option<Format> {
        let segments = self.scans.iter().flat_map(|scan| scan.segments());
        segments.map(|segment| segment.header.format).max()
    }

    /// The format that [`Self::open`] writes.
    pub fn format(&self) -> Format {
        self.found_format().map_or(self.format, |found| found.max(self.format))
    }

    /// Has [`Self::open`] begin the term of a log that has copies.
    pub(crate) fn lead(&mut self, lead: Lead) {
        self.lead = Some(lead);
    }

    /// The names of the blocks in a stream's folder: see [`Chain`].
    pub fn chain(&self, stream: u16) -> Option<&Chain> {
        self.scans.get(usize::from(stream)).map(|scan| &scan.chain)
    }

    /// The highest term that anything in it counts as, the upper bits of its lives included (rule G1).
    pub fn term(&self) -> u32 {
        self.last_term().max(Name::term_of(self.incarnation()))
    }

    fn last_term(&self) -> u32 {
        self.scans.iter().map(|scan| scan.chain.last().term).max().unwrap_or(0)
    }

    /// The term of a process that goes on with the log by itself: above all that wrote to it (rule G1).
    fn next_term(&self) -> Result<u32, Damage> {
        let last = self.last_term();
        match self.lead {
            Some(lead) if (last + 1..=Name::TERM_MAX).contains(&lead.term) => Ok(lead.term),
            Some(Lead { term, .. }) => {
                Err(Damage::Streams(format!("the log has blocks of term {last}, and {term} is to begin")))
            }
            None if last < Name::TERM_MAX => Ok(last + 1),
            None => Err(Damage::Streams("no term is left for another start of this log".into())),
        }
    }

    /// The begin of each stream: records at or below are not there any more; 0 if nothing is missing.
    pub fn bases(&self) -> Vec<Lsn> {
        self.scans.iter().map(Scan::begins).collect()
    }

    /// Files whose ends were torn, and the offset in bytes: nothing behind that had been synced.
    pub fn torn(&self) -> impl Iterator<Item = &(String, u64)> {
        self.scans.iter().filter_map(|scan| scan.torn.as_ref())
    }

    /// A planted bug: readable records are taken for durable.
    #[cfg(test)]
    pub(crate) fn trust_the_tail(&mut self) {
        self.scans.iter_mut().for_each(|scan| scan.synced = scan.end);
    }

    /// The end of each stream. Reads the records of several streams, unless [`Self::replay`] has.
    ///
    /// # Errors
    ///
    /// A disk has failed to read, or synced bytes are damaged.
    pub fn ends(&mut self) -> Result<Vec<Lsn>, Damage> {
        match (&self.ends, &self.scans[..]) {
            (Some(ends), _) => return Ok(ends.clone()),
            (None, [scan]) => self.ends = Some(vec![scan.end]),
            (None, _) => self.replay(|_| {})?,
        }
        Ok(self.ends.clone().unwrap_or_default())
    }

    /// Calls `f` with every record that survived, in the order of their LSNs over all streams (rule L2): see
    /// [`merge`](crate::merge::merge).
    ///
    /// # Errors
    ///
    /// A disk has failed to read, or synced bytes are damaged.
    pub fn replay(&mut self, f: impl FnMut(Recovered<'_>)) -> Result<(), Damage> {
        let ends = self.scans.iter().map(|scan| scan.end).collect();
        self.ends = Some(merge(self.scans.iter().map(Scan::cursor).collect(), ends, &self.durable, f)?);
        Ok(())
    }

    /// Makes everything at or above `lsn`, in any stream, void: [`Self::open`] cuts it. To be called after
    /// [`Self::replay`].
    ///
    /// # Errors
    ///
    /// A disk has failed to read, or synced bytes are damaged.
    pub fn void_from(&mut self, lsn: Lsn) -> Result<(), Damage> {
        let ends = self.ends()?;
        self.ends = Some(ends.into_iter().map(|end| end.min(lsn.before())).collect());
        Ok(())
    }

    /// Goes on with the streams. Cut records are cut for good before the first append (rule L5), and bytes that may not
    /// be durable are written again (rule L9). `incarnation` is above [`Self::incarnation`].
    ///
    /// # Errors
    ///
    /// A disk has failed to read, write or sync.
    ///
    /// # Panics
    ///
    /// If it is not.
    pub fn open(self, node: [u8; 16], incarnation: u64, limits: Limits) -> Result<Vec<Writer<D>>, Damage> {
        self.open_all(node, incarnation, limits, false)
    }

    /// As [`Self::open`], but a stream without room for its segment begins it later: see [`Placer::waiting`](crate::place::Placer::waiting). A stream
    /// of which records were cut may not: other streams append meanwhile, and those records could revive (rule L5).
    ///
    /// # Panics
    ///
    /// As [`Self::open`].
    pub(crate) fn open_with_lacks(
        self,
        node: [u8; 16],
        incarnation: u64,
        limits: Limits,
    ) -> Result<Vec<Writer<D>>, Damage> {
        self.open_all(node, incarnation, limits, true)
    }

    fn open_all(
        mut self,
        node: [u8; 16],
        incarnation: u64,
        limits: Limits,
        may_wait: bool,
    ) -> Result<Vec<Writer<D>>, Damage> {
        assert!(incarnation > self.incarnation(), "an incarnation is above all earlier ones");
        let ends = self.ends()?;
        let (format, term) = (self.format(), self.next_term()?);
        let streams = self.scans.len() as u16;
        let mut writers = Vec::new();
        for ((scan, end), stream) in self.scans.into_iter().zip(ends).zip(0..) {
            let base = scan.synced.min(end);
            let tail = Tail { scan: &scan, base, end, format, block: limits.block };
            let life = incarnation;
            let (acceptor, shard) = self.lead.map_or(([0; 16], 0), |lead| (lead.acceptor, lead.shard));
            if self.lead.is_some() && base < end {
                // A block that is written again would get a name of this term, and copies have another one there.
                return Err(Damage::Streams(format!(
                    "{}: the log goes to {end}, and is on the disk up to {base} only",
                    scan.disk.describe("")
                )));
            }
            let identity = Identity { format, node, stream, streams, life, acceptor, shard };
            let spares = keep_spares(&scan, &limits)?;
            let (segment, block, last, full) = (scan.newest(), scan.number, scan.chain.last(), scan.full());
            let needed = tail.size()?;
            let position = Position { segment, block, last, base, end, tail: needed, full, spares };
            let blocks = |put: &mut Put<'_>| tail.blocks(put);
            let mut writer = Writer::begin(scan.disk.clone(), identity, limits, position.clone(), term, blocks);
            let lack = match &writer {
                Err(Damage::Io(error)) => Lack::of(error),
                _ => None,
            };
            let can_wait = may_wait && end == scan.end && !scan.segments().is_empty();
            if let Some(lack) = lack.filter(|_| can_wait) {
                let written = scan.write_in_place().map_err(Damage::from);
                writer =
                    written.and_then(|()| Writer::waiting(scan.disk.clone(), identity, limits, position, term, lack));
            }
            writers.push(writer.map_err(|damage| match damage {
                Damage::Io(error) if Lack::of(&error).is_some() => Damage::Streams(format!(
                    "{}: the segment of at least {needed} bytes that a start writes cannot be made: {error}",
                    scan.disk.describe("")
                )),
                damage => damage,
            })?);
        }
        Ok(writers)
    }
}

/// Removes the files that are of no use, and returns those that can be used.
pub(crate) fn keep_spares<D: Disk>(scan: &Scan<D>, limits: &Limits) -> io::Result<Vec<String>> {
    let mut kept = Vec::new();
    for name in &scan.litter {
        scan.disk.remove(name)?;
    }
    for name in &scan.spares {
        if kept.len() < limits.spares && scan.disk.open(name)?.size()? == limits.size() {
            kept.push(name.clone());
        } else {
            scan.disk.remove(name)?;
        }
    }
    if !kept.is_empty() {
        // The process before may have ended in between: a crash must not find a new header under an old name.
        scan.disk.sync()?;
    }
    Ok(kept)
}
