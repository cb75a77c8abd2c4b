//! Random histories of commands of every family.
//!
//! A line of the table is a command with placeholders in capitals; a test picks for each. A command that writes has a
//! line (`every_writing_command_has_a_line`), so a family that grows extends the table.

use clocks::UnixMs;

/// Lines by family. `@wait` lets milliseconds pass, `@db` selects a database.
pub const LINES: &[&[&str]] =
    &[CLOCK, GENERIC, STRINGS, BITS, LISTS, SETS, HASHES, FIELD_EXPIRY, ZSETS, ZSET_SETS, STREAMS, GROUPS];

const CLOCK: &[&str] = &["@wait T", "@wait T", "@db D", "@db 0"];

const GENERIC: &[&str] = &[
    "del K K",
    "unlink K",
    "rename K K",
    "renamenx K K",
    "move K D replace",
    "copy K K",
    "copy K K replace db D",
    "move K D",
    "expire K 1",
    "expire K N nx",
    "pexpire K T gt",
    "pexpire K T",
    "expireat K Z",
    "pexpireat K A",
    "persist K",
    "touch K",
    "flushdb",
    "flushall",
    "swapdb D D",
    "sort K store K",
    "sort K by nosort get # store K",
    "sort K alpha desc limit 1 2 store K",
    "sort K by K->F get K->* store K",
    "restore K 0 R",
    "restore K A R replace absttl",
    "restore K T R replace",
];

const STRINGS: &[&str] = &[
    "set K V",
    "set K V px T",
    "set K V exat Z",
    "set K V keepttl",
    "set K V nx get",
    "set K V xx",
    "setnx K V",
    "setex K 1 V",
    "psetex K T V",
    "getset K V",
    "getdel K",
    "getex K px T",
    "getex K persist",
    "mset K V K V",
    "msetnx K V K V",
    "msetex 2 K V K V px T",
    "append K V",
    "setrange K U V",
    "incr K",
    "decr K",
    "incrby K N",
    "decrby K N",
    "incrbyfloat K S",
    "delex K ifeq V",
    "delex K",
    "delifeq K V",
    "increx K byint N lbound -2 ubound 9 px T",
    "increx K byfloat S saturate ubound 99 persist",
    "increx K exat Z enx",
    "get K",
];

const BITS: &[&str] = &[
    "setbit K U 1",
    "setbit K U 0",
    "bitop xor K K K",
    "bitop not K K",
    "bitfield K incrby u5 U N",
    "bitfield K set i8 U N get u4 0 overflow fail incrby i3 U 3",
    "bitcount K",
    "pfadd K V V",
    "pfmerge K K K",
    "pfcount K K",
    "pfcount K",
    "pfdebug todense K",
    "pfadd K N V F",
];

const LISTS: &[&str] = &[
    "rpush K V V V",
    "lpush K V V",
    "rpush K V V V V V V",
    "lpushx K V",
    "rpushx K V V",
    "lpop K",
    "rpop K U",
    "lset K N V",
    "linsert K before V V",
    "linsert K after V V",
    "lrem K N V",
    "ltrim K N N",
    "lmove K K left right",
    "lmove K K right left",
    "rpoplpush K K",
    "lmovem K K left left count U obo",
    "lmovem K K right left exactly 2 bulk",
    "blmovem K K left right 0 count 3 obo",
    "blmovem K K right right 1 exactly 3 obo",
    "lmpop 2 K K left count U",
    "blpop K K 0",
    "brpop K 1",
    "blmove K K right right 0",
    "brpoplpush K K 0",
    "blmpop 0 2 K K right count 2",
    "lrange K 0 -1",
];

const SETS: &[&str] = &[
    "sadd K V V V",
    "sadd K N N",
    "sadd K F F V F",
    "srem K V V",
    "srem K N F",
    "spop K",
    "spop K U",
    "smove K K V",
    "sunionstore K K K",
    "sinterstore K K K",
    "sdiffstore K K K",
    "smembers K",
];

const HASHES: &[&str] = &[
    "hset K F V",
    "hset K F V F V F V",
    "hmset K F V F V",
    "hsetnx K F V",
    "hdel K F F",
    "hincrby K F N",
    "hincrbyfloat K F S",
    "hgetall K",
];

const FIELD_EXPIRY: &[&str] = &[
    "hpexpire K T fields 2 F F gt",
    "hgetex K fields 1 F pxat A",
    "hset K F V F V F V",
    "hexpire K 1 fields 2 F F",
    "hpexpire K T fields 1 F",
    "hpexpire K T gt fields 1 F",
    "hexpireat K Z fields 1 F",
    "hpexpireat K A fields 2 F F",
    "hpersist K fields 1 F",
    "hgetdel K fields 2 F F",
    "hgetex K px T fields 1 F",
    "hgetex K persist fields 1 F",
    "hsetex K fnx px T fields 1 F V",
    "hsetex K fields 1 F V fxx keepttl",
    "hsetex K pxat A fields 2 F V F V",
    "hsetex K keepttl fields 2 F V F V",
    "hget K F",
    "hlen K",
    "hgetall K",
];

