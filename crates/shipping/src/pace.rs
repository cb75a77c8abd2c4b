//! A limit of bytes per second, so that a shipment leaves disk and network to clients.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::give_way::{GiveWay, Order};

/// The clock of a shipment, its pauses, and the clients beside it, handed in.
pub trait Pauses {
    /// Nanoseconds since some moment. They never fall.
    fn now_ns(&self) -> u64;
    /// Waits.
    fn pause(&self, time: Duration);
    /// The waits of clients for the disk that the files are on, since some moment.
    fn waited(&self) -> Waited {
        Waited::default()
    }
}

/// Waits of clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waited {
    /// How many there were.
    pub times: u64,
    /// Nanoseconds of all together.
    pub ns: u64,
}

/// How far a shipment may be ahead of its pace: bytes that are sent at once after a pause. A client's command may have
/// to wait until they are read, sent and written, for a CPU or the disk.
const AHEAD_NS: u64 = 1_000_000;

/// A limit. It may change while a shipment is under way.
#[derive(Debug)]
pub struct Pace(AtomicU64);

impl Pace {
    /// At most so many bytes a second. 0: no limit.
    #[must_use]
    pub fn new(bytes_per_second: u64) -> Self {
        Self(AtomicU64::new(bytes_per_second))
    }

    /// Another limit, from now on.
    pub fn set(&self, bytes_per_second: u64) {
        self.0.store(bytes_per_second, Relaxed);
    }
}

/// The place of one shipment in its pace.
pub(crate) struct Meter<'a> {
    pace: &'a Pace,
    pauses: &'a dyn Pauses,
    way: GiveWay,
    /// Bytes that remain.
    left: u64,
    /// The moment at which everything up to now has had its time.
    due_ns: u64,
}

impl<'a> Meter<'a> {
    /// Of a shipment of so many bytes.
    pub(crate) fn new(pace: &'a Pace, pauses: &'a dyn Pauses, bytes: u64) -> Self {
        let now = pauses.now_ns();
        Self { pace, pauses, way: GiveWay::new(now, pauses.waited()), left: bytes, due_ns: now }
    }

    /// Bytes have been sent: waits until they have had their time, and while clients are to be alone.
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
        let most = self.pace.0.load(Relaxed);
        if most == 0 {
            self.due_ns = self.pauses.now_ns();
            return;
        }
        let (now, per_second) = loop {
            let now = self.pauses.now_ns();
            match self.way.look(now, self.pauses.waited(), most, self.left) {
                Order::Rest(ns) => self.pauses.pause(Duration::from_nanos(ns)),
                Order::Send(speed) => break (now, speed),
            }
        };
        let time = u128::from(bytes) * 1_000_000_000 / u128::from(per_second);
        // Time that was not used, as disk or network were slow, is not made up for.
        self.due_ns = self.due_ns.max(now).saturating_add(u64::try_from(time).unwrap_or(u64::MAX));
        let early = self.due_ns.saturating_sub(now);
        if early > AHEAD_NS {
            self.pauses.pause(Duration::from_nanos(early));
        }
    }
}
