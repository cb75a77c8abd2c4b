//! Settings in words: `--help`, the docs page, hints of errors. All of it comes from the rows.

use std::fmt::Write;

use super::kind::{Kind, show_memory};
use super::row::{Acts, Row};
use super::rows::SECTIONS;
use super::special::Special;

/// The values of a setting, in words that fit behind "takes".
pub fn describe(kind: Kind) -> String {
    let memory = |bytes: i128| show_memory(bytes);
    match kind {
        Kind::Bool => "yes or no".into(),
        Kind::Integer { min, max } if max >= i32::MAX.into() && min <= i32::MIN.into() => "an integer".into(),
        Kind::Integer { min, max } if max >= i32::MAX.into() => format!("an integer from {min}"),
        Kind::Integer { min, max } => format!("an integer from {min} to {max}"),
        Kind::Octal { max } => format!("an octal number from 0 to {max:o}"),
        Kind::Memory { min, max } if max >= i64::MAX.into() && min == 0 => "an amount of memory".into(),
        Kind::Memory { min, .. } => format!("an amount of memory from {}", memory(min)),
        Kind::MemoryOrPercent { .. } => "an amount of memory, or a percentage from 0% to 100%".into(),
        Kind::Enum(words) => format!("one of {}", words.join(", ")),
        Kind::Set(words) => format!("one or more of {}", words.join(", ")),
        Kind::Text | Kind::OptionalText => "a text".into(),
        Kind::Special(special) => match special {
            Special::Save => "pairs of SECONDS CHANGES",
            Special::OutputLimits => "CLASS HARD SOFT SECONDS for the classes normal, replica, pubsub",
            Special::OomScores => "three integers from -2000 to 2000",
            Special::Events => "letters of Ag$lshzxeKEtmdnocaSTIV",
            Special::Bind => "up to 16 addresses",
            Special::ReplicaOf => "HOST PORT, or `no one`",
            Special::Percentiles => "numbers from 0 to 100",
            Special::Dir => "a directory",
            Special::LogDirs => "directories",
        }
        .into(),
    }
}

/// A default in the form in which a user would write it.
fn shown_default(row: &Row) -> &str {
    if row.default.is_empty() { "\"\"" } else { row.default }
}

/// The effect of a setting, its values, and a note if it does nothing: a line each.
pub fn explain(row: &Row) -> Vec<String> {
    let own = if row.own { " (Holdfast's own)" } else { "" };
    let mut lines =
        vec![format!("{}{own}", row.help), format!("Takes {}; default {}.", describe(row.kind), shown_default(row))];
    match row.acts {
        Acts::Yes => {}
        Acts::No(reason) => lines.push(format!("No effect: {reason}.")),
        Acts::Refused(reason) => lines.push(format!("Only the default: {reason}.")),
    }
    lines
}

/// The text of `holdfast server --help`.
pub fn help() -> String {
    let mut text = String::from(
        "Usage: holdfast server [FILE] [--NAME VALUE ...] [-]\n\n\
         FILE has the syntax of redis.conf: a setting and its values on a line, `#` for comments, `include PATH`.\n\
         Options are read after it, by the names below; `-` reads more from standard input.\n\
         Amounts of memory are bytes, or have a unit: k, m, g for powers of 1000, kb, mb, gb for powers of 1024.\n",
    );
    for section in SECTIONS {
        let rows: Vec<_> = section.rows.iter().filter(|row| !row.hidden).collect();
        if rows.is_empty() {
            continue;
        }
        write!(text, "\n{}\n", section.title).unwrap_or_default();
        for row in rows {
            writeln!(text, "  --{}", row.name).unwrap_or_default();
            explain(row).iter().for_each(|line| writeln!(text, "      {line}").unwrap_or_default());
        }
    }
    text
}

