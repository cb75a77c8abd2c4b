//! The settings with a syntax of their own: `save`, `client-output-buffer-limit`, `bind` and the like.

use command::class;

use super::kind::{Refusal, Value, parse_integer, parse_memory, show_memory};
use super::line::quote;

/// Most addresses that `bind` takes, as in Redis.
const BIND_MAX: usize = 16;
/// Most log directories: one stream each.
const LOG_DIRS_MAX: usize = keyspace::STREAMS;

/// The syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// `save SECONDS CHANGES [SECONDS CHANGES ...]`, or an empty text for none.
    Save,
    /// `client-output-buffer-limit CLASS HARD SOFT SECONDS [...]`: classes not named keep their limits.
    OutputLimits,
    /// Three numbers from -2000 to 2000.
    OomScores,
    /// The letters of `notify-keyspace-events`.
    Events,
    /// Up to 16 addresses, `*` for all, `-` before one that may be missing.
    Bind,
    /// `HOST PORT`, or `no one`.
    ReplicaOf,
    /// Percentiles from 0 to 100, or an empty text for none.
    Percentiles,
    /// A directory that exists.
    Dir,
    /// Directories, or an empty text for none.
    LogDirs,
}

/// A line that `CONFIG REWRITE` writes for a setting.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// The text behind the setting's name and a blank.
    pub arguments: Vec<u8>,
    /// True if it is written even if the file did not mention the setting.
    pub force: bool,
}

impl Special {
    /// True if several words may follow the name.
    pub fn takes_words(self) -> bool {
        !matches!(self, Special::Events | Special::Dir)
    }

    /// Reads a value; `old` matters to the settings that new words add to.
    ///
    /// # Errors
    ///
    /// The reason, in Redis's words.
    pub fn parse(self, old: Option<&Value>, words: &[&[u8]]) -> Result<Value, Refusal> {
        // One empty word stands for none.
        let listed = if let [b""] = words { &[] } else { words };
        match self {
            Special::Save => parse_save(listed),
            Special::OutputLimits => parse_output_limits(old, words),
            Special::OomScores => parse_oom_scores(words),
            Special::Events => match single(words).map(parse_events)? {
                Some(classes) => Ok(Value::Text(show_events(classes).into())),
                None => Err("Invalid event class character. Use 'Ag$lshzxeKEtmdnocaSTIV'.".into()),
            },
            Special::Bind if words.len() > BIND_MAX => Err("Too many bind addresses specified.".into()),
            Special::LogDirs if words.len() > LOG_DIRS_MAX => Err("Too many log directories specified.".into()),
            Special::LogDirs if listed.is_empty() => Err("log-dirs needs a directory".into()),
            Special::Bind | Special::LogDirs => Ok(Value::Words(owned(listed))),
            Special::ReplicaOf => parse_replicaof(words),
            Special::Percentiles => parse_percentiles(listed),
            Special::Dir => single(words).map(|path| Value::Text(path.to_vec())),
        }
    }

    /// The lines of `CONFIG REWRITE` for a value; none where the setting must not be in the file.
    pub fn lines(self, value: &Value, default: &Value) -> Vec<Line> {
        let changed = value != default;
        let joined = |words: &[Vec<u8>]| if words.is_empty() { b"\"\"".to_vec() } else { words.join(&b' ') };
        match (self, value) {
            // The file overrides the default as a whole, so it must always hold the value.
            (Special::Save, Value::Words(words)) if !words.is_empty() => {
                words.chunks(2).map(|pair| Line { arguments: pair.join(&b' '), force: true }).collect()
            }
            (Special::Save | Special::Percentiles, Value::Words(words)) => {
                vec![Line { arguments: joined(words), force: true }]
            }
            (Special::OutputLimits, Value::Words(words)) => output_limit_lines(words, default),
            (Special::Bind | Special::ReplicaOf | Special::LogDirs, _) if !changed => Vec::new(),
            (Special::ReplicaOf, Value::Words(words)) if words.is_empty() => Vec::new(),
            (Special::Dir, Value::Text(path)) => vec![Line { arguments: quote(path), force: true }],
            (_, Value::Text(text)) => vec![Line { arguments: quote(text), force: changed }],
            (_, Value::Words(words)) => {
                let words: Vec<_> = words.iter().map(|word| super::line::quote_where_needed(word)).collect();
                vec![Line { arguments: joined(&words), force: changed }]
            }
            _ => Vec::new(),
        }
    }
}

