//! The effects that commands log, found in many histories, for `docs/formats.md`. `HOLDFAST_BLESS=1 cargo test -p
//! command what_commands_log` writes it anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::Bench;
use super::history::{LINES, fill};
use super::replay::{known, narrow, payloads};
use crate::effects::{decode, op};
use crate::families::FAMILIES;
use crate::rng::Rng;
use crate::spec::flags;

/// Number, name, payload.
const EFFECTS: &[(u8, &str, &str)] = &[
    (op::DELETE, "DELETE", "nothing: the key is gone"),
    (op::EXPIRE, "EXPIRE", "unix milliseconds (varint); 0: it does not expire"),
    (op::IMAGE, "IMAGE", "expiry (varint, 0 none), image of the value: whatever was there is gone"),
    (op::FLUSH, "FLUSH", "1: all databases are emptied, 0: this one; no key"),
    (op::SWAP, "SWAP", "the other database (varint): they are exchanged; no key"),
    (op::LIBRARIES, "LIBRARIES", "all libraries of functions, as FUNCTION DUMP gives them; no key"),
    (op::GENERATION, "GENERATION", "1: a generation begins, 0: it ends; unix milliseconds (varint); no key"),
    (op::TRANSACTION, "TRANSACTION", "a record of a transaction over nodes; no key"),
    (
        op::STRINGS,
        "string SET",
        "flags u8 (1 raw, 2 expiry follows, 4 keeps its expiry, 8 there was nothing, 16 there was a string of at most 256 KB without an expiry) · [expiry varint] · text",
    ),
    (op::STRINGS + 1, "string SET_INT", "the integer (zigzag varint) · [flags u8 (8, 16)]; the expiry stays"),
    (op::STRINGS + 2, "string OVERWRITE", "offset (varint), bytes; zeros up to the offset; the expiry stays"),
    (op::STRINGS + 3, "string RAISE", "1 if the HyperLogLog is dense then, pairs of register (varint) and value u8"),
    (op::LISTS, "list PUSH", "end u8, number (varint), elements (bytes each) as they were pushed"),
    (op::LISTS + 1, "list POP", "end u8, number (varint); some are left, or pushed next"),
    (op::LISTS + 2, "list SET", "index (varint), element (bytes)"),
    (op::LISTS + 3, "list INSERT", "index it has then (varint), element (bytes)"),
    (op::LISTS + 4, "list REMOVE", "end u8 to begin at, most to remove (varint), element (bytes)"),
    (op::LISTS + 5, "list TRIM", "first and last index that stay (varints)"),
    (op::SETS, "set ADD", "members (bytes each)"),
    (op::SETS + 1, "set REMOVE", "members (bytes each); some are left"),
    (op::HASHES, "hash SET", "names and values (bytes each); they do not expire then"),
    (op::HASHES + 1, "hash SET_KEEPING", "names and values (bytes each); they keep their expiry"),
    (op::HASHES + 2, "hash SET_EXPIRING", "expiry (varint), names and values (bytes each)"),
    (op::HASHES + 3, "hash REMOVE", "names (bytes each); some are left"),
    (op::HASHES + 4, "hash EXPIRE", "expiry (varint, 0 none), names (bytes each)"),
    (op::ZSETS, "zset SET", "number (varint), pairs of score f64 and member (bytes)"),
    (op::ZSETS + 1, "zset REMOVE", "number (varint), members (bytes each); some are left"),
    (op::ZSETS + 2, "zset REMOVE_RANKS", "first rank, number (varints); some are left"),
    (op::ZSETS + 3, "zset STORE", "the set as it encodes itself: whatever was there is gone"),
    (
        op::STREAMS,
        "stream ADD",
        "ID, entries trimmed in front then, number of fields (varints), fields and values (bytes)",
    ),
    (op::STREAMS + 1, "stream TRIM", "entries removed in front (varint)"),
    (op::STREAMS + 2, "stream DELETE", "IDs"),
    (op::STREAMS + 3, "stream MARKS", "last ID, entries added (varint), greatest deleted ID"),
    (op::STREAMS + 4, "stream GROUP", "name, last ID, entries read (zigzag): it is made, the stream perhaps too"),
    (op::STREAMS + 5, "stream GROUP_GONE", "name of the group"),
    (op::STREAMS + 6, "stream POSITION", "name of the group, last ID, entries read (zigzag)"),
    (op::STREAMS + 7, "stream CONSUMER", "names of group and consumer, when it was made (zigzag)"),
    (op::STREAMS + 8, "stream CONSUMER_GONE", "names of group and consumer"),
    (op::STREAMS + 9, "stream DELIVER", "what a group has delivered: see `command/src/stream/effect.rs`"),
    (op::STREAMS + 10, "stream AGAIN", "name of the group, time (zigzag), IDs delivered again to who has them"),
    (op::STREAMS + 11, "stream CLAIM", "names of group and consumer, time, number, per entry ID, time, count"),
    (op::STREAMS + 12, "stream ACKNOWLEDGE", "name of the group, IDs"),
    (op::STREAMS + 13, "stream TRIM_BETWEEN", "IDs of entries trimmed behind others that stay"),
    (op::STREAMS + 14, "stream UNREFERENCE", "IDs that are no longer pending in any group"),
    (
        op::STREAMS + 15,
        "stream RELEASE",
        "name of the group, number (varint), per entry ID and count (varint): pending, and nobody's, in this order",
    ),
];

