//! A disk without room: for the store while memory is full, and for everything when the server starts. Clients that
//! write hear of the disk. The test has a file system of its own: it needs root, and is skipped with a message
//! otherwise.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{Client, Scratch, Server, random};

/// A file system in memory, mounted as long as this value lives.
struct Mounted(PathBuf);

impl Mounted {
    /// Mounts so many MiB of it. `None`, with a message, if that is not permitted.
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

    /// The file that takes the room.
    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }

    /// Leaves no room, and none of the log's spare files.
    fn fill(&self) {
        remove_spares(&self.0);
        let mut file = File::create(self.filler()).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
        assert_eq!(fs::write(self.0.join("more"), "more").unwrap_err().kind(), std::io::ErrorKind::StorageFull);
        fs::remove_file(self.0.join("more")).unwrap();
    }
}

fn remove_spares(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            remove_spares(&entry.path());
        } else if entry.file_name().to_string_lossy().starts_with("spare-") {
            fs::remove_file(entry.path()).unwrap();
        }
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
    // A value that cannot be compressed.
    let mut rng = random(1);
    let value: String = (0..30_000).map(|_| format!("{:02x}", rng(256))).collect();
    let is_told = |reply: &str| reply.contains("MISCONF ") && reply.contains("No space left on device");
    let refused = refusal(&mut client, |n| format!("set key:{n} {n}{value}"));
    assert!(is_told(&refused), "{refused}");
    // Readers are served, and scripts and blocks hear the same error.
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
    // The server's log says it, too.
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

/// A command that would not fit into empty memory either does not blame the disk.
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

/// Asks until the reply is right.
fn call_until(client: &mut Client, line: &str, is_right: impl Fn(&str) -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let reply = client.call(line);
        if is_right(&reply) {
            return;
        }
        assert!(Instant::now() < end, "{line}: {reply}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A server that finds its disk full when it starts serves its data and refuses writes, after any number of starts and
/// any kind of end. It goes on when there is room, and the data that it served are there for good.
#[test]
fn a_start_on_a_full_disk() {
    for kind in [&[][..], &["--cluster-enabled", "yes"]] {
        let scratch = Scratch::new();
        let Some(disk) = Mounted::new(scratch.path().join("disk"), 24) else { return };
        let log = disk.path() + "/server.log";
        let settings = ["--dir", &disk.path(), "--logfile", &log, "--appendonly", "yes", "--log-segment-size", "1mb"];
        let settings = [&settings[..], &["--workers", "1"], kind].concat();
        let value = "v".repeat(20_000);
        let starts = || {
            let server = Server::start(&settings);
            let mut client = server.client();
            call_until(&mut client, "ping", |reply| reply == "+PONG");
            (server, client)
        };
        let refuses = |client: &mut Client| {
            call_until(client, "get key:7", |reply| reply == format!("$20000 {value}"));
            assert_eq!(client.call("dbsize"), ":40");
            let refused = client.call("set key:7 other");
            assert!(refused.contains("MISCONF ") && refused.contains("No space left on device"), "{refused}");
            assert!(client.call("info persistence").contains("aof_last_write_status:err"));
        };
        let (server, mut client) = starts();
        for n in 0..40 {
            call_until(&mut client, &format!("set key:{n} {value}"), |reply| reply == "+OK");
        }
        // A signal that the server cannot handle ends it: nothing is closed in order.
        drop(server);
        disk.fill();
        for is_killed in [true, false, true] {
            let (mut server, mut client) = starts();
            refuses(&mut client);
            if !is_killed {
                let id = server.id().to_string();
                assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
                assert!(server.ends_well());
            }
        }
        let (server, mut client) = starts();
        refuses(&mut client);
        fs::remove_file(disk.filler()).unwrap();
        call_until(&mut client, "set key:40 value", |reply| reply == "+OK");
        assert!(client.call("info persistence").contains("aof_last_write_status:ok"));
        drop(server);
        let (_server, mut client) = starts();
        call_until(&mut client, "get key:40", |reply| reply == "$5 value");
        assert_eq!(client.call("get key:7"), format!("$20000 {value}"));
        assert_eq!(client.call("dbsize"), ":41");
    }
}

/// ACL SAVE that finds no room leaves the file as it was, and nothing beside it.
#[test]
fn users_that_find_no_room_are_not_saved() {
    let scratch = Scratch::new();
    let Some(disk) = Mounted::new(scratch.path().join("disk"), 2) else { return };
    let file = disk.0.join("users.acl");
    let text = "user default on nopass ~* &* +@all\n";
    fs::write(&file, text).unwrap();
    let dir = scratch.path().display().to_string();
    let server = Server::start(&["--dir", &dir, "--aclfile", &file.display().to_string(), "--workers", "1"]);
    let mut client = server.client();
    let rules: Vec<String> = (0..2000).map(|n| format!("~{n}")).collect();
    assert_eq!(client.call(&format!("acl setuser bob {}", rules.join(" "))), "+OK");
    disk.fill();
    assert!(client.call("acl save").starts_with("-ERR There was an error trying to save the ACLs"));
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    assert_eq!(fs::read_dir(&disk.0).unwrap().count(), 2, "the file, and what fills the disk");
    fs::remove_file(disk.filler()).unwrap();
    assert_eq!(client.call("acl save"), "+OK");
    assert!(fs::read_to_string(&file).unwrap().contains("user bob off"));
}
