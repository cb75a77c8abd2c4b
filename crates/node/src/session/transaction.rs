//! A transaction between BEGIN and COMMIT, in its session.

use std::collections::BTreeMap;

use ::membership::items::Principal;
use clocks::UnixMs;
use command::Event;
use keyspace::Version;

use crate::config::Isolation;
use crate::push::delivery::Kind;

/// A transaction between BEGIN and COMMIT.
pub struct Interactive {
    /// Its isolation from other transactions.
    pub isolation: Isolation,
    /// The user that has begun it, with the rights of then.
    pub user: Principal,
    /// When its last command came or was answered.
    pub active: UnixMs,
    /// The time of its last command, on which all nodes that were asked agree.
    pub now: UnixMs,
    /// Milliseconds by which that time was ahead of this node's clock.
    pub lead: i64,
    /// The reason why it cannot go on, if there is one. Its changes are forgotten.
    pub over: Option<&'static str>,
    /// Keys that it has read, with their databases.
    pub keys: BTreeMap<(u16, Box<[u8]>), Seen>,
    /// Its effects on keys.
    pub effects: Vec<u8>,
    /// The events of these effects.
    pub events: Vec<Event>,
    /// The messages that it will publish.
    pub messages: Vec<(Kind, Vec<u8>, Vec<u8>)>,
    /// It has called a command that is refused when memory is full.
    pub needs_memory: bool,
    /// Bytes of all that.
    pub bytes: usize,
}

/// A key as a transaction sees it.
#[derive(Default)]
pub struct Seen {
    /// Its version at its owner; 0: it is absent.
    pub version: Version,
    /// When it was fetched, by the clock of its owner, until it is read.
    pub fetched: Option<UnixMs>,
    /// When it and the first of its fields expire, as it was fetched.
    pub ends: [Option<UnixMs>; 2],
    /// Its image in the transaction; empty: it is absent.
    pub image: Box<[u8]>,
    /// The transaction has changed it.
    pub written: bool,
}

impl Seen {
    /// Notes that the key was seen, and is gone for the transaction, while its owner may still have it: no moment
    /// agrees with both.
    pub fn doubt(&mut self) {
        self.version = Version::MAX;
    }

    /// The version that its owner must have when a transaction commits whose last time was `now`. The owner may not
    /// have noticed yet that a field has expired.
    pub fn version_at(&self, now: UnixMs) -> Version {
        if self.ends[1].is_some_and(|ends| ends < now) { Version::MAX } else { self.version }
    }
}

impl Interactive {
    /// Forgets everything: the transaction cannot go on.
    pub fn end(&mut self, why: &'static str) {
        let (isolation, user, active) = (self.isolation, self.user, self.active);
        *self = Self { over: Some(why), ..Self::new(isolation, user, active) };
    }

    pub(super) fn new(isolation: Isolation, user: Principal, active: UnixMs) -> Self {
        Self {
            isolation,
            user,
            active,
            now: UnixMs::ZERO,
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
