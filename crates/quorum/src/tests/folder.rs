//! A folder of an acceptor as a disk has it: what was written, and what a power failure leaves of that.

use crate::{Base, Block, BlockId, Done, FolderLife, Found, History, Keep, Op, StreamId, Term};

/// A place for a block. What was written last may be in the page cache only.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Slot {
    cached: Option<Block>,
    durable: Option<Block>,
}

/// A stream. Blocks that a new life drops are forgotten at once: their files are voided by that life's header.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Place {
    base: Base,
    life: FolderLife,
    slots: Vec<Slot>,
}

impl Place {
    fn slot(&mut self, sequence: u64) -> Option<&mut Slot> {
        let at = usize::try_from(sequence.checked_sub(self.base.id.sequence + 1)?).ok()?;
        if at >= self.slots.len() {
            self.slots.resize(at + 1, Slot::default());
        }
        self.slots.get_mut(at)
    }

    /// The blocks that a start can read: up to the first hole.
    fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.slots.iter().map_while(|slot| slot.cached.as_ref())
    }

    fn sync(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.durable = slot.cached.clone());
    }

    fn begin(&mut self, life: FolderLife, keep: Keep, syncs: bool) {
        self.life = life;
        match keep {
            Keep::UpTo(sequence) => self.slots.truncate((sequence - self.base.id.sequence) as usize),
            Keep::Nothing(base) => (self.base, self.slots) = (base, Vec::new()),
        }
        if syncs {
            self.sync();
        }
    }

    fn cut(&mut self, base: Base) {
        let gone = (base.id.sequence - self.base.id.sequence) as usize;
        self.slots.drain(..gone.min(self.slots.len()));
        self.base = base;
    }
}

/// The folder.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Folder {
    promise: Term,
    durable_promise: Term,
    places: Vec<Place>,
}

/// Promises that a folder's disk does not keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lies {
    /// It says that a promise is durable that is in the cache.
    pub promise: bool,
    /// The same of what a new life keeps.
    pub life: bool,
}

impl Folder {
    pub fn new(streams: usize) -> Self {
        Self { places: vec![Place::default(); streams], ..Self::default() }
    }

    /// Carries an operation out.
    pub fn carry_out(&mut self, op: Op, lies: Lies) -> Option<Done> {
        Some(match op {
            Op::Promise(term) => {
                self.promise = term;
                if !lies.promise {
                    self.durable_promise = term;
                }
                Done::Promised(term)
            }
            Op::Write { stream, life, through, block } => {
                let (place, sequence) = (&mut self.places[stream.index()], block.id.sequence);
                // A write of an earlier life lands in a file that is void.
                if place.life == life
                    && let Some(slot) = place.slot(sequence)
                {
                    if through {
                        slot.durable = Some(block.clone());
                    }
                    slot.cached = Some(block);
                }
                Done::Written { stream, life, sequence }
            }
            Op::Sync { stream, life, upto } => {
                self.places[stream.index()].sync();
                Done::Synced { stream, life, upto }
            }
            Op::Begin { stream, life, keep } => {
                self.places[stream.index()].begin(life, keep, !lies.life);
                Done::Begun { stream, life }
            }
            Op::Read { stream, term, from, upto } => {
                let range = from..=upto;
                let blocks = self.places[stream.index()].blocks().filter(|block| range.contains(&block.id.sequence));
                Done::Read { stream, term, blocks: blocks.cloned().collect() }
            }
            Op::Cut { stream, base } => {
                self.places[stream.index()].cut(base);
                return None;
            }
        })
    }

    /// The power fails: of what the cache alone has, what `kept` has a bit for stays.
    pub fn power_fails(&mut self, mut kept: u64) {
        let mut stays = || {
            let bit = kept & 1 == 1;
            kept = kept.rotate_right(1);
            bit
        };
        if stays() {
            self.durable_promise = self.promise;
        } else {
            self.promise = self.durable_promise;
        }
        for slot in self.places.iter_mut().flat_map(|place| &mut place.slots) {
            if slot.cached != slot.durable {
                if stays() {
                    slot.durable = slot.cached.clone();
                } else {
                    slot.cached = slot.durable.clone();
                }
            }
        }
    }

    /// The promise and the streams that a start finds. `Err` if the names of a chain fall.
    pub fn found(&mut self) -> Result<(Term, Vec<Found>), &'static str> {
        let mut all = Vec::new();
        for place in &mut self.places {
            let mut history = History::new(place.base);
            for block in place.slots.iter().map_while(|slot| slot.cached.as_ref()) {
                if !history.push(block.id) {
                    return Err("a folder has blocks that do not follow one another");
                }
            }
            let whole = (history.last().sequence - place.base.id.sequence) as usize;
            place.slots.truncate(whole);
            all.push(Found { life: place.life, history });
        }
        Ok((self.promise, all))
    }

    /// True if a block is on the disk, with all before it, or the stream begins behind it.
    pub fn has_synced(&self, stream: StreamId, id: BlockId) -> bool {
        let place = &self.places[stream.index()];
        let mut durable = place.slots.iter().map_while(|slot| slot.durable.as_ref());
        id == place.base.id || durable.any(|block| block.id == id)
    }

    /// The same, or it was cut.
    pub fn has_durable(&self, stream: StreamId, id: BlockId) -> bool {
        id.sequence <= self.places[stream.index()].base.id.sequence || self.has_synced(stream, id)
    }

    pub fn blocks(&self, stream: StreamId) -> impl Iterator<Item = &Block> {
        self.places[stream.index()].blocks()
    }
}
