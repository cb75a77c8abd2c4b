//! Commands of administrators about a cluster: CLUSTER STATUS, FINALIZE, FORGET, LEAVE.

use std::collections::BTreeSet;
use std::sync::Arc;

use ::membership::NodeId;
use ::membership::meta::Command;
use command::Error;

use super::super::{Flow, SessionCtx};
use super::map::map;
use crate::cluster::Administration;
use crate::cluster::status::text;
use crate::worker::jobs::{Done, Job};

pub(super) fn administration<'a>(ctx: &SessionCtx<'a>) -> Result<&'a dyn Administration, Error> {
    let cluster = ctx.node.cluster();
    cluster.and_then(|cluster| cluster.administration()).ok_or(Error::new("ERR nobody keeps the cluster's metadata"))
}

/// Nodes that hold no lease, as this node was told.
pub(super) fn silent(ctx: &SessionCtx<'_>) -> Arc<BTreeSet<NodeId>> {
    administration(ctx).map(|admin| admin.silent()).unwrap_or_default()
}

pub(super) fn change(ctx: &SessionCtx<'_>, command: Command) -> Result<Flow, Error> {
    let job = Job::elsewhere();
    let asked = Arc::clone(&job);
    administration(ctx)?.change(
        command,
        Box::new(move |changed| asked.end(changed.map(|()| Done::Ok).map_err(|why| format!("ERR {why}").into()))),
    );
    Ok(Flow::Job(job))
}

/// The error for a node that owns slots and therefore may not leave.
fn owns(who: &str, slots: usize, what: &str) -> Error {
    Error::text(format!("ERR {who} owns {slots} slots, and no other node has what is stored there: {what}"))
}

/// A node that owns slots has data that no other node has: it is forgotten only on an explicit word.
pub(super) fn forget(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let loses = match ctx.args.len() {
        3 => false,
        4 if ctx.is(3, "lose-data") => true,
        _ => return Err(Error::SYNTAX),
    };
    let (map, me) = map(ctx)?;
    let id = std::str::from_utf8(ctx.arg(2)).ok().and_then(|id| id.parse::<NodeId>().ok());
    let Some(id) = id.filter(|id| map.member(*id).is_some()) else {
        return Err(Error::text([b"ERR Unknown node ", ctx.arg(2)].concat()));
    };
    let index = map.index_of(id);
    if me.is_some() && me == index {
        return Err(Error::new("ERR I tried hard but I can't forget myself: CLUSTER LEAVE takes this node out"));
    }
    let slots = index.map_or(0, |index| map.slots_of(index));
    if slots > 0 && !loses {
        if let Some(shard) = map.shards_of(id).find(|shard| shard.settled.len() > 1) {
            return Err(Error::text(format!(
                "ERR node {id} owns {slots} slots, and the log of its shard has copies: CLUSTER RECOVER {} ON another node keeps what is stored there. CLUSTER FORGET {id} LOSE-DATA gives the slots, empty, to the other nodes, and the copies are removed",
                shard.id.0
            )));
        }
        let then = format!("CLUSTER FORGET {id} LOSE-DATA gives the slots, empty, to the other nodes");
        return Err(owns(&format!("node {id}"), slots, &then));
    }
    change(ctx, if slots > 0 { Command::Forget { id } } else { Command::Leave { id } })
}

/// This node leaves the cluster, if it owns no slots.
pub(super) fn leave(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let (map, me) = map(ctx)?;
    let me = me.ok_or(Error::new("ERR this node belongs to no cluster"))?;
    match map.slots_of(me) {
        0 => change(ctx, Command::Leave { id: map.node(me).id }),
        slots => Err(owns("this node", slots, "slots cannot be moved to other nodes yet")),
    }
}

/// Raises the cluster's level to what all nodes speak (rule U1).
pub(super) fn finalize(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    change(ctx, Command::Raise { level: 0, heard: Vec::new() })
}

pub(super) fn status(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let job = Job::elsewhere();
    let asked = Arc::clone(&job);
    let doubts = ctx.node.cluster().map(|cluster| ctx.node.doubts.by_place(&cluster.map())).unwrap_or_default();
    administration(ctx)?.status(Box::new(move |status| asked.end(Ok(Done::Text(text(&status, &doubts))))));
    Ok(Flow::Job(job))
}
