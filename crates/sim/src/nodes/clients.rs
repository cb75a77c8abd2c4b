//! Clients: each does one thing after the other at any node, and all of it goes into the history.

use std::collections::VecDeque;

use clocks::UnixMs;
use redolog::simulated::Chance;
use resp::Value;

use super::agenda::Time;
use super::history::{Came, History};
use crate::clients::{Request, Words, number};
use crate::hardware::BEGINNING;
use crate::invariants::{Violation, violated};
use crate::link::Link;

/// Registers that are written together.
pub const REGISTERS: usize = 3;
/// Groups of them.
pub const GROUPS: usize = 2;
/// The group after these, whose registers are there until a moment that all have in common.
pub const LENT: usize = GROUPS;
/// For how long they are there, in milliseconds; by a clock that is far ahead, not at all.
const LENT_MS: u64 = 400;

/// One command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Append(usize),
    Read(usize),
    Ping,
    Write(usize),
    /// One of the registers that are lent, and until when, unix milliseconds.
    Lend(usize, UnixMs),
    See(usize),
}

/// The kinds of requests.
enum Shape {
    /// Each command is a deed.
    Alone(Vec<Act>),
    /// They are one. Watched: it need not be done.
    Block { acts: Vec<Act>, watched: bool },
    /// These keys are watched, and read.
    Watch(Vec<usize>),
}

struct Asked {
    shape: Shape,
    deeds: Vec<usize>,
    /// When it was sent.
    at: Time,
}

/// See the module's text.
pub struct Client {
    id: usize,
    /// Its connection.
    pub link: Link,
    /// The node that has it.
    pub node: usize,
    /// Counts its connections.
    pub connection: u64,
    asked: VecDeque<Asked>,
    /// The keys it has watched, and their contents.
    watching: Option<Vec<(usize, Vec<u64>)>>,
    /// Requests under way at most.
    window: usize,
    keys: usize,
}

/// The name of a list.
pub fn list(key: usize) -> String {
    // Some share a slot.
    if key % 5 == 4 { format!("{{l{}}}{key}", key - 1) } else { format!("l{key}") }
}

fn registers(group: usize) -> impl Iterator<Item = String> {
    (0..REGISTERS).map(move |n| format!("r{group}.{n}"))
}

