//! INFO: stats, cpu, keyspace, and the sections of parts that do not exist.

use std::sync::atomic::Ordering::Relaxed;

use keyspace::{Counts, SIZED_TYPES};

use super::report::{Report, Text, ratio};
use crate::push::delivery::Kind;

pub fn stats(r: &Report<'_>, t: &mut Text) {
    let rates = r.node.sampler.rates(r.node.workers() as u64);
    t.title("Stats");
    t.line("total_connections_received", r.sum(|s| &s.connections));
    t.line("total_commands_processed", r.sum(|s| &s.processed));
    t.line("instantaneous_ops_per_sec", rates.commands);
    t.line("total_net_input_bytes", r.sum(|s| &s.bytes_in));
    t.line("total_net_output_bytes", r.sum(|s| &s.bytes_out));
    t.zeros(&["total_net_repl_input_bytes", "total_net_repl_output_bytes"]);
    t.line("instantaneous_input_kbps", format_args!("{:.2}", rates.bytes_in as f64 / 1024.0));
    t.line("instantaneous_output_kbps", format_args!("{:.2}", rates.bytes_out as f64 / 1024.0));
    t.line("instantaneous_input_repl_kbps", "0.00");
    t.line("instantaneous_output_repl_kbps", "0.00");
    t.line("rejected_connections", r.sum(|s| &s.rejected));
    t.zeros(&["sync_full", "sync_partial_ok", "sync_partial_err"]);
    t.line("expired_subkeys", r.keys_sum(|c| &c.expired_fields));
    // The name that Valkey has for it.
    t.line("expired_fields", r.keys_sum(|c| &c.expired_fields));
    t.line("expired_subkeys_active", r.keys_sum(|c| &c.expired_fields_active));
    t.line("expired_keys", r.keys_sum(|c| &c.expired));
    t.line("expired_keys_active", r.keys_sum(|c| &c.expired_active));
    t.line("expired_stale_perc", "0.00");
    t.zeros(&["expired_time_cap_reached_count", "expire_cycle_cpu_milliseconds"]);
    t.line("evicted_keys", r.keys_sum(|c| &c.evicted));
    t.line("keys_moved_to_store", r.keys_sum(|c| &c.cooled));
    t.line("keys_fetched_from_store", r.keys_sum(|c| &c.warmed));
    t.line("keys_in_store_only", r.node.engine.keyspace.cold_keys());
    t.line("evicted_clients", r.sum(|s| &s.evicted_clients));
    t.line("evicted_scripts", r.node.scripts.evicted.load(Relaxed));
    t.zeros(&["total_eviction_exceeded_time", "current_eviction_exceeded_time"]);
    t.line("keyspace_hits", r.keys_sum(|c| &c.hits));
    t.line("keyspace_misses", r.keys_sum(|c| &c.misses));
    t.line("pubsub_channels", r.node.pubsub.count(Kind::Channel));
    t.line("pubsub_patterns", r.node.pubsub.count(Kind::Pattern));
    t.line("pubsubshard_channels", r.node.pubsub.count(Kind::Shard));
    t.zeros(&["latest_fork_usec", "total_forks"]);
    t.zeros(&["migrate_cached_sockets", "slave_expires_tracked_keys"]);
    // A key and its value are one block.
    for name in ["active_defrag_hits", "active_defrag_key_hits"] {
        t.line(name, r.keys_sum(|c| &c.moved));
    }
    for name in ["active_defrag_misses", "active_defrag_key_misses"] {
        t.line(name, r.keys_sum(|c| &c.unmoved));
    }
    t.line("total_active_defrag_time", r.sum(|s| &s.defrag_nanos) / 1_000_000);
    t.line("current_active_defrag_time", 0);
    t.line("tracking_total_keys", r.node.engine.tracking.keys());
    t.line("tracking_total_items", r.node.engine.tracking.items());
    t.line("tracking_total_prefixes", r.node.trackers.prefixes());
    t.line("transactions_over_nodes", r.sum(|s| &s.transactions));
    t.line("transactions_over_nodes_retries", r.sum(|s| &s.transaction_retries));
    t.line("transactions_over_nodes_joined", r.sum(|s| &s.transactions_joined));
    t.line("transactions_over_nodes_in_doubt", r.node.doubts.count());
    t.line("commands_refused_in_doubt", r.sum(|s| &s.refused_in_doubt));
    t.line("waits_over_a_minute", r.sum(|s| &s.waits_long));
    t.line("total_waits_over_a_minute", r.sum(|s| &s.waited_long));
    t.line("claims_without_owner", r.sum(|s| &s.ownerless));
    t.line("unexpected_error_replies", 0);
    t.line("total_error_replies", r.sum(|s| &s.errors));
    t.line("dump_payload_sanitizations", 0);
    t.line("total_reads_processed", r.sum(|s| &s.reads));
    t.line("total_writes_processed", r.sum(|s| &s.writes));
    t.zeros(&["io_threaded_reads_processed", "io_threaded_writes_processed"]);
    t.zeros(&["io_threaded_total_prefetch_batches", "io_threaded_total_prefetch_entries"]);
    t.line("client_query_buffer_limit_disconnections", r.sum(|s| &s.query_overruns));
    t.line("client_output_buffer_limit_disconnections", r.sum(|s| &s.output_overruns));
    t.zeros(&["reply_buffer_shrinks", "reply_buffer_expands"]);
    t.line("eventloop_cycles", r.sum(|s| &s.turns));
    t.line("eventloop_cycles_with_clients_processing", r.sum(|s| &s.busy_turns));
    let (commands, pipelines) = (r.sum(|s| &s.processed), r.sum(|s| &s.pipelines));
    t.line("total_client_processing_events", pipelines);
    t.line("avg_pipeline_length_sum", commands);
    t.line("avg_pipeline_length_cnt", pipelines);
    t.line("avg_pipeline_length", format_args!("{:.2}", ratio(commands, pipelines)));
    let slow = r.node.slow_log.sum();
    let millis = |micros: u64| format!("{:.2}", micros as f64 / 1000.0);
    t.line("slowlog_commands_count", slow.count);
    t.line("slowlog_commands_time_ms_max", millis(slow.longest));
    t.line("slowlog_commands_time_ms_sum", millis(slow.total));
    t.line("eventloop_duration_sum", r.sum(|s| &s.turn_nanos) / 1000);
    t.line("eventloop_duration_cmd_sum", r.sum(|s| &s.command_nanos) / 1000);
    t.line("instantaneous_eventloop_cycles_per_sec", rates.turns);
    t.line("instantaneous_eventloop_duration_usec", rates.turn_micros);
    t.line("acl_access_denied_auth", r.sum(|s| &s.denied));
    let denied = r.node.users.log().counts();
    t.line("acl_access_denied_cmd", denied.command);
    t.line("acl_access_denied_key", denied.key);
    t.line("acl_access_denied_channel", denied.channel);
    t.line("acl_access_denied_tls_cert", denied.certificate);
}

