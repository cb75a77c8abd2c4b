//! INFO: server, clients, memory, persistence.

use std::sync::atomic::Ordering::Relaxed;

use ::membership::level;
use clocks::UnixMs;
use command::Difference;
use engine::checkpoint::Figures;

use super::report::{Report, Text, ratio};
use crate::REDIS_VERSION;
use crate::config::EvictionPolicy;
use crate::durability::backlog::backlog_limit;
use crate::durability::{checkpoints, snapshots};
use crate::figures::amount::human;
use crate::limits::system::moves_to_store;
use crate::node::{Node, VALKEY_VERSION};

pub fn server(r: &Report<'_>, t: &mut Text) {
    let facts = &r.node.facts;
    let uptime = r.now.since(facts.started) / 1000;
    t.title("Server");
    t.line("redis_version", REDIS_VERSION);
    t.line("redis_git_sha1", "00000000");
    t.line("redis_git_dirty", 0);
    t.line("redis_build_id", 0);
    t.line("redis_mode", if r.node.cluster().is_some() { "cluster" } else { "standalone" });
    if r.settings.compatibility.is_valkey(Difference::ServerName) {
        t.line("server_name", "valkey");
        t.line("valkey_version", VALKEY_VERSION);
    } else {
        t.line("server_name", "holdfast");
    }
    t.line("holdfast_version", env!("CARGO_PKG_VERSION"));
    t.line("holdfast_level", level::HIGHEST);
    t.line("os", &facts.os);
    t.line("gcc_version", "0.0.0");
    t.line("arch_bits", usize::BITS);
    t.line("monotonic_clock", "POSIX clock_gettime");
    t.line("multiplexing_api", &facts.driver);
    t.line("atomicvar_api", "rust");
    t.line("process_id", facts.pid);
    t.line("process_supervised", "no");
    t.line("run_id", &facts.run_id);
    t.line("tcp_port", r.settings.port_of_clients());
    t.line("server_time_usec", r.node.clock.unix_us());
    t.line("uptime_in_seconds", uptime);
    t.line("uptime_in_days", uptime / 86_400);
    t.line("hz", r.settings.hz);
    t.line("configured_hz", r.settings.hz);
    t.line("lru_clock", r.now.seconds() & 0x00ff_ffff);
    t.line("executable", &facts.executable);
    t.line("config_file", r.node.config.file().map(|file| file.display().to_string()).unwrap_or_default());
    t.line("io_threads_active", u8::from(r.node.workers() > 1));
    t.line("workers", r.node.workers());
    let mut listeners: Vec<(&str, String)> = Vec::new();
    let binds: Vec<String> = r.settings.bind.iter().map(|bind| format!("bind={bind}")).collect();
    let listens = |port| (port != 0).then(|| format!("{},port={port}", binds.join(",")));
    listeners.extend(listens(r.settings.port).map(|text| ("tcp", text)));
    if let Some(path) = &r.settings.unixsocket {
        listeners.push(("unix", format!("bind={}", String::from_utf8_lossy(path))));
    }
    listeners.extend(listens(r.settings.tls_port).map(|text| ("tls", text)));
    for (i, (name, text)) in listeners.iter().enumerate() {
        t.line(format_args!("listener{i}"), format_args!("name={name},{text}"));
    }
}

/// A client that has sent bytes within so many milliseconds is active, as in Redis.
const ACTIVE_MS: u64 = 512;

