//! Our own metrics: `holdfast_...`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ::membership::SLOTS;
use ::membership::control::CopyState;

use super::text::Text;
use crate::cluster::Cluster;
use crate::cluster::copied::seen;
use crate::durability::backlog::backlog_limit;
use crate::durability::checkpoints::Checkpoints;
use crate::durability::copies::{CopiesOfLog, CopyOfLog};
use crate::durability::durable::Durable;
use crate::figures::stats::WorkerStats;
use crate::node::Node;

/// A counter of a worker.
type Counter = fn(&WorkerStats) -> &AtomicU64;

/// A figure of a stream of the log.
type Figure<T> = fn(&redolog::Facts) -> T;

/// A figure of a copy of the log.
type CopyFigure = fn(&CopyOfLog) -> u64;

/// Writes all of them.
pub(super) fn write(node: &Node, loading: bool, t: &mut Text) {
    t.gauge("holdfast_build_info", &[("version", env!("CARGO_PKG_VERSION")), ("driver", &node.facts.driver)], 1);
    t.gauge("holdfast_ready", &[], u8::from(!loading && super::readiness(node).is_ok()));
    workers(node, t);
    waits(node, t);
    memory(node, t);
    if let Some(durable) = node.durable() {
        log(node, &durable, t);
        durable.copies().iter().for_each(|of| copies(of, t));
    }
    standbys(node, t);
    if let Some(checkpoints) = node.checkpoints() {
        checkpointer(node, &checkpoints, t);
        store(&checkpoints, t);
    }
    if let Some(cluster) = node.cluster() {
        cluster_of(node, cluster, t);
    }
}

