//! The subscriptions of a session.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::Session;
use crate::node::Node;
use crate::push::delivery::Kind;

/// The subscriptions of a session.
#[derive(Default)]
pub struct Subscriptions {
    channels: BTreeSet<Arc<[u8]>>,
    patterns: BTreeSet<Arc<[u8]>>,
    shards: BTreeSet<Arc<[u8]>>,
    /// Bytes of all their names.
    bytes: u64,
}

impl Subscriptions {
    pub(super) fn of(&self, kind: Kind) -> &BTreeSet<Arc<[u8]>> {
        match kind {
            Kind::Channel => &self.channels,
            Kind::Pattern => &self.patterns,
            Kind::Shard => &self.shards,
        }
    }

    pub(super) fn of_mut(&mut self, kind: Kind) -> &mut BTreeSet<Arc<[u8]>> {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::Shard => &mut self.shards,
        }
    }

    pub(super) fn add(&mut self, kind: Kind, topic: Arc<[u8]>) {
        self.bytes += topic.len() as u64;
        self.of_mut(kind).insert(topic);
    }

    /// Removes a subscription. Returns whether it was there.
    pub(super) fn remove(&mut self, kind: Kind, topic: &[u8]) -> bool {
        let was = self.of_mut(kind).remove(topic);
        self.bytes -= if was { topic.len() as u64 } else { 0 };
        was
    }

    /// The number that replies to SUBSCRIBE show: shard channels apart from the others.
    pub(super) fn counted_with(&self, kind: Kind) -> usize {
        match kind {
            Kind::Shard => self.shards.len(),
            _ => self.channels.len() + self.patterns.len(),
        }
    }

    /// True if a user that may use these channels keeps all of them.
    pub(crate) fn are_kept(&self, left: &acl::Subscriptions) -> bool {
        let keeps = |all: &BTreeSet<Arc<[u8]>>, is_pattern| all.iter().all(|topic| left.keeps(topic, is_pattern));
        keeps(&self.channels, false) && keeps(&self.shards, false) && keeps(&self.patterns, true)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counted_with(Kind::Channel) + self.counted_with(Kind::Shard) == 0
    }

    /// True if the session still wants messages of this subscription.
    pub fn has(&self, kind: Kind, topic: &[u8]) -> bool {
        self.of(kind).contains(topic)
    }
}

impl Session {
    /// Shows other workers how many subscriptions it has, and counts it among the subscribers.
    pub(super) fn show_subscriptions(&mut self, node: &Node) {
        let had = self.client.subscriptions() > 0;
        let subscriptions = self.subscriptions.take().filter(|subscriptions| !subscriptions.is_empty());
        let len = |kind| subscriptions.as_ref().map_or(0, |s| s.of(kind).len() as u32);
        self.client.channels.store(len(Kind::Channel), Relaxed);
        self.client.patterns.store(len(Kind::Pattern), Relaxed);
        self.client.shard_channels.store(len(Kind::Shard), Relaxed);
        self.client.subscribed_bytes.store(subscriptions.as_ref().map_or(0, |s| s.bytes), Relaxed);
        self.subscriptions = subscriptions;
        match (had, self.is_subscribed()) {
            (false, true) => node.pubsub.clients.fetch_add(1, Relaxed),
            (true, false) => node.pubsub.clients.fetch_sub(1, Relaxed),
            _ => 0,
        };
    }

    /// True if it has subscribed to anything.
    pub fn is_subscribed(&self) -> bool {
        self.subscriptions.is_some()
    }
}

/// Ends all subscriptions (RESET, disconnect).
pub(crate) fn stop(node: &Node, session: &mut Session) {
    let Some(subscriptions) = session.subscriptions.take() else { return };
    for kind in [Kind::Channel, Kind::Pattern, Kind::Shard] {
        for topic in subscriptions.of(kind) {
            node.pubsub.unsubscribe(kind, topic, session.client.id);
        }
    }
    session.show_subscriptions(node);
}
