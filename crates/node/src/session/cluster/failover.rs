//! FAILOVER, CLUSTER FAILOVER and SWITCHOVER: the owner of a shard gives it to a standby in order, and no client gets an error.

use std::sync::Arc;

use ::membership::map::Node;
use ::membership::meta::Shard;
use ::membership::{Map, NodeNumber};
use command::Error;

use super::super::{Flow, SessionCtx};
use super::admin::administration;
use super::groups::{error, shard, text};
use super::map::map;
use crate::cluster::copied::primary_of;
use crate::cluster::copies::member_of;
use crate::worker::jobs::{Done, Job};

/// CLUSTER FAILOVER, at a standby: its owner gives the shard to it. As in Redis the reply comes when that has begun.
pub(super) fn failover(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    if ctx.args.len() > 2 {
        return match ctx.args.len() == 3 && (ctx.is(2, "force") || ctx.is(2, "takeover")) {
            true => Err(Error::new(
                "ERR a shard whose owner is lost is taken over by itself, and only by a standby that has everything: CLUSTER FAILOVER takes no option",
            )),
            false => Err(Error::SYNTAX),
        };
    }
    let (map, me) = map(ctx)?;
    let me = me.map(|me| NodeNumber(map.node(me).number));
    let own = |me| map.shards().iter().find(|shard| shard.standbys.contains_key(&me)).zip(Some(me));
    let Some((shard, me)) = me.and_then(own) else {
        return Err(Error::new("ERR You should send CLUSTER FAILOVER to a replica"));
    };
    give(ctx, shard, me)
}

/// FAILOVER [TO host port] [TIMEOUT ms], at an owner, with the errors of Redis.
///
/// A switchover ends by itself within seconds, so it is never forced, and there is none to abort once it has begun.
pub(in crate::session) fn of_owner(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let asked = target(ctx)?;
    let none = Error::new("ERR FAILOVER requires connected replicas.");
    let Ok((map, Some(me))) = map(ctx) else { return Err(none) };
    if primary_of(&map, me).is_some() {
        return Err(Error::new("ERR FAILOVER is not valid when server is a replica."));
    }
    let shard = map.shards_of(map.node(me).id).find(|shard| !shard.standbys.is_empty()).ok_or(none.clone())?;
    let to = match asked {
        None => electable(shard).ok_or(none)?,
        Some((host, port)) => {
            let is_it = |node: &&Node| node.is_at(&host, port);
            let node = map.nodes().iter().find(is_it).map(|node| NodeNumber(node.number));
            node.filter(|node| shard.standbys.contains_key(node))
                .ok_or(Error::new("ERR FAILOVER target HOST and PORT is not a replica."))?
        }
    };
    give(ctx, shard, to)
}

/// The address that FAILOVER names, if it does.
fn target(ctx: &SessionCtx<'_>) -> Result<Option<(String, i64)>, Error> {
    let (mut to, mut at, mut has_timeout, mut forces) = (None, 1, false, false);
    if ctx.args.len() == 2 && ctx.is(1, "abort") {
        return Err(Error::new("ERR No failover in progress."));
    }
    while at < ctx.args.len() {
        if ctx.is(at, "to") && at + 2 < ctx.args.len() && to.is_none() {
            to = Some((text(ctx, at + 1)?, ctx.int(at + 2)?));
            at += 3;
        } else if ctx.is(at, "timeout") && at + 1 < ctx.args.len() && !has_timeout {
            if ctx.int(at + 1)? <= 0 {
                return Err(Error::new("ERR FAILOVER timeout must be greater than 0"));
            }
            (has_timeout, at) = (true, at + 2);
        } else if ctx.is(at, "force") && !forces {
            (forces, at) = (true, at + 1);
        } else {
            return Err(Error::SYNTAX);
        }
    }
    match forces {
        true if to.is_none() || !has_timeout => {
            Err(Error::new("ERR FAILOVER with force option requires both a timeout and target HOST and IP."))
        }
        true => Err(Error::new("ERR a shard is given away in order only: FAILOVER cannot be forced")),
        false => Ok(to),
    }
}

/// CLUSTER SWITCHOVER shard [TO node]. Without a node one is chosen that may take over.
pub(super) fn switchover(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let (map, _) = map(ctx)?;
    let id = shard(ctx, 2)?;
    let shard = map.shards().iter().find(|shard| shard.id == id);
    let shard = shard.ok_or_else(|| error(format!("there is no shard {}", id.0)))?;
    let to = match ctx.args.len() {
        3 => electable(shard).ok_or_else(|| error(format!("no standby of shard {} could take it over now", id.0)))?,
        5 if ctx.is(3, "to") => number(&map, &text(ctx, 4)?).map_err(error)?,
        _ => return Err(Error::SYNTAX),
    };
    give(ctx, shard, to)
}

fn electable(shard: &Shard) -> Option<NodeNumber> {
    shard.standbys.iter().find(|(_, standby)| standby.is_electable).map(|(node, _)| *node)
}

fn number(map: &Map, name: &str) -> Result<NodeNumber, String> {
    let node = member_of(map, name)?;
    let index = map.index_of(node).ok_or("a log-server has no data: a standby is a node")?;
    Ok(NodeNumber(map.node(index).number))
}

fn give(ctx: &SessionCtx<'_>, shard: &Shard, to: NodeNumber) -> Result<Flow, Error> {
    let job = Job::elsewhere();
    let asked = Arc::clone(&job);
    let then = move |begun: Result<(), String>| {
        asked.end(begun.map(|()| Done::Ok).map_err(|why| format!("ERR {why}").into()));
    };
    administration(ctx)?.switch_over(shard.id, shard.owner, to, Box::new(then));
    Ok(Flow::Job(job))
}
