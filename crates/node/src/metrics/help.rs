//! The HELP line of each family of metrics.

use super::names;

/// Of our own metrics, without `holdfast_`.
const OWN: &[(&str, &str)] = &[
    ("active_workers", "Workers that have connections; the others stand by."),
    ("build_info", "Always 1; version and driver as labels."),
    ("checkpoint_current_slots", "Slots that the checkpoint under way has written."),
    ("checkpoint_failed", "Whether the last checkpoint failed."),
    ("checkpoint_holds_total", "Latches that checkpoints held."),
    ("checkpoint_last_bytes", "Bytes that the last checkpoint wrote."),
    ("checkpoint_last_changes", "Keys that the last checkpoint wrote."),
    ("checkpoint_last_duration_seconds", "Time of the last checkpoint."),
    ("checkpoint_last_slots", "Slots that the last checkpoint wrote."),
    ("checkpoint_last_timestamp_seconds", "Unix time of the last checkpoint."),
    ("checkpoint_long_holds_total", "Latches that checkpoints held for long."),
    ("checkpoint_longest_hold_seconds", "Longest time that a checkpoint held a latch."),
    ("checkpoint_running", "Whether a checkpoint is under way."),
    ("checkpoint_running_seconds", "Time since the checkpoint under way began."),
    ("checkpoints_total", "Checkpoints since the start."),
    ("claims_without_owner", "Attempts that are over and still have claims; there should be none."),
    ("clients_waiting_for_room", "Clients that wait until data has left memory."),
    ("cluster_failed_nodes", "Other nodes that hold no lease."),
    ("cluster_level", "Level of the cluster: what all of its nodes understand."),
    ("cluster_map_version", "Version of the map of slots that this node has."),
    (
        "commands_refused_in_doubt_total",
        "Commands refused because a transaction that waits for another node has their keys.",
    ),
    ("copy_lag_bytes", "Bytes of the log that the copy of another node's data has not applied."),
    ("copy_lag_seconds", "Time by which that copy is behind its log."),
    ("copy_readable", "Whether that copy is as of one moment of its log."),
    ("copy_staleness_seconds", "Age of what is known of the end of that log, and applied."),
    ("held_bytes", "Bytes of commands that wait for nodes that do not answer."),
    ("keys_fetched_from_store_total", "Keys that came back into memory from the store."),
    ("keys_in_store_only", "Keys that are in the store and not in memory."),
    ("keys_moved_to_store_total", "Keys that left memory for the store."),
    ("lease", "Whether this node has a lease, so that it may serve its slots."),
    ("lease_seconds_left", "Time until the lease of this node ends."),
    ("links", "Open links to other nodes, of which this node is the origin."),
    ("lock_waits_total", "Commands that waited for a key that another command had."),
    ("log_backlog_bytes", "Bytes of a stream that are not written to the disk yet."),
    ("log_backlog_limit_bytes", "Backlog from which on clients wait."),
    ("log_copies", "Copies of the log that the node writes, its own log among them."),
    ("log_copies_answering", "Copies that count and take blocks."),
    ("log_copies_counting", "Copies of which a majority has to have a write."),
    ("log_copy_counts", "Whether a copy counts for a majority; one that is brought up does not yet."),
    ("log_copy_lag_blocks", "Blocks of the log that a copy has not on the disk."),
    ("log_copy_lag_bytes", "Bytes of the log that a copy has not on the disk, roughly."),
    ("log_copy_up", "Whether a copy takes blocks."),
    ("log_copy_window_blocks", "Blocks that are under way to a copy."),
    ("log_groups_total", "Groups of records that one sync served."),
    ("log_last_sync_seconds", "Time of the last sync of a stream."),
    ("log_records_total", "Records written to a stream."),
    ("log_size_bytes", "Size of a stream on the disk."),
    ("log_sync_running_seconds", "Time since the sync under way began; it grows while a disk hangs."),
    ("log_sync_seconds", "Time of syncs of a stream."),
    ("log_tail_bytes", "Bytes of the log that a start would replay."),
    ("log_tail_limit_bytes", "Tail of the log from which on a checkpoint begins."),
    ("log_tail_waits_total", "Times that a client waited because the tail grew too fast."),
    ("log_takes_writes", "Whether the log takes writes; 0 means that clients get -MISCONF."),
    ("log_term", "The term in which the node writes its log."),
    ("log_uncommitted_bytes", "Bytes of the log that no majority of its copies has."),
    ("log_waiting_clients", "Clients that wait for the log."),
    ("log_written_bytes_total", "Bytes written to a stream."),
    ("memory_limit_bytes", "Limit of memory for data; 0 for none."),
    ("memory_usable_bytes", "Memory that the system lets the process have; 0 if it sets no limit."),
    ("ready", "Whether /readyz answers 200."),
    ("slots", "Slots of this node."),
    ("standby_lag_bytes", "Bytes of the log that a standby has not applied."),
    ("standby_lag_seconds", "Time by which a standby is behind the log."),
    ("standby_up", "Whether a standby of this node's shard holds a lease."),
    ("standbys", "Standbys of this node's shard."),
    ("standbys_electable", "Standbys that may take this node's shard over."),
    ("store_cache_bytes", "Memory of the store for blocks that it has read."),
    ("store_cache_hits_total", "Reads of the store that its cache answered."),
    ("store_cache_misses_total", "Reads of the store that went to the disk."),
    ("store_compacted_bytes_total", "Bytes that the store wrote to join its tables."),
    ("store_entries", "Entries of the store, estimated."),
    ("store_flushed_bytes_total", "Bytes that the store wrote from memory."),
    ("store_flushes_total", "Times that the store wrote from memory."),
    ("store_indexes_bytes", "Memory of the store for indexes and filters."),
    ("store_read_bytes_total", "Bytes that the store read from the disk."),
    ("store_runs", "Sorted runs of the store."),
    ("store_size_bytes", "Size of the store on the disk."),
    ("store_spilled_bytes_total", "Bytes that the store wrote besides its tables."),
    ("store_tables", "Tables of the store."),
    ("store_taken_bytes_total", "Bytes that checkpoints gave to the store."),
    ("store_unflushed_bytes", "Memory of the store that is not on the disk yet."),
    ("tombstones", "Deleted keys that the store does not know of yet."),
    ("transaction_attempts_total", "Attempts of transactions over nodes."),
    ("transactions_in_doubt", "Transactions of other nodes that wait for a node that does not answer."),
    ("transactions_over_nodes_total", "Transactions over nodes that clients of this node began and that are over."),
    ("waits_over_a_minute", "Commands that wait for longer than a minute."),
    ("waits_over_a_minute_total", "Commands that waited for longer than a minute."),
    ("warm_up_keys", "Keys that the start has read into memory."),
    ("warm_up_ratio", "Part of the warm-up that is done."),
    ("worker_busy_seconds_total", "Time in which a worker executed commands or did housekeeping."),
    ("worker_clients", "Connections of a worker."),
    ("worker_commands_total", "Commands that a worker executed."),
    ("worker_parked_total", "Connections of a worker that waited for a latch."),
    (
        "worker_script_reruns_total",
        "Scripts that ran again because another command had a key that they had not declared.",
    ),
    ("worker_turns_total", "Turns of a worker's loop that did something."),
    ("workers", "Workers."),
];

