//! The commands of Redis and Valkey that are there: COMPATIBILITY.md, made from the rows, and the answer to commands
//! that are not there yet.

mod areas;
mod gaps;
mod oracle;
mod page;

pub use page::markdown;

/// The development that brings a command that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Comes {
    /// Nothing: it does not fit Holdfast.
    Never,
    /// A later version.
    Later,
    /// Slots that move.
    Moves,
    /// Nothing: nodes do its work by themselves.
    Arranged,
    /// Data types that are modules in Redis.
    Modules,
}

impl Comes {
    fn text(self) -> &'static str {
        match self {
            Comes::Never => "there will be none",
            Comes::Later => "is not there yet",
            Comes::Moves => "comes with slots that move",
            Comes::Arranged => "nodes arrange their slots themselves",
            Comes::Modules => "comes after the core: in Redis it is a module",
        }
    }
}

/// Commands that do less than in Redis.
const REMARKS: &[(&str, &str)] = &[
    ("acl|deluser", "in a cluster for all nodes; there it is not possible in blocks"),
    ("acl|load", "in a cluster for all nodes, from the file of this node; there it is not possible in blocks"),
    ("acl|setuser", "in a cluster for all nodes; there it is not possible in blocks"),
    ("bgrewriteaof", "a checkpoint, which shortens the log; needs `appendonly yes`"),
    (
        "begin",
        "not of Redis: a transaction whose commands come one by one, over any keys of a cluster; needs `cluster-enabled` or `cluster-seeds`",
    ),
    ("asking", "accepted: a slot has one owner"),
    ("bgsave", "with `appendonly yes` a checkpoint, and no file of Redis: `redis-cli --rdb` gets one"),
    (
        "cluster|finalize",
        "not of Redis: raises the level of the cluster to the highest that all of its nodes speak; after that no node can go back to an earlier build",
    ),
    (
        "cluster|forget",
        "for the whole cluster, and for good; a node that owns slots needs LOSE-DATA, and the other nodes get its slots, empty; transactions in doubt that it took part in are committed by the remaining nodes that are prepared, and noted in their logs",
    ),
    ("cluster|group", "not of Redis: log groups: where copies of the logs of shards lie"),
    (
        "cluster|recover",
        "not of Redis: a node without slots takes over the shard of a lost owner, from the copies of its log",
    ),
    (
        "cluster|replicate",
        "has this node stand by for the shard of that node, as CLUSTER STANDBY ADD; NO ONE takes it out, as CLUSTER STANDBY REMOVE",
    ),
    ("cluster|standby", "not of Redis: names nodes that have copies of a shard's data and may take it over"),
    ("cluster|switchover", "not of Redis: gives a shard to one of its standbys in order"),
    ("cluster|failover", "as in Redis, at a standby; without FORCE and TAKEOVER: a lost owner is taken over by itself"),
    (
        "cluster|shards",
        "`replication-offset` is 0 for nodes of shards that the asked node neither owns nor stands by for",
    ),
    ("cluster|slot-stats", "without `memory-bytes`, which is not kept"),
    ("cluster|leave", "not of Redis: takes this node out of the cluster, if it owns no slots"),
    ("cluster|links", "those of the worker that serves the connection"),
    ("cluster|redirect", "not of Redis: FORWARD, MOVED or DEFAULT: what this connection gets for keys of other nodes"),
    ("cluster|status", "not of Redis: nodes, leases, epochs, slots and health as a table for people"),
    (
        "commit",
        "not of Redis: makes all changes since BEGIN, or none: -CONFLICT if another client has changed keys that the transaction uses, -ABORTED with the reason if it cannot be committed. After any other error the transaction still exists",
    ),
    (
        "config|set",
        "`appendonly` is answered when all data is durable, or the log is closed; settings of a cluster hold at all nodes; neither is possible in a transaction or script",
    ),
    ("debug", "the subcommands that tests rely on: see DEBUG HELP"),
    (
        "holdfast|receivers",
        "not of Redis: nodes ask each other how many clients a message of a block or script would reach",
    ),
    ("holdfast|text", "not of Redis: owners of shards give their standbys the texts of scripts"),
    (
        "holdfast|backup",
        "not of Redis: a backup of one moment in a new directory; `holdfast restore` turns it into data",
    ),
    (
        "holdfast|export",
        "not of Redis: the steps by which `holdfast export` gets snapshots of one moment from all nodes",
    ),
    (
        "info",
        "`used_memory` counts what the store keeps for itself (`used_memory_store_`...), which is part of `used_memory_overhead`: its cache, up to 64 MB, stays full when keys are deleted. `keysizes` counts keys in memory; a key that only the store has counts when it is read again. In a cluster each node counts its own keys",
    ),
    (
        "failover",
        "in a cluster at the owner of a shard with standbys; it ends by itself within seconds, whatever TIMEOUT says, so FORCE is refused and there is nothing to ABORT",
    ),
    ("lastsave", "with `appendonly yes` of the last checkpoint"),
    ("psync", "a snapshot of one moment, always; no changes follow"),
    (
        "readonly",
        "at a standby the connection reads its copy of the data, see docs/operating/standbys.md; accepted elsewhere",
    ),
    (
        "replicaof",
        "in a cluster as CLUSTER REPLICATE with the node at that address, without NO ONE; a server by itself has no replicas, and takes NO ONE only",
    ),
    ("rollback", "not of Redis: drops all changes since BEGIN"),
    (
        "scan",
        "cursors are below 2^53; a cursor holds a slot and the upper 38 bits of a hash, and is valid until the server's data are created anew; a cursor that no scan returned is an error",
    ),
    ("replconf", "accepted; `rdb-filter-only` has an effect"),
    ("save", "as BGSAVE; the connection waits, others do not"),
    ("slaveof", "as REPLICAOF"),
    ("sync", "a snapshot of one moment; no changes follow"),
    (
        "wait",
        "counts the copies of the log beside the owner's own, if there are some; those that there are not are not waited for; in a cluster all owners that the connection has written to are asked, and the lowest answer counts",
    ),
    (
        "waitaof",
        "counts copies of the log, as WAIT; in a cluster these owners are asked, and the lowest answer counts; there it is not possible in blocks and scripts",
    ),
    (
        "xinfo|stream",
        "without Redis's fields about IDMP: `idmp-duration`, `idmp-maxsize`, `pids-tracked`, `iids-tracked`, `iids-added`, `iids-duplicates`",
    ),
];

