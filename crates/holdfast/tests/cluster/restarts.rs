//! A node that is killed and starts again costs clients of the others a pause, and no error.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::nodes::{lists_of, ports, start, until_ok};
use crate::support::{Client, Scratch, Server};

/// Longer than a start takes on a slow machine. By default it is 2.5 s.
const WAITS: &[&str] = &["--cluster-takeover-wait", "60000"];

#[test]
fn a_node_that_is_killed_and_starts_again_costs_no_error() {
    let ports = ports(3);
    let seeds = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",");
    let dirs: Vec<Scratch> = (0..3).map(|_| Scratch::new()).collect();
    let mut servers: Vec<Server> = (0..3).map(|i| start(ports[i], &seeds, &dirs[i], WAITS)).collect();
    servers.iter().for_each(until_ok);
    let lists = lists_of(&ports, &servers[0]);
    let (ended, counted, closed) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (lists, ended, counted, closed, port) = (&lists, &ended, &counted, &closed, ports[0]);
            scope.spawn(move || {
                let mut client = Client::connect(port).expect("a connection");
                let (key, own) = (format!("{{{}}}:{number}", lists[1]), format!("{{{}}}:{number}", lists[0]));
                let commands = [format!("incr {key}"), format!("get {key}"), format!("set {own} 1")];
                for turn in 0.. {
                    if ended.load(Relaxed) {
                        break;
                    }
                    match client.try_call(&commands[turn % 3usize]) {
                        Some(reply) => assert!(!reply.starts_with('-'), "{reply}"),
                        // A command that may have been executed has lost its reply (rule T9).
                        None => {
                            closed.fetch_add(1, Relaxed);
                            client = Client::connect(port).expect("a connection");
                        }
                    }
                    counted.fetch_add(1, Relaxed);
                }
            });
        }
        let _ends = crate::nodes::Ends(&ended);
        for _ in 0..3 {
            let wanted = counted.load(Relaxed) + 200;
            let end = Instant::now() + Duration::from_secs(120);
            while counted.load(Relaxed) < wanted {
                assert!(Instant::now() < end, "clients are not answered any more");
                std::thread::sleep(Duration::from_millis(10));
            }
            drop(servers.remove(1));
            servers.insert(1, start(ports[1], &seeds, &dirs[1], WAITS));
            servers.iter().for_each(until_ok);
        }
    });
    assert!(closed.load(Relaxed) <= 4 * 3, "each connection once for each kill, at most");
}