/// Of the metrics of redis_exporter that are no field of INFO, without `redis_`.
const REDIS: &[(&str, &str)] = &[
    ("cluster_connections", "Connections of other nodes; always 0, as there are links instead."),
    ("cluster_current_epoch", "Epoch of the cluster, of CLUSTER INFO."),
    ("cluster_enabled", "Whether the server is a node of a cluster."),
    ("cluster_known_nodes", "Nodes of the cluster."),
    ("cluster_lease", "Whether this node has a lease."),
    ("cluster_level", "Level of the cluster."),
    ("cluster_map_version", "Version of the map of slots."),
    ("cluster_messages_received_total", "Always 0: nodes have links, and no bus of Redis."),
    ("cluster_messages_sent_total", "Always 0: nodes have links, and no bus of Redis."),
    ("cluster_my_epoch", "Epoch of this node."),
    ("cluster_size", "Nodes that own slots."),
    ("cluster_slots_assigned", "Slots that have an owner."),
    ("cluster_slots_fail", "Slots whose owners hold no lease."),
    ("cluster_slots_ok", "Slots whose owners hold a lease."),
    ("cluster_slots_pfail", "Always 0: a node holds a lease or does not."),
    ("cluster_state", "Whether the whole cluster can be reached."),
    ("commands_duration_seconds_total", "Time of a command's calls."),
    ("commands_failed_calls_total", "Calls of a command that ended with an error."),
    ("commands_latencies_usec", "Microseconds of a command's calls."),
    ("commands_rejected_calls_total", "Calls of a command that were refused before it ran."),
    ("commands_total", "Calls of a command."),
    ("config_client_output_buffer_limit_bytes", "Bytes of output at which a client is closed."),
    (
        "config_client_output_buffer_limit_overcome_seconds",
        "Seconds above the soft limit after which a client is closed.",
    ),
    ("config_io_threads", "Setting io-threads, which changes nothing."),
    ("config_maxclients", "Setting maxclients."),
    ("config_maxmemory", "Setting maxmemory."),
    ("config_repl_backlog_size", "Setting repl-backlog-size, which changes nothing."),
    ("configured_hz", "Setting hz."),
    ("connected_slave_lag_seconds", "Time since a standby said how far it is."),
    ("connected_slave_offset_bytes", "Offset of a standby: its place in the log, no number of bytes."),
    ("db_avg_ttl_seconds", "Mean time to live of a database's keys; 0: it is not kept."),
    ("db_keys", "Keys of a database."),
    ("db_keys_expiring", "Keys of a database with a time to live."),
    ("errors_total", "Error replies by their code."),
    ("hz", "Rounds of housekeeping in a second."),
    ("instance_info", "Always 1; what the server is, as labels."),
    ("last_slow_execution_duration_seconds", "Time of the newest command in the slow log."),
    ("latency_percentiles_usec", "Microseconds of a command's calls."),
    ("latency_spike_duration_seconds", "Time of an event that LATENCY LATEST shows."),
    ("latency_spike_last", "Unix time of an event that LATENCY LATEST shows."),
    ("latest_fork_seconds", "Always 0: the server does not fork."),
    ("master_last_io_seconds_ago", "Time since the owner was heard whose data this node has a copy of."),
    ("master_link_up", "Whether that owner was heard lately."),
    ("slave_info", "Always 1; the owner whose data this node has a copy of, as labels."),
    ("slave_repl_offset", "Offset of this node's copy: its place in the log, no number of bytes."),
    ("slowlog_last_id", "Number of the newest command in the slow log."),
    ("slowlog_length", "Commands in the slow log."),
    ("start_time_seconds", "Unix time of the start."),
    ("up", "Always 1: the server answers."),
];

/// The text for a metric. It has no backslash and no end of a line, which would have to be escaped.
pub(super) fn of(metric: &str) -> String {
    let find = |texts: &[(&str, &'static str)], name: &str| {
        texts.binary_search_by_key(&name, |(name, _)| *name).ok().map(|at| texts[at].1)
    };
    if let Some(name) = metric.strip_prefix("holdfast_") {
        return find(OWN, name).unwrap_or_default().to_owned();
    }
    let name = metric.strip_prefix("redis_").unwrap_or(metric);
    match (find(REDIS, name), names::field(name)) {
        (Some(text), _) => text.to_owned(),
        (None, Some(field)) => format!("The field {field} of INFO."),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_can_be_searched_and_written() {
        for texts in [OWN, REDIS] {
            assert!(texts.is_sorted_by_key(|(name, _)| *name));
            let one_line = |text: &str| text.ends_with('.') && !text.contains(['\\', '\n']);
            texts.iter().for_each(|(name, text)| assert!(one_line(text), "{name}: {text}"));
        }
        assert_eq!(of("holdfast_slots"), "Slots of this node.");
        assert_eq!(of("redis_connected_clients"), "The field connected_clients of INFO.");
        assert_eq!(of("redis_nothing"), "");
    }
}
