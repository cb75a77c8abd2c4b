//! The settings as the data plane reads them: plain typed fields, no names, no text.

use command::{Dialect, Tunables};
use object::Limits;

use super::choices::{
    Allowed, AppendFsync, AuthClients, BusyScope, ClientMemory, EvictionPolicy, IoDriver, Isolation, LogLevel,
    OomScore, OutputLimit, Redirect, SlotStats, Supervised,
};
use super::kind::Value;
use super::login::Password;
use super::slot_stats;
use super::special::parse_events;
use super::table;
use super::values::Values;

/// A snapshot of all settings that code reads. Names are Redis's with underscores; the rows describe them.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "every field is the setting of its name; its row explains it")]
pub struct Settings {
    pub bind: Vec<String>,
    pub port: u16,
    /// 0 for one per processor core.
    pub workers: usize,
    pub io_driver: IoDriver,
    /// The server is a node of a cluster.
    pub cluster_enabled: bool,
    /// The addresses of other nodes; see [`seeds`].
    pub cluster_seeds: Vec<u8>,
    /// Nodes speak TLS with each other.
    pub tls_cluster: bool,
    /// 0 for none.
    pub tls_port: u16,
    pub tls_cert_file: Option<Vec<u8>>,
    pub tls_key_file: Option<Vec<u8>>,
    pub tls_key_file_pass: Option<Vec<u8>>,
    pub tls_ca_cert_file: Option<Vec<u8>>,
    pub tls_ca_cert_dir: Option<Vec<u8>>,
    pub tls_auth_clients: AuthClients,
    /// The certificate names the user.
    pub tls_auth_clients_user: bool,
    pub tls_protocols: Vec<u8>,
    pub tls_ciphers: Vec<u8>,
    pub tls_ciphersuites: Vec<u8>,
    pub tls_prefer_server_ciphers: bool,
    pub tls_session_caching: bool,
    /// Sessions.
    pub tls_session_cache_size: usize,
    /// Seconds.
    pub tls_session_cache_timeout: u64,
    /// Steps of handshakes that a worker takes in one turn.
    pub max_new_tls_connections_per_cycle: usize,
    /// The proof that a node belongs to the cluster.
    pub cluster_secret: Option<Vec<u8>>,
    /// Port for other nodes; 0: that for clients and 10000.
    pub cluster_port: u16,
    /// Port for smart clients; 0: none, negative: see [`Settings::port_for_smart_clients`].
    pub cluster_client_port: i32,
    /// The port that they are told, if it differs; 0: the same.
    pub cluster_announce_client_port: u16,
    /// The address that others are told for this node.
    pub cluster_announce_ip: Option<Vec<u8>>,
    /// `cluster-host`; none: a name that is made from the kernel's boot.
    pub cluster_host: Option<Vec<u8>>,
    /// Copies of each shard's data, the owner's included: at least 1. Above 1 the cluster places them by itself.
    pub cluster_copies: u16,
    /// Shards of a cluster that forms; 0: see [`Settings::shards_of_new_cluster`].
    pub cluster_shards: u16,
    /// The answer to a client for a key of another node.
    pub cluster_redirect: Redirect,
    /// `cluster-slot-stats-enabled`
    pub cluster_slot_stats_enabled: SlotStats,
    /// 0 for none.
    pub metrics_port: u16,
    pub metrics_bind: Vec<u8>,
    pub sentinel_port: u16,
    pub sentinel_master_name: Vec<u8>,
    /// Connections that the system keeps until a worker takes them.
    pub tcp_backlog: i32,
    /// Seconds; 0 for never.
    pub tcp_keepalive: u32,
    /// Seconds; 0 for never.
    pub timeout: u64,
    pub unixsocket: Option<Vec<u8>>,
    /// File mode; 0 leaves it to the umask.
    pub unixsocketperm: u32,
    pub protected_mode: bool,
    /// Connections in one turn of a worker; without effect.
    pub max_new_connections_per_cycle: u32,

