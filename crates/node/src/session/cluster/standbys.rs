//! CLUSTER STANDBY: which nodes are to have copies of a shard's data.

use ::membership::meta::{ChangeCopies, Command, Shard};
use ::membership::standby::{Change, Process};
use ::membership::{Map, NodeId, NodeNumber, ShardId};
use command::Error;

use super::super::{Flow, SessionCtx};
use super::admin::change;
use super::groups::{error, shard, text};
use super::map::map;
use crate::cluster::copies::member_of;

/// CLUSTER STANDBY ADD or REMOVE shard ON node. A node that is added begins with the life that it has now; a later life of
/// it begins anew by itself, until it is removed.
pub(super) fn standby(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let (map, _) = map(ctx)?;
    if !ctx.is(4, "on") {
        return Err(Error::SYNTAX);
    }
    let (shard, node) = (shard(ctx, 3)?, member_of(&map, &text(ctx, 5)?).map_err(error)?);
    let standby = process(&map, node).map_err(error)?;
    let changed = match () {
        () if ctx.is(2, "add") => {
            can_read(&map, shard, node).map_err(error)?;
            is_one_shard(&map).map_err(error)?;
            Change::Pin { standby }
        }
        () if ctx.is(2, "remove") => Change::Remove { standby },
        () => return Err(Error::SYNTAX),
    };
    change(ctx, Command::Copies(ChangeCopies { shard, change: changed }))
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

/// Checks that one shard has all keys. Transactions over several name a participant by its node, and would take a successor
/// for one that never heard of them.
fn is_one_shard(map: &Map) -> Result<(), String> {
    let with_slots = map.shards().iter().filter(|shard| map.slots_of_shard(shard) > 0).count();
    if with_slots > 1 {
        return Err("standbys of a cluster whose keys lie on several nodes are not supported yet".to_owned());
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
        assert_eq!(is_one_shard(&map), Ok(()));
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
