//! Exports of a cluster: the snapshots of all nodes are of one moment, at which all of them hold writes back
//! (`node::Cut`).

use std::collections::BTreeSet;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use keyspace::SLOTS;
use resp::Value;

use super::convert::convert;
use super::part::Part;
use super::{BUFFER, Options, write};
use crate::client::{Connection, Target, explained};

/// Nodes hold writes back for so many milliseconds at most, whatever becomes of this process.
const HOLD_MS: u64 = 1_000;
/// For so long the moments of nodes are tried to fit together, while writes are held back.
const FIT: Duration = Duration::from_millis(300);
/// Between two moments in one hold.
const PAUSE: Duration = Duration::from_millis(1);
/// Holds that are tried, and the pause between two of them.
const HOLDS: u32 = 50;
const BETWEEN: Duration = Duration::from_millis(200);
/// So long all holds together may take.
const HELD_MAX: Duration = Duration::from_millis(1_500);
/// So often an export is begun again because a database was emptied meanwhile.
const EMPTIED_MAX: u32 = 5;
const EMPTIED: &str = "a database was emptied";
/// The errors of a hold after which another one may succeed.
const AGAIN: [&str; 2] = ["ERR writes went on", "ERR a script runs"];

/// A node that has slots.
struct Shard {
    target: Target,
    id: Vec<u8>,
    slots: Vec<(i64, i64)>,
}

/// A node under way.
struct Reached {
    connection: Connection,
    name: String,
}

/// Exports the cluster that a node belongs to.
///
/// # Errors
/// Why there are no files.
pub fn export(options: &Options, mut server: Connection) -> Result<(), String> {
    let shards = shards(&options.target, &mut server)?;
    drop(server);
    let names = if options.merge { vec![options.file.clone()] } else { names(&options.file, shards.len()) };
    let parts: Vec<Part> = names.iter().cloned().map(Part::new).collect::<Result<_, _>>()?;
    let (snapshots, held) = snapshots(&shards)?;
    let said = match options.merge {
        true => vec![merge(options, snapshots, &parts[0])?],
        false => write_all(options, snapshots, &parts)?,
    };
    parts.into_iter().try_for_each(Part::finish)?;
    for (i, (name, said)) in names.iter().zip(said).enumerate() {
        match options.merge {
            true => println!("{}: {said}", name.display()),
            false => println!("{}: {said} of {}, {}", name.display(), shards[i].target, shards[i].told_slots()),
        }
    }
    println!("clients could not write for {} ms", held.as_millis());
    Ok(())
}

/// The file names of the shards.
fn names(file: &Path, count: usize) -> Vec<PathBuf> {
    let stem = file.file_stem().unwrap_or_default();
    let of = |number: usize| {
        let mut name = stem.to_owned();
        name.push(format!("-{number}"));
        if let Some(extension) = file.extension() {
            name.push(".");
            name.push(extension);
        }
        file.with_file_name(name)
    };
    (1..=count).map(of).collect()
}

fn merge(options: &Options, snapshots: Vec<Reached>, part: &Part) -> Result<String, String> {
    let sent = snapshots.into_iter().map(|node| {
        let Reached { connection, name } = node;
        connection.snapshot().map_err(|why| format!("{name}: {why}"))
    });
    let out = BufWriter::with_capacity(BUFFER, part.file());
    convert(sent.collect::<Result<_, _>>()?, out, options.wanted.map(super::Wanted::target))
}

/// Writes a file for each node, all at the same time: a node keeps what is not taken yet on its disk.
fn write_all(options: &Options, snapshots: Vec<Reached>, parts: &[Part]) -> Result<Vec<String>, String> {
    thread::scope(|scope| {
        let threads = snapshots.into_iter().zip(parts).map(|(Reached { connection, name }, part)| {
            scope.spawn(move || write(options, connection, part).map_err(|why| format!("{name}: {why}")))
        });
        let threads: Vec<_> = threads.collect();
        let ended = threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread has failed".to_owned())?);
        ended.collect()
    })
}

/// Connections to all nodes, each of which was asked for a snapshot of the same moment, and for how long writes were
/// held back.
fn snapshots(shards: &[Shard]) -> Result<(Vec<Reached>, Duration), String> {
    let mut again = 1;
    loop {
        let (mut nodes, held) = cut(shards)?;
        let asked = nodes.iter_mut().try_for_each(|node| node.ask(b"SEND"));
        // The answer is looked at, and left where it is: an error says what happened to this node.
        let answered = asked.and_then(|()| nodes.iter_mut().try_for_each(Reached::begins));
        match answered {
            Err(why) if why.contains(EMPTIED) && again < EMPTIED_MAX => again += 1,
            answered => return answered.map(|()| (nodes, held)),
        }
    }
}

