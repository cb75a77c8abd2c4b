//! The note about the shard whose data a node has from another node: the store is a checkpoint of that shard's owner, and
//! the shard's log is the copy that this node keeps.
//!
//! ```text
//! holdfast standby 1
//! shard N
//! log PATH                the directory of a stream of its log, in their order; absolute
//! end CRC                 CRC32C of all lines before this one, 8 digits of hexadecimal
//! ```
//! A store without the note is the node's own. The note is written when the store is whole, and goes before the store does.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crc_fast::{CrcAlgorithm, checksum};
use membership::ShardId;

/// The file, in the node's directory.
const NAME: &str = "holdfast/standby";
const FIRST: &str = "holdfast standby 1";

/// See the module's text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// The shard.
    pub shard: ShardId,
    /// The directories of the shard's log: one for each stream.
    pub logs: Vec<PathBuf>,
}

impl Note {
    /// The note in a node's directory, if there is one.
    ///
    /// # Errors
    /// It cannot be read, or is damaged. In words.
    pub fn read(dir: &Path) -> Result<Option<Self>, String> {
        let file = dir.join(NAME);
        let failed = |why: String| format!("{}: {why}", file.display());
        match fs::read(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error.to_string())),
            Ok(bytes) => Self::decode(&bytes).map(Some).map_err(|why| failed(why.to_owned())),
        }
    }

    /// Writes it: it is on the disk when this returns.
    ///
    /// # Errors
    /// The disk has no room, or has failed.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        let file = dir.join(NAME);
        let new = file.with_extension("new");
        let mut written = File::create(&new)?;
        written.write_all(&self.encode())?;
        written.sync_all()?;
        fs::rename(&new, &file)?;
        sync_above(&file)
    }

    /// Removes the note of a node's directory, if there is one.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(dir: &Path) -> io::Result<()> {
        let file = dir.join(NAME);
        match fs::remove_file(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => sync_above(&file),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut text = format!("{FIRST}\nshard {}\n", self.shard.0).into_bytes();
        for log in &self.logs {
            text.extend_from_slice(b"log ");
            text.extend_from_slice(log.as_os_str().as_bytes());
            text.push(b'\n');
        }
        let crc = checksum(CrcAlgorithm::Crc32Iscsi, &text);
        text.extend_from_slice(format!("end {crc:08x}\n").as_bytes());
        text
    }

    fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is no text")?;
        let (body, end) = text.rfind("end ").map(|at| text.split_at(at)).ok_or("it is cut short")?;
        if end != format!("end {:08x}\n", checksum(CrcAlgorithm::Crc32Iscsi, body.as_bytes())) {
            return Err("its checksum does not match");
        }
        let mut lines = body.lines();
        if lines.next() != Some(FIRST) {
            return Err("it is of a version that this build does not know");
        }
        let wrong = "a line of it cannot be read";
        let (mut shard, mut logs) = (None, Vec::new());
        for line in lines {
            match line.split_once(' ').ok_or(wrong)? {
                ("shard", number) => shard = Some(ShardId(number.parse().map_err(|_| wrong)?)),
                ("log", path) => logs.push(PathBuf::from(path)),
                _ => return Err(wrong),
            }
        }
        match shard {
            Some(shard) if !logs.is_empty() => Ok(Self { shard, logs }),
            _ => Err("it lacks a line"),
        }
    }
}

fn sync_above(file: &Path) -> io::Result<()> {
    file.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note() -> Note {
        Note { shard: ShardId(3), logs: vec!["/a b/c".into(), "/d".into()] }
    }

    #[test]
    fn golden_bytes() {
        let text = String::from_utf8(note().encode()).unwrap();
        let lines = "holdfast standby 1\nshard 3\nlog /a b/c\nlog /d\n";
        assert_eq!(text, format!("{lines}end {:08x}\n", checksum(CrcAlgorithm::Crc32Iscsi, lines.as_bytes())));
        assert_eq!(Note::decode(text.as_bytes()), Ok(note()));
    }

    #[test]
    fn a_damaged_note_is_told() {
        let bytes = note().encode();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(Note::decode(&damaged).is_err(), "byte {at}");
            assert!(Note::decode(&bytes[..at]).is_err(), "cut at {at}");
        }
        let sealed = |lines: &str| {
            let crc = checksum(CrcAlgorithm::Crc32Iscsi, lines.as_bytes());
            Note::decode(format!("{lines}end {crc:08x}\n").as_bytes())
        };
        let good = "holdfast standby 1\nshard 3\nlog /d\n";
        assert!(sealed(good).is_ok());
        for (line, other) in [("standby 1", "standby 2"), ("shard 3\n", ""), ("log /d\n", ""), ("3", "x")] {
            assert!(sealed(&good.replace(line, other)).is_err(), "{other}");
        }
        assert!(sealed(&(good.to_owned() + "more 1\n")).is_err());
    }

    #[test]
    fn a_note_is_written_read_and_removed() {
        let dir = std::env::temp_dir().join(format!("holdfast-note-{}", std::process::id()));
        fs::create_dir_all(dir.join("holdfast")).unwrap();
        assert_eq!(Note::read(&dir), Ok(None));
        Note::remove(&dir).unwrap();
        note().write(&dir).unwrap();
        assert_eq!(Note::read(&dir), Ok(Some(note())));
        fs::write(dir.join(NAME), b"nonsense").unwrap();
        assert!(Note::read(&dir).unwrap_err().ends_with("standby: it is cut short"));
        Note::remove(&dir).unwrap();
        assert_eq!(Note::read(&dir), Ok(None));
        fs::remove_dir_all(dir).unwrap();
    }
}