    pub databases: u16,
    pub dir: Vec<u8>,
    pub pidfile: Option<Vec<u8>>,
    /// Empty for standard output.
    pub logfile: Vec<u8>,
    pub loglevel: LogLevel,
    /// `supervised`
    pub supervised: Supervised,
    pub crash_log_enabled: bool,
    pub oom_score_adj: OomScore,
    /// Of a master, a replica, a child process.
    pub oom_score_adj_values: [i64; 3],
    pub set_proc_title: bool,
    /// `disable-thp`.
    pub disable_thp: bool,
    pub proc_title_template: Vec<u8>,
    /// 1 to 500.
    pub hz: u32,
    /// Milliseconds.
    pub busy_reply_threshold: u64,
    /// Milliseconds; 0: no limit.
    pub cluster_lock_timeout: u64,
    /// Milliseconds.
    pub replica_max_staleness: u64,
    /// Milliseconds.
    pub cluster_takeover_wait: u64,
    /// Milliseconds.
    pub cluster_lease: u64,
    pub lua_enable_deprecated_api: bool,
    /// The server whose answers hold where Redis and Valkey differ.
    pub compatibility: Dialect,
    /// The clients that get it then.
    pub busy_reply_scope: BusyScope,
    /// The isolation of transactions that do not name one.
    pub transaction_isolation: Isolation,
    /// Seconds; 0 for never.
    pub transaction_idle_timeout: u64,

    pub requirepass: Option<Password>,
    /// File of users, or empty.
    pub aclfile: Vec<u8>,
    /// A new user may use all channels (`acl-pubsub-default`).
    pub acl_pubsub_default: bool,
    /// Entries (`acllog-max-len`).
    pub acllog_max_len: usize,
    pub enable_debug_command: Allowed,
    pub enable_protected_configs: Allowed,

    pub maxclients: u32,
    pub output_limit_normal: OutputLimit,
    pub output_limit_replica: OutputLimit,
    pub output_limit_pubsub: OutputLimit,
    /// Bytes.
    pub client_query_buffer_limit: u64,
    /// Bytes.
    pub proto_max_bulk_len: u64,
    pub maxmemory_clients: ClientMemory,
    /// Keys; 0 for no limit.
    pub tracking_table_max_keys: u64,

    /// Bytes; 0 for no limit.
    pub maxmemory: u64,
    pub maxmemory_policy: EvictionPolicy,
    /// Keys.
    pub maxmemory_samples: u32,
    /// Steps of 50 microseconds.
    pub maxmemory_eviction_tenacity: u32,
    pub lfu_log_factor: u32,
    /// Minutes.
    pub lfu_decay_time: u32,
    /// 1 to 10.
    pub active_expire_effort: u32,
    pub activedefrag: bool,
    pub active_defrag_ignore_bytes: u64,
    /// Percent.
    pub active_defrag_threshold_lower: u64,
    /// Percent.
    pub active_defrag_threshold_upper: u64,
    /// Percent.
    pub active_defrag_cycle_min: u64,
    /// Percent.
    pub active_defrag_cycle_max: u64,

    /// Settings that handlers depend on.
    pub tunables: Tunables,

    pub appendonly: bool,
    pub appendfsync: AppendFsync,
    /// One stream each.
    pub log_dirs: Vec<Vec<u8>>,
    /// Bytes.
    pub log_segment_size: u32,
    /// Bytes.
    pub log_backlog: u64,
    /// Seconds.
    pub log_stall_timeout: u64,
    /// Bytes; 0: any number.
    pub standby_lag_max: u64,
    /// Milliseconds; 0: any number.
    pub standby_lag_max_ms: u64,
    /// How slow the disks of the log are made, for experiments; none: as they are.
    pub log_pace: Option<redolog::Pace>,
    /// Directory of the embedded store.
    pub store_dir: Vec<u8>,
    /// Bytes.
    pub checkpoint_log_size: u64,
    /// Bytes, 64 for each record included; 0: any number.
    pub checkpoint_log_max: u64,
    /// Seconds.
    pub checkpoint_interval: u32,
    /// Percent.
    pub checkpoint_cpu: u8,
    /// Percent of a core.
    pub warm_up_cpu: u8,
    /// Pairs of seconds and changes.
    pub save: Vec<(u64, u64)>,
    /// See the setting.
    pub stop_writes_on_bgsave_error: bool,
    /// See the setting.
    pub rdbcompression: bool,
    /// See the setting.
    pub rdbchecksum: bool,
    /// See the setting.
    pub rdb_save_incremental_fsync: bool,
    /// Microseconds for each key; negative: one microsecond for so many keys.
    pub rdb_key_save_delay: i64,
    /// Microseconds for each key; negative: one microsecond for so many keys.
    pub key_load_delay: i64,
    /// Name of the snapshot file, in `dir`.
    pub dbfilename: Vec<u8>,