fn single<'a>(words: &[&'a [u8]]) -> Result<&'a [u8], Refusal> {
    match words {
        [word] => Ok(word),
        _ => Err("wrong number of arguments".into()),
    }
}

fn owned(words: &[&[u8]]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.to_vec()).collect()
}

fn parse_save(words: &[&[u8]]) -> Result<Value, Refusal> {
    let point = |pair: &[&[u8]]| match pair {
        [seconds, changes] => {
            parse_integer(seconds).is_some_and(|seconds| seconds >= 1)
                && parse_integer(changes).is_some_and(|changes| (0..=i32::MAX.into()).contains(&changes))
        }
        _ => false,
    };
    if words.chunks(2).all(point) { Ok(Value::Words(owned(words))) } else { Err("Invalid save parameters".into()) }
}

/// The classes in the order in which they are shown; `replica` is another name for the second.
const CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

fn parse_output_limits(old: Option<&Value>, words: &[&[u8]]) -> Result<Value, Refusal> {
    let mut limits = match old {
        Some(Value::Words(limits)) => limits.clone(),
        _ => CLASSES.iter().flat_map(|class| [class.as_bytes(), b"0", b"0", b"0"]).map(<[u8]>::to_vec).collect(),
    };
    if !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    for limit in words.chunks(4) {
        let [class, hard, soft, seconds] = limit else {
            continue;
        };
        let class = if class.eq_ignore_ascii_case(b"replica") { b"slave".as_slice() } else { class };
        let Some(index) = CLASSES.iter().position(|name| name.as_bytes().eq_ignore_ascii_case(class)) else {
            return Err("Invalid client class specified in buffer limit configuration.".into());
        };
        let bytes = |word: &[u8]| parse_memory(word).filter(|bytes| *bytes <= u64::MAX.into());
        let seconds = parse_integer(seconds).filter(|seconds| (0..=i32::MAX.into()).contains(seconds));
        let (Some(hard), Some(soft), Some(seconds)) = (bytes(hard), bytes(soft), seconds) else {
            return Err("Error in hard, soft or soft_seconds setting in buffer limit configuration.".into());
        };
        for (slot, number) in limits.iter_mut().skip(index * 4 + 1).zip([hard, soft, seconds]) {
            *slot = number.to_string().into();
        }
    }
    Ok(Value::Words(limits))
}

fn output_limit_lines(words: &[Vec<u8>], default: &Value) -> Vec<Line> {
    let default = if let Value::Words(words) = default { words.as_slice() } else { &[] };
    let memory = |word: &[u8]| parse_memory(word).map(show_memory).unwrap_or_default();
    let line = |(limit, default): (&[Vec<u8>], Option<&[Vec<u8>]>)| match limit {
        [class, hard, soft, seconds] => {
            let class = if class == b"slave" { b"replica" } else { class.as_slice() };
            let text = [class, memory(hard).as_bytes(), memory(soft).as_bytes(), seconds].join(&b' ');
            Some(Line { arguments: text, force: default != Some(limit) })
        }
        _ => None,
    };
    let defaults = default.chunks(4).map(Some).chain(std::iter::repeat(None));
    let mut lines: Vec<_> = words.chunks(4).zip(defaults).filter_map(line).collect();
    // Lines that must be there take the places of the file's lines, so that writing it again changes nothing.
    lines.sort_by_key(|line| !line.force);
    lines
}

