//! A short form of `tests/histories/run` for clusters with copies.

use std::path::Path;
use std::process::Command;

/// The program of histories; its page says what it needs.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/histories/run");

/// Processes of all roles are killed twenty times, alone, in pairs and amid other faults, in the time that there is.
const RUN: &str =
    "kill_pair+kill_again+kill_amid+kill_switchover --copies 2 --kills 20 --seconds 100 --pause-max 5 --installed";

/// Network namespaces can be had here, and Python.
fn can_run() -> bool {
    let succeeds = |program: &str, arguments: &[&str]| {
        Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
    };
    succeeds("python3", &["--version"])
        && succeeds("ip", &["-V"])
        && succeeds(
            "unshare",
            &["--net", "--mount", "--pid", "--fork", "--mount-proc", "ip", "link", "set", "lo", "up"],
        )
}

/// What clients were told can have happened in one strictly serializable store, and everything is well again. Without root
/// it is skipped.
#[test]
fn nothing_is_lost_when_processes_of_a_cluster_with_copies_are_killed() {
    if !can_run() {
        return;
    }
    let mut command = Command::new("python3");
    command.arg(Path::new(PROGRAM)).args(RUN.split(' ')).args(["--server", env!("CARGO_BIN_EXE_holdfast")]);
    let run = command.output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}\n{}", String::from_utf8_lossy(&run.stderr));
    assert!(said.contains(" kills"), "{said}");
}
