//! INFO keysizes: the contents of keys in memory, by type and size, however they came there.

use std::time::{Duration, Instant};

use crate::support::{Client, Scratch, Server};

fn server(dir: &Scratch) -> Server {
    let dir = dir.path().display().to_string();
    let kept = ["--dir", &dir, "--appendonly", "yes", "--appendfsync", "everysec"];
    Server::start(&[&kept[..], &["--workers", "2", "--enable-debug-command", "yes"]].concat())
}

/// The text of INFO keysizes, without its title.
fn sizes(client: &mut Client) -> String {
    let text = client.call("info keysizes");
    let (_, shown) = text.split_once("# Keysizes").unwrap_or_else(|| panic!("no title: {text}"));
    shown.split_whitespace().collect::<Vec<_>>().join(" ").replace("_distrib_", " ")
}

fn wait_for(client: &mut Client, expected: &str) {
    let begun = Instant::now();
    while sizes(client) != expected {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}, not {expected}", sizes(client));
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a line, and expects these sizes afterwards.
fn after(client: &mut Client, line: &str, expected: &str) {
    let reply = client.call(line);
    assert!(!reply.starts_with('-'), "{line}: {reply}");
    assert_eq!(sizes(client), expected, "after {line}");
}

#[test]
fn sizes_follow_what_is_done() {
    let dir = Scratch::new();
    let server = server(&dir);
    let (mut one, mut other) = (server.client(), server.client());
    after(&mut one, "mset one 1 int 1234567 text 12345678", "db0 strings_sizes:1=1,4=1,8=1");
    after(&mut other, "del one text", "db0 strings_sizes:4=1");
    after(&mut one, "incrby int 90000000", "db0 strings_sizes:8=1");
    after(&mut one, "setrange int 70000 x", "db0 strings_sizes:64K=1");
    after(&mut one, "append int 1", "db0 strings_sizes:64K=1");
    after(&mut one, "rename int long", "db0 strings_sizes:64K=1");
    after(&mut one, "copy long again db 3", "db0 strings_sizes:64K=1 db3 strings_sizes:64K=1");
    after(&mut one, "swapdb 0 1", "db1 strings_sizes:64K=1 db3 strings_sizes:64K=1");
    after(&mut one, "flushall", "");

    let all = "db0 lists_items:2=1 db0 sets_items:4=1 db0 zsets_items:1=1 db0 hashes_items:2=1";
    one.send("rpush l a b c;sadd s 1 2 3 4;zadd z 1 a;hset h f 1 g 2 i 3;xadd x * f v");
    (0..5).for_each(|_| drop(one.reply()));
    assert_eq!(sizes(&mut one), all);
    after(&mut other, "move l 2", &format!("{} db2 lists_items:2=1", &all["db0 lists_items:2=1 ".len()..]));
    other.send("select 2;move l 0;select 0");
    (0..3).for_each(|_| drop(other.reply()));
    assert_eq!(sizes(&mut one), all);
    after(&mut one, "set l in_place_of_a_list", &all.replace("lists_items:2=1", "strings_sizes:16=1"));
    after(&mut one, "getdel l", &all["db0 lists_items:2=1 ".len()..]);

    // A blocked client takes its element at once; changes of a block or a script count when it has ended.
    other.send("blpop waited 0");
    server.blocked_clients(1);
    one.send("multi;rpush waited a b c d e;sadd s 5;exec");
    (0..4).for_each(|_| drop(one.reply()));
    other.reply();
    assert_eq!(sizes(&mut one), all.replace("lists_items:2", "lists_items:4"));
    let script = "redis.call('rpush', 'waited', 1, 2, 3, 4, 5) redis.call('del', 'z')";
    let rest = "db0 lists_items:8=1 db0 sets_items:4=1 db0 hashes_items:2=1";
    after(&mut one, &format!("eval \"{script}\" 0"), rest);
    one.call("hpexpire h 1 fields 2 f g");
    wait_for(&mut one, &rest.replace("hashes_items:2", "hashes_items:1"));
    one.call("pexpire h 1");
    let left = "db0 lists_items:8=1 db0 sets_items:4=1";
    wait_for(&mut one, left);

    // Keys that leave memory do not count until they are back.
    one.saves();
    one.call("debug evict");
    assert_eq!(sizes(&mut one), "");
    after(&mut one, "llen waited", "db0 lists_items:8=1");
    after(&mut one, "scard s", left);

    drop(server);
    let server = self::server(&dir);
    let mut one = server.client();
    // A start reads everything into memory by and by.
    wait_for(&mut one, left);
    after(&mut one, "flushdb", "");
}
