//! How long the log waits for other copies once the own disk has a block.

use redolog::Clock;

/// One block of each stream at a time is followed.
#[derive(Default)]
pub(super) struct Waits {
    clock: Option<Clock>,
    streams: Vec<Wait>,
    longest: u64,
}

#[derive(Clone, Copy, Default)]
struct Wait {
    /// The block that is followed, and since when.
    of: Option<(u64, u64)>,
    /// The last block that a majority has.
    reached: u64,
}

impl Waits {
    /// Of so many streams. Nothing is measured before there is a clock.
    pub fn new(streams: usize) -> Self {
        Self { streams: vec![Wait::default(); streams], ..Self::default() }
    }

    pub fn measure_by(&mut self, clock: Clock) {
        self.clock = Some(clock);
    }

    /// The own disk has a stream up to this block.
    pub fn own_has(&mut self, stream: usize, block: u64) {
        let Some(wait) = self.streams.get_mut(stream) else { return };
        if wait.of.is_none() && block > wait.reached {
            wait.of = self.clock.as_ref().map(|clock| (block, clock()));
        }
    }

    /// A majority has it up to this one.
    pub fn majority_has(&mut self, stream: usize, block: u64) {
        let Some(wait) = self.streams.get_mut(stream) else { return };
        wait.reached = wait.reached.max(block);
        if let Some((_, since)) = wait.of.take_if(|(of, _)| *of <= block)
            && let Some(clock) = &self.clock
        {
            self.longest = self.longest.max(clock().saturating_sub(since));
        }
    }

    /// Nanoseconds of the longest wait since the last call, among them the waits that last.
    pub fn take_longest(&mut self) -> u64 {
        let longest = std::mem::take(&mut self.longest);
        let Some(clock) = &self.clock else { return longest };
        let now = clock();
        let running = self.streams.iter().filter_map(|wait| wait.of).map(|(_, since)| now.saturating_sub(since));
        running.fold(longest, u64::max)
    }
}

#[test]
fn the_longest_wait_is_told() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    let now = Arc::new(AtomicU64::new(10));
    let (read, mut waits) = (now.clone(), Waits::new(2));
    waits.own_has(0, 1);
    waits.measure_by(Arc::new(move || read.load(Relaxed)));
    waits.own_has(0, 2);
    now.store(15, Relaxed);
    waits.own_has(0, 3);
    waits.majority_has(0, 1);
    assert_eq!(waits.take_longest(), 5, "it lasts");
    now.store(17, Relaxed);
    waits.majority_has(0, 4);
    // The own disk is the last to have it.
    waits.own_has(0, 4);
    now.store(30, Relaxed);
    assert_eq!((waits.take_longest(), waits.take_longest()), (7, 0));
    waits.own_has(1, 9);
    now.store(33, Relaxed);
    waits.majority_has(1, 9);
    assert_eq!(waits.take_longest(), 3);
}
