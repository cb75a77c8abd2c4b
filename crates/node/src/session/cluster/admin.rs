//! Commands of administrators about a cluster: CLUSTER STATUS, FINALIZE, FORGET, LEAVE.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use ::membership::control::Status;
use ::membership::meta::Command;
use ::membership::{Map, NodeId, SLOTS};
use command::Error;

use super::super::{Flow, SessionCtx};
use super::map::map;
use crate::cluster::Administration;
use crate::transactions::doubts::Doubt;
use crate::worker::jobs::{Done, Job};

fn administration<'a>(ctx: &SessionCtx<'a>) -> Result<&'a dyn Administration, Error> {
    let cluster = ctx.node.cluster();
    cluster.and_then(|cluster| cluster.administration()).ok_or(Error::new("ERR nobody keeps the cluster's metadata"))
}

/// Nodes that hold no lease, as this node was told.
pub(super) fn silent(ctx: &SessionCtx<'_>) -> Arc<BTreeSet<NodeId>> {
    administration(ctx).map(|admin| admin.silent()).unwrap_or_default()
}

fn change(ctx: &SessionCtx<'_>, command: Command) -> Result<Flow, Error> {
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
    Error::text(format!("ERR {who} owns {slots} slots, and nobody else has what is stored there: {what}"))
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
    let known = id.and_then(|id| map.index_of(id));
    let Some((id, index)) = id.zip(known) else {
        return Err(Error::text([b"ERR Unknown node ", ctx.arg(2)].concat()));
    };
    if me == Some(index) {
        return Err(Error::new("ERR I tried hard but I can't forget myself: CLUSTER LEAVE takes this node out"));
    }
    let slots = map.slots_of(index);
    if slots > 0 && !loses {
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

/// Slots of the node with this index, as ranges.
fn ranges(map: &Map, index: u16) -> String {
    let ranges = map.ranges_of(index).map(|range| match range.start == range.end {
        true => range.start.to_string(),
        false => format!("{}-{}", range.start, range.end),
    });
    let ranges: Vec<String> = ranges.collect();
    if ranges.is_empty() { "-".to_owned() } else { ranges.join(",") }
}

/// The status as people read it. `doubts`: transactions of other nodes that wait for a node.
fn text(status: &Status, doubts: &[(String, Doubt)]) -> String {
    let map = &status.map;
    let place = |id: NodeId| map.index_of(id).map(|index| format!("{}:{}", map.node(index).host, map.node(index).port));
    let cluster = status.cluster.map_or_else(|| "none yet".to_owned(), |id| id.to_string());
    let leader = match status.leader {
        Some(id) => place(id).unwrap_or_else(|| id.to_string()),
        None => "no node that this node knows of".to_owned(),
    };
    let mut out = String::new();
    let _ = writeln!(out, "cluster {cluster}: map version {}, epoch {}", map.version(), map.epoch());
    let _ = writeln!(out, "metadata led by {leader}, term {}", status.term);
    let _ = writeln!(out, "{}", level(status));
    let mut problems = problems(status);
    problems.extend(doubts.iter().map(|(place, Doubt { transactions, keys })| {
        format!("transactions over nodes ({transactions}) wait for the node at {place}, which does not answer: {keys} keys of the node that was asked are locked until it does")
    }));
    let _ = writeln!(out, "health: {}\n", if problems.is_empty() { "ok" } else { "not ok" });
    problems.iter().for_each(|problem| {
        let _ = writeln!(out, "  {problem}");
    });
    if !problems.is_empty() {
        out.push('\n');
    }
    let heads = ["NODE", "ADDRESS", "HOST", "STATE", "LEASE", "METADATA", "EPOCH", "STARTS", "SLOTS", "RANGES"];
    let mut rows = vec![heads.map(str::to_owned)];
    for (index, node) in (0u16..).zip(map.nodes()) {
        let lease = status.nodes.get(usize::from(index)).and_then(|node| node.lease_ms);
        let votes = if node.voter { "votes" } else { "learns" };
        rows.push([
            node.id.to_string(),
            format!("{}:{}@{}", node.host, node.port, node.bus_port),
            if node.machine.is_empty() { "?" } else { &node.machine }.to_owned(),
            match lease {
                _ if node.lost => "lost",
                None => "?",
                Some(0) if node.id == status.me => "no lease",
                Some(0) => "down",
                Some(_) => "up",
            }
            .to_owned(),
            lease.map_or_else(|| "?".to_owned(), |ms| format!("{}.{} s", ms / 1000, ms % 1000 / 100)),
            if status.leader == Some(node.id) { "leads" } else { votes }.to_owned(),
            node.epoch.to_string(),
            node.incarnation.to_string(),
            map.slots_of(index).to_string(),
            ranges(map, index),
        ]);
    }
    let widths: Vec<usize> =
        (0..heads.len()).map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0)).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    out
}

