//! An agent that starts while nodes of the one before are ending.

use std::fs::{self, File};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Scratch, free_ports};

const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn the_port_of_a_node_that_is_ending_is_waited_for() {
    let (dir, port) = (Scratch::new(), free_ports(1));
    let taken = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let log = dir.path().join("output");
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.args(["server", "--bind", "127.0.0.1", "--port", &port.to_string(), "--dir"]).arg(dir.path());
    command.args(["--cluster-copies", "2", "--cluster-host", "one", "--cluster-seeds", &format!("127.0.0.1:{port}")]);
    command.stdin(Stdio::null()).stdout(File::create(&log).unwrap()).stderr(Stdio::null());
    let mut agent = command.spawn().unwrap();
    let mut says = |text: &str| {
        let end = Instant::now() + PATIENCE;
        loop {
            let said = fs::read_to_string(&log).unwrap();
            if said.contains(text) {
                return said;
            }
            let ended = agent.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < end, "in vain: {text}; {ended:?}; {said}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let said = says("are waited for");
    assert!(!said.contains("is started"), "{said}");
    drop(taken);
    says("All nodes of this machine accept connections");
    agent.kill().unwrap();
    agent.wait().unwrap();
}
