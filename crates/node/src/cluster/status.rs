//! The status of a cluster as people read it: `holdfast cluster status`.

use std::fmt::Write;

use ::membership::control::Status;
use ::membership::map::Node;
use ::membership::{Map, NodeId, SLOTS};

use super::{copies, standbys};
use crate::transactions::doubts::Doubt;

/// Slots of the node with this index, as ranges.
fn ranges(map: &Map, index: u16) -> String {
    let ranges = map.ranges_of(index).map(|range| match range.start == range.end {
        true => range.start.to_string(),
        false => format!("{}-{}", range.start, range.end),
    });
    let ranges: Vec<String> = ranges.collect();
    if ranges.is_empty() { "-".to_owned() } else { ranges.join(",") }
}

/// The status as people read it, of a process that takes part in no transactions.
pub fn status_text(status: &Status) -> String {
    text(status, &[])
}

/// The status as people read it. `doubts`: transactions of other nodes that wait for a node.
pub(crate) fn text(status: &Status, doubts: &[(String, Doubt)]) -> String {
    let map = &status.map;
    let place = |id: NodeId| map.member(id).map(|node| format!("{}:{}", node.host, node.port));
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
    let copies = copies::findings(status);
    problems.extend(copies.problems);
    problems.extend(standbys::problems(status));
    let _ = writeln!(out, "health: {}\n", if problems.is_empty() { "ok" } else { "not ok" });
    problems.extend(copies.notes.into_iter().map(|note| format!("note: {note}")));
    problems.iter().for_each(|problem| {
        let _ = writeln!(out, "  {problem}");
    });
    if !problems.is_empty() {
        out.push('\n');
    }
    let heads = ["NODE", "ADDRESS", "HOST", "KIND", "STATE", "LEASE", "METADATA", "EPOCH", "STARTS", "SLOTS", "RANGES"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    let leases = status.nodes.iter().map(|node| node.lease_ms).chain(std::iter::repeat(None));
    rows.extend(map.members().zip(leases).map(|(node, lease)| row(status, node, lease)));
    out.push_str(&table(&rows));
    if !map.groups().is_empty() {
        let _ = write!(out, "\n{}", table(&copies::shard_rows(status)));
    }
    let standbys = standbys::rows(status);
    if !standbys.is_empty() {
        let _ = write!(out, "\n{}", table(&standbys));
    }
    out
}

/// The log groups and the copies of shards, as people read them.
pub(crate) fn groups_text(status: &Status) -> String {
    format!("{}\n{}", table(&copies::group_rows(status)), table(&copies::shard_rows(status)))
}

/// The row of a member.
fn row(status: &Status, node: &Node, lease: Option<u64>) -> Vec<String> {
    let (map, index) = (&status.map, status.map.index_of(node.id));
    let votes = if node.voter { "votes" } else { "learns" };
    let state = match lease {
        _ if node.lost => "lost",
        None => "?",
        Some(0) if node.id == status.me => "no lease",
        Some(0) => "down",
        Some(_) => "up",
    };
    vec![
        node.id.to_string(),
        format!("{}:{}@{}", node.host, node.port, node.bus_port),
        if node.machine.is_empty() { "?" } else { &node.machine }.to_owned(),
        if index.is_some() { "node" } else { "log" }.to_owned(),
        state.to_owned(),
        lease.map_or_else(|| "?".to_owned(), |ms| format!("{}.{} s", ms / 1000, ms % 1000 / 100)),
        if status.leader == Some(node.id) { "leads" } else { votes }.to_owned(),
        node.epoch.to_string(),
        node.incarnation.to_string(),
        index.map_or(0, |index| map.slots_of(index)).to_string(),
        index.map_or_else(|| "-".to_owned(), |index| ranges(map, index)),
    ]
}

/// Rows whose cells stand below each other.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    out
}

/// The cluster's level, and whether it could be higher.
fn level(status: &Status) -> String {
    let (map, mut text) = (&status.map, format!("level {}", status.map.level()));
    let present = map.members().zip(&status.nodes).filter(|(node, _)| !node.lost);
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

/// A member as problems name it.
fn name(map: &Map, node: &Node) -> String {
    let kind = if map.index_of(node.id).is_some() { "node" } else { "log-server" };
    format!("{kind} {} at {}:{}", node.id, node.host, node.port)
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
    for (index, node) in map.members().enumerate() {
        let slots = map.index_of(node.id).map_or(0, |index| map.slots_of(index));
        let what = match (node.lost, is_up(index)) {
            (true, _) => "is lost: another one has come in its place",
            (false, Some(false)) if node.id != status.me => "is down",
            _ => continue,
        };
        let keys = if slots > 0 { format!("; nobody serves its {slots} slots") } else { String::new() };
        problems.push(format!("{} {what}{keys}", name(map, node)));
    }
    for (node, known) in map.members().zip(&status.nodes).filter(|(_, known)| !known.trouble.is_empty()) {
        // It may be a sentence about something else, or several.
        problems.push(format!("{}: {}", name(map, node), known.trouble));
    }
    let voters: Vec<usize> = map.members().enumerate().filter(|(_, node)| node.voter).map(|(index, _)| index).collect();
    let is_me = |index: usize| status.nodes.get(index).is_some_and(|node| node.id == status.me);
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
    use std::sync::Arc;

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
            copies: Vec::new(),
            standing: None,
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
        let row = format!(
            "\n{one}  10.0.0.1:7001@17001  rack-1  node  up     1.9 s  votes     1      1       8001   0-8000\n"
        );
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
        let problem = "at 10.0.0.1:7002: refuses writes: No space left on device\n";
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
        assert!(unknown.contains("10.0.0.1:7001@17001  rack-1  node  ?      ?"), "{unknown}");
    }
}