/// The cluster's level, and whether it could be higher.
fn level(status: &Status) -> String {
    let (map, mut text) = (&status.map, format!("level {}", status.map.level()));
    let present = map.nodes().iter().zip(&status.nodes).filter(|(node, _)| !node.lost);
    let higher = present.clone().filter(|(_, known)| known.level > Some(map.level())).count();
    let all = present.count();
    let more = match higher {
        0 => return text,
        _ if higher == all => "all nodes speak a higher one, and `holdfast cluster finalize` raises it".to_owned(),
        _ => format!("{higher} of {all} nodes are known to speak a higher one"),
    };
    let _ = write!(text, ": {more}");
    text
}

/// The problems, in words.
fn problems(status: &Status) -> Vec<String> {
    let map = &status.map;
    let mut problems = Vec::new();
    if !status.reason.is_empty() {
        problems.push(format!("the node that was asked: {}", status.reason));
    }
    if map.cluster().is_none() {
        return problems;
    }
    if map.assigned() < SLOTS {
        problems.push(format!("{} slots have no owner", SLOTS - map.assigned()));
    }
    if status.changing {
        problems.push("the voting nodes are being changed: do not stop a node now".to_owned());
    }
    let is_up = |index: usize| status.nodes.get(index).and_then(|node| node.lease_ms).map(|ms| ms > 0);
    for (index, node) in map.nodes().iter().enumerate() {
        let slots = map.slots_of(index as u16);
        let what = match (node.lost, is_up(index)) {
            (true, _) => "is lost: another node has come in its place",
            (false, Some(false)) if node.id != status.me => "is down",
            _ => continue,
        };
        let keys = if slots > 0 { format!("; nobody serves its {slots} slots") } else { String::new() };
        problems.push(format!("node {} at {}:{} {what}{keys}", node.id, node.host, node.port));
    }
    for (node, known) in map.nodes().iter().zip(&status.nodes).filter(|(_, known)| !known.trouble.is_empty()) {
        problems.push(format!("node {} at {}:{} {}", node.id, node.host, node.port, known.trouble));
    }
    let voters: Vec<usize> = (0..map.nodes().len()).filter(|&index| map.nodes()[index].voter).collect();
    let is_me = |index: usize| map.nodes()[index].id == status.me;
    let up = voters.iter().filter(|&&index| is_me(index) || is_up(index) == Some(true)).count();
    let unknown = voters.iter().any(|&index| is_up(index).is_none());
    let needed = voters.len() / 2 + 1;
    // During a change of the voters, removed nodes vote, too, and they are not in the map.
    if !unknown && !status.changing && up < voters.len() {
        let then = match up.checked_sub(needed) {
            None => format!("nothing is decided, and no lease renewed, until {needed} are"),
            Some(0) => "if one more fails, nothing is decided any more, and no lease renewed".to_owned(),
            Some(spare) => format!("{spare} more may fail"),
        };
        problems.push(format!("{up} of {} voting nodes are up: {then}", voters.len()));
    }
    problems
}

#[cfg(test)]
mod tests {
    use ::membership::control::NodeStatus;
    use ::membership::map::{Node, Range};
    use ::membership::{ClusterId, Slot};

    use super::*;