/// Effects of commands outside the data plane.
const OTHERS: &[(&str, &str)] = &[
    ("config set", "GENERATION, of `appendonly`"),
    ("eval", "what its commands log, in one record"),
    ("evalsha", "what its commands log, in one record"),
    ("exec", "what its commands log, in one record"),
    ("fcall", "what its commands log, in one record"),
    ("function delete", "LIBRARIES"),
    ("function flush", "LIBRARIES"),
    ("function load", "LIBRARIES"),
    ("function restore", "LIBRARIES"),
];

/// Histories that are run, and commands in each.
const HISTORIES: u64 = 120;
const STEPS: usize = 250;

/// Commands that histories seldom come to.
const SELDOM: &[&str] = &[
    "set k a;getex k pxat 1",
    "set k a;expire k -1",
    "set k a;pexpire k -1",
    "set k a;getex k ex 10",
    "hset h f v;hpexpireat h 1 fields 1 f",
    "hset h f v g v;hpexpireat h 1 fields 1 f",
    "hset h f v;hexpireat h 1 fields 1 f",
    "hset h f v g v;hexpireat h 1 fields 1 f",
    "hset h f v;hexpire h 0 fields 1 f",
    "hset h f v g v;hexpire h 0 fields 1 f",
    "hset h f v;hpexpire h 0 fields 1 f",
    "hset h f v g v;hpexpire h 0 fields 1 f",
    "hset h f v;hgetex h pxat 1 fields 1 f",
    "hset h f v g v;hgetex h pxat 1 fields 1 f",
    "hset h f v;hsetex h pxat 1 fields 1 f v",
    "hset h f v g v;hsetex h pxat 1 fields 1 f v",
    "hset h f v;hgetdel h fields 1 f",
    "rpush l a a;lrem l 0 a",
    "rpush l a b;lrem l 0 a",
    "zadd z 1 a;zrem z a",
    "zadd z 1 a;zremrangebylex z - +",
    "debug populate 2 k 3",
    "sadd s a;smove s t a",
    "sadd s a;srem s a",
    "sadd s a;spop s",
    "rpush l a;ltrim l 5 6",
    "rpush l a;lpop l;rpush l a;rpop l;rpush l a;lmpop 1 l left",
    "rpush l a;lmove l m left left;rpoplpush m l",
    "hset h f v;hdel h f",
    "zadd z 1 a;zpopmin z;zadd z 1 a;zpopmax z;zadd z 1 a;zmpop 1 z min",
    "zadd z 1 a;zremrangebyscore z 0 5;zadd z 1 a;zremrangebyrank z 0 0",
    "pfadd p a b;pfcount p;pfmerge q p",
    "xgroup create x g $ mkstream;xadd x 1-1 f v;xadd x 2-1 f v;xreadgroup group g c streams x >;xdel x 1-1;xautoclaim x g d 0 0",
    "xgroup create x g $ mkstream;xadd x 1-1 f v;xreadgroup group g c streams x >;xdel x 1-1;xclaim x g d 0 1-1",
    "xgroup create x g $ mkstream;xadd x 1-1 f v;xreadgroup group g c noack streams x >;xreadgroup group g c streams x 0",
    "xgroup create x g $ mkstream;xadd x 1-1 f v;xadd x maxlen 1 2-1 f v;xtrim x maxlen 0;xsetid x 5-0",
    "xgroup create x g $ mkstream;xadd x 1-1 f v;xreadgroup group g c streams x >;xnack x g fail ids 1 1-1;xack x g 1-1",
    "xgroup create x g $ mkstream;xadd x 1-1 f v;xreadgroup group g c streams x >;xreadgroup group g c claim 0 streams x >",
    "xgroup create x g $ mkstream;xadd x 1-1 f v;xadd x 2-1 f v;xreadgroup group g c streams x >;xdelex x delref ids 1 1-1;xtrim x maxlen 0 delref",
    "xgroup create x g $ mkstream;xgroup create x h $;xadd x 1-1 f v;xreadgroup group g c streams x >;xreadgroup group h c streams x >;xackdel x g delref ids 1 1-1",
    "xgroup create x g $ mkstream;xadd x 1-1 f v;xadd x 2-1 f v;xreadgroup group g c streams x >;xack x g 2-1;xtrim x maxlen 0 acked",
    "xgroup create x g $ mkstream;xadd x 1-1 f v;xadd x 2-1 f v;xreadgroup group g c streams x >;xack x g 2-1;xadd x acked maxlen 1 3-1 f v",
    "xgroup create x g $ mkstream;xadd x 1-1 f v;xreadgroup group g c streams x >;xadd x delref maxlen 1 3-1 f v",
];

