//! The records that a start writes again: the valid ones that may not be durable (rule L9). There may be three segments
//! of them. So they are read as they are written, and never are in memory as a whole: only one group of blocks, and one
//! block.

use crate::Lsn;
use crate::disk::Disk;
use crate::format::{Format, PART_HEADER, Part};
use crate::recover::Damage;
use crate::scan::Scan;

/// A block that is to be written.
pub(crate) struct Body<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) is_part: bool,
    /// Every record up to here is in this block or an earlier one. `None`: no more is known than for the block before.
    pub(crate) cut: Option<Lsn>,
}

/// Takes blocks, one after the other.
pub(crate) type Put<'a> = dyn FnMut(Body<'_>) -> Result<(), Damage> + 'a;

/// The valid records of a stream above `base` up to `end`.
pub(crate) struct Tail<'a, D> {
    pub(crate) scan: &'a Scan<D>,
    pub(crate) base: Lsn,
    pub(crate) end: Lsn,
    /// Of its blocks.
    pub(crate) format: Format,
    /// Most bytes of a block's records: longer ones are divided.
    pub(crate) block: usize,
}

impl<D: Disk> Tail<'_, D> {
    /// Bytes of all its blocks.
    pub(crate) fn size(&self) -> Result<u64, Damage> {
        let mut size = 0;
        self.blocks(&mut |body| {
            size += self.format.size(body.bytes.len()) as u64;
            Ok(())
        })?;
        Ok(size)
    }

    /// Its blocks, in their order: the same ones every time. Each has a cut of its own where possible. A block without
    /// one is read together with the next ones, and would be in the memory of the next start with them.
    pub(crate) fn blocks(&self, put: &mut Put<'_>) -> Result<(), Damage> {
        if self.base == self.end {
            return Ok(());
        }
        let (mut bytes, mut cut) = (Vec::new(), None);
        let mut cursor = self.scan.cursor_above(self.base);
        while let Some(lsn) = cursor.peek()? {
            let (record, is_followed) = cursor.next_whole();
            if lsn <= self.base || lsn > self.end {
                continue;
            }
            if !bytes.is_empty() && bytes.len() + record.len() > self.block {
                put(Body { bytes: &bytes, is_part: false, cut })?;
                bytes.clear();
            }
            // Records with one LSN are of one group: they survive together.
            cut = (!is_followed).then_some(lsn);
            if record.len() > self.block {
                self.parts(lsn, record, cut, put)?;
            } else {
                bytes.extend_from_slice(record);
            }
        }
        if !bytes.is_empty() {
            put(Body { bytes: &bytes, is_part: false, cut })?;
        }
        Ok(())
    }

    /// A record that is longer than a block.
    fn parts(&self, lsn: Lsn, record: &[u8], cut: Option<Lsn>, put: &mut Put<'_>) -> Result<(), Damage> {
        let (length, mut offset) = (record.len() as u64, 0);
        let mut bytes = Vec::with_capacity(PART_HEADER + self.block);
        for part in record.chunks(self.block) {
            bytes.clear();
            let part = Part { lsn, length, offset, bytes: part };
            part.encode(&mut bytes);
            offset = part.end();
            put(Body { bytes: &bytes, is_part: true, cut: cut.filter(|_| part.is_last()) })?;
        }
        Ok(())
    }
}
