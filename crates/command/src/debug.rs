//! The subcommands of DEBUG about keys; the others are the session's (crate `node`).

use clocks::UnixMs;
use keyspace::{Expiry, Kind, SLOTS, Version};
use object::{Hash, Set, ZSet};

use crate::ctx::{Block, Ctx, Nil, Outcome};
use crate::digest::{Digest, RedisDigest};
use crate::dump;
use crate::error::Error;
use crate::families::Run;
use crate::lacking::Lacking;
use crate::spec::{KeySpec, Row, Spec, flags::*, key_flags::*};

const FLAGS: u32 = ADMIN | NOSCRIPT | LOADING | STALE | PROTECTED;

/// The rows of the family.
pub const ROWS: &[Row<Run>] = &[Row {
    spec: Spec {
        name: "debug",
        arity: -2,
        flags: FLAGS,
        group: "server",
        complexity: "Depends on subcommand.",
        summary: "A container for debugging commands.",
        ..Spec::NEW
    },
    run: Run::Container,
    subcommands: &[
        Row {
            spec: Spec {
                name: "digest",
                flags: FLAGS | EVERYTHING,
                summary: "Answers a digest of all databases, the same as Redis; EXACT covers times of expiry and groups, too.",
                syntax: "[EXACT]",
                ..Spec { arity: -2, ..SUB }
            },
            run: Run::Whole(digest),
            subcommands: &[],
        },
        Row {
            spec: Spec {
                name: "digest-value",
                summary: "Answers a digest of the value of each key, the same as Redis.",
                syntax: "key [key ...]",
                keys: &[KeySpec::range(2, -1, 1, RO)],
                ..Spec { arity: -2, ..SUB }
            },
            run: Run::Keyed(digest_value),
            subcommands: &[],
        },
        Row {
            spec: Spec {
                name: "listpack",
                summary: "Checks that the key holds a compact value.",
                syntax: "key",
                keys: &[KeySpec::one(2, RO)],
                ..Spec { arity: 3, ..SUB }
            },
            run: Run::Keyed(listpack),
            subcommands: &[],
        },
        Row {
            spec: Spec {
                name: "await",
                flags: FLAGS | READONLY | BLOCKING,
                summary: "Waits until one of the keys is not as it was at the given version (0: not there), and of the given kind. The nodes of a cluster ask each other this.",
                syntax: "<LIST|ZSET|STREAM|ANY> version key [version key ...]",
                keys: &[KeySpec::range(4, -1, 2, RO)],
                ..Spec { arity: -5, ..SUB }
            },
            run: Run::Keyed(await_change),
            subcommands: &[],
        },
        Row {
            spec: Spec {
                name: "object",
                summary: "Answers low level information about a key and its value.",
                syntax: "key",
                keys: &[KeySpec::one(2, RO)],
                ..Spec { arity: 3, ..SUB }
            },
            run: Run::Keyed(object),
            subcommands: &[],
        },
        Row {
            spec: Spec {
                name: "populate",
                flags: FLAGS | WRITE | DENYOOM,
                summary: "Creates keys named prefix:N with values value:N, of the given size if there is one.",
                syntax: "count [prefix] [size]",
                ..Spec { arity: -3, ..SUB }
            },
            run: Run::Whole(populate),
            subcommands: &[],
        },
        Row {
            spec: Spec {
                name: "evict",
                summary: "Takes keys, or all keys, out of memory that the store has as they are, and answers how many.",
                syntax: "[key ...]",
                ..Spec { arity: -2, ..SUB }
            },
            run: Run::Whole(evict),
            subcommands: &[],
        },
        Row {
            spec: Spec {
                name: "htstats-key",
                summary: "Answers how many elements a large set, hash or sorted set has.",
                syntax: "key [FULL]",
                keys: &[KeySpec::one(2, RO)],
                ..Spec { arity: -3, ..SUB }
            },
            run: Run::Keyed(htstats_key),
            subcommands: &[],
        },
        Row {
            spec: Spec {
                name: "reload-values",
                flags: FLAGS | EVERYTHING,
                summary: "Dumps and restores every value in memory: they are as after a restart from a file of Redis.",
                ..Spec { arity: 2, ..SUB }
            },
            run: Run::Whole(reload_values),
            subcommands: &[],
        },
    ],
}];

const SUB: Spec = Spec { flags: FLAGS, group: "server", ..Spec::NEW };

fn digest(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let digest = match ctx.args.len() {
        2 => RedisDigest::of_everything(&mut ctx.db).to_string(),
        3 if ctx.is(2, "exact") => Digest::of_everything(&mut ctx.db, UnixMs::ZERO).to_string(),
        _ => return Err(Error::SYNTAX),
    };
    ctx.out.simple(digest);
    Ok(Outcome::Done)
}

