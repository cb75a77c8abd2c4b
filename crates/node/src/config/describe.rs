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

/// What a setting does, what it takes, and whether it acts: a line each.
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
         `holdfast server [FILE] [--NAME VALUE ...] [-]` reads a file in the syntax of `redis.conf`, then standard input\n\
         where `-` asks for it, then the options; what comes last holds. Settings have Redis's names and defaults\n\
         wherever Redis has them. `CONFIG GET`, `CONFIG SET` and `CONFIG REWRITE` work as in Redis.\n\n\
         In a file: one setting and its values on a line; `#` starts a comment line; values with blanks go into `\"...\"`\n\
         (with `\\n`, `\\xHH`, `\\\"`) or `'...'`; `include PATH` reads other files, `*`, `?`, `[...]` naming several;\n\
         `rename-command OLD NEW` renames a command, `rename-command OLD \"\"` removes it.\n\n\
         Amounts of memory are bytes, or have a unit: `k`, `m`, `g` for powers of 1000, `kb`, `mb`, `gb` for powers of 1024.\n\n\
         **Fixed** settings are read at start only; **protected** ones need `enable-protected-configs`. *No effect* means\n\
         that the setting is taken and checked, so that files written for Redis work, but changes nothing; one that\n\
         differs from its default is warned about in the log. *Only the default* means that other values stop the start,\n\
         because taking them would promise something that this version does not do.\n\n\
         ## Settings of a cluster\n\n\
         Where servers are nodes of a cluster, a setting is **the cluster's** if a command's outcome, or anything that a\n\
         client is told, depends on it: a client does not see which node serves a key. All else is a node's own: places,\n\
         addresses and ports; memory, threads and disks of its machine; what it watches and logs; what it must know before\n\
         it finds its cluster; what has no effect. `appendonly`, `appendfsync` and `databases` are a node's own for now\n\
         (`databases` must be the same at all nodes).\n\n\
         `CONFIG SET` of a setting that is the cluster's, at any node, holds at all nodes, also at those that join or come\n\
         back. It answers OK when more than half of the voting nodes have it on their disks and the node that was asked has\n\
         it in force. Others have it within a heartbeat (0.1 s), at the latest after the length of a lease (2 s). Without a\n\
         majority it is refused with -CLUSTERDOWN. A **fixed** one is what the cluster began with. Where a file or a command\n\
         line says otherwise the cluster's value holds, with a warning. How a cluster begins, what `CONFIG REWRITE` writes,\n\
         and what becomes of the password: [operating/cluster.md](operating/cluster.md#settings). A value has at most 1024\n\
         bytes.\n",
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
