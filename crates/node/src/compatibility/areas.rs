//! The areas that COMPATIBILITY.md shows commands in, and the commands that Holdfast alone has.

use super::Comes;
use super::oracle::{COMMANDS, Known};

/// Commands that belong together.
pub(super) struct Area {
    /// Title of its table.
    pub title: &'static str,
    /// The development that brings those of its commands that have no row, unless `gaps` says otherwise.
    pub comes: Comes,
    /// Redis's group of its commands; for modules, the beginning of their names.
    pub belongs: Belongs,
    /// Commands that Holdfast alone has.
    pub own: &'static [&'static str],
}

/// The commands of an area.
#[derive(Clone, Copy)]
pub(super) enum Belongs {
    Group(&'static str),
    Module(&'static str),
}

const fn group(title: &'static str, group: &'static str) -> Area {
    Area { title, comes: Comes::Later, belongs: Belongs::Group(group), own: &[] }
}

const fn module(title: &'static str, prefix: &'static str) -> Area {
    Area { title, comes: Comes::Modules, belongs: Belongs::Module(prefix), own: &[] }
}

/// Every area, in the order in which they are shown.
pub(super) const AREAS: &[Area] = &[
    group("Connection", "connection"),
    group("Keys", "generic"),
    group("Strings", "string"),
    group("Bitmaps", "bitmap"),
    group("Lists", "list"),
    group("Hashes", "hash"),
    group("Sets", "set"),
    group("Sorted sets", "sorted-set"),
    Area { own: &["begin", "commit", "rollback"], ..group("Transactions", "transactions") },
    Area {
        comes: Comes::Never,
        own: &[
            "holdfast",
            "holdfast|backup",
            "holdfast|export",
            "holdfast|help",
            "holdfast|receivers",
            "holdfast|text",
        ],
        ..group("Server", "server")
    },
    group("Scripts and functions", "scripting"),
    group("Publish and subscribe", "pubsub"),
    group("Streams", "stream"),
    group("Geo", "geo"),
    group("HyperLogLog", "hyperloglog"),
    Area {
        comes: Comes::Arranged,
        own: &[
            "cluster|finalize",
            "cluster|group",
            "cluster|leave",
            "cluster|recover",
            "cluster|standby",
            "cluster|switchover",
            "cluster|redirect",
            "cluster|status",
        ],
        ..group("Cluster", "cluster")
    },
    group("Arrays", "array"),
    module("Vector sets", "v"),
    module("JSON", "json."),
    module("Search", "ft."),
    module("Time series", "ts."),
    module("Bloom filters", "bf."),
    module("Cuckoo filters", "cf."),
    module("Count-min sketches", "cms."),
    module("Top-k", "topk."),
    module("T-digests", "tdigest."),
];

impl Area {
    /// True if it shows this command of Redis's or Valkey's.
    pub fn has(&self, known: &Known) -> bool {
        match self.belongs {
            Belongs::Group(group) => known.group == group,
            Belongs::Module(prefix) => known.group == "module" && known.name.starts_with(prefix),
        }
    }

    /// The names of its commands, sorted.
    pub fn names(&self) -> Vec<&'static str> {
        let others = COMMANDS.values().filter(|known| self.has(known)).map(|known| known.name);
        let mut names: Vec<&str> = others.chain(self.own.iter().copied()).collect();
        names.sort_unstable();
        names
    }
}

/// The area of a command of Redis's or Valkey's.
pub(super) fn of(known: &Known) -> Option<&'static Area> {
    AREAS.iter().find(|area| area.has(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_area() {
        for known in COMMANDS.values() {
            let areas = AREAS.iter().filter(|area| area.has(known)).count();
            assert_eq!(areas, 1, "{} of the group {}", known.name, known.group);
        }
        for name in AREAS.iter().flat_map(|area| area.own) {
            assert!(!COMMANDS.contains_key(name), "{name} is not our own");
        }
    }
}
