//! The result of a script as a reply (Redis's `luaReplyToRedisReply`).

use crate::Outcome;
use crate::errors::Description;
use crate::lua::{Frame, Kind};
use resp::{Deferred, Protocol, Reply};

/// A table whose elements are being written; it is on Lua's stack, with the last key above it for maps and sets.
struct Level {
    kind: Aggregate,
    header: Deferred,
    written: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Aggregate {
    Array,
    /// The next value written is a pair's second.
    Map {
        half: bool,
    },
    Set,
}

/// The result of writing a value.
enum Written {
    /// It is written and gone from the stack.
    Done,
    /// It is written, an error, and gone.
    Error { counted: bool },
    /// It is a table on the stack whose elements are to be written.
    Open(Aggregate),
}

/// Writes the value on top, which is removed. `script` is the protocol that the script chose: with RESP2 `true` is 1
/// and `false` null.
///
/// Without recursion: a script may nest tables as deep as Lua's stack allows, some thousands, and the host's stack is
/// small.
pub(crate) fn write(f: &mut Frame<'_>, script: Protocol, reply: &mut Reply<'_>) -> Outcome {
    let mut levels: Vec<Level> = Vec::new();
    let mut outcome = Outcome::Value;
    loop {
        match one(f, script, reply) {
            Written::Done => {}
            Written::Error { counted } if levels.is_empty() => outcome = Outcome::Error { count: !counted },
            Written::Error { .. } => {}
            Written::Open(kind) => {
                let header = match kind {
                    Aggregate::Array => reply.deferred_array(),
                    Aggregate::Map { .. } => reply.deferred_map(),
                    Aggregate::Set => reply.deferred_set(),
                };
                if kind != Aggregate::Array {
                    f.push_nil();
                }
                levels.push(Level { kind, header, written: 0 });
            }
        }
        // Pushes the next element, of the innermost table that has one.
        loop {
            let Some(level) = levels.last_mut() else { return outcome };
            if advance(f, level) {
                break;
            }
            f.pop(1);
            if let Some(Level { header, written, .. }) = levels.pop() {
                reply.finish(header, written);
            }
        }
    }
}

/// Pushes the next part of a table to write; false behind the last, with only the table left.
fn advance(f: &mut Frame<'_>, level: &mut Level) -> bool {
    match level.kind {
        Aggregate::Array => {
            let index = i32::try_from(level.written + 1).unwrap_or(i32::MAX);
            if f.push_element(-1, index) == Kind::Nil {
                f.pop(1);
                return false;
            }
            level.written += 1;
        }
        Aggregate::Set => {
            if !f.next(-2) {
                return false;
            }
            f.pop(1);
            f.push_copy(-1);
            level.written += 1;
        }
        Aggregate::Map { half: false } => {
            if !f.next(-2) {
                return false;
            }
            // Key, value, key: the copy is written first, then the value.
            f.push_copy(-2);
            level.kind = Aggregate::Map { half: true };
            level.written += 1;
        }
        // The value has been left on top.
        Aggregate::Map { half: true } => level.kind = Aggregate::Map { half: false },
    }
    true
}

fn one(f: &mut Frame<'_>, script: Protocol, reply: &mut Reply<'_>) -> Written {
    if !f.room(6) {
        reply.error("ERR reached lua stack limit");
        f.pop(1);
        return Written::Done;
    }
    match f.kind(-1) {
        Kind::String => reply.bulk(f.bytes(-1).unwrap_or_default()),
        Kind::Boolean => match (f.truth(-1), script) {
            (value, Protocol::Resp3) => reply.boolean(value),
            (true, Protocol::Resp2) => reply.integer(1),
            (false, Protocol::Resp2) => reply.null(),
        },
        Kind::Number => reply.integer(to_integer(f.number(-1).unwrap_or(0.0))),
        Kind::Table => return table(f, reply),
        _ => reply.null(),
    }
    f.pop(1);
    Written::Done
}

/// As C on x86-64 converts: out of range, and not a number, is the least integer.
fn to_integer(number: f64) -> i64 {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    if (-BOUND..BOUND).contains(&number) { number as i64 } else { i64::MIN }
}

fn table(f: &mut Frame<'_>, reply: &mut Reply<'_>) -> Written {
    if f.push_field(-1, "err") == Kind::String {
        f.pop(1);
        let error = Description::of(f);
        reply.error(&error.text);
        f.pop(1);
        return Written::Error { counted: error.counted };
    }
    f.pop(1);
    for (name, kind) in [("ok", Kind::String), ("double", Kind::Number), ("big_number", Kind::String)] {
        if f.push_field(-1, name) == kind {
            match name {
                "ok" => reply.simple(f.bytes(-1).unwrap_or_default()),
                "double" => reply.double(f.number(-1).unwrap_or(0.0)),
                // Nothing a script says ends a line, in RESP2 neither, where it is a string.
                _ => reply.big_number(one_line(f.bytes(-1).unwrap_or_default())),
            }
            f.pop(2);
            return Written::Done;
        }
        f.pop(1);
    }
    if f.push_field(-1, "verbatim_string") == Kind::Table && verbatim(f, reply) {
        f.pop(2);
        return Written::Done;
    }
    f.pop(1);
    for (name, kind) in [("map", Aggregate::Map { half: false }), ("set", Aggregate::Set)] {
        if f.push_field(-1, name) == Kind::Table {
            let outer = f.top() - 1;
            f.remove(outer);
            return Written::Open(kind);
        }
        f.pop(1);
    }
    Written::Open(Aggregate::Array)
}

/// Line breaks become blanks.
fn one_line(text: &[u8]) -> Vec<u8> {
    text.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }).collect()
}

/// Writes the verbatim string that the table on top is, if it is one.
fn verbatim(f: &mut Frame<'_>, reply: &mut Reply<'_>) -> bool {
    f.push_field(-1, "format");
    f.push_field(-2, "string");
    let found = match (f.bytes(-2), f.bytes(-1)) {
        (Some(format), Some(text)) => {
            let mut padded = [b' '; 3];
            padded.iter_mut().zip(format).for_each(|(to, from)| *to = *from);
            reply.verbatim(padded, text);
            true
        }
        _ => false,
    };
    f.pop(2);
    found
}
