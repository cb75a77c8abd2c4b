//! Counts the memory that a log holds. At a start: the tail that it writes again may be as long as three segments, and
//! a start that does not fit would follow every kill. And after a large write: the log does not hold that any more.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use redolog::{After, Folder, Fsync, Limits, Lsn, Opened, Record, Settings};

/// The system's allocator, with the number of bytes in use now, and their maximum.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
/// One test counts at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn count(more: usize, less: usize) {
    let held = HELD.fetch_add(more, Relaxed).wrapping_add(more);
    HELD.fetch_sub(less, Relaxed);
    MOST.fetch_max(held, Relaxed);
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(p, layout) }
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both exist while one is copied.
        count(size, layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.realloc(p, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The maximum of additional bytes held while this was done.
fn most<T>(done: impl FnOnce() -> T) -> (usize, T) {
    let before = HELD.load(Relaxed);
    MOST.store(before, Relaxed);
    let result = done();
    (MOST.load(Relaxed) - before, result)
}

const BLOCK: usize = 64 << 10;
/// Bytes read at once.
const CHUNK: usize = 1 << 20;

fn settings() -> Settings {
    let limits = Limits { segment: 8 << 20, spares: 0, reserve: 0, block: BLOCK };
    Settings { limits, fsync: Fsync::No, clock: Arc::new(|| 1), seed: 7 }
}

/// A life of the log: it finds so many records, leaves some of these sizes, and is killed. Returns the bytes that it
/// held until it had started.
fn live(folder: &Path, found: usize, sizes: &[usize]) -> usize {
    let (held, (log, mut gates, mut streams)) = most(|| {
        let mut opened = Opened::of(vec![Folder::new(folder).expect("a folder")], &[]).expect("a log");
        let mut there = 0;
        opened.replay(|_| there += 1).expect("its records");
        assert_eq!(there, found);
        opened.start_by_hand([1; 16], Lsn(0), 1, settings()).expect("a start")
    });
    let (gate, effects) = (&mut gates[0][0], vec![5; sizes.iter().copied().max().unwrap_or(0)]);
    for (size, number) in sizes.iter().zip(1..) {
        let lsn = gate.enter().above(0);
        gate.leave(lsn, |out| Record::encode(lsn, &[], &effects[..*size], out));
        gate.exit();
        if number % 50 == 0 || *size > BLOCK || number == sizes.len() {
            assert_ne!(streams[0].step(true), After::End);
        }
    }
    assert_eq!(log.backlog(), 0);
    held
}

#[test]
fn a_start_holds_a_record_and_a_block_however_long_the_tail_is() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = std::env::temp_dir().join(format!("holdfast-log-held-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let nothing = live(&folder, 0, &vec![1000; 20_000]);
    // A group of records, the block that is written, the bytes that are read, and the former cost.
    let most = nothing + 8 * BLOCK + CHUNK;
    let first = live(&folder, 20_000, &[]);
    assert!(first < most, "{first} bytes for a tail of 20 MB, {nothing} for none");
    // The tail that was written again is no longer than that to a reader, either.
    let second = live(&folder, 20_000, &[1000, 3 << 20, 1000]);
    assert!(second < most, "{second} bytes for a tail of 20 MB that had been written again, {nothing} for none");
    // A long record is held once, and its block as it grows.
    let third = live(&folder, 20_003, &[]);
    assert!(third < most + (3 << 20) + 2 * CHUNK, "{third} bytes for a record of 3 MB");
    let fourth = live(&folder, 20_003, &[]);
    assert!(fourth < most + (3 << 20) + 2 * CHUNK, "{fourth} bytes for a record of 3 MB");
    std::fs::remove_dir_all(folder).expect("removed");
}

#[test]
fn what_was_large_is_not_held_when_it_is_written() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = std::env::temp_dir().join(format!("holdfast-log-large-{}", std::process::id()));
    for fsync in [Fsync::Always, Fsync::No] {
        let _ = std::fs::remove_dir_all(&folder);
        let opened = Opened::of(vec![Folder::new(&folder).expect("a folder")], &[]).expect("a log");
        let limits = Limits { block: Limits::default().block, ..settings().limits };
        let settings = Settings { limits, fsync, ..settings() };
        let (log, mut gates, mut streams) = opened.start_by_hand([1; 16], Lsn(0), 1, settings).expect("a start");
        let gate = &mut gates[0][0];
        let mut write = |size: usize, records: usize| {
            for _ in 0..records {
                let lsn = gate.enter().above(0);
                gate.leave(lsn, |out| Record::encode(lsn, &[], &vec![5; size], out));
                gate.exit();
            }
            assert_ne!(streams[0].step(true), After::End);
            assert_eq!(log.backlog(), 0);
        };
        write(1000, 1);
        let before = HELD.load(Relaxed);
        // As one block, as several, and as many records.
        for (size, records) in [(10 << 20, 1), (40 << 20, 1), (100, 200_000)] {
            write(size, records);
            let more = HELD.load(Relaxed).saturating_sub(before);
            assert!(more < 10 << 20, "{more} bytes are held after {records} records of {size}, {fsync:?}");
        }
    }
    std::fs::remove_dir_all(folder).expect("removed");
}
