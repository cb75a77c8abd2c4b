//! The heap against a model: blocks do not overlap, keep their contents, and the figures add up.

use std::{ptr::NonNull, sync::mpsc};

use proptest::prelude::*;

use super::{Heap, LocalHeap, class, usable};

/// A block filled with a pattern made from its address and size, which is checked when the block is freed or moved: an
/// overlap or a stray write shows as a wrong byte.
struct Block {
    at: NonNull<u8>,
    size: usize,
    seed: u8,
}

// SAFETY: the block's only owner.
unsafe impl Send for Block {}

impl Block {
    fn new(local: &mut LocalHeap, size: usize, seed: u8) -> Self {
        let at = local.alloc(size);
        let in_lines = usable(size).is_multiple_of(64) && usable(size) <= 16 << 10;
        assert!(at.addr().get().is_multiple_of(if in_lines { 64 } else { 4 }));
        // SAFETY: the block is ours and has `usable(size)` bytes.
        unsafe { at.write_bytes(seed, usable(size)) };
        Self { at, size, seed }
    }

    fn check(&self, len: usize) {
        // SAFETY: the block is ours, initialised by `new`.
        let bytes = unsafe { std::slice::from_raw_parts(self.at.as_ptr(), len) };
        assert!(bytes.iter().all(|b| *b == self.seed), "a block of {} bytes changed", self.size);
    }

    fn free(self, local: &mut LocalHeap) {
        self.check(usable(self.size));
        // SAFETY: ours, of that size, and gone after this.
        unsafe { local.free(self.at, self.size) };
    }

    fn relocate(&mut self, heap: &Heap, local: &mut LocalHeap) -> bool {
        let size = usable(self.size);
        // SAFETY: ours, of that size; the old address is not used again.
        unsafe {
            if !heap.is_sparse(self.at, self.size) {
                return false;
            }
            let Some(at) = local.relocate(self.at, size) else { return false };
            self.at = at;
        }
        self.check(size);
        true
    }
}

/// A small generator of numbers, so that tests print nothing but a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }
}

#[derive(Clone, Debug)]
enum Step {
    Alloc(usize, usize),
    Free(usize, usize),
    Move(usize),
    Flush(usize),
    Shrink,
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![8 => 0..700usize, 2 => 700..20_000usize, 1 => Just(class::SMALL_MAX), 1 => Just(64usize)];
    prop_oneof![
        8 => (0..2usize, size).prop_map(|(l, s)| Step::Alloc(l, s)),
        6 => (0..2usize, any::<usize>()).prop_map(|(l, i)| Step::Free(l, i)),
        2 => any::<usize>().prop_map(Step::Move),
        1 => (0..2usize).prop_map(Step::Flush),
        1 => Just(Step::Shrink),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 64 },
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn blocks_keep_their_contents(steps in prop::collection::vec(step(), 1..if cfg!(miri) { 60 } else { 600 })) {
        let heap = Heap::new();
        let mut locals = [heap.local(), heap.local()];
        let mut blocks: Vec<Block> = Vec::new();
        for (n, step) in steps.into_iter().enumerate() {
            match step {
                Step::Alloc(l, size) => blocks.push(Block::new(&mut locals[l], size, n as u8)),
                Step::Free(l, i) if !blocks.is_empty() => {
                    let block = blocks.swap_remove(i % blocks.len());
                    block.free(&mut locals[l]);
                }
                Step::Move(i) if !blocks.is_empty() => {
                    let i = i % blocks.len();
                    blocks[i].relocate(&heap, &mut locals[0]);
                }
                Step::Flush(l) => locals[l].flush(),
                Step::Shrink => { heap.shrink(1); }
                Step::Free(..) | Step::Move(_) => {}
            }
            let stats = heap.stats();
            prop_assert_eq!(stats.requested, blocks.iter().map(|b| b.size).sum::<usize>());
            prop_assert_eq!(stats.live, blocks.iter().map(|b| usable(b.size)).sum::<usize>());
            prop_assert!(stats.held >= stats.live);
        }
        blocks.into_iter().for_each(|b| b.free(&mut locals[0]));
        drop(locals);
        let stats = heap.stats();
        prop_assert_eq!((stats.live, stats.requested, stats.large), (0, 0, 0));
        prop_assert_eq!((stats.pages_full, stats.pages_partial, stats.free_in_pages), (0, 0, 0));
    }
}

