//! A copy of a running log up to a moment, for a backup.
//!
//! Committed bytes do not change. But segments whose records are not needed may be used again at any time, and blocks
//! are being written behind the committed ones. So the needed segments are copied, up to the block that has the moment
//! in it. Then the copy is cut exactly at the moment, as a start cuts (rule L5).

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::Lsn;
use crate::disk::make_folders;
use crate::format::{BODY_MAX, Block, CleanEnd, Head, SEGMENT_HEADER, SegmentHeader};
use crate::recover::Damage;
use crate::run::Opened;
use crate::segments::{Limits, end_name, name};
use crate::window::places;

/// Bytes copied at once.
const CHUNK: usize = 1 << 20;

/// Copies the streams in the folders `from` to the folders `to`, which are made. `covered`: for each stream, the LSN up
/// to which no record is needed; no thread gives up segments behind that meanwhile. `ends`: the LSN of a committed
/// record in each stream, behind which the stream is cut; no lower record follows any more. Returns the bytes that were
/// copied.
///
/// # Errors
///
/// A folder cannot be read or made, or a stream is damaged.
pub fn copy(from: &[PathBuf], to: &[PathBuf], covered: &[Lsn], ends: &[Lsn]) -> Result<u64, Damage> {
    let mut bytes = 0;
    for ((from, to), (covered, end)) in from.iter().zip(to).zip(covered.iter().zip(ends)) {
        make_folders(to)?;
        bytes += copy_stream(from, to, *covered, *end)?;
        fs::File::open(to)?.sync_all()?;
    }
    let mut opened = Opened::new(to, &[])?;
    opened.replay(|_| {})?;
    let last = ends.iter().copied().max().unwrap_or_default();
    for (end, there) in ends.iter().zip(opened.ends()?) {
        if there < *end {
            return Err(Damage::Streams(format!("stream {} was copied up to {there}, not {end}", end.stream())));
        }
    }
    opened.void_from(last.next())?;
    opened.settle(Limits::of(1 << 16))?;
    Ok(bytes)
}

/// A segment that is there.
struct Source {
    file: fs::File,
    header: SegmentHeader,
}

fn copy_stream(from: &Path, to: &Path, covered: Lsn, end: Lsn) -> Result<u64, Damage> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(from)? {
        let Ok(file_name) = entry?.file_name().into_string() else { continue };
        if file_name.ends_with(".log") {
            segments.extend(open(&from.join(&file_name), &file_name)?);
        }
    }
    segments.sort_by_key(|segment| segment.header.number);
    if let Some(first) = segments.first() {
        // Segments expect a file that says how far they go. The file of the settled log does, and replaces this one.
        let (node, stream) = (first.header.node, first.header.stream);
        let end = CleanEnd { node, stream, number: 0, sequence: 0 };
        fs::write(to.join(end_name(0)), end.encode())?;
    }
    // The last segment before which nothing is needed is the first that is needed.
    let first = segments.iter().rposition(|segment| segment.header.reach <= covered).unwrap_or(0);
    let mut bytes = 0;
    let needed: Vec<_> = segments.into_iter().skip(first).take_while(|segment| segment.header.base < end).collect();
    for (index, segment) in needed.iter().enumerate() {
        let path = to.join(name(segment.header.number));
        let copied = copy_segment(segment, &path, end, index + 1 == needed.len());
        bytes += copied.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    }
    Ok(bytes)
}

/// `None`: it is gone, or is being used again.
fn open(path: &Path, file_name: &str) -> io::Result<Option<Source>> {
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = [0; SEGMENT_HEADER];
    file.read_exact_at(&mut bytes, 0)?;
    let header = SegmentHeader::decode(&bytes).ok().filter(|header| name(header.number) == file_name);
    Ok(header.map(|header| Source { file, header }))
}

/// Copies a segment up to the block that has `end`, if it has that; zeros follow. `is_last`: it must have it, and bytes
/// behind it may be under way. Returns the bytes copied.
fn copy_segment(segment: &Source, path: &Path, end: Lsn, is_last: bool) -> io::Result<u64> {
    let size = segment.header.size;
    let upto = match until(segment, end)? {
        None if is_last => return Err(io::Error::other(format!("no block of it has record {end}"))),
        upto => upto.unwrap_or(size),
    };
    let mut to = fs::File::options().write(true).create_new(true).open(path)?;
    let mut buffer = vec![0; CHUNK];
    let mut at = 0;
    while at < upto {
        let len = usize::try_from(upto - at).unwrap_or(CHUNK).min(CHUNK);
        segment.file.read_exact_at(&mut buffer[..len], at)?;
        to.write_all(&buffer[..len])?;
        at += len as u64;
    }
    to.set_len(size)?;
    to.sync_all()?;
    Ok(upto)
}

/// The end of the block that has `end`, if the segment's own incarnation has written it here.
fn until(segment: &Source, end: Lsn) -> io::Result<Option<u64>> {
    let (mut at, mut number) = (SEGMENT_HEADER as u64, None);
    let mut bytes = Vec::new();
    'blocks: loop {
        // Blocks that were on their way together begin a page each.
        for place in places(at) {
            let follows = |head: &Head| match number {
                Some(before) => head.number == before + 1,
                // A block from before the segment was used again is below its base.
                None => head.cut >= segment.header.base,
            };
            if let Some((head, size)) = block(segment, place, &mut bytes, follows)? {
                (at, number) = (place + size, Some(head.number));
                if head.cut >= end {
                    return Ok(Some(at));
                }
                continue 'blocks;
            }
        }
        return Ok(None);
    }
}

/// The head of the block at `at` if `follows` accepts it, and the block's size.
fn block(
    segment: &Source,
    at: u64,
    bytes: &mut Vec<u8>,
    follows: impl FnOnce(&Head) -> bool,
) -> io::Result<Option<(Head, u64)>> {
    let SegmentHeader { size, life, format, .. } = segment.header;
    if at + format.header() as u64 > size {
        return Ok(None);
    }
    bytes.resize(format.header(), 0);
    segment.file.read_exact_at(bytes, at)?;
    let is_next = |head: &Head| head.life == life && head.length <= BODY_MAX && follows(head);
    let Some(head) = Head::decode(format, bytes).filter(is_next) else { return Ok(None) };
    let whole = format.header() + head.length;
    if at + whole as u64 > size {
        return Ok(None);
    }
    bytes.resize(whole, 0);
    segment.file.read_exact_at(bytes, at)?;
    let size = format.size(head.length) as u64;
    Ok(Block::decode(format, bytes).is_ok().then_some((head, size)))
}
