//! BITFIELD and BITFIELD_RO: integers of any width anywhere in a string.

use object::bits::{Field, Overflow};
use resp::Args;
use smallvec::SmallVec;

use super::bitmap::bit_offset;
use super::edit::{check_room, in_place};
use super::{BITMAP, OVERWRITE, row};
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::families::Run;
use crate::notify::class;
use crate::spec::{KeySpec, Row, Spec, flags::*, key_flags::*};

pub(crate) const ROWS: &[Row<Run>] = &[
    row(
        Spec {
            name: "bitfield",
            arity: -2,
            flags: WRITE | DENYOOM,
            keys: &[KeySpec::one(1, RW | UPDATE | ACCESS | VARIABLE_FLAGS)],
            vary_flags: Some(|args| if only_gets(args) { RO | ACCESS } else { RW | ACCESS | UPDATE }),
            since: "3.2.0",
            complexity: "O(1) for each subcommand specified",
            summary: "Performs arbitrary bitfield integer operations on strings.",
            syntax: "key [GET encoding offset | [OVERFLOW <WRAP | SAT | FAIL>] <SET encoding offset value | INCRBY encoding \
                     offset increment> [GET encoding offset | [OVERFLOW <WRAP | SAT | FAIL>] <SET encoding offset value | \
                     INCRBY encoding offset increment> ...]]",
            ..BITMAP
        },
        |ctx| bitfield(ctx, false),
    ),
    row(
        Spec {
            name: "bitfield_ro",
            arity: -2,
            flags: READONLY | FAST,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            since: "6.0.0",
            complexity: "O(1) for each subcommand specified",
            summary: "Performs arbitrary read-only bitfield integer operations on strings.",
            syntax: "key [GET encoding offset [GET encoding offset ...]]",
            ..BITMAP
        },
        |ctx| bitfield(ctx, true),
    ),
];

/// One subcommand.
struct Operation {
    field: Field,
    /// In bits.
    offset: u64,
    action: Action,
}

enum Action {
    Get,
    Set(i64, Overflow),
    IncrBy(i64, Overflow),
}

type Operations = SmallVec<[Operation; 4]>;

impl Operation {
    /// The bytes that the field touches: first, and just behind the last.
    fn bytes(&self) -> (usize, usize) {
        ((self.offset / 8) as usize, ((self.offset + self.field.bits() - 1) / 8 + 1) as usize)
    }

    fn writes(&self) -> bool {
        !matches!(self.action, Action::Get)
    }

    /// Applies it. Returns the answer (`None` is nil: OVERFLOW FAIL), and whether the field holds another value now.
    fn run(&self, text: &mut [u8]) -> (Option<i64>, bool) {
        let before = self.field.get(text, self.offset);
        let (after, answer_before) = match self.action {
            Action::Get => return (Some(before), false),
            Action::Set(value, overflow) => (self.field.fit(value, overflow), true),
            Action::IncrBy(by, overflow) => (self.field.add(before, by, overflow), false),
        };
        let Some(after) = after else { return (None, false) };
        self.field.set(text, self.offset, after);
        (Some(if answer_before { before } else { after }), before != after)
    }
}

fn parse(ctx: &Ctx<'_>) -> Result<Operations, Error> {
    let mut operations = Operations::new();
    let mut overflow = Overflow::Wrap;
    let mut i = 2;
    while i < ctx.args.len() {
        let after = ctx.args.len() - i - 1;
        let (writes, step) = if ctx.is(i, "get") && after >= 2 {
            (false, 3)
        } else if (ctx.is(i, "set") || ctx.is(i, "incrby")) && after >= 3 {
            (true, 4)
        } else if ctx.is(i, "overflow") && after >= 1 {
            overflow = match ctx.arg(i + 1).to_ascii_lowercase().as_slice() {
                b"wrap" => Overflow::Wrap,
                b"sat" => Overflow::Saturate,
                b"fail" => Overflow::Fail,
                _ => return Err(Error::new("ERR Invalid OVERFLOW type specified")),
            };
            i += 2;
            continue;
        } else {
            return Err(Error::SYNTAX);
        };
        let field = Field::parse(ctx.arg(i + 1)).ok_or(Error::new(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ))?;
        let offset = match ctx.arg(i + 2) {
            [b'#', index @ ..] => {
                keyspace::canonical_int(index).and_then(|index| index.checked_mul(field.bits() as i64))
            }
            offset => keyspace::canonical_int(offset),
        };
        let offset = bit_offset(ctx, offset)?;
        let action = match writes {
            false => Action::Get,
            true if ctx.is(i, "set") => Action::Set(ctx.int(i + 3)?, overflow),
            true => Action::IncrBy(ctx.int(i + 3)?, overflow),
        };
        operations.push(Operation { field, offset, action });
        i += step;
    }
    Ok(operations)
}

/// True if all subcommands are GET, as far as their names tell; in doubt not.
fn only_gets(args: Args<'_>) -> bool {
    let mut words = args.iter().skip(2);
    while let Some(word) = words.next() {
        let arguments = match word.to_ascii_lowercase().as_slice() {
            b"get" => 2,
            b"overflow" => 1,
            _ => return false,
        };
        if words.by_ref().take(arguments).count() < arguments {
            return false;
        }
    }
    true
}

