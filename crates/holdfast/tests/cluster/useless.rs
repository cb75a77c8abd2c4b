//! An owner that is alive and of no use gives way to a standby that is of use (rule S13).

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crate::standbys::{Copied, PATIENCE};

/// Where the others reach a node: behind its relay, if there is one.
fn address(node: usize) -> String {
    format!("127.0.1.{}", node + 1)
}

/// Relays between the nodes. Connections for copies of a log stand still where that is wanted, and no others.
#[derive(Clone, Default)]
struct Relays {
    stands_still: Arc<AtomicBool>,
    /// Probes of the copies stand still, too.
    takes_probes: Arc<AtomicBool>,
}

impl Relays {
    /// Takes what comes for the nodes of a cluster, whose ports are these.
    fn begin(&self, ports: &[u16]) {
        for (node, port) in ports.iter().map(|port| port + 10_000).enumerate() {
            let (listener, relays) = (TcpListener::bind((address(node), port)).unwrap(), self.clone());
            thread::spawn(move || listener.incoming().flatten().for_each(|from| relays.connect(from, port)));
        }
    }

    fn connect(&self, from: TcpStream, port: u16) {
        let Ok(to) = TcpStream::connect(("127.0.0.1", port)) else { return };
        let is_of_copy = Arc::<AtomicBool>::default();
        for (from, to) in [(&from, &to), (&to, &from)].map(|(a, b)| (a.try_clone().unwrap(), b.try_clone().unwrap())) {
            let (relays, is_of_copy) = (self.clone(), is_of_copy.clone());
            thread::spawn(move || relays.pass(from, to, &is_of_copy));
        }
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream, is_of_copy: &AtomicBool) {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count) = from.read(&mut bytes)
            && count > 0
        {
            let has = |word: &[u8; 8]| bytes[..count].windows(8).any(|found| found == word);
            if has(b"HOLDCOPY") || self.takes_probes.load(SeqCst) && has(b"HOLDPROB") {
                is_of_copy.store(true, SeqCst);
            }
            while is_of_copy.load(SeqCst) && self.stands_still.load(SeqCst) {
                thread::sleep(Duration::from_millis(5));
            }
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
    }
}

/// Waits until the leader of the metadata gives the shard to the standby.
fn is_taken_over(copied: &Copied) {
    let end = Instant::now() + PATIENCE;
    while !(0..3).any(|node| copied.nodes.log(node).contains("takes over shard 1: its owner has not renewed its lease"))
    {
        assert!(Instant::now() < end, "it stays with its owner: {:?}", copied.nodes.client(2).call("cluster status"));
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_owner_whose_workers_stand_still_gives_way() {
    let mut copied = Copied::with("enable-debug-command yes\n");
    copied.stands_by();
    copied.sets(2, 50);
    copied.nodes.client(0).send("debug sleep 100000");
    is_taken_over(&copied);
    copied.sets(2, 50);
    copied.has_all(2);
    // It begins anew as a standby, and is awake.
    copied.nodes.until(2, "cluster status", |status| status.contains("electable"));
    copied.has_all(0);
}

#[test]
fn an_owner_that_reaches_no_majority_gives_way_to_a_standby_that_does() {
    let relays = Relays::default();
    let mut copied = Copied::behind(address, "", |ports| relays.begin(ports));
    copied.stands_by();
    copied.sets(2, 50);
    relays.stands_still.store(true, SeqCst);
    // The owner has something to confirm, and cannot.
    copied.nodes.client(0).send("set waiting 1");
    is_taken_over(&copied);
    relays.stands_still.store(false, SeqCst);
    copied.sets(2, 50);
    copied.has_all(2);
}

/// No standby would be of use where the copies themselves stand still: the owner keeps its lease, and goes on with them.
#[test]
fn an_owner_stays_whose_copies_nobody_reaches() {
    let relays = Relays::default();
    relays.takes_probes.store(true, SeqCst);
    let mut copied = Copied::behind(address, "", |ports| relays.begin(ports));
    copied.stands_by();
    copied.sets(2, 50);
    relays.stands_still.store(true, SeqCst);
    let mut waiting = copied.nodes.client(0);
    waiting.send("set waiting 1");
    // Twice as long as an owner may go on of which somebody knows better.
    thread::sleep(Duration::from_secs(12));
    relays.stands_still.store(false, SeqCst);
    assert_eq!(waiting.reply(), "+OK");
    assert!((0..3).all(|node| !copied.nodes.log(node).contains("takes over shard 1")));
    copied.has_all(2);
}
