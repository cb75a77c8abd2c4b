//! The names of all commands of Redis 8, its modules' included, by area.

use super::{Area, Comes};

/// Every area. A name is lower-case; a subcommand's is "container|name".
pub const AREAS: &[Area] = &[
    Area {
        title: "Connection",
        comes: Comes::Never,
        commands: "auth client client|caching client|getname client|getredir client|help client|id client|info client|kill \
                   client|list client|no-evict client|no-touch client|pause client|reply client|setinfo client|setname \
                   client|tracking client|trackinginfo client|unblock client|unpause echo hello ping quit reset select",
    },
    Area {
        title: "Keys",
        comes: Comes::Never,
        commands: "copy del dump exists expire expireat expiretime keys migrate move object object|encoding object|freq \
                   object|help object|idletime object|refcount persist pexpire pexpireat pexpiretime pttl randomkey rename \
                   renamenx restore scan sort sort_ro touch ttl type unlink wait waitaof",
    },
    Area {
        title: "Strings",
        comes: Comes::Never,
        commands: "append decr decrby delex digest get getdel getex getrange getset incr incrby incrbyfloat lcs mget mset \
                   msetex msetnx psetex set setex setnx setrange strlen substr",
    },
    Area {
        title: "Bitmaps",
        comes: Comes::Never,
        commands: "bitcount bitfield bitfield_ro bitop bitpos getbit setbit",
    },
    Area {
        title: "Lists",
        comes: Comes::Never,
        commands: "blmove blmpop blpop brpop brpoplpush lindex linsert llen lmove lmpop lpop lpos lpush lpushx lrange lrem \
                   lset ltrim rpop rpoplpush rpush rpushx",
    },
    Area {
        title: "Hashes",
        comes: Comes::Never,
        commands: "hdel hexists hexpire hexpireat hexpiretime hget hgetall hgetdel hgetex hincrby hincrbyfloat hkeys hlen \
                   hmget hmset hpersist hpexpire hpexpireat hpexpiretime hpttl hrandfield hscan hset hsetex hsetnx hstrlen \
                   httl hvals",
    },
    Area {
        title: "Sets",
        comes: Comes::Never,
        commands: "sadd scard sdiff sdiffstore sinter sintercard sinterstore sismember smembers smismember smove spop \
                   srandmember srem sscan sunion sunionstore",
    },
    Area {
        title: "Sorted sets",
        comes: Comes::Never,
        commands: "bzmpop bzpopmax bzpopmin zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard zinterstore \
                   zlexcount zmpop zmscore zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore zrangestore zrank \
                   zrem zremrangebylex zremrangebyrank zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore zrevrank \
                   zscan zscore zunion zunionstore",
    },
    Area {
        title: "Transactions",
        comes: Comes::Never,
        commands: "begin commit discard exec multi rollback unwatch watch",
    },
    Area {
        title: "Server",
        comes: Comes::Never,
        commands: "acl acl|cat acl|deluser acl|dryrun acl|genpass acl|getuser acl|help acl|list acl|load acl|log acl|save \
                   acl|setuser acl|users acl|whoami bgrewriteaof bgsave command command|count command|docs command|getkeys \
                   command|getkeysandflags command|help command|info command|list config config|get config|help \
                   config|resetstat config|rewrite config|set dbsize debug failover flushall flushdb holdfast holdfast|backup holdfast|help info lastsave latency \
                   latency|doctor latency|graph latency|help latency|histogram latency|history latency|latest latency|reset \
                   lolwut memory memory|doctor memory|help memory|malloc-stats memory|purge memory|stats memory|usage \
                   module module|help module|list module|load module|loadex module|unload monitor psync replconf replicaof \
                   restore-asking role save sflush shutdown slaveof slowlog slowlog|get slowlog|help slowlog|len \
                   slowlog|reset swapdb sync time",
    },
    Area {
        title: "Scripts and functions",
        comes: Comes::Scripts,
        commands: "eval eval_ro evalsha evalsha_ro fcall fcall_ro function function|delete function|dump function|flush \
                   function|help function|kill function|list function|load function|restore function|stats script \
                   script|debug script|exists script|flush script|help script|kill script|load",
    },
    Area {
        title: "Publish and subscribe",
        comes: Comes::Messages,
        commands: "psubscribe publish pubsub pubsub|channels pubsub|help pubsub|numpat pubsub|numsub pubsub|shardchannels \
                   pubsub|shardnumsub punsubscribe spublish ssubscribe subscribe sunsubscribe unsubscribe",
    },
    Area {
        title: "Streams",
        comes: Comes::Streams,
        commands: "xack xackdel xadd xautoclaim xclaim xdel xdelex xgroup xgroup|create xgroup|createconsumer \
                   xgroup|delconsumer xgroup|destroy xgroup|help xgroup|setid xinfo xinfo|consumers xinfo|groups xinfo|help \
                   xinfo|stream xlen xpending xrange xread xreadgroup xrevrange xsetid xtrim",
    },
    Area {
        title: "Geo",
        comes: Comes::Geo,
        commands: "geoadd geodist geohash geopos georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch \
                   geosearchstore",
    },
    Area { title: "HyperLogLog", comes: Comes::HyperLogLog, commands: "pfadd pfcount pfdebug pfmerge pfselftest" },
    Area {
        title: "Cluster",
        comes: Comes::Arranged,
        commands: "asking cluster cluster|addslots cluster|addslotsrange cluster|bumpepoch cluster|count-failure-reports \
                   cluster|countkeysinslot cluster|delslots cluster|delslotsrange cluster|failover cluster|flushslots \
                   cluster|forget cluster|getkeysinslot cluster|help cluster|info cluster|keyslot cluster|leave cluster|links \
                   cluster|meet cluster|migration cluster|myid cluster|myshardid cluster|nodes cluster|redirect cluster|replicas \
                   cluster|replicate cluster|reset cluster|saveconfig cluster|set-config-epoch cluster|setslot \
                   cluster|shards cluster|slaves cluster|slot-stats cluster|slots cluster|status readonly readwrite",
    },
    Area {
        title: "Vector sets",
        comes: Comes::Modules,
        commands: "vadd vcard vdim vemb vgetattr vinfo vismember vlinks vrandmember vrange vrem vsetattr vsim",
    },
    Area {
        title: "JSON",
        comes: Comes::Modules,
        commands: "json.arrappend json.arrindex json.arrinsert json.arrlen json.arrpop json.arrtrim json.clear json.debug \
                   json.debug|help json.debug|memory json.del json.forget json.get json.merge json.mget json.mset \
                   json.numincrby json.nummultby json.objkeys json.objlen json.resp json.set json.strappend json.strlen \
                   json.toggle json.type",
    },
    Area {
        title: "Search",
        comes: Comes::Modules,
        commands: "ft._list ft.aggregate ft.aliasadd ft.aliasdel ft.aliasupdate ft.alter ft.config|get ft.config|help \
                   ft.config|set ft.create ft.cursor|del ft.cursor|read ft.dictadd ft.dictdel ft.dictdump ft.dropindex \
                   ft.explain ft.explaincli ft.hybrid ft.info ft.profile ft.search ft.spellcheck ft.sugadd ft.sugdel \
                   ft.sugget ft.suglen ft.syndump ft.synupdate ft.tagvals",
    },
    Area {
        title: "Time series",
        comes: Comes::Modules,
        commands: "ts.add ts.alter ts.create ts.createrule ts.decrby ts.del ts.deleterule ts.get ts.incrby ts.info ts.madd \
                   ts.mget ts.mrange ts.mrevrange ts.queryindex ts.range ts.revrange",
    },
    Area {
        title: "Bloom filters",
        comes: Comes::Modules,
        commands: "bf.add bf.card bf.exists bf.info bf.insert bf.loadchunk bf.madd bf.mexists bf.reserve bf.scandump",
    },
    Area {
        title: "Cuckoo filters",
        comes: Comes::Modules,
        commands: "cf.add cf.addnx cf.count cf.del cf.exists cf.info cf.insert cf.insertnx cf.loadchunk cf.mexists \
                   cf.reserve cf.scandump",
    },
    Area {
        title: "Count-min sketches",
        comes: Comes::Modules,
        commands: "cms.incrby cms.info cms.initbydim cms.initbyprob cms.merge cms.query",
    },
    Area {
        title: "Top-k",
        comes: Comes::Modules,
        commands: "topk.add topk.count topk.incrby topk.info topk.list topk.query topk.reserve",
    },
    Area {
        title: "T-digests",
        comes: Comes::Modules,
        commands: "tdigest.add tdigest.byrank tdigest.byrevrank tdigest.cdf tdigest.create tdigest.info tdigest.max \
                   tdigest.merge tdigest.min tdigest.quantile tdigest.rank tdigest.reset tdigest.revrank \
                   tdigest.trimmed_mean",
    },
];
