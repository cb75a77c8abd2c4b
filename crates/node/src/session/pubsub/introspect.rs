//! PUBSUB: the channels, and their numbers of subscribers.

use command::{Error, Row, Spec, flags::*};

use super::super::{Flow, SessionCtx, SessionRun, help, wrong_arguments};
use crate::push::delivery::Kind;

const fn sub(
    name: &'static str,
    arity: i32,
    since: &'static str,
    summary: &'static str,
    syntax: &'static str,
    run: SessionRun,
) -> Row<SessionRun> {
    let flags = PUBSUB | LOADING | STALE;
    let complexity = "O(N) where N is the number of channels or patterns.";
    Row {
        spec: Spec { name, arity, flags, group: "pubsub", since, complexity, summary, syntax, ..Spec::NEW },
        run,
        subcommands: &[],
    }
}

pub(super) const SUBCOMMANDS: &[Row<SessionRun>] = &[
    sub("channels", -2, "2.8.0", "Returns the active channels.", "[pattern]", |ctx| channels(ctx, Kind::Channel)),
    Row {
        spec: Spec {
            name: "help",
            arity: 2,
            flags: LOADING | STALE,
            group: "pubsub",
            since: "6.2.0",
            summary: "Returns helpful text about the different subcommands.",
            ..Spec::NEW
        },
        run: help,
        subcommands: &[],
    },
    sub("numpat", 2, "2.8.0", "Returns a count of unique pattern subscriptions.", "", numpat),
    sub("numsub", -2, "2.8.0", "Returns a count of subscribers to channels.", "[channel [channel ...]]", |ctx| {
        numsub(ctx, Kind::Channel)
    }),
    sub("shardchannels", -2, "7.0.0", "Returns the active shard channels.", "[pattern]", |ctx| {
        channels(ctx, Kind::Shard)
    }),
    sub(
        "shardnumsub",
        -2,
        "7.0.0",
        "Returns the count of subscribers of shard channels.",
        "[shardchannel [shardchannel ...]]",
        |ctx| numsub(ctx, Kind::Shard),
    ),
];

fn channels(ctx: &mut SessionCtx<'_>, kind: Kind) -> Result<Flow, Error> {
    if ctx.args.len() > 3 {
        return Err(wrong_arguments("PUBSUB", &ctx.args[1]));
    }
    let pattern = ctx.args.get(2);
    let mut topics = ctx.node.pubsub.topics(kind);
    topics.retain(|topic| pattern.is_none_or(|pattern| object::glob::matches(pattern, topic)));
    let mut reply = ctx.reply();
    reply.array(topics.len());
    topics.iter().for_each(|topic| reply.bulk(topic));
    Ok(Flow::Done)
}

fn numsub(ctx: &mut SessionCtx<'_>, kind: Kind) -> Result<Flow, Error> {
    let node = ctx.node.clone();
    let args = ctx.args;
    let mut reply = ctx.reply();
    reply.array((args.len() - 2) * 2);
    for channel in args.iter().skip(2) {
        reply.bulk(channel);
        reply.count(node.pubsub.subscribers(kind, channel) as u64);
    }
    Ok(Flow::Done)
}

fn numpat(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let patterns = ctx.node.pubsub.count(Kind::Pattern);
    ctx.reply().count(patterns as u64);
    Ok(Flow::Done)
}