fn parse_oom_scores(words: &[&[u8]]) -> Result<Value, Refusal> {
    if words.len() != 3 {
        return Err("wrong number of arguments".into());
    }
    if words.iter().all(|word| parse_integer(word).is_some_and(|score| (-2000..=2000).contains(&score))) {
        Ok(Value::Words(owned(words)))
    } else {
        Err("Invalid oom-score-adj-values, elements must be between -2000 and 2000.".into())
    }
}

fn parse_replicaof(words: &[&[u8]]) -> Result<Value, Refusal> {
    let [host, port] = words else {
        return Err("wrong number of arguments".into());
    };
    if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
        return Ok(Value::Words(Vec::new()));
    }
    match parse_integer(port) {
        Some(0..=65535) => Ok(Value::Words(owned(words))),
        _ => Err("Invalid master port".into()),
    }
}

fn parse_percentiles(words: &[&[u8]]) -> Result<Value, Refusal> {
    let mut shown = Vec::with_capacity(words.len());
    for word in words {
        let percentile = std::str::from_utf8(word).ok().and_then(|word| word.parse::<f64>().ok());
        let Some(percentile) = percentile.filter(|percentile| !percentile.is_nan()) else {
            return Err("Invalid latency-tracking-info-percentiles parameters".into());
        };
        if !(0.0..=100.0).contains(&percentile) {
            return Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".into());
        }
        shown.push(show_percentile(percentile).into_bytes());
    }
    Ok(Value::Words(shown))
}

