//! A client's model of its keys: a small database, written independently of the server's code.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use clocks::UnixMs;
use resp::Value;

/// Database and name.
pub type Name = (u16, String);

/// A value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// A string.
    Text(String),
    /// A list.
    List(VecDeque<String>),
    /// A hash.
    Hash(BTreeMap<String, String>),
    /// A set.
    Set(BTreeSet<String>),
    /// A sorted set.
    Sorted(BTreeMap<String, i64>),
}

impl Content {
    /// Of the kind that names with this first letter have.
    fn empty(name: &str) -> Content {
        match name.as_bytes().first() {
            Some(b'l') => Content::List(VecDeque::new()),
            Some(b'h') => Content::Hash(BTreeMap::new()),
            Some(b's') => Content::Set(BTreeSet::new()),
            Some(b'z') => Content::Sorted(BTreeMap::new()),
            _ => Content::Text(String::new()),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Content::Text(_) => false,
            Content::List(list) => list.is_empty(),
            Content::Hash(hash) => hash.is_empty(),
            Content::Set(set) => set.is_empty(),
            Content::Sorted(sorted) => sorted.is_empty(),
        }
    }
}

/// A key's value, and when it expires, unix milliseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The value.
    pub content: Content,
    /// The time.
    pub until: Option<UnixMs>,
}

/// The keys and their values.
pub type Contents = BTreeMap<Name, Entry>;

/// A change, or a look.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    /// GET
    Get(Name),
    /// SET
    Set(Name, String),
    /// SET PXAT
    SetUntil(Name, String, UnixMs),
    /// APPEND
    Append(Name, String),
    /// INCRBY
    Add(Name, i64),
    /// DEL
    Delete(Name),
    /// RPUSH
    Push(Name, String),
    /// LPOP
    Pop(Name),
    /// LMOVE LEFT RIGHT
    Carry(Name, Name),
    /// HSET
    Put(Name, String, String),
    /// HDEL
    Drop(Name, String),
    /// SADD
    Join(Name, String),
    /// SREM
    Leave(Name, String),
    /// ZADD
    Rank(Name, String, i64),
    /// ZINCRBY
    Rise(Name, String, i64),
    /// ZREM
    Sink(Name, String),
    /// RENAME
    Rename(Name, Name),
    /// COPY REPLACE
    Copy(Name, Name),
    /// PEXPIREAT
    Expire(Name, UnixMs),
    /// PERSIST
    Persist(Name),
    /// FLUSHDB
    Flush(u16),
    /// SWAPDB
    Swap(u16, u16),
}

use Act::*;

impl Act {
    /// The database in which it is done.
    pub fn db(&self) -> u16 {
        match self {
            Get(key)
            | Set(key, _)
            | SetUntil(key, ..)
            | Append(key, _)
            | Add(key, _)
            | Delete(key)
            | Push(key, _)
            | Pop(key)
            | Carry(key, _)
            | Put(key, ..)
            | Drop(key, _)
            | Join(key, _)
            | Leave(key, _)
            | Rank(key, ..)
            | Rise(key, ..)
            | Sink(key, _)
            | Rename(key, _)
            | Copy(key, _)
            | Expire(key, _)
            | Persist(key) => key.0,
            Flush(db) | Swap(db, _) => *db,
        }
    }

    /// The keys it reads or changes; `None`: whole databases.
    pub fn keys(&self) -> Option<Vec<&Name>> {
        match self {
            Flush(_) | Swap(..) => None,
            Carry(a, b) | Rename(a, b) | Copy(a, b) => Some(vec![a, b]),
            Get(key)
            | Set(key, _)
            | SetUntil(key, ..)
            | Append(key, _)
            | Add(key, _)
            | Delete(key)
            | Push(key, _)
            | Pop(key)
            | Put(key, ..)
            | Drop(key, _)
            | Join(key, _)
            | Leave(key, _)
            | Rank(key, ..)
            | Rise(key, ..)
            | Sink(key, _)
            | Expire(key, _)
            | Persist(key) => Some(vec![key]),
        }
    }

