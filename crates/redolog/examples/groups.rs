//! The cost of group commit: one worker serves clients that wait for their replies, each reply taking so much work.
//!
//! `cargo run --release -p redolog@0.1.0 --example groups -- FOLDER CLIENTS WORK_US SECONDS [TURN]`: with `TURN` the
//! worker rings after so many requests, otherwise when nothing is left to do. Compares CPU per request with the same
//! work and no log.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread;
use std::time::Instant;

use redolog::{Fsync, Limits, Lsn, Opened, Record, Settings};

/// CPU time of the process in microseconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("the process");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split(' ').collect();
    (fields[12].parse::<f64>().unwrap_or(0.0) + fields[13].parse::<f64>().unwrap_or(0.0)) * 10_000.0
}

#[expect(clippy::disallowed_methods, reason = "it measures")]
fn work(us: u64) {
    let began = Instant::now();
    while began.elapsed().as_nanos() < u128::from(us) * 1000 {
        std::hint::spin_loop();
    }
}

#[expect(clippy::disallowed_methods, reason = "it measures")]
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, or: u64| args.get(i).and_then(|text| text.parse().ok()).unwrap_or(or);
    let (clients, us, seconds, turn) = (number(1, 50), number(2, 5), number(3, 5), number(4, u64::MAX));
    let began = Instant::now();
    let settings = |fsync| Settings {
        limits: Limits::default(),
        fsync,
        clock: Arc::new(move || began.elapsed().as_nanos() as u64),
        seed: 1,
    };
    let (mut count, before, start) = (0u64, cpu(), Instant::now());
    while start.elapsed().as_secs() < seconds {
        work(us);
        count += 1;
    }
    println!("no log: {:.2} us per request", (cpu() - before) / count as f64);
    for fsync in [Fsync::Always, Fsync::Everysec] {
        let folder = PathBuf::from(&args[0]);
        let opened = Opened::new(std::slice::from_ref(&folder), &[]).expect("a log");
        let (log, mut gates) = opened.start([1; 16], Lsn::ZERO, 1, settings(fsync)).expect("a log");
        let gate = &mut gates[0][0];
        let (worker, moved) = (thread::current(), Arc::new(AtomicBool::new(false)));
        let flag = moved.clone();
        log.on_moved(Box::new(move || {
            flag.store(true, SeqCst);
            worker.unpark();
        }));
        let mut waiting: VecDeque<Lsn> = VecDeque::new();
        let (mut ready, mut count, mut rung) = (clients, 0u64, 0);
        let (before, start) = (cpu(), Instant::now());
        while start.elapsed().as_secs() < seconds {
            let mark = log.marks().of(0);
            while waiting.front().is_some_and(|lsn| *lsn <= mark) {
                waiting.pop_front();
                ready += 1;
                count += 1;
            }
            if ready == 0 {
                log.ring(0);
                while !moved.swap(false, SeqCst) {
                    thread::park();
                }
                continue;
            }
            work(us);
            let lsn = gate.enter().above(0);
            gate.leave(lsn, |out| Record::encode(lsn, &[], &[7; 150], out));
            gate.exit();
            waiting.push_back(lsn);
            ready -= 1;
            rung += 1;
            if rung % turn == 0 {
                log.ring(0);
            }
        }
        let (used, took) = (cpu() - before, start.elapsed().as_secs_f64());
        let facts = log.facts(0);
        println!(
            "{fsync:?}: {:.2} us per request, {:.0} a second, groups of {:.1}, last sync {} us",
            used / count as f64,
            count as f64 / took,
            facts.records as f64 / facts.groups as f64,
            facts.last_sync / 1000
        );
        println!("  syncs by 2^i us: {:?}", &facts.syncs[..16]);
        log.stop();
        std::fs::remove_dir_all(folder).expect("the folder");
    }
}
