//! INFO: replication. A standby is a replica of the owner of its shard, and offsets are places in the shard's log.

use super::report::{Report, Text};
use crate::cluster::copied::{history, offset, own_offset, own_primary, seen};
use crate::durability::followed::is_linked;

/// Standbys are chosen by how near they are: all have Redis's default.
const PRIORITY: u32 = 100;

pub fn replication(r: &Report<'_>, t: &mut Text) {
    t.title("Replication");
    match own_primary(r.node) {
        None => {
            t.line("role", "master");
            standbys(r, t);
        }
        Some(primary) => {
            t.line("role", "slave");
            t.line("master_host", &primary.host);
            t.line("master_port", primary.port);
            copy(r, t);
            t.line("connected_slaves", 0);
        }
    }
    t.line("master_failover_state", "no-failover");
    t.line("master_replid", history(r.node).unwrap_or_else(|| r.node.facts.run_id.clone()));
    t.line("master_replid2", "0".repeat(40));
    t.line("master_repl_offset", own_offset(r.node));
    t.line("second_repl_offset", -1);
    t.line("repl_backlog_active", 0);
    t.line("repl_backlog_size", 1 << 20);
    t.zeros(&["repl_backlog_first_byte_offset", "repl_backlog_histlen"]);
}

/// The standbys of this node. One that is away is not connected.
fn standbys(r: &Report<'_>, t: &mut Text) {
    let seen: Vec<_> = seen(r.node).into_iter().filter(|seen| seen.is_up).collect();
    t.line("connected_slaves", seen.len());
    for (number, standby) in seen.iter().enumerate() {
        let (host, port, offset) = (&standby.node.host, standby.node.port, standby.offset());
        // It fetches a checkpoint until it follows.
        let (state, lag) = match standby.following {
            Some((_, ago)) => ("online", ago),
            None => ("send_bulk", 0),
        };
        t.line(
            format_args!("slave{number}"),
            format_args!("ip={host},port={port},state={state},offset={offset},lag={lag}"),
        );
    }
}

/// The copy that this node has, or is to have.
fn copy(r: &Report<'_>, t: &mut Text) {
    let (figures, now) = (r.node.copy().map(|copy| copy.figures()), r.node.clock.monotonic_ns());
    let linked = figures.as_ref().is_some_and(|figures| is_linked(figures, now));
    let seconds = figures.as_ref().map(|figures| now.since(figures.heard_at) / 1_000_000_000);
    t.line("master_link_status", if linked { "up" } else { "down" });
    t.line("master_last_io_seconds_ago", seconds.filter(|_| linked).map_or(-1, |seconds| seconds as i64));
    t.line("master_sync_in_progress", u8::from(figures.is_none()));
    let at = figures.as_ref().map_or(0, |figures| offset(figures.passed));
    t.line("slave_read_repl_offset", at);
    t.line("slave_repl_offset", at);
    if let Some(figures) = figures {
        t.line("slave_behind_bytes", figures.behind_bytes);
        t.line("slave_behind_ms", figures.behind_ms);
    }
    if !linked {
        t.line("master_link_down_since_seconds", seconds.map_or(-1, |seconds| seconds as i64));
    }
    t.line("slave_priority", PRIORITY);
    t.line("slave_read_only", 1);
    t.line("replica_announced", 1);
}
