//! `metrics-port`: the view of Prometheus and of probes, and the bounds of their connections.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::{Scratch, Server, free_port};

/// The longest wait for anything that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// The names that redis_exporter reports about a server, without those about itself: its dashboards use them.
const NAMES: &str = include_str!("redis_exporter.txt");

/// Sends bytes, and reads until the server closes. `None`: the port is closed.
fn exchange(port: u16, bytes: &[u8]) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The server may answer, and close, before it has read all.
    let _ = stream.write_all(bytes);
    let mut reply = Vec::new();
    loop {
        let mut more = [0; 64 << 10];
        match stream.read(&mut more) {
            Ok(0) => break,
            Ok(n) => reply.extend_from_slice(&more[..n]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
                break;
            }
        }
    }
    Some(String::from_utf8(reply).unwrap())
}

/// The status and the body of the reply to GET.
fn try_get(port: u16, path: &str) -> Option<(u16, String)> {
    let reply = exchange(port, format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes())?;
    let (head, body) = reply.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().unwrap(), body.to_owned()))
}

fn get(port: u16, path: &str) -> (u16, String) {
    try_get(port, path).expect("an answer")
}

/// The samples of a scrape. Asserts that every sample belongs to the family before it, and that each family occurs
/// once.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let (mut families, mut samples, mut family) = (BTreeSet::new(), BTreeMap::new(), String::new());
    let mut helped = "";
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            helped = rest.split_once(' ').unwrap_or_else(|| panic!("{line} says nothing")).0;
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["gauge", "counter", "histogram", "summary"].contains(&kind), "{line}");
            assert_eq!(helped, name, "the line before has the help of each family");
            assert!(families.insert(name.to_owned()), "{name} is there twice");
            name.clone_into(&mut family);
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        let bare = name.split('{').next().unwrap();
        let suffix = bare.strip_prefix(&family).unwrap_or_else(|| panic!("{line} stands in {family}"));
        assert!(["", "_sum", "_count", "_bucket"].contains(&suffix), "{line}");
        assert!(samples.insert(name.to_owned(), value.parse().unwrap()).is_none(), "{name} is there twice");
    }
    samples
}

fn server(port: u16, more: &[&str]) -> Server {
    Server::start(&[&["--metrics-port", &port.to_string(), "--workers", "2"][..], more].concat())
}

#[test]
fn dashboards_of_redis_exporter_find_what_they_ask_for() {
    let (dir, port) = (Scratch::new(), free_port());
    let dir = dir.path().display().to_string();
    let server = server(port, &["--dir", &dir, "--appendonly", "yes", "--latency-monitor-threshold", "1"]);
    let mut client = server.client();
    for command in
        ["set a 1", "set b 2 ex 1000", "get a", "hset h f v", "config set slowlog-log-slower-than 0", "get b"]
    {
        client.call(command);
    }
    assert!(client.call("incr h").starts_with("-WRONGTYPE"));
    // Its subcommands are commands of their own, with its name.
    client.call("debug object a");
    client.call("eval \"local i = 0 while i < 3000000 do i = i + 1 end\" 0");
    let (status, text) = get(port, "/metrics");
    assert_eq!(status, 200);
    let samples = samples(&text);
    let told = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
    assert_eq!(told, samples.len(), "each sample is told once");
    let bare: BTreeSet<&str> = samples.keys().map(|name| name.split('{').next().unwrap()).collect();
    let missing: Vec<&str> = NAMES.lines().filter(|name| !bare.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}\n{text}");
    for (name, value) in [
        ("redis_up", 1.0),
        ("redis_db_keys{db=\"db0\"}", 3.0),
        ("redis_db_keys{db=\"db15\"}", 0.0),
        ("redis_db_keys_expiring{db=\"db0\"}", 1.0),
        ("redis_commands_total{cmd=\"set\"}", 2.0),
        ("redis_commands_failed_calls_total{cmd=\"incr\"}", 1.0),
        ("redis_commands_latencies_usec_bucket{cmd=\"get\",le=\"+Inf\"}", 2.0),
        ("redis_latency_percentiles_usec_count{cmd=\"get\"}", 2.0),
        ("redis_errors_total{err=\"WRONGTYPE\"}", 1.0),
        ("redis_aof_enabled", 1.0),
        ("redis_rdb_last_bgsave_status", 1.0),
        ("redis_loading_dump_file", 0.0),
        ("redis_config_maxclients", 10_000.0),
        ("holdfast_ready", 1.0),
        ("holdfast_workers", 2.0),
        ("holdfast_log_takes_writes", 1.0),
    ] {
        assert_eq!(samples.get(name), Some(&value), "{name}\n{text}");
    }
    // Syncs are counted by their time, and bytes of the log by streams.
    assert!(samples["holdfast_log_sync_seconds_count{stream=\"0\"}"] > 0.0);
    assert!(samples["holdfast_log_sync_seconds_sum{stream=\"0\"}"] > 0.0);
    assert!(samples["holdfast_log_groups_total{stream=\"0\"}"] > 0.0);
    // The dashboard uses only metrics that exist.
    let board = include_str!("../../../../docs/operating/grafana.json");
    let words = board.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    for word in words.filter(|word| word.starts_with("redis_") || word.starts_with("holdfast_")) {
        let cluster = word.starts_with("holdfast_lease") || ["holdfast_links", "holdfast_slots"].contains(&word);
        // `copies_shown` looks for these at a log with copies.
        let copies = word.starts_with("holdfast_log_cop") || word == "holdfast_log_uncommitted_bytes";
        assert!(
            bare.contains(word) || cluster || copies || word.starts_with("holdfast_cluster"),
            "the dashboard asks for {word}"
        );
    }
}

