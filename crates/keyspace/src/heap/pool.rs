//! Empty pages, which any class of their kind may take, and the chunks behind them.
//!
//! Pages come back resident ("ready") and are handed out again first. Workers give pages above a bound back to the
//! system ("returned") in steps, between their turns. A page costs some microseconds, and at the end of a FLUSHALL,
//! when every page has a few blocks left, each freed block empties one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{
    chunk::Chunk,
    class::PageKind,
    page::{PageList, PageRef},
    source::{self, CHUNK},
};

/// Ready bytes that are kept in any case, so that small changes never reach the system.
const READY_MIN: usize = 512 << 10;
/// ... and this share of the bytes in use by classes.
const READY_SHARE: usize = 2048;
/// The pool.
#[derive(Default)]
pub struct Pool {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ready: [PageList; PageKind::ALL.len()],
    returned: [PageList; PageKind::ALL.len()],
    chunks: Vec<Chunk>,
    bytes: PoolBytes,
}

/// Bytes by where they are; they add up to the length of all chunks.
#[derive(Clone, Copy, Default, Debug)]
pub struct PoolBytes {
    /// Headers of chunks.
    pub headers: usize,
    /// Pages that classes have.
    pub assigned: usize,
    /// Empty pages, resident.
    pub ready: usize,
    /// Empty pages that hold no memory: given back, or never used.
    pub returned: usize,
}

impl Pool {
    /// An empty page; none when the system refuses memory.
    pub fn take(&self, kind: PageKind) -> Option<PageRef> {
        let mut state = self.lock();
        let row = kind as usize;
        if let Some(page) = state.ready[row].pop() {
            let len = page.area().1;
            state.bytes.ready -= len;
            state.bytes.assigned += len;
            return Some(page);
        }
        if state.returned[row].head().is_none() {
            let chunk = Chunk::map(kind)?;
            state.bytes.headers += chunk.header_len();
            state.bytes.returned += CHUNK - chunk.header_len();
            // Lowest address first, since `pop` takes the latest.
            for page in chunk.pages().rev() {
                state.returned[row].push(page);
            }
            state.chunks.push(chunk);
        }
        let page = state.returned[row].pop()?;
        let len = page.area().1;
        state.bytes.returned -= len;
        state.bytes.assigned += len;
        Some(page)
    }

    /// Takes empty pages of a kind back; they are in no list of a class any more.
    pub fn give(&self, kind: PageKind, pages: &mut PageList) {
        if pages.head().is_none() {
            return;
        }
        let mut state = self.lock();
        while let Some(page) = pages.pop() {
            let len = page.area().1;
            state.bytes.assigned -= len;
            state.bytes.ready += len;
            state.ready[kind as usize].push(page);
        }
    }

    /// Gives up to `pages` ready pages above the bound back to the system. True: no more are above it.
    pub fn trim(&self, pages: usize) -> bool {
        let bytes = self.bytes();
        let bound = READY_MIN + bytes.assigned / READY_SHARE;
        if bytes.ready > bound {
            self.shrink(bound, pages);
        }
        self.bytes().ready <= bound
    }

    /// Gives up to `pages` ready pages back to the system while more than `bound` bytes are ready; returns the bytes
    /// given back. A page costs some microseconds, outside the lock.
    pub fn shrink(&self, bound: usize, pages: usize) -> usize {
        let mut given = 0;
        for _ in 0..pages {
            let mut state = self.lock();
            if state.bytes.ready <= bound {
                break;
            }
            let Some((row, page)) = state.ready.iter_mut().enumerate().find_map(|(row, list)| Some((row, list.pop()?)))
            else {
                break;
            };
            drop(state);
            let (start, len) = page.area();
            // SAFETY: the page is empty and in no list: nobody uses its memory, and nobody else can reach it.
            unsafe { source::purge(start, len) };
            let mut state = self.lock();
            state.bytes.ready -= len;
            state.bytes.returned += len;
            state.returned[row].push(page);
            given += len;
        }
        given
    }

    /// Bytes by where they are.
    pub fn bytes(&self) -> PoolBytes {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for chunk in state.chunks.drain(..) {
            // SAFETY: the pool goes with the heap: no local heap is left, and blocks are unused by `Heap`'s contract.
            unsafe { chunk.unmap() };
        }
    }
}
