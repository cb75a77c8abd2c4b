//! Large values are renamed, copied and stored whole or not at all, and work that is done aside looks as if it were
//! done at one moment.

use std::time::Duration;

use crate::support::{Client, Scratch, Server, random};

/// A server on this directory; dropping it kills it.
fn durable(dir: &Scratch) -> Server {
    let dir = dir.path().display().to_string();
    Server::start(&["--dir", &dir, "--appendonly", "yes", "--enable-debug-command", "yes"])
}

/// Fills keys with so many elements: `PREFIXhash`, `PREFIXset` and so on.
fn fill(client: &mut Client, prefix: &str, count: usize) {
    for start in (0..count).step_by(500) {
        let part = start..count.min(start + 500);
        let names = |before: &str| part.clone().map(|i| format!(" {before}element:{i:08}")).collect::<String>();
        let fields: String = part.clone().map(|i| format!(" field:{i:08} value:{i:08}")).collect();
        client.send(&format!("hset {prefix}hash{fields};xadd {prefix}stream *{fields}"));
        client.send(&format!("sadd {prefix}set{}", names("")));
        client.send(&format!("rpush {prefix}list{};zadd {prefix}zset{}", names(""), names("1 ")));
        (0..5).for_each(|_| drop(client.reply()));
    }
    assert_eq!(client.call(&format!("setrange {prefix}string 3000000 x")), ":3000001");
}

const KINDS: [&str; 6] = ["hash", "stream", "set", "list", "zset", "string"];

/// The digests of these keys, if they exist.
fn digests(client: &mut Client, keys: &[&str]) -> Vec<Option<String>> {
    let of = |key: &&str| {
        let there = client.call(&format!("exists {key}")) == ":1";
        there.then(|| client.call(&format!("debug digest-value {key}")))
    };
    keys.iter().map(of).collect()
}

#[test]
fn a_large_value_is_moved_whole_or_not_at_all() {
    let dir = Scratch::new();
    let mut rng = random(0x5eed);
    let mut wanted = Vec::new();
    for round in 0..4 {
        let server = durable(&dir);
        let mut client = server.client();
        if round == 0 {
            fill(&mut client, "a{t}", 4000);
            wanted = KINDS.map(|kind| digests(&mut client, &[&format!("a{{t}}{kind}")]).remove(0)).to_vec();
        }
        for (kind, wanted) in KINDS.iter().zip(&wanted) {
            let [a, b, c] = ["a", "b", "c"].map(|name| format!("{name}{{t}}{kind}"));
            let found = digests(&mut client, &[&a, &b]);
            assert_eq!(found.iter().flatten().count(), 1, "{kind} is at one of two places, in round {round}");
            assert!(found.contains(wanted), "{kind}, in round {round}");
            let copy = digests(&mut client, &[&c]).remove(0);
            assert!(copy.is_none() || copy == *wanted, "the copy of {kind}, in round {round}");
            if found[0].is_none() {
                client.call(&format!("rename {b} {a}"));
            }
        }
        // The server is killed somewhere in this.
        let mut other = server.client();
        let mut lines = Vec::new();
        for kind in KINDS {
            let [a, b, c] = ["a", "b", "c"].map(|name| format!("{name}{{t}}{kind}"));
            lines.push(format!("rename {a} {b};copy {b} {c} replace"));
            lines.push(format!("multi;rename {b} {a};del {c};copy {a} {c};exec"));
            lines.push(format!("eval \"redis.call('rename', KEYS[1], KEYS[2]) redis.call('set', 'n', 1)\" 2 {a} {b}"));
            lines.push(format!("rename {b} {a}"));
        }
        let replies = lines.iter().map(|line| 1 + line.matches(';').count()).sum::<usize>();
        client.send(&lines.join(";"));
        other.send("set other 1;get other");
        for _ in 0..rng(replies as u64 + 1) {
            assert!(!client.reply().starts_with('-'));
        }
        std::thread::sleep(Duration::from_micros(rng(3000)));
    }
}

