//! Connections that are closed when all of them take too much.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::crowd::limit;
use crate::client::Client;
use crate::config::Settings;
use crate::figures::stats::add;
use crate::worker::Worker;
use crate::worker::message::Message;

impl Worker {
    /// Counts the bytes that all connections take now, or nothing without a limit, and checks the limit. It is for a
    /// limit that has changed, and for connections that become lighter as they send.
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

    /// Closes the largest connections if all of them take as much as `limit`, which is not known yet.
    pub(crate) fn close_heaviest(&mut self, limit: u64) {
        // The sums of the workers may lag behind, and closed clients are no longer in the list.
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
        tracing::warn!("over maxmemory-clients after evicting all clients that may be evicted");
    }

    /// Closes a connection of any worker: gone for every other client at once, its worker does the rest.
    fn close_for_all(&mut self, client: &Client) {
        self.node.dismiss(client.id);
        client.seat.close();
        let (worker, token) = (usize::from(client.worker.load(Relaxed)), client.token.load(Relaxed));
        if worker == self.index && self.conn(token).is_some() {
            self.cut_off(token);
        } else {
            // This may be the worker itself, which is just executing for the connection.
            self.node.send(worker, Message::Evict { token });
        }
    }
}
