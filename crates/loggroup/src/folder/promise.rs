//! The promise of an acceptor: two sectors of a file, written in turns. The one before holds until the new one is on the
//! disk (rule G2).

use std::io;

use quorum::{AcceptorId, ShardId, Term};
use redolog::{Disk, File};

use super::Unusable;
use crate::checksum;

const NAME: &str = "promise";
const MAGIC: &[u8; 8] = b"HOLDPROM";
const VERSION: u32 = 1;
/// Bytes of a sector, and how far the two are apart.
pub const SECTOR: usize = 512;
const APART: u64 = 4096;
const SIZE: u64 = 2 * APART;

/// A sector.
///
/// ```text
/// promise := sector at byte 0 · sector at byte 4096
/// sector  := magic "HOLDPROM" · crc u32 (of what follows) · version u32 (1) · acceptor 16 bytes · shard u32 · term u32
///            · count u64 (of promises: the higher one holds) · zeros up to 512 bytes
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sector {
    acceptor: AcceptorId,
    shard: ShardId,
    term: Term,
    count: u64,
}

impl Sector {
    fn encode(&self) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[12..16].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.acceptor.0);
        bytes[32..36].copy_from_slice(&self.shard.0.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.term.get().to_le_bytes());
        bytes[40..48].copy_from_slice(&self.count.to_le_bytes());
        let sum = checksum(&bytes[12..]);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; SECTOR]) -> Option<Self> {
        let whole = bytes[..8] == *MAGIC && bytes[8..12] == checksum(&bytes[12..]).to_le_bytes();
        if !whole || bytes[12..16] != VERSION.to_le_bytes() {
            return None;
        }
        let (acceptor, rest) = bytes[16..].split_first_chunk::<16>()?;
        let (shard, rest) = rest.split_first_chunk::<4>()?;
        let (term, rest) = rest.split_first_chunk::<4>()?;
        Some(Self {
            acceptor: AcceptorId(*acceptor),
            shard: ShardId(u32::from_le_bytes(*shard)),
            term: Term::new(u32::from_le_bytes(*term))?,
            count: u64::from_le_bytes(*rest.first_chunk()?),
        })
    }
}

/// The file, open.
pub struct Promise<D: Disk> {
    file: D::File,
    held: Sector,
    /// A planted mistake: a promise is told before it is on the disk.
    #[cfg(test)]
    pub lies: bool,
}

impl<D: Disk> Promise<D> {
    /// Makes the file of a new folder. One that is there is the rest of an earlier try.
    pub fn make(disk: &D, acceptor: AcceptorId, shard: ShardId) -> io::Result<()> {
        if disk.list()?.iter().any(|name| name == NAME) {
            disk.remove(NAME)?;
        }
        let file = disk.create(NAME, SIZE)?;
        for count in 0..2 {
            file.write(count * APART, &Sector { acceptor, shard, term: Term::ZERO, count }.encode())?;
        }
        file.sync()
    }

    /// Reads it. A sector is written whole or not at all, so one that cannot be read is damaged (rule G9).
    pub fn open(disk: D, acceptor: AcceptorId, shard: ShardId) -> Result<Self, Unusable> {
        let what = |what: &str| Unusable::Lost(format!("{} {what}", disk.describe(NAME)));
        if !disk.list()?.iter().any(|name| name == NAME) {
            return Err(what("is gone"));
        }
        let file = disk.open(NAME)?;
        if file.size()? != SIZE {
            return Err(what("is not as long as it was"));
        }
        let mut held: Option<Sector> = None;
        for at in 0..2 {
            let mut bytes = [0; SECTOR];
            file.read(at * APART, &mut bytes)?;
            let sector = Sector::decode(&bytes).ok_or_else(|| what("is damaged, or of a newer version"))?;
            if (sector.acceptor, sector.shard) != (acceptor, shard) {
                return Err(what("is another acceptor's"));
            }
            held = held.into_iter().chain([sector]).max_by_key(|sector| sector.count);
        }
        let held = held.ok_or_else(|| what("is empty"))?;
        Ok(Self {
            file,
            held,
            #[cfg(test)]
            lies: false,
        })
    }

    /// The term that holds.
    pub fn term(&self) -> Term {
        self.held.term
    }

    /// Puts a promise on the disk.
    pub fn put(&mut self, term: Term) -> io::Result<()> {
        let next = Sector { term, count: self.held.count + 1, ..self.held };
        self.file.write(next.count % 2 * APART, &next.encode())?;
        #[cfg(test)]
        if self.lies {
            self.held = next;
            return Ok(());
        }
        self.file.sync()?;
        self.held = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use redolog::simulated::{Chance, Simulated};

    use super::*;

    const WHOSE: (AcceptorId, ShardId) = (AcceptorId([0xac; 16]), ShardId(0x0102_0304));

    #[test]
    fn golden_bytes_of_a_promise() {
        let (acceptor, shard) = WHOSE;
        let it = Sector { acceptor, shard, term: Term::new(0x00aa_bbcc).expect("a term"), count: 0x0909 };
        let hex: String = it.encode()[..48].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, GOLDEN);
        assert_eq!(Sector::decode(&it.encode()), Some(it));
    }

    const GOLDEN: &str = concat!(
        "484f4c4450524f4d",
        "6dac319a",
        "01000000",
        "acacacacacacacacacacacacacacacac",
        "04030201",
        "ccbbaa00",
        "0909000000000000"
    );

    /// Whatever the power takes, the promise of before holds or the new one does.
    #[test]
    fn a_promise_is_whole_or_did_not_happen() {
        let (acceptor, shard) = WHOSE;
        let term = |number| Term::new(number).expect("a term");
        for seed in 0..100 {
            let (disk, mut chance) = (Simulated::default(), Chance(seed));
            Promise::make(&disk, acceptor, shard).expect("room");
            redolog::Disk::sync(&disk).expect("power");
            let mut told = 0;
            let mut promise = Promise::open(disk.clone(), acceptor, shard).expect("it is there");
            disk.fail_power_after(chance.below(12));
            while promise.put(term(told + 1)).is_ok() {
                told += 1;
            }
            disk.crash(&mut chance);
            let found = Promise::open(disk.clone(), acceptor, shard).expect("a whole one").term();
            assert!(found == term(told) || found == term(told + 1), "seed {seed}: {found:?} of {told}");
        }
    }

    #[test]
    fn a_damaged_promise_does_not_count() {
        let (acceptor, shard) = WHOSE;
        let disk = Simulated::default();
        Promise::make(&disk, acceptor, shard).expect("room");
        let open =
            |disk: &Simulated, acceptor| Promise::open(disk.clone(), acceptor, shard).map(|promise| promise.term());
        assert!(open(&disk, acceptor).is_ok() && open(&disk, AcceptorId([1; 16])).is_err());
        disk.damage("promise", 4096 + 40);
        assert!(matches!(open(&disk, acceptor), Err(Unusable::Lost(_))));
        redolog::Disk::remove(&disk, "promise").expect("power");
        assert!(matches!(open(&disk, acceptor), Err(Unusable::Lost(_))));
    }
}
