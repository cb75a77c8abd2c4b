//! What of Redis 8 is there: COMPATIBILITY.md, made from the rows, and the answer to commands that are not there yet.

mod names;

use std::fmt::Write;

use crate::table::{Command, Table};

use names::AREAS;

/// Commands that belong together.
pub struct Area {
    /// Title of its table.
    pub title: &'static str,
    /// When those of its commands come that have no row and no remark.
    pub comes: Comes,
    /// Their names, separated by blanks.
    pub commands: &'static str,
}

/// What brings a command that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comes {
    /// Nothing: it does not fit Holdfast.
    Never,
    /// Lua.
    Scripts,
    /// Pub/sub and what listens to a server: MONITOR, client-side caching.
    Messages,
    /// Streams.
    Streams,
    /// Geo.
    Geo,
    /// HyperLogLog.
    HyperLogLog,
    /// The log and its checkpoints.
    Durability,
    /// Slots that move, standbys.
    Moves,
    /// Nothing: nodes do it by themselves.
    Arranged,
    /// ACL users.
    Users,
    /// Data types that are modules in Redis.
    Modules,
}

impl Comes {
    fn text(self) -> &'static str {
        match self {
            Comes::Never => "there will be none",
            Comes::Scripts => "comes with scripts",
            Comes::Messages => "comes with publish and subscribe",
            Comes::Streams => "is part of Redis 8.2 and comes later",
            Comes::Geo => "comes with geo",
            Comes::HyperLogLog => "comes with HyperLogLog",
            Comes::Durability => "comes with durability",
            Comes::Moves => "comes with slots that move",
            Comes::Arranged => "nodes arrange their slots themselves",
            Comes::Users => "comes with users (ACL)",
            Comes::Modules => "comes after the core: in Redis it is a module",
        }
    }
}

/// Commands without a row that come with something else than the rest of their area.
const COMES: &[(&str, Comes)] = &[("acl", Comes::Users), ("failover", Comes::Moves), ("migrate", Comes::Moves)];

/// Commands that do less than in Redis.
const REMARKS: &[(&str, &str)] = &[
    ("bgrewriteaof", "a checkpoint, which shortens the log; needs `appendonly yes`"),
    (
        "begin",
        "not of Redis: a transaction whose commands come one by one, over any keys of a cluster; needs `cluster-enabled` or `cluster-seeds`",
    ),
    ("asking", "accepted: a slot has one owner"),
    ("bgsave", "a checkpoint; needs `appendonly yes`"),
    (
        "cluster|forget",
        "for the whole cluster, and for good; LOSE-DATA for a node that owns slots, which the others get, empty; transactions that it had a part in and that are in doubt are committed by the nodes that are left, if those are prepared, and noted in their logs",
    ),
    ("cluster|leave", "not of Redis: takes this node out of the cluster, if it owns no slots"),
    ("cluster|links", "those of the worker that serves the connection"),
    ("cluster|redirect", "not of Redis: FORWARD, MOVED or DEFAULT: what this connection gets for keys of other nodes"),
    ("cluster|status", "not of Redis: nodes, leases, epochs, slots and health as a table for people"),
    (
        "commit",
        "not of Redis: all that was done since BEGIN happens, or nothing: -CONFLICT: somebody else has changed what was looked at; -ABORTED: why it cannot be. After any other error the transaction is still there",
    ),
    ("config|set", "`appendonly` waits until all is durable, or closed; not in a transaction or script"),
    ("debug", "the subcommands that tests rely on: see DEBUG HELP"),
    ("holdfast|backup", "not of Redis: a backup of one moment in a new directory; `holdfast restore` makes data of it"),
    (
        "info",
        "`used_memory` counts what the store keeps for itself (`used_memory_store_`...), which is part of `used_memory_overhead`: its cache, up to 64 MB, stays full when keys are deleted",
    ),
    ("lastsave", "of the last checkpoint; without a log, the time of the start"),
    ("readonly", "accepted: there are no replicas yet"),
    ("readwrite", "accepted: there are no replicas yet"),
    ("replicaof", "NO ONE only; there are no replicas yet"),
    ("rollback", "not of Redis: nothing that was done since BEGIN happens"),
    ("save", "the connection waits, others do not; needs `appendonly yes`"),
    ("shutdown", "SAVE needs `appendonly yes`"),
    ("slaveof", "NO ONE only; there are no replicas yet"),
    ("wait", "there are no replicas yet"),
    (
        "waitaof",
        "there are no replicas yet; in a cluster every node answers, and the least counts; not in blocks and scripts there",
    ),
];