/// Connections to all nodes, each of which has begun a snapshot of the same moment.
fn cut(shards: &[Shard]) -> Result<(Vec<Reached>, Duration), String> {
    let mut nodes: Vec<Reached> = shards.iter().map(Shard::reach).collect::<Result<_, _>>()?;
    // Two exports ask the nodes in one order: one of them waits, and has none that the other waits for.
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|node| &shards[*node].id);
    for node in order {
        nodes[node].ask(b"BEGIN")?;
        nodes[node].answer()?;
    }
    let (mut last, mut held) = (String::new(), Duration::ZERO);
    for _ in 0..HOLDS {
        let begun = now();
        let taken = hold_and_take(&mut nodes, begun);
        held += begun.elapsed();
        match taken {
            Ok(()) => return Ok((nodes, held)),
            Err(Failed::Again(why)) => last = why,
            Err(Failed::ForGood(why)) => return Err(why),
        }
        if held > HELD_MAX {
            break;
        }
        thread::park_timeout(BETWEEN);
    }
    Err(format!("the nodes have found no common moment: {last}"))
}

#[allow(clippy::disallowed_methods, reason = "this process has no workers and no clock of theirs")]
fn now() -> Instant {
    Instant::now()
}

enum Failed {
    /// Another hold may succeed.
    Again(String),
    ForGood(String),
}

/// Holds writes back at all nodes, has each begin a snapshot, and lets writes go on.
fn hold_and_take(nodes: &mut [Reached], begun: Instant) -> Result<(), Failed> {
    let of = |why: String| match AGAIN.iter().any(|again| why.contains(again)) {
        true => Failed::Again(why),
        false => Failed::ForGood(why),
    };
    let taken = match all(nodes, &[b"HOLD", HOLD_MS.to_string().as_bytes()]) {
        Ok(_) => moments(nodes, begun),
        Err(why) => Err(of(why)),
    };
    // If a node let writes go on before, its moment may be another one than those of the others.
    let released = all(nodes, &[b"RELEASE"]).map(drop).map_err(of);
    taken.and(released)
}

/// Has all nodes begin snapshots until these fit together.
fn moments(nodes: &mut [Reached], begun: Instant) -> Result<(), Failed> {
    loop {
        let states = all(nodes, &[b"MOMENT"]).map_err(Failed::ForGood)?;
        let states: Option<Vec<Transactions>> = states.iter().map(Transactions::read).collect();
        let states = states.ok_or_else(|| Failed::ForGood("a node has not answered as one does".to_owned()))?;
        match apart(&states) {
            None => return Ok(()),
            Some(one) if begun.elapsed() > FIT => {
                return Err(Failed::Again(format!("the transaction {one} is committed and cannot be applied")));
            }
            Some(_) => thread::park_timeout(PAUSE),
        }
    }
}

/// The transactions over nodes at the moment of a node.
struct Transactions {
    open: BTreeSet<Vec<u8>>,
    committed: BTreeSet<Vec<u8>>,
}

impl Transactions {
    fn read(reply: &Value) -> Option<Self> {
        let Value::Array(lists) = reply else { return None };
        let set = |list: &Value| match list {
            Value::Array(words) => words.iter().map(|word| bytes(word).map(<[u8]>::to_vec)).collect(),
            _ => None,
        };
        let [open, committed] = lists.as_slice() else { return None };
        Some(Self { open: set(open)?, committed: set(committed)? })
    }
}

/// A transaction that is in the snapshot of a node, and not in that of another.
fn apart(states: &[Transactions]) -> Option<String> {
    let open = states.iter().flat_map(|state| &state.open);
    let is_committed = |one: &&Vec<u8>| states.iter().any(|state| state.committed.contains(*one));
    open.filter(is_committed).map(|one| String::from_utf8_lossy(one).into_owned()).next()
}

/// Orders a step at all nodes, and waits for all answers.
fn all(nodes: &mut [Reached], words: &[&[u8]]) -> Result<Vec<Value>, String> {
    let asked: Vec<Result<(), String>> = nodes.iter_mut().map(|node| node.step(words)).collect();
    let answers: Vec<Result<Value, String>> =
        nodes.iter_mut().zip(asked).map(|(node, asked)| asked.and_then(|()| node.answer())).collect();
    answers.into_iter().collect()
}

impl Reached {
    fn step(&mut self, words: &[&[u8]]) -> Result<(), String> {
        let words = [&[&b"HOLDFAST"[..], b"EXPORT"], words].concat();
        self.connection.ask(&words).map_err(|why| self.told(why))
    }

    fn ask(&mut self, step: &[u8]) -> Result<(), String> {
        self.step(&[step])
    }

    fn answer(&mut self) -> Result<Value, String> {
        self.connection.answer().map_err(|why| self.told(why))
    }

