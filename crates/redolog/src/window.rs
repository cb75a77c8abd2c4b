//! A part of a segment in memory, and the blocks in it.

use std::io;

use crate::disk::{File, PAGE};
use crate::format::{BODY_MAX, Block, FRAME_HEAD, Format, Head, has_sound_header};

/// Bytes read at once.
pub(crate) const CHUNK: usize = 1 << 20;

/// The same where a few blocks are wanted, which are often short.
const CHUNK_SMALL: usize = 64 << 10;

/// A part of a file in memory.
pub(crate) struct Window<F> {
    file: F,
    format: Format,
    size: u64,
    /// Bytes read at once.
    chunk: usize,
    from: u64,
    bytes: Vec<u8>,
    /// How many of them are the file's. The rest is kept for the next read.
    valid: usize,
}

impl<F: File> Window<F> {
    pub(crate) fn new(file: F, format: Format, size: u64) -> Self {
        Self { file, format, size, chunk: CHUNK, from: 0, bytes: Vec::new(), valid: 0 }
    }

    /// The same for a few blocks at a time.
    pub(crate) fn small(file: F, format: Format, size: u64) -> Self {
        Self { chunk: CHUNK_SMALL, ..Self::new(file, format, size) }
    }

    /// Forgets what is in memory: the file may have been written to.
    pub(crate) fn forget(&mut self) {
        self.valid = 0;
    }

    /// `len` bytes at `at`, and more; `None` if the file is shorter.
    fn get(&mut self, at: u64, len: usize) -> io::Result<Option<&[u8]>> {
        if at + len as u64 > self.size {
            return Ok(None);
        }
        let end = self.from + self.valid as u64;
        if at < self.from || at + len as u64 > end {
            let most = usize::try_from(self.size - at).unwrap_or(usize::MAX);
            let wanted = len.max(self.chunk).min(most);
            if self.bytes.len() < wanted {
                self.bytes.resize(wanted, 0);
            }
            self.valid = 0;
            self.file.read(at, &mut self.bytes[..wanted])?;
            (self.from, self.valid) = (at, wanted);
        }
        let from = (at - self.from) as usize;
        Ok(Some(&self.bytes[from..self.valid]))
    }

    /// So many bytes from `at` on are zeros: whole pages of them, as far as they are in memory.
    pub(crate) fn zeros(&mut self, at: u64) -> io::Result<u64> {
        let Some(bytes) = self.get(at, PAGE)? else { return Ok(0) };
        let pages = bytes.chunks_exact(PAGE).take_while(|page| is_zeros(page)).count();
        Ok((pages * PAGE) as u64)
    }

    /// The beginning of a block at `at`, unchecked.
    pub(crate) fn head(&mut self, at: u64) -> io::Result<Option<Head>> {
        let format = self.format;
        Ok(self.get(at, format.header())?.and_then(|bytes| Head::decode(format, bytes)))
    }

    /// The same, if `wanted` accepts it and it is sound as far as the format can tell without the body.
    fn sound_head(&mut self, at: u64, wanted: impl FnOnce(&Head) -> bool) -> io::Result<Option<Head>> {
        let Some(head) = self.head(at)?.filter(|head| head.length <= BODY_MAX && wanted(head)) else { return Ok(None) };
        let format = self.format;
        let is_sound = format == Format::Three || self.get(at, format.header())?.is_some_and(has_sound_header);
        Ok(is_sound.then_some(head))
    }

    /// The block at `at`, if there is one that `wanted` accepts.
    pub(crate) fn block(&mut self, at: u64, wanted: impl FnOnce(&Head) -> bool) -> io::Result<Option<Block<'_>>> {
        let Some(head) = self.sound_head(at, wanted)? else { return Ok(None) };
        let format = self.format;
        let bytes = self.get(at, format.header() + head.length)?;
        Ok(bytes.and_then(|bytes| Block::decode(format, bytes).ok()))
    }

    /// The mark of a block here that `wanted` accepts: how far the folder knew everything synced. From version 4 on it
    /// does not matter whether the block's body is whole.
    pub(crate) fn said(&mut self, at: u64, wanted: impl FnOnce(&Head) -> bool) -> io::Result<Option<u64>> {
        match self.format {
            Format::Three => Ok(self.block(at, wanted)?.map(|block| block.place.synced)),
            Format::Four => Ok(self.sound_head(at, wanted)?.map(|head| head.synced)),
        }
    }

    /// A block that [`Self::find`] has found.
    pub(crate) fn found(&mut self, at: u64) -> io::Result<Option<Block<'_>>> {
        let Some(head) = self.head(at)? else { return Ok(None) };
        let format = self.format;
        let bytes = self.get(at, format.header() + head.length)?;
        Ok(bytes.and_then(|bytes| Block::decode_checked(format, bytes).ok()))
    }

    /// The same, and the bytes of its frame: of version 4.
    pub(crate) fn encoded(&mut self, at: u64) -> io::Result<Option<(Block<'_>, &[u8])>> {
        let Some(head) = self.head(at)? else { return Ok(None) };
        let size = Format::Four.header() + head.length;
        let Some(bytes) = self.get(at, size)? else { return Ok(None) };
        let block = Block::decode_checked(Format::Four, bytes).ok();
        Ok(block.zip(bytes.get(Format::Four.header() - FRAME_HEAD..size)))
    }

    /// The place of the wanted block behind one that ends at `at`: it is there, or at the next page. Blocks that were
    /// in flight together share no page.
    pub(crate) fn find(&mut self, at: u64, wanted: impl Fn(&Head) -> bool) -> io::Result<Option<u64>> {
        for place in places(at) {
            if self.block(place, &wanted)?.is_some() {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }
}

fn is_zeros(page: &[u8]) -> bool {
    let (words, rest) = page.as_chunks::<8>();
    // Without an early end, so that many bytes are compared at once.
    let all = words.iter().fold(0, |all, word| all | u64::from_ne_bytes(*word));
    all == 0 && rest.iter().all(|byte| *byte == 0)
}

/// Where a block may begin behind one that ends at `at`.
pub(crate) fn places(at: u64) -> impl Iterator<Item = u64> {
    let page = at.next_multiple_of(PAGE as u64);
    [Some(at), (page > at).then_some(page)].into_iter().flatten()
}
