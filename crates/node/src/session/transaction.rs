//! A transaction between BEGIN and COMMIT, as its session keeps it.

use std::collections::BTreeMap;

use command::Event;

use crate::config::Isolation;
use crate::push::pubsub::Kind;

/// A transaction between BEGIN and COMMIT.
pub struct Interactive {
    /// What it may see of others.
    pub isolation: Isolation,
    /// When its last command came or was answered, unix milliseconds.
    pub active: u64,
    /// The time of its last command, as all nodes have it that were asked, unix milliseconds.
    pub now: u64,
    /// By so many milliseconds that time was ahead of this node's clock.
    pub lead: i64,
    /// Why it cannot go on, if so: all it did is forgotten.
    pub over: Option<&'static str>,
    /// Keys that it has looked at, with their databases.
    pub keys: BTreeMap<(u16, Box<[u8]>), Seen>,
    /// What it will do to keys.
    pub effects: Vec<u8>,
    /// And what will be told of them.
    pub events: Vec<Event>,
    /// What it will publish.
    pub messages: Vec<(Kind, Vec<u8>, Vec<u8>)>,
    /// It has called a command that is refused when memory is full.
    pub needs_memory: bool,
    /// Bytes of all that.
    pub bytes: usize,
}

/// A key as a transaction sees it.
#[derive(Default)]
pub struct Seen {
    /// Its version where it is; 0: it is not there.
    pub version: u64,
    /// When it was fetched by the clock of its owner, until it is looked at.
    pub fetched: Option<u64>,
    /// When its time comes, and that of the first of its fields, as it was fetched; unix milliseconds.
    pub ends: [Option<u64>; 2],
    /// What makes it what it is for the transaction; nothing: it is not there.
    pub image: Box<[u8]>,
    /// The transaction has changed it.
    pub written: bool,
}

impl Seen {
    /// A version that no key has.
    const NEVER: u64 = u64::MAX;

    /// It was seen there, and is gone for the transaction, while its owner may still have it: it was so at no one moment.
    pub fn doubt(&mut self) {
        self.version = Self::NEVER;
    }

    /// The version at which its owner must have it when a transaction commits whose last time was `now`. For its owner it may be unchanged though a field has ended.
    pub fn version_at(&self, now: u64) -> u64 {
        if self.ends[1].is_some_and(|ends| ends < now) { Self::NEVER } else { self.version }
    }
}

impl Interactive {
    /// Forgets everything: it cannot go on.
    pub fn end(&mut self, why: &'static str) {
        let (isolation, active) = (self.isolation, self.active);
        *self = Self { over: Some(why), ..Self::new(isolation, active) };
    }

    pub(super) fn new(isolation: Isolation, active: u64) -> Self {
        Self {
            isolation,
            active,
            now: 0,
            lead: 0,
            over: None,
            keys: BTreeMap::new(),
            effects: Vec::new(),
            events: Vec::new(),
            messages: Vec::new(),
            needs_memory: false,
            bytes: 0,
        }
    }
}