/// Differences between a cluster and one server, for clients that do not care where their keys are.
const OVER_NODES: &str = "\
Every node of a cluster serves every key. Commands, blocks and scripts may use keys of several nodes: either all of their effects happen, or none.
What differs from a single server:

- A client that waits for keys of several nodes (`BLPOP a b 0`) is served by the key that gets an element first, or by the first in its order if several do.
  But it has no place in a queue: other clients that wait for the same keys may be served before it, even if they came later. If a node that owns one of the
  keys is out of reach, the client gets -CLUSTERDOWN, because it would not notice a change there.
- A script may use keys that it has not declared, at any node. If one of them is at another node, the script's effects are undone and it runs again,
  once, on copies of its keys. Each further key is locked and fetched when the script needs it, which costs one round trip each. A block with
  such a script is undone and runs again as a whole. The limits are 8 MB of values copied for one node, and 8 MB of keys that were not declared.
- A command or block with keys of several nodes may have 8 MB of arguments for each node, and 8 MB of replies from each. A longer one is refused without effect.
- `SORT` with patterns (BY, GET) is refused in a cluster if they lead to keys of other slots than the sorted key's, as in Redis Cluster. With
  patterns of the same slot (`{tag}`) it runs at that slot's node. It is refused in a command, block or script with keys of several nodes, and between `BEGIN` and `COMMIT`.
- When slots get another owner, commands for them wait up to 2 s for nodes that learn of it late, and then go to the new owner, in their order. If they are spread over
  several owners by then, and later commands of the same pipeline have been executed, they get -TRYAGAIN. A single command gets it, too, if the nodes do not agree on the owner in
  that time, as after a restart of the whole cluster. It was not executed: a client may send it again. EXEC of a block with watched keys of the old owner answers null, as if they had changed. A client that waits
  for a key (`BLPOP`) goes on waiting at the new owner, for its whole time again. At a node that has had no lease for 3 s it gets -CLUSTERDOWN.
