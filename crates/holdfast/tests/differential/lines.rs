//! Commands with placeholders in capitals, for which a case picks values.
//!
//! Left out is what two correct servers may answer differently: random members, cursors, times that pass, encodings of
//! strings, lexical ranges of members with different scores. A command that one of the two does not know is left out when the test starts.

/// Lines by family.
pub const LINES: &[&[&str]] =
    &[KEYS, STRINGS, BITS, LISTS, LIST_READS, SETS, HASHES, FIELD_EXPIRY, ZSETS, ZSET_READS, SORTS];

const KEYS: &[&str] = &[
    "del K",
    "del K K K",
    "unlink K",
    "exists K K",
    "type K",
    "rename K K",
    "renamenx K K",
    "copy K K",
    "copy K K replace",
    "expireat K E",
    "expireat K E O",
    "pexpireat K E O O",
    "expire K X",
    "expire K 100000 O",
    "persist K",
    "touch K K",
    "expiretime K",
    "pexpiretime none",
    "ttl none",
    "move K 0",
    "dbsize",
    "keys *",
    "keys [k]?",
    "object freq none",
    "object encoding none",
    "restore K 0 garbage",
];

const STRINGS: &[&str] = &[
    "set K V",
    "set K V",
    "set K V nx",
    "set K V xx get",
    "set K V get",
    "set K V keepttl",
    "set K V exat E",
    "set K V O O",
    "set K V ex X",
    "setnx K V",
    "setex K X V",
    "psetex K 100000 V",
    "getset K V",
    "getdel K",
    "getex K persist",
    "getex K pxat E",
    "getex K O X",
    "mset K V K V",
    "msetnx K V K V",
    "mset K V K",
    "append K V",
    "strlen K",
    "setrange K U V",
    "setrange K X V",
    "getrange K N N",
    "substr K X X",
    "incr K",
    "decr K",
    "incrby K X",
    "decrby K X",
    "incrbyfloat K S",
    "incrbyfloat K V",
    "mget K K K",
    "get K",
    "lcs K K",
    "lcs K K len",
    "lcs K K idx withmatchlen",
    "lcs K K idx minmatchlen N",
];

const BITS: &[&str] = &[
    "set K V",
    "setbit K U 1",
    "setbit K U 0",
    "setbit K X 1",
    "getbit K U",
    "getbit K X",
    "bitcount K",
    "bitcount K N N",
    "bitcount K N N bit",
    "bitpos K 0",
    "bitpos K 1 N",
    "bitpos K 0 N N",
    "bitpos K 1 N N bit",
    "bitop and K K K",
    "bitop or K K K K",
    "bitop xor K K K",
    "bitop not K K",
    "bitop not K K K",
    "bitfield K get u8 U get i5 #2",
    "bitfield K set u8 U N get u4 0",
    "bitfield K overflow fail incrby i3 U N incrby i3 U N",
    "bitfield K overflow sat incrby u7 #1 X",
    "bitfield K set i64 U X incrby i64 U X",
    "bitfield_ro K get u16 U",
    "bitfield_ro K set u16 U 1",
];

const LISTS: &[&str] = &[
    "rpush K V V V",
    "lpush K V V",
    "rpush K V V V V V V V",
    "lpushx K V",
    "rpushx K V V",
    "lpop K",
    "rpop K",
    "lpop K N",
    "rpop K U",
    "lset K N V",
    "linsert K before V V",
    "linsert K after V V",
    "linsert K around V V",
    "lrem K N V",
    "ltrim K N N",
    "lmove K K left right",
    "lmove K K right left",
    "rpoplpush K K",
    "lmpop 2 K K left count U",
    "lmpop N K K right",
    "blpop K K 0.01",
    "blmpop 0.01 2 K K left",
    "brpoplpush K K 0.01",
];

const LIST_READS: &[&str] = &[
    "rpush K V V V V",
    "llen K",
    "lindex K N",
    "lindex K X",
    "lrange K 0 -1",
    "lrange K N N",
    "lpos K V",
    "lpos K V rank N",
    "lpos K V rank N count U",
    "lpos K V count 0 maxlen N",
];

const SETS: &[&str] = &[
    "sadd K V V V",
    "sadd K N N",
    "sadd K F F F V F",
    "srem K V V F",
    "smove K K V",
    "smove K K F",
    "sunionstore K K K",
    "sinterstore K K K",
    "sdiffstore K K K",
    "scard K",
    "sismember K F",
    "smismember K F V F",
    "smembers K",
    "sunion K K",
    "sinter K K K",
    "sdiff K K",
    "sintercard 2 K K",
    "sintercard 2 K K limit N",
    "sscan K 0 count 1000",
    "srandmember none",
    "spop none N",
];

const HASHES: &[&str] = &[
    "hset K F V",
    "hset K F V F V F V",
    "hset K F V F",
    "hmset K F V F V",
    "hsetnx K F V",
    "hdel K F F",
    "hget K F",
    "hmget K F F F",
    "hgetall K",
    "hkeys K",
    "hvals K",
    "hlen K",
    "hexists K F",
    "hstrlen K F",
    "hincrby K F X",
    "hincrbyfloat K F S",
    "hscan K 0 count 1000",
    "hscan K 0 count 1000 novalues",
    "hrandfield none",
];

