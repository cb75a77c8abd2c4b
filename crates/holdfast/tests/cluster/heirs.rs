//! The standby of a switchover dies after the owner has frozen the shard, and before it takes over: the owner goes on.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::standbys::{Copied, PATIENCE};
use crate::switchovers::is_at;

/// Bytes of a frame before its body, and the kinds and requests that a relay knows (`membership/src/frame.rs` and
/// `membership/src/control/links.rs`).
const HEADER: usize = 12;
const REQUEST: u16 = 2;
const RESPONSE: u16 = 3;
const COMMAND: u8 = 7;
const YIELD: u8 = 13;

/// Where the others reach a node: the last one behind its relay.
fn address(node: usize) -> String {
    if node == 2 { "127.0.2.3".to_owned() } else { "127.0.0.1".to_owned() }
}

/// A relay in front of the leader of the metadata. It loses every yield, and the answers to what the node that yields asks
/// of the metadata: they know then what that node does not hear.
#[derive(Clone, Default)]
struct Relay {
    has_yielded: Arc<AtomicBool>,
    /// It loses nothing any more.
    is_over: Arc<AtomicBool>,
}

/// A connection that it passes on.
#[derive(Default)]
struct Link {
    /// What comes is no frames: copies of a log.
    is_raw: AtomicBool,
    /// The numbers of requests whose answers are lost.
    lost: Mutex<BTreeSet<u64>>,
    has_yielded: AtomicBool,
}

impl Relay {
    /// Takes what comes for the last of these nodes.
    fn begin(&self, ports: &[u16]) {
        let (relay, port) = (self.clone(), ports[2] + 10_000);
        let listener = TcpListener::bind((address(2), port)).unwrap();
        thread::spawn(move || listener.incoming().flatten().for_each(|from| relay.connect(&from, port)));
    }

    fn connect(&self, from: &TcpStream, port: u16) {
        let Ok(to) = TcpStream::connect(("127.0.0.1", port)) else { return };
        let link = Arc::new(Link::default());
        for (from, to) in [(from, &to), (&to, from)].map(|(a, b)| (a.try_clone().unwrap(), b.try_clone().unwrap())) {
            let (relay, link) = (self.clone(), Arc::clone(&link));
            thread::spawn(move || relay.pass(from, to, &link));
        }
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream, link: &Link) {
        let (mut bytes, mut more) = (Vec::new(), vec![0; 1 << 16]);
        while let Ok(count) = from.read(&mut more)
            && count > 0
        {
            bytes.extend_from_slice(&more[..count]);
            let mut out = Vec::new();
            while let Some(size) = first(&bytes, link) {
                let frame: Vec<u8> = bytes.drain(..size).collect();
                if !self.loses(&frame, link) {
                    out.extend(frame);
                }
            }
            if to.write_all(&out).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    }

    fn loses(&self, frame: &[u8], link: &Link) -> bool {
        if self.is_over.load(SeqCst) || link.is_raw.load(SeqCst) || frame.len() < HEADER + 9 {
            return false;
        }
        let (kind, number) = (number(frame, 10, 2) as u16, number(frame, HEADER, 8));
        match (kind, frame[HEADER + 8]) {
            (REQUEST, YIELD) => {
                link.has_yielded.store(true, SeqCst);
                self.has_yielded.store(true, SeqCst);
                true
            }
            (REQUEST, COMMAND) if link.has_yielded.load(SeqCst) => {
                link.lost.lock().unwrap().insert(number);
                false
            }
            (RESPONSE, _) => link.lost.lock().unwrap().remove(&number),
            _ => false,
        }
    }
}

fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    bytes[at..at + size].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The bytes that belong together, once all of them are there: a frame, or whatever has come.
fn first(bytes: &[u8], link: &Link) -> Option<usize> {
    if bytes.len() >= HEADER && (number(bytes, 8, 2) != 1 || number(bytes, 10, 2) > 5) {
        link.is_raw.store(true, SeqCst);
    }
    let size = match link.is_raw.load(SeqCst) {
        true => bytes.len().max(1),
        false if bytes.len() < HEADER => return None,
        false => HEADER + number(bytes, 0, 4) as usize,
    };
    (size <= bytes.len()).then_some(size)
}

/// Waits until the last node leads the metadata: whichever other one does starts again.
fn is_led_by_the_last(copied: &mut Copied) {
    // Each election is a toss between two.
    let end = Instant::now() + 3 * PATIENCE;
    loop {
        let status = copied.nodes.client(2).call("cluster status");
        let leads = |node: &usize| {
            status.contains(&format!("metadata led by {}:{},", address(*node), copied.nodes.ports[*node]))
        };
        match (0..3).find(leads) {
            Some(2) => return,
            Some(node) => {
                copied.nodes.kill(node);
                copied.nodes.start(node);
                copied.nodes.serves(0);
                copied.nodes.until(2, "cluster status", |status| status.contains("3 of 3"));
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
        assert!(Instant::now() < end, "the last node does not lead: {status}");
    }
}

fn wait(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "in vain: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The owner asks for its own next term then. The metadata give it, and the answer does not arrive. A shard that stayed
/// frozen looked well, and was served by nobody.
#[test]
fn an_owner_whose_heir_dies_serves_again_though_the_answer_to_it_is_lost() {
    let relay = Relay::default();
    let mut copied = Copied::behind(address, "cluster-takeover-wait 60000\n", |ports| relay.begin(ports));
    is_led_by_the_last(&mut copied);
    copied.stands_by();
    is_at(&copied, 0);
    copied.sets(2, 50);
    assert_eq!(copied.nodes.client(1).call("cluster failover"), "+OK");
    wait("the owner yields", || relay.has_yielded.load(SeqCst));
    copied.nodes.kill(1);
    // Unless another node leads by now, and has answered.
    let has_ended = |log: &str| ["is not led again", "stays here"].iter().any(|words| log.contains(words));
    wait("the owner asks for its next term", || has_ended(&copied.nodes.log(0)));
    relay.is_over.store(true, SeqCst);
    copied.sets(2, 50);
    copied.has_all(2);
    // In the process that it was: no client of it was disconnected.
    assert!(!copied.nodes.log(0).contains("starts again"));
    copied.nodes.start(1);
    copied.nodes.until(2, "cluster status", |status| status.contains("electable"));
    copied.has_all(1);
}