/// Workers, which do the work of Redis's threads for input and output.
pub fn threads(r: &Report<'_>, t: &mut Text) {
    t.title("Threads");
    for (worker, s) in r.node.stats.iter().enumerate() {
        let (clients, reads, writes) = (s.clients.load(Relaxed), s.reads.load(Relaxed), s.writes.load(Relaxed));
        t.line(format_args!("io_thread_{worker}"), format_args!("clients={clients},reads={reads},writes={writes}"));
    }
}

pub fn cpu(r: &Report<'_>, t: &mut Text) {
    let (user, system) = r.node.facts.cpu.map_or((0, 0), |cpu| cpu());
    let seconds = |micros: u64| format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    t.title("CPU");
    t.line("used_cpu_sys", seconds(system));
    t.line("used_cpu_user", seconds(user));
    t.line("used_cpu_sys_children", seconds(0));
    t.line("used_cpu_user_children", seconds(0));
    // Redis executes commands in its main thread: here all workers do.
    t.line("used_cpu_sys_main_thread", seconds(r.sum(|s| &s.cpu_system)));
    t.line("used_cpu_user_main_thread", seconds(r.sum(|s| &s.cpu_user)));
}

/// The tracking of HOTKEYS that is under way, or the last; its fields are those of Redis, hyphens included.
pub fn hotkeys(r: &Report<'_>, t: &mut Text) {
    t.title("Hotkeys");
    if let Some(tracking) = r.node.hot_keys.tracking() {
        t.line("hotkeys-tracking-active", u8::from(tracking.is_on(r.now)));
        t.line("hotkeys-cmd-cpu-time", tracking.work() / 1_000_000);
    }
}

