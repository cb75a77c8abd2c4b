//! How fast a log is read: `cargo run --release -p redolog@0.1.0 --example recovery -- FOLDER MEGABYTES
//! BYTES_PER_RECORD [STREAMS]` writes one and reads it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use redolog::{Fsync, Limits, Lsn, Opened, Record, Settings};

/// CPU time of the process in seconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("the process");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split(' ').collect();
    (fields[12].parse::<f64>().unwrap_or(0.0) + fields[13].parse::<f64>().unwrap_or(0.0)) / 100.0
}

#[expect(clippy::disallowed_methods, reason = "it measures")]
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, or: u64| args.get(i).and_then(|text| text.parse().ok()).unwrap_or(or);
    let (bytes, size, streams) = (number(1, 1000) << 20, number(2, 150), number(3, 1));
    let folders: Vec<PathBuf> = (0..streams).map(|i| PathBuf::from(&args[0]).join(i.to_string())).collect();
    let began = Instant::now();
    let clock: redolog::Clock = Arc::new(move || began.elapsed().as_nanos() as u64);
    let settings = Settings { limits: Limits::default(), fsync: Fsync::No, clock, seed: 1 };
    let opened = Opened::new(&folders, &[]).expect("a log");
    let (log, mut gates) = opened.start([1; 16], Lsn::ZERO, 1, settings).expect("a log");
    let body = vec![7; size as usize];
    let mut last = Lsn::ZERO;
    for i in 0..bytes / size {
        let stream = i % streams;
        let gate = &mut gates[0][stream as usize];
        let lsn = gate.enter().max(last).above(stream as u16);
        let before: &[Lsn] = if last > Lsn::ZERO && streams > 1 { &[last] } else { &[] };
        gate.leave(lsn, |out| Record::encode(lsn, before, &body, out));
        gate.exit();
        last = lsn;
        if i % 64 == 0 {
            (0..streams).for_each(|stream| log.ring(stream as u16));
        }
        // No more than a little ahead of the disk.
        while i % 65536 == 65535 && log.marks().of(stream as u16).0 + (1 << 21) < last.0 {
            std::thread::yield_now();
        }
    }
    println!("{:?}", log.stop());
    for _ in 0..3 {
        let (start, before) = (Instant::now(), cpu());
        let mut opened = Opened::new(&folders, &[]).expect("a log");
        let (read, reading) = (start.elapsed(), cpu() - before);
        let (mut count, mut sum) = (0u64, 0u64);
        let (start, before) = (Instant::now(), cpu());
        opened
            .replay(|record| {
                count += 1;
                sum += record.effects.len() as u64;
            })
            .expect("records");
        let (replayed, replaying) = (start.elapsed(), cpu() - before);
        println!("{count} records, {} MB", sum >> 20);
        println!("  read in {read:?} ({reading:.2} s of CPU), replayed in {replayed:?} ({replaying:.2} s)");
    }
}
