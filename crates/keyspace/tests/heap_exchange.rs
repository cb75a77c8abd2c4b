//! Every interleaving, under loom, of the heap's exchange of free blocks: nothing is lost, nothing is taken twice, and
//! the taker sees the giver's writes.

#[path = "../src/heap/exchange.rs"]
mod exchange;

/// Loom's atomics in place of the standard library's.
mod sync {
    pub use loom::sync::atomic::{AtomicPtr, Ordering};
}

use std::ptr::NonNull;

use exchange::{Exchange, Link};
use loom::{cell::UnsafeCell, sync::Arc, thread};

/// A free block: its link is at its start, as in a real block.
#[repr(C)]
struct Block {
    link: Link,
    number: usize,
    payload: UnsafeCell<usize>,
}

/// Gives a chain of blocks with these numbers.
fn give(exchange: &Exchange, numbers: &[usize]) {
    let mut first: *mut Link = std::ptr::null_mut();
    let mut last = first;
    for &number in numbers {
        let block = Box::new(Block { link: Link { next: first }, number, payload: UnsafeCell::new(0) });
        // SAFETY: not shared yet.
        block.payload.with_mut(|p| unsafe { *p = number * 10 });
        first = Box::into_raw(block).cast();
        if last.is_null() {
            last = first;
        }
    }
    let (first, last) = (NonNull::new(first).expect("a chain"), NonNull::new(last).expect("a chain"));
    // SAFETY: the chain was made above and nobody else knows it.
    unsafe { exchange.push(first, last) };
}

/// Takes everything and returns the numbers.
fn take(exchange: &Exchange) -> Vec<usize> {
    let mut numbers = Vec::new();
    let mut at = exchange.take().map_or(std::ptr::null_mut(), NonNull::as_ptr);
    while !at.is_null() {
        // SAFETY: made by `give`, and ours since `take`.
        let block = unsafe { Box::from_raw(at.cast::<Block>()) };
        // SAFETY: loom checks that the giver's write happened before.
        assert_eq!(block.payload.with(|p| unsafe { *p }), block.number * 10);
        numbers.push(block.number);
        at = block.link.next;
    }
    numbers
}

#[test]
fn nothing_is_lost_or_taken_twice() {
    loom::model(|| {
        let exchange = Arc::new(Exchange::default());
        let givers: Vec<_> = [vec![1, 2], vec![3]]
            .into_iter()
            .map(|numbers| {
                let exchange = Arc::clone(&exchange);
                thread::spawn(move || give(&exchange, &numbers))
            })
            .collect();
        // Takes all, keeps one and gives the rest back, like a worker that refills without the lock.
        let mut all = take(&exchange);
        if all.len() > 1 {
            give(&exchange, &all.split_off(1));
        }
        givers.into_iter().for_each(|t| t.join().expect("no panic"));
        all.extend(take(&exchange));
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3]);
    });
}

#[test]
fn two_takers_share_nothing() {
    loom::model(|| {
        let exchange = Arc::new(Exchange::default());
        give(&exchange, &[1, 2]);
        let other = {
            let exchange = Arc::clone(&exchange);
            thread::spawn(move || {
                give(&exchange, &[3]);
                take(&exchange)
            })
        };
        let mut all = take(&exchange);
        all.extend(other.join().expect("no panic"));
        all.extend(take(&exchange));
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3]);
    });
}