pub fn clients(r: &Report<'_>, t: &mut Text) {
    let (mut watching, mut watched, mut longest_in, mut longest_out, mut count, mut active) = (0, 0, 0, 0, 0, 0);
    r.node.each_client(|client| {
        let keys = u64::from(client.watching.load(Relaxed));
        watching += u64::from(keys > 0);
        watched += keys;
        longest_in = longest_in.max(client.query_len.load(Relaxed) + client.query_free.load(Relaxed));
        longest_out = longest_out.max(client.output_len.load(Relaxed));
        active += u64::from(r.now.since(UnixMs(client.last_active.load(Relaxed))) < ACTIVE_MS);
        count += 1;
    });
    t.title("Clients");
    t.line("connected_clients", count);
    t.line("active_clients", active);
    t.line("cluster_connections", 0);
    t.line("maxclients", r.settings.maxclients);
    t.line("client_recent_max_input_buffer", longest_in);
    t.line("client_recent_max_output_buffer", longest_out);
    t.line("blocked_clients", r.sum(|s| &s.blocked));
    t.line("tracking_clients", tracking_clients(r.node));
    t.line("pubsub_clients", r.node.pubsub.clients.load(Relaxed));
    t.line("watching_clients", watching);
    t.line("clients_in_timeout_table", r.sum(|s| &s.waiting_with_deadline));
    t.line("total_watched_keys", watched);
    t.line("total_blocking_keys", r.node.engine.waited_keys.load(Relaxed));
    t.line("total_blocking_keys_on_nokey", r.node.engine.waited_keys_minding_absence.load(Relaxed));
}

/// Clients that track, without those of other nodes that have read here.
fn tracking_clients(node: &Node) -> usize {
    let ids = node.trackers.ids();
    ids.iter().filter(|id| node.clients().contains_key(id)).count()
}

pub fn memory(r: &Report<'_>, t: &mut Text) {
    let used = r.node.used_memory();
    let resident = r.node.facts.resident.map_or(used, |resident| resident());
    let peak = r.node.peak_memory();
    let heap = r.node.engine.keyspace.heap().stats();
    let startup = r.node.startup_memory();
    let clients = r.node.client_memory();
    let overhead = r.node.memory_overhead();
    let dataset = used.saturating_sub(overhead);
    let system = r.node.facts.system_memory;
    let (held, live) = (heap.held as u64, heap.live as u64);
    t.title("Memory");
    t.line("used_memory", used);
    t.line("used_memory_human", human(used));
    t.line("used_memory_rss", resident);
    t.line("used_memory_rss_human", human(resident));
    t.line("used_memory_peak", peak);
    t.line("used_memory_peak_human", human(peak));
    t.line("used_memory_peak_time", r.node.peak_memory_at().seconds());
    t.line("used_memory_peak_perc", format_args!("{:.2}%", ratio(used, peak) * 100.0));
    t.line("used_memory_overhead", overhead);
    t.line("used_memory_startup", startup);
    t.line("used_memory_dataset", dataset);
    let grown = used.saturating_sub(startup);
    t.line("used_memory_dataset_perc", format_args!("{:.2}%", ratio(dataset, grown) * 100.0));
    t.line("allocator_allocated", used);
    t.line("allocator_active", used + held.saturating_sub(live));
    t.line("allocator_resident", resident);
    t.line("allocator_muzzy", heap.ready);
    t.line("total_system_memory", system);
    t.line("total_system_memory_human", human(system));
    scripts(r, t);
    t.line("maxmemory", r.settings.maxmemory);
    t.line("maxmemory_human", human(r.settings.maxmemory));
    t.line("maxmemory_policy", policy(r.settings.maxmemory_policy));
    room(r, used, resident, t);
    t.line("allocator_frag_ratio", format_args!("{:.2}", ratio(held.max(live), live).max(1.0)));
    t.line("allocator_frag_bytes", held.saturating_sub(live));
    t.line("allocator_rss_ratio", format_args!("{:.2}", ratio(resident, used)));
    t.line("allocator_rss_bytes", resident as i64 - used as i64);
    t.line("rss_overhead_ratio", "1.00");
    t.line("rss_overhead_bytes", 0);
    t.line("mem_fragmentation_ratio", format_args!("{:.2}", ratio(resident, used)));
    t.line("mem_fragmentation_bytes", resident as i64 - used as i64);
    t.line("mem_not_counted_for_evict", r.node.not_counted(r.settings));
    t.zeros(&["mem_replication_backlog", "mem_total_replication_buffers"]);
    t.line("mem_clients_slaves", 0);
    t.line("mem_replica_full_sync_buffer", 0);
    t.line("mem_clients_normal", clients);
    t.line("mem_clients_normal_shared", 0);
    t.line("mem_clients_normal_unshared", clients);
    t.zeros(&["mem_cluster_slot_migration_output_buffer", "mem_cluster_slot_migration_input_buffer"]);
    t.line("mem_cluster_slot_migration_input_buffer_peak", 0);
    t.zeros(&["mem_cluster_links", "mem_aof_buffer"]);
    t.line("mem_allocator", "mimalloc");
    t.line("mem_overhead_db_hashtable_rehashing", 0);
    t.line("active_defrag_running", r.sum(|s| &s.defrag_percent));
    t.line("lazyfree_pending_objects", r.keys_sum(|c| &c.reclaiming));
    t.line("lazyfreed_objects", r.keys_sum(|c| &c.reclaimed));
}