fn digest_value(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    ctx.out.array(ctx.args.len() - 2);
    for i in 2..ctx.args.len() {
        let key = ctx.key(i);
        let digest = ctx.db.peek(&key).map(RedisDigest::of_value);
        ctx.out.simple(digest.unwrap_or_default().to_string());
    }
    Ok(Outcome::Done)
}

fn await_change(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let kind = [("list", Kind::List), ("zset", Kind::ZSet), ("stream", Kind::Stream)];
    let kind = kind.into_iter().find(|(name, _)| ctx.is(2, name)).map(|(_, kind)| kind);
    if kind.is_none() && !ctx.is(2, "any") || ctx.args.len().is_multiple_of(2) {
        return Err(Error::SYNTAX);
    }
    let keys: Vec<usize> = (4..ctx.args.len()).step_by(2).collect();
    for at in &keys {
        let before = ctx.int(at - 1)?;
        // An expired key is absent.
        let entry = ctx.db.peek(&ctx.key(*at)).filter(|entry| !entry.expired(ctx.now));
        let matters = kind.is_none() || kind == entry.map(|entry| entry.kind());
        if matters && u64::try_from(before) != Ok(entry.map_or(Version::ZERO, |entry| entry.version()).0) {
            ctx.out.integer(1);
            return Ok(Outcome::Done);
        }
    }
    let wait = Block::new(keys, kind.unwrap_or(Kind::List), None, Nil::Array);
    Ok(Outcome::Block(Block { when_gone: kind.is_none(), ..wait }))
}

fn listpack(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(2);
    let entry = ctx.db.peek(&key).ok_or(Error::NO_SUCH_KEY)?;
    if !entry.encoding().starts_with("listpack") {
        return Err(Error::new("ERR Not a listpack encoded object."));
    }
    ctx.out.simple("Compact values have nothing more to show");
    Ok(Outcome::Done)
}

fn object(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let key = ctx.key(2);
    let entry = ctx.db.peek(&key).ok_or(Error::NO_SUCH_KEY)?;
    // Redis does not count the byte of the type and the footer of version and checksum.
    let serialized = dump::payload(entry)?.len().saturating_sub(11);
    let clock = ctx.db.clock();
    let idle = if clock.is_lfu() { 0 } else { clock.idle_seconds(entry.access()) };
    // The place of a value is no client's business, and values move.
    let mut text = format!(
        "Value at:0x0 refcount:1 encoding:{} serializedlength:{serialized} lru:{} lru_seconds_idle:{idle}",
        entry.encoding(),
        entry.access(),
    );
    if entry.kind() == Kind::List && entry.encoding() == "quicklist" {
        let limits = &ctx.tunables.limits;
        let compressed = u8::from(limits.asks_for_compressed_lists());
        text.push_str(&format!(" ql_listpack_max:{} ql_compressed:{compressed}", limits.list_max_listpack_size));
    }
    ctx.out.simple(text);
    Ok(Outcome::Done)
}

fn populate(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let positive = |i: usize| match ctx.int(i)? {
        n if n >= 0 => Ok(n as u64),
        _ => Err(Error::new("ERR value is out of range, must be positive")),
    };
    let count = positive(2)?;
    let prefix = ctx.args.get(3).unwrap_or(b"key");
    let size = if ctx.args.len() > 4 { positive(4)? } else { 0 };
    if ctx.args.len() > 5 {
        return Err(Error::SYNTAX);
    }
    if size > ctx.tunables.max_string {
        return Err(Error::OUT_OF_RANGE);
    }
    let name_of = |n: u64| [prefix, format!(":{n}").as_bytes()].concat();
    if ctx.db.keyspace().has_cold() {
        let mut lacking = Lacking::default();
        for n in 0..count {
            if !lacking.note(&ctx.db, &name_of(n))? {
                break;
            }
        }
        if let Some(load) = lacking.outcome() {
            return Ok(load);
        }
    }
    for n in 0..count {
        let name = name_of(n);
        let key = ctx.db.key(&name);
        if ctx.db.peek(&key).is_some() {
            continue;
        }
        let mut value = format!("value:{n}").into_bytes();
        if size > 0 {
            value.resize(size as usize, 0);
        }
        ctx.db.set_string(&key, &value, false, Expiry::Clear);
        ctx.image_effect(&key);
    }
    ctx.out.ok();
    Ok(Outcome::Done)
}

fn evict(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let mut evicted = 0;
    for i in 2..ctx.args.len() {
        let key = ctx.key(i);
        evicted += u64::from(ctx.db.evict(&key));
    }
    if ctx.args.len() == 2 {
        for_each_key(ctx, |ctx, name| {
            let key = ctx.db.key(name);
            evicted += u64::from(ctx.db.evict(&key));
            Ok(())
        })?;
    }
    ctx.out.count(evicted);
    Ok(Outcome::Done)
}

