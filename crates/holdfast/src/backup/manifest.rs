//! The file `BACKUP` of a backup, which is written last: what belongs to it, with checksums. Lines of text:
//!
//! ```text
//! holdfast backup 1
//! made TIME                       unix milliseconds of the moment
//! streams N                       of the log: the folders log-0, log-1, ...; the store is in the folder store
//! file CRC SIZE PATH              CRC32C, 8 digits of hexadecimal; bytes; below the backup's directory
//! end CRC                         CRC32C of all lines before this one
//! ```

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use crc_fast::{CrcAlgorithm, Digest, checksum};

/// Its name.
pub const NAME: &str = "BACKUP";
const FIRST: &str = "holdfast backup 1";
/// Bytes read at once.
const CHUNK: usize = 1 << 20;

/// A file of a backup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// CRC32C of its contents.
    pub crc: u32,
    /// Bytes.
    pub size: u64,
    /// Below the backup's directory.
    pub path: PathBuf,
}

/// See the module's text.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Manifest {
    /// Unix milliseconds.
    pub made: u64,
    /// Streams of the log.
    pub streams: usize,
    /// All files but this.
    pub files: Vec<Entry>,
}

impl Manifest {
    /// As text.
    pub fn encode(&self) -> String {
        let mut text = format!("{FIRST}\nmade {}\nstreams {}\n", self.made, self.streams);
        for Entry { crc, size, path } in &self.files {
            text += &format!("file {crc:08x} {size} {}\n", path.display());
        }
        let crc = checksum(CrcAlgorithm::Crc32Iscsi, text.as_bytes());
        text + &format!("end {crc:08x}\n")
    }

    /// From text; the error says what is wrong with it.
    pub fn decode(text: &str) -> Result<Self, String> {
        let newer = |first: &&str| first.starts_with("holdfast backup ");
        match text.lines().next() {
            Some(FIRST) => {}
            Some(first) if newer(&first) => {
                return Err(format!("'{first}' is a format that this version does not know"));
            }
            _ => return Err("it does not begin as the list of a backup does".into()),
        }
        let (body, end) = text.rfind("end ").map(|at| text.split_at(at)).ok_or("it is cut short")?;
        if end != format!("end {:08x}\n", checksum(CrcAlgorithm::Crc32Iscsi, body.as_bytes())) {
            return Err("its checksum does not match".into());
        }
        let mut manifest = Manifest::default();
        for line in body.lines().skip(1) {
            let wrong = || format!("'{line}' is not a line of it");
            let (word, rest) = line.split_once(' ').ok_or_else(wrong)?;
            match word {
                "made" => manifest.made = rest.parse().map_err(|_| wrong())?,
                "streams" => manifest.streams = rest.parse().map_err(|_| wrong())?,
                "file" => {
                    let mut parts = rest.splitn(3, ' ');
                    let mut next = || parts.next().ok_or_else(wrong);
                    let crc = u32::from_str_radix(next()?, 16).map_err(|_| wrong())?;
                    let size = next()?.parse().map_err(|_| wrong())?;
                    let path = PathBuf::from(next()?);
                    if !path.components().all(|part| matches!(part, Component::Normal(_))) {
                        return Err(wrong());
                    }
                    manifest.files.push(Entry { crc, size, path });
                }
                _ => return Err(wrong()),
            }
        }
        Ok(manifest)
    }

    /// When it was made: unix seconds, as text.
    pub fn moment(&self) -> String {
        format!("{}.{:03}", self.made / 1000, self.made % 1000)
    }

    /// Reads that of the backup in `folder`.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let path = folder.join(NAME);
        let text = fs::read_to_string(&path).map_err(|error| {
            let why = if error.kind() == io::ErrorKind::NotFound {
                " (this is no backup, or not a complete one)"
            } else {
                ""
            };
            format!("{}: {error}{why}", path.display())
        })?;
        Self::decode(&text).map_err(|why| format!("{}: {why}", path.display()))
    }

    /// Writes it to `folder`, durably, so that it is there whole or not at all.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let temporary = folder.join("BACKUP.new");
        let mut file = File::create_new(&temporary)?;
        file.write_all(self.encode().as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, folder.join(NAME))?;
        sync(folder)
    }
}

/// Makes the names in a folder durable.
pub fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Reads a file to its end, giving `f` what it reads: its CRC32C and size.
pub fn read_all(path: &Path, mut f: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<(u32, u64)> {
    let (mut file, mut buffer) = (File::open(path)?, vec![0; CHUNK]);
    let (mut digest, mut size) = (Digest::new(CrcAlgorithm::Crc32Iscsi), 0);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((digest.finalize() as u32, size)),
            n => {
                digest.update(&buffer[..n]);
                size += n as u64;
                f(&buffer[..n])?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_text() {
        let files = vec![
            Entry { crc: 0x1234, size: 5, path: "log-0/0000000000000001.log".into() },
            Entry { crc: 0xffff_ffff, size: 0, path: "store/STORE".into() },
        ];
        let manifest = Manifest { made: 1_700_000_000_000, streams: 1, files };
        let text = concat!(
            "holdfast backup 1\n",
            "made 1700000000000\n",
            "streams 1\n",
            "file 00001234 5 log-0/0000000000000001.log\n",
            "file ffffffff 0 store/STORE\n",
        );
        let whole = manifest.encode();
        assert_eq!(whole.strip_prefix(text).map(str::len), Some("end 01234567\n".len()));
        assert_eq!(Manifest::decode(&whole), Ok(manifest));
        for at in 0..whole.len() {
            let mut wrong = whole.clone().into_bytes();
            wrong[at] ^= 1;
            assert!(
                String::from_utf8(wrong).map_err(drop).and_then(|text| Manifest::decode(&text).map_err(drop)).is_err()
            );
            assert!(Manifest::decode(&whole[..at]).is_err());
        }
    }

    #[test]
    fn paths_stay_inside() {
        for path in ["../x", "/x", "a/../../x"] {
            let files = vec![Entry { crc: 0, size: 0, path: path.into() }];
            assert!(Manifest::decode(&Manifest { made: 0, streams: 1, files }.encode()).is_err(), "{path}");
        }
    }
}
