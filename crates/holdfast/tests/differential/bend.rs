//! Commands that are not quite right: a word is replaced, dropped, doubled, moved or put into capitals.

/// Words that bend a command: numbers at the edges of types, options in wrong places, texts that are no number.
const BENT: &[&str] = &[
    "0",
    "-1",
    "1",
    "7",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "2147483647",
    "2147483648",
    "4294967296",
    "-2147483649",
    "9223372036854776",
    "99999999999999999999",
    "536870912",
    "+1",
    "-0",
    "01",
    " 1",
    "1 ",
    "1.5",
    ".5",
    "5.",
    "1e3",
    "1e-400",
    "0x10",
    "inf",
    "-inf",
    "nan",
    "(1",
    "(inf",
    "[f3",
    "(",
    "-",
    "+",
    "",
    "abc",
    "nx",
    "xx",
    "gt",
    "lt",
    "ch",
    "incr",
    "get",
    "ex",
    "px",
    "pxat",
    "keepttl",
    "persist",
    "fields",
    "count",
    "limit",
    "match",
    "by",
    "store",
    "desc",
    "withscores",
    "rev",
    "byscore",
    "bylex",
    "weights",
    "aggregate",
    "max",
    "left",
    "rank",
    "maxlen",
    "idx",
    "replace",
    "absttl",
    "db",
    "bit",
    "overflow",
    "sat",
    "a",
    "b",
    "k1",
    "f1",
];

/// Bends the words of a command, but not its name: one is replaced, dropped, doubled, added or put into capitals, or
/// two change places. `None`: the outcome would depend on more than the arguments.
pub fn bend(mut words: Vec<Vec<u8>>, picks: &[u8]) -> Option<Vec<Vec<u8>>> {
    if picks.is_empty() {
        return Some(words);
    }
    let mut picks = picks.iter().copied().map(usize::from);
    while let (Some(how), Some(place), Some(word)) = (picks.next(), picks.next(), picks.next()) {
        let word = BENT[word % BENT.len()].as_bytes().to_vec();
        let last = words.len() - 1;
        let at = 1 + place % last.max(1);
        match how % 8 {
            0..=2 if last > 0 => words[at] = word,
            3 if last > 0 => drop(words.remove(at)),
            4 if last > 1 => words.swap(at, last),
            5 if last > 0 => words.insert(at, words[at].clone()),
            6 if last > 0 => words[at].make_ascii_uppercase(),
            _ => words.push(word),
        }
    }
    // Milliseconds pass differently on two servers, so waits are short. Random members and places in an index of 32
    // bits may differ.
    let waits = words[0].starts_with(b"b") && !words[0].starts_with(b"bit");
    let alike = match words[0].as_slice() {
        b"blmpop" | b"bzmpop" => words.get(1)? == b"0.01",
        b"psetex" | b"pexpire" | b"hpexpire" => false,
        _ if words.iter().any(|word| word.eq_ignore_ascii_case(b"px")) => false,
        _ if words.iter().any(|word| word.to_ascii_lowercase().ends_with(b"bylex")) => false,
        b"zlexcount" => false,
        _ if waits => words.last()? == b"0.01",
        b"set" => !words.iter().any(|word| word.to_ascii_lowercase().starts_with(b"if")),
        b"lset" => words.get(2).is_none_or(|at| at.len() < 10),
        b"sort" | b"sort_ro" | b"wait" | b"config" | b"client" => false,
        b"xadd" => words.iter().all(|word| word != b"*"),
        b"xread" | b"xreadgroup" => {
            let bent = |word: &[u8]| word.eq_ignore_ascii_case(b"block") || word == b"CLAIM";
            let claims = words.iter().position(|word| word == b"claim").and_then(|at| words.get(at + 1));
            !words.iter().any(|word| bent(word)) && claims.is_none_or(|idle| idle == b"0" || idle == b"1000000")
        }
        b"xclaim" | b"xautoclaim" => words.get(4).is_some_and(|idle| idle == b"0"),
        b"bitfield" | b"bitfield_ro" => !words.iter().any(|word| word.len() > 18),
        b"spop" | b"srandmember" | b"hrandfield" | b"zrandmember" | b"object" => false,
        b"sscan" | b"hscan" | b"zscan" | b"scan" => words.get(2).is_none_or(|cursor| cursor == b"0"),
        _ => true,
    };
    alike.then_some(words)
}