fn name(number: u8) -> &'static str {
    let found = EFFECTS.iter().find(|(known, ..)| *known == number);
    found.map_or_else(|| panic!("effect {number} is not in the table"), |(_, name, _)| *name)
}

/// The effects that each command has logged in many random histories, the same ones every time.
fn found() -> BTreeMap<String, BTreeSet<u8>> {
    let mut found: BTreeMap<String, BTreeSet<u8>> = BTreeMap::new();
    let payloads = payloads();
    // One stream of chance for each history: a line more in one place changes little elsewhere.
    for history in 0..HISTORIES {
        let mut rng = Rng::new(history);
        let mut bench = Bench::new();
        if history % 2 == 0 {
            narrow(&mut bench);
        }
        // A history of one family, with some of others: its keys are mostly of its type.
        let own = &LINES[1 + (history as usize % (LINES.len() - 1))];
        for _ in 0..STEPS {
            let lines = if rng.below(8) > 0 { own } else { &LINES[rng.below(LINES.len() as u64) as usize] };
            let line = lines[rng.below(lines.len() as u64) as usize];
            // Time stands still: what a command finds to be over is not its own effect.
            if line.starts_with('@') || !known(line) || line.starts_with("flush") && rng.below(10) > 0 {
                continue;
            }
            let picks: Vec<u8> = (0..9).map(|_| rng.next_u64() as u8).collect();
            let words = fill(line, &picks, bench.now, &payloads);
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            found.entry(row_name(line)).or_default().extend(logged(&mut bench, &words));
        }
    }
    for history in SELDOM {
        let mut bench = Bench::new();
        for line in history.split(';') {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            found.entry(row_name(line)).or_default().extend(logged(&mut bench, &words));
        }
    }
    found
}

/// The effects of one command.
fn logged(bench: &mut Bench, words: &[&[u8]]) -> Vec<u8> {
    bench.effects.encoded.clear();
    bench.run(words);
    decode(&bench.effects.encoded).map(|effect| effect.expect("our own encoding").op).collect()
}

/// The command's name, with that of its subcommand.
fn row_name(line: &str) -> String {
    let mut words = line.split(' ');
    let name = words.next().unwrap_or_default();
    let mut rows = FAMILIES.iter().flat_map(|rows| rows.iter());
    let row = rows.find(|row| row.spec.name == name).expect("a known command");
    let second = words.next().unwrap_or_default();
    match row.subcommands.iter().find(|row| row.spec.name == second) {
        Some(sub) => format!("{name} {}", sub.spec.name),
        None => name.to_owned(),
    }
}

/// The names of those that write, as [`row_name`] gives them.
fn writing() -> impl Iterator<Item = String> {
    FAMILIES.iter().flat_map(|rows| rows.iter()).flat_map(|row| {
        let own = row.spec.has(flags::WRITE) && row.subcommands.is_empty();
        let subs = row.subcommands.iter().filter(|sub| sub.spec.has(flags::WRITE));
        let subs = subs.map(|sub| format!("{} {}", row.spec.name, sub.spec.name));
        own.then(|| row.spec.name.to_owned()).into_iter().chain(subs)
    })
}

fn table() -> String {
    let mut text = String::from("| op | effect | payload |\n|---|---|---|\n");
    for (number, name, payload) in EFFECTS {
        text += &format!("| {number} | {name} | {payload} |\n");
    }
    text += "\n| command | logs |\n|---|---|\n";
    let names = |ops: &BTreeSet<u8>| ops.iter().map(|op| name(*op)).collect::<Vec<_>>().join(", ");
    let found = found();
    let logging = found.iter().filter(|(_, ops)| !ops.is_empty());
    let mut rows: BTreeMap<String, String> = logging.map(|(command, ops)| (command.clone(), names(ops))).collect();
    rows.extend(OTHERS.iter().map(|(command, what)| ((*command).to_owned(), (*what).to_owned())));
    for (command, effects) in rows {
        text += &format!("| `{}` | {effects} |\n", command.to_uppercase());
    }
    text
}

const BEGIN: &str = "<!-- what commands log -->\n";
const END: &str = "<!-- end -->\n";

#[test]
fn what_commands_log_is_documented() {
    let found = found();
    for name in writing() {
        assert!(found.get(&name).is_some_and(|ops| !ops.is_empty()), "no history makes {name} log anything");
    }
    let others = [op::LIBRARIES, op::GENERATION, op::TRANSACTION];
    let logged: BTreeSet<u8> = found.values().flatten().copied().chain(others).collect();
    let listed: BTreeSet<u8> = EFFECTS.iter().map(|(number, ..)| *number).collect();
    assert_eq!(logged, listed, "effects that are listed, and that a history has logged");

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the beginning of the table");
    let (there, after) = rest.split_once(END).expect("the end of the table");
    let wanted = table();
    if std::env::var_os("HOLDFAST_BLESS").is_some() {
        fs::write(&path, [before, BEGIN, &wanted, END, after].concat()).unwrap();
    } else {
        assert_eq!(there, wanted, "docs/formats.md: see this file's first lines");
    }
}