const ZSETS: &[&str] = &[
    "zadd K S F",
    "zadd K S F S F S V",
    "zadd K nx S F",
    "zadd K gt ch S F S F",
    "zadd K incr S F",
    "zincrby K S F",
    "zrem K F F",
    "zremrangebyrank K N N",
    "zremrangebyscore K S S",
    "zremrangebylex K [f1 (f4",
    "zpopmin K",
    "zpopmax K U",
    "zmpop 2 K K min count 2",
    "bzpopmin K K 0",
    "bzpopmax K 0",
    "bzmpop 0 1 K max",
    "geoadd K 1.5 2.5 F",
    "geosearchstore K K frommember F byradius 100 km",
    "georadius K 1 2 100 km store K",
    "georadiusbymember K F 100 km storedist K",
    "geoadd K ch 1.4 2.6 F 1.51 2.51 F -179.9 80 F",
    "geosearchstore K K bypolygon 3 1 2 2 2 1.5 3",
    "geosearchstore K K fromlonlat 1.5 2.5 bybox 40 40 km storedist count 2",
    "zrange K 0 -1",
];

const ZSET_SETS: &[&str] = &[
    "zadd K S F S F S F",
    "zrangestore K K 0 2",
    "zrangestore K K S S byscore",
    "zunionstore K 2 K K weights S 2",
    "zinterstore K 2 K K aggregate max",
    "zunionstore K 2 K K aggregate count weights S 2",
    "zdiffstore K 2 K K",
];

const STREAMS: &[&str] = &[
    "xadd K * F V",
    "xadd K * F V F V",
    "xadd K I F V",
    "xadd K 1-* F V",
    "xadd K maxlen ~ U * F V",
    "xadd K minid = I * F V",
    "xadd K nomkstream maxlen U limit 3 * F V",
    "xtrim K maxlen U",
    "xtrim K minid ~ I limit 3",
    "xdel K I I I",
    "xtrim K maxlen U delref",
    "xtrim K minid I acked",
    "xdelex K delref ids 2 I I",
    "xsetid K I",
    "xsetid K 9-9 entriesadded U maxdeletedid I",
    "xread count 2 block 0 streams K K $ I",
    "xread streams K I",
    "xrange K - +",
];

const GROUPS: &[&str] = &[
    "xadd K I F V",
    "xadd K I F V",
    "xadd K * F V",
    "xgroup create K g0 I",
    "xgroup create K g0 0 mkstream",
    "xgroup create K g1 $ mkstream entriesread U",
    "xgroup setid K g0 I entriesread U",
    "xgroup destroy K g1",
    "xgroup createconsumer K g0 F",
    "xgroup delconsumer K g0 F",
    "xreadgroup group g0 F streams K >",
    "xreadgroup group g0 F count 2 noack streams K >",
    "xreadgroup group g0 F count 2 block 0 streams K {k0}a > >",
    "xreadgroup group g0 F streams K 0",
    "xreadgroup group g0 F count 2 claim 0 streams K >",
    "xreadgroup group g0 F block 0 claim T noack streams K {k0}a > >",
    "xack K g0 I I I",
    "xnack K g0 fail ids 2 I I",
    "xnack K g0 silent ids 1 I retrycount U force",
    "xackdel K g0 acked ids 2 I I",
    "xackdel K g0 delref ids 1 I",
    "xdelex K acked ids 2 I I",
    "xadd K maxlen U acked * F V",
    "xadd K minid ~ I delref * F V",
    "xclaim K g0 F 0 I I I",
    "xclaim K g0 F T I I force idle T justid lastid I",
    "xclaim K g0 F 0 I retrycount U time A",
    "xautoclaim K g0 F 0 0 count 3",
    "xautoclaim K g0 F T I justid",
    "xpending K g0 - + 9",
];

const KEYS: [&str; 6] = ["k0", "k1", "k2", "k3", "{k0}a", "{k0}b"];
const SCORES: [&str; 9] = ["0", "1", "2.5", "-3", "1e300", "-inf", "+inf", "0.1", "x"];
const VALUES: [&str; 12] = [
    "a",
    "b",
    "10",
    "-7",
    "1.5",
    "",
    "9223372036854775807",
    "f1",
    "abcdefghijklmnopqrstuvwxyz",
    "0123456789012345678901234567890123456789012345678901234567890123456789",
    "hello world",
    "\u{ff}\u{0}x",
];

/// The words of a line, placeholders replaced by what `picks` choose. `now`: the time; `payloads`: what DUMP answered.
pub fn fill(line: &str, picks: &[u8], now: UnixMs, payloads: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut picks = picks.iter().copied().map(usize::from).chain(std::iter::repeat(0));
    let mut words = Vec::new();
    for word in line.split(' ') {
        let mut filled = Vec::new();
        for c in word.bytes() {
            let mut pick = || picks.next().unwrap_or_default();
            match c {
                b'K' => filled.extend_from_slice(KEYS[pick() % KEYS.len()].as_bytes()),
                b'V' => filled.extend_from_slice(VALUES[pick() % VALUES.len()].as_bytes()),
                b'S' => filled.extend_from_slice(SCORES[pick() % SCORES.len()].as_bytes()),
                b'F' => filled.extend(format!("f{}", pick() % 7).bytes()),
                b'N' => filled.extend((pick() as i64 % 12 - 4).to_string().bytes()),
                b'U' => filled.extend((pick() % 40).to_string().bytes()),
                b'T' => filled.extend((1 + pick() * 3).to_string().bytes()),
                b'D' => filled.extend((pick() % 3).to_string().bytes()),
                b'A' => filled.extend((now.0 - 50 + pick() as u64 * 3).to_string().bytes()),
                b'Z' => filled.extend((now.seconds() + pick() as u64 % 3).to_string().bytes()),
                b'I' => filled.extend(format!("{}-{}", pick() % 3, pick() % 6).bytes()),
                b'R' => filled.extend_from_slice(&payloads[pick() % payloads.len()]),
                c => filled.push(c),
            }
        }
        words.push(filled);
    }
    words
}