/// At most six decimals, without trailing zeros.
fn show_percentile(percentile: f64) -> String {
    let text = format!("{percentile:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The letters of `notify-keyspace-events`, in the order of showing.
const EVENTS: [(u8, u32); 21] = [
    (b'g', class::GENERIC),
    (b'$', class::STRING),
    (b'l', class::LIST),
    (b's', class::SET),
    (b'h', class::HASH),
    (b'z', class::ZSET),
    (b'x', class::EXPIRED),
    (b'e', class::EVICTED),
    (b't', class::STREAM),
    (b'd', class::MODULE),
    (b'a', class::ARRAY),
    (b'n', class::NEW),
    (b'o', class::OVERWRITTEN),
    (b'c', class::TYPE_CHANGED),
    (b'K', class::KEYSPACE),
    (b'E', class::KEYEVENT),
    (b'm', class::KEY_MISS),
    (b'S', class::SUBKEYSPACE),
    (b'T', class::SUBKEYEVENT),
    (b'I', class::SUBKEYSPACEITEM),
    (b'V', class::SUBKEYSPACEEVENT),
];

/// The classes of `A`: `g$lshzxetda`. There are no arrays and no events of theirs; the letter is Redis's all the same.
const ALL_EVENTS: u32 = class::GENERIC
    | class::STRING
    | class::LIST
    | class::SET
    | class::HASH
    | class::ZSET
    | class::EXPIRED
    | class::EVICTED
    | class::STREAM
    | class::MODULE
    | class::ARRAY;

/// The classes (bits of [`class`]) that the letters name; `None` where one is unknown.
pub fn parse_events(letters: &[u8]) -> Option<u32> {
    letters.iter().try_fold(0, |classes, letter| match letter {
        b'A' => Some(classes | ALL_EVENTS),
        _ => EVENTS.iter().find(|(known, _)| known == letter).map(|(_, class)| classes | class),
    })
}

fn show_events(classes: u32) -> String {
    let all = classes & ALL_EVENTS == ALL_EVENTS;
    let mut shown = String::from(if all { "A" } else { "" });
    for (letter, class) in EVENTS {
        // Redis leaves `n` out beside `A`, though `A` does not stand for it; losing it would change the setting.
        if classes & class != 0 && !(all && ALL_EVENTS & class != 0) {
            shown.push(letter.into());
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(special: Special, old: Option<&Value>, words: &str) -> Result<Value, Refusal> {
        let words: Vec<_> = words.split(' ').map(str::as_bytes).collect();
        special.parse(old, &words)
    }

    fn shown(value: &Value) -> String {
        String::from_utf8(match value {
            Value::Words(words) => words.join(&b' '),
            Value::Text(text) => text.clone(),
            other => format!("{other:?}").into_bytes(),
        })
        .unwrap()
    }

    #[test]
    fn save_points() {
        assert_eq!(shown(&parse(Special::Save, None, "3600 1 300 100").unwrap()), "3600 1 300 100");
        assert_eq!(shown(&parse(Special::Save, None, "").unwrap()), "");
        for bad in ["3600", "0 1", "1 -1", "a b", "1  2"] {
            assert_eq!(parse(Special::Save, None, bad).unwrap_err(), "Invalid save parameters", "{bad}");
        }
    }

    #[test]
    fn output_limits_keep_the_classes_not_named() {
        let first = parse(Special::OutputLimits, None, "pubsub 32mb 8mb 60 replica 256mb 64mb 60").unwrap();
        assert_eq!(shown(&first), "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60");
        let second = parse(Special::OutputLimits, Some(&first), "normal 1 2 3 slave 1 1 1").unwrap();
        assert_eq!(shown(&second), "normal 1 2 3 slave 1 1 1 pubsub 33554432 8388608 60");
        let lines = Special::OutputLimits.lines(&second, &first);
        let text: Vec<_> = lines.iter().map(|line| String::from_utf8_lossy(&line.arguments)).collect();
        assert_eq!(text, ["normal 1 2 3", "replica 1 1 1", "pubsub 32mb 8mb 60"]);
        assert_eq!(lines.iter().map(|line| line.force).collect::<Vec<_>>(), [true, true, false]);
        for (bad, why) in [
            ("normal 1 2", "Wrong number"),
            ("master 1 2 3", "Invalid client class"),
            ("wrong 1 2 3", "Invalid client class"),
            ("normal -1 2 3", "Error in hard"),
            ("normal 1 2 x", "Error in hard"),
        ] {
            assert!(parse(Special::OutputLimits, None, bad).unwrap_err().starts_with(why), "{bad}");
        }
    }

    #[test]
    fn event_letters() {
        let canonical = |letters: &str| parse(Special::Events, None, letters).map(|value| shown(&value));
        assert_eq!(canonical("KEA").unwrap(), "AKE");
        assert_eq!(canonical("Exg").unwrap(), "gxE");
        assert_eq!(canonical("g$lshzxetda").unwrap(), "A");
        assert_eq!(canonical("g$lshzxetd").unwrap(), "g$lshzxetd");
        assert_eq!(canonical("VITShE").unwrap(), "hESTIV");
        assert_eq!(canonical("Kmn").unwrap(), "nKm");
        assert_eq!(canonical("").unwrap(), "");
        assert!(canonical("q").unwrap_err().starts_with("Invalid event class character"));
        assert_eq!(parse_events(b"A"), Some(ALL_EVENTS));
        for (letter, class) in EVENTS {
            assert_eq!(parse_events(&[letter]), Some(class));
        }
    }

    #[test]
    fn the_others() {
        assert_eq!(shown(&parse(Special::Percentiles, None, "50 99 99.9").unwrap()), "50 99 99.9");
        assert!(parse(Special::Percentiles, None, "101").unwrap_err().contains("should sit between"));
        assert!(parse(Special::Percentiles, None, "NaN").unwrap_err().starts_with("Invalid"));
        assert_eq!(parse(Special::ReplicaOf, None, "no ONE"), Ok(Value::Words(vec![])));
        assert_eq!(parse(Special::ReplicaOf, None, "127.0.0.1 abc").unwrap_err(), "Invalid master port");
        assert_eq!(parse(Special::ReplicaOf, None, "a").unwrap_err(), "wrong number of arguments");
        assert_eq!(parse(Special::Bind, None, ""), Ok(Value::Words(vec![])));
        assert!(parse(Special::Bind, None, &["a"; 17].join(" ")).is_err());
        assert!(parse(Special::OomScores, None, "0 200").is_err());
        assert!(parse(Special::OomScores, None, "0 200 2001").is_err());
        assert_eq!(shown(&parse(Special::OomScores, None, "0 200 800").unwrap()), "0 200 800");
    }
}
