//! Verifies a store offline: every checksum of every file. Nothing is changed.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

use crate::identity;
use crate::sections::{
    CURRENT, TABLES, TREE, file_names, manifest_path, manifests, read_current, read_manifest, sections, table_path,
};
use crate::{Error, Generation};

/// Bytes before the content of a block: magic, kind, checksum of the content, its length and its length before
/// compression. They end with four bytes of a checksum of all that.
const HEADER: usize = 4 + 1 + 16 + 4 + 4 + 4;

const MAGIC: [u8; 4] = *b"LSM\x03";

/// Something about a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Which file or folder.
    pub file: PathBuf,
    /// The offset in bytes, if that is known.
    pub offset: Option<u64>,
    /// The fault.
    pub what: String,
    /// True if something is lost or wrong. If not, it is only in the way: the next open removes it.
    pub damage: bool,
}

/// The findings.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Report {
    /// The node whose data it is; `None` if that cannot be read.
    pub node: Option<[u8; 16]>,
    /// The durable state; `None` if that cannot be read.
    pub generation: Option<Generation>,
    /// Files that were verified.
    pub files: u64,
    /// Bytes that were verified.
    pub bytes: u64,
    /// The faults.
    pub findings: Vec<Finding>,
}

impl Report {
    /// True if everything that counts is as it was written.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.findings.iter().all(|finding| !finding.damage)
    }

    fn error(&mut self, error: Error, folder: &Path) {
        let finding = match error {
            Error::Damaged { file, offset, what } => Finding { file, offset, what, damage: true },
            Error::Io { file, what } => Finding { file, offset: None, what, damage: true },
            other => Finding { file: folder.into(), offset: None, what: other.to_string(), damage: true },
        };
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    fn left_over(&mut self, file: PathBuf, what: &str) {
        self.findings.push(Finding { file, offset: None, what: what.into(), damage: false });
    }
}

/// Verifies every checksum of the store in `folder`, which must not be open. Takes as long as reading it takes.
///
/// Fails only if that cannot be done at all: the folder cannot be read, is in use, or was never a store.
///
/// # Errors
/// The folder cannot be read, is in use, or was never a store.
pub fn check(folder: &Path) -> Result<Report, Error> {
    let mut report = Report::default();
    let names = file_names(folder)?;
    let tree = folder.join(TREE);
    if !names.iter().any(|name| name == identity::FILE || name == TREE) {
        return Err(Error::refused(folder, "not a store"));
    }
    let mut locked = None;
    match identity::read(folder) {
        Ok(Some(found)) => {
            report.node = Some(found.node);
            report.files += 1;
            report.bytes += identity::SIZE as u64;
        }
        Ok(None) => report.error(Error::damaged(&folder.join(identity::FILE), "it is missing"), folder),
        Err(error) => report.error(error, folder),
    }
    if names.iter().any(|name| name == identity::FILE) {
        locked = Some(identity::lock(folder)?);
    }
    for name in names.iter().filter(|name| *name != identity::FILE && *name != TREE) {
        report.left_over(folder.join(name), "not a file of a store");
    }
    if !tree.join(CURRENT).exists() && !is_used(&tree) {
        // It was made and never written to.
        report.generation = report.is_whole().then_some(0);
        return Ok(report);
    }
    check_tree(&tree, &mut report);
    drop(locked);
    Ok(report)
}

/// True if there is anything that only a store with a manifest has.
fn is_used(tree: &Path) -> bool {
    manifests(tree).is_ok_and(|found| found.iter().any(|&id| id > 0))
        || file_names(&tree.join(TABLES)).is_ok_and(|names| !names.is_empty())
}

