//! The kind of a command in a cluster: the nodes that it concerns, and whether it may run before outstanding replies.

use command::flags;

use super::merge::Merge;
use crate::table::{Command, Handler, Table};

/// See the module's text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// It works on its keys, and is answered at once.
    Keyed,
    /// It works on its keys, and may wait.
    Patient,
    /// EVAL and its like: keys that it declares, and perhaps others.
    Script,
    /// WATCH.
    Watch,
    /// It ends what WATCH began.
    Unwatch,
    /// EXEC.
    Exec,
    /// Every node has a part in it; how the parts become one reply.
    Gather(Merge),
    /// It changes the libraries of functions, or users, which belong to the cluster.
    Libraries,
    /// SCAN: the node of the slot in its cursor.
    Scan,
    /// A slot by its number: its owner.
    Slot,
    /// It writes a reply, and no other client sees its effect.
    Quick,
    /// It concerns this node alone.
    Own,
}

impl Kind {
    /// The kinds of all commands, by their ids.
    pub(crate) fn of_all(table: &Table) -> Box<[Kind]> {
        table.all().iter().map(Kind::of).collect()
    }

    fn of(command: &Command) -> Kind {
        if let Some(merge) = Merge::of(&command.name) {
            return Kind::Gather(merge);
        }
        match command.name.as_str() {
            "function|load" | "function|delete" | "function|flush" | "function|restore" => return Kind::Libraries,
            "acl|setuser" | "acl|deluser" | "acl|load" => return Kind::Libraries,
            "scan" => return Kind::Scan,
            "cluster|countkeysinslot" | "cluster|getkeysinslot" => return Kind::Slot,
            "watch" => return Kind::Watch,
            "unwatch" | "discard" | "reset" => return Kind::Unwatch,
            "exec" => return Kind::Exec,
            "multi" | "ping" | "echo" | "select" | "time" | "client|caching" => return Kind::Quick,
            _ => {}
        }
        let spec = command.spec;
        let has_keys = !spec.keys.is_empty() || spec.find_keys.is_some() || spec.find_all_keys.is_some();
        match command.handler {
            Handler::Session(_) if spec.has(flags::RUNS_SCRIPT) => Kind::Script,
            // A session command with keys (DEBUG, MEMORY USAGE) is so rare that it may wait.
            Handler::Session(_) if has_keys && !spec.has(flags::PUBSUB) => Kind::Patient,
            Handler::Data(_) if has_keys && spec.has(flags::BLOCKING) => Kind::Patient,
            Handler::Data(_) if has_keys => Kind::Keyed,
            _ => Kind::Own,
        }
    }
}