/// The reasons why there may be no room though `used_memory` is below `maxmemory`.
fn room(r: &Report<'_>, used: u64, resident: u64, t: &mut Text) {
    // As with `maxmemory`, 0 is no limit.
    let shown = |bytes: u64| if bytes == u64::MAX { 0 } else { bytes };
    let most = r.node.memory_bound(r.settings).unwrap_or(0);
    let beyond = if moves_to_store(r.node, r.settings) { resident.saturating_sub(used) } else { 0 };
    t.line("maxmemory_effective", most);
    t.line("maxmemory_usable", shown(r.node.usable(r.settings)));
    t.line("maxmemory_taken_by_overhead", beyond.min(most));
    t.line("address_space_limit", shown(headroom::limit()));
    t.line("address_space_mapped", r.node.facts.mapped.map_or(0, |mapped| mapped()));
    t.line("address_space_reserve", headroom::mapped());
    t.line("address_space_refusals", headroom::refusals());
    t.line("control_group_memory_limit", r.node.facts.resident_max);
    t.line("clients_waiting_for_room", r.node.stats.iter().map(|s| s.awaits_room.load(Relaxed)).sum::<u64>());
    if let Some(store) = r.node.checkpoints().and_then(|checkpoints| checkpoints.store()) {
        let figures = store.figures();
        t.line("used_memory_store_cache", figures.cache_bytes);
        t.line("used_memory_store_indexes", figures.pinned_bytes);
        t.line("used_memory_store_unflushed", figures.bytes_unflushed);
    }
}

fn policy(policy: EvictionPolicy) -> &'static str {
    match policy {
        EvictionPolicy::VolatileLru => "volatile-lru",
        EvictionPolicy::VolatileLfu => "volatile-lfu",
        EvictionPolicy::VolatileLrm => "volatile-lrm",
        EvictionPolicy::VolatileRandom => "volatile-random",
        EvictionPolicy::VolatileTtl => "volatile-ttl",
        EvictionPolicy::AllKeysLru => "allkeys-lru",
        EvictionPolicy::AllKeysLfu => "allkeys-lfu",
        EvictionPolicy::AllKeysLrm => "allkeys-lrm",
        EvictionPolicy::AllKeysRandom => "allkeys-random",
        EvictionPolicy::NoEviction => "noeviction",
    }
}

