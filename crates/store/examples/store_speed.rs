//! How fast the embedded store is filled, read and overwritten, and how many bytes it writes for one that it is given.
//!
//! `cargo run --release -p store --example store_speed -- FOLDER [ENTRIES [none|lz4 [OVERWRITES]]]`; the folder must be
//! on the disk that is meant, and is removed.

#![allow(clippy::disallowed_methods, reason = "an example that measures time")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use store::conformance::noise;
use store::{Batch, Compression, Embedded, Figures, Limits, Settings, Store};

/// Entries in a batch.
const BATCH: u64 = 1000;

/// Reads that are timed together.
const READS: u64 = 200_000;

/// CPU time of this process.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or("").split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// A key as the engine makes them: kind, generation, slot, hash, name. In the order of `place`.
fn key(place: u64, entries: u64) -> Vec<u8> {
    let slot = (place * 16384 / entries) as u16;
    let hash = place.wrapping_mul(1 << 20) | (place.wrapping_mul(0x9e37_79b9) & 0xf_ffff);
    [b"\x01\0\0\0\x01".as_slice(), &slot.to_be_bytes(), &hash.to_be_bytes(), format!("user:{place:09}").as_bytes()]
        .concat()
}

/// 171 bytes, of which 100 do not compress: an entry has 200.
fn value(place: u64, round: u64) -> Vec<u8> {
    noise(place << 8 | round)
        .take(100)
        .chain(b" some text that is the same in all values, as field names are.. ".iter().copied().cycle().take(71))
        .collect()
}

fn open(folder: &Path, compression: Compression, cache: u64) -> Embedded {
    let start = Instant::now();
    let limits = Limits { cache, compression, ..Limits::default() };
    let settings = Settings { node: [1; 16], at_least: 0, limits, clock: Arc::new(move || start.elapsed()) };
    Embedded::open(folder, &settings).expect("a store")
}

fn report(what: &str, store: &Embedded, before: &Figures, start: Instant, cpu_before: Duration) {
    let now = store.figures();
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let taken = now.bytes_taken - before.bytes_taken;
    let flushed = now.bytes_flushed - before.bytes_flushed;
    let spilled = now.bytes_spilled - before.bytes_spilled;
    let compacted = now.bytes_compacted - before.bytes_compacted;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{what}: {seconds:.1} s, {:.1} s CPU, {:.0} MB taken ({:.0} MB/s); written {:.0} flushed + {:.0} spilled + {:.0} compacted = {:.2} bytes for one; \
         on disk {:.0} MB in {} tables, {} runs; longest flush {} ms",
        (cpu() - cpu_before).as_secs_f64(),
        mb(taken),
        mb(taken) / seconds,
        mb(flushed),
        mb(spilled),
        mb(compacted),
        (flushed + spilled + compacted) as f64 / taken as f64,
        mb(now.bytes_on_disk),
        now.tables,
        now.runs,
        now.flush_us_max / 1000,
    );
}

fn fill(store: &Embedded, count: u64, flush_at: u64, places: impl Fn(u64) -> (Vec<u8>, Vec<u8>)) {
    let mut batch = Batch::new();
    for n in 0..count {
        let (key, value) = places(n);
        batch.put(&key, &value);
        if batch.len() as u64 == BATCH || n + 1 == count {
            store.write(&batch).expect("written");
            batch.clear();
            if store.figures().bytes_unflushed > flush_at {
                store.flush().expect("flushed");
            }
        }
    }
    store.flush().expect("flushed");
}

fn reads(what: &str, store: &Embedded, key: impl Fn(u64) -> Vec<u8>, present: bool) {
    let keys: Vec<_> = (0..READS).map(|n| key(n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    let before = store.figures();
    let (start, cpu_before) = (Instant::now(), cpu());
    let mut times = Vec::with_capacity(keys.len());
    for key in &keys {
        let one = Instant::now();
        assert_eq!(store.get(key).expect("read").is_some(), present);
        times.push(one.elapsed());
    }
    let each = start.elapsed().as_secs_f64() * 1e6 / READS as f64;
    let cpu = (cpu() - cpu_before).as_secs_f64() * 1e6 / READS as f64;
    times.sort_unstable();
    let now = store.figures();
    let at = |part: f64| times[(times.len() as f64 * part) as usize].as_nanos() as f64 / 1000.0;
    println!(
        "{what}: {each:.2} us each, {cpu:.2} us CPU; P50 {:.2}, P99 {:.2}, P99.9 {:.1} us; {:.2} blocks read from files each",
        at(0.5),
        at(0.99),
        at(0.999),
        (now.cache_misses - before.cache_misses) as f64 / READS as f64
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("a folder");
    let folder = Path::new(&folder);
    let entries: u64 = arguments.next().map_or(10_000_000, |n| n.parse().expect("a number"));
    let compression = match arguments.next().as_deref() {
        Some("none") => Compression::None,
        _ => Compression::Lz4,
    };
    let overwrites: u64 = arguments.next().map_or(entries / 2, |n| n.parse().expect("a number"));
    println!("{entries} entries, {compression:?}");
    let _ = std::fs::remove_dir_all(folder);
    let store = open(folder, compression, 64 << 20);
    let at = || (store.figures(), Instant::now(), cpu());

    let (before, start, used) = at();
    fill(&store, entries, 48 << 20, |n| (key(n, entries), value(n, 0)));
    report("filled in order", &store, &before, start, used);
    store.settle();
    report("and compacted", &store, &before, start, used);

    let (before, start, used) = at();
    let scatter = |n: u64| n.wrapping_mul(7_368_787) % entries;
    fill(&store, overwrites, 48 << 20, |n| {
        let place = noise(n).take(8).fold(0, |sum, b| sum << 8 | u64::from(b)) % entries;
        (key(place, entries), value(place, 1))
    });
    report(&format!("{overwrites} overwritten at random"), &store, &before, start, used);
    store.settle();
    report("and compacted", &store, &before, start, used);
    drop(store);

    // With the right to do so, the cache of the system is emptied, so that files are read from the disk.
    let cold = std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok();
    let start = Instant::now();
    let store = open(folder, compression, 64 << 20);
    println!(
        "opened in {:.0} ms, files {}",
        start.elapsed().as_secs_f64() * 1e3,
        if cold { "on disk" } else { "in memory" }
    );
    println!("indexes and filters in memory: {} MB", store.figures().pinned_bytes / 1_000_000);
    reads("present, from files, cold", &store, |n| key(scatter(n % entries), entries), true);
    reads("present, from files, the same again", &store, |n| key(scatter(n % entries), entries), true);
    reads("absent", &store, |n| [key(scatter(n % entries), entries), vec![1]].concat(), false);
    let hot = |n: u64| key(n % (entries / 200).max(1), entries);
    reads("present, few keys, at first", &store, hot, true);
    reads("present, from the cache", &store, hot, true);
    let start = Instant::now();
    let count = store.snapshot().prefix(&[1]).inspect(|entry| assert!(entry.is_ok())).count();
    println!("scanned {count}: {:.2} us each", start.elapsed().as_secs_f64() * 1e6 / count as f64);
    drop(store);
    let start = Instant::now();
    let report = store::check(folder).expect("checked");
    assert!(report.is_whole());
    println!("checked {} MB in {:.1} s", report.bytes / 1_000_000, start.elapsed().as_secs_f64());
    let _ = std::fs::remove_dir_all(folder);
}