    fn status(leases: [Option<u64>; 3]) -> Status {
        let node = |n: u8| Node {
            id: NodeId([n; 20]),
            number: n.into(),
            host: "10.0.0.1".to_owned(),
            port: 7000 + u16::from(n),
            bus_port: 17000 + u16::from(n),
            client_port: 8000 + u16::from(n),
            incarnation: 1,
            epoch: u64::from(n < 3),
            lost: false,
            level: 8,
            machine: if n == 1 { "rack-1".to_owned() } else { String::new() },
            voter: true,
        };
        let range = |start, end, node| Range { start: Slot::of(start), end: Slot::of(end), node };
        let ranges = vec![range(0, 8000, 0), range(8001, 16383, 1)];
        let map = Map::new(Some(ClusterId([9; 20])), 4, 1, (1..4).map(node).collect(), ranges);
        let of = |(n, lease_ms)| NodeStatus {
            id: NodeId([n; 20]),
            linked: true,
            lease_ms,
            level: Some(8),
            trouble: String::new(),
        };
        let nodes = (1..4).zip(leases).map(of);
        Status {
            me: NodeId([1; 20]),
            cluster: map.cluster(),
            map: Arc::new(map),
            leader: Some(NodeId([2; 20])),
            term: 3,
            lease_ms: 1500,
            reason: String::new(),
            changing: false,
            nodes: nodes.collect(),
        }
    }

    #[test]
    fn a_status_is_a_table() {
        let text = text(&status([Some(1999), Some(1500), Some(7)]), &[]);
        let (ids, one) = ("09".repeat(20), "01".repeat(20));
        assert!(text.starts_with(&format!(
            "cluster {ids}: map version 4, epoch 1\nmetadata led by 10.0.0.1:7002, term 3\nlevel 8\nhealth: ok\n\nNODE"
        )));
        let row =
            format!("\n{one}  10.0.0.1:7001@17001  rack-1  up     1.9 s  votes     1      1       8001   0-8000\n");
        assert!(text.contains(&row), "{text}");
        assert!(text.ends_with("up     0.0 s  votes     0      1       0      -\n"), "{text}");
    }

    #[test]
    fn a_status_says_what_is_wrong() {
        let down = text(&status([Some(1999), Some(0), Some(0)]), &[]);
        for line in [
            "health: not ok",
            "at 10.0.0.1:7002 is down; nobody serves its 8383 slots\n",
            "at 10.0.0.1:7003 is down\n",
            "1 of 3 voting nodes are up: nothing is decided, and no lease renewed, until 2 are",
        ] {
            assert!(down.contains(line), "{line}: {down}");
        }
        let mut full = status([Some(1999), Some(1500), Some(7)]);
        full.nodes[1].trouble = "refuses writes: No space left on device".to_owned();
        let full = text(&full, &[]);
        let problem = "at 10.0.0.1:7002 refuses writes: No space left on device\n";
        assert!(full.contains("health: not ok") && full.contains(problem), "{full}");
        let doubts = [("10.0.0.1:7002".to_owned(), Doubt { transactions: 2, keys: 3 })];
        let doubtful = text(&status([Some(1999), Some(1500), Some(7)]), &doubts);
        for line in [
            "health: not ok",
            "  transactions over nodes (2) wait for the node at 10.0.0.1:7002, which does not answer: 3 keys of the node",
        ] {
            assert!(doubtful.contains(line), "{line}: {doubtful}");
        }
        let spare = text(&status([Some(1999), Some(1), Some(0)]), &[]);
        assert!(spare.contains("2 of 3 voting nodes are up: if one more fails"), "{spare}");
        let changing = text(&Status { changing: true, ..status([Some(1999), Some(0), Some(0)]) }, &[]);
        assert!(
            changing.contains("the voting nodes are being changed") && !changing.contains("voting nodes are up"),
            "{changing}"
        );
        let unknown = Status { reason: "this node has no lease".to_owned(), ..status([None; 3]) };
        let unknown = text(&unknown, &[]);
        assert!(unknown.contains("  the node that was asked: this node has no lease\n"), "{unknown}");
        assert!(unknown.contains("10.0.0.1:7001@17001  rack-1  ?      ?"), "{unknown}");
    }
}
