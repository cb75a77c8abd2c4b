//! The state of the nodes: CLUSTER INFO, NODES, REPLICAS, LINKS.

use std::collections::BTreeSet;
use std::fmt::Write;

use ::membership::map::{Map, Node};
use ::membership::{NodeId, SLOTS};
use command::Error;

use super::super::{Flow, SessionCtx};
use super::admin::silent;
use super::map::map;
use crate::cluster::copied::{primary_of, standbys_of};

/// True if clients see a node as failed: it holds no lease, so no node serves its slots.
pub(super) fn failed(node: &Node, silent: &BTreeSet<NodeId>) -> bool {
    node.lost || silent.contains(&node.id)
}

pub(super) fn info(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let (map, me) = map(ctx)?;
    let serves = ctx.peers.serves;
    let assigned = map.assigned();
    let silent = silent(ctx);
    let has_failed = |index: &u16| Some(*index) != me && failed(map.node(*index), &silent);
    let lost: usize = (0..map.nodes().len() as u16).filter(has_failed).map(|i| map.slots_of(i)).sum();
    let mut text = String::new();
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        let _ = write!(text, "{name}:{value}\r\n");
    };
    line("cluster_enabled", &1);
    line("cluster_state", if serves && assigned == SLOTS && lost == 0 { &"ok" } else { &"fail" });
    line("cluster_slots_assigned", &assigned);
    line("cluster_slots_ok", &(assigned - lost));
    line("cluster_slots_pfail", &0);
    line("cluster_slots_fail", &lost);
    line("cluster_known_nodes", &map.nodes().len());
    line("cluster_size", &map.owners());
    line("cluster_current_epoch", &map.epoch());
    line("cluster_my_epoch", &me.map_or(0, |me| map.node(me).epoch));
    line("cluster_map_version", &map.version());
    line("cluster_level", &map.level());
    line("cluster_lease", &u8::from(serves));
    line("cluster_stats_messages_sent", &0);
    line("cluster_stats_messages_received", &0);
    line("total_cluster_links_buffer_limit_exceeded", &0);
    ctx.reply().verbatim(*b"txt", &text);
    Ok(Flow::Done)
}

pub(super) fn nodes(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let (map, me) = map(ctx)?;
    let silent = silent(ctx);
    let all = 0..map.nodes().len() as u16;
    let text: String = all.map(|index| line(ctx, &map, me, index, &silent) + "\n").collect();
    ctx.reply().verbatim(*b"txt", &text);
    Ok(Flow::Done)
}

/// A node as CLUSTER NODES shows it, without the end of the line. Of a standby it names the owner of its shard.
fn line(ctx: &SessionCtx<'_>, map: &Map, me: Option<u16>, index: u16, silent: &BTreeSet<NodeId>) -> String {
    let node = map.node(index);
    let is_me = me == Some(index);
    let myself = if is_me { "myself," } else { "" };
    let failed = !is_me && failed(node, silent);
    let (failed, link) = if failed { (",fail", "disconnected") } else { ("", "connected") };
    let (role, of, epoch) = match primary_of(map, index).map(|primary| map.node(primary)) {
        Some(primary) => ("slave", primary.id.to_string(), primary.epoch),
        None => ("master", "-".to_owned(), node.epoch),
    };
    let (id, host, bus) = (node.id, &node.host, node.bus_port);
    let port = ctx.settings.port_at(node, ctx.session.client.peer.tls);
    let mut text = format!("{id} {host}:{port}@{bus} {myself}{role}{failed} {of} 0 0 {epoch} {link}");
    for range in map.ranges_of(index) {
        let _ = match range.start == range.end {
            true => write!(text, " {}", range.start),
            false => write!(text, " {}-{}", range.start, range.end),
        };
    }
    text
}

/// CLUSTER REPLICAS: the standbys of a node, each as a line of CLUSTER NODES.
pub(super) fn replicas(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let (map, me) = map(ctx)?;
    let of = node_of(ctx, &map, 2)?;
    if primary_of(&map, of).is_some() {
        return Err(Error::new("ERR The specified node is not a master"));
    }
    let silent = silent(ctx);
    let standbys = standbys_of(&map, of);
    let lines: Vec<String> = standbys.iter().map(|(index, _)| line(ctx, &map, me, *index, &silent)).collect();
    let mut reply = ctx.reply();
    reply.array(lines.len());
    lines.iter().for_each(|line| reply.bulk(line));
    Ok(Flow::Done)
}

/// The node that argument `i` names, as its place in the map.
pub(super) fn node_of(ctx: &SessionCtx<'_>, map: &Map, i: usize) -> Result<u16, Error> {
    let id = std::str::from_utf8(ctx.arg(i)).ok().and_then(|id| id.parse::<NodeId>().ok());
    let unknown = || Error::text([b"ERR Unknown node ", ctx.arg(i)].concat());
    id.and_then(|id| map.index_of(id)).ok_or_else(unknown)
}

pub(super) fn links(ctx: &mut SessionCtx<'_>) -> Result<Flow, Error> {
    let links = ctx.peers.open_links();
    let mut reply = ctx.reply();
    reply.array(links.len());
    for link in links {
        reply.map(6);
        reply.bulk("direction");
        reply.bulk("to");
        reply.bulk("node");
        reply.bulk(link.node.to_string());
        reply.bulk("create-time");
        reply.count(link.since.0);
        reply.bulk("events");
        reply.bulk("rw");
        reply.bulk("send-buffer-allocated");
        reply.count(link.unsaid as u64);
        reply.bulk("send-buffer-used");
        reply.count(link.unsaid as u64);
    }
    Ok(Flow::Done)
}
