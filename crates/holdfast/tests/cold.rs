//! More data than memory: keys leave it for the store and come back, and nobody is refused.
#![allow(clippy::disallowed_methods, reason = "tests wait for real time")]

mod support;

use support::{Client, Scratch, Server, random};

fn server(dir: &Scratch, more: &[&str]) -> Server {
    let dir = dir.path().display().to_string();
    let settings = ["--dir", &dir, "--appendonly", "yes", "--appendfsync", "everysec", "--enable-debug-command", "yes"];
    Server::start(&[&settings, more].concat())
}

fn info(client: &mut Client, name: &str) -> u64 {
    let text = client.call("info everything");
    let at = text.find(&format!(" {name}:")).unwrap_or_else(|| panic!("no {name} in {text}"));
    text[at + name.len() + 2..].split_whitespace().next().unwrap().parse().unwrap()
}

/// Sends lines and takes their replies.
fn all(client: &mut Client, lines: &[String]) -> Vec<String> {
    let mut replies = Vec::new();
    for part in lines.chunks(500) {
        client.send(&part.join(";"));
        replies.extend(part.iter().map(|_| client.reply()));
    }
    replies
}

#[test]
fn more_data_than_memory() {
    const KEYS: u64 = 30_000;
    const LIMIT: u64 = 48 << 20;
    let value = |n: u64, version: u64| format!("{n}:{version}:{}", "v".repeat(3000 + (n % 500) as usize));
    let dir = Scratch::new();
    let server = server(&dir, &["--workers", "2", "--maxmemory", &LIMIT.to_string()]);
    let mut client = server.client();
    let mut versions = vec![0; KEYS as usize];
    for first in (0..KEYS).step_by(1000) {
        let lines: Vec<String> = (first..first + 1000).map(|n| format!("set key:{n} {}", value(n, 0))).collect();
        assert!(all(&mut client, &lines).iter().all(|reply| reply == "+OK"), "nobody is refused");
    }
    assert_eq!(client.call("dbsize"), format!(":{KEYS}"));
    let used = info(&mut client, "used_memory");
    assert!(used < LIMIT + LIMIT / 8, "{used} bytes in use");
    assert!(info(&mut client, "keys_in_store_only") > KEYS / 2);
    let mut rng = random(5);
    let mut other = server.client();
    for _ in 0..15 {
        let picked: Vec<u64> = (0..200).map(|_| rng(KEYS)).collect();
        for n in &picked {
            if n % 3 == 0 {
                versions[*n as usize] += 1;
            }
        }
        let lines: Vec<String> = picked
            .iter()
            .filter(|n| *n % 3 == 0)
            .map(|n| format!("set key:{n} {}", value(*n, versions[*n as usize])))
            .collect();
        assert!(all(&mut client, &lines).iter().all(|reply| reply == "+OK"));
        let lines: Vec<String> = picked.iter().map(|n| format!("get key:{n}")).collect();
        for (n, reply) in picked.iter().zip(all(&mut other, &lines)) {
            let text = value(*n, versions[*n as usize]);
            assert!(reply == format!("${} {text}", text.len()), "key:{n} is {:.40}, not {text:.20}", reply);
        }
    }
    assert!(info(&mut client, "keys_fetched_from_store") > 1000);
    let used = info(&mut client, "used_memory");
    assert!(used < LIMIT + LIMIT / 8, "{used} bytes in use");
    assert_eq!(client.call("dbsize"), format!(":{KEYS}"));
    assert_eq!(client.call("flushall"), "+OK");
    assert_eq!(client.call("dbsize"), ":0");
    assert_eq!(client.call("get key:1"), "$-1");
}
