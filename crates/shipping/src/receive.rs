//! The end that gets the files.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use crate::wire::{Ask, Message, Messages, wrong};
use crate::{Progress, tree};

/// Bytes that are put on the disk at once. Those of a whole file would hold up whoever else syncs there.
const SYNC: u64 = 4 << 20;

/// Asks for a shipment.
///
/// # Errors
/// The connection has ended.
pub fn ask(to: &mut dyn Write, ask: Ask) -> io::Result<()> {
    Message::Ask(ask).write(to)
}

/// Receives a shipment into a folder, which is made. When it returns everything is on the disk, names included, and the
/// other end knows that, unless the connection has just ended.
///
/// # Errors
/// The folder is there already or cannot be written, the other end refuses, the connection ends, what comes is not what
/// was announced, or `progress` was stopped. The folder may be there in part: nothing that is in it counts.
pub fn receive(folder: &Path, (from, to): (&mut dyn Read, &mut dyn Write), progress: &Progress) -> io::Result<()> {
    let mut messages = Messages::new(from);
    let (files, bytes) = match messages.next()? {
        Message::Cargo { files, bytes } => (files, bytes),
        Message::Refused(why) => return Err(io::Error::other(format!("the other node refuses: {why}"))),
        _ => return Err(wrong("a shipment begins with its size")),
    };
    progress.begin(bytes);
    fs::create_dir(folder)?;
    let mut cargo = Cargo { folder, file: None, unsynced: 0, files: 0, bytes: 0, progress };
    loop {
        match messages.next()? {
            Message::File { size, path } => cargo.begin_file(path, size)?,
            Message::Chunk(chunk) => cargo.add(chunk)?,
            Message::End => break,
            _ => return Err(wrong("a message that does not belong to a shipment")),
        }
    }
    cargo.end_file()?;
    if (cargo.files, cargo.bytes) != (files, bytes) {
        return Err(wrong("a shipment ends before all of it has come"));
    }
    tree::sync(folder)?;
    if let Some(parent) = folder.parent() {
        File::open(parent)?.sync_all()?;
    }
    Message::Received.write(to)
}

/// The part that has come.
struct Cargo<'a> {
    folder: &'a Path,
    /// The present file, and bytes that it lacks.
    file: Option<(File, u64)>,
    /// Bytes of it that may not be on the disk.
    unsynced: u64,
    files: u32,
    bytes: u64,
    progress: &'a Progress,
}

impl Cargo<'_> {
    fn begin_file(&mut self, path: &str, size: u64) -> io::Result<()> {
        self.end_file()?;
        let place = tree::place(self.folder, path)?;
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        let file = File::options().write(true).create_new(true).open(place)?;
        (self.file, self.unsynced) = (Some((file, size)), 0);
        self.files = self.files.saturating_add(1);
        Ok(())
    }

    fn add(&mut self, chunk: &[u8]) -> io::Result<()> {
        let size = chunk.len() as u64;
        let Some((file, left)) = self.file.as_mut().filter(|(_, left)| *left >= size) else {
            return Err(wrong("a file is longer than it was announced"));
        };
        file.write_all(chunk)?;
        *left -= size;
        self.unsynced += size;
        if self.unsynced >= SYNC {
            self.unsynced = 0;
            file.sync_data()?;
        }
        self.bytes += size;
        self.progress.add(size)
    }

    fn end_file(&mut self) -> io::Result<()> {
        match self.file.take() {
            None => Ok(()),
            Some((file, 0)) => file.sync_all(),
            Some(_) => Err(wrong("a file is shorter than it was announced")),
        }
    }
}
