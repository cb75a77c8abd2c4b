//! A disk made slow on purpose, for experiments: so many syncs and bytes a second, whatever the real disk can.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::{Clock, Folder};

/// Nanoseconds that a system's timer adds to a sleep.
const SLACK: u64 = 55_000;

/// How slow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Least nanoseconds of a sync.
    pub sync: u64,
    /// Bytes a second.
    pub bytes: u64,
}

impl FromStr for Pace {
    type Err = String;

    /// Such as `333us 125mb`: the time of a sync and the bytes of a second.
    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (sync, bytes) = text.split_once(' ')?;
            let sync = sync.strip_suffix("us")?.parse::<u64>().ok()?.checked_mul(1000)?;
            let bytes = bytes.trim().strip_suffix("mb")?.parse::<u64>().ok()?.checked_mul(1_000_000)?;
            (bytes > 0).then_some(Self { sync, bytes })
        };
        parse().ok_or_else(|| "microseconds of a sync and megabytes a second, such as \"333us 125mb\"".into())
    }
}

/// A slow device: it does one operation after the other.
pub(crate) struct Device {
    pace: Pace,
    clock: Clock,
    /// The time until which it is busy, and the written bytes that still cost time.
    state: Mutex<(u64, u64)>,
}

impl Device {
    pub(crate) fn new(pace: Pace, clock: Clock) -> Self {
        Self { pace, clock, state: Mutex::default() }
    }

    /// Notes bytes that were written to its cache.
    pub(crate) fn write(&self, bytes: usize) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1 += bytes as u64;
    }

    /// Does `sync`. All written bytes, and these, are on the disk when its time has passed.
    pub(crate) fn sync<R>(&self, bytes: usize, sync: impl FnOnce() -> R) -> R {
        let until = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let bytes = std::mem::take(&mut state.1) + bytes as u64;
            let took = self.pace.sync + (u128::from(bytes) * 1_000_000_000 / u128::from(self.pace.bytes)) as u64;
            state.0 = state.0.max((self.clock)()) + took;
            state.0
        };
        let result = sync();
        loop {
            // Another thread unparks this one for another reason.
            let left = until.saturating_sub((self.clock)() + SLACK);
            if left == 0 {
                return result;
            }
            thread::park_timeout(Duration::from_nanos(left));
        }
    }
}

/// The slow devices of a process, by the directory that stands for each. All folders of a directory share its device.
pub struct Devices {
    pace: Pace,
    clock: Clock,
    known: Mutex<BTreeMap<PathBuf, Arc<Device>>>,
}

impl Devices {
    /// Devices as slow as this.
    #[must_use]
    pub fn new(pace: Pace, clock: Clock) -> Self {
        Self { pace, clock, known: Mutex::default() }
    }

    /// Has a folder be on the device of a directory. That delays writes and syncs of its files, not making them.
    #[must_use]
    pub fn slow(&self, folder: Folder, directory: &Path) -> Folder {
        folder.on(self.of(directory))
    }

    /// A directory is on the device of another one. It has no other device so far.
    pub fn share(&self, directory: &Path, of: &Path) {
        let device = self.of(of);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).entry(directory.into()).or_insert(device);
    }

    fn of(&self, directory: &Path) -> Arc<Device> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Device::new(self.pace, self.clock.clone()));
        known.entry(directory.into()).or_insert_with(new).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    #[test]
    fn paces_are_parsed() {
        assert_eq!("333us 125mb".parse(), Ok(Pace { sync: 333_000, bytes: 125_000_000 }));
        for wrong in ["", "333us", "333 125mb", "1us 0mb", "-1us 1mb", "99999999999999999999us 1mb"] {
            assert!(wrong.parse::<Pace>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_written_is_paid_for_by_the_sync() {
        let now = Arc::new(AtomicU64::new(0));
        let clock = now.clone();
        let device = Device::new(Pace { sync: 1000, bytes: 1_000_000_000 }, Arc::new(move || clock.load(SeqCst)));
        device.write(500);
        // The clock stands where the device is done: no thread waits.
        device.sync(100, || now.store(1600, SeqCst));
        assert_eq!(device.state.lock().unwrap().0, 1600);
        device.sync(0, || now.store(5000, SeqCst));
        assert_eq!(device.state.lock().unwrap().0, 2600);
    }
}
