//! How a message gets to the subscribers.

use std::sync::{Arc, PoisonError};

use keyspace::Horizon;
use resp::{Protocol, Reply};

use super::delivery::{Delivery, Kind};
use super::pubsub::{Subscribers, lock, part};
use crate::node::Node;
use crate::worker::message::Message;

/// The message as RESP3 pushes it.
pub(super) fn encode(kind: Kind, topic: &[u8], channel: &[u8], payload: &[u8]) -> Arc<[u8]> {
    let mut bytes = Vec::with_capacity(channel.len() + payload.len() + topic.len() + 64);
    let mut reply = Reply::new(&mut bytes, Protocol::Resp3);
    reply.push(if kind == Kind::Pattern { 4 } else { 3 });
    reply.bulk(kind.message());
    if kind == Kind::Pattern {
        reply.bulk(topic);
    }
    reply.bulk(channel);
    reply.bulk(payload);
    bytes.into()
}

impl Node {
    /// Sends a message to the subscribers of a channel, on behalf of worker `from`. It leaves when `seen` is committed.
    /// Returns the number of receivers; a client that has subscribed in several ways counts as often.
    pub fn publish(&self, from: usize, kind: Kind, channel: &[u8], payload: &[u8], seen: &Horizon) -> usize {
        let pubsub = &self.pubsub;
        let parts = if kind == Kind::Shard { &pubsub.shards } else { &pubsub.channels };
        if kind == Kind::Shard && pubsub.count(kind) == 0 || kind != Kind::Shard && !pubsub.any() {
            return 0;
        }
        let topics = lock(&parts[part(channel)]);
        let mut receivers = 0;
        if let Some((topic, subscribers)) = topics.get_key_value(channel) {
            receivers += subscribers.len();
            self.deliver(from, kind, topic, subscribers, encode(kind, topic, channel, payload), seen);
        }
        if kind == Kind::Channel && pubsub.count(Kind::Pattern) > 0 {
            let patterns = pubsub.patterns.read().unwrap_or_else(PoisonError::into_inner);
            for (pattern, subscribers) in patterns.iter().filter(|(pattern, _)| object::glob::matches(pattern, channel))
            {
                receivers += subscribers.len();
                let push = encode(Kind::Pattern, pattern, channel, payload);
                self.deliver(from, Kind::Pattern, pattern, subscribers, push, seen);
            }
        }
        receivers
    }

    /// How many receivers a message would reach.
    pub fn receivers(&self, kind: Kind, channel: &[u8]) -> usize {
        let pubsub = &self.pubsub;
        let mut receivers = pubsub.subscribers(kind, channel);
        if kind == Kind::Channel && pubsub.count(Kind::Pattern) > 0 {
            let patterns = pubsub.patterns.read().unwrap_or_else(PoisonError::into_inner);
            let matching = patterns.iter().filter(|(pattern, _)| object::glob::matches(pattern, channel));
            receivers += matching.map(|(_, subscribers)| subscribers.len()).sum::<usize>();
        }
        receivers
    }

    fn deliver(
        &self,
        from: usize,
        kind: Kind,
        topic: &Arc<[u8]>,
        subscribers: &Subscribers,
        push: Arc<[u8]>,
        seen: &Horizon,
    ) {
        let mut by_worker: Vec<Vec<u64>> = vec![Vec::new(); self.workers()];
        for place in subscribers.values() {
            if let Some(tokens) = by_worker.get_mut(usize::from(place.worker)) {
                tokens.push(place.token);
            }
        }
        for (worker, tokens) in by_worker.into_iter().enumerate().filter(|(_, tokens)| !tokens.is_empty()) {
            let delivery = Delivery { kind, topic: topic.clone(), push: push.clone(), tokens, seen: seen.clone() };
            self.send_from(from, worker, Message::Publish(Box::new(delivery)));
        }
    }
}
