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
    pub const SUBKEYSPACE: u32 = 1 << 19; // S
    pub const SUBKEYEVENT: u32 = 1 << 20; // T
    pub const SUBKEYSPACEITEM: u32 = 1 << 21; // I
    pub const SUBKEYSPACEEVENT: u32 = 1 << 22; // V
    pub const ARRAY: u32 = 1 << 23; // a
    /// Those that choose channels which name fields.
    pub const NAMING_FIELDS: u32 = SUBKEYSPACE | SUBKEYEVENT | SUBKEYSPACEITEM | SUBKEYSPACEEVENT;
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
    /// The fields of a hash that it happened to, as Redis lists them: `3:foo,5:hello`. Empty where no channel names
    /// them.
    pub fields: Box<[u8]>,
}

impl Event {
    /// The fields one by one.
    pub fn each_field(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.fields[..];
        std::iter::from_fn(move || {
            let colon = rest.iter().position(|byte| *byte == b':')?;
            let len: usize = std::str::from_utf8(&rest[..colon]).ok()?.parse().ok()?;
            let field = rest.get(colon + 1..)?.get(..len)?;
            // Behind it there is a comma, or nothing.
            rest = rest.get(colon + 1 + len + 1..).unwrap_or_default();
            Some(field)
        })
    }
}

/// Appends a field to the list of an event.
fn list_field(list: &mut Vec<u8>, field: &[u8]) {
    if !list.is_empty() {
        list.push(b',');
    }
    list.extend_from_slice(itoa::Buffer::new().format(field.len()).as_bytes());
    list.push(b':');
    list.extend_from_slice(field);
}

/// The notifications of a command, in order.
#[derive(Default)]
pub struct Events {
    /// The wanted classes (`notify-keyspace-events`); others cost nothing.
    pub wanted: u32,
    /// The notifications.
    pub list: Vec<Event>,
}

impl Events {
    /// True if clients want to hear of keys that are new or missed.
    #[inline]
    pub fn wants_sightings(&self) -> bool {
        self.wanted & (class::NEW | class::KEY_MISS) != 0
    }

    /// Notes the sightings since the last event: that a key is new comes before its other events.
    pub fn tell(&mut self, seen: Vec<Sighted>) {
        for (sighting, db, key) in seen {
            let (class, name) = match sighting {
                Sighting::New => (class::NEW, "new"),
                Sighting::Missed => (class::KEY_MISS, "keymiss"),
            };
            if self.wanted & class != 0 {
                self.list.push(Event { class, name: name.into(), db, key, fields: Box::default() });
            }
        }
    }

    /// Notes an event if its class is wanted.
    #[inline]
    pub fn push(&mut self, class: u32, name: &'static str, db: u16, key: &[u8]) {
        self.push_of(class, name, (db, key), std::iter::empty());
    }

    /// Notes an event of fields of a hash if its class is wanted.
    #[inline]
    pub fn push_of<'f>(
        &mut self,
        class: u32,
        name: &'static str,
        (db, key): (u16, &[u8]),
        fields: impl Iterator<Item = &'f [u8]>,
    ) {
        if self.wanted & class == 0 {
            return;
        }
        let mut list = Vec::new();
        if self.names_fields() {
            fields.for_each(|field| list_field(&mut list, field));
        }
        self.list.push(Event { class, name: name.into(), db, key: key.into(), fields: list.into() });
    }

    /// True if clients want to hear which fields of a hash an event is about.
    #[inline]
    pub fn names_fields(&self) -> bool {
        self.wanted & class::NAMING_FIELDS != 0 && self.wanted & class::HASH != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_listed_and_found_again() {
        let names: [&[u8]; 4] = [b"foo", b"", b"1:2,3", b"hello"];
        let mut events = Events { wanted: class::HASH, ..Events::default() };
        events.push_of(class::HASH, "hset", (0, b"h"), names.into_iter());
        events.wanted |= class::SUBKEYEVENT;
        events.push_of(class::HASH, "hset", (0, b"h"), names.into_iter());
        events.push_of(class::GENERIC, "del", (0, b"h"), names.into_iter());
        let [plain, naming] = &events.list[..] else { panic!("{:?}", events.list) };
        assert_eq!((&plain.fields[..], plain.each_field().count()), (&b""[..], 0));
        assert_eq!(&naming.fields[..], b"3:foo,0:,5:1:2,3,5:hello");
        assert!(naming.each_field().eq(names));
    }
}