fn check_tree(tree: &Path, report: &mut Report) {
    let manifest = match read_manifest(tree) {
        Ok(manifest) => manifest,
        Err(error) => {
            report.error(error, tree);
            // Without it nothing says which tables count. Their blocks can still be verified.
            for name in file_names(&tree.join(TABLES)).unwrap_or_default() {
                let path = tree.join(TABLES).join(name);
                if let Some(error) = locate(&path) {
                    report.error(error, tree);
                }
            }
            return;
        }
    };
    report.generation = Some(manifest.id);
    for path in [tree.join(CURRENT), manifest_path(tree, manifest.id)] {
        report.files += 1;
        report.bytes += path.metadata().map_or(0, |m| m.len());
    }
    for table in &manifest.tables {
        let path = table_path(tree, table.id);
        report.files += 1;
        report.bytes += path.metadata().map_or(0, |m| m.len());
        if let Some(error) = verify_table(&path, table.checksum) {
            report.error(error, tree);
        }
    }
    let counts = format!("v{}", manifest.id);
    for name in file_names(tree).unwrap_or_default() {
        let number: Option<u64> = name.strip_prefix('v').and_then(|n| n.parse().ok());
        match number {
            Some(id) if id > manifest.id + 1 => {
                let what = format!("it names manifest {}, but there is a manifest {id}: an old copy", manifest.id);
                report.error(Error::damaged(&tree.join(CURRENT), what), tree);
            }
            Some(_) if name != counts => report.left_over(tree.join(name), "a manifest that does not count"),
            None if name.starts_with(".tmp") => report.left_over(tree.join(name), "a temporary file"),
            None if name != CURRENT && name != TABLES => report.left_over(tree.join(name), "not a file of a store"),
            _ => {}
        }
    }
    for name in file_names(&tree.join(TABLES)).unwrap_or_default() {
        let number = name.parse().ok().filter(|id: &u64| id.to_string() == name);
        if !number.is_some_and(|id| manifest.tables.iter().any(|table| table.id == id)) {
            report.left_over(tree.join(TABLES).join(name), "a table that does not count");
        }
    }
    // If `current` is still the same, no server wrote meanwhile.
    if read_current(tree).map(|(id, _)| id) != Ok(manifest.id) {
        report.error(Error::damaged(&tree.join(CURRENT), "it changed while it was read"), tree);
    }
}

/// The fault of a table, given the checksum that the manifest has for it.
pub(crate) fn verify_table(path: &Path, checksum: u128) -> Option<Error> {
    match hash(path) {
        Ok(found) if found == checksum => None,
        Ok(_) => {
            let unknown = || Error::damaged(path, "its checksum is not the one that the manifest names");
            Some(locate(path).unwrap_or_else(unknown))
        }
        Err(error) => Some(Error::io(path, &error)),
    }
}

fn hash(path: &Path) -> io::Result<u128> {
    let mut file = File::open(path)?;
    let mut hasher = Xxh3Default::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.digest128()),
            n => hasher.update(&buffer[..n]),
        }
    }
}

/// The first damage in a table that shows without the manifest: its ends, and the checksums of its blocks one by one.
pub(crate) fn locate(path: &Path) -> Option<Error> {
    let sections = match sections(path) {
        Ok(sections) => sections,
        Err(error) => return Some(error),
    };
    let blocks = |name: &[u8]| matches!(name, b"data" | b"tli" | b"index" | b"filter" | b"filter_tli" | b"meta");
    let bad = sections.iter().filter(|section| blocks(&section.name)).find_map(|section| {
        let walked = walk(path, section.at, section.len);
        walked.err().map(|(at, what)| Error::Damaged { file: path.into(), offset: Some(at), what })
    });
    bad.or_else(|| {
        let version = sections.iter().any(|s| s.name == b"table_version");
        (!version).then(|| Error::damaged(path, "it is not a table"))
    })
}

/// Verifies the blocks from `start` on; returns where the first bad one is, and its fault.
fn walk(path: &Path, start: u64, len: u64) -> Result<(), (u64, String)> {
    use std::io::{Seek, SeekFrom};
    let failed = |e: io::Error| (start, e.to_string());
    let mut file = BufReader::with_capacity(1 << 18, File::open(path).map_err(failed)?);
    file.seek(SeekFrom::Start(start)).map_err(failed)?;
    let mut at = 0;
    let mut content = Vec::new();
    while at < len {
        let bad = |what: &str| (start + at, what.to_owned());
        let mut header = [0; HEADER];
        file.read_exact(&mut header).map_err(|e| bad(&e.to_string()))?;
        let (body, sum) = header.split_at(HEADER - 4);
        if header[..4] != MAGIC || xxh3_128(body).to_le_bytes()[..4] != *sum {
            return Err(bad("the header of a block is not what was written"));
        }
        let mut checksum = [0; 16];
        checksum.copy_from_slice(&header[5..21]);
        let size = u32::from_le_bytes([header[21], header[22], header[23], header[24]]);
        at += (HEADER as u64) + u64::from(size);
        if at > len {
            return Err((start + at, "a block is longer than its section".into()));
        }
        content.resize(size as usize, 0);
        let begin = start + at - u64::from(size);
        file.read_exact(&mut content).map_err(|e| (begin, e.to_string()))?;
        if xxh3_128(&content) != u128::from_le_bytes(checksum) {
            return Err((begin, "the checksum of a block does not match".into()));
        }
    }
    Ok(())
}
