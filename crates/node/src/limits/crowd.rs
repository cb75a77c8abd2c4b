//! `maxmemory-clients`: what all connections take together, and which of them are closed when it is too much.
//!
//! Each worker keeps the sum of its own connections up to date as they are used. Only when these sums together reach the limit is
//! every client looked at, and the largest go until the others are below it. As in Redis, clients with CLIENT NO-EVICT count, but
//! stay.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::client::Client;
use crate::config::{ClientMemory, Settings};
use crate::figures::stats::{WorkerStats, add, sub};
use crate::node::Node;
use crate::worker::Worker;
use crate::worker::conn::Conn;
use crate::worker::message::Message;

/// No limit is lower: with less nobody could connect to put it right (as in Redis).
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
    /// Whether connections take as much as `limit` together, in bytes, as far as their workers know.
    pub(crate) fn is_above(&self, limit: u64) -> bool {
        self.stats.iter().map(|stats| stats.client_memory.load(Relaxed)).fold(0, u64::wrapping_add) >= limit
    }
}

impl Conn {
    /// Counts what the connection takes now. True: it is more than before.
    pub(crate) fn weigh(&mut self, stats: &WorkerStats) -> bool {
        if !self.is_client() {
            return false;
        }
        let (before, now) = (self.weight, self.session.client.memory());
        self.weight = now;
        add(&stats.client_memory, now.wrapping_sub(before));
        now > before
    }

    /// The worker's sum is to do without it.
    pub(crate) fn unweigh(&mut self, stats: &WorkerStats) {
        sub(&stats.client_memory, std::mem::take(&mut self.weight));
    }
}

impl Worker {
    /// Counts what all connections take now, or nothing if there is no limit, and sees whether it is too much: for a limit that has
    /// changed, and now and then because what is sent makes connections lighter.
    pub(crate) fn weigh_all(&mut self, settings: &Settings) {
        let limit = limit(settings);
        for conn in self.conns.iter_mut().flatten() {
            match limit {
                Some(_) => drop(conn.weigh(&self.stats)),
                None => conn.unweigh(&self.stats),
            }
        }
        if let Some(limit) = limit {
            self.close_largest(limit);
        }
    }

    /// Closes the largest connections if all of them take as much as `limit` together.
    pub(crate) fn close_largest(&mut self, limit: u64) {
        if self.node.is_above(limit) {
            self.close_heaviest(limit);
        }
    }

    /// The same; it is not known whether they take as much.
    pub(crate) fn close_heaviest(&mut self, limit: u64) {
        // The sums of the workers may lag behind; and those that are closed already are not in the list.
        let clients: Vec<Arc<Client>> = self.node.clients().values().cloned().collect();
        let mut weighed: Vec<(u64, Arc<Client>)> =
            clients.into_iter().map(|client| (client.memory(), client)).collect();
        let mut total: u64 = weighed.iter().map(|(weight, _)| weight).sum();
        if total < limit {
            return;
        }
        weighed.retain(|(_, client)| !client.no_evict.load(Relaxed));
        weighed.sort_unstable_by_key(|(weight, client)| (Reverse(*weight), client.id));
        for (weight, client) in weighed {
            if total < limit {
                return;
            }
            tracing::info!(client = client.id, address = client.peer.address, bytes = weight, "evicting client");
            add(&self.stats.evicted_clients, 1);
            total -= weight;
            self.close_for_all(&client);
        }
        tracing::warn!("over maxmemory-clients after evicting all clients that may be");
    }

    /// Closes a connection of any worker: gone for everybody at once, its worker does the rest.
    fn close_for_all(&mut self, client: &Client) {
        self.node.dismiss(client.id);
        client.seat.close();
        let (worker, token) = (usize::from(client.worker.load(Relaxed)), client.token.load(Relaxed));
        if worker == self.index && self.conn(token).is_some() {
            self.cut_off(token);
        } else {
            // Perhaps this worker itself, which has the connection in hands just now.
            self.node.send(worker, Message::Evict { token });
        }
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
