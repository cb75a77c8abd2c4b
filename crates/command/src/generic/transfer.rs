//! Values that change their key or get a second one: RENAME, RENAMENX, COPY, MOVE.
//!
//! Values are copy-on-write, so none of this costs more for a large value than for a small one, unless it is logged.

use keyspace::{Expiry, Key};

use crate::arguments::check_i32;
use crate::ctx::{Ctx, Outcome};
use crate::effects::op;
use crate::error::Error;
use crate::families::Run;
use crate::notify::class;
use crate::spec::{KeySpec, Row, Spec, flags::*, key_flags::*};

/// The rows of this file.
pub const ROWS: &[Row<Run>] = &[
    Row {
        spec: Spec {
            name: "rename",
            arity: 3,
            flags: WRITE | COPIES,
            keys: &[KeySpec::one(1, RW | ACCESS | DELETE), KeySpec::one(2, OW | UPDATE)],
            summary: "Renames a key and overwrites the destination.",
            syntax: "key newkey",
            ..Spec::NEW
        },
        run: Run::Keyed(rename),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "renamenx",
            arity: 3,
            flags: WRITE | FAST | COPIES,
            keys: &[KeySpec::one(1, RW | ACCESS | DELETE), KeySpec::one(2, OW | INSERT)],
            summary: "Renames a key only when the target key name doesn't exist.",
            syntax: "key newkey",
            ..Spec::NEW
        },
        run: Run::Keyed(renamenx),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "copy",
            arity: -3,
            flags: WRITE | DENYOOM | OTHER_DB | COPIES,
            keys: &[KeySpec::one(1, RO | ACCESS), KeySpec::one(2, OW | UPDATE)],
            since: "6.2.0",
            complexity: "O(1): values are copied when they are changed, in pieces.",
            summary: "Copies the value of a key to a new key.",
            syntax: "source destination [DB destination-db] [REPLACE]",
            ..Spec::NEW
        },
        run: Run::Keyed(copy),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "move",
            arity: -3,
            flags: WRITE | FAST | OTHER_DB | COPIES,
            keys: &[KeySpec::one(1, RW | ACCESS | UPDATE)],
            summary: "Moves a key to another database.",
            syntax: "key db [REPLACE]",
            ..Spec::NEW
        },
        run: Run::Keyed(move_),
        subcommands: &[],
    },
];

const SAME_OBJECT: Error = Error::new("ERR source and destination objects are the same");

/// Argument `i` as the number of a logical database.
pub(super) fn database(ctx: &Ctx<'_>, i: usize) -> Result<u16, Error> {
    let n = ctx.int(i)?;
    check_i32(n)?;
    match u16::try_from(n) {
        Ok(db) if usize::from(db) < ctx.db.keyspace().databases() => Ok(db),
        _ => Err(Error::new("ERR DB index is out of range")),
    }
}

/// Takes `from` out of the selected database and puts it at `to` of database `db` with its expiry. False: there was no
/// such key.
fn relocate(ctx: &mut Ctx<'_>, from: &Key<'_>, to: &Key<'_>, db: u16) -> bool {
    let access = ctx.db.peek(from).map(|entry| entry.access());
    let Some((value, expiry)) = ctx.db.take(from) else { return false };
    let home = ctx.db.switch(db);
    ctx.db.set_new_value(to, value, expiry.map_or(Expiry::Clear, Expiry::At));
    if let Some(bits) = access {
        ctx.db.set_access(to, bits);
    }
    ctx.image_effect(to);
    ctx.db.switch(home);
    ctx.effect(op::DELETE, from, |_| {});
    true
}

fn rename(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    if rename_to(ctx, true)? {
        ctx.out.ok();
    }
    Ok(Outcome::Done)
}

fn renamenx(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let renamed = rename_to(ctx, false)?;
    ctx.out.integer(i64::from(renamed));
    Ok(Outcome::Done)
}

/// True if the source is at the destination now because that was allowed.
fn rename_to(ctx: &mut Ctx<'_>, overwrite: bool) -> Result<bool, Error> {
    let (from, to) = (ctx.key(1), ctx.key(2));
    if ctx.db.peek(&from).is_none() {
        return Err(Error::NO_SUCH_KEY);
    }
    if from.bytes == to.bytes {
        return Ok(overwrite);
    }
    if !overwrite && ctx.db.peek(&to).is_some() {
        return Ok(false);
    }
    let (db, before) = (ctx.db.logical(), ctx.kind_before(&to));
    relocate(ctx, &from, &to, db);
    ctx.notify(class::GENERIC, "rename_from", &from);
    ctx.notify(class::GENERIC, "rename_to", &to);
    ctx.tell_replaced(&to, before);
    Ok(true)
}