    /// Waits until a snapshot begins to arrive.
    fn begins(&mut self) -> Result<(), String> {
        match self.connection.first() {
            Ok(b'-') => self.answer().map(drop),
            Ok(_) => Ok(()),
            Err(why) => Err(self.told(why)),
        }
    }

    fn told(&self, why: String) -> String {
        format!("{}: {}", self.name, explained(why))
    }
}

impl Shard {
    fn reach(&self) -> Result<Reached, String> {
        let connection = Connection::open(&self.target).map_err(explained)?;
        Ok(Reached { connection, name: self.target.to_string() })
    }

    fn told_slots(&self) -> String {
        let range = |(first, last): &(i64, i64)| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        };
        format!("slots {}", self.slots.iter().map(range).collect::<Vec<_>>().join(" "))
    }
}

fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Bulk(bytes) | Value::Simple(bytes) => Some(bytes),
        _ => None,
    }
}

/// The nodes that have slots, in the order of these.
fn shards(target: &Target, server: &mut Connection) -> Result<Vec<Shard>, String> {
    let reply = server.call(&[b"CLUSTER", b"SLOTS"]).map_err(explained)?;
    let shards = read_slots(target, &reply)
        .ok_or_else(|| format!("{target} has not answered CLUSTER SLOTS as a cluster does: {reply:?}"))?;
    let slots: i64 = shards.iter().flat_map(|shard| &shard.slots).map(|(first, last)| last - first + 1).sum();
    if slots != SLOTS as i64 {
        return Err(format!("only {slots} of {SLOTS} slots have an owner"));
    }
    Ok(shards)
}

/// A node without a host is at the host of `target`.
fn read_slots(target: &Target, reply: &Value) -> Option<Vec<Shard>> {
    let Value::Array(ranges) = reply else { return None };
    let mut shards: Vec<Shard> = Vec::new();
    for range in ranges {
        let Value::Array(range) = range else { return None };
        let [Value::Integer(first), Value::Integer(last), Value::Array(owner), ..] = range.as_slice() else {
            return None;
        };
        let [host, Value::Integer(port), id, ..] = owner.as_slice() else { return None };
        let host = bytes(host).filter(|host| !host.is_empty()).map(String::from_utf8_lossy);
        let (host, id) = (host.unwrap_or(target.host.as_str().into()).into_owned(), bytes(id)?.to_vec());
        let slots = (*first, *last);
        match shards.iter_mut().find(|shard| shard.id == id) {
            Some(shard) => shard.slots.push(slots),
            None => {
                let target = target.at(host, u16::try_from(*port).ok()?);
                shards.push(Shard { target, id, slots: vec![slots] });
            }
        }
    }
    shards.iter_mut().for_each(|shard| shard.slots.sort_unstable());
    shards.sort_by_key(|shard| shard.slots[0]);
    Some(shards)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shard_has_a_name() {
        let of = |file: &str| names(Path::new(file), 2);
        assert_eq!(of("a/dump.rdb"), [PathBuf::from("a/dump-1.rdb"), PathBuf::from("a/dump-2.rdb")]);
        assert_eq!(of("dump"), [PathBuf::from("dump-1"), PathBuf::from("dump-2")]);
    }

    #[test]
    fn a_transaction_in_half_of_the_snapshots_is_noticed() {
        let list = |words: &[&str]| Value::Array(words.iter().map(|word| Value::Bulk((*word).into())).collect());
        let state = |open: &[&str], committed: &[&str]| {
            Transactions::read(&Value::Array(vec![list(open), list(committed)])).unwrap()
        };
        assert_eq!(apart(&[state(&["1", "2"], &["3"]), state(&["2"], &["3", "4"])]), None);
        assert_eq!(apart(&[state(&["1", "2"], &["3"]), state(&["1"], &["2"])]), Some("2".to_owned()));
        assert!(Transactions::read(&list(&["1"])).is_none());
    }

    #[test]
    fn the_owners_of_slots_are_in_their_order() {
        let owner =
            |port, id: &str| Value::Array(vec![Value::Bulk(b"".into()), Value::Integer(port), Value::Bulk(id.into())]);
        let range = |first, last, owner| Value::Array(vec![Value::Integer(first), Value::Integer(last), owner]);
        let reply = [range(500, 16383, owner(2, "b")), range(0, 99, owner(1, "a")), range(100, 499, owner(2, "b"))];
        let shards = read_slots(&Target::local(7), &Value::Array(reply.into())).unwrap();
        let told: Vec<String> = shards.iter().map(|shard| format!("{} {}", shard.target, shard.told_slots())).collect();
        assert_eq!(told, ["127.0.0.1:1 slots 0-99", "127.0.0.1:2 slots 100-499 500-16383"]);
    }
}