    /// Microseconds; 0 for all commands, negative for none.
    pub slowlog_log_slower_than: i64,
    /// Entries.
    pub slowlog_max_len: u64,
    /// Arguments.
    pub slowlog_entry_max_argc: usize,
    /// Bytes of an argument.
    pub slowlog_entry_max_string_len: usize,
    /// Milliseconds; 0 for off.
    pub latency_monitor_threshold: u64,
    pub latency_tracking: bool,
    /// 0 to 100 each.
    pub latency_tracking_info_percentiles: Vec<f64>,
    /// Of [`command::class`].
    pub notify_keyspace_events: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings::of(&Values::default())
    }
}

impl Settings {
    /// The login. Without a password there may be the hash of one.
    pub(super) fn know(&mut self, hash: Option<[u8; 32]>) {
        self.requirepass = self.requirepass.take().or(hash.map(Password::Hash));
    }

    /// The typed form of the values.
    pub fn of(values: &Values) -> Settings {
        let read = Read(values);
        let [normal, replica, pubsub] = read.output_limits();
        Settings {
            bind: read.words("bind").iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect(),
            port: read.number("port"),
            workers: read.number("workers"),
            cluster_enabled: read.bool("cluster-enabled"),
            cluster_slot_stats_enabled: read.slot_stats(),
            cluster_seeds: read.text("cluster-seeds"),
            tls_cluster: read.bool("tls-cluster"),
            tls_port: read.number("tls-port"),
            tls_cert_file: read.optional("tls-cert-file"),
            tls_key_file: read.optional("tls-key-file"),
            tls_key_file_pass: read.optional("tls-key-file-pass"),
            tls_ca_cert_file: read.optional("tls-ca-cert-file"),
            tls_ca_cert_dir: read.optional("tls-ca-cert-dir"),
            tls_auth_clients: match read.choice("tls-auth-clients") {
                "no" => AuthClients::No,
                "optional" => AuthClients::Optional,
                _ => AuthClients::Yes,
            },
            tls_auth_clients_user: read.choice("tls-auth-clients-user") == "cn",
            tls_protocols: read.text("tls-protocols"),
            tls_ciphers: read.text("tls-ciphers"),
            tls_ciphersuites: read.text("tls-ciphersuites"),
            tls_prefer_server_ciphers: read.bool("tls-prefer-server-ciphers"),
            tls_session_caching: read.bool("tls-session-caching"),
            tls_session_cache_size: read.number("tls-session-cache-size"),
            tls_session_cache_timeout: read.number("tls-session-cache-timeout"),
            max_new_tls_connections_per_cycle: read.number("max-new-tls-connections-per-cycle"),
            cluster_secret: read.optional("cluster-secret"),
            cluster_port: read.number("cluster-port"),
            cluster_client_port: read.number("cluster-client-port"),
            cluster_announce_client_port: read.number("cluster-announce-client-port"),
            cluster_announce_ip: read.optional("cluster-announce-ip"),
            cluster_host: read.optional("cluster-host"),
            cluster_copies: read.number("cluster-copies"),
            cluster_shards: read.number("cluster-shards"),
            cluster_redirect: match read.choice("cluster-redirect") {
                "moved" => Redirect::Moved,
                _ => Redirect::Forward,
            },
            io_driver: match read.choice("io-driver") {
                "epoll" => IoDriver::Epoll,
                "io_uring" => IoDriver::IoUring,
                _ => IoDriver::Auto,
            },
            metrics_port: read.number("metrics-port"),
            metrics_bind: read.text("metrics-bind"),
            sentinel_port: read.number("sentinel-port"),
            sentinel_master_name: read.text("sentinel-master-name"),
            tcp_backlog: read.number("tcp-backlog"),
            tcp_keepalive: read.number("tcp-keepalive"),
            timeout: read.number("timeout"),
            unixsocket: read.optional("unixsocket"),
            unixsocketperm: read.number("unixsocketperm"),
            protected_mode: read.bool("protected-mode"),
            max_new_connections_per_cycle: read.number("max-new-connections-per-cycle"),

            databases: read.number("databases"),
            dir: read.text("dir"),
            pidfile: read.optional("pidfile"),
            logfile: read.text("logfile"),
            loglevel: match read.choice("loglevel") {
                "debug" => LogLevel::Debug,
                "verbose" => LogLevel::Verbose,
                "warning" => LogLevel::Warning,
                "nothing" => LogLevel::Nothing,
                _ => LogLevel::Notice,
            },
            supervised: match read.choice("supervised") {
                "systemd" => Supervised::Systemd,
                "auto" => Supervised::Auto,
                _ => Supervised::No,
            },
            crash_log_enabled: read.bool("crash-log-enabled"),
            oom_score_adj: match read.choice("oom-score-adj") {
                "yes" | "relative" => OomScore::Relative,
                "absolute" => OomScore::Absolute,
                _ => OomScore::Leave,
            },
            oom_score_adj_values: read.scores(),
            set_proc_title: read.bool("set-proc-title"),
            disable_thp: read.bool("disable-thp"),
            proc_title_template: read.text("proc-title-template"),
            hz: read.number("hz"),
            busy_reply_threshold: read.number("busy-reply-threshold"),
            cluster_lock_timeout: read.number("cluster-lock-timeout"),
            replica_max_staleness: read.number("replica-max-staleness"),
            cluster_takeover_wait: read.number("cluster-takeover-wait"),
            cluster_lease: read.number("cluster-lease"),
            lua_enable_deprecated_api: read.bool("lua-enable-deprecated-api"),
            compatibility: read.dialect(),
            busy_reply_scope: match read.choice("busy-reply-scope") {
                "all" => BusyScope::All,
                _ => BusyScope::Waiting,
            },
            transaction_isolation: match read.choice("transaction-isolation") {
                "repeatable-read" => Isolation::RepeatableRead,
                "read-committed" => Isolation::ReadCommitted,
                _ => Isolation::StrictSerializable,
            },
            transaction_idle_timeout: read.number("transaction-idle-timeout"),

            requirepass: read.optional("requirepass").map(Password::Plain),
            aclfile: read.text("aclfile"),
            acl_pubsub_default: read.choice("acl-pubsub-default") == "allchannels",
            acllog_max_len: read.number("acllog-max-len"),
            enable_debug_command: read.allowed("enable-debug-command"),
            enable_protected_configs: read.allowed("enable-protected-configs"),

            maxclients: read.number("maxclients"),
            output_limit_normal: normal,
            output_limit_replica: replica,
            output_limit_pubsub: pubsub,
            client_query_buffer_limit: read.number("client-query-buffer-limit"),
            proto_max_bulk_len: read.number("proto-max-bulk-len"),
            maxmemory_clients: match read.value("maxmemory-clients") {
                Some(Value::Percent(percent)) => ClientMemory::Percent(clamped(*percent)),
                _ => ClientMemory::Bytes(read.number("maxmemory-clients")),
            },
            tracking_table_max_keys: read.number("tracking-table-max-keys"),

            maxmemory: read.number("maxmemory"),
            maxmemory_policy: read.policy(),
            maxmemory_samples: read.number("maxmemory-samples"),
            maxmemory_eviction_tenacity: read.number("maxmemory-eviction-tenacity"),
            lfu_log_factor: read.number("lfu-log-factor"),
            lfu_decay_time: read.number("lfu-decay-time"),
            active_expire_effort: read.number("active-expire-effort"),
            activedefrag: read.bool("activedefrag"),
            active_defrag_ignore_bytes: read.number("active-defrag-ignore-bytes"),
            active_defrag_threshold_lower: read.number("active-defrag-threshold-lower"),
            active_defrag_threshold_upper: read.number("active-defrag-threshold-upper"),
            active_defrag_cycle_min: read.number("active-defrag-cycle-min"),
            active_defrag_cycle_max: read.number("active-defrag-cycle-max"),
            tunables: Tunables {
                limits: read.limits(),
                max_string: read.number("proto-max-bulk-len"),
                databases: read.number("databases"),
                lazy_user_del: read.bool("lazyfree-lazy-user-del"),
                shares_integers: read.number::<u64>("maxmemory") == 0 || !read.policy().looks_at_accesses(),
                dialect: read.dialect(),
            },

            appendonly: read.bool("appendonly"),
            appendfsync: read.appendfsync(),
            log_dirs: read.words("log-dirs").to_vec(),
            log_segment_size: read.number("log-segment-size"),
            log_backlog: read.number("log-backlog"),
            log_stall_timeout: read.number("log-stall-timeout"),
            standby_lag_max: read.number("standby-lag-max"),
            standby_lag_max_ms: read.number("standby-lag-max-ms"),
            log_pace: String::from_utf8_lossy(&read.text("log-pace")).parse().ok(),
            store_dir: read.text("store-dir"),
            checkpoint_log_size: read.number("checkpoint-log-size"),
            checkpoint_log_max: read.number("checkpoint-log-max"),
            checkpoint_interval: read.number("checkpoint-interval"),
            checkpoint_cpu: read.number("checkpoint-cpu"),
            warm_up_cpu: read.number("warm-up-cpu"),
            save: read.save(),
            stop_writes_on_bgsave_error: read.bool("stop-writes-on-bgsave-error"),
            rdbcompression: read.bool("rdbcompression"),
            rdbchecksum: read.bool("rdbchecksum"),
            rdb_save_incremental_fsync: read.bool("rdb-save-incremental-fsync"),
            rdb_key_save_delay: read.number("rdb-key-save-delay"),
            key_load_delay: read.number("key-load-delay"),
            dbfilename: read.text("dbfilename"),

            slowlog_log_slower_than: read.number("slowlog-log-slower-than"),
            slowlog_max_len: read.number("slowlog-max-len"),
            slowlog_entry_max_argc: read.number("slowlog-entry-max-argc"),
            slowlog_entry_max_string_len: read.number("slowlog-entry-max-string-len"),
            latency_monitor_threshold: read.number("latency-monitor-threshold"),
            latency_tracking: read.bool("latency-tracking"),
            latency_tracking_info_percentiles: read.percentiles(),
            notify_keyspace_events: parse_events(&read.text("notify-keyspace-events")).unwrap_or(0),
        }
    }
}

