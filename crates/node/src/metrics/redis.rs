//! The metrics that redis_exporter reports about a server, from the text of INFO as that program reads it, and from its
//! other requests.

use std::collections::{BTreeMap, BTreeSet};

use super::names;
use super::text::Text;
use crate::config::OutputLimit;
use crate::node::Node;
use crate::session::latencies;

/// Writes all of it. `info`: INFO everything.
pub(super) fn write(node: &Node, info: &str, loading: bool, t: &mut Text) {
    let fields = Fields::of(info);
    t.gauge("redis_up", &[], 1);
    simple(&fields, loading, t);
    instance(&fields, t);
    commands(&fields, t);
    latency_histograms(node, &fields, t);
    databases(&fields, t);
    replicas(&fields, t);
    for (field, value) in fields.section("Errorstats") {
        let code = field.trim_start_matches("errorstat_");
        t.counter("redis_errors_total", &[("err", code)], value.trim_start_matches("count="));
    }
    settings(node, t);
    events(node, t);
}

/// The fields of INFO by their sections.
struct Fields<'a> {
    sections: BTreeMap<&'a str, Vec<(&'a str, &'a str)>>,
}

impl<'a> Fields<'a> {
    fn of(info: &'a str) -> Self {
        let mut sections: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
        let mut section = "";
        for line in info.lines() {
            if let Some(title) = line.strip_prefix("# ") {
                section = title;
            } else if let Some(field) = line.split_once(':') {
                sections.entry(section).or_default().push(field);
            }
        }
        Self { sections }
    }

    fn section(&self, title: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.sections.get(title).into_iter().flatten().copied()
    }

    fn get(&self, title: &str, name: &str) -> &'a str {
        self.section(title).find(|(field, _)| *field == name).map_or("", |(_, value)| value)
    }
}

/// The value of a field that is a number or says that something went well.
fn number(value: &str) -> Option<&str> {
    match value {
        "ok" | "true" => Some("1"),
        "err" | "fail" | "false" => Some("0"),
        value => value.parse::<f64>().is_ok().then_some(value),
    }
}

fn simple(fields: &Fields<'_>, loading: bool, t: &mut Text) {
    // INFO may have one name in two sections.
    let mut told = BTreeSet::new();
    for (field, value) in fields.sections.values().flatten() {
        let Some(((metric, is_counter), value)) = names::metric(field).zip(number(value)) else { continue };
        if !told.insert(metric) {
            continue;
        }
        let name = format!("redis_{metric}");
        match is_counter {
            true => t.counter(&name, &[], value),
            // While the server replays its log, INFO cannot be asked for.
            false if metric == "loading_dump_file" => t.gauge(&name, &[], u8::from(loading)),
            false => t.gauge(&name, &[], value),
        }
    }
    t.gauge("redis_cluster_enabled", &[], fields.get("Cluster", "cluster_enabled"));
    t.gauge("redis_cluster_connections", &[], fields.get("Clients", "cluster_connections"));
}

fn instance(fields: &Fields<'_>, t: &mut Text) {
    let server = |name| fields.get("Server", name);
    let replication = |name| fields.get("Replication", name);
    let labels = [
        ("role", replication("role")),
        ("redis_version", server("redis_version")),
        ("redis_build_id", server("redis_build_id")),
        ("redis_mode", server("redis_mode")),
        ("os", server("os")),
        ("maxmemory_policy", fields.get("Memory", "maxmemory_policy")),
        ("tcp_port", server("tcp_port")),
        ("run_id", server("run_id")),
        ("process_id", server("process_id")),
        ("master_replid", replication("master_replid")),
        ("valkey_version", server("valkey_version")),
    ];
    let known = if server("valkey_version").is_empty() { labels.len() - 1 } else { labels.len() };
    t.gauge("redis_instance_info", &labels[..known], 1);
    let microseconds = |text: &str| text.parse().unwrap_or(0);
    let now: u64 = microseconds(server("server_time_usec")) / 1_000_000;
    t.gauge("redis_start_time_seconds", &[], now.saturating_sub(microseconds(server("uptime_in_seconds"))));
    t.gauge("redis_configured_hz", &[], server("configured_hz"));
    t.gauge("redis_hz", &[], server("hz"));
    // There is no fork.
    t.gauge("redis_latest_fork_seconds", &[], 0);
}

/// The value of `name=value` in a list of those.
fn part<'a>(list: &'a str, name: &str) -> &'a str {
    let mut parts = list.split(',').filter_map(|part| part.split_once('='));
    parts.find(|(found, _)| *found == name).map_or("0", |(_, value)| value)
}

fn commands(fields: &Fields<'_>, t: &mut Text) {
    let all: Vec<(&str, &str)> =
        fields.section("Commandstats").map(|(field, value)| (field.trim_start_matches("cmdstat_"), value)).collect();
    for (name, field) in [
        ("redis_commands_total", "calls"),
        ("redis_commands_rejected_calls_total", "rejected_calls"),
        ("redis_commands_failed_calls_total", "failed_calls"),
    ] {
        for (command, value) in &all {
            t.counter(name, &[("cmd", command)], part(value, field));
        }
    }
    for (command, value) in &all {
        let seconds = part(value, "usec").parse::<f64>().unwrap_or(0.0) / 1e6;
        t.counter("redis_commands_duration_seconds_total", &[("cmd", command)], seconds);
    }
    let stats: BTreeMap<&str, &str> = all.into_iter().collect();
    for (field, value) in fields.section("Latencystats") {
        let command = field.trim_start_matches("latency_percentiles_usec_");
        let Some(stats) = stats.get(command) else { continue };
        let quantiles: Vec<(&str, &str)> = value
            .split(',')
            .filter_map(|part| part.split_once('='))
            .map(|(name, value)| (name.trim_start_matches('p'), value))
            .collect();
        let sums = (part(stats, "calls"), part(stats, "usec"));
        t.summary("redis_latency_percentiles_usec", ("cmd", command), &quantiles, sums);
    }
}

