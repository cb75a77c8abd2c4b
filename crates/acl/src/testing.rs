//! A small catalogue for tests.

use crate::catalogue::{Catalogue, Categories, Channels, Declared};

/// Name, arity, categories.
const COMMANDS: &[(&str, i32, &str)] = &[
    ("get", 2, "read string fast"),
    ("set", -3, "write string slow"),
    ("del", -2, "keyspace write slow"),
    ("exists", -2, "keyspace read fast"),
    ("copy", -3, "keyspace write slow"),
    ("sort", -2, "write set sortedset list slow dangerous"),
    ("hget", 3, "read hash fast"),
    ("hset", -4, "write hash fast"),
    ("select", 2, "fast connection"),
    ("auth", -2, "fast connection"),
    ("ping", -1, "fast connection"),
    ("debug", -2, "admin slow dangerous"),
    ("config", -2, "slow"),
    ("config|get", -3, "admin slow dangerous"),
    ("config|set", -4, "admin slow dangerous"),
    ("client", -2, "slow"),
    ("client|id", 2, "slow connection"),
    ("client|list", -2, "admin slow dangerous connection"),
    ("acl", -2, "slow"),
    ("acl|whoami", 2, "slow"),
    ("publish", 3, "pubsub fast"),
    ("subscribe", -2, "pubsub slow"),
    ("psubscribe", -2, "pubsub slow"),
    ("unsubscribe", -1, "pubsub slow"),
];

/// The commands above, and a hidden one.
pub(crate) fn catalogue() -> Catalogue {
    let declared = COMMANDS.iter().map(|(name, arity, categories)| Declared {
        name: (*name).into(),
        arity: *arity,
        categories: Categories::named(categories.split(' ')).unwrap(),
        is_free: *name == "auth",
        channels: match *name {
            "publish" => Channels::First,
            "subscribe" => Channels::All,
            "psubscribe" => Channels::Patterns,
            _ => Channels::None,
        },
        is_hidden: false,
    });
    let hidden = Declared { name: "debug".into(), is_hidden: true, ..Declared::default() };
    Catalogue::new(declared.chain([hidden]))
}
