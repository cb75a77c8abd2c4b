//! The file `STORE`: the owner of a folder's data, and their format. It is also locked while a store is open.

use std::fs::{self, File, TryLockError};
use std::io::{Read, Write};
use std::path::Path;

use crc_fast::{CrcAlgorithm, checksum};

use crate::Error;

/// Name of the file.
pub const FILE: &str = "STORE";

/// Its name while it is written.
pub const NEW: &str = "STORE.new";

/// Bytes of the file.
pub const SIZE: usize = 64;

const MAGIC: &[u8; 8] = b"HOLDSTO1";

/// The format that this code writes and reads.
pub const VERSION: u32 = 1;

/// Tables and manifest as `lsm-tree` 3 writes them.
const ENGINE_LSM_TREE_3: u32 = 1;

/// The node whose data a folder holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The node whose data it is.
    pub node: [u8; 16],
}

impl Identity {
    /// As bytes.
    pub fn encode(&self) -> [u8; SIZE] {
        let mut out = [0; SIZE];
        out[..8].copy_from_slice(MAGIC);
        out[12..16].copy_from_slice(&VERSION.to_le_bytes());
        out[16..20].copy_from_slice(&ENGINE_LSM_TREE_3.to_le_bytes());
        out[20..36].copy_from_slice(&self.node);
        let crc = crc(&out[12..]);
        out[8..12].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// From the bytes of the file at `path`.
    ///
    /// # Errors
    /// The file is damaged, or of a format that this build does not read.
    pub fn decode(path: &Path, bytes: &[u8]) -> Result<Self, Error> {
        let folder = path.parent().unwrap_or(path);
        let Ok(bytes) = <&[u8; SIZE]>::try_from(bytes) else {
            return Err(Error::damaged(path, format!("it has {} bytes and not {SIZE}", bytes.len())));
        };
        if &bytes[..8] != MAGIC {
            return Err(Error::damaged(path, "it does not begin as the file of a store does"));
        }
        if number(bytes, 8) != crc(&bytes[12..]) {
            return Err(Error::damaged(path, "its checksum does not match"));
        }
        let (version, engine) = (number(bytes, 12), number(bytes, 16));
        if version != VERSION {
            let why = format!("the format of this store is {version}; this version reads {VERSION}");
            return Err(Error::refused(folder, why));
        }
        if engine != ENGINE_LSM_TREE_3 {
            return Err(Error::refused(folder, format!("tables of an unknown kind, {engine}")));
        }
        let mut node = [0; 16];
        node.copy_from_slice(&bytes[20..36]);
        Ok(Self { node })
    }
}

fn number(bytes: &[u8; SIZE], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn crc(bytes: &[u8]) -> u32 {
    u32::try_from(checksum(CrcAlgorithm::Crc32Iscsi, bytes) & 0xffff_ffff).unwrap_or(0)
}

/// Writes the file so that it is there whole or not at all.
///
/// # Errors
/// The disk has failed to write, rename or sync.
pub fn write(folder: &Path, identity: &Identity) -> Result<(), Error> {
    let path = folder.join(FILE);
    let temporary = folder.join(NEW);
    let written = File::create(&temporary)
        .and_then(|mut file| file.write_all(&identity.encode()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&temporary, &path))
        .and_then(|()| File::open(folder)?.sync_all());
    written.map_err(|e| Error::io(&path, &e))
}

/// Reads the file; `None` if there is none.
///
/// # Errors
/// The file cannot be read, or is damaged.
pub fn read(folder: &Path) -> Result<Option<Identity>, Error> {
    let path = folder.join(FILE);
    let mut bytes = Vec::new();
    match File::open(&path).and_then(|file| file.take(4096).read_to_end(&mut bytes)) {
        Ok(_) => Identity::decode(&path, &bytes).map(Some),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io(&path, &e)),
    }
}

/// A folder that is locked for this process.
pub struct Lock(File);

impl Drop for Lock {
    /// Closing the file would not do if another thread is just starting a process, which has the file until it runs its
    /// program.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Locks the folder for this process.
///
/// # Errors
/// Another process has locked the folder, or its file cannot be opened.
pub fn lock(folder: &Path) -> Result<Lock, Error> {
    let path = folder.join(FILE);
    let file = File::open(&path).map_err(|e| Error::io(&path, &e))?;
    match file.try_lock() {
        Ok(()) => Ok(Lock(file)),
        Err(TryLockError::WouldBlock) => Err(Error::refused(folder, "the store is in use by another process")),
        Err(TryLockError::Error(e)) => Err(Error::io(&path, &e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let identity = Identity { node: *b"0123456789abcdef" };
        let bytes = identity.encode();
        let text: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(text, GOLDEN);
        assert_eq!(Identity::decode(Path::new("x/STORE"), &bytes), Ok(identity));
    }

    const GOLDEN: &str = concat!(
        "484f4c4453544f31", // magic
        "8f75d881",         // crc
        "01000000",         // version
        "01000000",         // engine
        "30313233343536373839616263646566",
        "00000000000000000000000000000000000000000000000000000000",
    );

    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = Identity { node: [7; 16] }.encode();
        for bit in 0..SIZE * 8 {
            let mut wrong = bytes;
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(Identity::decode(Path::new("x/STORE"), &wrong).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_newer_format_is_refused_by_name() {
        let mut bytes = Identity { node: [7; 16] }.encode();
        bytes[12] = 2;
        let crc = crc(&bytes[12..]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        let error = Identity::decode(Path::new("x/STORE"), &bytes).unwrap_err();
        assert_eq!(error.to_string(), "x: the format of this store is 2; this version reads 1");
    }
}
