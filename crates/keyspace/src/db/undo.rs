//! Entries as they were, to be put back: the changes of a script or block may have to be undone (rule K3).

use clocks::UnixMs;

use super::Db;
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

impl Db<'_> {
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
}
