//! The subscribers of channels and patterns, and how a message gets to them.
//!
//! A message goes to the mailbox of every worker that has a subscriber, the publisher's own included, while the channel
//! is locked. So all subscribers of a channel see its messages in one order. It is encoded once; RESP2 and RESP3 differ
//! in its first byte.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::delivery::{Kind, Place};

/// Parts of the tables of channels: publishers of different channels seldom meet.
const PARTS: usize = 64;

/// Subscribers by client id, so that a client finds its own entry.
pub(super) type Subscribers = BTreeMap<u64, Place>;
type Topics = BTreeMap<Arc<[u8]>, Subscribers>;

/// The subscriptions of a node.
pub struct PubSub {
    pub(super) channels: Box<[Mutex<Topics>]>,
    pub(super) shards: Box<[Mutex<Topics>]>,
    pub(super) patterns: RwLock<Topics>,
    /// Topics of each kind, so that a kind without any costs nothing.
    counts: [AtomicUsize; 3],
    /// Clients with subscriptions.
    pub clients: AtomicUsize,
}

impl Default for PubSub {
    fn default() -> Self {
        let parts = || (0..PARTS).map(|_| Mutex::default()).collect();
        Self {
            channels: parts(),
            shards: parts(),
            patterns: RwLock::default(),
            counts: Default::default(),
            clients: AtomicUsize::new(0),
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The part that a channel is in.
pub(super) fn part(channel: &[u8]) -> usize {
    usize::from(keyspace::slot_of(channel)) % PARTS
}

impl PubSub {
    /// Number of channels, patterns or shard channels with subscribers.
    pub fn count(&self, kind: Kind) -> usize {
        self.counts[kind as usize].load(Relaxed)
    }

    /// True if a message to a channel could reach a client.
    #[inline]
    pub fn any(&self) -> bool {
        self.count(Kind::Channel) + self.count(Kind::Pattern) > 0
    }

    /// Calls `f` with the topics of the part that this topic is in.
    fn with<R>(&self, kind: Kind, topic: &[u8], f: impl FnOnce(&mut Topics) -> R) -> R {
        match kind {
            Kind::Channel => f(&mut lock(&self.channels[part(topic)])),
            Kind::Shard => f(&mut lock(&self.shards[part(topic)])),
            Kind::Pattern => f(&mut self.patterns.write().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Subscribes a client. Returns the topic, shared with other subscribers.
    pub fn subscribe(&self, kind: Kind, topic: &[u8], client: u64, place: Place) -> Arc<[u8]> {
        self.with(kind, topic, |topics| {
            let (topic, is_new) = match topics.get_key_value(topic) {
                Some((topic, _)) => (topic.clone(), false),
                None => (Arc::from(topic), true),
            };
            if is_new {
                self.counts[kind as usize].fetch_add(1, Relaxed);
            }
            topics.entry(topic.clone()).or_default().insert(client, place);
            topic
        })
    }

    /// Ends a subscription.
    pub fn unsubscribe(&self, kind: Kind, topic: &[u8], client: u64) {
        self.with(kind, topic, |topics| {
            let Some(subscribers) = topics.get_mut(topic) else { return };
            subscribers.remove(&client);
            if subscribers.is_empty() {
                topics.remove(topic);
                self.counts[kind as usize].fetch_sub(1, Relaxed);
            }
        });
    }

    /// Number of subscribers of a channel.
    pub fn subscribers(&self, kind: Kind, topic: &[u8]) -> usize {
        self.with(kind, topic, |topics| topics.get(topic).map_or(0, BTreeMap::len))
    }

    /// All channels of a kind with subscribers.
    pub fn topics(&self, kind: Kind) -> Vec<Arc<[u8]>> {
        match kind {
            Kind::Pattern => self.patterns.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect(),
            Kind::Channel => {
                self.channels.iter().flat_map(|part| lock(part).keys().cloned().collect::<Vec<_>>()).collect()
            }
            Kind::Shard => self.shards.iter().flat_map(|part| lock(part).keys().cloned().collect::<Vec<_>>()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::publish::encode;
    use super::*;

    const HERE: Place = Place { worker: 0, token: 7 };

    #[test]
    fn topics_come_and_go_with_their_subscribers() {
        let pubsub = PubSub::default();
        assert!(!pubsub.any());
        pubsub.subscribe(Kind::Channel, b"a", 1, HERE);
        pubsub.subscribe(Kind::Channel, b"a", 1, HERE);
        pubsub.subscribe(Kind::Channel, b"a", 2, HERE);
        pubsub.subscribe(Kind::Pattern, b"*", 1, HERE);
        pubsub.subscribe(Kind::Shard, b"s", 1, HERE);
        assert_eq!([Kind::Channel, Kind::Pattern, Kind::Shard].map(|kind| pubsub.count(kind)), [1, 1, 1]);
        assert_eq!(pubsub.subscribers(Kind::Channel, b"a"), 2);
        assert_eq!(pubsub.subscribers(Kind::Shard, b"a"), 0);
        pubsub.unsubscribe(Kind::Channel, b"a", 1);
        pubsub.unsubscribe(Kind::Channel, b"a", 3);
        assert_eq!(pubsub.topics(Kind::Channel), [Arc::from(&b"a"[..])]);
        pubsub.unsubscribe(Kind::Channel, b"a", 2);
        pubsub.unsubscribe(Kind::Pattern, b"*", 1);
        assert!(!pubsub.any());
        assert_eq!(pubsub.topics(Kind::Shard).len(), 1);
    }

    #[test]
    fn messages_are_encoded_as_redis_does() {
        assert_eq!(*encode(Kind::Channel, b"c", b"c", b"hi"), *b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n");
        assert_eq!(
            *encode(Kind::Pattern, b"c*", b"c1", b""),
            *b">4\r\n$8\r\npmessage\r\n$2\r\nc*\r\n$2\r\nc1\r\n$0\r\n\r\n"
        );
    }
}