pub fn modules(_: &Report<'_>, t: &mut Text) {
    t.title("Modules");
}

pub fn cluster(r: &Report<'_>, t: &mut Text) {
    t.title("Cluster");
    t.line("cluster_enabled", u8::from(r.node.cluster().is_some()));
    t.line("cluster_held_bytes", r.sum(|s| &s.held_bytes));
}

pub fn keyspace(r: &Report<'_>, t: &mut Text) {
    t.title("Keyspace");
    for (db, Counts { keys, expires, field_expires: fields }) in r.databases.iter().enumerate() {
        if *keys > 0 {
            t.line(
                format_args!("db{db}"),
                format_args!(
                    "keys={keys},expires={expires},avg_ttl=0,subexpiry={fields},keys_with_volatile_items={fields}"
                ),
            );
        }
    }
}

/// Numbers of strings by their bytes, and of collections by their elements: in powers of two, each named by its lowest.
pub fn keysizes(r: &Report<'_>, t: &mut Text) {
    const NAMES: [&str; SIZED_TYPES.len()] =
        ["strings_sizes", "lists_items", "sets_items", "zsets_items", "hashes_items"];
    t.title("Keysizes");
    let databases = r.databases.iter().enumerate().filter(|(_, counts)| counts.keys > 0);
    for (db, _) in databases {
        for (name, numbers) in NAMES.iter().zip(r.node.engine.keyspace.sizes(db as u16)) {
            let there = numbers.iter().enumerate().filter(|(_, number)| **number > 0);
            let shown: Vec<String> = there.map(|(bucket, number)| format!("{}={number}", lowest(bucket))).collect();
            if !shown.is_empty() {
                t.line(format_args!("db{db}_distrib_{name}"), shown.join(","));
            }
        }
    }
}

/// The lowest size of a bucket, as Redis writes it: `512`, `1K`.
fn lowest(bucket: usize) -> String {
    const UNITS: [&str; 5] = ["", "K", "M", "G", "T"];
    match bucket.checked_sub(1) {
        None => "0".into(),
        Some(power) => format!("{}{}", 1u64 << (power % 10), UNITS[power / 10]),
    }
}

/// The activity of each worker. Redis has no such section.
pub fn workers(r: &Report<'_>, t: &mut Text) {
    t.title("Workers");
    for (i, s) in r.node.stats.iter().enumerate() {
        t.line(
            format_args!("worker{i}"),
            format_args!(
                "clients={},commands={},turns={},busy_usec={},parked={},script_reruns={}",
                s.clients.load(Relaxed),
                s.processed.load(Relaxed),
                s.turns.load(Relaxed),
                s.turn_nanos.load(Relaxed) / 1000,
                s.parked.load(Relaxed),
                s.script_reruns.load(Relaxed),
            ),
        );
    }
}

pub fn debug(r: &Report<'_>, t: &mut Text) {
    t.title("Debug");
    t.line("eventloop_duration_aof_sum", 0);
    t.line("eventloop_duration_cron_sum", r.sum(|s| &s.housekeeping_nanos) / 1000);
    let max = |counter: fn(&crate::WorkerStats) -> u64| r.node.stats.iter().map(|s| counter(s)).max().unwrap_or(0);
    t.line("eventloop_duration_max", max(|s| s.longest_window.load(Relaxed)) / 1000);
    t.line("eventloop_cmd_per_cycle_max", max(|s| s.most_commands.load(Relaxed)));
}
