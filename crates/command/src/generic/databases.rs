//! Commands on whole databases: FLUSHDB, FLUSHALL, SWAPDB.

use crate::barrier::Barrier;
use crate::ctx::{Ctx, Outcome};
use crate::error::Error;
use crate::families::Run;
use crate::spec::{Row, Spec, flags::*};

/// The rows of this file.
pub const ROWS: &[Row<Run>] = &[
    Row {
        spec: Spec {
            name: "flushdb",
            arity: -1,
            flags: WRITE,
            group: "server",
            categories: &["keyspace", "dangerous"],
            complexity: "O(N) where N is the number of keys in the selected database, in the background.",
            summary: "Remove all keys from the current database.",
            tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
            syntax: "[ASYNC | SYNC]",
            ..Spec::NEW
        },
        run: Run::Whole(flushdb),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "flushall",
            arity: -1,
            flags: WRITE,
            group: "server",
            categories: &["keyspace", "dangerous"],
            complexity: "O(N) where N is the total number of keys in all databases, in the background.",
            summary: "Removes all keys from all databases.",
            tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
            syntax: "[ASYNC | SYNC]",
            ..Spec::NEW
        },
        run: Run::Whole(flushall),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "swapdb",
            arity: 3,
            flags: WRITE | FAST,
            group: "server",
            categories: &["keyspace", "dangerous"],
            since: "4.0.0",
            complexity: "O(N) where N is the count of clients watching or blocking on keys from both databases.",
            summary: "Swaps two Redis databases.",
            syntax: "index1 index2",
            ..Spec::NEW
        },
        run: Run::Whole(swapdb),
        subcommands: &[],
    },
];

/// SYNC and ASYNC are the same here: keys are gone at once, and their memory follows in bounded steps.
fn check_mode(ctx: &Ctx<'_>) -> Result<(), Error> {
    let known = match ctx.args.len() {
        1 => true,
        2 => ctx.is(1, "sync") || ctx.is(1, "async"),
        _ => false,
    };
    if known { Ok(()) } else { Err(Error::SYNTAX) }
}

fn flushdb(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    check_mode(ctx)?;
    let (db, keys) = (ctx.db.logical(), ctx.db.len());
    ctx.fx.push_barrier(Barrier::Flush(Some(db)), keys);
    ctx.out.ok();
    Ok(Outcome::Done)
}

fn flushall(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    check_mode(ctx)?;
    let (own, databases) = (ctx.db.logical(), ctx.db.keyspace().databases() as u16);
    let count = |db| {
        ctx.db.switch(db);
        ctx.db.len()
    };
    let keys = (0..databases).map(count).sum();
    ctx.db.switch(own);
    ctx.fx.push_barrier(Barrier::Flush(None), keys);
    ctx.out.ok();
    Ok(Outcome::Done)
}

fn swapdb(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let number = |i: usize, error| {
        let n = ctx.int(i).ok().and_then(|n| i32::try_from(n).ok());
        n.ok_or(Error::new(error))
    };
    let a = number(1, "ERR invalid first DB index")?;
    let b = number(2, "ERR invalid second DB index")?;
    let database = |n: i32| {
        let known = u16::try_from(n).ok().filter(|&db| usize::from(db) < ctx.db.keyspace().databases());
        known.ok_or(Error::new("ERR DB index is out of range"))
    };
    let (a, b) = (database(a)?, database(b)?);
    if a != b {
        ctx.fx.push_barrier(Barrier::Swap(a, b), 1);
    }
    ctx.out.ok();
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn flushes_and_swaps() {
        let mut bench = Bench::new();
        bench.words("mset a 1 b 2");
        bench.db = 1;
        bench.words("set c 3");
        assert_eq!(bench.words("swapdb 0 1"), "+OK\r\n");
        assert_eq!(bench.words("dbsize"), ":2\r\n");
        assert_eq!(bench.words("flushdb async"), "+OK\r\n");
        assert_eq!(bench.words("dbsize"), ":0\r\n");
        let mut other = bench.replayed();
        assert_eq!(other.words("get c"), "$1\r\n3\r\n");
        assert_eq!(other.words("dbsize"), ":1\r\n");
        bench.db = 0;
        assert_eq!(bench.words("get c"), "$1\r\n3\r\n");
        assert_eq!(bench.words("flushall now"), "-ERR syntax error\r\n");
        assert_eq!(bench.words("flushall sync async"), "-ERR syntax error\r\n");
        assert_eq!(bench.words("flushall"), "+OK\r\n");
        assert_eq!(bench.words("dbsize"), ":0\r\n");
        assert_eq!(bench.words("swapdb x 1"), "-ERR invalid first DB index\r\n");
        assert_eq!(bench.words("swapdb 1 x"), "-ERR invalid second DB index\r\n");
        assert_eq!(bench.words("swapdb 1 16"), "-ERR DB index is out of range\r\n");
        assert_eq!(bench.words("swapdb 1 -1"), "-ERR DB index is out of range\r\n");
        assert_eq!(bench.words("swapdb 2 2"), "+OK\r\n");
    }
}
