//! EXEC: commands that run under one set of latches, at one time.

use command::{Outcome, Run, Touched};
use keyspace::{Held, Need};
use resp::Reply;

use crate::call::{Busy, Call};
use crate::engine::{Engine, FREED_AT_ONCE};
use crate::watch::WatchedKey;

/// A block under way: its latches are held until [`Engine::end_block`].
#[must_use]
pub struct BlockRun {
    held: Held,
    /// Somebody watches or waits in the slots.
    interest: bool,
    touched: Vec<Touched>,
}

impl Engine {
    /// Takes the latches of a block of commands (EXEC): all of it runs under them, at one time. `watched` is checked first;
    /// `Ok(None)`: a watched key has changed. The databases in `calls` are those each will run in.
    pub fn begin_block(
        &mut self,
        calls: &[Call<'_>],
        watched: &[WatchedKey],
        token: u64,
    ) -> Result<Option<BlockRun>, Busy> {
        let mut need = self.need_of_block(calls, watched);
        let held = loop {
            let held = self.acquire_for(need, token)?;
            match self.wider_need(calls, &held) {
                None => break held,
                Some(wider) => {
                    self.release(held);
                    need = wider;
                }
            }
        };
        if !watched.is_empty() {
            let version = self.next_version(&held);
            self.fx.interest = true;
            let shared = self.shared.clone();
            for w in watched {
                self.expire_keys(&held, w.db, version, std::iter::once(shared.keyspace.hasher().key(&w.key)));
            }
            let touched = std::mem::take(&mut self.fx.touched);
            self.mark_watched(&touched, &held);
            if !self.unchanged(watched, &held) {
                self.release(held);
                return Ok(None);
            }
        }
        // From here on a version is one more than the last: nobody else writes to these slots.
        self.next_version(&held);
        let interest = self.has_interest(&held);
        Ok(Some(BlockRun { held, interest, touched: Vec::new() }))
    }

    fn need_of_block(&mut self, calls: &[Call<'_>], watched: &[WatchedKey]) -> Need {
        let mut slots: smallvec::SmallVec<[u16; 16]> = watched.iter().map(|w| w.slot).collect();
        for call in calls {
            if let Some(key) = call.first {
                slots.push(key.slot);
                continue;
            }
            match (call.row.run, self.need_of_call(call)) {
                (Run::Walk(_), _) | (_, Need::All) => return Need::All,
                (_, Need::Slots(more)) => slots.extend(more),
            }
        }
        self.need_of(slots.into_iter())
    }

    /// Runs one command of a block. One that would block answers its nil.
    pub fn run_in_block(&mut self, block: &mut BlockRun, call: &Call<'_>, out: &mut Vec<u8>) {
        let flushed = self.reclaims.len();
        let outcome = match call.row.run {
            // What holds for the whole block need not be found out for each of its commands.
            Run::Keyed(handler) => {
                self.last_version += 1;
                self.fx.interest = block.interest;
                self.run_prepared(call, handler, &block.held, self.last_version, out)
            }
            _ => self.run_handler(call, &block.held, out),
        };
        for reclaim in self.reclaims.iter_mut().skip(flushed) {
            let _ = reclaim.step_at_once(&mut self.local, FREED_AT_ONCE);
        }
        match outcome {
            Outcome::Done => {}
            Outcome::Rest(rest) => rest.finish(&mut Reply::new(out, call.protocol)),
            Outcome::Block(wait) => wait.nil.write(&mut Reply::new(out, call.protocol)),
        }
        if block.interest {
            block.touched.append(&mut self.fx.touched);
        }
    }

    /// Ends a block: watchers and waiters learn what it changed, the latches go back. `later`: milliseconds that pass
    /// before those who wait are served (a block is one moment, but DEBUG SLEEP in it is not).
    pub fn end_block(&mut self, block: BlockRun, later: u64) {
        self.mark_watched(&block.touched, &block.held);
        let now = self.now;
        self.now += later;
        self.serve(block.touched, &block.held);
        self.now = now;
        // Of the block's commands, most took the next version without asking.
        self.shared.keyspace.raise(&block.held, self.last_version);
        self.release(block.held);
    }
}
