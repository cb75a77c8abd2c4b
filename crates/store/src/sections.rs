//! The parts of `lsm-tree`'s files that are needed to judge them without it: the table of contents that ends each of
//! them, and the manifest.
//!
//! `lsm-tree` trusts lengths in a table of contents before it has compared its checksum, and its manifest without one.
//! So they are verified here first.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

use crate::Error;

/// The names that `lsm-tree` uses below the store's folder.
pub const TREE: &str = "tree";
/// Below [`TREE`]: the tables, by their numbers.
pub const TABLES: &str = "tables";
/// Below [`TREE`]: which manifest counts.
pub const CURRENT: &str = "current";

/// Bytes at the end of a file: magic, version, kind of checksum, checksum, position and length of the table of
/// contents.
const TRAILER: usize = 4 + 1 + 1 + 16 + 8 + 8;

/// A table of contents is a few hundred bytes.
const CONTENTS_MAX: u64 = 1 << 16;

/// A named part of a file: where it begins, and its length, both in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    pub name: Vec<u8>,
    pub at: u64,
    pub len: u64,
}

/// Reads bytes, or says that there are not enough.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|b| b[0])
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }
}

/// The sections of a file, after verifying its table of contents.
///
/// # Errors
///
/// The file cannot be read, or its table of contents is damaged.
pub fn sections(path: &Path) -> Result<Vec<Section>, Error> {
    let failed = |e: std::io::Error| Error::io(path, &e);
    let file = File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let end = size.checked_sub(TRAILER as u64).ok_or_else(|| Error::damaged(path, "it is too short"))?;
    let mut trailer = [0; TRAILER];
    file.read_exact_at(&mut trailer, end).map_err(failed)?;
    let broken = |what: &str| Error::Damaged { file: path.into(), offset: Some(end), what: what.into() };
    let mut reader = Reader(&trailer);
    let head = (reader.array(), reader.u8(), reader.u8());
    if head != (Some(*b"SFA!"), Some(1), Some(0)) {
        return Err(broken("it does not end as it must"));
    }
    let (Some(sum), Some(at), Some(len)) = (reader.u128(), reader.u64(), reader.u64()) else {
        return Err(broken("it does not end as it must"));
    };
    if len > CONTENTS_MAX || at.checked_add(len) != Some(end) {
        return Err(broken("its table of contents is not where it must be"));
    }
    let mut contents = vec![0; usize::try_from(len).unwrap_or(0)];
    file.read_exact_at(&mut contents, at).map_err(failed)?;
    if xxh3_128(&contents) != sum {
        let what = "the checksum of its table of contents does not match".into();
        return Err(Error::Damaged { file: path.into(), offset: Some(at), what });
    }
    let parsed = parse_contents(&contents).filter(|s| s.iter().all(|s| s.at.saturating_add(s.len) <= at));
    parsed.ok_or_else(|| broken("its table of contents makes no sense"))
}

fn parse_contents(bytes: &[u8]) -> Option<Vec<Section>> {
    let mut reader = Reader(bytes);
    if reader.take(4)? != b"TOC!" {
        return None;
    }
    let count = u32::from_le_bytes(reader.array()?);
    let mut found = Vec::new();
    for _ in 0..count {
        let (at, len) = (reader.u64()?, reader.u64()?);
        let name = u16::from_le_bytes(reader.array()?);
        found.push(Section { name: reader.take(name.into())?.to_vec(), at, len });
    }
    reader.0.is_empty().then_some(found)
}

/// A table that the manifest names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Named {
    pub id: u64,
    /// XXH3-128 of the whole file.
    pub checksum: u128,
}

/// The manifest that counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    /// Its number: the generation of the store.
    pub id: u64,
    pub tables: Vec<Named>,
}

/// The path of the manifest with this number.
pub fn manifest_path(tree: &Path, id: u64) -> PathBuf {
    tree.join(format!("v{id}"))
}

/// The path of a table.
pub fn table_path(tree: &Path, id: u64) -> PathBuf {
    tree.join(TABLES).join(id.to_string())
}

/// Reads `current`: the number of the manifest and its checksum.
///
/// # Errors
/// The file is not there, cannot be read, or is damaged.
pub fn read_current(tree: &Path) -> Result<(u64, u128), Error> {
    let path = tree.join(CURRENT);
    let bytes = fs::read(&path).map_err(|e| Error::io(&path, &e))?;
    let mut reader = Reader(&bytes);
    match (reader.u64(), reader.u128(), reader.u8(), reader.0.is_empty()) {
        (Some(id), Some(sum), Some(0), true) => Ok((id, sum)),
        _ => Err(Error::damaged(&path, "it is not a number and a checksum")),
    }
}

/// Reads the manifest that counts, after verifying its checksum.
///
/// # Errors
/// `current` or the manifest that it names is not there, cannot be read, or is damaged.
pub fn read_manifest(tree: &Path) -> Result<Manifest, Error> {
    let (id, sum) = read_current(tree)?;
    let path = manifest_path(tree, id);
    let bytes = fs::read(&path).map_err(|e| Error::io(&path, &e))?;
    if xxh3_128(&bytes) != sum {
        return Err(Error::damaged(&path, "its checksum is not the one that `current` names"));
    }
    let tables = sections(&path)?
        .into_iter()
        .find(|s| s.name == b"tables")
        .and_then(|s| {
            let start = usize::try_from(s.at).ok()?;
            let bytes = bytes.get(start..start.checked_add(usize::try_from(s.len).ok()?)?)?;
            parse_tables(bytes)
        })
        .ok_or_else(|| Error::damaged(&path, "its list of tables makes no sense"))?;
    Ok(Manifest { id, tables })
}

fn parse_tables(bytes: &[u8]) -> Option<Vec<Named>> {
    let mut reader = Reader(bytes);
    let mut found = Vec::new();
    for _ in 0..reader.u8()? {
        for _ in 0..reader.u8()? {
            for _ in 0..u32::from_le_bytes(reader.array()?) {
                let id = reader.u64()?;
                if reader.u8()? != 0 {
                    return None;
                }
                found.push(Named { id, checksum: reader.u128()? });
                reader.u64()?;
            }
        }
    }
    reader.0.is_empty().then_some(found)
}

/// Numbers of the manifests that are there, whether they count or not.
///
/// # Errors
/// The folder cannot be read.
pub fn manifests(tree: &Path) -> Result<Vec<u64>, Error> {
    let names = file_names(tree)?;
    Ok(names.iter().filter_map(|name| name.strip_prefix('v')?.parse().ok()).collect())
}

/// Names in a folder, sorted; those that are no text are left out.
///
/// # Errors
/// The folder cannot be read.
pub fn file_names(folder: &Path) -> Result<Vec<String>, Error> {
    let failed = |e: std::io::Error| Error::io(folder, &e);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}
