//! The names of redis_exporter for fields of INFO: its dashboards and alerts find here what it would tell of this
//! server.

/// Gauges: the field of INFO, and the metric without `redis_`.
pub(super) const GAUGES: &[(&str, &str)] = &[
    ("active_defrag_hits", "defrag_hits"),
    ("active_defrag_key_hits", "defrag_key_hits"),
    ("active_defrag_key_misses", "defrag_key_misses"),
    ("active_defrag_misses", "defrag_misses"),
    ("active_defrag_running", "active_defrag_running"),
    ("allocator_active", "allocator_active_bytes"),
    ("allocator_allocated", "allocator_allocated_bytes"),
    ("allocator_frag_bytes", "allocator_frag_bytes"),
    ("allocator_frag_ratio", "allocator_frag_ratio"),
    ("allocator_muzzy", "allocator_muzzy_bytes"),
    ("allocator_resident", "allocator_resident_bytes"),
    ("allocator_rss_bytes", "allocator_rss_bytes"),
    ("allocator_rss_ratio", "allocator_rss_ratio"),
    ("aof_base_size", "aof_base_size_bytes"),
    ("aof_buffer_length", "aof_buffer_length"),
    ("aof_current_rewrite_time_sec", "aof_current_rewrite_duration_sec"),
    ("aof_current_size", "aof_current_size_bytes"),
    ("aof_delayed_fsync", "aof_delayed_fsync"),
    ("aof_enabled", "aof_enabled"),
    ("aof_last_bgrewrite_status", "aof_last_bgrewrite_status"),
    ("aof_last_cow_size", "aof_last_cow_size_bytes"),
    ("aof_last_rewrite_time_sec", "aof_last_rewrite_duration_sec"),
    ("aof_last_write_status", "aof_last_write_status"),
    ("aof_pending_bio_fsync", "aof_pending_bio_fsync"),
    ("aof_pending_rewrite", "aof_pending_rewrite"),
    ("aof_rewrite_in_progress", "aof_rewrite_in_progress"),
    ("aof_rewrite_scheduled", "aof_rewrite_scheduled"),
    ("async_loading", "async_loading"),
    ("blocked_clients", "blocked_clients"),
    ("client_recent_max_input_buffer", "client_recent_max_input_buffer_bytes"),
    ("client_recent_max_output_buffer", "client_recent_max_output_buffer_bytes"),
    ("clients_in_timeout_table", "clients_in_timeout_table"),
    ("connected_clients", "connected_clients"),
    ("connected_slaves", "connected_slaves"),
    ("current_eviction_exceeded_time", "current_eviction_exceeded_time_ms"),
    ("expired_stale_perc", "expired_stale_percentage"),
    ("instantaneous_eventloop_cycles_per_sec", "instantaneous_eventloop_cycles_per_sec"),
    ("instantaneous_eventloop_duration_usec", "instantaneous_eventloop_duration_usec"),
    ("io_threads_active", "io_threads_active"),
    ("lazyfree_pending_objects", "lazyfree_pending_objects"),
    ("lazyfreed_objects", "lazyfreed_objects"),
    ("loading", "loading_dump_file"),
    ("master_repl_offset", "master_repl_offset"),
    ("maxclients", "max_clients"),
    ("maxmemory", "memory_max_bytes"),
    ("mem_aof_buffer", "mem_aof_buffer_bytes"),
    ("mem_clients_normal", "mem_clients_normal"),
    ("mem_clients_slaves", "mem_clients_slaves"),
    ("mem_cluster_links", "mem_cluster_links_bytes"),
    ("mem_fragmentation_bytes", "mem_fragmentation_bytes"),
    ("mem_fragmentation_ratio", "mem_fragmentation_ratio"),
    ("mem_not_counted_for_evict", "mem_not_counted_for_eviction_bytes"),
    ("mem_overhead_db_hashtable_rehashing", "mem_overhead_db_hashtable_rehashing_bytes"),
    ("mem_replication_backlog", "mem_replication_backlog_bytes"),
    ("mem_total_replication_buffers", "mem_total_replication_buffers_bytes"),
    ("migrate_cached_sockets", "migrate_cached_sockets_total"),
    ("module_fork_in_progress", "module_fork_in_progress"),
    ("module_fork_last_cow_size", "module_fork_last_cow_size"),
    ("number_of_cached_scripts", "number_of_cached_scripts"),
    ("number_of_functions", "number_of_functions"),
    ("number_of_libraries", "number_of_libraries"),
    ("process_id", "process_id"),
    ("pubsub_channels", "pubsub_channels"),
    ("pubsub_clients", "pubsub_clients"),
    ("pubsub_patterns", "pubsub_patterns"),
    ("pubsubshard_channels", "pubsubshard_channels"),
    ("rdb_bgsave_in_progress", "rdb_bgsave_in_progress"),
    ("rdb_changes_since_last_save", "rdb_changes_since_last_save"),
    ("rdb_current_bgsave_time_sec", "rdb_current_bgsave_duration_sec"),
    ("rdb_last_bgsave_status", "rdb_last_bgsave_status"),
    ("rdb_last_bgsave_time_sec", "rdb_last_bgsave_duration_sec"),
    ("rdb_last_cow_size", "rdb_last_cow_size_bytes"),
    ("rdb_last_load_keys_expired", "rdb_last_load_expired_keys"),
    ("rdb_last_load_keys_loaded", "rdb_last_load_loaded_keys"),
    ("rdb_last_save_time", "rdb_last_save_timestamp_seconds"),
    ("rdb_saves", "rdb_saves_total"),
    ("repl_backlog_active", "repl_backlog_is_active"),
    ("repl_backlog_first_byte_offset", "repl_backlog_first_byte_offset"),
    ("repl_backlog_histlen", "repl_backlog_history_bytes"),
    ("repl_backlog_size", "replication_backlog_bytes"),
    ("second_repl_offset", "second_repl_offset"),
    ("slave_expires_tracked_keys", "slave_expires_tracked_keys"),
    ("sync_full", "replica_resyncs_full"),
    ("sync_partial_err", "replica_partial_resync_denied"),
    ("sync_partial_ok", "replica_partial_resync_accepted"),
    ("total_blocking_keys", "total_blocking_keys"),
    ("total_blocking_keys_on_nokey", "total_blocking_keys_on_nokey"),
    ("total_watched_keys", "total_watched_keys"),
    ("tracking_clients", "tracking_clients"),
    ("tracking_total_items", "tracking_total_items"),
    ("tracking_total_keys", "tracking_total_keys"),
    ("tracking_total_prefixes", "tracking_total_prefixes"),
    ("uptime_in_seconds", "uptime_in_seconds"),
    ("used_memory", "memory_used_bytes"),
    ("used_memory_dataset", "memory_used_dataset_bytes"),
    ("used_memory_functions", "memory_used_functions_bytes"),
    ("used_memory_lua", "memory_used_lua_bytes"),
    ("used_memory_overhead", "memory_used_overhead_bytes"),
    ("used_memory_peak", "memory_used_peak_bytes"),
    ("used_memory_rss", "memory_used_rss_bytes"),
    ("used_memory_scripts", "memory_used_scripts_bytes"),
    ("used_memory_scripts_eval", "memory_used_scripts_eval_bytes"),
    ("used_memory_startup", "memory_used_startup_bytes"),
    ("used_memory_vm_eval", "memory_used_vm_eval_bytes"),
    ("used_memory_vm_functions", "memory_used_vm_functions_bytes"),
    ("used_memory_vm_total", "memory_used_vm_total"),
    ("watching_clients", "watching_clients"),
];