fn latency_histograms(node: &Node, fields: &Fields<'_>, t: &mut Text) {
    let stats: BTreeMap<&str, &str> = fields.section("Commandstats").collect();
    // Hidden subcommands have the name of their command.
    for command in node.table.all().iter().filter(|command| !command.is_hidden()) {
        let Some(stats) = stats.get(format!("cmdstat_{}", command.name).as_str()) else { continue };
        let sum = latencies(node, command.id);
        let micros = part(stats, "usec").parse().unwrap_or(0.0);
        let (buckets, count) = (sum.cumulative_by_micros(), sum.count());
        t.histogram("redis_commands_latencies_usec", ("cmd", &command.name), buckets, (count, micros));
    }
}

fn databases(fields: &Fields<'_>, t: &mut Text) {
    let there: BTreeMap<&str, &str> = fields.section("Keyspace").collect();
    // As redis_exporter does, with the databases that have no keys.
    let names: Vec<String> = (0..16).map(|db| format!("db{db}")).collect();
    let all: BTreeSet<&str> = names.iter().map(String::as_str).chain(there.keys().copied()).collect();
    for (metric, field) in [("redis_db_keys", "keys"), ("redis_db_keys_expiring", "expires")] {
        for db in &all {
            t.gauge(metric, &[("db", db)], there.get(db).map_or("0", |counts| part(counts, field)));
        }
    }
    for (db, counts) in &there {
        let millis = part(counts, "avg_ttl").parse::<f64>().unwrap_or(0.0);
        t.gauge("redis_db_avg_ttl_seconds", &[("db", db)], millis / 1000.0);
    }
}

/// The standbys of this node's shard; or the owner that this node stands by for.
fn replicas(fields: &Fields<'_>, t: &mut Text) {
    let replication = |name| fields.get("Replication", name);
    let number = |field: &str| field.strip_prefix("slave").is_some_and(|rest| rest.parse::<u32>().is_ok());
    let standbys: Vec<&str> =
        fields.section("Replication").filter(|(field, _)| number(field)).map(|(_, value)| value).collect();
    for (name, figure) in
        [("redis_connected_slave_lag_seconds", "lag"), ("redis_connected_slave_offset_bytes", "offset")]
    {
        for standby in &standbys {
            let of = |name| part(standby, name);
            t.gauge(
                name,
                &[("slave_ip", of("ip")), ("slave_port", of("port")), ("slave_state", of("state"))],
                of(figure),
            );
        }
    }
    if replication("role") == "slave" {
        let (host, port) = (("master_host", replication("master_host")), ("master_port", replication("master_port")));
        t.gauge("redis_slave_info", &[host, port, ("read_only", replication("slave_read_only"))], 1);
        t.gauge("redis_master_link_up", &[host, port], u8::from(replication("master_link_status") == "up"));
        for name in ["master_last_io_seconds_ago", "slave_repl_offset"] {
            t.gauge(&format!("redis_{name}"), &[host, port], replication(name));
        }
    }
}

fn settings(node: &Node, t: &mut Text) {
    let settings = node.config.settings();
    t.gauge("redis_config_maxclients", &[], settings.maxclients);
    t.gauge("redis_config_maxmemory", &[], settings.maxmemory);
    // Redis's defaults: these settings do nothing here.
    t.gauge("redis_config_io_threads", &[], 1);
    t.gauge("redis_config_repl_backlog_size", &[], 1 << 20);
    let limits: [(&str, &OutputLimit); 3] = [
        ("normal", &settings.output_limit_normal),
        ("slave", &settings.output_limit_replica),
        ("pubsub", &settings.output_limit_pubsub),
    ];
    for (class, limit) in limits {
        let name = "redis_config_client_output_buffer_limit_bytes";
        t.gauge(name, &[("class", class), ("limit", "hard")], limit.hard);
        t.gauge(name, &[("class", class), ("limit", "soft")], limit.soft);
    }
    for (class, limit) in limits {
        let name = "redis_config_client_output_buffer_limit_overcome_seconds";
        t.gauge(name, &[("class", class), ("limit", "soft")], limit.seconds);
    }
}

/// SLOWLOG and LATENCY.
fn events(node: &Node, t: &mut Text) {
    let (length, last, micros) = {
        let entries = node.slow_log.entries();
        let first = entries.front();
        (entries.len(), first.map_or(0, |entry| entry.id), first.map_or(0, |entry| entry.micros))
    };
    t.gauge("redis_slowlog_length", &[], length);
    t.gauge("redis_slowlog_last_id", &[], last);
    t.gauge("redis_last_slow_execution_duration_seconds", &[], micros as f64 / 1e6);
    let spikes: Vec<_> =
        node.latencies.all().into_iter().filter_map(|(event, series)| Some((event, series.last()?))).collect();
    for (event, sample) in &spikes {
        t.gauge("redis_latency_spike_last", &[("event_name", event.name())], sample.time);
    }
    for (event, sample) in &spikes {
        let seconds = sample.millis as f64 / 1000.0;
        t.gauge("redis_latency_spike_duration_seconds", &[("event_name", event.name())], seconds);
    }
}
