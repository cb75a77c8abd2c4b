//! Figures of the heap for entries: time of an allocation and release, overhead per block, what a churn leaves.
//!
//! `cargo run --release -p keyspace --example heap [BLOCKS] [THREADS]` (5,000,000 and 2 unless said otherwise).

#![allow(clippy::disallowed_methods, reason = "a stopwatch needs the clock")]

use std::{ptr::NonNull, sync::Barrier, time::Instant};

use keyspace::heap::{Heap, LocalHeap, usable};

/// Header, and a key of 16 bytes: what an entry has beside its value.
const FIXED: usize = 16 + 16;

#[derive(Clone, Copy)]
struct Block {
    at: NonNull<u8>,
    size: usize,
}

// SAFETY: moved to the thread that owns it.
unsafe impl Send for Block {}

struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (((self.next() >> 32) * n as u64) >> 32) as usize
    }

    /// A value of 16 to 512 bytes.
    fn entry(&mut self) -> usize {
        FIXED + 16 + self.below(497)
    }
}

fn make(local: &mut LocalHeap, size: usize) -> Block {
    let at = local.alloc(size);
    // SAFETY: ours, of that size.
    unsafe { at.write_bytes(size as u8, size) };
    Block { at, size }
}

fn free(local: &mut LocalHeap, block: Block) {
    // SAFETY: ours, of that size, and not used again.
    unsafe { local.free(block.at, block.size) };
}

fn rss() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

/// Nanoseconds for each of `n` runs of `work`, the least of five rounds.
fn time(n: usize, mut work: impl FnMut(usize)) -> f64 {
    (0..5)
        .map(|_| {
            let start = Instant::now();
            (0..n).for_each(&mut work);
            start.elapsed().as_nanos() as f64 / n as f64
        })
        .fold(f64::MAX, f64::min)
}

fn pairs() {
    let heap = Heap::new();
    let mut local = heap.local();
    let mut numbers = Numbers(1);
    let sizes: Vec<usize> = (0..4096).map(|_| numbers.entry()).collect();
    let one = time(4_000_000, |_| {
        let at = std::hint::black_box(local.alloc(176));
        // SAFETY: just allocated.
        unsafe { local.free(at, 176) };
    });
    let mixed = time(4_000_000, |i| {
        let size = sizes[i % 4096];
        let at = std::hint::black_box(local.alloc(size));
        // SAFETY: just allocated.
        unsafe { local.free(at, size) };
    });
    // A working set of 4,096 blocks in random order: magazines run over and empty.
    let mut blocks: Vec<Block> = sizes.iter().map(|&s| make(&mut local, s)).collect();
    let set = time(2_000_000, |i| {
        let at = numbers.below(4096);
        free(&mut local, blocks[at]);
        let size = sizes[i % 4096];
        blocks[at] = Block { at: local.alloc(size), size };
    });
    blocks.into_iter().for_each(|b| free(&mut local, b));
    println!(
        "alloc+free: one size {one:.1} ns, mixed sizes {mixed:.1} ns, random replacement in a small set {set:.1} ns"
    );
}

fn report(what: &str, heap: &Heap, base: usize, count: usize) -> usize {
    let (stats, rss) = (heap.stats(), rss().saturating_sub(base));
    let per = |bytes: usize| bytes as f64 / count as f64;
    println!(
        "{what}: per block {:.1} bytes asked for, {:.2} rounding, {:.2} other; RSS {:.2} over what was asked for; \
         pages {} full, {} partial; {:.2} free in pages, ready {} KB",
        per(stats.requested),
        per(stats.live - stats.requested),
        per(stats.held) - per(stats.live),
        per(rss) - per(stats.requested),
        stats.pages_full,
        stats.pages_partial,
        per(stats.free_in_pages),
        stats.ready >> 10,
    );
    rss
}