/// How a cluster differs from one server, for those who do not mind where their keys are.
const OVER_NODES: &str = "\
Every node of a cluster serves every key, and commands, blocks and scripts may use keys of several nodes: they are done as a whole, or not at all.
What differs from a single server:

- Who waits for keys of several nodes (`BLPOP a b 0`) is served by whichever of them gets something, the first in order if several do. But it takes
  part in no queue: others who wait for the same keys may be served before it, even if they came later. If a node that owns one of the keys is out of reach,
  it is answered -CLUSTERDOWN, as it would not notice a change.
- A script may use keys that it has not declared, wherever they are. If one of them is at another node, what the script has done is undone, and it runs again,
  on copies of its keys; and again for each further key that is found so, a hundred times at most. A script in a block whose keys are all of one node
  uses keys of others only if it declares them. Values of more than 8 MB together at one node are too large to be copied.
- A command or block with keys of several nodes may have 8 MB of arguments for each node, and 8 MB of replies from each. What is longer is refused, and nothing of it was done.
- `SORT` with patterns (BY, GET) that lead to keys of other slots than the sorted key's is refused where there are several nodes, as in Redis Cluster. With
  patterns of the same slot (`{tag}`) it runs where that slot is: in a command, block or script with keys of several nodes, and between `BEGIN` and `COMMIT`, it is refused.
- When slots get another owner, commands for them wait for nodes that hear of it late, for 2 s at most, and go where the keys are. One behind which others of
  its pipeline have been executed by then is answered -TRYAGAIN, and a block with watched keys of the old owner -EXECABORT: nothing of it was done. Who waits for a key (`BLPOP`)
  goes on at the new owner, for its whole time anew; at a node that has had no lease for 3 s it is answered -CLUSTERDOWN.
- Where a node stops in the midst of a command or block with keys of several nodes, the keys of the others stay locked until it is back, or taken out of the
  cluster. Who needs them waits for `cluster-lock-timeout` and is answered -CLUSTERDOWN then, or at once if others have waited: the command was not executed.
- `DBSIZE`, `KEYS`, `SCAN`, `RANDOMKEY`, `FLUSHALL`, `FLUSHDB`, `SWAPDB`, `SCRIPT` and `PUBSUB` are for the whole cluster, whichever node is asked. Some
  clients of Redis Cluster ask every node and put the answers together: they would count keys once for each node. With
  `cluster-redirect moved` (or `CLUSTER REDIRECT MOVED` for one connection) a node does these for what it has itself, as they expect.
- Whether a key's time has come its node says by its own clock. A command, block or script with keys of several nodes sees all of them as at one moment, whatever their clocks say, if none is set back
  meanwhile: where by one clock a key is there whose time has come by another, it waits until it has come by both. A time to live that is relative (EXPIRE, SET EX) counts from when the key's node does its part. What a block itself sets
  to end (PEXPIREAT), and looks at again, each node judges by its own clock.
- `SCRIPT KILL` and `FUNCTION KILL` kill at whichever node the script runs. One that runs on copies of keys of several nodes can be killed also when it has written:
  nothing of it, and of the block it is in, is done.