#[test]
fn what_is_made_of_large_values_is_made_of_one_moment() {
    let server = Server::start(&["--appendonly", "no", "--enable-debug-command", "yes", "--workers", "2"]);
    let (mut client, mut writer) = (server.client(), server.client());
    fill(&mut client, "", 30_000);
    client.call("sadd few x y");
    client.call("zadd zfew 5 x 6 y");
    // Replies come in their order, even if work is done aside.
    client.send(
        "sunionstore to set few;scard to;ping;sdiffstore to set few;scard to;zunionstore zto 2 zset zfew;zcard zto",
    );
    let replies: Vec<String> = (0..7).map(|_| client.reply()).collect();
    assert_eq!(replies, [":30002", ":30002", "+PONG", ":30000", ":30000", ":30002", ":30002"]);
    // In a block, and in a script, it is the same.
    for line in [
        "sunionstore to set few",
        "sinterstore to set set",
        "sdiffstore to set few",
        "zunionstore to 2 zset zfew weights 2 3",
        "zinterstore to 2 zset set",
        "zdiffstore to 2 zset zfew",
        "zrangestore to zset 5 -5",
        "sort list alpha desc limit 7 20000 store to",
    ] {
        let alone = (client.reply_to(line), client.call("debug digest-value to"));
        client.call("del to");
        client.send(&format!("multi;{line};exec"));
        let block = [client.reply(), client.reply(), client.reply()].concat();
        assert!(block.ends_with(&alone.0), "{line}: {block}");
        assert_eq!(client.call("debug digest-value to"), alone.1, "{line}");
        let words: Vec<String> = line.split(' ').map(|word| format!("'{word}'")).collect();
        assert_eq!(client.reply_to(&format!("eval \"return redis.call({})\" 0", words.join(","))), alone.0, "{line}");
        assert_eq!(client.call("debug digest-value to"), alone.1, "{line}");
    }
    for line in ["sort list", "sort few", "zunionstore to 2 zset string"] {
        assert!(client.reply_to(line).starts_with('-'), "{line}");
    }
    // Another client writes all the time: each result is of one moment, and in the end it comes.
    for round in 0..8 {
        client.send("sunionstore to set few;scard to");
        for n in 0..200 {
            writer.send(&format!("multi;sadd set new{round}:{n}:1 new{round}:{n}:2;exec"));
            (0..3).for_each(|_| drop(writer.reply()));
        }
        let (made, there) = (client.reply(), client.reply());
        assert_eq!(made, there);
        let count: u64 = made[1..].parse().unwrap();
        assert!(count.is_multiple_of(2), "a block is seen whole: {count}");
    }
    // A client that watches the result hears of it.
    writer.call("watch to");
    client.call("sunionstore to set few");
    writer.send("multi;get n;exec");
    assert_eq!([writer.reply(), writer.reply(), writer.reply()], ["+OK", "+QUEUED", "*-1"]);
    // A client that leaves meanwhile does no harm.
    for _ in 0..5 {
        let mut gone = server.client();
        gone.send("sort list alpha store gone;dump set");
        drop(gone);
    }
    assert_eq!(client.call("ping"), "+PONG");
}

#[test]
fn long_replies_that_are_made_aside_are_whole() {
    let server = Server::start(&["--appendonly", "no", "--enable-debug-command", "yes"]);
    let mut client = server.client();
    fill(&mut client, "", 20_000);
    client.call("sadd few x y");
    let count = |reply: &str| reply.split(' ').next().map(str::to_owned);
    assert_eq!(count(&client.reply_to("sunion set few")).as_deref(), Some("*20002"));
    assert_eq!(count(&client.reply_to("zunion 2 zset few withscores")).as_deref(), Some("*40004"));
    assert_eq!(client.reply_to("sintercard 2 set set"), ":20000");
    assert_eq!(client.reply_to("zintercard 2 zset set limit 15000"), ":15000");
    let sorted = client.reply_to("sort set alpha desc limit 0 2");
    assert_eq!(sorted, "*2 $16 element:00019999 $16 element:00019998");
    client.call("debug set-active-expire 1");
    for kind in KINDS {
        let before = client.call(&format!("debug digest-value {kind}"));
        let script = "eval \"redis.call('restore', KEYS[2], 0, redis.call('dump', KEYS[1]))\" 2";
        client.call("del again");
        client.reply_to(&format!("{script} {kind} again"));
        assert_eq!(client.call("debug digest-value again"), before, "{kind}");
        let alone = client.reply_to(&format!("dump {kind}"));
        client.send(&format!("multi;dump {kind};exec"));
        let block = [client.reply(), client.reply(), client.reply()];
        assert!(block[2].ends_with(&alone), "{kind}");
    }
}
