//! The report of a crashed server, and the server's request to the kernel for when memory runs out.

use std::process::Command;
use std::time::Duration;

use crate::support::{Scratch, Server};

struct Crashing {
    server: Server,
    scratch: Scratch,
}

impl Crashing {
    fn start(more: &[&str]) -> Crashing {
        let scratch = Scratch::new();
        let log = scratch.path().join("log").display().to_string();
        let settings = [&["--workers", "1", "--enable-debug-command", "yes", "--logfile", &log], more].concat();
        Crashing { server: Server::start(&settings), scratch }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.scratch.path().join("log")).unwrap_or_default()
    }

    /// Its log once the whole report is there.
    fn report(&self) -> String {
        for _ in 0..6000 {
            let log = self.log();
            if log.contains("BUG REPORT END") {
                return log;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no report: {}", self.log())
    }
}

fn has_all(report: &str, words: &[&str]) {
    for word in words {
        assert!(report.contains(word), "{word} is not in {report}");
    }
}

const PARTS: [&str; 6] = [
    "=== HOLDFAST BUG REPORT START",
    "------ REGISTERS ------",
    "------ CLIENT LIST OUTPUT ------",
    "------ INFO OUTPUT ------\n# Server\n",
    "------ STACK TRACE ------",
    "------ STACK TRACE DONE ------",
];

#[test]
fn a_fault_is_reported_with_registers_stack_and_clients() {
    let crashing = Crashing::start(&[]);
    let mut other = crashing.server.client();
    assert_eq!(other.call("client setname other"), "+OK");
    assert_eq!(other.call("set k v"), "+OK");
    let mut client = crashing.server.client();
    let id = client.call("client id").trim_start_matches(':').to_owned();
    assert_eq!(client.try_call("debug segfault"), None, "it is gone");
    let report = crashing.report();
    has_all(&report, &PARTS);
    has_all(
        &report,
        &[
            "crashed by signal: 11, si_code: 2",
            "Accessed address: 0x",
            "name=other",
            "cmd=set",
            &format!("worker 0 serves client id={id}"),
            "total_commands_processed:",
        ],
    );
    let stack = report.split("------ STACK ------").nth(1).unwrap();
    assert!(stack.lines().nth(1).is_some_and(|word| word.contains(") -> ")), "{stack}");
}

#[test]
fn a_panic_is_reported_with_its_message() {
    for (command, message) in [("debug panic", "DEBUG PANIC was called"), ("debug assert", "DEBUG ASSERT was called")] {
        let crashing = Crashing::start(&[]);
        assert_eq!(crashing.server.client().try_call(command), None);
        let report = crashing.report();
        has_all(&report, &PARTS);
        has_all(&report, &[message, "crashed by signal: 6"]);
    }
}

#[test]
fn a_signal_from_outside_is_reported_with_its_sender() {
    let crashing = Crashing::start(&["--crash-log-enabled", "no"]);
    let mut client = crashing.server.client();
    assert_eq!(client.call("config set crash-log-enabled yes"), "+OK");
    assert!(Command::new("kill").args(["-ABRT", &crashing.server.id().to_string()]).status().unwrap().success());
    let report = crashing.report();
    has_all(&report, &PARTS);
    has_all(&report, &["crashed by signal: 6, si_code: 0", "Sent by PID: "]);
    assert!(client.is_closed());
}

#[test]
fn nothing_is_reported_where_nobody_wants_to_know() {
    let crashing = Crashing::start(&[]);
    let mut client = crashing.server.client();
    assert_eq!(client.call("config set crash-log-enabled no"), "+OK");
    assert_eq!(client.try_call("debug segfault"), None);
    assert!(!crashing.log().contains("BUG REPORT"), "{}", crashing.log());
}

#[cfg(target_os = "linux")]
#[test]
fn the_score_for_the_kernel_follows_the_settings() {
    let server = Server::start(&["--workers", "1"]);
    let mut client = server.client();
    let path = format!("/proc/{}/oom_score_adj", server.id());
    let score = || std::fs::read_to_string(&path).unwrap().trim().parse::<i64>().unwrap();
    let base = score();
    assert_eq!(client.call("config set oom-score-adj-values \"10 20 30\""), "+OK");
    assert_eq!(score(), base, "nothing is touched while it is off");
    for (setting, wanted) in [
        ("oom-score-adj yes", base + 10),
        ("oom-score-adj-values \"15 20 30\"", base + 15),
        ("oom-score-adj absolute", 15),
        ("oom-score-adj relative", base + 15),
        ("oom-score-adj no", base),
    ] {
        assert_eq!(client.call(&format!("config set {setting}")), "+OK");
        assert_eq!(score(), wanted.min(1000), "{setting}");
    }
    let server = Server::start(&["--oom-score-adj", "absolute", "--oom-score-adj-values", "25", "200", "800"]);
    let path = format!("/proc/{}/oom_score_adj", server.id());
    assert_eq!(std::fs::read_to_string(path).unwrap().trim(), "25");
}
