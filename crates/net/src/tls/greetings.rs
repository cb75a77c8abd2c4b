//! Handshakes under way, bounded in number and time.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Weak};

use node::{Token, UnixMs};

use super::{CROWDED_MS, HANDSHAKE_MS};

/// A handshake under way. Its session drops it when the handshake is done, or the connection is gone.
pub struct Greeting {
    under_way: Arc<AtomicUsize>,
    has_ended: AtomicBool,
}

impl Greeting {
    /// It counts no more.
    fn end(&self) {
        if !self.has_ended.swap(true, Relaxed) {
            self.under_way.fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for Greeting {
    fn drop(&mut self) {
        self.end();
    }
}

/// A connection whose handshake has begun.
struct Begun {
    at: UnixMs,
    token: Token,
    greeting: Weak<Greeting>,
}

/// The handshakes of a worker, in the order in which they began.
#[derive(Default)]
pub struct Greetings {
    under_way: Arc<AtomicUsize>,
    order: VecDeque<Begun>,
}

impl Greetings {
    /// Notes that a handshake begins at this moment. It is under way until the result is dropped.
    pub fn begin(&mut self, token: Token, now: UnixMs) -> Arc<Greeting> {
        // Those that are done go when they are most of the list, so each new one pays for a few looks.
        if self.order.len() > 2 * self.under_way() + 64 {
            self.order.retain(|begun| begun.greeting.strong_count() > 0);
        }
        self.under_way.fetch_add(1, Relaxed);
        let greeting = Arc::new(Greeting { under_way: Arc::clone(&self.under_way), has_ended: AtomicBool::new(false) });
        self.order.push_back(Begun { at: now, token, greeting: Arc::downgrade(&greeting) });
        greeting
    }

    /// How many there are.
    pub fn under_way(&self) -> usize {
        self.under_way.load(Relaxed)
    }

    /// The next connection to close: its time is over, or there are more than `most` handshakes, and it is the oldest
    /// and slow. A burst of clients that greet quickly loses none.
    pub fn overdue(&mut self, now: UnixMs, most: usize) -> Option<Token> {
        loop {
            let first = self.order.front()?;
            let age = now.since(first.at);
            let is_under_way = first.greeting.strong_count() > 0;
            if is_under_way && age < HANDSHAKE_MS && (age < CROWDED_MS || self.under_way() <= most) {
                return None;
            }
            let first = self.order.pop_front()?;
            if let Some(greeting) = first.greeting.upgrade() {
                // io_uring keeps the session until the kernel has let go of its buffers.
                greeting.end();
                return Some(first.token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_end_in_time() {
        let mut greetings = Greetings::default();
        let kept = [1, 2, 3].map(|token| greetings.begin(token, UnixMs(100 * token)));
        assert_eq!(greetings.overdue(UnixMs(HANDSHAKE_MS + 99), 3), None);
        assert_eq!([1, 2].map(|_| greetings.overdue(UnixMs(HANDSHAKE_MS + 100), 3)), [Some(1), None]);
        drop(kept);
        assert_eq!((greetings.overdue(UnixMs::NEVER, 3), greetings.under_way()), (None, 0));
    }

    #[test]
    fn only_slow_ones_make_room() {
        let mut greetings = Greetings::default();
        let mut kept: VecDeque<_> = (0..6).map(|token| greetings.begin(token, UnixMs(token))).collect();
        assert_eq!(greetings.overdue(UnixMs(CROWDED_MS - 1), 3), None, "a burst");
        let mut closed = || {
            let token = greetings.overdue(UnixMs(CROWDED_MS + 10), 3)?;
            kept.pop_front();
            Some(token)
        };
        assert_eq!([(); 4].map(|()| closed()), [Some(0), Some(1), Some(2), None]);
    }

    #[test]
    fn one_that_was_told_to_close_makes_room_before_it_is_gone() {
        let mut greetings = Greetings::default();
        let kept: Vec<_> = (0..6).map(|token| greetings.begin(token, UnixMs(token))).collect();
        let closed = [(); 4].map(|()| greetings.overdue(UnixMs(CROWDED_MS + 10), 3));
        assert_eq!(closed, [Some(0), Some(1), Some(2), None]);
        drop(kept);
        assert_eq!(greetings.under_way(), 0);
    }

    #[test]
    fn those_that_are_done_do_not_count() {
        let mut greetings = Greetings::default();
        for token in 0..100_000 {
            drop(greetings.begin(token, UnixMs(1)));
        }
        assert!(greetings.order.len() < 100, "{}", greetings.order.len());
        let slow = greetings.begin(7, UnixMs(1));
        for token in 0..1000 {
            drop(greetings.begin(token, UnixMs(2)));
            assert_eq!(greetings.overdue(UnixMs(1 + CROWDED_MS), 1), None);
        }
        drop(slow);
    }
}