/// Counters, in the same way.
pub(super) const COUNTERS: &[(&str, &str)] = &[
    ("acl_access_denied_auth", "acl_access_denied_auth_total"),
    ("acl_access_denied_channel", "acl_access_denied_channel_total"),
    ("acl_access_denied_cmd", "acl_access_denied_cmd_total"),
    ("acl_access_denied_key", "acl_access_denied_key_total"),
    ("client_output_buffer_limit_disconnections", "client_output_buffer_limit_disconnections_total"),
    ("client_query_buffer_limit_disconnections", "client_query_buffer_limit_disconnections_total"),
    ("dump_payload_sanitizations", "dump_payload_sanitizations"),
    ("eventloop_cycles", "eventloop_cycles_total"),
    ("eventloop_duration_cmd_sum", "eventloop_duration_cmd_sum_usec_total"),
    ("eventloop_duration_sum", "eventloop_duration_sum_usec_total"),
    ("evicted_clients", "evicted_clients_total"),
    ("evicted_keys", "evicted_keys_total"),
    ("evicted_scripts", "evicted_scripts_total"),
    ("expire_cycle_cpu_milliseconds", "expire_cycle_cpu_time_ms_total"),
    ("expired_keys", "expired_keys_total"),
    ("expired_subkeys", "expired_subkeys_total"),
    ("expired_time_cap_reached_count", "expired_time_cap_reached_total"),
    ("io_threaded_reads_processed", "io_threaded_reads_processed"),
    ("io_threaded_writes_processed", "io_threaded_writes_processed"),
    ("keyspace_hits", "keyspace_hits_total"),
    ("keyspace_misses", "keyspace_misses_total"),
    ("rejected_connections", "rejected_connections_total"),
    ("reply_buffer_expands", "reply_buffer_expands_total"),
    ("reply_buffer_shrinks", "reply_buffer_shrinks_total"),
    ("total_commands_processed", "commands_processed_total"),
    ("total_connections_received", "connections_received_total"),
    ("total_error_replies", "total_error_replies"),
    ("total_eviction_exceeded_time", "eviction_exceeded_time_ms_total"),
    ("total_net_input_bytes", "net_input_bytes_total"),
    ("total_net_output_bytes", "net_output_bytes_total"),
    ("total_net_repl_input_bytes", "net_repl_input_bytes_total"),
    ("total_net_repl_output_bytes", "net_repl_output_bytes_total"),
    ("total_reads_processed", "total_reads_processed"),
    ("total_writes_processed", "total_writes_processed"),
    ("unexpected_error_replies", "unexpected_error_replies"),
    ("used_cpu_sys", "cpu_sys_seconds_total"),
    ("used_cpu_sys_children", "cpu_sys_children_seconds_total"),
    ("used_cpu_sys_main_thread", "cpu_sys_main_thread_seconds_total"),
    ("used_cpu_user", "cpu_user_seconds_total"),
    ("used_cpu_user_children", "cpu_user_children_seconds_total"),
    ("used_cpu_user_main_thread", "cpu_user_main_thread_seconds_total"),
];

/// The metric of a field of INFO, and whether it is a counter.
pub(super) fn metric(field: &str) -> Option<(&'static str, bool)> {
    let find = |names: &[(&str, &'static str)]| {
        names.binary_search_by_key(&field, |(name, _)| *name).ok().map(|at| names[at].1)
    };
    find(GAUGES).map(|name| (name, false)).or_else(|| find(COUNTERS).map(|name| (name, true)))
}

/// The field of INFO behind a metric.
pub(super) fn field(metric: &str) -> Option<&'static str> {
    GAUGES.iter().chain(COUNTERS).find(|(_, name)| *name == metric).map(|(field, _)| *field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_be_searched() {
        assert!(GAUGES.is_sorted_by_key(|(name, _)| *name) && COUNTERS.is_sorted_by_key(|(name, _)| *name));
        assert_eq!(metric("used_memory"), Some(("memory_used_bytes", false)));
        assert_eq!(metric("total_commands_processed"), Some(("commands_processed_total", true)));
        assert_eq!(metric("redis_version"), None);
    }
}
