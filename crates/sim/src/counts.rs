//! Counts of the events that runs have seen.

use std::fmt;

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident: $text:literal,)*) => {
        /// See the module's text.
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl std::ops::AddAssign for Counts {
            fn add_assign(&mut self, other: Counts) {
                $(self.$name += other.$name;)*
            }
        }

        impl fmt::Display for Counts {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let all = [$((self.$name, $text)),*];
                let mut comma = "";
                for (count, text) in all {
                    write!(f, "{comma}{count} {text}")?;
                    comma = ", ";
                }
                Ok(())
            }
        }
    };
}

counts! {
    /// Starts of machines that were completed.
    starts: "starts",
    /// Power failures and kills, those during starts included.
    crashes: "crashes",
    /// Requests that were answered.
    answered: "requests answered",
    /// Requests that were refused because the log had no room for their records.
    refused: "refused",
    /// Logs that have failed.
    failures: "failed logs",
    /// Looks at a machine whose log had no room.
    full: "looks at full logs",
    /// Backups that were taken, and started with.
    backups: "backups",
    /// Checkpoints that were completed.
    checkpoints: "checkpoints",
    /// Keys that left memory for the store.
    cooled: "keys that left memory",
    /// Requests to loaders, and their results.
    fetched: "requests of loaders",
    /// Changes of the log's disks.
    disk_steps: "changes of disks",
    /// Messages of transactions that came twice.
    echoed: "messages that came twice",
    /// Attempts that a start has found prepared.
    in_doubt: "attempts in doubt after starts",
    /// How often a node of a cluster paused its writers.
    held_back: "times held back",
    /// Slots that were given to another node.
    moved: "slots moved",
    /// Shards of nodes with copies that were led after a start.
    led: "shards led",
    /// Shards of lost nodes that others were given.
    recovered: "shards recovered",
    /// Folders that were wiped.
    wiped: "folders wiped",
    /// Terms that began because acceptors change.
    changed: "changes of copies",
    /// Requests to acceptors that came before older ones about old blocks, by the other way.
    overtook_old: "requests before older ones about old blocks",
    /// Requests about old blocks that came before older ones, by the second way.
    overtook_new: "requests about old blocks before older ones",
    /// Sets of acceptors that were settled.
    settled: "changes settled",
    /// Records that were lost, none of them promised.
    lost: "records lost that nobody was promised",
}
