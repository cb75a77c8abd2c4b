//! How fast writers of an owner may be while the best of its standbys lags (rule S11). Pure: the time is handed in.
//!
//! On and off would not do: an owner hears of a lag some tenths of a second later, and its clients would stop for as long.
//! So writers get somewhat less than what the standby has applied lately, and the lag goes down.

use std::collections::BTreeMap;

use clocks::BootMs;
use membership::BootNs;
use standby::Process;

/// Between two reports of a standby, of which its speed is taken, in milliseconds at least.
const BETWEEN_MS: u64 = 200;
/// The slowest pace, in bytes a second: writers go on, though a standby has stopped.
const LEAST: u64 = 64 << 10;

/// See the module's text.
#[derive(Default)]
pub struct Pace {
    /// The last reports: when, and the bytes that had been applied.
    reports: BTreeMap<Process, (BootNs, u64)>,
    /// Bytes of records a second that the fastest standby has applied lately.
    applies: u64,
    /// The log as it was looked at last: its bytes, and its size as a tail.
    written: (u64, u64),
    /// So many of the tail's bytes come with 1024 bytes of records.
    ratio: u64,
}

impl Pace {
    /// A standby had applied so many bytes at a time.
    pub fn report(&mut self, process: Process, at: BootNs, applied_bytes: u64) {
        let (since, before) = *self.reports.entry(process).or_insert((at, applied_bytes));
        let ms = at.0.saturating_sub(since.0) / 1_000_000;
        if ms < BETWEEN_MS {
            return;
        }
        self.reports.insert(process, (at, applied_bytes));
        let speed = u128::from(applied_bytes.saturating_sub(before)) * 1000 / u128::from(ms);
        // One slow moment is none of its fault.
        self.applies = (speed as u64).max(self.applies / 4 * 3);
    }

    /// The log has so many bytes of records, and such a size as a tail ([`node::Tail::position`]).
    pub fn written(&mut self, bytes: u64, size: u64) {
        let (bytes_before, size_before) = std::mem::replace(&mut self.written, (bytes, size));
        let (more, grown) = (bytes.saturating_sub(bytes_before), size.saturating_sub(size_before));
        if let Some(ratio) = (grown * 1024).checked_div(more) {
            self.ratio = ratio.clamp(1024, 64 << 10);
        }
    }

    /// Bytes by which the tail may grow in a second.
    pub fn get(&self) -> u64 {
        let bytes = u128::from(self.applies / 8 * 7) * u128::from(self.ratio.max(1024)) / 1024;
        (bytes.min(u128::from(u64::MAX)) as u64).max(LEAST)
    }

    /// Standbys that were not heard lately say nothing any more.
    pub fn forget(&mut self, now: BootMs) {
        self.reports.retain(|_, (at, _)| now < at.ms() + 10_000);
    }
}

#[cfg(test)]
mod tests {
    use standby::NodeNumber;

    use super::*;

    #[test]
    fn writers_are_somewhat_slower_than_the_fastest_standby() {
        let process = |node| Process { node: NodeNumber(node), life: 1 };
        let at = |ms: u64| BootNs(ms * 1_000_000);
        let mut pace = Pace::default();
        assert_eq!(pace.get(), LEAST);
        pace.report(process(1), at(1_000), 5 << 20);
        assert_eq!(pace.get(), LEAST, "that says nothing about its speed");
        pace.report(process(1), at(1_100), 6 << 20);
        pace.report(process(1), at(1_500), 13 << 20);
        assert_eq!(pace.get(), 14 << 20, "8 MB in half a second");
        // The same report again, and a slower standby.
        pace.report(process(1), at(1_500), 13 << 20);
        pace.report(process(2), at(1_500), 0);
        assert_eq!(pace.get(), 14 << 20);
        pace.report(process(2), at(2_000), 1 << 20);
        assert_eq!(pace.get(), 21 << 19, "it is forgotten by and by");
        (0..40).for_each(|step| pace.report(process(1), at(2_500 + step * 500), 13 << 20));
        assert_eq!(pace.get(), LEAST, "it applies nothing, and writers go on");
    }

    #[test]
    fn small_records_make_a_longer_tail_than_their_bytes() {
        let process = Process { node: NodeNumber(1), life: 1 };
        let mut pace = Pace::default();
        pace.report(process, BootNs(0), 0);
        pace.report(process, BootNs(1_000_000_000), 8 << 20);
        assert_eq!(pace.get(), 7 << 20);
        pace.written(1 << 20, 1 << 20);
        pace.written(3 << 20, 5 << 20);
        assert_eq!(pace.get(), 14 << 20);
        // Nothing was written.
        pace.written(3 << 20, 5 << 20);
        assert_eq!(pace.get(), 14 << 20);
    }
}
