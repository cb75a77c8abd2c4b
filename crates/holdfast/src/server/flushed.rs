//! The file of a snapshot while it is written: it goes to the disk in parts. Also delays for tests.

use std::fs::File;
use std::io::{self, Write};
use std::thread;
use std::time::Duration;

/// Bytes between two flushes to the disk.
const PART: u64 = 4 << 20;
/// The longest sleep between two looks at whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);

/// See the module's text.
pub struct Flushed {
    pub file: File,
    /// True if it is flushed in parts: otherwise its writer flushes it at the end.
    pub in_parts: bool,
    pub unflushed: u64,
}

impl Write for Flushed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.unflushed += written as u64;
        if self.in_parts && self.unflushed >= PART {
            self.file.sync_data()?;
            self.unflushed = 0;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A delay for each key, in microseconds. Below 0 it is one microsecond for each so many keys.
#[derive(Clone, Copy)]
pub struct Delay(pub i64);

impl Delay {
    /// Waits, unless `is_over` says that nobody needs it any more.
    #[expect(
        clippy::disallowed_methods,
        reason = "it runs on the thread of snapshots or of the start, not on a worker"
    )]
    pub fn wait(self, is_over: impl Fn() -> bool) {
        let mut left = match self.0 {
            0 => return,
            micros @ 1.. => Duration::from_micros(micros as u64),
            // Even the shortest sleep takes much longer than a microsecond.
            _ => Duration::ZERO,
        };
        while !left.is_zero() && !is_over() {
            let part = left.min(LOOK);
            thread::sleep(part);
            left -= part;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "tests run by the real clock")]
    fn a_long_delay_ends_when_nobody_needs_it() {
        let begun = Instant::now();
        Delay(60_000_000).wait(|| begun.elapsed() > Duration::from_millis(100));
        assert!(begun.elapsed() < Duration::from_secs(10));
        let begun = Instant::now();
        Delay(2_000).wait(|| false);
        assert!(begun.elapsed() >= Duration::from_millis(2));
    }
}
