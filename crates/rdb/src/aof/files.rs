//! All files of a manifest, as if they were one.

use super::{File, Manifest, Reader, Step, Tail};
use crate::{Error, Fault};
use std::fmt;
use std::io::{self, Read};

/// Reads the files of a manifest one after another. Only the last may be cut short.
pub struct Files<O, R> {
    open: O,
    left: std::vec::IntoIter<File>,
    skips_foreign: bool,
    current: Option<(File, Reader<R>)>,
    tail: Option<(File, Tail)>,
}

/// A fault in a file of a manifest.
#[derive(Debug)]
pub struct FilesError {
    /// The file.
    pub file: String,
    /// The place in the file, and the fault.
    pub error: Error,
}

impl fmt::Display for FilesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.error)
    }
}

impl std::error::Error for FilesError {}

impl<R: Read, O: FnMut(&File) -> io::Result<R>> Files<O, R> {
    /// Reads the files that `manifest` names, which `open` opens when they are reached.
    pub fn new(manifest: &Manifest, open: O) -> Self {
        let left: Vec<File> = manifest.files().cloned().collect();
        Self { open, left: left.into_iter(), skips_foreign: false, current: None, tail: None }
    }

    /// As [`crate::Reader::skip_foreign`].
    pub fn skip_foreign(mut self, yes: bool) -> Self {
        self.skips_foreign = yes;
        self
    }

    /// The last file and its incomplete end, once there is no further step.
    pub fn tail(&self) -> Option<&(File, Tail)> {
        self.tail.as_ref()
    }

    /// The file that is being read, and bytes read of it so far.
    pub fn position(&self) -> Option<(&str, u64)> {
        self.current.as_ref().map(|(file, reader)| (file.name.as_str(), reader.offset()))
    }

    /// The next step; none after the last of the last file.
    ///
    /// # Errors
    ///
    /// A file cannot be opened or read, is damaged, or is cut short and is not the last.
    pub fn next_step(&mut self) -> Result<Option<Step>, FilesError> {
        loop {
            let Some((file, reader)) = &mut self.current else {
                let Some(file) = self.left.next() else { return Ok(None) };
                let failed = |error: io::Error| Error { offset: 0, key: None, fault: Fault::Io(error) };
                let input = (self.open)(&file);
                let input = input.map_err(|error| FilesError { file: file.name.clone(), error: failed(error) })?;
                self.current = Some((file, Reader::new(input).skip_foreign(self.skips_foreign)));
                continue;
            };
            match reader.next_step() {
                Ok(Some(step)) => return Ok(Some(step)),
                Ok(None) => {}
                Err(error) => return Err(FilesError { file: file.name.clone(), error }),
            }
            if let Some(tail) = reader.tail() {
                if self.left.len() > 0 {
                    let error = Error { offset: tail.whole + tail.lost, key: None, fault: Fault::Cut };
                    return Err(FilesError { file: file.name.clone(), error });
                }
                self.tail = Some((file.clone(), tail));
            }
            self.current = None;
        }
    }
}