/// Reads values by name. A name or kind that does not fit the table is a mistake here, which any test finds that builds
/// [`Settings`].
struct Read<'a>(&'a Values);

impl Read<'_> {
    fn value(&self, name: &str) -> Option<&Value> {
        let found = table::find(name.as_bytes());
        debug_assert!(found.is_some(), "no setting is called {name}");
        found.map(|(id, _)| self.0.get(id))
    }

    fn bool(&self, name: &str) -> bool {
        let value = self.value(name);
        debug_assert!(matches!(value, Some(Value::Bool(_))), "{name}: {value:?}");
        value == Some(&Value::Bool(true))
    }

    /// A number; the bounds of the row make it fit.
    fn number<N: TryFrom<i128> + Default>(&self, name: &str) -> N {
        match self.value(name) {
            Some(Value::Number(number)) => clamped(*number),
            other => {
                debug_assert!(matches!(other, Some(Value::Percent(_))), "{name}: {other:?}");
                N::default()
            }
        }
    }

    fn choice(&self, name: &str) -> &'static str {
        match self.value(name) {
            Some(Value::Choice(choice)) => choice,
            other => {
                debug_assert!(false, "{name}: {other:?}");
                ""
            }
        }
    }

    fn text(&self, name: &str) -> Vec<u8> {
        match self.value(name) {
            Some(Value::Text(text)) => text.clone(),
            other => {
                debug_assert!(false, "{name}: {other:?}");
                Vec::new()
            }
        }
    }

    fn optional(&self, name: &str) -> Option<Vec<u8>> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    fn words(&self, name: &str) -> &[Vec<u8>] {
        match self.value(name) {
            Some(Value::Words(words)) => words,
            other => {
                debug_assert!(false, "{name}: {other:?}");
                &[]
            }
        }
    }

    fn allowed(&self, name: &str) -> Allowed {
        match self.choice(name) {
            "yes" => Allowed::Yes,
            "local" => Allowed::Local,
            _ => Allowed::No,
        }
    }

    fn policy(&self) -> EvictionPolicy {
        match self.choice("maxmemory-policy") {
            "volatile-lru" => EvictionPolicy::VolatileLru,
            "volatile-lfu" => EvictionPolicy::VolatileLfu,
            "volatile-lrm" => EvictionPolicy::VolatileLrm,
            "volatile-random" => EvictionPolicy::VolatileRandom,
            "volatile-ttl" => EvictionPolicy::VolatileTtl,
            "allkeys-lru" => EvictionPolicy::AllKeysLru,
            "allkeys-lfu" => EvictionPolicy::AllKeysLfu,
            "allkeys-lrm" => EvictionPolicy::AllKeysLrm,
            "allkeys-random" => EvictionPolicy::AllKeysRandom,
            _ => EvictionPolicy::NoEviction,
        }
    }

    fn appendfsync(&self) -> AppendFsync {
        match self.choice("appendfsync") {
            "everysec" => AppendFsync::Everysec,
            "no" => AppendFsync::No,
            _ => AppendFsync::Always,
        }
    }

    fn scores(&self) -> [i64; 3] {
        let words = self.words("oom-score-adj-values");
        let score = |i: usize| words.get(i).and_then(|word| std::str::from_utf8(word).ok()?.parse().ok()).unwrap_or(0);
        [score(0), score(1), score(2)]
    }

    fn dialect(&self) -> Dialect {
        match self.choice("compatibility") {
            "valkey" => Dialect::Valkey,
            _ => Dialect::Redis,
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            list_max_listpack_size: self.number("list-max-listpack-size"),
            list_compress_depth: self.number("list-compress-depth"),
            hash_max_listpack_entries: self.number("hash-max-listpack-entries"),
            hash_max_listpack_value: self.number("hash-max-listpack-value"),
            set_max_intset_entries: self.number("set-max-intset-entries"),
            set_max_listpack_entries: self.number("set-max-listpack-entries"),
            set_max_listpack_value: self.number("set-max-listpack-value"),
            zset_max_listpack_entries: self.number("zset-max-listpack-entries"),
            zset_max_listpack_value: self.number("zset-max-listpack-value"),
            stream_node_max_bytes: self.number("stream-node-max-bytes"),
            stream_node_max_entries: self.number("stream-node-max-entries"),
            hll_sparse_max_bytes: self.number("hll-sparse-max-bytes"),
        }
    }

    fn slot_stats(&self) -> SlotStats {
        match self.value(slot_stats::NAME) {
            Some(Value::Choices(mask)) => slot_stats::kept(*mask),
            other => {
                debug_assert!(false, "{other:?}");
                SlotStats::default()
            }
        }
    }

    fn save(&self) -> Vec<(u64, u64)> {
        let points = self.words("save").chunks_exact(2);
        points.filter_map(|pair| Some((number_of(pair.first()?), number_of(pair.get(1)?)))).collect()
    }

    fn percentiles(&self) -> Vec<f64> {
        let words = self.words("latency-tracking-info-percentiles").iter();
        words.filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok()).collect()
    }

    /// Of the classes normal, replica, pubsub.
    fn output_limits(&self) -> [OutputLimit; 3] {
        let mut limits = [OutputLimit::default(); 3];
        for (limit, words) in limits.iter_mut().zip(self.words("client-output-buffer-limit").chunks(4)) {
            if let [_, hard, soft, seconds] = words {
                *limit = OutputLimit { hard: number_of(hard), soft: number_of(soft), seconds: number_of(seconds) };
            }
        }
        limits
    }
}

