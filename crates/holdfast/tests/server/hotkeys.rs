//! HOTKEYS on one server, with real clients: arguments, errors, shapes of replies, what is counted.

use std::time::{Duration, Instant};

use crate::support::{Client, Server};

/// The words of HOTKEYS GET behind the name of a field, up to the next field.
fn field(client: &mut Client, name: &str) -> Option<String> {
    let reply = client.call("hotkeys get");
    let (_, rest) = reply.split_once(&format!("${} {name} ", name.len()))?;
    let end = rest.find('$').filter(|_| rest.starts_with(':'));
    Some(rest[..end.unwrap_or(rest.len())].trim_end().to_owned())
}

fn number(client: &mut Client, name: &str) -> u64 {
    let value = field(client, name).unwrap_or_else(|| panic!("no {name}"));
    value.trim_start_matches(':').parse().unwrap_or_else(|_| panic!("{name} is {value}"))
}

/// The keys and weights of a list of keys.
fn keys(client: &mut Client, name: &str) -> Vec<(String, u64)> {
    let list = field(client, name).unwrap_or_else(|| panic!("no {name}"));
    let words: Vec<&str> = list.split(' ').collect();
    let len: usize = words[0].trim_start_matches('*').parse().expect("a length");
    let pairs = words[1..].chunks(3).take(len / 2);
    pairs.map(|key| (key[1].to_owned(), key[2].trim_start_matches(':').parse().expect("a number"))).collect()
}

#[test]
fn arguments_and_errors_are_those_of_redis() {
    let server = Server::start(&["--workers", "2"]);
    let mut client = server.client();
    for (line, reply) in [
        ("hotkeys", "-ERR wrong number of arguments for 'hotkeys' command"),
        ("hotkeys nothing", "-ERR unknown subcommand 'nothing'. Try HOTKEYS HELP."),
        ("hotkeys get", "$-1"),
        ("hotkeys get x", "-ERR wrong number of arguments for 'hotkeys|get' command"),
        ("hotkeys stop", "$-1"),
        ("hotkeys reset", "+OK"),
        ("hotkeys start", "-ERR METRICS parameter is required"),
        ("hotkeys start metrics", "-ERR METRICS parameter is required"),
        ("hotkeys start count 5 metrics 1 cpu", "-ERR METRICS parameter is required"),
        ("hotkeys start metrics 0 cpu", "-ERR METRICS count must be > 0 and <= 2"),
        ("hotkeys start metrics 3 cpu net", "-ERR METRICS count must be > 0 and <= 2"),
        ("hotkeys start metrics x cpu", "-ERR METRICS count must be > 0 and <= 2"),
        ("hotkeys start metrics 2 cpu", "-ERR METRICS count does not match number of metric types provided"),
        ("hotkeys start metrics 1 cpu net", "-ERR syntax error"),
        ("hotkeys start metrics 1 gpu", "-ERR METRICS no valid metrics passed. Supported: CPU|NET"),
        ("hotkeys start metrics 2 cpu CPU", "-ERR METRICS CPU defined more than once!"),
        ("hotkeys start metrics 2 net net", "-ERR METRICS NET defined more than once!"),
        ("hotkeys start metrics 1 cpu count", "-ERR syntax error"),
        ("hotkeys start metrics 1 cpu count 0", "-ERR COUNT must be between 1 and 64"),
        ("hotkeys start metrics 1 cpu count 65", "-ERR COUNT must be between 1 and 64"),
        ("hotkeys start metrics 1 cpu duration 0", "-ERR DURATION must be between 1 and 1000000"),
        ("hotkeys start metrics 1 cpu sample 0", "-ERR SAMPLE ratio must be positive"),
        ("hotkeys start metrics 1 cpu sample 2147483648", "-ERR SAMPLE ratio must be positive"),
        ("hotkeys start metrics 1 cpu slots 1 0", "-ERR SLOTS parameter cannot be used in non-cluster mode"),
        ("hotkeys start metrics 2 gpu cpu", "+OK"),
        ("hotkeys start metrics x", "-ERR hotkey tracking session already in progress"),
        ("hotkeys reset", "-ERR hotkey tracking session in progress, stop tracking first"),
        ("hotkeys stop", "+OK"),
        ("hotkeys stop", "$-1"),
        ("hotkeys reset", "+OK"),
        ("hotkeys get", "$-1"),
        ("cluster slot-stats slotsrange 0 1", "-ERR This instance has cluster support disabled"),
    ] {
        assert_eq!(client.call(line), reply, "{line}");
    }
}