pub fn persistence(r: &Report<'_>, t: &mut Text) {
    t.title("Persistence");
    let checkpoints = r.node.checkpoints();
    let state = checkpoints.as_ref().map(|checkpoints| checkpoints.state()).unwrap_or_default();
    let saves = match checkpoints.is_some() {
        // A checkpoint is this server's snapshot.
        true => Saves::of_checkpoints(&state),
        false => Saves::of_files(r.node.snapshots.state()),
    };
    t.zeros(&["loading", "async_loading"]);
    // No process is forked. Copies are what commands have handed over because they changed a key.
    let copied = if saves.began.is_some() { saves.copied } else { 0 };
    t.line("current_cow_peak", copied);
    t.line("current_cow_size", copied);
    t.zeros(&["current_cow_size_age"]);
    let share = saves.keys.0 as f64 * 100.0 / saves.keys.1.max(1) as f64;
    t.line("current_fork_perc", format_args!("{share:.2}"));
    snapshot(r, &saves, t);
    let durable = r.node.durable();
    t.line("aof_enabled", u8::from(durable.is_some()));
    t.zeros(&["aof_rewrite_in_progress", "aof_rewrite_scheduled"]);
    t.line("aof_last_rewrite_time_sec", -1);
    t.line("aof_current_rewrite_time_sec", -1);
    t.line("aof_last_bgrewrite_status", "ok");
    t.zeros(&["aof_rewrites", "aof_rewrites_consecutive_failures"]);
    let writes = durable.as_ref().is_none_or(|durable| durable.takes_writes());
    t.line("aof_last_write_status", if writes { "ok" } else { "err" });
    t.zeros(&["aof_last_cow_size", "module_fork_in_progress", "module_fork_last_cow_size"]);
    if let Some(durable) = &durable {
        log(durable.log(), t);
        t.line("log_stalled", u8::from(durable.stall.is_on()));
        t.line("log_backlog_limit", backlog_limit(r.settings));
        t.line("log_tail", durable.tail().size(durable.log()));
        t.line("log_tail_limit", r.settings.checkpoint_log_max);
        t.line("log_tail_waits", r.sum(|s| &s.slowed));
        t.line("log_waiting_clients", r.node.stats.iter().map(|s| s.awaits_log.load(Relaxed)).sum::<u64>());
    }
    if let Some(checkpoints) = checkpoints {
        if let Some(there) = checkpoints.store() {
            store(&there.figures(), &state.figures, t);
        }
        t.line("warm_up_perc", format_args!("{:.2}", state.warmth * 100.0));
        t.line("warm_up_keys", state.warmed);
        t.line("tombstones", r.node.engine.keyspace.tombstones());
    }
}

/// What INFO tells of snapshots, whatever they are.
struct Saves {
    keys: (u64, u64),
    saved_at: UnixMs,
    saved_changes: u64,
    began: Option<UnixMs>,
    took: Option<u64>,
    failures: u64,
    saves: u64,
    copied: u64,
    last_copied: u64,
    /// Loaded, and expired.
    loaded: (u64, u64),
}

impl Saves {
    fn of_checkpoints(state: &checkpoints::State) -> Self {
        Self {
            keys: (0, 0),
            saved_at: state.saved_at,
            saved_changes: state.saved_changes,
            began: state.began,
            took: state.took,
            failures: u64::from(state.failed.is_some()),
            saves: state.figures.rounds,
            copied: 0,
            last_copied: 0,
            loaded: (state.loaded, 0),
        }
    }

    fn of_files(state: snapshots::State) -> Self {
        Self {
            keys: if state.began.is_some() { state.keys } else { (0, 0) },
            saved_at: state.saved_at,
            saved_changes: state.saved_changes,
            began: state.began,
            took: state.took,
            failures: state.failures,
            saves: state.saves,
            copied: state.copied,
            last_copied: state.last_copied,
            loaded: state.loaded,
        }
    }
}

fn snapshot(r: &Report<'_>, saves: &Saves, t: &mut Text) {
    let seconds = |ms: Option<u64>| ms.map_or(-1, |ms| (ms / 1000) as i64);
    t.line("current_save_keys_processed", saves.keys.0);
    t.line("current_save_keys_total", saves.keys.1);
    t.line("rdb_changes_since_last_save", r.sum(|s| &s.dirty).saturating_sub(saves.saved_changes));
    t.line("rdb_bgsave_in_progress", u8::from(saves.began.is_some()));
    t.line("rdb_last_save_time", saves.saved_at.seconds());
    t.line("rdb_last_bgsave_status", if saves.failures > 0 { "err" } else { "ok" });
    t.line("rdb_last_bgsave_time_sec", seconds(saves.took));
    let running = saves.began.map(|began| r.node.clock.unix_ms().since(began));
    t.line("rdb_current_bgsave_time_sec", seconds(running));
    t.line("rdb_saves", saves.saves);
    t.line("rdb_saves_consecutive_failures", saves.failures);
    t.line("rdb_last_cow_size", if saves.began.is_some() { saves.last_copied } else { saves.copied });
    t.line("rdb_last_load_keys_expired", saves.loaded.1);
    t.line("rdb_last_load_keys_loaded", saves.loaded.0);
}

