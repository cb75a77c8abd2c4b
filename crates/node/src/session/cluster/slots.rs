//! Slots and their nodes in the forms that clients read: CLUSTER SLOTS, CLUSTER SHARDS.

use command::Error;
use resp::Reply;

use super::super::{Flow, SessionCtx};
use super::admin::silent;
use super::map::map;
use super::nodes::failed;

pub(super) fn slots(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let (map, _) = map(ctx)?;
    let (settings, tls) = (ctx.settings, ctx.session.client.peer.tls);
    let mut reply = ctx.reply();
    reply.array(map.ranges().len());
    for range in map.ranges() {
        let node = map.node(range.node);
        reply.array(3);
        reply.count(range.start.get().into());
        reply.count(range.end.get().into());
        reply.array(4);
        reply.bulk(&node.host);
        reply.count(settings.port_at(node, tls).into());
        reply.bulk(node.id.to_string());
        reply.array(0);
    }
    Ok(Flow::Done)
}

pub(super) fn shards(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let (map, me) = map(ctx)?;
    let silent = silent(ctx);
    // A port for smart clients speaks both, as far as the settings go. Nodes of a cluster are alike in that.
    let settings = ctx.settings;
    let (plain, tls) = (settings.port != 0, settings.tls_port != 0);
    let mut reply = ctx.reply();
    reply.array(map.nodes().len());
    for (index, node) in map.nodes().iter().enumerate() {
        let ranges: Vec<_> = map.ranges_of(index as u16).collect();
        reply.map(2);
        reply.bulk("slots");
        reply.array(ranges.len() * 2);
        for range in ranges {
            reply.count(range.start.get().into());
            reply.count(range.end.get().into());
        }
        reply.bulk("nodes");
        reply.array(1);
        reply.map(6 + usize::from(plain) + usize::from(tls));
        let mut field = |name: &str, value: &dyn Fn(&mut Reply<'_>)| {
            reply.bulk(name);
            value(&mut reply);
        };
        field("id", &|reply| reply.bulk(node.id.to_string()));
        for (name, is_tls, _) in
            [("port", false, plain), ("tls-port", true, tls)].iter().filter(|(_, _, speaks)| *speaks)
        {
            field(name, &|reply| reply.count(settings.port_at(node, *is_tls).into()));
        }
        field("ip", &|reply| reply.bulk(&node.host));
        field("endpoint", &|reply| reply.bulk(&node.host));
        field("role", &|reply| reply.bulk("master"));
        field("replication-offset", &|reply| reply.count(0));
        field("health", &|reply| {
            let failed = me != Some(index as u16) && failed(node, &silent);
            reply.bulk(if failed { "fail" } else { "online" });
        });
    }
    Ok(Flow::Done)
}