fn copy(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let home = ctx.db.logical();
    let (mut db, mut replace) = (home, false);
    let mut i = 3;
    while i < ctx.args.len() {
        if ctx.is(i, "replace") {
            replace = true;
        } else if ctx.is(i, "db") && i + 1 < ctx.args.len() {
            i += 1;
            db = database(ctx, i)?;
        } else {
            return Err(Error::SYNTAX);
        }
        i += 1;
    }
    let (from, to) = (ctx.key(1), ctx.key(2));
    if db == home && from.bytes == to.bytes {
        return Err(SAME_OBJECT);
    }
    let source = ctx.db.read(&from).map(|entry| (entry.to_value(), entry.expiry()));
    let Some((value, expiry)) = source else {
        ctx.out.integer(0);
        return Ok(Outcome::Done);
    };
    ctx.db.switch(db);
    ctx.expire_now(&to);
    let copied = replace || ctx.db.peek(&to).is_none();
    if copied {
        let before = ctx.kind_before(&to);
        ctx.db.set_new_value(&to, value, expiry.map_or(Expiry::Clear, Expiry::At));
        ctx.image_effect(&to);
        ctx.notify(class::GENERIC, "copy_to", &to);
        ctx.tell_replaced(&to, before);
    }
    ctx.db.switch(home);
    ctx.out.integer(i64::from(copied));
    Ok(Outcome::Done)
}