/// The last checkpoint, and its place.
fn store(figures: &store::Figures, last: &Figures, t: &mut Text) {
    t.line("checkpoint_last_changes", last.changes);
    t.line("checkpoint_last_slots", last.slots);
    t.line("checkpoint_last_bytes", last.bytes);
    t.line("checkpoint_current_slots", last.progress);
    t.line("checkpoint_holds", last.holds);
    t.line("checkpoint_long_holds", last.long_holds);
    t.line("checkpoint_longest_hold_usec", last.longest_hold / 1000);
    t.line("store_size", figures.bytes_on_disk);
    t.line("store_entries_estimate", figures.entries_estimate);
    t.line("store_bytes_taken", figures.bytes_taken);
    t.line("store_bytes_flushed", figures.bytes_flushed);
    t.line("store_bytes_spilled", figures.bytes_spilled);
    t.line("store_bytes_compacted", figures.bytes_compacted);
    t.line("store_flushes", figures.flushes);
}

/// The streams of the log.
fn log(log: &redolog::Log, t: &mut Text) {
    t.line("log_streams", log.streams());
    t.line("log_backlog", log.backlog());
    t.line("aof_current_size", (0..log.streams()).map(|stream| log.facts(stream).size).sum::<u64>());
    // Each checkpoint begins the log anew, so no part of it is a base or waits to be rewritten.
    t.zeros(&["aof_base_size", "aof_pending_rewrite"]);
    t.line("aof_buffer_length", log.backlog());
    let syncing = (0..log.streams()).filter(|stream| log.facts(*stream).stalled > 0).count();
    t.line("aof_pending_bio_fsync", syncing);
    // No write is put off because a sync is under way: it joins the next group.
    t.line("aof_delayed_fsync", 0);
    for stream in 0..log.streams() {
        let facts = log.facts(stream);
        let syncs: u64 = facts.syncs.iter().sum();
        t.line(
            format!("log_stream_{stream}"),
            format!(
                "size={},written={},records={},groups={},syncs={syncs},backlog={},last_sync_usec={},stalled_usec={}",
                facts.size,
                facts.written,
                facts.records,
                facts.groups,
                facts.backlog,
                facts.last_sync / 1000,
                facts.stalled / 1000
            ),
        );
    }
}

/// Memory of scripts. A machine runs both scripts and functions here, so the memory of machines is shown once.
fn scripts(r: &Report<'_>, t: &mut Text) {
    let machines = script::memory() as u64;
    let (cached, texts) = r.node.scripts.size();
    let libraries = r.node.scripts.libraries();
    let (library_count, function_count) = libraries.count();
    let code: u64 = libraries.all().map(|library| library.code().len() as u64).sum();
    t.line("used_memory_lua", machines);
    t.line("used_memory_vm_eval", machines);
    t.line("used_memory_lua_human", human(machines));
    t.line("used_memory_scripts_eval", texts);
    t.line("number_of_cached_scripts", cached);
    t.line("number_of_functions", function_count);
    t.line("number_of_libraries", library_count);
    t.line("used_memory_vm_functions", 0);
    t.line("used_memory_vm_total", machines);
    t.line("used_memory_vm_total_human", human(machines));
    t.line("used_memory_functions", code);
    t.line("used_memory_scripts", texts as u64 + code);
    t.line("used_memory_scripts_human", human(texts as u64 + code));
}
