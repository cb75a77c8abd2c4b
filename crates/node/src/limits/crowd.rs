//! `maxmemory-clients`: the memory that all connections take together, and the connections that are closed when it is
//! too much.
//!
//! Each worker keeps the sum of its own connections up to date as they are used. Only when these sums together reach
//! the limit is every client checked, and the largest are closed until the others are below it. As in Redis, clients
//! with CLIENT NO-EVICT count, but stay.

use std::sync::atomic::Ordering::Relaxed;

use crate::config::{ClientMemory, Settings};
use crate::figures::stats::{WorkerStats, add, sub};
use crate::node::Node;
use crate::worker::conn::Conn;

/// No limit is lower: with less no client could connect to raise it (as in Redis).
const LIMIT_MIN: u64 = 128 << 10;

/// The limit in bytes, if there is one.
pub(crate) fn limit(settings: &Settings) -> Option<u64> {
    let bytes = match settings.maxmemory_clients {
        ClientMemory::Bytes(0) => return None,
        ClientMemory::Bytes(bytes) => bytes,
        ClientMemory::Percent(_) if settings.maxmemory == 0 => return None,
        ClientMemory::Percent(percent) => (u128::from(settings.maxmemory) * u128::from(percent) / 100) as u64,
    };
    Some(bytes.max(LIMIT_MIN))
}

impl Node {
    /// True if connections take as much as `limit` together, in bytes, as far as their workers know.
    pub(crate) fn is_above(&self, limit: u64) -> bool {
        self.stats.iter().map(|stats| stats.client_memory.load(Relaxed)).fold(0, u64::wrapping_add) >= limit
    }
}

impl Conn {
    /// Counts the connection's present bytes. True: they are more than before.
    pub(crate) fn weigh(&mut self, stats: &WorkerStats) -> bool {
        if !self.is_client() {
            return false;
        }
        let (before, now) = (self.weight, self.session.client.memory());
        self.weight = now;
        add(&stats.client_memory, now.wrapping_sub(before));
        now > before
    }

    /// Takes the connection out of the worker's sum.
    pub(crate) fn unweigh(&mut self, stats: &WorkerStats) {
        sub(&stats.client_memory, std::mem::take(&mut self.weight));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Values;

    fn limit_of(pairs: &[(&str, &str)]) -> Option<u64> {
        let mut values = Values::default();
        pairs.iter().for_each(|(name, value)| values.set(name, value.as_bytes()).unwrap());
        limit(&Settings::of(&values))
    }

    #[test]
    fn the_limit_is_bytes_or_a_share_of_maxmemory() {
        assert_eq!(limit_of(&[]), None);
        assert_eq!(limit_of(&[("maxmemory-clients", "3mb")]), Some(3 << 20));
        assert_eq!(limit_of(&[("maxmemory-clients", "1")]), Some(LIMIT_MIN));
        assert_eq!(limit_of(&[("maxmemory-clients", "7%")]), None);
        assert_eq!(limit_of(&[("maxmemory-clients", "7%"), ("maxmemory", "6mb")]), Some((6 << 20) * 7 / 100));
        let most = u64::MAX.to_string();
        assert_eq!(limit_of(&[("maxmemory-clients", "100%"), ("maxmemory", &most)]), Some(u64::MAX));
    }
}