fn words(words: &[&str]) -> Words {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A request, for people.
pub fn said(request: &Request) -> String {
    request.iter().map(|words| words.join(" ")).collect::<Vec<_>>().join("; ")
}

/// Replies, for people.
pub fn shown(replies: &[Value]) -> String {
    let one = |value: &Value| match value {
        Value::Simple(text) | Value::Bulk(text) => text.escape_ascii().to_string(),
        Value::Error(text) => format!("-{}", text.escape_ascii()),
        Value::Integer(n) => n.to_string(),
        Value::Null => "nil".into(),
        Value::Array(values) => format!("[{}]", shown(values)),
        other => format!("{other:?}"),
    };
    replies.iter().map(one).collect::<Vec<_>>().join(" ")
}

impl Act {
    fn words(self, number: usize) -> Words {
        match self {
            Act::Append(key) => words(&["rpush", &list(key), &number.to_string()]),
            Act::Read(key) => words(&["lrange", &list(key), "0", "-1"]),
            Act::Ping => words(&["ping"]),
            Act::Write(group) => {
                let pairs = registers(group).flat_map(|name| [name, number.to_string()]);
                ["mset".to_owned()].into_iter().chain(pairs).collect()
            }
            Act::Lend(n, until) => {
                let name = registers(LENT).nth(n).unwrap_or_default();
                words(&["set", &name, &number.to_string(), "pxat", &until.to_string()])
            }
            Act::See(group) => ["mget".to_owned()].into_iter().chain(registers(group)).collect(),
        }
    }
}

fn numbers(values: &[Value]) -> Option<Vec<u64>> {
    values.iter().map(number).collect()
}

impl Client {
    /// One without a connection.
    pub fn new(id: usize, keys: usize, chance: &mut Chance) -> Self {
        let window = 1 + chance.below(3) as usize;
        let (link, asked) = (Link::default(), VecDeque::new());
        Self { id, link, node: 0, connection: 0, asked, watching: None, window, keys }
    }

    /// True if it waits for nothing.
    pub fn is_quiet(&self) -> bool {
        self.asked.is_empty()
    }

    /// Since when the oldest unanswered request has been waiting.
    pub fn waits_since(&self) -> Option<Time> {
        self.asked.front().map(|asked| asked.at)
    }

    /// The client's connection is gone: an unanswered request may have been done or not.
    pub fn cut_off(&mut self) {
        self.link.to = None;
        self.asked.clear();
        self.watching = None;
    }

    fn key(&self, chance: &mut Chance) -> usize {
        // Some are asked for more than others.
        chance.below(self.keys as u64).min(chance.below(self.keys as u64)) as usize
    }

    fn acts(&self, chance: &mut Chance) -> Vec<Act> {
        let mut acts: Vec<Act> = Vec::new();
        let reads = chance.below(4) == 0;
        for _ in 0..1 + chance.below(5) {
            let key = self.key(chance);
            let append = Act::Append(key);
            acts.push(match chance.below(12) {
                0 => Act::Ping,
                1..6 if !reads && !acts.contains(&append) => append,
                6 if !acts.iter().any(|act| matches!(act, Act::Write(_) | Act::See(_))) => {
                    let group = chance.below(GROUPS as u64 + u64::from(reads)) as usize;
                    if reads { Act::See(group) } else { Act::Write(group) }
                }
                _ => Act::Read(key),
            });
        }
        acts
    }

    /// The next request.
    pub fn next(&mut self, history: &mut History, now: Time, chance: &mut Chance) -> Option<Request> {
        if self.link.to.is_none() || self.asked.len() >= self.window {
            return None;
        }
        // A request that is sent while keys are watched belongs to that block.
        let watches = |asked: &Asked| matches!(asked.shape, Shape::Watch(_) | Shape::Block { watched: true, .. });
        if self.asked.iter().any(watches) {
            return None;
        }
        if self.watching.is_some() && self.asked.is_empty() {
            return Some(self.block(true, history, now, chance));
        }
        Some(match chance.below(12) {
            0 | 1 if self.watching.is_none() && self.asked.is_empty() => {
                let mut keys: Vec<usize> = (0..1 + chance.below(2)).map(|_| self.key(chance)).collect();
                keys.dedup();
                self.watch(keys, history, now)
            }
            0..5 => self.block(false, history, now, chance),
            5 => self.script(history, now, chance),
            10 => self.lend(history, now, chance),
            11 => self.alone(vec![Act::See(LENT)], history, now),
            6 => {
                let group = chance.below(GROUPS as u64) as usize;
                let act = if chance.below(2) == 0 { Act::Write(group) } else { Act::See(group) };
                self.alone(vec![act], history, now)
            }
            _ => {
                let acts: Vec<Act> = self.acts(chance).into_iter().filter(|act| *act != Act::Ping).collect();
                self.alone(acts, history, now)
            }
        })
    }

    /// The requests when all is over.
    pub fn look(&mut self, history: &mut History, now: Time) -> Request {
        let acts = (0..self.keys).map(Act::Read).chain((0..=LENT).map(Act::See)).collect();
        self.alone(acts, history, now)
    }

    fn alone(&mut self, acts: Vec<Act>, history: &mut History, now: Time) -> Request {
        let mut deeds = Vec::with_capacity(acts.len());
        let mut request = Request::new();
        for act in &acts {
            let deed = begin(self.id, &[*act], history);
            request.push(act.words(deed));
            deeds.push(deed);
        }
        if acts.is_empty() {
            request.push(words(&["ping"]));
        }
        self.asked.push_back(Asked { shape: Shape::Alone(acts), deeds, at: now });
        self.link.send(&request);
        request
    }

    fn watch(&mut self, keys: Vec<usize>, history: &mut History, now: Time) -> Request {
        let watch = keys.iter().map(|key| words(&["watch", &list(*key)]));
        let request: Request = watch.chain(keys.iter().map(|key| Act::Read(*key).words(0))).collect();
        let deeds = keys.iter().map(|key| begin(self.id, &[Act::Read(*key)], history)).collect();
        self.asked.push_back(Asked { shape: Shape::Watch(keys), deeds, at: now });
        self.link.send(&request);
        request
    }

    fn lend(&mut self, history: &mut History, now: Time, chance: &mut Chance) -> Request {
        let until = BEGINNING + now / 1000 + chance.below(LENT_MS);
        self.block_of((0..REGISTERS).map(|n| Act::Lend(n, until)).collect(), false, history, now)
    }

    fn block(&mut self, watched: bool, history: &mut History, now: Time, chance: &mut Chance) -> Request {
        let acts = self.acts(chance);
        self.block_of(acts, watched, history, now)
    }

    fn block_of(&mut self, acts: Vec<Act>, watched: bool, history: &mut History, now: Time) -> Request {
        let deed = begin(self.id, &acts, history);
        if let Some(reads) = self.watching.take_if(|_| watched) {
            history.deeds[deed].reads = reads;
        }
        let commands = acts.iter().map(|act| act.words(deed));
        let request: Request = [words(&["multi"])].into_iter().chain(commands).chain([words(&["exec"])]).collect();
        self.asked.push_back(Asked { shape: Shape::Block { acts, watched }, deeds: vec![deed], at: now });
        self.link.send(&request);
        request
    }

    /// A script that does it all, and answers as a block would.
    fn script(&mut self, history: &mut History, now: Time, chance: &mut Chance) -> Request {
        let acts = self.acts(chance).into_iter().filter(|act| matches!(act, Act::Append(_) | Act::Read(_)));
        let acts: Vec<Act> = acts.collect();
        let deed = begin(self.id, &acts, history);
        let call = |(place, act): (usize, &Act)| match act {
            Act::Append(_) => format!("redis.call('rpush',KEYS[{}],ARGV[1])", place + 1),
            _ => format!("redis.call('lrange',KEYS[{}],0,-1)", place + 1),
        };
        let calls: Vec<String> = acts.iter().enumerate().map(call).collect();
        let keys = acts.iter().filter_map(|act| match act {
            Act::Append(key) | Act::Read(key) => Some(list(*key)),
            _ => None,
        });
        let begins = ["eval".to_owned(), format!("return {{{}}}", calls.join(",")), acts.len().to_string()];
        let request: Request = vec![begins.into_iter().chain(keys).chain([deed.to_string()]).collect()];
        self.asked.push_back(Asked { shape: Shape::Block { acts, watched: false }, deeds: vec![deed], at: now });
        self.link.send(&request);
        request
    }

    /// The first of its requests is answered. True: it was refused.
    ///
    /// # Errors
    ///
    /// The reply is wrong.
    pub fn answered(&mut self, mut replies: Vec<Value>, history: &mut History) -> Result<bool, Violation> {
        let wrong = |what: &dyn std::fmt::Debug| violated("replies", format_args!("client {}: {what:?}", self.id));
        let Some(Asked { shape, deeds, .. }) = self.asked.pop_front() else {
            return wrong(&replies).map(|()| false);
        };
        match shape {
            Shape::Alone(acts) => {
                let mut refused = false;
                for ((act, deed), reply) in acts.iter().zip(&deeds).zip(&replies) {
                    if let Value::Error(_) = reply {
                        refused = true;
                        history.end(*deed, Came::Refused);
                    } else if note(*act, reply, *deed, history) {
                        history.end(*deed, Came::Done);
                    } else {
                        wrong(&(act, reply))?;
                    }
                }
                Ok(refused)
            }
            Shape::Watch(keys) => {
                let lists = replies.split_off(keys.len());
                let mut seen = Vec::new();
                for ((key, deed), reply) in keys.iter().zip(&deeds).zip(&lists) {
                    match reply {
                        Value::Array(values) => {
                            let Some(there) = numbers(values) else { return wrong(reply).map(|()| false) };
                            history.deeds[*deed].reads.push((*key, there.clone()));
                            history.end(*deed, Came::Done);
                            seen.push((*key, there));
                        }
                        Value::Error(_) => history.end(*deed, Came::Refused),
                        _ => wrong(reply)?,
                    }
                }
                let is_watched = replies.iter().all(|reply| !matches!(reply, Value::Error(_)));
                // A block follows, even if a command was refused. It may be done or not.
                self.watching = Some(if is_watched { seen } else { Vec::new() });
                Ok(!is_watched)
            }
            Shape::Block { acts, watched } => {
                let deed = deeds[0];
                match replies.pop() {
                    Some(Value::Array(values)) if values.len() == acts.len() => {
                        for (act, reply) in acts.iter().zip(&values) {
                            if let Value::Error(_) = reply {
                                undo(*act, deed, history);
                            } else if !note(*act, reply, deed, history) {
                                wrong(&(act, reply))?;
                            }
                        }
                        history.end(deed, Came::Done);
                        Ok(false)
                    }
                    Some(Value::Null) if watched => {
                        history.end(deed, Came::Refused);
                        Ok(false)
                    }
                    Some(Value::Error(_)) => {
                        history.end(deed, Came::Refused);
                        Ok(true)
                    }
                    reply => wrong(&reply).map(|()| false),
                }
            }
        }
    }
}

fn begin(client: usize, acts: &[Act], history: &mut History) -> usize {
    let appends = acts.iter().filter_map(|act| if let Act::Append(key) = act { Some(*key) } else { None });
    let wrote = acts.iter().find_map(|act| match act {
        Act::Write(group) => Some(*group),
        Act::Lend(..) => Some(LENT),
        _ => None,
    });
    history.begin(client, appends.collect(), wrote)
}

/// Takes the reply to one command of a deed. False: it is not a valid reply.
fn note(act: Act, reply: &Value, deed: usize, history: &mut History) -> bool {
    let known = &mut history.deeds[deed];
    match (act, reply) {
        (Act::Append(key), Value::Integer(length)) => {
            known.appends.iter_mut().filter(|(of, _)| *of == key).for_each(|(_, said)| *said = Some(*length as u64));
            true
        }
        (Act::Read(key), Value::Array(values)) => match numbers(values) {
            Some(there) => {
                known.reads.push((key, there));
                true
            }
            None => false,
        },
        (Act::See(group), Value::Array(values)) if values.len() == REGISTERS => {
            known.saw = Some((group, values.iter().map(number).collect()));
            true
        }
        (Act::Write(_) | Act::Lend(..), Value::Simple(ok)) => ok == b"OK",
        (Act::Ping, Value::Simple(_)) => true,
        _ => false,
    }
}

/// A command of a block has failed by itself.
fn undo(act: Act, deed: usize, history: &mut History) {
    let known = &mut history.deeds[deed];
    match act {
        Act::Append(key) => known.appends.retain(|(of, _)| *of != key),
        Act::Write(_) | Act::Lend(..) => known.wrote = None,
        _ => {}
    }
}
