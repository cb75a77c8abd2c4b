//! Publish and subscribe.

mod introspect;
mod subscribe;

use command::{Error, KeySpec, Row, Spec, flags::*, key_flags};

use super::{Flow, SessionCtx, SessionRun, container};
use crate::push::delivery::Kind;

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

fn publish(ctx: &mut SessionCtx<'_>, kind: Kind) -> Result<Flow, Error> {
    let (channel, payload) = (ctx.arg(1), ctx.arg(2));
    let receivers = match &mut ctx.block {
        // No subscriber hears of a block before it ends.
        Some(block) => block.publish(ctx.node, kind, channel, payload),
        None => {
            let seen = ctx.engine.everything_seen();
            ctx.node.publish(usize::from(ctx.engine.index()), kind, channel, payload, &seen)
        }
    };
    ctx.reply().count(receivers as u64);
    Ok(Flow::Done)
}