fn move_(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let replace = match ctx.args.len() {
        3 => false,
        4 if ctx.is(3, "replace") => true,
        // Redis has no REPLACE here: what follows the database is one argument too many.
        _ => return Err(Error::arity("move")),
    };
    let db = database(ctx, 2)?;
    let home = ctx.db.logical();
    if db == home {
        return Err(SAME_OBJECT);
    }
    let key = ctx.key(1);
    let present = ctx.db.peek(&key).is_some();
    ctx.db.switch(db);
    ctx.expire_now(&key);
    let occupied = ctx.db.peek(&key).is_some();
    let before = ctx.kind_before(&key);
    ctx.db.switch(home);
    let moved = present && (replace || !occupied) && relocate(ctx, &key, &key, db);
    if moved {
        ctx.notify(class::GENERIC, "move_from", &key);
        ctx.db.switch(db);
        ctx.notify(class::GENERIC, "move_to", &key);
        ctx.tell_replaced(&key, before);
        ctx.db.switch(home);
    }
    ctx.out.integer(i64::from(moved));
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use clocks::UnixMs;

    use crate::testing::Bench;

    #[test]
    fn rename_takes_expiry_along() {
        let mut bench = Bench::new();
        bench.words("mset a 1 b 2");
        bench.words("pexpireat a 1000000005000");
        bench.notified();
        assert_eq!(bench.words("rename a b"), "+OK\r\n");
        assert_eq!(bench.notified(), ["rename_from a", "rename_to b", "overwritten b"]);
        assert_eq!(bench.words("get b"), "$1\r\n1\r\n");
        assert_eq!(bench.words("pttl b"), ":5000\r\n");
        assert_eq!(bench.words("rename a b"), "-ERR no such key\r\n");
        assert_eq!(bench.words("rename b b"), "+OK\r\n");
        assert_eq!(bench.words("renamenx b b"), ":0\r\n");
        bench.words("set c 3");
        assert_eq!(bench.words("renamenx b c"), ":0\r\n");
        assert_eq!(bench.words("renamenx b d"), ":1\r\n");
        bench.now += 5001;
        assert_eq!(bench.words("get d"), "$-1\r\n");
    }

    /// In the order of Redis 8.8.
    #[test]
    fn keys_that_are_new_or_replaced_are_told() {
        let mut bench = Bench::new();
        bench.tells_sightings = true;
        bench.words("rpush l x");
        for (command, events) in [
            ("set a 1", &["new a", "set a"][..]),
            ("set b 2", &["new b", "set b"]),
            ("rename a b", &["new b", "rename_from a", "rename_to b", "overwritten b"]),
            ("rename b c", &["new c", "rename_from b", "rename_to c"]),
            ("copy c d", &["new d", "copy_to d"]),
            ("copy l d replace", &["new d", "copy_to d", "overwritten d", "type_changed d"]),
            ("lmove l m left left", &["new m", "lpush m", "lpop l", "del l"]),
            ("set m v", &["overwritten m", "type_changed m", "set m"]),
            ("move c 1", &["new c", "move_from c", "move_to c"]),
            ("get c", &["keymiss c"]),
        ] {
            bench.notified();
            bench.words(command);
            assert_eq!(bench.notified(), events, "{command}");
        }
    }

    #[test]
    fn copies_are_independent() {
        let mut bench = Bench::new();
        bench.words("set a 1");
        assert_eq!(bench.words("copy a a"), "-ERR source and destination objects are the same\r\n");
        assert_eq!(bench.words("copy a b"), ":1\r\n");
        assert_eq!(bench.words("copy none b"), ":0\r\n");
        bench.words("set b 2");
        assert_eq!(bench.words("copy a b"), ":0\r\n");
        assert_eq!(bench.words("copy a b db 3"), ":1\r\n");
        assert_eq!(bench.words("copy a b db 16"), "-ERR DB index is out of range\r\n");
        assert_eq!(bench.words("copy a b db"), "-ERR syntax error\r\n");
        assert_eq!(bench.words("copy b a replace"), ":1\r\n");
        assert_eq!(bench.words("get a"), "$1\r\n2\r\n");
        bench.db = 3;
        assert_eq!(bench.words("get b"), "$1\r\n1\r\n");
        let mut other = bench.replayed();
        other.db = 3;
        assert_eq!(other.words("get b"), "$1\r\n1\r\n");
    }

    #[test]
    fn fields_that_expire_are_still_swept_elsewhere() {
        let mut bench = Bench::new();
        bench.words("hset h f 1 g 2");
        bench.words("hpexpireat h 1000000005000 fields 1 f");
        assert_eq!(bench.words("copy h copied"), ":1\r\n");
        assert_eq!(bench.words("rename h renamed"), "+OK\r\n");
        for bench in [&mut bench.replayed(), &mut bench] {
            for name in ["copied", "renamed"] {
                let slot = keyspace::slot_of(name.as_bytes());
                assert_eq!(bench.inspect(|db| db.next_expiry(slot)), Some(UnixMs(1_000_000_005_000)), "{name}");
                assert_eq!(bench.words(&format!("hpexpiretime {name} fields 1 f")), "*1\r\n:1000000005000\r\n");
            }
            assert_eq!(bench.inspect(|db| db.next_expiry(keyspace::slot_of(b"h"))), None);
        }
    }

    #[test]
    fn a_large_value_is_shared_until_it_changes() {
        let mut bench = Bench::new();
        for i in 0..3000 {
            bench.words(&format!("rpush l element-number-{i} another-element-{i}"));
        }
        bench.words("copy l m");
        bench.words("lpush l new");
        assert_eq!(bench.words("llen l"), ":6001\r\n");
        assert_eq!(bench.words("llen m"), ":6000\r\n");
    }

    #[test]
    fn move_goes_to_a_free_key_only() {
        let mut bench = Bench::new();
        bench.words("set a 1");
        assert_eq!(bench.words("move a 0"), "-ERR source and destination objects are the same\r\n");
        assert_eq!(bench.words("move a x"), "-ERR value is not an integer or out of range\r\n");
        assert_eq!(bench.words("move none 1"), ":0\r\n");
        assert_eq!(bench.words("move a 1"), ":1\r\n");
        bench.words("set a 2");
        assert_eq!(bench.words("move a 1"), ":0\r\n");
        assert_eq!(bench.words("move a x again"), "-ERR wrong number of arguments for 'move' command\r\n");
        assert_eq!(bench.words("move a x replace 2"), "-ERR wrong number of arguments for 'move' command\r\n");
        bench.words("rpush b x");
        bench.words("move b 1");
        bench.words("set b y px 5000");
        bench.notified();
        assert_eq!(bench.words("move b 1 replace"), ":1\r\n");
        assert_eq!(bench.notified(), ["move_from b", "move_to b", "overwritten b", "type_changed b"]);
        let mut other = bench.replayed();
        for bench in [&mut bench, &mut other] {
            bench.db = 1;
            assert_eq!(bench.words("get b"), "$1\r\ny\r\n");
            assert_eq!(bench.words("pttl b"), ":5000\r\n");
            bench.db = 0;
            assert_eq!(bench.words("exists b"), ":0\r\n");
        }
        bench.db = 1;
        bench.words("pexpire a 10");
        bench.db = 0;
        bench.now += 11;
        bench.notified();
        assert_eq!(bench.words("move a 1"), ":1\r\n");
        assert_eq!(bench.notified(), ["expired a", "move_from a", "move_to a"]);
    }
}
