//! SUBSCRIBE, UNSUBSCRIBE and their forms for patterns and shard channels.

use std::sync::Arc;

use command::Error;

use super::super::{Flow, SessionCtx};
use crate::push::delivery::{Kind, Place};

/// The words of a confirmation.
fn words(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Channel => ("subscribe", "unsubscribe"),
        Kind::Pattern => ("psubscribe", "punsubscribe"),
        Kind::Shard => ("ssubscribe", "sunsubscribe"),
    }
}

fn confirm(ctx: &mut SessionCtx<'_>, word: &str, topic: Option<&[u8]>, kind: Kind) {
    let count = ctx.session.subscriptions.as_ref().map_or(0, |s| s.counted_with(kind));
    let mut reply = ctx.reply();
    reply.push(3);
    reply.bulk(word);
    match topic {
        Some(topic) => reply.bulk(topic),
        None => reply.null(),
    }
    reply.count(count as u64);
}

pub(super) fn subscribe(ctx: &mut SessionCtx<'_>, kind: Kind) -> Result<Flow, Error> {
    if kind == Kind::Shard && ctx.block.is_some() {
        return Err(Error::new("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"));
    }
    let place = Place { worker: ctx.engine.index(), token: ctx.token };
    for topic in ctx.args.iter().skip(1) {
        let subscriptions = ctx.session.subscriptions.get_or_insert_default();
        if !subscriptions.has(kind, topic) {
            let topic = ctx.node.pubsub.subscribe(kind, topic, ctx.session.client.id, place);
            subscriptions.add(kind, topic);
        }
        confirm(ctx, words(kind).0, Some(topic), kind);
    }
    ctx.session.show_subscriptions(ctx.node);
    Ok(Flow::Done)
}

pub(super) fn unsubscribe(ctx: &mut SessionCtx<'_>, kind: Kind) -> Result<Flow, Error> {
    let word = words(kind).1;
    let topics: Vec<Arc<[u8]>> = match ctx.args.len() {
        1 => ctx.session.subscriptions.iter().flat_map(|s| s.of(kind).iter().cloned()).collect(),
        _ => ctx.args.iter().skip(1).map(Arc::from).collect(),
    };
    if topics.is_empty() {
        confirm(ctx, word, None, kind);
    }
    for topic in topics {
        if ctx.session.subscriptions.as_mut().is_some_and(|s| s.remove(kind, &topic)) {
            ctx.node.pubsub.unsubscribe(kind, &topic, ctx.session.client.id);
        }
        confirm(ctx, word, Some(&topic), kind);
    }
    ctx.session.show_subscriptions(ctx.node);
    Ok(Flow::Done)
}