#[test]
fn replies_have_the_fields_of_what_was_asked_for() {
    let server = Server::start(&["--workers", "1"]);
    let mut client = server.client();
    let always = [
        "tracking-active",
        "sample-ratio",
        "all-commands-all-slots-us",
        "net-bytes-all-commands-all-slots",
        "collection-start-time-unix-ms",
        "collection-duration-ms",
    ];
    let of_cpu = ["total-cpu-time-user-ms", "total-cpu-time-sys-ms", "by-cpu-time-us"];
    let of_net = ["total-net-bytes", "by-net-bytes"];
    for (metrics, cpu, net) in [("1 cpu", true, false), ("1 net", false, true), ("2 net cpu", true, true)] {
        assert_eq!(client.call(&format!("hotkeys start metrics {metrics} sample 1 count 64")), "+OK");
        assert_eq!(client.call("set key value"), "+OK");
        for (names, is) in [(&always[..], true), (&of_cpu, cpu), (&of_net, net)] {
            for name in names {
                assert_eq!(field(&mut client, name).is_some(), is, "{name} with {metrics}");
            }
        }
        for absent in [
            "sampled-commands-selected-slots-us",
            "all-commands-selected-slots-us",
            "net-bytes-sampled-commands-selected-slots",
            "net-bytes-all-commands-selected-slots",
        ] {
            assert_eq!(field(&mut client, absent), None, "{absent}");
        }
        assert_eq!(client.call("hotkeys stop"), "+OK");
        assert_eq!(number(&mut client, "tracking-active"), 0);
    }
    let reply = client.call("hotkeys get");
    assert!(
        reply.starts_with("*1 *24 $15 tracking-active :0 $12 sample-ratio :1 $14 selected-slots *1 *2 :0 :16383 "),
        "{reply}"
    );
    client.call("hello 3");
    let reply = client.call("hotkeys get");
    assert!(reply.starts_with("*1 %12 $15 tracking-active :0 "), "{reply}");
    assert!(reply.contains(" $14 by-cpu-time-us *2 $3 key :"), "{reply}");
    assert_eq!(client.call("hotkeys reset"), "+OK");
    assert_eq!(client.call("hotkeys get"), "_");
}

#[test]
fn what_keys_cost_is_found_over_all_workers() {
    let server = Server::start(&["--workers", "2"]);
    let mut clients: Vec<Client> = (0..8).map(|_| server.client()).collect();
    assert_eq!(clients[0].call("hotkeys start metrics 2 cpu net count 2"), "+OK");
    for (n, client) in clients.iter_mut().enumerate() {
        for i in 0..20 {
            assert_eq!(client.call("set hot value"), "+OK");
            assert_eq!(client.call(&format!("set cold:{n}:{i} v")), "+OK");
        }
        // The keys that a script declares count for the script. Its calls do not count once more.
        assert_eq!(client.call("eval \"redis.call('set',KEYS[1],1);redis.call('set',KEYS[1],2)\" 1 script"), "$-1");
    }
    let client = &mut clients[0];
    let by_net = keys(client, "by-net-bytes");
    // *3 $3 SET $3 hot $5 value, +OK
    assert_eq!(by_net[0], ("hot".to_owned(), 160 * (33 + 5)));
    assert_eq!((by_net.len(), by_net[1].0.as_str()), (2, "script"));
    let by_cpu = keys(client, "by-cpu-time-us");
    assert!(by_cpu.len() == 2 && by_cpu.iter().any(|(name, micros)| name == "hot" && *micros > 0), "{by_cpu:?}");
    assert!(number(client, "net-bytes-all-commands-all-slots") >= by_net[0].1 + by_net[1].1);
    assert!(number(client, "all-commands-all-slots-us") >= by_cpu[0].1);
    let info = client.call("info hotkeys");
    assert!(info.contains("# Hotkeys") && info.contains("hotkeys-tracking-active:1"), "{info}");
    assert!(info.contains("hotkeys-cmd-cpu-time:"), "{info}");
}

#[test]
fn blocks_waits_and_several_keys_are_divided() {
    let server = Server::start(&["--workers", "2"]);
    let (mut client, mut other) = (server.client(), server.client());
    assert_eq!(client.call("hotkeys start metrics 1 net"), "+OK");
    client.send("multi;set {t}a 1;set {t}b 1;set {t}a 2;exec");
    (0..5).for_each(|_| drop(client.reply()));
    let told = keys(&mut client, "by-net-bytes");
    // *3 $3 set $4 {t}a $1 1, +OK
    assert_eq!(told, [("{t}a".to_owned(), 2 * 35), ("{t}b".to_owned(), 35)]);
    assert_eq!(client.call("hotkeys stop"), "+OK");
    assert_eq!(client.call("hotkeys start metrics 1 net"), "+OK");
    client.call("mset {t}a 1 {t}b 1");
    let told = keys(&mut client, "by-net-bytes");
    assert_eq!((told.len(), told[0].1), (2, told[1].1), "the bytes are divided among the keys");
    other.send("blpop list 0");
    while !server.client().call("info clients").contains("blocked_clients:1") {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(keys(&mut client, "by-net-bytes").iter().all(|(name, _)| name != "list"));
    assert_eq!(client.call("rpush list x"), ":1");
    assert_eq!(other.reply(), "*2 $4 list $1 x");
    let told = keys(&mut client, "by-net-bytes");
    // RPUSH: 32 and ":1"; BLPOP: 32 and its reply of 21.
    assert_eq!(told.iter().find(|(name, _)| name == "list").map(|(_, bytes)| *bytes), Some(32 + 4 + 32 + 21));
}

#[test]
fn it_stops_by_itself_and_samples() {
    let server = Server::start(&["--workers", "1"]);
    let mut client = server.client();
    assert_eq!(client.call("hotkeys start metrics 1 net duration 1 sample 4"), "+OK");
    for _ in 0..400 {
        client.call("get key");
    }
    let (all, sampled) =
        (number(&mut client, "net-bytes-all-commands-all-slots"), number(&mut client, "total-net-bytes"));
    assert!(sampled > 0 && sampled < all / 2, "{sampled} of {all}");
    let begun = Instant::now();
    while number(&mut client, "tracking-active") == 1 {
        assert!(begun.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(50));
    }
    let all = number(&mut client, "net-bytes-all-commands-all-slots");
    assert_eq!(client.call("set key value"), "+OK");
    assert_eq!(number(&mut client, "net-bytes-all-commands-all-slots"), all);
    assert_eq!(number(&mut client, "collection-duration-ms"), 1000);
    assert_eq!(client.call("hotkeys start metrics 1 net"), "+OK");
}
