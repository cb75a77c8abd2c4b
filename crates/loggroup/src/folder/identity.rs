//! The file that names the acceptor of a folder. It is made last, and once.

use std::io;

use quorum::{AcceptorId, ShardId};
use redolog::{Disk, File};

use super::Unusable;
use crate::checksum;

pub const NAME: &str = "acceptor";
const MAKING: &str = "making-acceptor";
const MAGIC: &[u8; 8] = b"HOLDACPT";
const VERSION: u32 = 1;
/// Bytes of the file.
pub const SIZE: usize = 64;

/// The acceptor of a folder.
///
/// ```text
/// acceptor := magic "HOLDACPT" · crc u32 (of what follows) · version u32 (1) · acceptor 16 bytes · shard u32
///             · streams u16 · zeros up to byte 64
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    pub acceptor: AcceptorId,
    pub shard: ShardId,
    pub streams: u16,
}

impl Identity {
    pub fn encode(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[12..16].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.acceptor.0);
        bytes[32..36].copy_from_slice(&self.shard.0.to_le_bytes());
        bytes[36..38].copy_from_slice(&self.streams.to_le_bytes());
        let sum = checksum(&bytes[12..]);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// `None`: these are no such bytes.
    pub fn decode(bytes: &[u8; SIZE]) -> Option<Self> {
        let whole = bytes[..8] == *MAGIC && bytes[8..12] == checksum(&bytes[12..]).to_le_bytes();
        if !whole || bytes[12..16] != VERSION.to_le_bytes() {
            return None;
        }
        let (acceptor, rest) = bytes[16..].split_first_chunk::<16>()?;
        let (shard, rest) = rest.split_first_chunk::<4>()?;
        let streams = rest.first_chunk::<2>()?;
        Some(Self {
            acceptor: AcceptorId(*acceptor),
            shard: ShardId(u32::from_le_bytes(*shard)),
            streams: u16::from_le_bytes(*streams),
        })
    }

    /// Of a folder; none if it has no acceptor.
    pub fn read<D: Disk>(disk: &D) -> Result<Option<Self>, Unusable> {
        if !disk.list()?.iter().any(|name| name == NAME) {
            return Ok(None);
        }
        let file = disk.open(NAME)?;
        let mut bytes = [0; SIZE];
        let is_short = file.size()? != SIZE as u64;
        if !is_short {
            file.read(0, &mut bytes)?;
        }
        let damaged = || Unusable::Lost(format!("{} is damaged, or of a newer version", disk.describe(NAME)));
        Self::decode(&bytes).filter(|_| !is_short).map(Some).ok_or_else(damaged)
    }

    /// Makes the file, behind what `first` makes in the folder. Returns the disk.
    pub fn write<D: Disk>(&self, disk: D, first: impl FnOnce(&D) -> io::Result<()>) -> io::Result<D> {
        if disk.list()?.iter().any(|name| name == MAKING) {
            disk.remove(MAKING)?;
        }
        first(&disk)?;
        let file = disk.create(MAKING, SIZE as u64)?;
        file.write(0, &self.encode())?;
        file.sync()?;
        disk.sync()?;
        disk.rename(MAKING, NAME)?;
        disk.sync()?;
        Ok(disk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes_of_an_acceptor() {
        let it = Identity { acceptor: AcceptorId([0xac; 16]), shard: ShardId(0x0102_0304), streams: 5 };
        let hex: String = it.encode()[..40].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, GOLDEN);
        assert_eq!(Identity::decode(&it.encode()), Some(it));
        for at in 0..SIZE {
            let mut bytes = it.encode();
            bytes[at] ^= 1;
            assert_eq!(Identity::decode(&bytes), None, "byte {at}");
        }
    }

    const GOLDEN: &str = concat!(
        "484f4c4441435054",
        "b7040651",
        "01000000",
        "acacacacacacacacacacacacacacacac",
        "04030201",
        "0500",
        "0000"
    );
}
