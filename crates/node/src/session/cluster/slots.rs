//! Slots and their nodes in the forms that clients read: CLUSTER SLOTS, CLUSTER SHARDS.

use ::membership::Map;
use command::Error;
use resp::Reply;

use super::super::{Flow, SessionCtx};
use super::admin::silent;
use super::map::map;
use super::nodes::failed;
use crate::cluster::copied::{Seen, own_offset, primary_of, seen, standbys_of};
use crate::config::Settings;

/// Names the owner of each range, and behind it the standbys that may take it over and are up: clients read there.
pub(super) fn slots(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let (map, me) = map(ctx)?;
    let silent = silent(ctx);
    let (settings, tls) = (ctx.settings, ctx.session.client.peer.tls);
    let is_up = |index: u16| me == Some(index) || !failed(map.node(index), &silent);
    let mut reply = ctx.reply();
    reply.array(map.ranges().len());
    for range in map.ranges() {
        let standbys = standbys_of(&map, range.node).into_iter();
        let readable =
            standbys.filter(|(index, standby)| standby.is_electable && is_up(*index)).map(|(index, _)| index);
        let nodes: Vec<u16> = std::iter::once(range.node).chain(readable).collect();
        reply.array(2 + nodes.len());
        reply.count(range.start.get().into());
        reply.count(range.end.get().into());
        for node in nodes.into_iter().map(|index| map.node(index)) {
            reply.array(4);
            reply.bulk(&node.host);
            reply.count(settings.port_at(node, tls).into());
            reply.bulk(node.id.to_string());
            reply.array(0);
        }
    }
    Ok(Flow::Done)
}

/// A node of CLUSTER SHARDS.
struct Copy {
    index: u16,
    role: &'static str,
    health: &'static str,
    offset: u64,
}

pub(super) fn shards(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let (map, me) = map(ctx)?;
    let silent = silent(ctx);
    let (own, seen) = (own_offset(ctx.node), seen(ctx.node));
    let offset_of = |index: u16| match me == Some(index) {
        true => own,
        // The owner alone knows how far its standbys are.
        false => seen.iter().find(|seen| seen.node.id == map.node(index).id).map_or(0, Seen::offset),
    };
    let copy = |index: u16, role: &'static str, is_whole: bool| {
        let health = match me != Some(index) && failed(map.node(index), &silent) {
            true => "fail",
            false if is_whole => "online",
            false => "loading",
        };
        Copy { index, role, health, offset: offset_of(index) }
    };
    // A standby is shown with its owner.
    let owners: Vec<u16> = (0..map.nodes().len() as u16).filter(|index| primary_of(&map, *index).is_none()).collect();
    let settings = ctx.settings;
    let mut reply = ctx.reply();
    reply.array(owners.len());
    for owner in owners {
        let ranges: Vec<_> = map.ranges_of(owner).collect();
        reply.map(2);
        reply.bulk("slots");
        reply.array(ranges.len() * 2);
        for range in ranges {
            reply.count(range.start.get().into());
            reply.count(range.end.get().into());
        }
        reply.bulk("nodes");
        let standbys = standbys_of(&map, owner);
        reply.array(1 + standbys.len());
        node(&mut reply, settings, &map, &copy(owner, "master", true));
        for (index, standby) in standbys {
            node(&mut reply, settings, &map, &copy(index, "replica", standby.is_electable));
        }
    }
    Ok(Flow::Done)
}

fn node(reply: &mut Reply<'_>, settings: &Settings, map: &Map, copy: &Copy) {
    let node = map.node(copy.index);
    // A port for smart clients speaks both, as far as the settings go. Nodes of a cluster are alike in that.
    let (plain, tls) = (settings.port != 0, settings.tls_port != 0);
    reply.map(6 + usize::from(plain) + usize::from(tls));
    reply.bulk("id");
    reply.bulk(node.id.to_string());
    for (name, is_tls, _) in [("port", false, plain), ("tls-port", true, tls)].iter().filter(|(_, _, speaks)| *speaks) {
        reply.bulk(name);
        reply.count(settings.port_at(node, *is_tls).into());
    }
    for (name, text) in [("ip", node.host.as_str()), ("endpoint", &node.host), ("role", copy.role)] {
        reply.bulk(name);
        reply.bulk(text);
    }
    reply.bulk("replication-offset");
    reply.count(copy.offset);
    reply.bulk("health");
    reply.bulk(copy.health);
}
