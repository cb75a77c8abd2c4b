//! A disk without room for the store while memory is full: who writes hears of the disk. On a file system of the test's own: needs root; skipped with a
//! message where that is not to be had.
#![allow(clippy::disallowed_methods, reason = "tests wait for real time")]

mod support;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use support::{Client, Scratch, Server, random};

/// Memory that is mounted as long as this lives.
struct Mounted(PathBuf);

impl Mounted {
    /// So many MiB of it. `None`, with a message, where that is not permitted.
    fn new(at: PathBuf, mib: u32) -> Option<Mounted> {
        std::fs::create_dir_all(&at).unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"]).arg(&at).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Mounted(at)),
            refused => {
                eprintln!("skipped: {refused:?}");
                None
            }
        }
    }

    fn grow(&self, mib: u32) {
        let size = format!("remount,size={mib}m");
        assert!(Command::new("mount").args(["-o", &size]).arg(&self.0).status().unwrap().success());
    }

    fn path(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Writes keys until one is refused.
fn refusal(client: &mut Client, line: impl Fn(u64) -> String) -> String {
    (0..100_000).map(|n| client.call(&line(n))).find(|reply| reply.starts_with('-')).expect("a refusal")
}

#[test]
fn full_memory_and_a_full_disk_of_the_store() {
    let scratch = Scratch::new();
    let Some(disk) = Mounted::new(scratch.path().join("disk"), 8) else { return };
    let (dir, log) = (scratch.path().display().to_string(), scratch.path().join("server.log"));
    let settings = [
        ["--dir", &dir],
        ["--store-dir", &disk.path()],
        ["--logfile", &log.display().to_string()],
        ["--appendonly", "yes"],
        ["--appendfsync", "everysec"],
        ["--workers", "1"],
        ["--maxmemory", "48mb"],
    ];
    let server = Server::start(&settings.concat());
    let mut client = server.client();
    // What cannot be compressed.
    let mut rng = random(1);
    let value: String = (0..30_000).map(|_| format!("{:02x}", rng(256))).collect();
    let is_told = |reply: &str| reply.contains("MISCONF ") && reply.contains("No space left on device");
    let refused = refusal(&mut client, |n| format!("set key:{n} {n}{value}"));
    assert!(is_told(&refused), "{refused}");
    // Whoever reads is answered, and scripts and blocks hear the same.
    assert_eq!(client.call("get key:0"), format!("$60001 0{value}"));
    let refused =
        refusal(&mut client, |n| format!("eval \"return redis.call('set', KEYS[1], ARGV[1])\" 1 script:{n} {value}"));
    assert!(is_told(&refused), "{refused}");
    let refused = refusal(&mut client, |n| {
        format!("eval \"#!lua\\nreturn redis.call('set', KEYS[1], ARGV[1])\" 1 script:{n} {value}")
    });
    assert!(is_told(&refused), "{refused}");
    assert_eq!(client.call("multi"), "+OK");
    let refused = client.call(&format!("set key {value}"));
    assert!(is_told(&refused), "{refused}");
    assert!(client.call("exec").starts_with("-EXECABORT"));
    // The log says it, too.
    let end = Instant::now() + Duration::from_secs(60);
    let is_said = |line: &str| {
        let words = ["A checkpoint has failed", "No space left on device", "commands that need memory are refused"];
        words.iter().all(|word| line.contains(word))
    };
    while !std::fs::read_to_string(&log).unwrap().lines().any(is_said) {
        assert!(Instant::now() < end, "{}", std::fs::read_to_string(&log).unwrap());
        client.call(&format!("set key {value}"));
        std::thread::sleep(Duration::from_millis(20));
    }
    // With room on the disk it goes on.
    disk.grow(512);
    let end = Instant::now() + Duration::from_secs(60);
    while client.call(&format!("set key {value}")) != "+OK" {
        assert!(Instant::now() < end, "still refused: {}", client.call("set key value"));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(client.call("get key:0"), format!("$60001 0{value}"));
}

/// What would not find room in empty memory either is not refused for the disk.
#[test]
fn a_command_that_is_too_large_is_not_told_of_the_disk() {
    let scratch = Scratch::new();
    let Some(disk) = Mounted::new(scratch.path().join("disk"), 8) else { return };
    let dir = scratch.path().display().to_string();
    let settings = ["--dir", &dir, "--store-dir", &disk.path(), "--appendonly", "yes", "--workers", "1"];
    let server = Server::within(512 << 10, &[&settings[..], &["--maxmemory", "48mb"]].concat());
    let mut client = server.client();
    let mut rng = random(1);
    let value: String = (0..30_000).map(|_| format!("{:02x}", rng(256))).collect();
    let refused = refusal(&mut client, |n| format!("set key:{n} {n}{value}"));
    assert!(refused.contains("MISCONF ") && refused.contains("No space left on device"), "{refused}");
    let large = "v".repeat(6_000_000);
    let refused = client.call(&format!("mset a {large} b {large}"));
    assert!(refused.starts_with("-OOM"), "{refused}");
}
