//! Two servers side by side, and the rules by which their replies count as the same.

use std::path::Path;

use resp::Value;

use crate::peer::Peer;

/// Thresholds so low that short histories cross them; both servers take them.
const SETTINGS: &[&str] = &[
    "--save",
    "",
    "--appendonly",
    "no",
    "--list-max-listpack-size",
    "6",
    "--hash-max-listpack-entries",
    "5",
    "--hash-max-listpack-value",
    "40",
    "--set-max-intset-entries",
    "4",
    "--set-max-listpack-entries",
    "5",
    "--set-max-listpack-value",
    "40",
    "--zset-max-listpack-entries",
    "5",
    "--zset-max-listpack-value",
    "40",
];

/// Starts `program` with `args` before the settings and connects.
pub fn start(program: &Path, args: &[&str]) -> Peer {
    Peer::start(program, &[args, SETTINGS].concat(), &[])
}

/// The version that a server reports: 255.255 if it is not released.
pub fn version(peer: &mut Peer) -> (u32, u32) {
    let info = peer.info_server();
    let line = info.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or_default();
    let mut parts = line.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// A reply without harmless differences: unordered members are sorted, doubles are numbers.
pub fn comparable(command: &[u8], reply: Value) -> Value {
    let reply = numbers(reply);
    match command {
        b"smembers" | b"sunion" | b"sinter" | b"sdiff" | b"hkeys" | b"hvals" | b"keys" => sorted(reply, 1),
        b"hgetall" => sorted(reply, 2),
        b"exec" => deeply_sorted(timeless(reply)),
        b"sscan" | b"scan" => scanned(reply, 1),
        b"hello" => about_hello(reply),
        b"xpending" | b"xinfo" | b"xreadgroup" => timeless(reply),
        b"zscan" => scanned(reply, 2),
        // Redis prepares a hash for expiries even by a command that then sets none.
        b"object" if reply == Value::Bulk(b"listpackex".to_vec()) => Value::Bulk(b"listpack".to_vec()),
        // Without values a field stands alone; pairs of fields sort as well, as long as both servers show them alike.
        b"hscan" => scanned(reply, 1),
        _ => reply,
    }
}

/// A reply without the times in XPENDING, XINFO and XREADGROUP, without the shape of Redis's tree, and without fields
/// that only some versions of Redis have.
fn timeless(reply: Value) -> Value {
    // Redis has fields of producers of entries (IDMP), which Holdfast lacks, and since 8.8 those of XNACK.
    let is_new = |name: &Value| {
        const NAMES: [&[u8]; 4] = [b"idmp-", b"pids-", b"iids-", b"nacked-count"];
        matches!(name, Value::Bulk(name) if NAMES.iter().any(|prefix| name.starts_with(prefix)))
    };
    const TIMES: [&[u8]; 5] = [b"idle", b"inactive", b"seen-time", b"active-time", b"radix-tree-nodes"];
    let is_time = |name: &Value| matches!(name, Value::Bulk(name) if TIMES.contains(&name.as_slice()));
    let unless_never = |value: Value| if value == Value::Integer(-1) { value } else { Value::Integer(0) };
    match reply {
        Value::Array(mut items) => {
            match items.as_mut_slice() {
                // -1: the entry has no owner.
                [Value::Bulk(_), Value::Bulk(_), Value::Integer(-1), Value::Integer(_)] => {}
                [Value::Bulk(_), Value::Bulk(_) | Value::Array(_), time @ Value::Integer(_), Value::Integer(_)]
                | [Value::Bulk(_), time @ Value::Integer(_), Value::Integer(_)] => *time = Value::Integer(0),
                _ => {}
            }
            while let Some(at) = items.iter().position(is_new) {
                items.drain(at..(at + 2).min(items.len()));
            }
            let mut after_name = false;
            let items = items.into_iter().map(|item| {
                let item = if std::mem::take(&mut after_name) { unless_never(item) } else { timeless(item) };
                after_name = is_time(&item);
                item
            });
            Value::Array(items.collect())
        }
        Value::Map(pairs) => {
            let pairs = pairs.into_iter().filter(|(name, _)| !is_new(name)).map(|(name, value)| {
                let value = if is_time(&name) { unless_never(value) } else { timeless(value) };
                (name, value)
            });
            Value::Map(pairs.collect())
        }
        other => other,
    }
}

/// A block may hold commands whose members have no order.
fn deeply_sorted(reply: Value) -> Value {
    match sorted(reply, 1) {
        Value::Array(items) => sorted(Value::Array(items.into_iter().map(|item| sorted(item, 1)).collect()), 1),
        other => other,
    }
}

/// Servers have names, versions and ids of their own.
fn about_hello(reply: Value) -> Value {
    if matches!(reply, Value::Error(_)) { reply } else { Value::Null }
}

/// Redis's shortest text of a double is not always the shortest, so doubles are compared as numbers.
fn numbers(reply: Value) -> Value {
    match reply {
        Value::Error(text) => Value::Error(printed(text)),
        Value::Bulk(text) => match double(&text) {
            Some(number) => Value::Double(number),
            None => Value::Bulk(text),
        },
        Value::Array(items) => Value::Array(items.into_iter().map(numbers).collect()),
        Value::Set(items) => Value::Set(items.into_iter().map(numbers).collect()),
        Value::Map(pairs) => Value::Map(pairs.into_iter().map(|(k, v)| (numbers(k), numbers(v))).collect()),
        other => other,
    }
}

/// An error as C prints it: quoted text ends at a zero byte.
fn printed(mut text: Vec<u8>) -> Vec<u8> {
    while let Some(zero) = text.iter().position(|byte| *byte == 0) {
        let quote = text[zero..].iter().position(|byte| *byte == b'\'').unwrap_or(text.len() - zero);
        text.drain(zero..zero + quote);
    }
    text
}

/// A text of many digits that is a double.
fn double(text: &[u8]) -> Option<f64> {
    let long = text.len() >= 15 && text.contains(&b'.');
    std::str::from_utf8(text).ok().filter(|_| long).and_then(|text| text.parse().ok())
}

/// Members sorted, in groups of `width`.
fn sorted(reply: Value, width: usize) -> Value {
    let sort = |items: Vec<Value>| {
        let mut groups: Vec<Vec<Value>> = items.chunks(width).map(<[Value]>::to_vec).collect();
        groups.sort_by_key(|group| format!("{group:?}"));
        groups.concat()
    };
    match reply {
        Value::Array(items) => Value::Array(sort(items)),
        Value::Set(items) => Value::Set(sort(items)),
        Value::Map(mut pairs) => {
            pairs.sort_by_key(|pair| format!("{pair:?}"));
            Value::Map(pairs)
        }
        other => other,
    }
}

/// Cursor and members of a scan.
fn scanned(reply: Value, width: usize) -> Value {
    match reply {
        Value::Array(mut parts) if parts.len() == 2 => {
            let members = sorted(parts.remove(1), width);
            parts.push(members);
            Value::Array(parts)
        }
        other => other,
    }
}