- Commands for the keys of a node that stops, or loses its lease, wait for `cluster-takeover-wait` (2.5 s), and then get -CLUSTERDOWN.
- A node may stop in the middle of a command or block over several nodes. If no other node knows whether it agreed, the keys at the other nodes stay locked
  until it is back, or taken out of the cluster. A command that needs them waits for `cluster-lock-timeout` and then gets -CLUSTERDOWN, without being executed. Once
  one command has waited that long, others get the error at once.
- `DBSIZE`, `KEYS`, `SCAN`, `RANDOMKEY`, `FLUSHALL`, `FLUSHDB`, `SWAPDB`, `SCRIPT` and `PUBSUB` are for the whole cluster, whichever node is asked at `port`.
  Smart clients, as those of Redis Cluster, ask every node and add up. For them a node has another port, `cluster-client-port`, which `CLUSTER SLOTS`, `SHARDS`
  and `NODES` name. There a node answers these commands for its own keys, and a command for another node's key with -MOVED. Commands, blocks and scripts with
  keys of several nodes run there as well; a block whose first key is another node's gets -MOVED. `PUBLISH` reaches, and counts, the subscribers of all nodes,
  also in blocks, scripts and functions.
  With `cluster-redirect moved` a node also answers like that at `port`; `CLUSTER REDIRECT` chooses it for one connection.
- `DBSIZE`, `KEYS`, `SCAN`, `RANDOMKEY` and `PUBSUB` are for all nodes in blocks and scripts, too. The nodes are asked just before the block runs, while it holds no
  locks: their answers are not isolated from other clients. A script that comes to such a command is undone, and runs again with the answers, 256 of them at most. The same
  holds for `PUBLISH`, except that a script with keys of several nodes goes on when it is answered. The changes that a script or a block over nodes has made itself are seen
  by `DBSIZE` only; a block whose keys are all of one node sees them in all of these. After `BEGIN` only scripts can use these commands. A smart client's script with keys of several nodes cannot.
  `FLUSHALL`, `FLUSHDB` and `SWAPDB` are refused in scripts, and in blocks before any command of the block has run.
- `INFO commandstats`, `total_commands_processed`, `SLOWLOG` and `MONITOR` are of clients' commands only. Each command counts once: at the node that runs it, or at the
  client's node if several nodes do. The slow log has it at the node where it took long. `MONITOR` shows it at the client's node, but does not show what a script calls that runs elsewhere.
- A key's node decides by its own clock whether the key has expired. A command, block or script with keys of several nodes sees all of them at one moment, unless a clock is set back
  meanwhile: if a key still exists by one of the nodes' clocks and has expired by another, it waits until the key has expired by both. A relative time to live (EXPIRE, SET EX) counts from the moment when the key's node does its part. If a block sets an
  absolute time (PEXPIREAT) and reads the key again, the key's node decides by its own clock.
- `SCRIPT KILL` and `FUNCTION KILL` kill a script at whichever node it runs. A script that runs on copies of keys of several nodes can be killed even after it has written:
  it, and the block that it is in, have no effect.
- A script loaded with `SCRIPT LOAD` is known to all nodes; a node that cannot be reached gets it later. A script sent with `EVAL` is known to the nodes that have run it.
- Libraries of functions belong to the cluster. They are in its metadata, and every node that serves has them, also one that joins later, was away or has lost its data. `FUNCTION LOAD`,
  `DELETE`, `FLUSH` and `RESTORE` are answered when all nodes that may serve have the change. That takes up to about 2 s if a node has just failed. Of concurrent changes none is lost.
  If no more than half of the voting nodes are up, they are refused with -CLUSTERDOWN. If that happens meanwhile, they get an error within some ten seconds, which says that the outcome is not known
  (`-ERR nobody knows whether the libraries are changed: ...`). All libraries together may have 1 MB. They cannot be changed in blocks. A node without a lease answers every `FCALL`,
  with keys or without, with -CLUSTERDOWN. Smart clients ask each node for the same change: so they may load the same library again, and delete one that does not exist, without an error.
