//! The requests and replies of clients: lists that all of them append to, in blocks and alone, and registers that are
//! written together.

use std::collections::BTreeMap;

/// Counts what clients begin and hear of, in the order in which it happens.
pub type Moment = u64;

/// Of something that has not ended.
pub const NEVER: Moment = Moment::MAX;

/// The outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Came {
    /// The outcome is unknown.
    Unknown,
    /// It was done.
    Done,
    /// It was not and will not be done, they say.
    Refused,
}

/// The deed of a client in one request. It appends its number to lists and writes it into registers.
#[derive(Clone, Debug)]
pub struct Deed {
    /// The client.
    pub client: usize,
    /// When it was sent.
    pub began: Moment,
    /// When it was answered.
    pub ended: Moment,
    /// See [`Came`].
    pub came: Came,
    /// The lists that it has seen: the key's number, the contents.
    pub reads: Vec<(usize, Vec<u64>)>,
    /// The lists that it has appended to, and how long each was then, if the reply said so.
    pub appends: Vec<(usize, Option<u64>)>,
    /// The registers that it has written together: the number of their group.
    pub wrote: Option<usize>,
    /// The registers that it has seen: the number of their group, the contents of each.
    pub saw: Option<(usize, Vec<Option<u64>>)>,
}

/// See the module's text.
#[derive(Default)]
pub struct History {
    /// All deeds, by their numbers.
    pub deeds: Vec<Deed>,
    /// Keys whose slot was given to another node, and when. The earlier contents are gone. The earlier owner may not
    /// serve a client that begins later.
    pub moved: BTreeMap<usize, Moment>,
    /// A node's clock was set back: a deed that had ended by the old time may not have ended by the new one.
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