fn htstats_key(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    let entry = ctx.db.peek(&ctx.key(2)).ok_or(Error::NO_SUCH_KEY)?;
    if !matches!(entry.encoding(), "hashtable" | "skiplist") {
        return Err(Error::new("ERR The value stored at the specified key is not represented using an hash table"));
    }
    let count = match entry.kind() {
        Kind::Set => entry.collection::<Set>()?.len(),
        Kind::Hash => entry.collection::<Hash>()?.len(),
        _ => entry.collection::<ZSet>()?.len(),
    };
    ctx.out.verbatim(*b"txt", format!("Hash table 0 stats (main hash table):\n number of elements: {count}\n"));
    Ok(Outcome::Done)
}

/// No client sees a change, so there is no effect.
fn reload_values(ctx: &mut Ctx<'_>) -> Result<Outcome, Error> {
    for_each_key(ctx, reload_one)?;
    ctx.out.ok();
    Ok(Outcome::Done)
}

/// Calls `f` with every key of every database that is in memory. The key's database is the present one then.
fn for_each_key(ctx: &mut Ctx<'_>, mut f: impl FnMut(&mut Ctx<'_>, &[u8]) -> Result<(), Error>) -> Result<(), Error> {
    let home = ctx.db.logical();
    for number in 0..ctx.db.keyspace().databases() as u16 {
        ctx.db.switch(number);
        let mut slot = ctx.db.keyspace().next_occupied(0);
        while let Some(at) = slot {
            for name in keys_in(ctx, at) {
                f(ctx, &name)?;
            }
            slot = if usize::from(at) + 1 < SLOTS { ctx.db.keyspace().next_occupied(at + 1) } else { None };
        }
    }
    ctx.db.switch(home);
    Ok(())
}

fn keys_in(ctx: &Ctx<'_>, slot: u16) -> Vec<Box<[u8]>> {
    let mut keys = Vec::new();
    let mut from = Some(0);
    while let Some(hash) = from {
        from = ctx.db.walk(slot, hash, |entry| keys.push(entry.key().into()));
    }
    keys
}

fn reload_one(ctx: &mut Ctx<'_>, name: &[u8]) -> Result<(), Error> {
    let key = ctx.db.key(name);
    let Some(entry) = ctx.db.peek(&key) else { return Ok(()) };
    let (payload, access) = (dump::payload(entry)?, entry.access());
    dump::put(ctx, &key, &payload, Expiry::Keep)?;
    ctx.db.set_access(&key, access);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn values_are_compared_by_digest() {
        let mut bench = Bench::new();
        bench.words("rpush a 1 x");
        bench.words("rpush b 1 x");
        let reply = bench.words("debug digest-value a b none");
        let digests: Vec<_> = reply.split("\r\n").skip(1).collect();
        assert_eq!(digests[0], digests[1]);
        assert_eq!(digests[2], format!("+{}", "0".repeat(40)));
        assert_ne!(bench.words("debug digest"), format!("+{}\r\n", "0".repeat(40)));
        bench.words("flushall");
        assert_eq!(bench.words("debug digest"), format!("+{}\r\n", "0".repeat(40)));
    }

    #[test]
    fn keys_are_made() {
        let mut bench = Bench::new();
        bench.words("set key:1 mine");
        assert_eq!(bench.words("debug populate 3"), "+OK\r\n");
        assert_eq!(bench.words("mget key:0 key:1 key:2"), "*3\r\n$7\r\nvalue:0\r\n$4\r\nmine\r\n$7\r\nvalue:2\r\n");
        assert_eq!(bench.words("debug populate 1 p 3"), "+OK\r\n");
        assert_eq!(bench.words("get p:0"), "$3\r\nval\r\n");
        assert_eq!(bench.words("debug populate -1"), "-ERR value is out of range, must be positive\r\n");
        assert_eq!(bench.replayed().words("dbsize"), ":4\r\n");
    }

    #[test]
    fn values_survive_a_reload() {
        let mut bench = Bench::new();
        for line in ["set a 1", "pexpire a 100000", "rpush b x y", "hset c f 1", "sadd d 1 2", "zadd e 1 x 2 y"] {
            bench.words(line);
        }
        let before = bench.words("debug digest");
        assert_eq!(bench.words("debug reload-values"), "+OK\r\n");
        assert_eq!(bench.words("debug digest"), before);
    }

    #[test]
    fn objects_are_described() {
        let mut bench = Bench::new();
        bench.words("set a 1");
        assert_eq!(bench.words("debug object none"), "-ERR no such key\r\n");
        assert!(
            bench.words("debug object a").starts_with("+Value at:0x0 refcount:1 encoding:int serializedlength:2 lru:")
        );
    }
}
