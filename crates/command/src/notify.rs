//! Keyspace notifications, collected while a command runs and sent when it has ended.

use std::borrow::Cow;

use keyspace::{Sighted, Sighting};

/// Classes of `notify-keyspace-events`, by their letter.
#[expect(missing_docs, reason = "the letters are Redis's")]
pub mod class {
    pub const KEYSPACE: u32 = 1 << 0; // K
    pub const KEYEVENT: u32 = 1 << 1; // E
    pub const GENERIC: u32 = 1 << 2; // g
    pub const STRING: u32 = 1 << 3; // $
    pub const LIST: u32 = 1 << 4; // l
    pub const SET: u32 = 1 << 5; // s
    pub const HASH: u32 = 1 << 6; // h
    pub const ZSET: u32 = 1 << 7; // z
    pub const EXPIRED: u32 = 1 << 8; // x
    pub const EVICTED: u32 = 1 << 9; // e
    pub const STREAM: u32 = 1 << 10; // t
    pub const KEY_MISS: u32 = 1 << 11; // m
    pub const MODULE: u32 = 1 << 13; // d
    pub const NEW: u32 = 1 << 14; // n
    pub const OVERWRITTEN: u32 = 1 << 15; // o
    pub const TYPE_CHANGED: u32 = 1 << 16; // c
}

/// One notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// See [`class`].
    pub class: u32,
    /// Name of the event, "lpush".
    pub name: Cow<'static, str>,
    /// Logical database.
    pub db: u16,
    /// The key.
    pub key: Box<[u8]>,
}

/// The notifications of a command, in order.
#[derive(Default)]
pub struct Events {
    /// Classes somebody wants (`notify-keyspace-events`); others cost nothing.
    pub wanted: u32,
    /// What happened.
    pub list: Vec<Event>,
}

impl Events {
    /// Whether somebody wants to hear of keys that are new or missed.
    #[inline]
    pub fn wants_sightings(&self) -> bool {
        self.wanted & (class::NEW | class::KEY_MISS) != 0
    }

    /// Notes what was seen since the last event: that a key is new comes before what else happens to it.
    pub fn tell(&mut self, seen: Vec<Sighted>) {
        for (sighting, db, key) in seen {
            let (class, name) = match sighting {
                Sighting::New => (class::NEW, "new"),
                Sighting::Missed => (class::KEY_MISS, "keymiss"),
            };
            if self.wanted & class != 0 {
                self.list.push(Event { class, name: name.into(), db, key });
            }
        }
    }

    /// Notes an event if its class is wanted.
    #[inline]
    pub fn push(&mut self, class: u32, name: &'static str, db: u16, key: &[u8]) {
        if self.wanted & class != 0 {
            self.list.push(Event { class, name: name.into(), db, key: key.into() });
        }
    }
}
