//! ROLE and REPLICAOF: a standby is a replica of the owner of its shard.

use ::membership::map::Node;
use command::Error;

use super::{Flow, SessionCtx, cluster};
use crate::cluster::copied::{own_offset, own_primary, seen};
use crate::durability::followed::is_linked;

/// The port at which a client of this kind reaches a node: smart clients have one of their own.
fn port_at(ctx: &SessionCtx<'_>, node: &Node) -> u16 {
    let peer = &ctx.session.client.peer;
    if peer.smart || peer.tls { ctx.settings.port_at(node, peer.tls) } else { node.port }
}

pub(super) fn role(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let offset = own_offset(ctx.node);
    if let Some(primary) = own_primary(ctx.node) {
        let (port, now) = (port_at(ctx, &primary), ctx.node.clock.monotonic_ns());
        let state = match ctx.node.copy() {
            Some(copy) if is_linked(&copy.figures(), now) => "connected",
            Some(_) => "connect",
            None => "sync",
        };
        let mut reply = ctx.reply();
        reply.array(5);
        reply.bulk("slave");
        reply.bulk(&primary.host);
        reply.count(port.into());
        reply.bulk(state);
        reply.count(offset);
        return Ok(Flow::Done);
    }
    let standbys: Vec<_> = seen(ctx.node).into_iter().filter(|seen| seen.following.is_some()).collect();
    let ports: Vec<u16> = standbys.iter().map(|seen| port_at(ctx, &seen.node)).collect();
    let mut reply = ctx.reply();
    reply.array(3);
    reply.bulk("master");
    reply.count(offset);
    reply.array(standbys.len());
    for (standby, port) in standbys.iter().zip(ports) {
        reply.array(3);
        reply.bulk(&standby.node.host);
        reply.bulk(port.to_string());
        reply.bulk(standby.offset().to_string());
    }
    Ok(Flow::Done)
}

pub(super) fn replicaof(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    if let Some(flow) = cluster::replica_of(ctx)? {
        return Ok(flow);
    }
    if ctx.is(1, "NO") && ctx.is(2, "ONE") {
        ctx.reply().ok();
        return Ok(Flow::Done);
    }
    Err(Error::new(
        "ERR a server by itself has no replicas: nodes of a cluster stand by for one another (CLUSTER REPLICATE)",
    ))
}