fn number_of(word: &[u8]) -> u64 {
    std::str::from_utf8(word).ok().and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn clamped<N: TryFrom<i128> + Default>(number: i128) -> N {
    let fits = N::try_from(number);
    debug_assert!(fits.is_ok(), "{number} is out of the type's range: the bounds of its row are wrong");
    fits.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::kind::Kind;

    #[test]
    fn defaults() {
        let settings = Settings::default();
        assert_eq!(settings.tunables.limits, Limits::default());
        assert_eq!((settings.port, settings.databases, settings.maxclients), (6379, 16, 10000));
        assert_eq!(settings.bind, ["*", "-::*"]);
        assert_eq!(settings.save, [(3600, 1), (300, 100), (60, 10000)]);
        assert_eq!(settings.output_limit_pubsub, OutputLimit { hard: 32 << 20, soft: 8 << 20, seconds: 60 });
        assert_eq!(settings.latency_tracking_info_percentiles, [50.0, 99.0, 99.9]);
        assert_eq!(settings.maxmemory_policy, EvictionPolicy::NoEviction);
        assert!(settings.appendonly && settings.requirepass.is_none());
    }

    /// The bounds of the rows fit the types of the fields: the debug assertions of `Read` would fire.
    #[test]
    fn extremes_fit() {
        let mut values = (Values::default(), Values::default());
        for (id, row) in table::rows() {
            let bounds = match row.kind {
                Kind::Integer { min, max } | Kind::Memory { min, max } => (min, max),
                Kind::Octal { max } | Kind::MemoryOrPercent { max } => (0, max),
                _ => continue,
            };
            values.0.put(id, Value::Number(row.clamp.map_or(bounds.0, |clamp| clamp.0)));
            values.1.put(id, Value::Number(row.clamp.map_or(bounds.1, |clamp| clamp.1)));
        }
        assert_eq!(Settings::of(&values.0).maxmemory, 0);
        assert_eq!(Settings::of(&values.1).maxmemory, u64::MAX);
    }
}