/// Workers free blocks of others, all at once; every block is checked for foreign bytes.
#[test]
fn workers_free_each_others_blocks() {
    const WORKERS: usize = 4;
    let steps = if cfg!(miri) { 150 } else { 30_000 };
    let heap = Heap::new();
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..WORKERS).map(|_| mpsc::channel::<Block>()).unzip();
    std::thread::scope(|scope| {
        for (id, inbox) in receivers.into_iter().enumerate() {
            let (heap, senders) = (heap.clone(), senders.clone());
            scope.spawn(move || {
                let mut local = heap.local();
                let mut numbers = Numbers(id as u64);
                let mut own: Vec<Block> = Vec::new();
                for n in 0..steps {
                    // Few classes, so that the workers meet on the same shelves.
                    let size = if n % 64 == 0 { numbers.below(20_000) } else { 100 + numbers.below(40) };
                    own.push(Block::new(&mut local, size, (n * WORKERS + id) as u8));
                    if own.len() > 100 {
                        let block = own.swap_remove(numbers.below(100));
                        let _ = senders[numbers.below(WORKERS)].send(block);
                    }
                    if n % 16 == 0 {
                        let at = numbers.below(own.len());
                        own[at].relocate(&heap, &mut local);
                    }
                    inbox.try_iter().for_each(|b| b.free(&mut local));
                }
                drop(senders);
                own.into_iter().for_each(|b| b.free(&mut local));
                inbox.iter().for_each(|b| b.free(&mut local));
            });
        }
        drop(senders);
    });
    let mut local = heap.local();
    // Takes over the blocks in the exchanges: a refill and a flush of every class.
    for class in class::Class::all() {
        Block::new(&mut local, class.size(), 1).free(&mut local);
    }
    drop(local);
    let stats = heap.stats();
    assert_eq!((stats.live, stats.pages_full, stats.pages_partial), (0, 0, 0), "{stats:?}");
}

/// A worker's blocks are reusable by others even if it never runs again.
#[test]
fn blocks_of_an_idle_worker_are_reused() {
    let heap = Heap::new();
    let (mut idle, mut busy) = (heap.local(), heap.local());
    let rounds = if cfg!(miri) { 2 } else { 20 };
    let blocks: Vec<Block> = (0..1000).map(|n| Block::new(&mut idle, 300, n as u8)).collect();
    blocks.into_iter().for_each(|b| b.free(&mut busy));
    let held = heap.stats().held;
    for _ in 0..rounds {
        let blocks: Vec<Block> = (0..1000).map(|n| Block::new(&mut busy, 300, n as u8)).collect();
        blocks.into_iter().for_each(|b| b.free(&mut busy));
    }
    assert!(heap.stats().held <= held.max(1 << 20) + (1 << 16));
}

/// Random survivors of a load are moved together until the heap is within a tenth of a fresh load.
#[test]
#[cfg_attr(miri, ignore = "too long")]
fn sparse_pages_drain() {
    let heap = Heap::new();
    let mut local = heap.local();
    let mut numbers = Numbers(7);
    let mut blocks: Vec<Block> =
        (0..100_000).map(|n| Block::new(&mut local, 200 + numbers.below(100), n as u8)).collect();
    for _ in 0..70_000 {
        let at = numbers.below(blocks.len());
        blocks.swap_remove(at).free(&mut local);
    }
    local.flush();
    let before = heap.stats();
    assert!(before.held > before.live * 2, "the load is sparse: {before:?}");
    for _ in 0..3 {
        for block in &mut blocks {
            block.relocate(&heap, &mut local);
        }
    }
    while !heap.trim(16) {}
    let after = heap.stats();
    // Beyond the tenth: up to a page for each class, and the pool's stock.
    let allowed = before.live + before.live / 10 + 14 * (1 << 16) + (2 << 20);
    assert!(after.held <= allowed, "{after:?}");
    assert_eq!(after.live, before.live);
    assert!(after.returned > before.returned, "memory went back to the system");
    let moved = blocks.iter_mut().filter_map(|b| b.relocate(&heap, &mut local).then_some(())).count();
    assert!(moved < 600, "moving comes to an end: {moved}");
    blocks.into_iter().for_each(|b| b.free(&mut local));
}

/// A block freed twice is noticed when it gets back to its page.
#[test]
#[should_panic(expected = "freed twice")]
fn a_block_freed_twice_is_noticed() {
    let heap = Heap::new();
    let mut local = heap.local();
    let (kept, block) = (local.alloc(100), local.alloc(100));
    // SAFETY: wrong on purpose, in a way that only affects the heap's own records.
    unsafe {
        local.free(block, 100);
        local.free(block, 100);
    }
    let _ = kept;
    local.flush();
}
