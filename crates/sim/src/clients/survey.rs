//! Reads everything that clients with memories have, as a client would.

use std::collections::BTreeSet;

use clocks::UnixMs;
use resp::Value;

use super::model::{Content, Contents, Entry, Name};
use super::{Request, Words};
use crate::invariants::Violation;

/// The databases that a survey looks at.
pub const DATABASES: u16 = 3;

fn words(words: &[&str]) -> Words {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Asks for the names of the keys.
pub fn names() -> Request {
    (0..DATABASES).flat_map(|db| [words(&["select", &db.to_string()]), words(&["keys", "*"])]).collect()
}

/// The reply to [`names`].
pub fn read_names(replies: &[Value]) -> BTreeSet<Name> {
    let mut names = BTreeSet::new();
    for (db, replies) in (0..DATABASES).zip(replies.chunks(2)) {
        if let Some(Value::Array(keys)) = replies.get(1) {
            names.extend(keys.iter().map(|key| (db, text(key))));
        }
    }
    names
}

/// Asks how many keys there are, and for their names once more.
pub fn counts() -> Request {
    let ask =
        |db: u16| [words(&["select", &db.to_string()]), words(&["dbsize"]), words(&["scan", "0", "count", "100000"])];
    (0..DATABASES).flat_map(ask).collect()
}

/// Asks for what these keys hold.
pub fn values(names: &BTreeSet<Name>) -> Request {
    let ask = |(db, key): &Name| {
        let read = match key.as_bytes()[0] {
            b'l' => words(&["lrange", key, "0", "-1"]),
            b'h' => words(&["hgetall", key]),
            b's' => words(&["smembers", key]),
            b'z' => words(&["zrange", key, "0", "-1", "withscores"]),
            _ => words(&["get", key]),
        };
        [words(&["select", &db.to_string()]), words(&["pexpiretime", key]), read]
    };
    names.iter().flat_map(ask).collect()
}

/// The reply to [`values`], without keys that have expired meanwhile.
///
/// # Errors
///
/// A reply has another form than the request asks for.
pub fn read_values(names: &BTreeSet<Name>, replies: &[Value]) -> Result<Contents, Violation> {
    let mut contents = Contents::new();
    for (name, replies) in names.iter().zip(replies.chunks(3)) {
        let wrong = || Violation { rule: "survey", what: format!("{name:?} is answered {replies:?}") };
        let [_, until, value] = replies else { return Err(wrong()) };
        let until = match until {
            Value::Integer(-2) => continue,
            Value::Integer(-1) => None,
            Value::Integer(until) => Some(UnixMs(*until as u64)),
            _ => return Err(wrong()),
        };
        let content = match (name.1.as_bytes()[0], value) {
            (_, Value::Null) => continue,
            (_, Value::Array(values)) if values.is_empty() => continue,
            (b'l', Value::Array(values)) => Content::List(values.iter().map(text).collect()),
            (b'h', Value::Array(values)) => {
                Content::Hash(values.chunks(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect())
            }
            (b's', Value::Array(values)) => Content::Set(values.iter().map(text).collect()),
            (b'z', Value::Array(values)) => Content::Sorted(
                values.chunks(2).map(|pair| (text(&pair[0]), text(&pair[1]).parse().unwrap_or(i64::MIN))).collect(),
            ),
            (_, Value::Bulk(_)) => Content::Text(text(value)),
            _ => return Err(wrong()),
        };
        contents.insert(name.clone(), Entry { content, until });
    }
    Ok(contents)
}

fn text(value: &Value) -> String {
    match value {
        Value::Bulk(bytes) | Value::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => format!("{other:?}"),
    }
}