const FIELD_EXPIRY: &[&str] = &[
    "hset K F V F V F V",
    "hexpireat K E fields 1 F",
    "hexpireat K E O fields 2 F F",
    "hpexpireat K E fields N F",
    "hpersist K fields 1 F",
    "hexpiretime K fields 2 F F",
    "hpexpiretime K fields 1 F",
    "hgetdel K fields 2 F F",
    "hgetex K persist fields 1 F",
    "hgetex K exat E fields 1 F",
    "hsetex K fnx exat E fields 1 F V",
    "hsetex K keepttl fields 2 F V F V",
    "hget K F",
    "hgetall K",
];

const ZSETS: &[&str] = &[
    "zadd K S F",
    "zadd K S F S F S V",
    "zadd K S F S F S F S F",
    "zadd K O S F",
    "zadd K O O S F S F",
    "zadd K O incr S F",
    "zincrby K S F",
    "zrem K F F",
    "zremrangebyrank K N N",
    "zremrangebyscore K S S",
    "zremrangebylex K - +",
    "zpopmin K",
    "zpopmax K U",
    "zmpop 2 K K min count 2",
    "bzpopmin K K 0.01",
    "bzmpop 0.01 1 K max",
    "zrangestore K K 0 2",
    "zrangestore K K S S byscore",
    "zunionstore K 2 K K weights S 2",
    "zinterstore K 2 K K aggregate max",
    "zdiffstore K 2 K K",
    "geoadd K 1.5 2.5 F",
    "geoadd K 13.361389 38.115556 F",
];

const ZSET_READS: &[&str] = &[
    "zadd K S F S F S F",
    "zcard K",
    "zcount K S S",
    "zcount K (S +inf",
    "zlexcount K - +",
    "zscore K F",
    "zmscore K F F",
    "zrank K F",
    "zrank K F withscore",
    "zrevrank K F",
    "zrange K 0 -1 withscores",
    "zrange K N N rev",
    "zrange K S S byscore limit N N",
    "zrange K - + bylex limit N N",
    "zrangebyscore K -inf (S withscores limit 0 U",
    "zrevrangebyscore K S S",
    "zrevrangebylex K + -",
    "zrevrange K N N withscores",
    "zunion 2 K K withscores",
    "zinter 2 K K weights 2 S withscores",
    "zdiff 2 K K withscores",
    "zintercard 2 K K limit N",
    "zscan K 0 count 1000",
    "zrandmember none",
    "geodist K F F km",
    "geohash K F F",
    "geopos K F F",
    "geosearch K frommember F byradius 500 km asc withdist",
];

const SORTS: &[&str] = &[
    "rpush K N N V",
    "sadd K N N N",
    "sort K",
    "sort K desc limit N N",
    "sort K alpha",
    "sort K alpha get # get K",
    "sort K store K",
    "sort_ro K alpha desc",
];

const KEY_NAMES: [&str; 5] = ["a", "b", "c", "kk", "k1"];
const OPTIONS: [&str; 8] = ["nx", "xx", "gt", "lt", "ch", "get", "keepttl", "what"];
const SCORES: [&str; 13] =
    ["0", "1", "2.5", "-3", "1e300", "-inf", "+inf", "0.1", "x", "3.0e3", "nan", "17179869184", "1.23"];
const ODD_INTEGERS: [&str; 12] = [
    "0",
    "1",
    "-1",
    "7",
    "1000",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "01",
    "1.5",
    "abc",
    "",
];
/// Unix times in the far future, in seconds or milliseconds, and some that are none.
const TIMES: [&str; 6] = ["9999999999", "9999999998", "99999999999999", "1", "-5", "y"];
const VALUES: [&str; 14] = [
    "a",
    "b",
    "10",
    "-7",
    "1.5",
    "",
    "9223372036854775807",
    "f1",
    "f2",
    "abcdefghijklmnopqrstuvwxyz",
    "0123456789012345678901234567890123456789012345678901234567890123456789",
    "hello world",
    "\u{ff}\u{0}x",
    " 11",
];

/// The words of a line, its placeholders replaced by what `picks` choose; zeros choose the plainest.
pub fn fill(line: &str, picks: &[u8]) -> Vec<Vec<u8>> {
    let mut picks = picks.iter().copied().map(usize::from).chain(std::iter::repeat(0));
    let mut pick = move || picks.next().unwrap_or_default();
    let mut word = |word: &str| {
        let mut filled = Vec::new();
        for c in word.chars() {
            let mut one_of = |list: &[&'static str]| list[pick() % list.len()];
            match c {
                'K' => filled.extend_from_slice(one_of(&KEY_NAMES).as_bytes()),
                'V' => filled.extend_from_slice(one_of(&VALUES).as_bytes()),
                'S' => filled.extend_from_slice(one_of(&SCORES).as_bytes()),
                'X' => filled.extend_from_slice(one_of(&ODD_INTEGERS).as_bytes()),
                'O' => filled.extend_from_slice(one_of(&OPTIONS).as_bytes()),
                'E' => filled.extend_from_slice(one_of(&TIMES).as_bytes()),
                'F' => filled.extend(format!("f{}", pick() % 8).bytes()),
                'N' => filled.extend((pick() as i64 % 12 - 4).to_string().bytes()),
                'U' => filled.extend((pick() % 40).to_string().bytes()),
                c => filled.extend(c.to_string().bytes()),
            }
        }
        filled
    };
    line.split(' ').map(&mut word).collect()
}
