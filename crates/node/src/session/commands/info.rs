//! One command as COMMAND and COMMAND INFO describe it.

use command::{Begin, Find, KeySpec, flags, key_flags};
use resp::Reply;

use crate::table::{Command, Table};

/// First and last key and the step between, as clients before key specifications understand them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LegacyRange {
    pub first: i64,
    pub last: i64,
    pub step: i64,
}

/// The range that covers the specifications as far as one range can, and whether it leaves keys out (the flag
/// `movablekeys`).
pub fn legacy_range(keys: &[KeySpec]) -> (LegacyRange, bool) {
    let ranges = keys.iter().map(|spec| match (spec.begin, spec.find) {
        (Begin::Index(first), Find::Range { last, step, .. }) => Some((first as i64, last as i64, step as i64)),
        _ => None,
    });
    if let [_] = keys {
        return match ranges.flatten().next() {
            Some((first, last, step)) => {
                let last = if last >= 0 { last + first } else { last };
                (LegacyRange { first, last, step }, false)
            }
            None => (LegacyRange::default(), true),
        };
    }
    let (mut range, mut movable) = (LegacyRange::default(), false);
    for found in ranges {
        match found {
            // Only specifications that follow each other without a gap make one range.
            Some((first, last, 1)) if range.step == 0 || range.last == first - 1 => {
                if range.step == 0 {
                    range = LegacyRange { first, last: 0, step: 1 };
                }
                range.last = if last >= 0 { last + first } else { last };
            }
            _ => movable = true,
        }
    }
    (range, movable)
}

pub fn write(reply: &mut Reply<'_>, table: &Table, command: &Command) {
    let (range, movable) = legacy_range(command.spec.keys);
    // Redis does not show this flag.
    let mut bits = command.spec.flags & !flags::MAY_REPLICATE;
    if movable {
        bits |= flags::MOVABLE_KEYS;
    }
    reply.array(10);
    reply.bulk(&command.name);
    reply.integer(i64::from(command.spec.arity));
    let mut shown = named(u64::from(bits), &flags::NAMES);
    if command.spec.has(flags::RUNS_SCRIPT) {
        shown.push("script_runner".into());
    }
    simple_set(reply, shown);
    reply.integer(range.first);
    reply.integer(range.last);
    reply.integer(range.step);
    simple_set(reply, command.categories().into_iter().map(|category| format!("@{category}")).collect());
    reply.set(command.spec.tips.len());
    command.spec.tips.iter().for_each(|tip| reply.bulk(tip));
    reply.set(command.spec.keys.len());
    command.spec.keys.iter().for_each(|spec| key_spec(reply, spec));
    reply.set(command.shown_subcommands().len());
    command.shown_subcommands().iter().for_each(|&id| write(reply, table, table.get(id)));
}

/// The names of the bits that are set.
fn named(bits: u64, names: &[&str]) -> Vec<String> {
    names.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, name)| (*name).into()).collect()
}

fn simple_set(reply: &mut Reply<'_>, words: Vec<String>) {
    reply.set(words.len());
    words.iter().for_each(|word| reply.simple(word));
}

/// The flags of a key argument.
pub fn key_flags(reply: &mut Reply<'_>, flags: u16) {
    simple_set(reply, named(u64::from(flags), &key_flags::NAMES));
}

fn key_spec(reply: &mut Reply<'_>, spec: &KeySpec) {
    reply.map(3);
    reply.bulk("flags");
    key_flags(reply, spec.flags);
    reply.bulk("begin_search");
    match spec.begin {
        Begin::Index(index) => part(reply, "index", &[("index", Item::Number(index as i64))]),
        Begin::Keyword(word, from) => {
            part(reply, "keyword", &[("keyword", Item::Text(word)), ("startfrom", Item::Number(from as i64))]);
        }
    }
    reply.bulk("find_keys");
    match spec.find {
        Find::Range { last, step, limit } => {
            let numbers = [("lastkey", last as i64), ("keystep", step as i64), ("limit", limit as i64)];
            part(reply, "range", &numbers.map(|(name, n)| (name, Item::Number(n))));
        }
        Find::Count { at, first, step } => {
            let numbers = [("keynumidx", at), ("firstkey", first), ("keystep", step)];
            part(reply, "keynum", &numbers.map(|(name, n)| (name, Item::Number(n as i64))));
        }
    }
}