fn sum(node: &Node, counter: Counter) -> u64 {
    node.stats.iter().map(|stats| counter(stats).load(Relaxed)).fold(0, u64::wrapping_add)
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

fn workers(node: &Node, t: &mut Text) {
    t.gauge("holdfast_workers", &[], node.workers());
    t.gauge("holdfast_active_workers", &[], node.active_workers.load(Relaxed));
    let names: Vec<String> = (0..node.workers()).map(|worker| worker.to_string()).collect();
    let each = || names.iter().map(String::as_str).zip(&node.stats);
    for (worker, stats) in each() {
        t.gauge("holdfast_worker_clients", &[("worker", worker)], stats.clients.load(Relaxed));
    }
    let counters: [(&str, Counter); 4] = [
        ("holdfast_worker_commands_total", |s| &s.processed),
        ("holdfast_worker_turns_total", |s| &s.turns),
        ("holdfast_worker_parked_total", |s| &s.parked),
        ("holdfast_worker_script_reruns_total", |s| &s.script_reruns),
    ];
    for (name, counter) in counters {
        for (worker, stats) in each() {
            t.counter(name, &[("worker", worker)], counter(stats).load(Relaxed));
        }
    }
    for (worker, stats) in each() {
        let busy = seconds(stats.turn_nanos.load(Relaxed));
        t.counter("holdfast_worker_busy_seconds_total", &[("worker", worker)], busy);
    }
}

/// Locks and transactions.
fn waits(node: &Node, t: &mut Text) {
    let (transactions, retries) = (sum(node, |s| &s.transactions), sum(node, |s| &s.transaction_retries));
    t.counter("holdfast_transactions_over_nodes_total", &[], transactions);
    t.counter("holdfast_transaction_attempts_total", &[], transactions.wrapping_add(retries));
    t.gauge("holdfast_transactions_in_doubt", &[], node.doubts.count());
    t.counter("holdfast_commands_refused_in_doubt_total", &[], sum(node, |s| &s.refused_in_doubt));
    t.counter("holdfast_lock_waits_total", &[], sum(node, |s| &s.parked));
    t.gauge("holdfast_waits_over_a_minute", &[], sum(node, |s| &s.waits_long));
    t.counter("holdfast_waits_over_a_minute_total", &[], sum(node, |s| &s.waited_long));
    t.gauge("holdfast_claims_without_owner", &[], sum(node, |s| &s.ownerless));
}

fn memory(node: &Node, t: &mut Text) {
    let settings = node.config.settings();
    let bound = node.memory_bound(&settings).unwrap_or(0);
    t.gauge("holdfast_memory_limit_bytes", &[], bound);
    let usable = node.usable(&settings);
    t.gauge("holdfast_memory_usable_bytes", &[], if usable == u64::MAX { 0 } else { usable });
    t.gauge("holdfast_clients_waiting_for_room", &[], sum(node, |s| &s.awaits_room));
    let keyspace = &node.engine.keyspace;
    t.gauge("holdfast_keys_in_store_only", &[], keyspace.cold_keys());
    let (mut moved, mut fetched) = (0, 0);
    for counters in keyspace.counters() {
        moved += counters.cooled.load(Relaxed);
        fetched += counters.warmed.load(Relaxed);
    }
    t.counter("holdfast_keys_moved_to_store_total", &[], moved);
    t.counter("holdfast_keys_fetched_from_store_total", &[], fetched);
    t.gauge("holdfast_tombstones", &[], keyspace.tombstones());
}

fn log(node: &Node, durable: &Durable, t: &mut Text) {
    let log = durable.log();
    let streams: Vec<_> = (0..log.streams()).map(|stream| (stream.to_string(), log.facts(stream))).collect();
    let gauges: [(&str, Figure<f64>); 4] = [
        ("holdfast_log_size_bytes", |f| f.size as f64),
        ("holdfast_log_backlog_bytes", |f| f.backlog as f64),
        ("holdfast_log_last_sync_seconds", |f| seconds(f.last_sync)),
        ("holdfast_log_sync_running_seconds", |f| seconds(f.stalled)),
    ];
    for (name, value) in gauges {
        streams.iter().for_each(|(stream, facts)| t.gauge(name, &[("stream", stream)], value(facts)));
    }
    let counters: [(&str, Figure<u64>); 3] = [
        ("holdfast_log_written_bytes_total", |f| f.written),
        ("holdfast_log_records_total", |f| f.records),
        ("holdfast_log_groups_total", |f| f.groups),
    ];
    for (name, value) in counters {
        streams.iter().for_each(|(stream, facts)| t.counter(name, &[("stream", stream)], value(facts)));
    }
    for (stream, facts) in &streams {
        let mut within = 0;
        // The last bucket has no upper bound.
        let buckets = facts.syncs[..facts.syncs.len() - 1].iter().enumerate().map(|(power, count)| {
            within += count;
            ((1u64 << power) as f64 / 1e6, within)
        });
        let sums = (facts.syncs.iter().sum(), seconds(facts.synced_for));
        t.histogram("holdfast_log_sync_seconds", ("stream", stream), buckets, sums);
    }
    let settings = node.config.settings();
    t.gauge("holdfast_log_backlog_limit_bytes", &[], backlog_limit(&settings));
    t.gauge("holdfast_log_tail_bytes", &[], durable.tail().size(log));
    t.gauge("holdfast_log_tail_limit_bytes", &[], settings.checkpoint_log_max);
    t.counter("holdfast_log_tail_waits_total", &[], sum(node, |s| &s.slowed));
    t.gauge("holdfast_log_waiting_clients", &[], sum(node, |s| &s.awaits_log));
    t.gauge("holdfast_log_takes_writes", &[], u8::from(durable.takes_writes()));
}

/// The copies of the log, where it has some.
fn copies(of: &CopiesOfLog, t: &mut Text) {
    t.gauge("holdfast_log_copies", &[], of.copies.len());
    t.gauge("holdfast_log_copies_counting", &[], of.counting());
    t.gauge("holdfast_log_copies_answering", &[], of.answering());
    t.gauge("holdfast_log_term", &[], of.term.get());
    t.gauge("holdfast_log_uncommitted_bytes", &[], of.uncommitted_bytes);
    let figures: [(&str, CopyFigure); 5] = [
        ("holdfast_log_copy_up", |copy| (copy.report.state == CopyState::Follows).into()),
        ("holdfast_log_copy_counts", |copy| copy.report.counts.into()),
        ("holdfast_log_copy_lag_bytes", |copy| copy.report.bytes),
        ("holdfast_log_copy_lag_blocks", |copy| copy.report.blocks),
        ("holdfast_log_copy_window_blocks", |copy| copy.sent),
    ];
    for (name, figure) in figures {
        of.copies.iter().for_each(|copy| t.gauge(name, &[("place", &copy.place)], figure(copy)));
    }
}

/// The standbys of the node's shard, where it has some; or the copy that this node has of another one's data.
fn standbys(node: &Node, t: &mut Text) {
    let seen = seen(node);
    if !seen.is_empty() {
        let electable = seen.iter().filter(|seen| seen.standby.is_electable).count();
        t.gauge("holdfast_standbys", &[], seen.len());
        t.gauge("holdfast_standbys_electable", &[], electable);
        let all: Vec<_> = seen.iter().map(|seen| (seen.address(), seen)).collect();
        all.iter()
            .for_each(|(address, seen)| t.gauge("holdfast_standby_up", &[("standby", address)], u8::from(seen.is_up)));
        let following = || all.iter().filter_map(|(address, seen)| Some((address, seen.following?.0)));
        for (address, of) in following() {
            t.gauge("holdfast_standby_lag_bytes", &[("standby", address)], of.behind_bytes);
        }
        for (address, of) in following() {
            t.gauge("holdfast_standby_lag_seconds", &[("standby", address)], of.behind_ms as f64 / 1000.0);
        }
    }
    if let Some(copy) = node.copy() {
        let (figures, now) = (copy.figures(), node.clock.monotonic_ns());
        t.gauge("holdfast_copy_lag_bytes", &[], figures.behind_bytes);
        t.gauge("holdfast_copy_lag_seconds", &[], figures.behind_ms as f64 / 1000.0);
        t.gauge("holdfast_copy_staleness_seconds", &[], seconds(now.since(figures.known_at)));
        t.gauge("holdfast_copy_readable", &[], u8::from(copy.readable().is_some()));
    }
}

fn checkpointer(node: &Node, checkpoints: &Checkpoints, t: &mut Text) {
    let state = checkpoints.state();
    let figures = &state.figures;
    t.counter("holdfast_checkpoints_total", &[], figures.rounds);
    t.gauge("holdfast_checkpoint_failed", &[], u8::from(state.failed.is_some()));
    t.gauge("holdfast_checkpoint_last_timestamp_seconds", &[], state.saved_at.seconds());
    t.gauge("holdfast_checkpoint_last_duration_seconds", &[], state.took.unwrap_or(0) as f64 / 1000.0);
    t.gauge("holdfast_checkpoint_last_changes", &[], figures.changes);
    t.gauge("holdfast_checkpoint_last_bytes", &[], figures.bytes);
    t.gauge("holdfast_checkpoint_last_slots", &[], figures.slots);
    t.gauge("holdfast_checkpoint_running", &[], u8::from(state.began.is_some()));
    let running = state.began.map_or(0, |began| node.clock.unix_ms().since(began));
    t.gauge("holdfast_checkpoint_running_seconds", &[], running as f64 / 1000.0);
    t.gauge("holdfast_checkpoint_current_slots", &[], figures.progress);
    t.counter("holdfast_checkpoint_holds_total", &[], figures.holds);
    t.counter("holdfast_checkpoint_long_holds_total", &[], figures.long_holds);
    t.gauge("holdfast_checkpoint_longest_hold_seconds", &[], seconds(figures.longest_hold));
    t.gauge("holdfast_warm_up_ratio", &[], state.warmth);
    t.gauge("holdfast_warm_up_keys", &[], state.warmed);
}

fn store(checkpoints: &Checkpoints, t: &mut Text) {
    let Some(figures) = checkpoints.store().map(|store| store.figures()) else { return };
    for (name, value) in [
        ("holdfast_store_size_bytes", figures.bytes_on_disk),
        ("holdfast_store_entries", figures.entries_estimate),
        ("holdfast_store_tables", figures.tables),
        ("holdfast_store_runs", figures.runs),
        ("holdfast_store_unflushed_bytes", figures.bytes_unflushed),
        ("holdfast_store_cache_bytes", figures.cache_bytes),
        ("holdfast_store_indexes_bytes", figures.pinned_bytes),
    ] {
        t.gauge(name, &[], value);
    }
    for (name, value) in [
        ("holdfast_store_taken_bytes_total", figures.bytes_taken),
        ("holdfast_store_flushed_bytes_total", figures.bytes_flushed),
        ("holdfast_store_spilled_bytes_total", figures.bytes_spilled),
        ("holdfast_store_compacted_bytes_total", figures.bytes_compacted),
        ("holdfast_store_read_bytes_total", figures.bytes_read),
        ("holdfast_store_flushes_total", figures.flushes),
        ("holdfast_store_cache_hits_total", figures.cache_hits),
        ("holdfast_store_cache_misses_total", figures.cache_misses),
    ] {
        t.counter(name, &[], value);
    }
}

/// Leases, links and slots; the lines of CLUSTER INFO under the names that redis_exporter gives them.
fn cluster_of(node: &Node, cluster: &Cluster, t: &mut Text) {
    let (map, now) = (cluster.map(), node.clock.boot_ns());
    let me = map.index_of(cluster.me());
    let silent = cluster.administration().map(|admin| admin.silent()).unwrap_or_default();
    let has_failed = |index: u16| {
        let node = map.node(index);
        Some(index) != me && (node.lost || silent.contains(&node.id))
    };
    let failed = (0..map.nodes().len() as u16).filter(|index| has_failed(*index));
    let (failed, lost) = failed.fold((0, 0), |(nodes, slots), index| (nodes + 1, slots + map.slots_of(index)));
    let (serves, assigned) = (cluster.may_serve(now), map.assigned());
    let is_well = serves && assigned == SLOTS && lost == 0;
    t.gauge("redis_cluster_state", &[], u8::from(is_well));
    for (name, value) in [
        ("redis_cluster_slots_assigned", assigned as u64),
        ("redis_cluster_slots_ok", (assigned - lost) as u64),
        ("redis_cluster_slots_pfail", 0),
        ("redis_cluster_slots_fail", lost as u64),
        ("redis_cluster_known_nodes", map.nodes().len() as u64),
        ("redis_cluster_size", map.owners() as u64),
        ("redis_cluster_current_epoch", map.epoch()),
        ("redis_cluster_my_epoch", me.map_or(0, |me| map.node(me).epoch)),
        ("redis_cluster_messages_sent_total", 0),
        ("redis_cluster_messages_received_total", 0),
        ("redis_cluster_map_version", map.version()),
        ("redis_cluster_level", map.level().into()),
        ("redis_cluster_lease", serves.into()),
        ("holdfast_cluster_map_version", map.version()),
        ("holdfast_cluster_level", map.level().into()),
        ("holdfast_cluster_failed_nodes", failed),
        ("holdfast_slots", me.map_or(0, |me| map.slots_of(me)) as u64),
        ("holdfast_lease", serves.into()),
        ("holdfast_links", sum(node, |s| &s.links)),
        ("holdfast_held_bytes", sum(node, |s| &s.held_bytes)),
    ] {
        t.gauge(name, &[], value);
    }
    t.gauge("holdfast_lease_seconds_left", &[], seconds(cluster.lease().until().left(now)));
}
