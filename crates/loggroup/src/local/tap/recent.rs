//! The last blocks of a stream in memory, while a standby reads there: one that is near reads no file.

use std::collections::VecDeque;

use std::sync::Arc;

use quorum::{Block, BlockId, Cut, Mark};

use super::known::Words;
use super::shown::Shown;

/// Blocks that follow one another, the oldest first.
#[derive(Default)]
pub struct Recent {
    blocks: VecDeque<Block>,
    bytes: usize,
}

impl Recent {
    /// Takes a block that the stream gets. Of more bytes than `most` the oldest go: the folder has them.
    pub fn push(&mut self, block: Block, most: usize) {
        if self.blocks.back().is_some_and(|last| last.id.sequence + 1 != block.id.sequence) {
            self.clear();
        }
        self.bytes += block.body.len();
        self.blocks.push_back(block);
        while self.bytes > most && self.blocks.len() > 1 {
            self.drop_first();
        }
    }

    /// Drops the blocks behind a place.
    pub fn keep(&mut self, sequence: u64) {
        while let Some(dropped) = self.blocks.pop_back_if(|block| block.id.sequence > sequence) {
            self.bytes -= dropped.body.len();
        }
    }

    /// Drops all.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.bytes = 0;
    }

    fn drop_first(&mut self) {
        if let Some(first) = self.blocks.pop_front() {
            self.bytes -= first.body.len();
        }
    }

    /// Takes the blocks from place `next` up to a place, until they have `most` bytes: one at least, if it is here.
    pub fn take(&mut self, next: u64, upto: u64, most: usize) -> Vec<Block> {
        while self.blocks.front().is_some_and(|block| block.id.sequence < next) {
            self.drop_first();
        }
        let (mut taken, mut bytes) = (Vec::new(), 0);
        let is_next = |block: &Block, taken: &Vec<Block>| block.id.sequence == next + taken.len() as u64;
        while bytes < most
            && let Some(block) =
                self.blocks.front().filter(|block| is_next(block, &taken) && block.id.sequence <= upto).cloned()
        {
            self.drop_first();
            bytes += block.body.len().max(1);
            taken.push(block);
        }
        taken
    }

    /// Where the last one ends, if any is here.
    pub fn end(&self) -> Option<Cut> {
        self.blocks.back().map(|block| block.cut)
    }

    /// The place of the first block.
    pub fn first(&self) -> Option<u64> {
        self.blocks.front().map(|block| block.id.sequence)
    }
}

/// The side of a standby's reader that the acceptor keeps.
pub struct Tapped {
    pub recent: Vec<Recent>,
    /// Most bytes of each of these.
    pub most: usize,
    /// How far it may go, as it was noticed last.
    pub marks: Vec<Option<Mark>>,
    /// The places where the streams began.
    pub bases: Vec<BlockId>,
    /// Where the last block ends that each stream got, as far as that is known.
    pub ends: Vec<Cut>,
    /// The standby has not looked since something has changed.
    pub has_news: bool,
    /// It had applied all that was committed when it looked last, and waits.
    pub is_caught: bool,
    /// Its own words about itself.
    pub shown: Option<Arc<Shown>>,
    /// The owner's words about the log.
    pub words: Words,
}

impl Tapped {
    pub fn new(streams: usize, most: usize) -> Self {
        Self {
            recent: (0..streams).map(|_| Recent::default()).collect(),
            most,
            marks: vec![None; streams],
            bases: vec![BlockId::default(); streams],
            ends: vec![Cut(0); streams],
            has_news: true,
            is_caught: false,
            shown: None,
            words: Words::new(streams),
        }
    }

    /// The standby has applied everything up to these places.
    pub fn is_done(&mut self, places: &[u64]) {
        if let Some(shown) = &self.shown {
            self.words.done(places.iter().copied());
            self.words.show(&shown.known);
        }
    }
}