- Settings that clients depend on belong to the cluster; docs/configuration.md marks them. `CONFIG SET` at one node holds at all nodes, also at nodes that join or come back. It answers when more
  than half of the voting nodes have the value on their disks; other nodes have it a moment later. Without a majority it gets -CLUSTERDOWN. `CONFIG SET` of a node's own settings stays at the node.
- `FLUSHALL`, `FLUSHDB` and `SWAPDB` are executed by each node separately, not at one moment everywhere. If a node cannot be reached or does not serve, they are refused with -CLUSTERDOWN, which names the
  node, before any node executes them. If a node fails at that very moment, the error says how many nodes have executed the command (`-ERR 2 of 3 nodes have executed it ...`). The client may repeat `FLUSHALL` and `FLUSHDB`;
  after `SWAPDB` the other nodes still have to swap. `SCRIPT FLUSH` is executed by the nodes that can be reached; if that is not all of them, the client gets the same error.
- While a node cannot be reached, commands that need nothing of it are answered: `RANDOMKEY` if another node has a key, `SCRIPT LOAD`, `SCRIPT EXISTS`, `PUBSUB`, and `WAITAOF` of a connection that has changed
  nothing there. `DBSIZE` and `KEYS` need all nodes, and get -CLUSTERDOWN, which names the node.
";

fn remark(name: &str) -> Option<&'static str> {
    REMARKS.iter().find(|(known, _)| *known == name).map(|(_, remark)| *remark)
}

/// The development that brings a command of Redis or Valkey without a row. `None`: neither has it.
fn comes(name: &str) -> Option<Comes> {
    let known = oracle::COMMANDS.get(name)?;
    let container = name.split('|').next().unwrap_or(name);
    let found = gaps::COMMANDS.iter().find(|(known, _)| *known == name || *known == container);
    found.map(|(_, comes)| *comes).or_else(|| areas::of(known).map(|area| area.comes))
}

/// True if Redis or Valkey have a command of this name (in lower case), even one that Holdfast lacks.
pub fn is_known(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name);
    let mut all = oracle::COMMANDS.keys();
    all.any(|known| known.split('|').next() == Some(&*name))
}

/// True if Redis, its modules or Valkey have this command or subcommand (in lower case, "container|name").
pub(crate) fn is_known_in_full(name: &str) -> bool {
    oracle::COMMANDS.contains_key(name)
}

/// The error for a command of Redis or Valkey that is not there. `None` if neither has it, or if `rename-command` hides
/// it. `has_row`: true if there is a row of a name.
pub(crate) fn not_there(name: &[u8], has_row: impl Fn(&[u8]) -> bool) -> Option<String> {
    if has_row(name) {
        return None;
    }
    let name = std::str::from_utf8(name).ok().filter(|name| !name.contains('|'))?.to_lowercase();
    answer(&name, comes(&name)?)
}

/// As [`not_there`], for a subcommand of a container that is there.
pub(crate) fn subcommand_not_there(container: &str, name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok()?.to_lowercase();
    let full = format!("{container}|{name}");
    answer(&full, comes(&full)?)
}

/// The reason why a command is not there, and its replacement, if there is one.
fn reason(name: &str, comes: Comes) -> String {
    match gaps::INSTEAD.iter().find(|(known, _)| *known == name) {
        Some((_, instead)) => format!("{}; {instead}", comes.text()),
        None => comes.text().to_owned(),
    }
}

