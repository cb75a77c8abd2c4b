//! A snapshot on its way to a client.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use command::Rest;

/// Bytes of a file that are sent in one step.
const STEP: usize = 64 << 10;

/// A file that is sent to a client: what stands before it, and the file.
#[derive(Debug)]
pub struct Sent {
    /// Bytes before the file.
    pub head: Vec<u8>,
    /// The file, which has no name any more.
    pub file: File,
    /// Its length in bytes.
    pub len: u64,
}

impl Sent {
    /// Sends it in steps.
    pub(crate) fn rest(self: Arc<Self>) -> Rest {
        let (mut at, mut buffer) = (0, vec![0; STEP]);
        Rest::new(move |out| {
            let wanted = usize::try_from(self.len - at).unwrap_or(STEP).min(STEP);
            match self.file.read_at(&mut buffer[..wanted], at) {
                Ok(read) if read > 0 => {
                    out.raw(&buffer[..read]);
                    at += read as u64;
                    at < self.len
                }
                // What is missing shows by its length.
                Ok(_) => false,
                Err(error) => {
                    tracing::warn!(cause = "sync", "A snapshot cannot be read to be sent: {error}");
                    false
                }
            }
        })
    }
}
