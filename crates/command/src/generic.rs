//! Keys of any type: DEL and EXISTS, as the spine's first users; the family grows from here.

use keyspace::{Db, Key};
use object::{Corrupt, Limits};

use crate::ctx::{Ctx, Outcome};
use crate::effects::{Reader, op};
use crate::error::Error;
use crate::families::Run;
use crate::notify::class;
use crate::spec::{KeySpec, Row, Spec, flags::*, key_flags::*};

/// The rows of the family.
pub const ROWS: &[Row<Run>] = &[
    Row {
        spec: Spec {
            name: "del",
            arity: -2,
            flags: WRITE,
            keys: &[KeySpec::range(1, -1, 1, RM | DELETE)],
            complexity: "O(N) where N is the number of keys that will be removed.",
            summary: "Deletes one or more keys.",
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
            syntax: "key [key ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(exists),
        subcommands: &[],
    },
];

/// Applies an effect that any type can have.
pub fn replay(number: u8, key: &Key<'_>, r: &mut Reader<'_>, db: &mut Db<'_>, _: &Limits) -> Result<(), Corrupt> {
    match number {
        op::DELETE => {
            db.remove(key);
        }
        op::EXPIRE => {
            let ms = r.varint()?;
            db.set_expiry(key, (ms != 0).then_some(ms));
        }
        _ => return Err(Corrupt("unknown effect")),
    }
    Ok(())
}

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
    let found = (1..ctx.args.len()).filter(|&i| ctx.db.read(&ctx.key(i)).is_some()).count();
    ctx.out.count(found as u64);
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
        assert_eq!(bench.words("del"), "-ERR wrong number of arguments for 'del' command\r\n");
    }
}
