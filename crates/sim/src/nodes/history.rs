//! What clients asked for and were told: lists that everybody appends to, in blocks and alone, and registers that are written together.

use std::collections::BTreeMap;

/// Counts what clients begin and hear of, in the order in which it happens.
pub type Moment = u64;

/// Of something that has not ended.
pub const NEVER: Moment = Moment::MAX;

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Came {
    /// Nobody has said.
    Unknown,
    /// It was done.
    Done,
    /// It was not and will not be done, they say.
    Refused,
}

/// What a client did in one go. What it appends to lists, and writes into registers, is its number.
#[derive(Clone, Debug)]
pub struct Deed {
    /// Whose.
    pub client: usize,
    /// When it was sent.
    pub began: Moment,
    /// When it was answered.
    pub ended: Moment,
    /// See [`Came`].
    pub came: Came,
    /// Lists that it has seen: the key's number, what was there.
    pub reads: Vec<(usize, Vec<u64>)>,
    /// Lists that it has appended to, and how long each was then, if that was said.
    pub appends: Vec<(usize, Option<u64>)>,
    /// The registers that it has written together: the number of their group.
    pub wrote: Option<usize>,
    /// Registers that it has seen: the number of their group, what was in each of them.
    pub saw: Option<(usize, Vec<Option<u64>>)>,
}

/// See the module's text.
#[derive(Default)]
pub struct History {
    /// All deeds, by their numbers.
    pub deeds: Vec<Deed>,
    /// Keys whose slot was given to another node, and when. What was there before is there no more, and the owner before must not be asked
    /// by anybody who begins later.
    pub moved: BTreeMap<usize, Moment>,
    /// Somebody has set a node's clock back: what is gone by that has not ended yet by what it says now.
    pub is_set_back: bool,
    now: Moment,
}

impl History {
    /// Of these deeds.
    pub fn of(deeds: Vec<Deed>) -> Self {
        Self { deeds, ..Self::default() }
    }

    /// The present moment: each is later than the one before.
    pub fn moment(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    /// A client begins something. Its number.
    pub fn begin(&mut self, client: usize, appends: Vec<usize>, wrote: Option<usize>) -> usize {
        let began = self.moment();
        self.deeds.push(Deed {
            client,
            began,
            ended: NEVER,
            came: Came::Unknown,
            reads: Vec::new(),
            appends: appends.into_iter().map(|key| (key, None)).collect(),
            wrote,
            saw: None,
        });
        self.deeds.len() - 1
    }

    /// It has been answered.
    pub fn end(&mut self, deed: usize, came: Came) {
        let ended = self.moment();
        let deed = &mut self.deeds[deed];
        (deed.ended, deed.came) = (ended, came);
    }
}
