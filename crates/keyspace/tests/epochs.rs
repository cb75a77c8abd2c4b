//! Interleavings, under loom, of prefetching without a latch and of freeing: memory that a pinned worker can reach is
//! not freed.

#![allow(dead_code, reason = "modules of the library, of which this uses a part")]

#[path = "../src/epoch.rs"]
mod epoch;

/// Loom in place of the standard library.
mod sync {
    pub use loom::sync::Arc;
    pub use loom::sync::atomic::{AtomicU64, Ordering, fence};
}

/// Garbage that detects if it is freed while it is read.
mod table {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    pub struct Block(pub UnsafeCell<bool>);
    // SAFETY: loom checks the accesses.
    unsafe impl Sync for Block {}

    pub struct Garbage(pub Arc<Block>);

    impl Garbage {
        /// # Safety
        /// None is needed here.
        pub unsafe fn free(self) {
            // SAFETY: loom checks that nobody reads.
            self.0.0.with_mut(|freed| unsafe { *freed = true });
        }
    }
}

fn free(garbage: Garbage) {
    // SAFETY: loom checks it.
    unsafe { garbage.free() }
}

use epoch::{Epochs, Retired};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;
use table::{Block, Garbage};

/// A table's root that leads to one of some blocks.
struct Root {
    at: AtomicUsize,
    blocks: Vec<Arc<Block>>,
}

impl Root {
    fn new(blocks: usize) -> Arc<Root> {
        let block = || Arc::new(Block(UnsafeCell::new(false)));
        Arc::new(Root { at: AtomicUsize::new(0), blocks: (0..blocks).map(|_| block()).collect() })
    }

    /// As prefetching does: reads the root, then the block that it points to.
    fn read(&self) {
        let block = &self.blocks[self.at.load(Relaxed)];
        // SAFETY: loom checks that nobody frees.
        block.0.with(|freed| assert!(!unsafe { *freed }, "read after free"));
    }

    /// As a growing table does: a new root, and the old block is garbage.
    fn replace(&self, with: usize, retired: &mut Retired) {
        let old = self.at.load(Relaxed);
        self.at.store(with, Relaxed);
        retired.push(Garbage(self.blocks[old].clone()));
    }
}

fn explore(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(f);
}

#[test]
fn a_reader_and_a_writer() {
    explore(4, || {
        let (epochs, root) = (Arc::new(Epochs::new(2)), Root::new(3));
        let reader = {
            let (mut retired, root) = (Retired::new(epochs.clone(), 1), root.clone());
            thread::spawn(move || {
                for _ in 0..2 {
                    retired.pin();
                    root.read();
                    retired.unpin(free);
                }
            })
        };
        let mut retired = Retired::new(epochs, 0);
        for with in [1, 2] {
            retired.pin();
            root.replace(with, &mut retired);
            retired.unpin(free);
        }
        retired.unpin(free);
        reader.join().unwrap();
    });
}

/// A third worker makes the epoch move on between a writer's look at it and the writer's change.
#[test]
fn a_reader_a_writer_and_another_writer() {
    explore(2, || {
        let (epochs, root, elsewhere) = (Arc::new(Epochs::new(3)), Root::new(2), Root::new(2));
        let reader = {
            let (mut retired, root) = (Retired::new(epochs.clone(), 1), root.clone());
            thread::spawn(move || {
                retired.pin();
                root.read();
                retired.unpin(free);
            })
        };
        let other = {
            let mut retired = Retired::new(epochs.clone(), 2);
            thread::spawn(move || {
                elsewhere.replace(1, &mut retired);
                retired.unpin(free);
            })
        };
        let mut retired = Retired::new(epochs, 0);
        retired.pin();
        root.replace(1, &mut retired);
        retired.unpin(free);
        reader.join().unwrap();
        other.join().unwrap();
    });
}

#[test]
fn garbage_is_freed_once_nobody_can_read_it() {
    explore(2, || {
        let (epochs, root) = (Arc::new(Epochs::new(2)), Root::new(2));
        let (mut reader, mut writer) = (Retired::new(epochs.clone(), 1), Retired::new(epochs, 0));
        // SAFETY: there is one thread.
        let freed = || root.blocks[0].0.with(|freed| unsafe { *freed });
        reader.pin();
        root.read();
        writer.pin();
        root.replace(1, &mut writer);
        writer.unpin(free);
        assert!(!freed(), "a reader is pinned");
        reader.unpin(free);
        writer.pin();
        writer.unpin(free);
        assert!(freed(), "nobody is pinned");
    });
}
