//! The text of COMPATIBILITY.md.

use std::fmt::Write;

use command::Difference;

use crate::table::{Command, Table};

use super::areas::AREAS;
use super::{Comes, OVER_NODES, comes, gaps, oracle, reason, remark};

const HEAD: &str = "\
# Compatibility

<!-- Generated from the rows: change those (or crates/node/src/compatibility), then run
     HOLDFAST_BLESS=1 cargo test -p node compatibility_is_current -->

";

const READING: &str = "\
A command that is there has all options and legacy forms of Redis and Valkey, unless its remark says otherwise. The
remark of another command says why it is not there, and the command answers an error with that reason. One of which
there will be none is unknown to the server. As in Redis, the commands of a cluster answer an error at a server without
a cluster.

Redis's and Valkey's own test suites measure how close the rest is: `tests/redis-suite/run`. Tests that it skips
are in `tests/redis-suite/skips.txt`.

";

/// The words of arguments that a command does not take, with the developments that bring them.
pub(super) fn missing_words(name: &str) -> impl Iterator<Item = (&'static str, Comes)> {
    let gaps = gaps::WORDS.iter().filter(move |(known, ..)| *known == name);
    gaps.flat_map(|(_, words, comes)| words.split(' ').map(move |word| (word, *comes)))
}

/// The section about Redis and Valkey.
fn dialects() -> String {
    let mut text = String::from(
        "\n## Redis and Valkey\n\nThe server gives Redis's replies where Redis 8.8 and Valkey 9 differ, and Valkey's with \
         `compatibility valkey`.\nAll differences:\n\n| what differs | redis | valkey |\n|---|---|---|\n",
    );
    for [about, redis, valkey] in Difference::ALL.map(Difference::texts) {
        let _ = writeln!(text, "| {about} | {redis} | {valkey} |");
    }
    text
}

/// The text of COMPATIBILITY.md.
pub fn markdown(table: &Table) -> String {
    let shown: Vec<&Command> = table.all().iter().filter(|command| !command.is_hidden()).collect();
    let has = |name: &str| shown.iter().any(|command| command.name == name);
    let mut text = HEAD.to_owned();
    let count = |is_redis: bool| {
        let of = || oracle::COMMANDS.values().filter(|known| known.is_redis == is_redis);
        (of().filter(|known| has(known.name)).count(), of().count())
    };
    let ((redis, of_redis), (valkey, of_valkey)) = (count(true), count(false));
    let _ = writeln!(
        text,
        "Every command and subcommand of Redis 8.10, its modules' included: {redis} of {of_redis} are there.\n\
         Of those that Valkey 9.1 alone has: {valkey} of {of_valkey}. The lists are data:\n"
    );
    for source in oracle::sources() {
        let _ = writeln!(text, "    {source}");
    }
    let _ = write!(text, "\n{READING}| area | there | of |\n|---|---|---|\n");
    for area in AREAS {
        let names = area.names();
        let there = names.iter().filter(|name| has(name)).count();
        let _ = writeln!(text, "| {} | {there} | {} |", area.title, names.len());
    }
    text.push_str(&dialects());
    let _ = write!(text, "\n## Keys of several nodes\n\n{OVER_NODES}");
    for area in AREAS {
        let _ = write!(text, "\n## {}\n\n| command | there | remark |\n|---|---|---|\n", area.title);
        for name in area.names() {
            let mark = if has(name) { "yes" } else { "" };
            let shown = name.replace('|', " ").to_uppercase();
            let _ = writeln!(text, "| `{shown}` | {mark} | {} |", remarks(name, has(name)));
        }
    }
    text
}

/// The remarks about a command, in one cell.
fn remarks(name: &str, is_there: bool) -> String {
    let mut said = Vec::new();
    if oracle::COMMANDS.get(name).is_some_and(|known| !known.is_redis) {
        said.push("of Valkey".to_owned());
    }
    if !is_there {
        said.extend(comes(name).map(|comes| reason(name, comes)));
        return said.join("; ");
    }
    let words: Vec<String> = missing_words(name).map(|(word, _)| format!("`{word}`")).collect();
    if let Some((_, comes)) = missing_words(name).next() {
        said.push(format!("without {}: {}", words.join(", "), comes.text()));
    }
    said.extend(remark(name).map(str::to_owned));
    said.join("; ")
}
