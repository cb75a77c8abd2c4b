//! Verifies a log that no server uses, and changes nothing (`holdfast check`).

use std::fmt;
use std::path::PathBuf;

use crate::Lsn;
use crate::disk::{Disk, Folder};
use crate::recover::{Damage, Recovery};
use crate::run::open::hold_all;
use crate::scan::Scan;

/// The findings about the folder of a stream.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StreamReport {
    /// The folder.
    pub folder: String,
    /// Segments in use.
    pub segments: usize,
    /// Blocks whose checksums are right, in one unbroken chain.
    pub blocks: u64,
    /// Records in them, those included that a crash has made void.
    pub records: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// The end of the valid part of the stream.
    pub end: Lsn,
    /// A file with a torn end, and where in it, in bytes: the server cuts it off at its start.
    pub torn: Option<(String, u64)>,
    /// The reason why a server does not start with it.
    pub damage: Option<String>,
}

/// The findings about a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// By stream.
    pub streams: Vec<StreamReport>,
    /// Records that are valid.
    pub survive: u64,
    /// The faults of the streams together.
    pub damage: Option<String>,
}

/// A number as a report writes it: `1 record`, `2 records`.
pub fn counted(n: u64, one: &str) -> String {
    format!("{n} {one}{}", if n == 1 { "" } else { "s" })
}

impl Report {
    /// True if the log is as it was written.
    pub fn is_sound(&self) -> bool {
        self.damage.is_none() && self.streams.iter().all(|stream| stream.damage.is_none())
    }
}

impl fmt::Display for StreamReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StreamReport { folder, segments, blocks, records, bytes, end, torn, damage } = self;
        if let Some(damage) = damage {
            return write!(f, "{folder}: DAMAGED: {damage}");
        }
        write!(
            f,
            "{folder}: {}, {}, {} of {}, up to {end}",
            counted(*segments as u64, "segment"),
            counted(*blocks, "block"),
            counted(*records, "record"),
            counted(*bytes, "byte")
        )?;
        match torn {
            Some((file, at)) => write!(f, "; {file} is torn at byte {at}: what follows was never synced"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.streams.iter().try_for_each(|stream| writeln!(f, "{stream}"))?;
        match &self.damage {
            Some(damage) => writeln!(f, "DAMAGED: {damage}"),
            None => {
                let valid = counted(self.survive, "valid record");
                writeln!(f, "{valid}: a start applies those that the store does not have")
            }
        }
    }
}

/// Verifies every checksum of a log, given the folders of its streams in their order.
///
/// # Errors
/// If a folder cannot be read, or a server uses it.
pub fn check(folders: &[PathBuf]) -> Result<Report, Damage> {
    let _locks = hold_all(folders)?;
    Ok(examine(folders.iter().map(|folder| Folder::to_read(folder)).collect()))
}

/// Verifies the streams on these disks.
pub(crate) fn examine<D: Disk>(disks: Vec<D>) -> Report {
    let mut report = Report::default();
    let mut scans = Vec::new();
    for disk in disks {
        let mut found = StreamReport { folder: disk.describe(""), ..StreamReport::default() };
        match Scan::new(disk) {
            Ok(scan) => {
                found.segments = scan.segments().len();
                (found.blocks, found.records, found.bytes) = (scan.blocks, scan.records, scan.bytes);
                (found.end, found.torn) = (scan.end, scan.torn.clone());
                scans.push(scan);
            }
            Err(damage) => found.damage = Some(damage.to_string()),
        }
        report.streams.push(found);
    }
    if scans.len() < report.streams.len() {
        return report;
    }
    let replayed = Recovery::of(scans, &[]).and_then(|mut recovery| recovery.replay(|_| report.survive += 1));
    report.damage = replayed.err().map(|damage| damage.to_string());
    report
}