/// The fields of INFO that collectors of metrics read, and where they were looked up.
const COLLECTORS: &str = include_str!("collectors.txt");

#[test]
fn info_has_what_collectors_read() {
    let dir = Scratch::new();
    let dir = dir.path().display().to_string();
    let server = Server::start(&["--dir", &dir, "--appendonly", "yes", "--workers", "2"]);
    let mut client = server.client();
    client.call("set key value");
    client.call("get key");
    let info = client.call("info all");
    let fields: BTreeMap<&str, &str> = info.split(' ').filter_map(|word| word.split_once(':')).collect();
    let mut read = 0;
    for line in COLLECTORS.lines().filter(|line| !line.starts_with('#')) {
        let (field, collectors) = line.split_once(' ').unwrap();
        let (collectors, elsewhere) = collectors.split_once(" # ").unwrap_or((collectors, ""));
        assert!(!collectors.is_empty() && collectors.chars().all(|c| "edt".contains(c)), "{line}");
        match fields.get(field) {
            None => assert!(!elsewhere.is_empty(), "INFO lacks {field}"),
            Some(value) => {
                assert!(elsewhere.is_empty(), "INFO has {field}: {line}");
                assert!(!value.is_empty(), "{field} is empty");
                read += 1;
            }
        }
    }
    assert!(read > 150, "{read} fields");
    // The workers' part of the CPU time is there after a round of housekeeping.
    client.call("eval \"local i = 0 while i < 3000000 do i = i + 1 end\" 0");
    let end = Instant::now() + PATIENCE;
    loop {
        let info = client.call("info cpu");
        let words: BTreeMap<&str, &str> = info.split(' ').filter_map(|word| word.split_once(':')).collect();
        let seconds = |name: &str| words[name].parse::<f64>().unwrap();
        let of_workers = seconds("used_cpu_user_main_thread") + seconds("used_cpu_sys_main_thread");
        assert!(of_workers <= seconds("used_cpu_user") + seconds("used_cpu_sys") + 0.1, "{info}");
        if of_workers > 0.0 {
            break;
        }
        assert!(Instant::now() < end, "{info}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A scrape waits for no worker.
#[test]
fn a_scrape_waits_for_no_worker() {
    let port = free_port();
    let server = Server::start(&["--metrics-port", &port.to_string(), "--workers", "1"]);
    let mut client = server.client();
    client.send("eval \"while true do end\" 0");
    for _ in 0..3 {
        assert_eq!(get(port, "/metrics").0, 200);
    }
    assert_eq!(get(port, "/readyz").0, 200);
    client.waits();
    let mut other = server.client();
    other.send("script kill");
    assert!(client.reply().contains("killed by user"));
}

#[test]
fn what_is_no_request_for_it_is_refused() {
    let port = free_port();
    let _server = server(port, &[]);
    assert_eq!(get(port, "/healthz"), (200, "ok\n".into()));
    assert_eq!(get(port, "/readyz"), (200, "ok\n".into()));
    assert_eq!(get(port, "/metrics/").0, 404);
    let status = |bytes: &[u8]| exchange(port, bytes).unwrap().split(' ').nth(1).unwrap_or_default().to_owned();
    assert_eq!(status(b"POST /metrics HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc"), "405");
    assert_eq!(status(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"), "400");
    let head = exchange(port, b"HEAD /metrics HTTP/1.1\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
    // Long heads are refused.
    assert_eq!(status(format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(20_000)).as_bytes()), "431");
    let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(100));
    assert_eq!(status(many.as_bytes()), "431");
    // One request for each connection.
    let twice = exchange(port, &b"GET /healthz HTTP/1.1\r\n\r\n".repeat(2)).unwrap();
    assert_eq!(twice.matches("HTTP/1.1").count(), 1, "{twice}");
}

#[test]
fn half_open_connections_are_few_and_end() {
    let port = free_port();
    let server = server(port, &[]);
    let begun = Instant::now();
    let half = |_| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(b"GET /metr").unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    };
    let mut streams: Vec<TcpStream> = (0..200).map(half).collect();
    // A scrape gets through.
    assert_eq!(get(port, "/metrics").0, 200);
    let open = |streams: &mut Vec<TcpStream>| {
        streams
            .retain_mut(|stream| matches!(stream.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock));
        streams.len()
    };
    let mut soon = open(&mut streams);
    while soon > 32 && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
        soon = open(&mut streams);
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "they were closed by their number, not by their time");
    while open(&mut streams) > 0 {
        assert!(begun.elapsed() < PATIENCE, "{} are open", streams.len());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(begun.elapsed() >= Duration::from_secs(5), "the last ones have their time");
    assert_eq!(server.client().call("ping"), "+PONG");
}

/// While a server reads its data, it lives and is not ready.
#[test]
fn readiness_comes_after_the_data() {
    let (dir, port) = (Scratch::new(), free_port());
    let dir = dir.path().display().to_string();
    let settings = ["--dir", &dir, "--appendonly", "yes", "--enable-debug-command", "yes"];
    {
        let server = server(port, &[&settings[..], &["--checkpoint-interval", "0"]].concat());
        let mut client = server.client();
        assert_eq!(client.reply_to("debug populate 20000"), "+OK");
    }
    let seen = std::thread::scope(|scope| {
        let server = scope.spawn(|| server(port, &settings));
        let (mut seen, end) = (Vec::new(), Instant::now() + PATIENCE);
        while Instant::now() < end {
            let Some((status, text)) = try_get(port, "/readyz") else { continue };
            if status == 503 && seen.is_empty() {
                assert_eq!(get(port, "/healthz").0, 200);
                assert_eq!(text, "reading the data\n");
            }
            seen.push(status);
            if status == 200 {
                break;
            }
        }
        assert_eq!(server.join().unwrap().client().call("dbsize"), ":20000");
        seen
    });
    assert_eq!(seen.first(), Some(&503));
    assert_eq!(seen.last(), Some(&200));
}

/// A node is ready while it has a lease.
#[test]
fn a_node_without_a_lease_is_not_ready() {
    let (dir, other, port) = (Scratch::new(), Scratch::new(), free_port());
    let (dir, other) = (dir.path().display().to_string(), other.path().display().to_string());
    let alone = server(port, &["--dir", &dir, "--appendonly", "yes", "--cluster-enabled", "yes"]);
    let end = Instant::now() + PATIENCE;
    while get(port, "/readyz").0 != 200 {
        assert!(Instant::now() < end, "{:?}", get(port, "/readyz"));
        std::thread::sleep(Duration::from_millis(10));
    }
    let samples = samples(&get(port, "/metrics").1);
    for (name, value) in [
        ("redis_cluster_state", 1.0),
        ("redis_cluster_slots_ok", 16_384.0),
        ("holdfast_slots", 16_384.0),
        ("holdfast_lease", 1.0),
        ("holdfast_links", 0.0),
        ("holdfast_ready", 1.0),
    ] {
        assert_eq!(samples.get(name), Some(&value), "{name}");
    }
    assert!(samples["holdfast_lease_seconds_left"] > 0.0);
    drop(alone);
    // Nothing answers at the other seed, so no cluster forms.
    let (first, second) = (free_port(), free_port());
    let seeds = format!("127.0.0.1:{first},127.0.0.1:{second}");
    let metrics = ["--metrics-port", &port.to_string(), "--appendonly", "yes"].map(str::to_owned);
    let metrics: Vec<&str> = metrics.iter().map(String::as_str).collect();
    let node = Server::on_port(first, &[&metrics[..], &["--dir", &other, "--cluster-seeds", &seeds]].concat());
    let (status, text) = get(port, "/readyz");
    assert!(status == 503 && text.starts_with("the node has no lease: "), "{status} {text}");
    assert_eq!(get(port, "/healthz").0, 200);
    assert!(get(port, "/metrics").1.contains("\nholdfast_lease 0\n"));
    drop(node);
}

#[test]
fn a_port_that_is_taken_ends_the_start() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let refused = Server::refused(&["--metrics-port", &port.to_string()]);
    assert!(refused.contains("metrics-port: 127.0.0.1:") && refused.contains("Address already in use"), "{refused}");
}