fn bitfield(ctx: &mut Ctx<'_>, read_only: bool) -> Result<Outcome, Error> {
    let operations = parse(ctx)?;
    let key = ctx.key(1);
    // The string is made long enough for all possible writes, whether they happen or not.
    let Some(len) = operations.iter().filter(|operation| operation.writes()).map(|operation| operation.bytes().1).max()
    else {
        let value = ctx.db.read_string(&key)?;
        ctx.out.array(operations.len());
        for operation in &operations {
            let read = |text: &[u8]| operation.field.get(text, operation.offset);
            ctx.out.integer(value.map_or(0, |value| value.with(read)));
        }
        return Ok(Outcome::Done);
    };
    if read_only {
        return Err(Error::new("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    let before = match ctx.db.peek(&key) {
        Some(entry) => Some(entry.string()?.len()),
        None => None,
    };
    let grown = before.is_none_or(|before| before < len);
    check_room(ctx, &key, len)?;
    let out = &mut ctx.out;
    out.array(operations.len());
    let changed: SmallVec<[(usize, Box<[u8]>); 4]> = in_place(&mut ctx.db, &key, len, |text| {
        let mut changed = SmallVec::new();
        for operation in &operations {
            let (answer, differs) = operation.run(text);
            match answer {
                Some(value) => out.integer(value),
                None => out.null(),
            }
            if operation.writes() && answer.is_some() && (grown || differs) {
                let (first, end) = operation.bytes();
                changed.push((first, text[first..end].into()));
            }
        }
        changed
    })?;
    for (offset, bytes) in &changed {
        ctx.effect(OVERWRITE, &key, |w| {
            w.varint(*offset as u64);
            w.bytes(bytes);
        });
    }
    if grown && !changed.iter().any(|(offset, bytes)| offset + bytes.len() == len) {
        // The last write would have failed, but its place is there.
        ctx.effect(OVERWRITE, &key, |w| {
            w.varint(len as u64);
            w.bytes(&[]);
        });
    }
    if !changed.is_empty() {
        ctx.notify(class::STRING, "setbit", &key);
    }
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn fields() {
        let mut bench = Bench::new();
        assert_eq!(bench.words("bitfield k set u8 0 255 get u8 0 get i8 0"), "*3\r\n:0\r\n:255\r\n:-1\r\n");
        assert_eq!(bench.words("bitfield k set u8 #1 200 incrby u8 #1 100"), "*2\r\n:0\r\n:44\r\n");
        assert_eq!(bench.words("bitfield k overflow sat incrby u8 #1 300 get u4 #2"), "*2\r\n:255\r\n:15\r\n");
        assert_eq!(bench.words("bitfield k overflow fail incrby u8 #1 1"), "*1\r\n$-1\r\n");
        assert_eq!(bench.words("bitfield_ro k get i64 4"), "*1\r\n:-4503599627370496\r\n");
        assert_eq!(bench.words("bitfield k"), "*0\r\n");
        assert_eq!(bench.words("bitfield none get u8 100"), "*1\r\n:0\r\n");
        assert_eq!(bench.words("exists none"), ":0\r\n");
    }

    #[test]
    fn changes_are_counted_like_in_redis() {
        let mut bench = Bench::new();
        for (command, dirty) in [
            ("bitfield k set i5 0 11", 1),
            ("bitfield k set i5 0 11", 1),
            ("bitfield k set i5 0 10", 2),
            ("bitfield k set i5 90 0", 3),
            ("bitfield k incrby i5 0 0", 3),
            ("bitfield k set u8 0 1 set u8 8 2 get u8 0", 5),
            ("bitfield k overflow fail set u8 0 256", 5),
        ] {
            bench.words(command);
            assert_eq!(bench.effects.dirty, dirty, "{command}");
        }
        assert_eq!(bench.words("bitfield new overflow fail incrby u8 8 300"), "*1\r\n$-1\r\n");
        assert_eq!(bench.words("strlen new"), ":2\r\n");
        let text = |entry: &keyspace::EntryRef<'_>| entry.string().unwrap().to_vec();
        assert_eq!(bench.replayed().image(text), bench.image(text));
    }

    #[test]
    fn errors() {
        let mut bench = Bench::new();
        for (operations, error) in [
            ("get u8", "syntax error"),
            ("set u8 0", "syntax error"),
            ("overflow", "syntax error"),
            ("foo u8 0", "syntax error"),
            ("overflow none", "Invalid OVERFLOW type specified"),
            (
                "get u64 0",
                "Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
            ),
            ("get u8 -1", "bit offset is not an integer or out of range"),
            ("get u8 #x", "bit offset is not an integer or out of range"),
            ("get u8 #9223372036854775807", "bit offset is not an integer or out of range"),
            ("set u8 4294967296 1", "bit offset is not an integer or out of range"),
            ("set u8 0 x", "value is not an integer or out of range"),
        ] {
            assert_eq!(bench.words(&format!("bitfield k {operations}")), format!("-ERR {error}\r\n"), "{operations}");
        }
        let reply = bench.words("bitfield_ro k set u8 0 1");
        assert_eq!(reply, "-ERR BITFIELD_RO only supports the GET subcommand\r\n");
        assert_eq!(bench.words("exists k"), ":0\r\n");
    }
}
