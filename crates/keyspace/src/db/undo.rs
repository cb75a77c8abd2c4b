//! Entries as they were, to be put back: the changes of a script or block may have to be undone (rule K3), and readers
//! must not see expired keys that are kept.

use clocks::UnixMs;

use super::{Db, EntryRef};
use crate::cold::Record;
use crate::db::Expiry;
use crate::key::Key;
use crate::value::Value;

/// The value of a key, or its absence. A large collection shares its leaves with the entry, so that this costs as much
/// as for a small one.
pub struct Saved(Option<Was>);

struct Was {
    value: Value,
    expiry: Option<UnixMs>,
    access: u32,
}

/// An entry that is out of sight.
pub struct Hidden(Record);

impl Db<'_> {
    /// Takes an entry out of sight until it is [shown](Self::show) under the same latches: that is no change. It keeps
    /// its version, and the slot its last one.
    pub fn hide(&mut self, key: &Key<'_>) -> Option<Hidden> {
        let entry = self.peek_entry(key)?;
        let seen = EntryRef::new(entry);
        let (version, mark) = (entry.version(), entry.mark());
        let record = Record { value: seen.to_value(), expiry: seen.expiry(), access: seen.access(), version, mark };
        let before = (std::mem::replace(&mut self.version, version), self.local.stamped);
        self.remove(key);
        (self.version, self.local.stamped) = before;
        Some(Hidden(record))
    }

    /// Shows a hidden entry again, unless the key was written meanwhile.
    pub fn show(&mut self, key: &Key<'_>, hidden: Hidden) {
        if self.peek_entry(key).is_none() {
            self.install(key, hidden.0);
        }
    }

    /// The entry as it is, expired or not.
    pub fn save(&self, key: &Key<'_>) -> Saved {
        Saved(self.peek(key).map(|entry| Was {
            value: entry.to_value(),
            expiry: entry.expiry(),
            access: entry.access(),
        }))
    }

    /// Puts an entry back as it was, whatever is there now. Its version becomes this `Db`'s, perhaps without need.
    pub fn put_back(&mut self, key: &Key<'_>, saved: Saved) {
        match saved.0 {
            None => {
                self.remove(key);
            }
            Some(Was { value, expiry, access }) => {
                self.set_value(key, value, expiry.map_or(Expiry::Clear, Expiry::At));
                self.set_access(key, access);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use object::{Hash, Limits, List, list::End};

    use super::*;
    use crate::Keyspace;
    use crate::testing::Single;

    #[test]
    fn what_was_saved_comes_back() {
        let ks = Keyspace::new(1, 1, 1);
        let mut single = Single::new(&ks);
        let limits = Limits::default();
        single.with(0, |db| {
            let (text, long, list, absent) = (db.key(b"text"), db.key(b"long"), db.key(b"list"), db.key(b"absent"));
            db.set_string(&text, b"12", false, Expiry::At(UnixMs(9_999)));
            db.set_string(&long, &[7; 100_000], false, Expiry::Clear);
            for n in 0..10_000u32 {
                db.get_or_create::<List>(&list).unwrap().push(End::Back, &n.to_le_bytes(), &limits);
            }
            db.set_access(&text, 77);
            let saved = [text, long, list, absent].map(|key| (key, db.save(&key)));

            db.set_string(&text, b"other", false, Expiry::Clear);
            db.remove(&long);
            db.get_mut::<List>(&list).unwrap().unwrap().push(End::Front, b"new", &limits);
            drop(db.get_or_create::<Hash>(&absent).unwrap());

            for (key, was) in saved {
                db.put_back(&key, was);
            }
            assert_eq!(db.peek(&text).map(|e| (e.expiry(), e.access())), Some((Some(UnixMs(9_999)), 77)));
            assert_eq!(db.read_string(&text).unwrap().unwrap().to_vec(), b"12");
            assert_eq!(db.read_string(&long).unwrap().unwrap().to_vec(), [7; 100_000]);
            assert_eq!(db.read_as::<List>(&list).unwrap().unwrap().len(), 10_000);
            assert!(db.peek(&absent).is_none());
        });
        assert_eq!(ks.len(0), 3);
        assert_eq!(ks.expires(0), 1);
    }

    #[test]
    fn what_was_hidden_is_as_it_was() {
        let ks = Keyspace::new(1, 1, 1);
        let mut single = Single::new(&ks);
        single.with(0, |db| {
            let [text, fields, absent] = ["text", "fields", "absent"].map(|name| db.key(name.as_bytes()));
            db.set_string(&text, b"12", false, Expiry::At(UnixMs(9_999)));
            db.set_access(&text, 77);
            let at = object::hash::Expiry::At(UnixMs(8_888));
            db.get_or_create::<Hash>(&fields).unwrap().set(b"f", b"v", at, &Limits::default());
            db.set_field_expiry(&fields, Some(UnixMs(8_888)));
            let version = db.peek(&text).map(|entry| entry.version());
            db.version = db.version.above(0);
            db.local.take_stamped();
            assert!(db.hide(&absent).is_none());
            let hidden = [text, fields].map(|key| (key, db.hide(&key).unwrap()));
            assert!(db.peek(&text).is_none() && !db.may_expire(text.slot) && !db.may_expire(fields.slot));
            hidden.into_iter().for_each(|(key, hidden)| db.show(&key, hidden));
            let seen = db.peek(&text).map(|e| (e.expiry(), e.access(), e.version()));
            assert_eq!(seen, Some((Some(UnixMs(9_999)), 77, version.unwrap())));
            assert!(db.may_expire(fields.slot) && !db.local.take_stamped(), "nothing has changed");
            // A value that was written in its place stays.
            let hidden = db.hide(&text).unwrap();
            db.set_string(&text, b"new", false, Expiry::Clear);
            db.show(&text, hidden);
            assert_eq!(db.read_string(&text).unwrap().unwrap().to_vec(), b"new");
        });
        assert_eq!((ks.len(0), ks.expires(0), ks.field_expires(0)), (2, 0, 1));
    }
}