/// The page `docs/configuration.md`.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Configuration\n\n\
         <!-- Generated from crates/node/src/config/rows: change those, then run\n     \
         HOLDFAST_BLESS=1 cargo test -p node docs_are_current -->\n\n\
         `holdfast server [FILE] [--NAME VALUE ...] [-]` reads a file in the syntax of `redis.conf`, then the options. An\n\
         option `-` makes it read standard input between the two. Of several values of a setting the last one holds. Settings\n\
         have Redis's names and defaults wherever Redis has them. `CONFIG GET`, `CONFIG SET` and `CONFIG REWRITE` work as in\n\
         Redis.\n\
         \n\
         A line of a file holds one setting and its values. `#` starts a comment line. A value with blanks goes into `\"...\"`\n\
         (with `\\n`, `\\xHH`, `\\\"`) or `'...'`. `include PATH` reads other files; `*`, `?`, `[...]` in the path name several.\n\
         `rename-command OLD NEW` renames a command, and `rename-command OLD \"\"` removes it.\n\
         \n\
         Amounts of memory are bytes, or have a unit: `k`, `m`, `g` for powers of 1000, `kb`, `mb`, `gb` for powers of 1024.\n\
         \n\
         - **Fixed:** the server reads the setting at its start only.\n\
         - **Protected:** a change needs `enable-protected-configs`.\n\
         - *No effect:* the server accepts and checks the setting, so that files written for Redis work, but does nothing\n\
         \x20\x20with it. The log has a warning if the value is not the default.\n\
         - *Only the default:* the server does not start with another value, because that value would promise something that\n\
         \x20\x20this version does not do.\n\
         \n\
         ## Settings of a cluster\n\
         \n\
         In a cluster a setting is **the cluster's** if the outcome of a command, or anything else that a client is told,\n\
         depends on it: a client does not see which node serves a key. Every other setting is a node's own: folders, addresses\n\
         and ports; memory, threads and disks of its machine; what it measures and logs; what it needs before it finds its\n\
         cluster; settings without effect. `databases` is a node's own, and must be the same at all nodes.\n\
         \n\
         `CONFIG SET` of a cluster's setting, at any node, holds at all nodes, also at nodes that join or come back later. It\n\
         answers OK when more than half of the voting nodes have the value on their disks and the node that was asked uses\n\
         it. Other nodes use it within a heartbeat (0.1 s), or at the latest after the length of a lease (2 s). Without a\n\
         majority it is refused with -CLUSTERDOWN. A **fixed** setting keeps the value that the cluster began with. If a file\n\
         or a command line has another value, the cluster's value holds, and the node logs a warning. A value has at most 1024\n\
         bytes.\n\
         \n\
         A setting is **the shard's** if it says what the log of a shard promises: the node that owns the shard runs by it,\n\
         whichever node that is. `CONFIG SET` at that node changes it, and answers OK when more than half of the voting nodes\n\
         have it on their disks, too.\n\
         \n\
         [operating/cluster.md](operating/cluster.md#settings) says how a cluster begins, what `CONFIG REWRITE` writes,\n\
         and what happens to the password.\n",
    );
    for section in SECTIONS {
        let rows: Vec<_> = section.rows.iter().filter(|row| !row.hidden).collect();
        if rows.is_empty() {
            continue;
        }
        write!(text, "\n## {}\n\n| setting | takes | default | what it does |\n|---|---|---|---|\n", section.title)
            .unwrap_or_default();
        for row in rows {
            let alias = row.alias.map(|alias| format!(" (also `{alias}`)")).unwrap_or_default();
            let mut what = row.help.to_owned();
            if row.own {
                what.push_str(" **Holdfast's own.**");
            }
            if row.is_of_cluster() {
                what.push_str(" **The cluster's.**");
            }
            if row.is_of_shard() {
                what.push_str(" **The shard's.**");
            }
            if row.immutable {
                what.push_str(" **Fixed.**");
            }
            if row.protected {
                what.push_str(" **Protected.**");
            }
            match row.acts {
                Acts::Yes => {}
                Acts::No(reason) => write!(what, " *No effect:* {reason}.").unwrap_or_default(),
                Acts::Refused(reason) => write!(what, " *Only the default:* {reason}.").unwrap_or_default(),
            }
            let (takes, default) = (describe(row.kind), shown_default(row));
            let line = format!("| `{}`{alias} | {takes} | `{default}` | {what} |\n", row.name);
            text.push_str(&line);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The committed page must be the generated one. `HOLDFAST_BLESS=1` writes it.
    #[test]
    fn docs_are_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        if std::env::var_os("HOLDFAST_BLESS").is_some() {
            std::fs::write(path, markdown()).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(committed == markdown(), "run HOLDFAST_BLESS=1 cargo test -p node docs_are_current");
    }

    #[test]
    fn help_names_every_setting_that_is_not_hidden() {
        let help = help();
        for row in SECTIONS.iter().flat_map(|section| section.rows) {
            assert_eq!(help.contains(&format!("--{}\n", row.name)), !row.hidden, "{}", row.name);
        }
    }
}
