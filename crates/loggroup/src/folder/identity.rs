//! The file that names the acceptor of a folder. It is made last, and once.

use std::io;

use quorum::{AcceptorId, ShardId};
use redolog::{Disk, File};

use super::Unusable;
use crate::checksum;

pub const NAME: &str = "acceptor";
const MAKING: &str = "making-acceptor";
const MAGIC: &[u8; 8] = b"HOLDACPT";
/// The first version names no cluster.
const VERSION: u32 = 2;
/// Bytes of the file.
pub const SIZE: usize = 64;

/// The name of a cluster: shards of two clusters may have one number.
pub type Cluster = [u8; 20];

/// The acceptor of a folder.
///
/// ```text
/// acceptor := magic "HOLDACPT" · crc u32 (of what follows) · version u32 (2) · acceptor 16 bytes · shard u32
///             · streams u16 · zeros u16 · cluster 20 bytes · zeros up to byte 64
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    pub acceptor: AcceptorId,
    pub shard: ShardId,
    pub streams: u16,
    /// None: it is not known.
    pub cluster: Option<Cluster>,
}

impl Identity {
    pub fn encode(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[12..16].copy_from_slice(&if self.cluster.is_some() { VERSION } else { 1 }.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.acceptor.0);
        bytes[32..36].copy_from_slice(&self.shard.0.to_le_bytes());
        bytes[36..38].copy_from_slice(&self.streams.to_le_bytes());
        bytes[40..60].copy_from_slice(&self.cluster.unwrap_or_default());
        let sum = checksum(&bytes[12..]);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// `None`: these are no such bytes.
    pub fn decode(bytes: &[u8; SIZE]) -> Option<Self> {
        let whole = bytes[..8] == *MAGIC && bytes[8..12] == checksum(&bytes[12..]).to_le_bytes();
        let (version, rest) = bytes[12..].split_first_chunk::<4>()?;
        let version = Some(u32::from_le_bytes(*version)).filter(|version| whole && (1..=VERSION).contains(version))?;
        let (acceptor, rest) = rest.split_first_chunk::<16>()?;
        let (shard, rest) = rest.split_first_chunk::<4>()?;
        let (streams, rest) = rest.split_first_chunk::<2>()?;
        let cluster = rest.get(2..)?.first_chunk::<20>()?;
        Some(Self {
            acceptor: AcceptorId(*acceptor),
            shard: ShardId(u32::from_le_bytes(*shard)),
            streams: u16::from_le_bytes(*streams),
            cluster: (version > 1).then_some(*cluster),
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
        let (acceptor, shard) = (AcceptorId([0xac; 16]), ShardId(0x0102_0304));
        for (cluster, golden) in [(None, OLD), (Some([0xc1; 20]), GOLDEN)] {
            let it = Identity { acceptor, shard, streams: 5, cluster };
            let hex: String = it.encode().iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, golden);
            assert_eq!(Identity::decode(&it.encode()), Some(it));
            for at in 0..SIZE {
                let mut bytes = it.encode();
                bytes[at] ^= 1;
                assert_eq!(Identity::decode(&bytes), None, "byte {at}");
            }
        }
        // A later version.
        let mut bytes = Identity { acceptor, shard, streams: 5, cluster: None }.encode();
        bytes[12] = 3;
        let sum = checksum(&bytes[12..]);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Identity::decode(&bytes), None);
    }

    const OLD: &str = concat!(
        "484f4c4441435054",
        "b7040651",
        "01000000",
        "acacacacacacacacacacacacacacacac",
        "04030201",
        "0500",
        "0000",
        "0000000000000000000000000000000000000000",
        "00000000"
    );

    const GOLDEN: &str = concat!(
        "484f4c4441435054",
        "8a447ad7",
        "02000000",
        "acacacacacacacacacacacacacacacac",
        "04030201",
        "0500",
        "0000",
        "c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1",
        "00000000"
    );
}
