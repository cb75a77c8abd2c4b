//! The members of a transaction that runs several blocks, and of the queue before it. How they run:
//! [`super::together`].

use std::collections::VecDeque;

use clocks::BootMs;
use engine::Made;

use super::block::Block;
use super::fetching::Told;
use crate::worker::token::Token;

/// A block that waits for others of its worker, and the time since when.
pub(super) struct Queued {
    pub(super) block: Block,
    pub(super) since: BootMs,
}

/// The other blocks of a transaction that runs several. The [`Fetching`] of the block that runs holds them.
#[derive(Default)]
pub(super) struct Others {
    /// Blocks that have run, and their results, which are told when the transaction is committed.
    pub(super) done: Vec<(Block, Told)>,
    /// Blocks that run later.
    pub(super) next: VecDeque<Block>,
    /// The changes made by the blocks that have run.
    pub(super) made: Made,
    pub(super) needs_memory: bool,
}

impl Block {
    /// The clients whose blocks its transaction runs.
    pub(super) fn tokens(&self) -> impl Iterator<Item = Token> {
        let others = self.fetching.as_deref().and_then(|fetching| fetching.others.as_deref());
        let others = others.into_iter().flat_map(Others::blocks).map(|block| block.token);
        others.chain([self.token])
    }

    pub(super) fn has_client(&self, token: Token) -> bool {
        self.tokens().any(|other| other == token)
    }

    /// True if this block and another want the same key, unless both only read it.
    pub(super) fn conflicts(&self, other: &Block) -> bool {
        let (Some(mine), Some(other)) = (self.fetching.as_deref(), other.fetching.as_deref()) else { return false };
        other.locks().any(|lock| {
            let mine = mine.parts.iter().filter_map(|part| {
                let at = part.locks.binary_search_by(|mine| mine.place().cmp(&lock.place())).ok()?;
                part.locks.get(at)
            });
            mine.into_iter().any(|mine| mine.mode.conflicts(lock.mode))
        })
    }

    /// Takes the other blocks of its transaction out: those that run before it and those that run after it.
    pub(super) fn take_others(&mut self) -> Option<Box<Others>> {
        self.fetching.as_deref_mut()?.others.take()
    }

    /// Restarts the transaction: its first block takes this one's place.
    pub(super) fn rewind(&mut self) {
        let Some(mut fetching) = self.fetching.take() else { return };
        if let Some(others) = fetching.others.as_deref_mut() {
            let Others { done, next, .. } = std::mem::take(others);
            let mut all: VecDeque<Block> = done.into_iter().map(|(block, _)| block).collect();
            let me = all.len();
            all.extend(next);
            // Blocks whose clients have gone are dropped.
            let before = all.range(..me).filter(|block| !block.gone).count();
            all.retain(|block| !block.gone);
            if (before > 0 || self.gone)
                && let Some(first) = all.pop_front()
            {
                let me = std::mem::replace(self, first);
                if !me.gone {
                    all.insert(before - 1, me);
                }
            }
            others.next = all;
        }
        self.fetching = Some(fetching);
    }
}

impl Others {
    pub(super) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.done.iter().map(|(block, _)| block).chain(&self.next)
    }

    pub(super) fn len(&self) -> usize {
        self.done.len() + self.next.len()
    }

    pub(super) fn into_blocks(self) -> impl DoubleEndedIterator<Item = Block> {
        self.done.into_iter().map(|(block, _)| block).chain(self.next)
    }
}
