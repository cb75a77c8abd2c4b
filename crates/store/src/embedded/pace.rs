//! Keeps compaction slow enough, and makes it stop when the store is closed.
//!
//! `lsm-tree` shows every entry that it merges to a filter. This one changes nothing. It counts bytes, waits where
//! there were too many, and notices keys that are out of order. So it finds a block that is whole but in the wrong
//! place.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use lsm_tree::Slice;
use lsm_tree::compaction::filter::Context;
use lsm_tree::compaction::{CompactionFilter, Factory, ItemAccessor, Verdict};

use super::{Clock, lock};

/// Bytes between two readings of the clock.
const STRIDE: u64 = 256 << 10;

/// The longest single wait: a changed limit counts after that.
const WAIT_MAX: Duration = Duration::from_millis(50);

/// How fast compaction may go.
pub struct Pace {
    /// Bytes of entries per second; 0 is without limit.
    pub bytes_per_second: AtomicU64,
    stopped: AtomicBool,
    wake: (Mutex<()>, Condvar),
    clock: Clock,
}

impl UnwindSafe for Pace {}
impl RefUnwindSafe for Pace {}

impl Pace {
    pub fn new(bytes_per_second: u64, clock: Clock) -> Self {
        let bytes_per_second = AtomicU64::new(bytes_per_second);
        Self { bytes_per_second, stopped: AtomicBool::new(false), wake: (Mutex::new(()), Condvar::new()), clock }
    }

    /// Ends the compaction that runs, and all later ones.
    pub fn stop(&self) {
        let _held = lock(&self.wake.0);
        self.stopped.store(true, Relaxed);
        self.wake.1.notify_all();
    }

    /// Waits until `bytes` since `start` are no more than allowed.
    fn wait(&self, start: Duration, bytes: u64) {
        loop {
            let rate = self.bytes_per_second.load(Relaxed);
            if rate == 0 || self.stopped.load(Relaxed) {
                return;
            }
            let due = Duration::from_secs_f64(bytes as f64 / rate as f64);
            let Some(left) = due.checked_sub((self.clock)().saturating_sub(start)).filter(|d| !d.is_zero()) else {
                return;
            };
            let held = lock(&self.wake.0);
            if !self.stopped.load(Relaxed) {
                drop(self.wake.1.wait_timeout(held, left.min(WAIT_MAX)));
            }
        }
    }
}

/// Makes a filter for each compaction.
pub struct Filters(pub Arc<Pace>);

impl Factory for Filters {
    fn name(&self) -> &str {
        "pace"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        let pace = self.0.clone();
        let start = (pace.clock)();
        Box::new(Filter { pace, start, bytes: 0, looked: 0, last: None })
    }
}

struct Filter {
    pace: Arc<Pace>,
    start: Duration,
    bytes: u64,
    looked: u64,
    last: Option<Slice>,
}

impl CompactionFilter for Filter {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> lsm_tree::Result<Verdict> {
        if self.last.as_ref().is_some_and(|last| last > item.key()) {
            return Err(lsm_tree::Error::InvalidHeader("keys are out of order"));
        }
        self.last = Some(item.key().clone());
        self.bytes += (item.key().len() + item.value()?.len()) as u64;
        if self.bytes - self.looked >= STRIDE {
            self.looked = self.bytes;
            self.pace.wait(self.start, self.bytes);
            if self.pace.stopped.load(Relaxed) {
                let why = std::io::Error::new(std::io::ErrorKind::Interrupted, "the store is being closed");
                return Err(why.into());
            }
        }
        Ok(Verdict::Keep)
    }
}