    /// Those of them that it may change; `None`: whole databases.
    pub fn written(&self) -> Option<Vec<&Name>> {
        match self {
            Get(_) => Some(Vec::new()),
            Copy(_, to) => Some(vec![to]),
            _ => self.keys(),
        }
    }

    /// As the server is asked for it.
    pub fn words(&self) -> Vec<String> {
        let words: Vec<&dyn fmt::Display> = match self {
            Get(key) => vec![&"get", &key.1],
            Set(key, value) => vec![&"set", &key.1, value],
            SetUntil(key, value, until) => vec![&"set", &key.1, value, &"pxat", until],
            Append(key, value) => vec![&"append", &key.1, value],
            Add(key, by) => vec![&"incrby", &key.1, by],
            Delete(key) => vec![&"del", &key.1],
            Push(key, value) => vec![&"rpush", &key.1, value],
            Pop(key) => vec![&"lpop", &key.1],
            Carry(from, to) => vec![&"lmove", &from.1, &to.1, &"left", &"right"],
            Put(key, field, value) => vec![&"hset", &key.1, field, value],
            Drop(key, field) => vec![&"hdel", &key.1, field],
            Join(key, member) => vec![&"sadd", &key.1, member],
            Leave(key, member) => vec![&"srem", &key.1, member],
            Rank(key, member, score) => vec![&"zadd", &key.1, score, member],
            Rise(key, member, by) => vec![&"zincrby", &key.1, by, member],
            Sink(key, member) => vec![&"zrem", &key.1, member],
            Rename(from, to) => vec![&"rename", &from.1, &to.1],
            Copy(from, to) => vec![&"copy", &from.1, &to.1, &"replace"],
            Expire(key, until) => vec![&"pexpireat", &key.1, until],
            Persist(key) => vec![&"persist", &key.1],
            Flush(_) => vec![&"flushdb"],
            Swap(a, b) => vec![&"swapdb", a, b],
        };
        words.into_iter().map(ToString::to_string).collect()
    }

    /// Applies the command to the model and returns the server's expected reply. `None`: the reply depends on time.
    pub fn apply(&self, contents: &mut Contents) -> Option<Value> {
        let timed = self
            .keys()
            .unwrap_or_default()
            .into_iter()
            .any(|key| contents.get(key).is_some_and(|entry| entry.until.is_some()));
        let answer = self.change(contents);
        if timed { None } else { Some(answer) }
    }

    fn change(&self, contents: &mut Contents) -> Value {
        let bulk = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        let ok = || Value::Simple(b"OK".to_vec());
        let count = |n: usize| Value::Integer(n as i64);
        match self {
            Get(key) => match contents.get(key) {
                Some(Entry { content: Content::Text(text), .. }) => bulk(text),
                _ => Value::Null,
            },
            Set(key, value) => {
                contents.insert(key.clone(), Entry { content: Content::Text(value.clone()), until: None });
                ok()
            }
            SetUntil(key, value, until) => {
                let entry = Entry { content: Content::Text(value.clone()), until: Some(*until) };
                contents.insert(key.clone(), entry);
                ok()
            }
            Delete(key) => count(usize::from(contents.remove(key).is_some())),
            Rename(from, to) => match contents.remove(from) {
                Some(entry) => {
                    contents.insert(to.clone(), entry);
                    ok()
                }
                None => Value::Error(b"ERR no such key".to_vec()),
            },
            Copy(from, to) => match contents.get(from).cloned() {
                Some(entry) => {
                    contents.insert(to.clone(), entry);
                    count(1)
                }
                None => count(0),
            },
            Expire(key, until) => match contents.get_mut(key) {
                Some(entry) => {
                    entry.until = Some(*until);
                    count(1)
                }
                None => count(0),
            },
            Persist(key) => match contents.get_mut(key) {
                Some(entry) => count(usize::from(entry.until.take().is_some())),
                None => count(0),
            },
            Flush(db) => {
                contents.retain(|(other, _), _| other != db);
                ok()
            }
            Swap(a, b) => {
                let swapped = std::mem::take(contents).into_iter().map(|((db, key), entry)| {
                    let db = if db == *a {
                        *b
                    } else if db == *b {
                        *a
                    } else {
                        db
                    };
                    ((db, key), entry)
                });
                *contents = swapped.collect();
                ok()
            }
            Carry(from, to) => {
                let popped = within(contents, from, |content| match content {
                    Content::List(list) => list.pop_front(),
                    _ => None,
                });
                let Some(element) = popped else { return Value::Null };
                let answer = bulk(&element);
                within(contents, to, |content| {
                    if let Content::List(list) = content {
                        list.push_back(element);
                    }
                });
                answer
            }
            Append(key, _)
            | Add(key, _)
            | Push(key, _)
            | Pop(key)
            | Put(key, ..)
            | Drop(key, _)
            | Join(key, _)
            | Leave(key, _)
            | Rank(key, ..)
            | Rise(key, ..)
            | Sink(key, _) => within(contents, key, |content| self.edit(content)),
        }
    }

