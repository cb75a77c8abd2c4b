//! One way to reach a server: every command takes redis-cli's options beside its own.

use std::path::Path;
use std::process::Command;

use crate::support::{Scratch, Server};

/// An RDB file with one key.
const DUMP: &[u8] = b"REDIS0011\xfe\x00\x00\x01k\x01v\xff\0\0\0\0\0\0\0\0";

/// The words of each command that reaches a server, and its output when all is well.
fn commands(folder: &Path) -> [(Vec<String>, &'static str); 5] {
    let file = folder.join("dump.rdb");
    std::fs::write(&file, DUMP).unwrap();
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    [
        (words("bench --operations 10 --connections 1 --keys 10 --quiet"), "commands"),
        (words("ping"), "PONG"),
        ([words("import --replace"), vec![file.display().to_string()]].concat(), "1 keys"),
        // A server that is no node and keeps nothing refuses these two, once it has let them in.
        (words("cluster status"), "cluster"),
        (words("backup place"), "appendonly"),
    ]
}

/// Runs a command with these further words, and this in HOLDFAST_PASSWORD. Returns true if it succeeded, and its
/// output.
fn run(command: &[String], more: &[&str], password: Option<&str>) -> (bool, String) {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    tool.env_remove("HOLDFAST_PASSWORD").envs(password.map(|password| ("HOLDFAST_PASSWORD", password)));
    let output = tool.args(command).args(more).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text.into_owned())
}

#[test]
fn every_command_takes_the_options_of_redis_cli() {
    let server = Server::start(&["--requirepass", "right"]);
    let port = server.port().to_string();
    let scratch = Scratch::new();
    for (command, said) in commands(scratch.path()) {
        let name = command[0].as_str();
        let try_with = |more: &[&str], password| {
            let place = ["-h", "localhost", "-p", &port];
            run(&command, &[&place[..], more].concat(), password)
        };
        let lets_in = |more: &[&str], password| {
            let (_, text) = try_with(more, password);
            let locked = ["NOAUTH", "WRONGPASS"].iter().any(|code| text.contains(code));
            assert!(!locked && text.contains(said), "{name} {more:?} {password:?}: {text}");
        };
        lets_in(&["-a", "right"], None);
        lets_in(&["--pass", "right"], None);
        lets_in(&["--password", "right"], Some("wrong"));
        lets_in(&["--user", "default", "-a", "right"], None);
        lets_in(&["--user", "default"], Some("right"));
        lets_in(&[], Some("right"));
        for (more, password, code) in [
            (&["-a", "wrong"][..], Some("right"), "WRONGPASS"),
            (&["--user", "nobody", "-a", "right"], None, "WRONGPASS"),
            (&[], Some("wrong"), "WRONGPASS"),
            (&[], None, "NOAUTH"),
            (&[], Some(""), "NOAUTH"),
        ] {
            let (good, text) = try_with(more, password);
            // For `ping`, a refused login is an answer.
            assert_eq!(good, name == "ping", "{name} {more:?}: {text}");
            assert!(text.contains(code) && text.contains("HOLDFAST_PASSWORD or --password"), "{name} {more:?}: {text}");
        }
        let (good, text) = try_with(&["--user", "default"], None);
        assert!(!good && text.contains("--user default needs a password"), "{name}: {text}");
    }
}

/// A server without a password takes any: the variable may be meant for another server.
#[test]
fn a_password_that_is_not_needed_does_no_harm() {
    let server = Server::start(&[]);
    let port = server.port().to_string();
    let scratch = Scratch::new();
    for (command, said) in commands(scratch.path()) {
        for (more, password) in [(&[][..], Some("any")), (&["-a", "any"], None)] {
            let (_, text) = run(&command, &[&["-p", &port], more].concat(), password);
            assert!(text.contains(said) && !text.contains("WRONGPASS"), "{command:?} {more:?}: {text}");
        }
    }
}

#[test]
fn a_host_is_named_by_h_and_help_is_still_there() {
    let scratch = Scratch::new();
    for (command, _) in commands(scratch.path()) {
        let words: Vec<String> = command.iter().take(if command[0] == "cluster" { 2 } else { 1 }).cloned().collect();
        for help in ["-h", "--help"] {
            let (good, text) = run(&words, &[help], None);
            assert!(good && text.contains("Usage: ") && text.contains("-h, --host"), "{words:?} {help}: {text}");
        }
        let (good, text) = run(&command, &["-h", "nowhere.invalid", "-p", "1"], None);
        assert!(!good && text.contains("nowhere.invalid:1"), "{words:?}: {text}");
    }
    // In a command without a host, `-h` is clap's.
    let (good, text) = run(&["check".to_owned()], &["-h"], None);
    assert!(good && text.contains("-h, --help"), "{text}");
}

#[test]
fn ping_says_when_nothing_answers() {
    let port = crate::support::free_port().to_string();
    let (good, text) = run(&["ping".to_owned()], &["-p", &port], None);
    assert!(!good && text.contains("cannot connect to 127.0.0.1"), "{text}");
}
