//! The existence, type and deletion of keys: DEL, UNLINK, EXISTS, TOUCH, TYPE.

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
            name: "del",
            arity: -2,
            flags: WRITE,
            keys: &[KeySpec::range(1, -1, 1, RM | DELETE)],
            complexity: "O(N) where N is the number of keys that will be removed.",
            summary: "Deletes one or more keys.",
            tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
            syntax: "key [key ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(del),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "unlink",
            arity: -2,
            flags: WRITE | FAST,
            keys: &[KeySpec::range(1, -1, 1, RM | DELETE)],
            since: "4.0.0",
            complexity: "O(1) for each key removed, in the command's own time.",
            summary: "Asynchronously deletes one or more keys.",
            tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
            syntax: "key [key ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(del),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "exists",
            arity: -2,
            flags: READONLY | FAST,
            keys: &[KeySpec::range(1, -1, 1, RO)],
            complexity: "O(N) where N is the number of keys to check.",
            summary: "Determines whether one or more keys exist.",
            tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
            syntax: "key [key ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(exists),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "touch",
            arity: -2,
            flags: READONLY | FAST,
            keys: &[KeySpec::range(1, -1, 1, RO)],
            since: "3.2.1",
            complexity: "O(N) where N is the number of keys that will be touched.",
            summary: "Returns the number of existing keys out of those specified after updating the time they were last accessed.",
            tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
            syntax: "key [key ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(touch),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "type",
            arity: 2,
            flags: READONLY | FAST,
            keys: &[KeySpec::one(1, RO)],
            summary: "Determines the type of value stored at a key.",
            syntax: "key",
            ..Spec::NEW
        },
        run: Run::Keyed(type_),
        subcommands: &[],
    },
];

fn del(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let mut deleted = 0;
    for i in 1..ctx.args.len() {
        let key = ctx.key(i);
        if ctx.db.remove(&key) {
            ctx.effect(op::DELETE, &key, |_| {});
            ctx.notify(class::GENERIC, "del", &key);
            deleted += 1;
        }
    }
    ctx.out.integer(deleted);
    Ok(Outcome::Done)
}

fn exists(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let found = (1..ctx.args.len()).filter(|&i| ctx.db.look(&ctx.key(i)).is_some()).count();
    ctx.out.count(found as u64);
    Ok(Outcome::Done)
}

fn touch(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let found = (1..ctx.args.len()).filter(|&i| ctx.db.read(&ctx.key(i)).is_some()).count();
    ctx.out.count(found as u64);
    Ok(Outcome::Done)
}

fn type_(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(1);
    // Redis looks without touching.
    let name = ctx.db.peek(&key).map_or("none", |entry| entry.kind().type_name());
    ctx.out.simple(name);
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn keys_are_deleted_and_counted() {
        let mut bench = Bench::new();
        bench.words("mset a 1 b 2");
        assert_eq!(bench.words("exists a b c a"), ":3\r\n");
        assert_eq!(bench.words("del a c"), ":1\r\n");
        assert_eq!(bench.words("exists a b"), ":1\r\n");
        assert_eq!(bench.notified(), ["set a", "set b", "del a"]);
        assert_eq!(bench.words("type b"), "+string\r\n");
        assert_eq!(bench.words("type a"), "+none\r\n");
        assert_eq!(bench.words("unlink b"), ":1\r\n");
        assert_eq!(bench.words("del"), "-ERR wrong number of arguments for 'del' command\r\n");
    }
}
