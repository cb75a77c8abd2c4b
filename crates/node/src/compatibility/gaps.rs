//! The commands and arguments of Redis and Valkey that are not there, each with the reason.

use super::Comes;

/// Commands without a row that come with something else than the rest of their area; a container's name means its subcommands, too.
pub(super) const COMMANDS: &[(&str, Comes)] = &[
    ("acl", Comes::Users),
    ("backup", Comes::Later),
    ("client|import-source", Comes::Moves),
    ("cluster|cancelslotmigrations", Comes::Moves),
    ("cluster|getslotmigrations", Comes::Moves),
    ("cluster|migrateslots", Comes::Moves),
    ("cluster|migration", Comes::Moves),
    ("cluster|slot-stats", Comes::Later),
    ("clusterscan", Comes::Later),
    ("commandlog", Comes::Later),
    ("failover", Comes::Moves),
    ("hotkeys", Comes::Later),
    ("migrate", Comes::Moves),
    ("trimslots", Comes::Moves),
];

/// Words of arguments that a command with a row does not take: the command, its words, the reason.
/// A change that adds one takes it off here: a test compares this list with the rows.
pub(super) const WORDS: &[(&str, &str, Comes)] = &[
    ("bgsave", "CANCEL", Comes::Never),
    (
        "client|kill",
        "PRIMARY NAME IDLE FLAGS LIB-NAME LIB-VER DB CAPA NOT-TYPE NOT-ID NOT-USER NOT-ADDR NOT-LADDR NOT-NAME NOT-FLAGS \
         NOT-LIB-NAME NOT-LIB-VER NOT-DB NOT-CAPA NOT-IP",
        Comes::Later,
    ),
    (
        "client|list",
        "USER ADDR LADDR SKIPME YES NO MAXAGE NAME IDLE FLAGS LIB-NAME LIB-VER DB CAPA IP NOT-TYPE NOT-ID NOT-USER NOT-ADDR \
         NOT-LADDR NOT-NAME NOT-FLAGS NOT-LIB-NAME NOT-LIB-VER NOT-DB NOT-CAPA NOT-IP",
        Comes::Later,
    ),
    ("geosearch", "BYPOLYGON", Comes::Later),
    ("geosearchstore", "BYPOLYGON", Comes::Later),
    ("hsetex", "NX XX", Comes::Later),
    ("move", "REPLACE", Comes::Later),
    ("shutdown", "SAFE FAILOVER", Comes::Moves),
    ("xadd", "KEEPREF DELREF ACKED IDMPAUTO IDMP", Comes::Later),
    ("xread", "MAXCOUNT MAXSIZE", Comes::Later),
    ("xreadgroup", "MAXCOUNT MAXSIZE CLAIM", Comes::Later),
    ("xtrim", "KEEPREF DELREF ACKED", Comes::Later),
    ("zinter", "COUNT", Comes::Later),
    ("zinterstore", "COUNT", Comes::Later),
    ("zscan", "NOSCORES", Comes::Later),
    ("zunion", "COUNT", Comes::Later),
    ("zunionstore", "COUNT", Comes::Later),
];
