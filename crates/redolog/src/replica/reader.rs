//! Reads blocks by their places in the log, from a folder that may still be written.

use std::io;
use std::sync::Arc;

use crate::Lsn;
use crate::Name;
use crate::disk::Disk;
use crate::format::{Format, Frame, Mark, SEGMENT_HEADER};
use crate::recover::Damage;
use crate::scan::{Segment, open};
use crate::segments::{is_end, is_made, is_spare};
use crate::window::Window;

/// Reads a stream's blocks. It goes on where it has ended, and otherwise reads a segment from its beginning.
pub struct Reader<D: Disk> {
    disk: Arc<D>,
    segments: Vec<Segment>,
    spot: Option<Spot<D>>,
}

/// Where the next block is looked for.
struct Spot<D: Disk> {
    window: Window<D::File>,
    at: u64,
    /// The segment's life, and the number of the block before.
    life: u64,
    number: u64,
    /// The place in the log of the next block, and of the last one that stands in this segment.
    next: u64,
    limit: u64,
}

impl<D: Disk> Reader<D> {
    /// A reader of a stream's folder. The caller says which blocks are there: they are on the disk.
    pub fn new(disk: Arc<D>) -> Self {
        Self { disk, segments: Vec::new(), spot: None }
    }

    /// Another reader of the same folder, for another thread.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::new(self.disk.clone())
    }

    /// Forgets where it was: the folder's blocks have changed, by a life that has begun.
    pub fn forget(&mut self) {
        self.spot = None;
    }

    /// Reads blocks from place `from` to place `upto` in the log, until they have `most` bytes: one at least. `f` gets
    /// each one, and its bytes as [`Frame::encode`] makes them. It gets fewer if others are there.
    ///
    /// # Errors
    /// The disk has failed to read, or a segment's header is damaged.
    pub fn read(&mut self, from: u64, upto: u64, most: usize, mut f: impl FnMut(&Frame<'_>, &[u8])) -> io::Result<()> {
        let (mut next, mut bytes) = (from, 0);
        let mut spot = self.spot.take().filter(|spot| spot.next == from && from <= spot.limit);
        if let Some(spot) = &mut spot {
            spot.window.forget();
        }
        let mut is_fresh = spot.is_none();
        while next <= upto && (bytes == 0 || bytes < most) {
            let mut here = match spot.take() {
                Some(spot) => spot,
                None => match self.locate(next)? {
                    Some(spot) => spot,
                    None => return Ok(()),
                },
            };
            let read = here.take(next, |frame, encoded| {
                bytes += encoded.len();
                f(frame, encoded);
            })?;
            if read {
                next += 1;
                is_fresh = false;
                spot = (next <= here.limit).then_some(here);
            } else if is_fresh {
                return Ok(());
            } else {
                // The segment ends here, or is another one by now.
                is_fresh = true;
            }
        }
        self.spot = spot;
        Ok(())
    }

    /// Where the block before a segment ends, if it is this one.
    pub(super) fn end_before(&mut self, name: Name) -> Option<Lsn> {
        self.look().ok()?;
        self.segments.iter().rev().find(|segment| segment.header.last == name).map(|segment| segment.header.base)
    }

    /// Reads the segments' headers.
    fn look(&mut self) -> io::Result<()> {
        self.segments.clear();
        for name in self.disk.list()? {
            if name.ends_with(".log") && !is_spare(&name) && !is_made(&name) && !is_end(&name) {
                match open(&*self.disk, name.clone()) {
                    Ok(segment) => self.segments.push(segment),
                    Err(Damage::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(Damage::Io(error)) => return Err(error),
                    // It was given up while it was opened, and may be another segment by now.
                    Err(_) if !self.disk.list()?.contains(&name) => {}
                    Err(damage) => return Err(io::Error::other(damage.to_string())),
                }
            }
        }
        self.segments.sort_by_key(|segment| segment.header.number);
        Ok(())
    }

    /// The segment that has a block: the last one that begins before it. Later ones that begin before it have dropped
    /// it.
    fn locate(&mut self, sequence: u64) -> io::Result<Option<Spot<D>>> {
        self.look()?;
        let before =
            |segment: &Segment| segment.header.format == Format::Four && segment.header.last.sequence < sequence;
        let Some(index) = self.segments.iter().rposition(before) else { return Ok(None) };
        let later = self.segments.iter().skip(index + 1).map(|segment| segment.header.last.sequence);
        let limit = later.min().unwrap_or(u64::MAX);
        let Some(Segment { name, header, size, .. }) = self.segments.get(index) else { return Ok(None) };
        let file = match self.disk.open(name) {
            // It was given up meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let window = Window::small(file, Format::Four, *size);
        let (at, life, number) = (SEGMENT_HEADER as u64, header.life, header.block);
        Ok(Some(Spot { window, at, life, number, next: header.last.sequence + 1, limit }))
    }
}

impl<D: Disk> Spot<D> {
    /// Takes the block at a place in the log, which is this or a later one. False: it is not here.
    fn take(&mut self, sequence: u64, mut f: impl FnMut(&Frame<'_>, &[u8])) -> io::Result<bool> {
        loop {
            let (number, life) = (self.number + 1, self.life);
            let Some(at) = self.window.find(self.at, |head| head.number == number && head.life == life)? else {
                return Ok(false);
            };
            let Some((block, encoded)) = self.window.encoded(at)? else { return Ok(false) };
            let (is_of_log, found) = (block.place.mark == Mark::Block, block.frame.name.sequence);
            let is_it = is_of_log && found == sequence;
            if is_of_log && !is_it && found >= sequence {
                return Ok(false);
            }
            if is_it {
                f(&block.frame, encoded);
            }
            self.at = at + Format::Four.size(block.frame.body.len()) as u64;
            self.number = number;
            if is_of_log {
                self.next = found + 1;
            }
            if is_it {
                return Ok(true);
            }
        }
    }
}