fn load_and_churn(count: usize) {
    let heap = Heap::new();
    let mut local = heap.local();
    let mut numbers = Numbers(2);
    let mut blocks: Vec<Block> = Vec::with_capacity(count);
    blocks.resize(count, Block { at: NonNull::dangling(), size: 0 });
    let base = rss();
    let start = Instant::now();
    blocks.iter_mut().for_each(|b| *b = make(&mut local, numbers.entry()));
    println!("load: {:.0} ns a block, with writing it", start.elapsed().as_nanos() as f64 / count as f64);
    let fresh = report("fresh load", &heap, base, count);

    let start = Instant::now();
    for _ in 0..2 * count {
        let at = numbers.below(count);
        free(&mut local, blocks[at]);
        blocks[at] = make(&mut local, numbers.entry());
    }
    println!("churn: {:.0} ns a replacement, with writing it", start.elapsed().as_nanos() as f64 / (2 * count) as f64);
    let churned = report("after a churn of all sizes", &heap, base, count);
    println!("RSS {:.3} of fresh", churned as f64 / fresh as f64);

    // Nine of ten of the blocks now get other sizes: the classes of the old ones are left sparse.
    for block in &mut blocks {
        if numbers.below(10) > 0 {
            free(&mut local, *block);
            *block = make(&mut local, 600 + numbers.below(100));
        }
    }
    report("after a change of sizes", &heap, base, count);
    let start = Instant::now();
    let mut moved = 0;
    for _ in 0..2 {
        for block in &mut blocks {
            // SAFETY: ours, of that size.
            unsafe {
                if heap.is_sparse(block.at, block.size)
                    && let Some(at) = local.relocate(block.at, block.size)
                {
                    block.at = at;
                    moved += 1;
                }
            }
        }
    }
    local.flush();
    while !heap.trim(64) {}
    println!("two passes of moving: {moved} moved in {} ms", start.elapsed().as_millis());
    let after = report("after moving", &heap, base, count);
    drop(local);
    let (live, heap) = (heap.stats().live, (heap, blocks));
    println!("RSS {:.3} of live", after as f64 / live as f64);
    drop(heap);
}

/// All workers replace random blocks of one common set: nearly every free is of a block that another allocated.
fn shared_churn(count: usize, threads: usize) {
    const SLOTS: usize = 1024;
    let heap = Heap::new();
    let per_slot = count / SLOTS;
    let slots: Vec<std::sync::Mutex<Vec<Block>>> = (0..SLOTS).map(|_| std::sync::Mutex::default()).collect();
    let mut local = heap.local();
    let mut numbers = Numbers(3);
    for slot in &slots {
        slot.lock().unwrap().extend((0..per_slot).map(|_| make(&mut local, numbers.entry())));
    }
    for active in (1..=threads).filter(|n| n.is_power_of_two() || *n == threads) {
        let barrier = Barrier::new(active);
        let operations = count;
        let nanos: Vec<f64> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..active)
                .map(|id| {
                    let (heap, slots, barrier) = (&heap, &slots, &barrier);
                    scope.spawn(move || {
                        let mut local = heap.local();
                        let mut numbers = Numbers(id as u64 + 10);
                        barrier.wait();
                        let start = Instant::now();
                        for _ in 0..operations {
                            let slot = &mut slots[numbers.below(SLOTS)].lock().unwrap();
                            let at = numbers.below(per_slot);
                            let size = numbers.entry();
                            if usable(slot[at].size) != usable(size) {
                                free(&mut local, slot[at]);
                                slot[at] = Block { at: local.alloc(size), size };
                            }
                        }
                        start.elapsed().as_nanos() as f64 / operations as f64
                    })
                })
                .collect();
            workers.into_iter().map(|w| w.join().unwrap()).collect()
        });
        let mean = nanos.iter().sum::<f64>() / active as f64;
        println!("shared churn, {active} threads: {mean:.0} ns a replacement (slot's lock and cold table included)");
    }
    for slot in &slots {
        slot.lock().unwrap().drain(..).for_each(|b| free(&mut local, b));
    }
}

fn main() {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<usize>().unwrap_or(1));
    let count = args.next().unwrap_or(5_000_000).max(1024);
    let threads = args.next().unwrap_or(2).max(1);
    pairs();
    load_and_churn(count);
    shared_churn(count / 5, threads);
}