fn answer(name: &str, comes: Comes) -> Option<String> {
    let why = reason(name, comes);
    match comes {
        // A server outside of a cluster has answered that already.
        Comes::Arranged => {
            let name = name.replace('|', " ");
            Some(format!("ERR '{name}' is not supported by Holdfast: {why}"))
        }
        Comes::Never => None,
        _ => {
            let name = name.replace('|', " ");
            Some(format!("ERR '{name}' is not supported by this version of Holdfast: it {why}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use command::flags;

    use super::*;
    use crate::table::Table;

    /// The committed page must be the generated one. `HOLDFAST_BLESS=1` writes it.
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

    /// The table of logged effects in `docs/formats.md` has all commands.
    #[test]
    fn every_command_that_writes_says_what_it_logs() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats.md");
        let text = std::fs::read_to_string(path).unwrap();
        let table = Table::new();
        let writing = table.all().iter().filter(|command| command.spec.has(flags::WRITE) && !command.is_container());
        for command in writing {
            let name = command.name.replace('|', " ").to_uppercase();
            // A container's subcommands are listed.
            let listed = [format!("| `{name}` | "), format!("| `{name} ")].iter().any(|row| text.contains(row));
            assert!(listed, "docs/formats.md does not say what {} logs", command.name);
        }
    }

    #[test]
    fn every_row_is_a_command_of_redis_or_valkey_or_our_own() {
        let known: Vec<&str> = areas::AREAS.iter().flat_map(areas::Area::names).collect();
        for command in Table::new().all().iter().filter(|command| !command.is_hidden()) {
            assert!(known.contains(&command.name.as_str()), "{} is in no area", command.name);
        }
    }

    #[test]
    fn remarks_are_about_rows_and_gaps_about_commands_of_others() {
        let table = Table::new();
        for (name, _) in REMARKS {
            assert!(table.find(name.as_bytes()).is_some(), "{name}");
        }
        for (name, _) in gaps::COMMANDS {
            assert!(oracle::COMMANDS.contains_key(name), "{name}");
        }
        for (name, _) in gaps::INSTEAD {
            assert!(oracle::COMMANDS.contains_key(name) && table.find_own(name.as_bytes()).is_none(), "{name}");
        }
    }

    /// The words of a row's syntax.
    fn words_there(syntax: &str) -> Vec<String> {
        let words = syntax.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
        words.filter(|word| !word.is_empty()).map(str::to_uppercase).collect()
    }

    /// Every word of an argument of Redis or Valkey is in the row's syntax or in `gaps`, and never in both.
    #[test]
    fn every_argument_is_there_or_named_as_missing() {
        let table = Table::new();
        let mut wrong = Vec::new();
        for command in table.all().iter().filter(|command| !command.is_hidden()) {
            let Some(known) = oracle::COMMANDS.get(command.name.as_str()) else { continue };
            let there = words_there(command.spec.syntax);
            for word in &known.words {
                let is_gap = page::missing_words(&command.name).any(|(gap, _)| gap == *word);
                if is_gap == there.iter().any(|t| t == word) {
                    wrong.push(format!("{} {word}", command.name));
                }
            }
        }
        assert!(wrong.is_empty(), "there and missing, or neither: {wrong:#?}");
        for (name, words, _) in gaps::WORDS {
            assert!(table.find_own(name.as_bytes()).is_some(), "{name} has no row");
            for word in words.split(' ') {
                assert!(oracle::COMMANDS[name].words.contains(&word), "{name} {word}");
            }
        }
    }

    #[test]
    fn a_command_that_is_not_there_says_so() {
        let table = Table::new();
        let answer = |name: &str| not_there(name.as_bytes(), |name| table.find_own(name).is_some());
        assert!(answer("ft.search").unwrap().contains("module"));
        // `redis-cli --cluster` calls these, and shows the answer.
        let arranged = "is not supported by Holdfast: nodes arrange their slots themselves";
        for (name, instead) in [("setslot", "; no command moves one yet"), ("bumpepoch", "")] {
            let answer = subcommand_not_there("cluster", name.as_bytes()).unwrap();
            assert_eq!(answer, format!("ERR 'cluster {name}' {arranged}{instead}"));
        }
        assert_eq!(answer("nothing"), None);
        assert_eq!(answer("get"), None, "a command with a row that is hidden is unknown");
        assert_eq!(
            answer("arget").unwrap(),
            "ERR 'arget' is not supported by this version of Holdfast: it is not there yet"
        );
        assert_eq!(subcommand_not_there("client", b"nothing"), None);
    }
}