- A script that came with `SCRIPT LOAD` is known to all nodes; one that came with `EVAL`, to those that have run it.
- Libraries of functions belong to the cluster: its metadata have them, and every node that serves has them, also one that joins later, was away or has lost all it had. `FUNCTION LOAD`,
  `DELETE`, `FLUSH` and `RESTORE` are answered when all nodes have the change that may serve, which takes up to about 2 s where one has just failed; of changes at once none is lost. Where
  no more than half of the voting nodes are up they are refused with -CLUSTERDOWN, or, if that comes to pass meanwhile, answered within some ten seconds with an error that says that nobody knows whether the change was made
  (`-ERR whether the libraries are changed nobody knows: ...`). All libraries together may have 1 MB. They cannot be changed in blocks. A node without a lease answers `FCALL`
  with -CLUSTERDOWN, keys or none. With `cluster-redirect moved` the same library may be loaded, and a library that is not there deleted, without an error: clients of Redis Cluster ask each node for the same change.
- Of `FLUSHALL`, `FLUSHDB`, `SWAPDB` and `SCRIPT`, those that change something are done by each node by itself, not at one moment everywhere. If some nodes cannot be reached, the others have done it all
  the same, and the error says how many (`-ERR 2 of 3 nodes have executed it ...`): it may be repeated once they can. `SWAPDB`, which may not, is refused with -CLUSTERDOWN
  before anything is done unless all nodes can be reached and serve; if one fails in that very moment, the connection is closed or the error says how many have
  done it, and those that have not still have to.
";

fn remark(name: &str) -> Option<&'static str> {
    REMARKS.iter().find(|(known, _)| *known == name).map(|(_, remark)| *remark)
}

/// What brings a command of Redis that has no row. `None`: Redis does not have it either.
fn comes(name: &str) -> Option<Comes> {
    let area = AREAS.iter().find(|area| area.commands.split_ascii_whitespace().any(|known| known == name))?;
    let container = name.split('|').next().unwrap_or(name);
    let found = COMES.iter().find(|(known, _)| *known == name || *known == container);
    Some(found.map_or(area.comes, |(_, comes)| *comes))
}

/// The error for a command of Redis that is not there; `None` if Redis does not have it either.
pub(crate) fn not_there(name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok().filter(|name| !name.contains('|'))?.to_lowercase();
    let is_container = |area: &Area| {
        let mut names = area.commands.split_ascii_whitespace();
        names.any(|known| known.split_once('|').is_some_and(|(container, _)| container == name))
    };
    let container = AREAS.iter().find(|area| is_container(area));
    answer(&name, comes(&name).or_else(|| container.map(|area| area.comes))?)
}

/// As [`not_there`], for a subcommand of a container that is there.
pub(crate) fn subcommand_not_there(container: &str, name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok()?.to_lowercase();
    let full = format!("{container}|{name}");
    answer(&full, comes(&full)?)
}

fn answer(name: &str, comes: Comes) -> Option<String> {
    match comes {
        // Who is no node of a cluster has answered that already.
        Comes::Arranged => {
            let name = name.replace('|', " ");
            Some(format!("ERR '{name}' is not supported by Holdfast: {}", comes.text()))
        }
        // Perhaps one that is there, but this server was told to hide it (rename-command).
        Comes::Never => None,
        comes => {
            let name = name.replace('|', " ");
            Some(format!("ERR '{name}' is not supported by this version of Holdfast: it {}", comes.text()))
        }
    }
}

