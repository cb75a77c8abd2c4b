//! CLUSTER STANDBY: which nodes are to have copies of a shard's data.

use ::membership::meta::{ChangeCopies, Command, Shard};
use ::membership::standby::{Change, Process};
use ::membership::{Map, NodeId, NodeNumber, ShardId, level};
use command::Error;

use super::super::{Flow, SessionCtx};
use super::admin::change;
use super::groups::{error, shard, text};
use super::map::map;
use super::nodes::node_of;
use crate::cluster::copied::{primary_of, stands_by_for};
use crate::cluster::copies::member_of;

/// The error of REPLICAOF NO ONE in a cluster.
const NO_PROMOTION: &str = "ERR REPLICAOF NO ONE is not allowed in cluster mode: a standby takes over by itself when its owner is lost, \
    and CLUSTER STANDBY REMOVE takes it out";

/// CLUSTER STANDBY ADD or REMOVE shard ON node. A node that is added begins with the life that it has now; a later life of
/// it begins anew by itself, until it is removed.
pub(super) fn standby(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let (map, _) = map(ctx)?;
    if !ctx.is(4, "on") {
        return Err(Error::SYNTAX);
    }
    let (shard, node) = (shard(ctx, 3)?, member_of(&map, &text(ctx, 5)?).map_err(error)?);
    match () {
        () if ctx.is(2, "add") => add(ctx, &map, shard, node),
        () if ctx.is(2, "remove") => {
            let standby = process(&map, node).map_err(error)?;
            change(ctx, Command::Copies(ChangeCopies { shard, change: Change::Remove { standby } }))
        }
        () => Err(Error::SYNTAX),
    }
}

/// CLUSTER REPLICATE node-id: this node stands by for that node's shard. NO ONE, as in Valkey: it does not any more.
pub(super) fn replicate(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let (map, me) = map(ctx)?;
    if ctx.args.len() == 4 && ctx.is(2, "no") && ctx.is(3, "one") {
        let Some((shard, _)) = me.and_then(|me| stands_by_for(&map, me)) else {
            ctx.reply().ok();
            return Ok(Flow::Done);
        };
        let standby = process(&map, me.map_or_else(NodeId::default, |me| map.node(me).id)).map_err(error)?;
        return change(ctx, Command::Copies(ChangeCopies { shard: shard.id, change: Change::Remove { standby } }));
    }
    if ctx.args.len() != 3 {
        return Err(Error::SYNTAX);
    }
    let of = node_of(ctx, &map, 2)?;
    stand_by(ctx, &map, of)
}

/// REPLICAOF host port in a cluster: this node stands by for the shard of the node at that address.
///
/// `None`: this is no node of a cluster.
pub(in crate::session) fn replica_of(ctx: &mut SessionCtx<'_>) -> Result<Option<Flow>, Error> {
    let Ok((map, _)) = map(ctx) else { return Ok(None) };
    if ctx.is(1, "no") && ctx.is(2, "one") {
        return Err(Error::new(NO_PROMOTION));
    }
    let (host, port) = (text(ctx, 1)?, ctx.int(2).map_err(|_| Error::new("ERR Invalid master port"))?);
    let of = map.nodes().iter().position(|node| !node.lost && node.is_at(&host, port));
    let of = of.ok_or_else(|| Error::text(format!("ERR no node of this cluster is at {host}:{port}")))?;
    stand_by(ctx, &map, of as u16).map(Some)
}

/// Has this node stand by for the shard of another one.
fn stand_by(ctx: &mut SessionCtx<'_>, map: &Map, of: u16) -> Result<Flow, Error> {
    let me = ctx.peers.my_place().ok_or(Error::new("ERR this node belongs to no cluster"))?;
    if primary_of(map, me) == Some(of) {
        ctx.reply().ok();
        return Ok(Flow::Done);
    }
    if me == of {
        return Err(Error::new("ERR Can't replicate myself"));
    }
    if primary_of(map, of).is_some() {
        return Err(Error::new("ERR I can only replicate a master, not a replica."));
    }
    let shard = map.shards_of(map.node(of).id).next().map(|shard| shard.id);
    let shard = shard.ok_or_else(|| Error::text(format!("ERR node {} owns no shard", map.node(of).id)))?;
    if map.slots_of(of) == 0 {
        return Err(Error::text(format!("ERR node {} owns no slots", map.node(of).id)));
    }
    add(ctx, map, shard, map.node(me).id)
}

/// Proposes that a node stands by for a shard.
fn add(ctx: &SessionCtx<'_>, map: &Map, shard: ShardId, node: NodeId) -> Result<Flow, Error> {
    let standby = process(map, node).map_err(error)?;
    can_read(map, shard, node).map_err(error)?;
    may_be_taken_over(map).map_err(error)?;
    change(ctx, Command::Copies(ChangeCopies { shard, change: Change::Pin { standby } }))
}

/// The present process of a node.
fn process(map: &Map, node: NodeId) -> Result<Process, String> {
    let index = map.index_of(node).ok_or("a log-server has no data: a standby is a node".to_owned())?;
    let known = map.node(index);
    Ok(Process { node: NodeNumber(known.number), life: known.incarnation })
}

/// Checks that a node has a copy of a shard's log: a standby reads its own.
fn can_read(map: &Map, id: ShardId, node: NodeId) -> Result<(), String> {
    let shard: &Shard =
        map.shards().iter().find(|shard| shard.id == id).ok_or(format!("there is no shard {}", id.0))?;
    if shard.settled.len() < 2 {
        return Err(format!(
            "the log of shard {} has no copies on other machines, which a standby reads: `holdfast cluster group` makes them",
            id.0
        ));
    }
    if shard.owner != node && !shard.settled.iter().any(|acceptor| acceptor.node == node) {
        return Err(format!(
            "no copy of the log of shard {} counts on this node, and a standby reads its own: give it a place in the shard's group",
            id.0
        ));
    }
    Ok(())
}

/// Checks that one shard has all keys, or that shards are participants of transactions. Where nodes are, others would take a
/// successor for one that never heard of what its shard has prepared.
fn may_be_taken_over(map: &Map) -> Result<(), String> {
    let with_slots = map.shards().iter().filter(|shard| map.slots_of_shard(shard) > 0).count();
    if with_slots > 1 && map.level() < level::SHARD_PARTICIPANTS {
        return Err(
            "keys lie on several nodes, and not all nodes run a build for standbys there: `holdfast cluster finalize` when they do"
                .to_owned(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::copies::tests::{id, status};

    #[test]
    fn a_standby_is_a_node_with_a_copy_of_the_log() {
        let map = status(&[1, 2, 3], None, &[1, 2, 3]).map;
        assert_eq!(can_read(&map, ShardId(1), id(2)), Ok(()));
        assert_eq!(may_be_taken_over(&map), Ok(()));
        assert_eq!(can_read(&map, ShardId(1), id(1)), Ok(()), "that it owns the shard is the metadata's to say");
        assert!(can_read(&map, ShardId(2), id(2)).is_err_and(|why| why.contains("no shard 2")));
        assert!(process(&map, id(3)).is_err_and(|why| why.contains("a log-server has no data")));
        assert_eq!(process(&map, id(2)), Ok(Process { node: NodeNumber(2), life: 1 }));
        let map = status(&[1, 3], None, &[1, 2, 3]).map;
        assert!(can_read(&map, ShardId(1), id(2)).is_err_and(|why| why.contains("reads its own")));
        let map = status(&[1], Some(&[1, 2]), &[1, 2, 3]).map;
        assert!(can_read(&map, ShardId(1), id(2)).is_err_and(|why| why.contains("has no copies")));
    }
}
