//! Publish and subscribe through the real binary: slow subscribers, idle ones, the receivers of messages.

use std::time::{Duration, Instant};

use crate::support::{Client, Server};

fn figure(info: &str, name: &str) -> u64 {
    let rest = info.split(&format!("{name}:")).nth(1).unwrap_or_default();
    rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or_default()
}

/// Asks until the reply is the expected one.
fn until(client: &mut Client, command: &str, is_it: impl Fn(&str) -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let reply = client.call(command);
        if is_it(&reply) {
            return;
        }
        assert!(Instant::now() < end, "{command}: {reply}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_slow_subscriber_harms_nobody_else() {
    for driver in ["epoll", "io_uring"] {
        let server = Server::start(&[
            "--workers",
            "2",
            "--io-driver",
            driver,
            "--client-output-buffer-limit",
            "pubsub 4mb 2mb 60",
        ]);
        let (mut slow, mut fast, mut publisher) = (server.client(), server.client(), server.client());
        for subscriber in [&mut slow, &mut fast] {
            assert_eq!(subscriber.call("subscribe news"), "*3 $9 subscribe $4 news :1");
        }
        let before = figure(&publisher.call("info memory"), "used_memory");
        let text = "x".repeat(100_000);
        let mut longest = Duration::ZERO;
        for n in 0..200 {
            let began = Instant::now();
            let heard = publisher.call(&format!("publish news {n}:{text}"));
            longest = longest.max(began.elapsed());
            assert!(heard == ":2" || heard == ":1", "{heard}");
            let message = fast.reply();
            assert!(message.starts_with("*3 $7 message $4 news ") && message.contains(&format!(" {n}:x")), "{n}");
        }
        assert!(longest < Duration::from_secs(20), "{longest:?}");
        // The slow subscriber is closed at its limit, and its unread messages are freed, once its worker comes to it.
        until(&mut publisher, "pubsub numsub news", |heard| heard == "*2 $4 news :1");
        until(&mut publisher, "info memory", |info| figure(info, "used_memory") < before + (8 << 20));
        assert_eq!(figure(&publisher.call("info stats"), "client_output_buffer_limit_disconnections"), 1);
    }
}

#[test]
fn those_who_listen_are_never_idle() {
    let server = Server::start(&["--timeout", "1"]);
    let (mut listener, mut monitor, mut idle) = (server.client(), server.client(), server.client());
    listener.call("subscribe news");
    monitor.call("monitor");
    idle.call("ping");
    std::thread::sleep(Duration::from_millis(2600));
    assert!(idle.is_closed());
    let mut publisher = server.client();
    assert_eq!(publisher.call("publish news x"), ":1");
    assert_eq!(listener.reply(), "*3 $7 message $4 news $1 x");
    assert!(monitor.reply().ends_with("\"ping\""));
    assert!(monitor.reply().ends_with("\"publish\" \"news\" \"x\""));
}

#[test]
fn who_wants_no_replies_wants_messages() {
    let server = Server::start(&[]);
    let (mut listener, mut publisher) = (server.client(), server.client());
    listener.send("client reply off;subscribe news;ping");
    assert_eq!(listener.reply(), "*3 $9 subscribe $4 news :1");
    server.client().call("ping");
    publisher.call("publish news x");
    assert_eq!(listener.reply(), "*3 $7 message $4 news $1 x");
    // RESP3: commands and messages side by side.
    let mut both = server.client();
    both.send("hello 3");
    both.reply();
    assert!(both.call("subscribe news").starts_with(">3 $9 subscribe"));
    assert_eq!(both.call("incr n"), ":1");
    both.send("multi;publish news y;exec");
    let heard: Vec<String> = (0..4).map(|_| both.reply()).collect();
    assert_eq!(heard, ["+OK", "+QUEUED", "*1 :2", ">3 $7 message $4 news $1 y"]);
    both.send("multi;ssubscribe shard;subscribe other;exec");
    let heard: Vec<String> = (0..4).map(|_| both.reply()).collect();
    let refused = "-ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client";
    assert_eq!(heard[3], format!("*2 {refused} >3 $9 subscribe $5 other :2"));
}

#[test]
fn keys_that_are_new_and_keys_that_are_missed() {
    let server = Server::start(&["--notify-keyspace-events", "Enm$l"]);
    let (mut listener, mut client) = (server.client(), server.client());
    listener.call("psubscribe __keyevent@0__:*");
    client.call("get nothing");
    client.call("set a 1");
    client.call("set a 2");
    client.call("set a xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    client.call("rpush l 1 2");
    client.call("mset a 1 b 2");
    client.call("eval \"redis.call('set', KEYS[1], 1) return redis.call('get', 'none')\" 1 c");
    let expected = [
        "keymiss nothing",
        "new a",
        "set a",
        "set a",
        "set a",
        "new l",
        "rpush l",
        "set a",
        "new b",
        "set b",
        "new c",
        "set c",
        "keymiss none",
    ];
    for line in expected {
        let heard = listener.reply();
        let (event, key) = line.split_once(' ').unwrap();
        assert!(heard.contains(&format!("__:{event} ")) && heard.ends_with(&format!(" {key}")), "{line}: {heard}");
    }
}
