//! The commands and arguments of Redis and Valkey that are not there, each with the reason.

use super::Comes;

/// Commands without a row that do not come with the rest of their area. A container's name means its subcommands, too.
pub(super) const COMMANDS: &[(&str, Comes)] = &[
    ("backup", Comes::Later),
    ("client|import-source", Comes::Moves),
    ("cluster|cancelslotmigrations", Comes::Moves),
    ("cluster|getslotmigrations", Comes::Moves),
    ("cluster|migrateslots", Comes::Moves),
    ("cluster|migration", Comes::Moves),
    ("clusterscan", Comes::Later),
    ("commandlog", Comes::Later),
    ("migrate", Comes::Moves),
    ("trimslots", Comes::Moves),
];

/// The replacement for a command that is not there, or whose work nothing does yet. Tools show it to people: `redis-cli
/// --cluster` calls these commands.
pub(super) const INSTEAD: &[(&str, &str)] = &[
    ("cluster|addslots", "those that form a cluster share all of them"),
    ("cluster|addslotsrange", "those that form a cluster share all of them"),
    ("cluster|delslots", "CLUSTER FORGET with LOSE-DATA gives those of a lost node to the others"),
    ("cluster|delslotsrange", "CLUSTER FORGET with LOSE-DATA gives those of a lost node to the others"),
    ("cluster|meet", "a node that starts with `cluster-seeds` joins the cluster of those"),
    ("cluster|reset", "CLUSTER LEAVE takes a node out that owns none"),
    ("cluster|setslot", "no command moves one yet"),
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
    ("shutdown", "SAFE FAILOVER", Comes::Later),
    ("xadd", "IDMPAUTO IDMP", Comes::Later),
    ("xread", "MAXCOUNT MAXSIZE", Comes::Later),
    ("xreadgroup", "MAXCOUNT MAXSIZE", Comes::Later),
];
