//! The values that a setting can hold: its [`Kind`], the [`Value`]s of that kind, and the way from text to value and
//! back.
//!
//! The texts of the refusals are Redis's: clients get them from `CONFIG SET`, and users at a start.

use std::borrow::Cow;

use super::special::Special;

/// The reason why a value is refused, in Redis's words.
pub type Refusal = Cow<'static, str>;

/// The sort of value that a setting takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `yes` or `no`.
    Bool,
    /// A whole number within bounds, both inclusive.
    Integer {
        /// Smallest value.
        min: i128,
        /// Largest value.
        max: i128,
    },
    /// A whole number written in base eight, from 0 (file modes).
    Octal {
        /// Largest value.
        max: i128,
    },
    /// An amount of memory in bytes: `100`, `1k` (1000), `1kb` (1024), `m`, `mb`, `g`, `gb`.
    Memory {
        /// Smallest value, bytes.
        min: i128,
        /// Largest value, bytes.
        max: i128,
    },
    /// An amount of memory, or `0%` to `100%` (of `maxmemory`).
    MemoryOrPercent {
        /// Largest value, bytes.
        max: i128,
    },
    /// One of these words.
    Enum(&'static [&'static str]),
    /// One or more of these words; the first stands for none of the others.
    Set(&'static [&'static str]),
    /// Any text; an empty one is a value like any other.
    Text,
    /// Any text; an empty one means "not set", and is not written by `CONFIG REWRITE`.
    OptionalText,
    /// A syntax of its own.
    Special(Special),
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of [`Kind::Bool`].
    Bool(bool),
    /// Of the numeric kinds; bytes for memory.
    Number(i128),
    /// Of [`Kind::MemoryOrPercent`], 1 to 100 (0% is `Number(0)`).
    Percent(i128),
    /// Of [`Kind::Enum`].
    Choice(&'static str),
    /// Of [`Kind::Set`]: bit *i* stands for word *i + 1*.
    Choices(u32),
    /// Of the text kinds.
    Text(Vec<u8>),
    /// Of a special kind with several words.
    Words(Vec<Vec<u8>>),
}

impl Kind {
    /// True if several words may follow the name (Redis's `MULTI_ARG_CONFIG`).
    pub fn takes_words(self) -> bool {
        match self {
            Kind::Set(_) => true,
            Kind::Special(special) => special.takes_words(),
            _ => false,
        }
    }

    /// Reads a value. `old` is the present value, for kinds where new words add to it.
    ///
    /// # Errors
    ///
    /// The reason, in Redis's words.
    pub fn parse(self, old: Option<&Value>, words: &[&[u8]]) -> Result<Value, Refusal> {
        if let Kind::Special(special) = self {
            return special.parse(old, words);
        }
        if let Kind::Set(accepted) = self {
            return parse_set(accepted, words);
        }
        let &[word] = words else {
            return Err("wrong number of arguments".into());
        };
        match self {
            Kind::Bool if word.eq_ignore_ascii_case(b"yes") => Ok(Value::Bool(true)),
            Kind::Bool if word.eq_ignore_ascii_case(b"no") => Ok(Value::Bool(false)),
            Kind::Bool => Err("argument must be 'yes' or 'no'".into()),
            Kind::Integer { min, max } => match parse_integer(word) {
                Some(number) => within(number, min, max),
                None => Err("argument couldn't be parsed into an integer".into()),
            },
            Kind::Octal { max } => match parse_octal(word) {
                Some(number) if (0..=max).contains(&number) => Ok(Value::Number(number)),
                Some(_) => Err(format!("argument must be between 0 and {max:o} inclusive").into()),
                None => Err("argument couldn't be parsed as an octal number".into()),
            },
            Kind::Memory { min, max } => match parse_memory(word) {
                Some(bytes) => within(bytes, min, max),
                None => Err("argument must be a memory value".into()),
            },
            Kind::MemoryOrPercent { max } => parse_memory_or_percent(word, max),
            Kind::Enum(accepted) => match find_word(accepted, word) {
                Some((_, name)) => Ok(Value::Choice(name)),
                None => Err(none_of(accepted)),
            },
            Kind::Text | Kind::OptionalText => Ok(Value::Text(word.to_vec())),
            // Both returned above.
            Kind::Set(_) | Kind::Special(_) => Err("wrong number of arguments".into()),
        }
    }

