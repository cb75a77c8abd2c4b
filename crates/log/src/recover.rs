//! Recovery: what of the streams survives a crash, and in which order it happened.

use std::collections::VecDeque;
use std::fmt;
use std::io;

use crate::disk::Disk;
use crate::scan::{Owned, Scan};
use crate::writer::{Identity, Limits, Position, Writer};
use crate::{Lsn, stream_of};

/// Why a log cannot be used. Nothing has been changed.
#[derive(Debug)]
pub enum Damage {
    /// Something is not as it was written.
    At {
        /// The file.
        file: String,
        /// Where in it, in bytes.
        offset: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// The streams are not those of one node.
    Streams(String),
    /// A folder or file cannot be read or written.
    Io(io::Error),
}

impl Damage {
    pub(crate) fn at(file: &str, offset: usize, what: &'static str) -> Self {
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
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// Its stream.
    pub stream: u16,
    /// Its position.
    pub lsn: Lsn,
    /// What it did.
    pub effects: Box<[u8]>,
}

/// What was found.
pub struct Recovery<D: Disk> {
    scans: Vec<Scan<D>>,
    node: Option<[u8; 16]>,
}

/// Reads the streams of a node, one folder each, in their order. `durable`: below these positions everything is durable
/// elsewhere, so that a dependency on it survived (rule L5); empty if nothing is.
pub fn recover<D: Disk>(disks: Vec<D>, durable: &[Lsn]) -> Result<Recovery<D>, Damage> {
    let scans = disks.into_iter().map(Scan::new).collect::<Result<Vec<_>, _>>()?;
    let mut recovery = Recovery { scans, node: None };
    recovery.check()?;
    recovery.cut(durable)?;
    Ok(recovery)
}

impl<D: Disk> Recovery<D> {
    /// Whether all segments are of one node and of all its streams (rule L11).
    fn check(&mut self) -> Result<(), Damage> {
        let count = self.scans.len();
        let found = self.scans.iter().enumerate().flat_map(|(i, scan)| scan.headers().map(move |(n, h)| (i, n, h)));
        for (index, name, header) in found {
            if usize::from(header.streams) != count {
                let what = format!("{name} is of a log with {} streams, not {count}", header.streams);
                return Err(Damage::Streams(what));
            }
            if usize::from(header.stream) != index {
                let what = format!("{name} is of stream {}, but stands where stream {index} should be", header.stream);
                return Err(Damage::Streams(what));
            }
            if *self.node.get_or_insert(header.node) != header.node {
                return Err(Damage::Streams(format!("{name} is of another node")));
            }
        }
        Ok(())
    }

    /// Cuts each stream at the first record whose dependencies did not survive, until nothing changes (rule L5).
    fn cut(&mut self, durable: &[Lsn]) -> Result<(), Damage> {
        if self.scans.len() < 2 {
            return Ok(());
        }
        loop {
            let ends: Vec<Lsn> = self.scans.iter().map(|scan| scan.end).collect();
            let survived = |&dependency: &Lsn| {
                let stream = usize::from(stream_of(dependency));
                let end = ends.get(stream).copied().unwrap_or(0).max(durable.get(stream).copied().unwrap_or(0));
                dependency <= end
            };
            let mut changed = false;
            for scan in &mut self.scans {
                let mut first_lost = Lsn::MAX;
                scan.groups(|group| {
                    let lost = group.iter().find(|record| !record.dependencies.iter().all(survived));
                    first_lost = first_lost.min(lost.map_or(Lsn::MAX, |record| record.lsn));
                    Ok(())
                })?;
                if first_lost <= scan.end {
                    scan.end = first_lost - 1;
                    changed = true;
                }
            }
            if !changed {
                return Ok(());
            }
        }
    }

    /// The node the log belongs to; `None` if there is no log yet.
    pub fn node(&self) -> Option<[u8; 16]> {
        self.node
    }

    /// Above everything there ever was in the streams, what was cut included (rule L1).
    pub fn highest(&self) -> Lsn {
        self.scans.iter().map(|scan| scan.highest).max().unwrap_or(0)
    }

    /// The highest incarnation that has written to it.
    pub fn incarnation(&self) -> u64 {
        let headers = self.scans.iter().flat_map(|scan| scan.headers().map(|(_, header)| header.incarnation));
        headers.max().unwrap_or(0)
    }

    /// Where each stream ends.
    pub fn ends(&self) -> Vec<Lsn> {
        self.scans.iter().map(|scan| scan.end).collect()
    }

    /// Files whose ends were torn, and where: nothing behind that had been synced.
    pub fn torn(&self) -> impl Iterator<Item = &(String, usize)> {
        self.scans.iter().filter_map(|scan| scan.torn.as_ref())
    }

    /// Calls `f` with every record that survived, in the order of their LSNs over all streams (rule L2).
    pub fn replay(&self, mut f: impl FnMut(Recovered)) -> Result<(), Damage> {
        // One stream needs no merging, and no memory for more than a group.
        if let [scan] = &self.scans[..] {
            return scan.groups(|group| {
                group.into_iter().for_each(|Owned { lsn, effects, .. }| f(Recovered { stream: 0, lsn, effects }));
                Ok(())
            });
        }
        let mut streams: Vec<VecDeque<Owned>> = Vec::new();
        for scan in &self.scans {
            let mut records = VecDeque::new();
            scan.groups(|group| {
                records.extend(group);
                Ok(())
            })?;
            streams.push(records);
        }
        loop {
            let next = streams.iter().enumerate().filter_map(|(i, records)| records.front().map(|r| (r.lsn, i))).min();
            let Some((_, stream)) = next else { return Ok(()) };
            if let Some(Owned { lsn, effects, .. }) = streams[stream].pop_front() {
                f(Recovered { stream: stream as u16, lsn, effects });
            }
        }
    }

    /// Goes on with the streams: what was cut is cut for good before the first append (rule L5). `incarnation` is above
    /// [`Self::incarnation`].
    ///
    /// # Panics
    /// If it is not.
    pub fn open(self, node: [u8; 16], incarnation: u64, limits: Limits) -> io::Result<Vec<Writer<D>>> {
        assert!(incarnation > self.incarnation(), "an incarnation is above all earlier ones");
        let streams = self.scans.len() as u16;
        let each = self.scans.into_iter().enumerate().map(|(index, scan)| {
            let identity = Identity { node, stream: index as u16, streams, incarnation };
            let position = Position {
                number: scan.number(),
                sequence: scan.sequence,
                cut: scan.end,
                full: scan.full(),
                spares: scan.spares,
            };
            Writer::begin(scan.disk, identity, limits, position)
        });
        each.collect()
    }
}
