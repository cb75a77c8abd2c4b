//! The end that has the files.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use crate::pace::{Meter, Pace, Pauses};
use crate::wire::{Ask, CHUNK, Message, Messages, wrong};
use crate::{Progress, tree};

/// Bytes that are read and sent at once: far fewer than a message may have, so that clients do not wait for them.
const PIECE: usize = 64 << 10;
const _: () = assert!(PIECE <= CHUNK);

/// Reads what the other end wants.
///
/// # Errors
/// The connection ends, or speaks of something else.
pub fn asked(from: &mut dyn Read) -> io::Result<Ask> {
    match Messages::new(from).next()? {
        Message::Ask(ask) => Ok(ask),
        _ => Err(wrong("a shipment begins with what is wanted")),
    }
}

/// Tells the other end in words why there is no shipment.
///
/// # Errors
/// The connection has ended.
pub fn refuse(to: &mut dyn Write, why: &str) -> io::Result<()> {
    Message::Refused(why).write(to)
}

/// Sends all files below a folder, and waits until the other end has them on its disk. The files must not change.
/// It is as fast as its pace allows, and slower while clients wait for longer beside it ([`Pauses::waited`]).
///
/// # Errors
/// The connection has ended, a file cannot be read or has become shorter, or `progress` was stopped.
pub fn send(
    folder: &Path,
    (from, to): (&mut dyn Read, &mut dyn Write),
    (pace, pauses): (&Pace, &dyn Pauses),
    progress: &Progress,
) -> io::Result<()> {
    let files = tree::files(folder)?;
    let bytes = files.iter().map(|(_, size)| size).sum();
    let count = u32::try_from(files.len()).map_err(|_| wrong("there are too many files"))?;
    progress.begin(bytes);
    Message::Cargo { files: count, bytes }.write(to)?;
    let mut meter = Meter::new(pace, pauses, bytes);
    let mut buffer = vec![0; PIECE];
    for (path, size) in files {
        let named = |why: io::Error| io::Error::new(why.kind(), format!("{path}: {why}"));
        let mut file = File::open(tree::place(folder, &path)?).map_err(named)?;
        Message::File { size, path: &path }.write(to)?;
        let mut left = size;
        while left > 0 {
            let wanted = PIECE.min(usize::try_from(left).unwrap_or(PIECE));
            let chunk = &mut buffer[..wanted];
            file.read_exact(chunk).map_err(named)?;
            Message::Chunk(chunk).write(to)?;
            left -= wanted as u64;
            progress.add(wanted as u64)?;
            meter.sent(wanted as u64);
        }
    }
    Message::End.write(to)?;
    match Messages::new(from).next()? {
        Message::Received => Ok(()),
        _ => Err(wrong("the other end does not say that it has everything")),
    }
}
