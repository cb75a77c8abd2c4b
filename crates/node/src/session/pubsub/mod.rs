//! Publish and subscribe.

mod introspect;
mod subscribe;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use command::{Error, KeySpec, Row, Spec, flags::*, key_flags};

use super::{Flow, Session, SessionCtx, SessionRun, container};
use crate::node::Node;
use crate::push::pubsub::Kind;

const SUBSCRIBE: u32 = PUBSUB | NOSCRIPT | LOADING | STALE;
const PUBLISH: u32 = PUBSUB | LOADING | STALE | FAST | MAY_REPLICATE;
/// A shard channel has a slot, but is no key.
const SHARD: &[KeySpec] = &[KeySpec::one(1, key_flags::NOT_KEY)];
const SHARDS: &[KeySpec] = &[KeySpec::range(1, -1, 1, key_flags::NOT_KEY)];

#[expect(clippy::too_many_arguments, reason = "the columns of a table")]
const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    keys: &'static [KeySpec],
    since: &'static str,
    summary: &'static str,
    syntax: &'static str,
    run: SessionRun,
) -> Row<SessionRun> {
    let complexity = match keys {
        [] => "O(N) where N is the number of channels, or of their subscribers and matching patterns.",
        _ => "O(N) where N is the number of shard channels, or of their subscribers.",
    };
    let spec = Spec { name, arity, flags, keys, group: "pubsub", since, complexity, summary, syntax, ..Spec::NEW };
    Row { spec, run, subcommands: &[] }
}

const CHANNELS: &str = "channel [channel ...]";
const SHARD_CHANNELS: &str = "shardchannel [shardchannel ...]";

/// The rows of the family.
pub const ROWS: &[Row<SessionRun>] = &[
    row(
        "subscribe",
        -2,
        SUBSCRIBE | DENYOOM,
        &[],
        "2.0.0",
        "Listens for messages published to channels.",
        CHANNELS,
        |ctx| subscribe::subscribe(ctx, Kind::Channel),
    ),
    row(
        "psubscribe",
        -2,
        SUBSCRIBE | DENYOOM,
        &[],
        "2.0.0",
        "Listens for messages published to channels that match one or more patterns.",
        "pattern [pattern ...]",
        |ctx| subscribe::subscribe(ctx, Kind::Pattern),
    ),
    row(
        "ssubscribe",
        -2,
        SUBSCRIBE | DENYOOM,
        SHARDS,
        "7.0.0",
        "Listens for messages published to shard channels.",
        SHARD_CHANNELS,
        |ctx| subscribe::subscribe(ctx, Kind::Shard),
    ),
    row(
        "unsubscribe",
        -1,
        SUBSCRIBE,
        &[],
        "2.0.0",
        "Stops listening to messages posted to channels.",
        "[channel [channel ...]]",
        |ctx| subscribe::unsubscribe(ctx, Kind::Channel),
    ),
    row(
        "punsubscribe",
        -1,
        SUBSCRIBE,
        &[],
        "2.0.0",
        "Stops listening to messages published to channels that match one or more patterns.",
        "[pattern [pattern ...]]",
        |ctx| subscribe::unsubscribe(ctx, Kind::Pattern),
    ),
    row(
        "sunsubscribe",
        -1,
        SUBSCRIBE,
        SHARDS,
        "7.0.0",
        "Stops listening to messages posted to shard channels.",
        "[shardchannel [shardchannel ...]]",
        |ctx| subscribe::unsubscribe(ctx, Kind::Shard),
    ),
    row("publish", 3, PUBLISH, &[], "2.0.0", "Posts a message to a channel.", "channel message", |ctx| {
        publish(ctx, Kind::Channel)
    }),
    row("spublish", 3, PUBLISH, SHARD, "7.0.0", "Post a message to a shard channel", "shardchannel message", |ctx| {
        publish(ctx, Kind::Shard)
    }),
    Row {
        spec: Spec {
            name: "pubsub",
            arity: -2,
            group: "pubsub",
            since: "2.8.0",
            complexity: "Depends on subcommand.",
            summary: "A container for Pub/Sub commands.",
            ..Spec::NEW
        },
        run: container,
        subcommands: introspect::SUBCOMMANDS,
    },
];

/// What a session is subscribed to.
#[derive(Default)]
pub struct Subscriptions {
    channels: BTreeSet<Arc<[u8]>>,
    patterns: BTreeSet<Arc<[u8]>>,
    shards: BTreeSet<Arc<[u8]>>,
    /// Bytes of all their names.
    bytes: u64,
}

impl Subscriptions {
    fn of(&self, kind: Kind) -> &BTreeSet<Arc<[u8]>> {
        match kind {
            Kind::Channel => &self.channels,
            Kind::Pattern => &self.patterns,
            Kind::Shard => &self.shards,
        }
    }

    fn of_mut(&mut self, kind: Kind) -> &mut BTreeSet<Arc<[u8]>> {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::Shard => &mut self.shards,
        }
    }

    fn add(&mut self, kind: Kind, topic: Arc<[u8]>) {
        self.bytes += topic.len() as u64;
        self.of_mut(kind).insert(topic);
    }

    /// Whether it was there.
    fn remove(&mut self, kind: Kind, topic: &[u8]) -> bool {
        let was = self.of_mut(kind).remove(topic);
        self.bytes -= if was { topic.len() as u64 } else { 0 };
        was
    }

    /// What replies to SUBSCRIBE count: shard channels apart from the others.
    fn counted_with(&self, kind: Kind) -> usize {
        match kind {
            Kind::Shard => self.shards.len(),
            _ => self.channels.len() + self.patterns.len(),
        }
    }

    fn is_empty(&self) -> bool {
        self.counted_with(Kind::Channel) + self.counted_with(Kind::Shard) == 0
    }

    /// Whether a message that came by this one is still wanted.
    pub fn has(&self, kind: Kind, topic: &[u8]) -> bool {
        self.of(kind).contains(topic)
    }
}

impl Session {
    /// Shows others how many subscriptions it has, and counts it among those who have any.
    fn show_subscriptions(&mut self, node: &Node) {
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

    /// Whether it has subscribed to anything.
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

fn publish(ctx: &mut SessionCtx<'_>, kind: Kind) -> Result<Flow, Error> {
    let (channel, payload) = (ctx.arg(1), ctx.arg(2));
    let receivers = match &mut ctx.block {
        // Nobody hears of a block before it ends.
        Some(block) => block.publish(ctx.node, kind, channel, payload),
        None => {
            let seen = ctx.engine.everything_seen();
            ctx.node.publish(usize::from(ctx.engine.index()), kind, channel, payload, &seen)
        }
    };
    ctx.reply().count(receivers as u64);
    Ok(Flow::Done)
}