    /// The value as `CONFIG GET` shows it.
    pub fn show(self, value: &Value) -> Vec<u8> {
        match (self, value) {
            (_, Value::Bool(yes)) => if *yes { "yes" } else { "no" }.into(),
            (Kind::Octal { .. }, Value::Number(number)) => format!("{number:o}").into(),
            (_, Value::Number(number)) => number.to_string().into(),
            (_, Value::Percent(percent)) => format!("{percent}%").into(),
            (_, Value::Choice(name)) => (*name).into(),
            (Kind::Set(accepted), Value::Choices(mask)) => show_set(accepted, *mask).into(),
            (_, Value::Choices(mask)) => mask.to_string().into(),
            (_, Value::Text(text)) => text.clone(),
            (_, Value::Words(words)) => words.join(&b' '),
        }
    }
}

/// A number of bytes in the largest unit that needs no fraction.
pub fn show_memory(bytes: i128) -> String {
    for (shift, unit) in [(30, "gb"), (20, "mb"), (10, "kb")] {
        if bytes > 0 && bytes % (1 << shift) == 0 {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// Digits and a unit (Redis's `memtoull`). `None` where it is not of that form or has over 20 digits.
pub fn parse_memory(word: &[u8]) -> Option<i128> {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, unit) = word.split_at_checked(digits)?;
    let factor: i128 = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    let number: u64 = std::str::from_utf8(number).ok()?.parse().ok()?;
    Some(i128::from(number) * factor)
}

/// A whole number as Redis's `string2ll` takes it: no sign but `-`, no leading zero, no blank, 64 bits signed.
pub fn parse_integer(word: &[u8]) -> Option<i128> {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    let canonical = match digits {
        [b'0'] => digits.len() == word.len(),
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !canonical {
        return None;
    }
    std::str::from_utf8(word).ok()?.parse::<i64>().ok().map(i128::from)
}

fn parse_octal(word: &[u8]) -> Option<i128> {
    i64::from_str_radix(std::str::from_utf8(word).ok()?, 8).ok().map(i128::from)
}

fn parse_memory_or_percent(word: &[u8], max: i128) -> Result<Value, Refusal> {
    if let Some(bytes) = parse_memory(word) {
        return within_from(bytes, -100, 0, max);
    }
    match word.strip_suffix(b"%").and_then(parse_integer) {
        Some(0) => Ok(Value::Number(0)),
        Some(percent @ 1..=100) => Ok(Value::Percent(percent)),
        Some(percent) if percent > 100 => Err("percentage argument must be less or equal to 100".into()),
        _ => Err("argument must be a memory or percent value".into()),
    }
}

fn within(number: i128, min: i128, max: i128) -> Result<Value, Refusal> {
    within_from(number, min, min, max)
}

/// As [`within`], with another lower bound in the error: Redis stores percentages as negative numbers, and names that
/// bound.
fn within_from(number: i128, named_min: i128, min: i128, max: i128) -> Result<Value, Refusal> {
    if (min..=max).contains(&number) {
        Ok(Value::Number(number))
    } else {
        Err(format!("argument must be between {named_min} and {max} inclusive").into())
    }
}

fn parse_set(accepted: &'static [&'static str], words: &[&[u8]]) -> Result<Value, Refusal> {
    if words.is_empty() {
        return Err(none_of(accepted));
    }
    let mut mask = 0;
    for word in words {
        match find_word(accepted, word) {
            Some((0, _)) => {}
            Some((index, _)) => mask |= 1 << (index - 1),
            None => return Err(none_of(accepted)),
        }
    }
    Ok(Value::Choices(mask))
}

fn show_set(accepted: &[&str], mask: u32) -> String {
    if mask == 0 {
        return accepted.first().copied().unwrap_or_default().to_owned();
    }
    let chosen = accepted.iter().skip(1).enumerate().filter(|(bit, _)| mask & 1 << bit != 0);
    chosen.map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
}

fn find_word(accepted: &'static [&'static str], word: &[u8]) -> Option<(usize, &'static str)> {
    accepted.iter().copied().enumerate().find(|(_, name)| name.as_bytes().eq_ignore_ascii_case(word))
}

fn none_of(accepted: &[&str]) -> Refusal {
    format!("argument(s) must be one of the following: {}", accepted.join(", ")).into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(kind: Kind, word: &str) -> Result<Value, Refusal> {
        kind.parse(None, &[word.as_bytes()])
    }

    #[test]
    fn refusals_are_redis_s() {
        let port = Kind::Integer { min: 0, max: 65535 };
        assert_eq!(parse(port, "65536").unwrap_err(), "argument must be between 0 and 65535 inclusive");
        assert_eq!(parse(port, "abc").unwrap_err(), "argument couldn't be parsed into an integer");
        assert_eq!(parse(port, "007").unwrap_err(), "argument couldn't be parsed into an integer");
        assert_eq!(parse(Kind::Bool, "maybe").unwrap_err(), "argument must be 'yes' or 'no'");
        let memory = Kind::Memory { min: 1, max: 100 };
        assert_eq!(parse(memory, "1x").unwrap_err(), "argument must be a memory value");
        assert_eq!(parse(memory, "-1").unwrap_err(), "argument must be a memory value");
        assert_eq!(parse(memory, "1k").unwrap_err(), "argument must be between 1 and 100 inclusive");
        let clients = Kind::MemoryOrPercent { max: i64::MAX.into() };
        assert_eq!(parse(clients, "200%").unwrap_err(), "percentage argument must be less or equal to 100");
        assert_eq!(parse(clients, "x").unwrap_err(), "argument must be a memory or percent value");
        assert_eq!(parse(clients, "-5%").unwrap_err(), "argument must be a memory or percent value");
        let mode = Kind::Octal { max: 0o777 };
        assert_eq!(parse(mode, "1000").unwrap_err(), "argument must be between 0 and 777 inclusive");
        assert_eq!(parse(mode, "8").unwrap_err(), "argument couldn't be parsed as an octal number");
        assert_eq!(
            parse(Kind::Enum(&["ip", "hostname"]), "x").unwrap_err(),
            "argument(s) must be one of the following: ip, hostname"
        );
    }

    #[test]
    fn units() {
        let memory = Kind::Memory { min: 0, max: u64::MAX.into() };
        for (text, bytes) in [
            ("0", 0),
            ("10b", 10),
            ("1k", 1000),
            ("1Kb", 1024),
            ("2m", 2_000_000),
            ("2MB", 2 << 20),
            ("3g", 3_000_000_000),
            ("3gb", 3 << 30),
            ("18446744073709551615", u64::MAX.into()),
        ] {
            assert_eq!(parse(memory, text), Ok(Value::Number(bytes)), "{text}");
        }
        assert!(parse(memory, "18446744073709551615gb").is_err(), "no wrapping");
        assert!(parse(memory, "kb").is_err());
        assert_eq!(show_memory(0), "0");
        assert_eq!(show_memory(3 << 30), "3gb");
        assert_eq!(show_memory(1025), "1025");
    }

    #[test]
    fn sets_show_their_words_in_the_order_of_the_row() {
        let kind = Kind::Set(&["default", "save", "nosave", "now", "force"]);
        let value = kind.parse(None, &[b"force", b"NOSAVE", b"now"]).unwrap();
        assert_eq!(kind.show(&value), b"nosave now force");
        assert_eq!(kind.show(&kind.parse(None, &[b"default"]).unwrap()), b"default");
        assert!(kind.parse(None, &[]).is_err());
    }

    proptest! {
        #[test]
        fn numbers_come_back(number: u64) {
            let memory = Kind::Memory { min: 0, max: u64::MAX.into() };
            let value = Value::Number(number.into());
            prop_assert_eq!(parse(memory, &show_memory(number.into())), Ok(value.clone()));
            prop_assert_eq!(memory.parse(None, &[&memory.show(&value)]), Ok(value));
        }

        #[test]
        fn any_word_is_taken(word: Vec<u8>) {
            for kind in [
                Kind::Bool,
                Kind::Integer { min: 0, max: 9 },
                Kind::Octal { max: 0o777 },
                Kind::Memory { min: 0, max: 9 },
                Kind::MemoryOrPercent { max: 9 },
            ] {
                let _ = kind.parse(None, &[&word]);
            }
        }
    }
}
