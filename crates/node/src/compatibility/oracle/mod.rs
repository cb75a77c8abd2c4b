//! The commands of Redis 8.10 and Valkey 9.1 and the words of their arguments, whether they are here or not. The lists
//! beside this file are data: each names its source and date.

use std::collections::BTreeMap;
use std::sync::LazyLock;

const REDIS: &str = include_str!("redis.txt");
const VALKEY: &str = include_str!("valkey.txt");

/// One command or subcommand of Redis or Valkey.
pub(super) struct Known {
    /// Lower-case; a subcommand's is "container|name".
    pub name: &'static str,
    /// Redis's group.
    pub group: &'static str,
    /// True if Redis has it. Otherwise only Valkey does.
    pub is_redis: bool,
    /// The fixed words of its arguments, upper-case, of both.
    pub words: Vec<&'static str>,
}

/// All of them, by name.
pub(super) static COMMANDS: LazyLock<BTreeMap<&'static str, Known>> = LazyLock::new(|| {
    let mut found = BTreeMap::new();
    for (text, is_redis) in [(REDIS, true), (VALKEY, false)] {
        for known in text.lines().filter_map(|line| parse(line, is_redis)) {
            add(&mut found, known);
        }
    }
    found
});

/// The lines at the head of both lists that name their source.
pub(super) fn sources() -> impl Iterator<Item = &'static str> {
    let heads = [REDIS, VALKEY].into_iter().flat_map(|text| text.lines().take_while(|line| line.starts_with('#')));
    heads.map(|line| line.trim_start_matches(['#', ' '])).filter(|line| !line.starts_with("Columns:"))
}

fn parse(line: &'static str, is_redis: bool) -> Option<Known> {
    if line.starts_with('#') {
        return None;
    }
    let mut columns = line.split(' ');
    let (group, name, _since) = (columns.next()?, columns.next()?, columns.next()?);
    Some(Known { name, group, is_redis, words: columns.collect() })
}

fn add(found: &mut BTreeMap<&'static str, Known>, known: Known) {
    match found.get_mut(known.name) {
        Some(earlier) => {
            let new = known.words.into_iter().filter(|word| !earlier.words.contains(word)).collect::<Vec<_>>();
            earlier.words.extend(new);
        }
        None => {
            found.insert(known.name, known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_both_has_the_words_of_both() {
        let get = |name| &COMMANDS[name];
        assert!(get("set").words.contains(&"KEEPTTL") && get("set").words.contains(&"IFDNE"));
        assert!(get("hsetex").is_redis && get("hsetex").words.contains(&"FXX"));
        assert!(!get("delifeq").is_redis && get("delifeq").group == "string");
        assert_eq!(get("client|kill").group, "connection");
    }

    #[test]
    fn every_line_is_a_command_or_a_remark() {
        for text in [REDIS, VALKEY] {
            for line in text.lines() {
                assert!(line.starts_with('#') || parse(line, true).is_some(), "{line}");
            }
        }
        assert!(sources().any(|line| line.contains("Redis 8.10")));
        assert!(sources().any(|line| line.contains("Valkey 9.1")));
    }
}