/// The text of COMPATIBILITY.md.
pub fn markdown(table: &Table) -> String {
    let shown: Vec<&Command> = table.all().iter().filter(|command| !command.is_hidden()).collect();
    let has = |name: &str| shown.iter().any(|command| command.name == name);
    let all: Vec<&str> = AREAS.iter().flat_map(|area| area.commands.split_ascii_whitespace()).collect();
    let there = all.iter().filter(|name| has(name)).count();
    let mut text = format!(
        "# Compatibility\n\n\
         <!-- Generated from the rows: change those (or crates/node/src/compatibility), then run\n     \
         HOLDFAST_BLESS=1 cargo test -p node compatibility_is_current -->\n\n\
         Every command of Redis 8, those of its modules included: {there} of {} commands and subcommands are there. One that \
         is there\nhas all options and legacy forms of Redis unless a remark says otherwise; one that is not answers an error \
         that says\nwhat it comes with. As in Redis, those of a cluster answer so if the server is not part of one, and those that there \
         will never be\nare unknown. How close they are is measured by Redis's own test suite: `tests/redis-suite/run`, with what it skips \
         in `tests/redis-suite/skips.txt`.\n\n| area | there | of |\n|---|---|---|\n",
        all.len(),
    );
    for area in AREAS {
        let names = area.commands.split_ascii_whitespace();
        let count = names.clone().filter(|name| has(name)).count();
        let _ = writeln!(text, "| {} | {count} | {} |", area.title, names.count());
    }
    let _ = write!(text, "\n## Keys of several nodes\n\n{OVER_NODES}");
    for area in AREAS {
        let _ = write!(text, "\n## {}\n\n| command | there | remark |\n|---|---|---|\n", area.title);
        for name in area.commands.split_ascii_whitespace() {
            let (mark, remark) = match has(name) {
                true => ("yes", remark(name).unwrap_or_default()),
                false => ("", comes(name).map_or("", Comes::text)),
            };
            let _ = writeln!(text, "| `{}` | {mark} | {remark} |", name.replace('|', " ").to_uppercase());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use command::flags;

    use super::*;

    /// The committed page is the generated one. `HOLDFAST_BLESS=1` writes it instead.
    #[test]
    fn compatibility_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../COMPATIBILITY.md");
        let text = markdown(&Table::new());
        if std::env::var_os("HOLDFAST_BLESS").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(committed == text, "run HOLDFAST_BLESS=1 cargo test -p node compatibility_is_current");
    }

    /// The table of what commands log in `docs/formats.md` has them all.
    #[test]
    fn every_command_that_writes_says_what_it_logs() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats.md");
        let text = std::fs::read_to_string(path).unwrap();
        let table = Table::new();
        let writing = table.all().iter().filter(|command| command.spec.has(flags::WRITE) && !command.is_container());
        for command in writing {
            let name = command.name.replace('|', " ").to_uppercase();
            // Of a container its subcommands are listed.
            let listed = [format!("| `{name}` | "), format!("| `{name} ")].iter().any(|row| text.contains(row));
            assert!(listed, "docs/formats.md does not say what {} logs", command.name);
        }
    }

    #[test]
    fn every_row_is_a_command_of_redis() {
        let known: Vec<&str> = AREAS.iter().flat_map(|area| area.commands.split_ascii_whitespace()).collect();
        for command in Table::new().all().iter().filter(|command| !command.is_hidden()) {
            assert!(known.contains(&command.name.as_str()), "{} is not in names.rs", command.name);
        }
    }

    #[test]
    fn names_are_unique_and_remarks_are_about_rows() {
        let mut known: Vec<&str> = AREAS.iter().flat_map(|area| area.commands.split_ascii_whitespace()).collect();
        let count = known.len();
        known.sort_unstable();
        known.dedup();
        assert_eq!(known.len(), count);
        let table = Table::new();
        for (name, _) in COMES.iter().map(|(name, _)| (name, "")).chain(REMARKS.iter().map(|(n, r)| (n, *r))) {
            assert!(known.contains(name), "{name}");
        }
        for (name, _) in REMARKS {
            assert!(table.find(name.as_bytes()).is_some(), "{name}");
        }
    }

    #[test]
    fn what_is_not_there_says_so() {
        let answer = |name: &str| not_there(name.as_bytes());
        assert!(answer("SUBSCRIBE").unwrap().ends_with("it comes with publish and subscribe"));
        assert!(answer("ft.config").unwrap().contains("module"));
        let of_cluster = subcommand_not_there("cluster", b"meet").unwrap();
        assert_eq!(of_cluster, "ERR 'cluster meet' is not supported by Holdfast: nodes arrange their slots themselves");
        assert_eq!(answer("nothing"), None);
        assert!(answer("failover").unwrap().ends_with("it comes with slots that move"));
        let of_acl = subcommand_not_there("acl", b"SETUSER").unwrap();
        assert_eq!(of_acl, "ERR 'acl setuser' is not supported by this version of Holdfast: it comes with users (ACL)");
        assert_eq!(subcommand_not_there("client", b"nothing"), None);
    }
}
