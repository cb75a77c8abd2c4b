//! Commands of Redis that are not there, as rules know them: an `aclfile` of Redis names them, `ACL CAT` lists them, and
//! a user without the right hears NOPERM, as in Redis. Only then does the server say that it lacks them.
//!
//! What Redis has only with modules, and what Valkey has, is foreign: a file may name it, to no effect.

use acl::{Access, Catalogue, Categories, Declared, KeyUse, KeyUses};
use resp::Args;

use crate::compatibility;

/// The place of keys among the arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Keys {
    None,
    /// The first argument is one, with this access.
    First(Access),
    /// MIGRATE's.
    OfMigrate,
}

const NONE: Keys = Keys::None;
const READ: Keys = Keys::First(Access::READ);
const WRITE: Keys = Keys::First(Access::WRITE);

/// The categories of those subcommands of CLUSTER and MODULE.
const ADMIN: &str = "admin slow dangerous";

/// Name, arity, categories, keys: facts of Redis 8.8.
const ABSENT: &[(&str, i32, &str, Keys)] = &[
    ("arcount", 2, "read array fast", READ),
    ("ardel", -3, "write array fast", WRITE),
    ("ardelrange", -4, "write array slow", WRITE),
    ("arget", 3, "read array fast", READ),
    ("argetrange", 4, "read array slow", READ),
    ("argrep", -6, "read array slow", READ),
    ("arinfo", -2, "read array slow", READ),
    ("arinsert", -3, "write array fast", WRITE),
    ("arlastitems", -3, "read array slow", READ),
    ("arlen", 2, "read array fast", READ),
    ("armget", -3, "read array fast", READ),
    ("armset", -4, "write array fast", WRITE),
    ("arnext", 2, "read array fast", READ),
    ("arop", -5, "read array slow", READ),
    ("arring", -4, "write array slow", WRITE),
    ("arscan", -4, "read array slow", READ),
    ("arseek", 3, "write array fast", WRITE),
    ("arset", -4, "write array fast", WRITE),
    ("cluster|addslots", -3, ADMIN, NONE),
    ("cluster|addslotsrange", -4, ADMIN, NONE),
    ("cluster|bumpepoch", 2, ADMIN, NONE),
    ("cluster|count-failure-reports", 3, ADMIN, NONE),
    ("cluster|delslots", -3, ADMIN, NONE),
    ("cluster|delslotsrange", -4, ADMIN, NONE),
    ("cluster|flushslots", 2, ADMIN, NONE),
    ("cluster|meet", -4, ADMIN, NONE),
    ("cluster|migration", -4, ADMIN, NONE),
    ("cluster|reset", -2, ADMIN, NONE),
    ("cluster|saveconfig", 2, ADMIN, NONE),
    ("cluster|set-config-epoch", 3, ADMIN, NONE),
    ("cluster|setslot", -4, ADMIN, NONE),
    ("cluster|syncslots", -3, ADMIN, NONE),
    ("migrate", -6, "keyspace write slow dangerous", Keys::OfMigrate),
    ("module|load", -3, ADMIN, NONE),
    ("module|loadex", -3, ADMIN, NONE),
    ("module|unload", 3, ADMIN, NONE),
    ("restore-asking", -4, "keyspace write slow dangerous", WRITE),
    ("trimslots", -5, "keyspace write slow dangerous", NONE),
    ("xcfgset", -2, "write stream fast", WRITE),
    ("xidmprecord", 5, "write stream fast", WRITE),
];

/// Categories of the modules that come with Redis 8.
const CATEGORIES: [&str; 9] =
    ["bloom", "cms", "cuckoo", "json", "search", "tdigest", "timeseries", "topk", "vectorset"];

/// The absent commands, as the catalogue has them behind those that are there.
pub(super) fn declared() -> impl Iterator<Item = Declared> {
    ABSENT.iter().map(|(name, arity, categories, _)| Declared {
        name: (*name).to_owned(),
        arity: *arity,
        categories: Categories::named(categories.split(' ')).unwrap_or_default(),
        ..Declared::default()
    })
}

/// True if a file of users may name this command, or this category with its `@`, though nobody here has it.
pub(super) fn is_foreign(name: &[u8]) -> bool {
    match name.strip_prefix(b"@") {
        Some(category) => CATEGORIES.iter().any(|known| known.as_bytes() == category),
        None => std::str::from_utf8(name).is_ok_and(compatibility::is_known_in_full),
    }
}

/// The keys of a request for an absent command.
pub(super) fn find_keys(name: &str, args: Args<'_>, keys: &mut KeyUses) {
    let found = ABSENT.iter().find(|(known, ..)| *known == name).map_or(NONE, |(.., keys)| *keys);
    match found {
        Keys::None => {}
        Keys::First(access) => keys.push(KeyUse { index: 1, access }),
        Keys::OfMigrate => {
            let access = Access::ALL;
            let is_word = |at: &usize| args[*at].eq_ignore_ascii_case(b"keys");
            let word = (6..args.len()).find(is_word).filter(|_| args.get(3).is_some_and(<[u8]>::is_empty));
            let places = word.map_or(3..4, |at| at + 1..args.len());
            keys.extend(places.map(|index| KeyUse { index, access }));
        }
    }
}

/// The commands that rules name: those that are there, then the absent ones.
pub(super) fn with_absent(there: impl Iterator<Item = Declared>) -> Catalogue {
    Catalogue::new(there.chain(declared())).with_foreign(is_foreign)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;

    #[test]
    fn absent_commands_are_of_redis_and_have_no_row() {
        let table = Table::new();
        for (name, _, categories, _) in ABSENT {
            assert!(table.find_own(name.as_bytes()).is_none(), "{name} is there");
            assert!(Categories::named(categories.split(' ')).is_some(), "{name}: {categories}");
            let container = name.split_once('|').map(|(container, _)| container);
            assert!(container.is_none_or(|name| table.find_own(name.as_bytes()).is_some()), "{name}");
        }
        for name in ["ft.search", "json.set", "commandlog", "@search", "vadd"] {
            assert!(is_foreign(name.as_bytes()), "{name}");
        }
        for name in ["ft.serch", "@dangerus", "nosuch", "@", ""] {
            assert!(!is_foreign(name.as_bytes()), "{name}");
        }
    }
}