enum Item {
    Number(i64),
    Text(&'static str),
}

fn part(reply: &mut Reply<'_>, kind: &str, spec: &[(&str, Item)]) {
    reply.map(2);
    reply.bulk("type");
    reply.bulk(kind);
    reply.bulk("spec");
    reply.map(spec.len());
    for (name, item) in spec {
        reply.bulk(name);
        match item {
            Item::Number(n) => reply.integer(*n),
            Item::Text(text) => reply.bulk(text),
        }
    }
}

/// Redis's ACL categories, in the order in which it names those of a command.
const CATEGORIES: &str = "keyspace read write set sortedset list hash string array bitmap hyperloglog geo stream pubsub admin fast slow \
                          blocking dangerous connection transaction scripting";

impl Command {
    /// Its ACL categories, without the `@`: those its group and flags imply, and those its row names.
    pub fn categories(&self) -> Vec<&'static str> {
        let spec = self.spec;
        let has = |flag| spec.flags & flag != 0;
        let group = match spec.group {
            "sorted-set" | "sorted_set" => "sortedset",
            "transactions" => "transaction",
            // WAIT and SORT are of this group, but of other categories.
            "generic" if spec.categories.is_empty() => "keyspace",
            "generic" => "",
            // HELP of PUBSUB is no command about messages: the flag says which are.
            "server" | "cluster" | "sentinel" | "module" | "pubsub" => "",
            group => group,
        };
        let implied = [
            (!group.is_empty() && self.subcommands.is_empty(), group),
            (has(flags::WRITE), "write"),
            (has(flags::READONLY) && spec.group != "scripting", "read"),
            (has(flags::ADMIN), "admin"),
            (has(flags::ADMIN), "dangerous"),
            (has(flags::PUBSUB), "pubsub"),
            (has(flags::FAST), "fast"),
            (!has(flags::FAST), "slow"),
            (has(flags::BLOCKING), "blocking"),
        ];
        let mut all: Vec<&'static str> = Vec::new();
        for name in implied.iter().filter(|(on, _)| *on).map(|(_, name)| *name).chain(spec.categories.iter().copied()) {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        all.sort_by_key(|name| CATEGORIES.split(' ').position(|known| known == *name));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use key_flags::RO;
    use resp::Protocol;

    /// The output of COMMAND INFO for a command: arity, flags, categories and tips, sorted.
    fn shown(name: &str) -> String {
        let table = Table::new();
        let command = table.all().iter().find(|command| &*command.name == name).unwrap();
        let mut out = Vec::new();
        write(&mut Reply::new(&mut out, Protocol::Resp2), &table, command);
        let text = String::from_utf8(out).unwrap();
        let is_length = |line: &&str| line.starts_with(['*', '$']) || line.is_empty();
        let mut lines = text.split("\r\n").filter(|line| !is_length(line)).skip(1);
        let arity = lines.next().unwrap().to_owned();
        // Three numbers follow the flags, and the words of key specifications follow the tips.
        let mut words: Vec<&str> =
            lines.take_while(|line| *line != "flags").filter(|line| !line.starts_with(':')).collect();
        words.sort_unstable();
        format!("{arity} {}", words.join(" "))
    }

    /// By hand, from Redis 8.8: differences that a comparison of every command with it has found.
    #[test]
    fn commands_are_described_as_in_redis_8_8() {
        for (name, expected) in [
            ("asking", ":1 +@connection +@fast +fast"),
            ("pubsub|help", ":2 +@slow +loading +stale"),
            ("readonly", ":1 +@connection +@fast +fast +loading +stale"),
            ("readwrite", ":1 +@connection +@fast +fast +loading +stale"),
            ("hexpire", ":-6 +@fast +@hash +@write +fast +write"),
            ("hpexpire", ":-6 +@fast +@hash +@write +fast +write"),
            ("hexpireat", ":-6 +@fast +@hash +@write +fast +write"),
            ("hpexpireat", ":-6 +@fast +@hash +@write +fast +write"),
            ("subscribe", ":-2 +@pubsub +@slow +denyoom +loading +noscript +pubsub +stale"),
            ("psubscribe", ":-2 +@pubsub +@slow +denyoom +loading +noscript +pubsub +stale"),
            ("ssubscribe", ":-2 +@pubsub +@slow +denyoom +loading +noscript +pubsub +stale"),
            ("cluster|slots", ":2 +@slow +loading +stale nondeterministic_output"),
            ("cluster|nodes", ":2 +@slow +loading +stale nondeterministic_output"),
            ("increx", ":-2 +@fast +@string +@write +denyoom +fast +write"),
            ("sunioncard", ":-3 +@read +@set +@slow +movablekeys +readonly"),
            ("sdiffcard", ":-3 +@read +@set +@slow +movablekeys +readonly"),
        ] {
            assert_eq!(shown(name), expected, "{name}");
        }
        for name in ["eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"] {
            assert!(shown(name).contains("+script_runner"), "{name}: {}", shown(name));
        }
        for (name, tips) in [
            ("function|load", "request_policy:all_shards response_policy:all_succeeded"),
            ("function|kill", "request_policy:all_shards response_policy:one_succeeded"),
            ("function|list", "nondeterministic_output_order"),
            ("function|stats", "nondeterministic_output request_policy:all_shards response_policy:special"),
            ("script|exists", "request_policy:all_shards response_policy:agg_logical_and"),
            ("script|load", "request_policy:all_nodes response_policy:all_succeeded"),
        ] {
            assert!(shown(name).ends_with(tips), "{name}: {}", shown(name));
        }
    }

    #[test]
    fn one_range_stands_for_several_where_it_can() {
        let range = |keys: &[KeySpec]| {
            let (r, movable) = legacy_range(keys);
            (r.first, r.last, r.step, movable)
        };
        assert_eq!(range(&[]), (0, 0, 0, false));
        assert_eq!(range(&[KeySpec::one(1, RO)]), (1, 1, 1, false));
        assert_eq!(range(&[KeySpec::range(1, -1, 2, RO)]), (1, -1, 2, false));
        assert_eq!(range(&[KeySpec::one(1, RO), KeySpec::one(2, RO)]), (1, 2, 1, false));
        assert_eq!(range(&[KeySpec::one(2, RO), KeySpec::range(3, -1, 1, RO)]), (2, -1, 1, false));
        assert_eq!(range(&[KeySpec::one(1, RO), KeySpec::counted(2, RO)]), (1, 1, 1, true));
        assert_eq!(range(&[KeySpec::counted(1, RO)]), (0, 0, 0, true));
    }
}