    fn edit(&self, content: &mut Content) -> Value {
        let count = |n: usize| Value::Integer(n as i64);
        match (self, content) {
            (Append(_, value), Content::Text(text)) => {
                text.push_str(value);
                count(text.len())
            }
            (Add(_, by), Content::Text(text)) => {
                let sum = text.parse::<i64>().unwrap_or(0) + by;
                *text = sum.to_string();
                Value::Integer(sum)
            }
            (Push(_, value), Content::List(list)) => {
                list.push_back(value.clone());
                count(list.len())
            }
            (Pop(_), Content::List(list)) => list.pop_front().map_or(Value::Null, |text| Value::Bulk(text.into())),
            (Put(_, field, value), Content::Hash(hash)) => {
                count(usize::from(hash.insert(field.clone(), value.clone()).is_none()))
            }
            (Drop(_, field), Content::Hash(hash)) => count(usize::from(hash.remove(field).is_some())),
            (Join(_, member), Content::Set(set)) => count(usize::from(set.insert(member.clone()))),
            (Leave(_, member), Content::Set(set)) => count(usize::from(set.remove(member))),
            (Rank(_, member, score), Content::Sorted(sorted)) => {
                count(usize::from(sorted.insert(member.clone(), *score).is_none()))
            }
            (Rise(_, member, by), Content::Sorted(sorted)) => {
                let score = sorted.entry(member.clone()).or_insert(0);
                *score += by;
                Value::Bulk(score.to_string().into_bytes())
            }
            (Sink(_, member), Content::Sorted(sorted)) => count(usize::from(sorted.remove(member).is_some())),
            _ => Value::Null,
        }
    }
}

/// Changes a key's value, which is made if it is not there, and removed if it becomes empty.
fn within<R>(contents: &mut Contents, key: &Name, f: impl FnOnce(&mut Content) -> R) -> R {
    let absent = || Entry { content: Content::empty(&key.1), until: None };
    let entry = contents.entry(key.clone()).or_insert_with(absent);
    let answer = f(&mut entry.content);
    let is_empty = entry.content.is_empty() || matches!(&entry.content, Content::Text(text) if text.is_empty());
    if is_empty {
        contents.remove(key);
    }
    answer
}

/// The contents that a client may find between two times. A key that expired before the first time is gone; a key that
/// expires in between may be there.
pub fn may_be(wanted: &Contents, found: &Contents, from: UnixMs, to: UnixMs) -> bool {
    let alive = |entry: &Entry, at: UnixMs| entry.until.is_none_or(|until| until > at);
    wanted.iter().all(|(key, entry)| match found.get(key) {
        Some(other) => entry == other && alive(entry, from),
        None => !alive(entry, to),
    }) && found.keys().all(|key| wanted.contains_key(key))
}
