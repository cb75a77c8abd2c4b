//! Requests encoded once, with places for keys and values that are filled in while sending.

use super::keys::Rng;
use super::options::{Options, ValueSize};

/// Values are slices of this many random bytes (more if values are longer), taken at random places.
const POOL_BYTES: usize = 64 << 10;

/// How keys are written: prefix, then the number padded to a width, so that every key has one length.
#[derive(Clone, Debug)]
pub struct KeyFormat {
    prefix: Vec<u8>,
    digits: usize,
}

impl KeyFormat {
    /// The format that the options ask for.
    pub fn new(options: &Options) -> Self {
        Self { prefix: options.prefix().into_bytes(), digits: options.key_digits() }
    }

    /// Bytes of a key.
    pub fn len(&self) -> usize {
        self.prefix.len() + self.digits
    }

    /// Appends a key.
    #[inline]
    pub fn write(&self, mut number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.prefix);
        let start = out.len();
        out.resize(start + self.digits, b'0');
        for digit in out[start..].iter_mut().rev() {
            if number == 0 {
                break;
            }
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
    }
}

/// Random printable bytes from which values are taken.
#[derive(Clone, Debug)]
pub struct Values {
    pool: Vec<u8>,
    size: ValueSize,
}

impl Values {
    /// Values of the given sizes.
    pub fn new(size: ValueSize, seed: u64) -> Self {
        let mut rng = Rng::new(seed, u64::MAX);
        let pool = (0..POOL_BYTES + size.max).map(|_| b'!' + rng.below(94) as u8).collect();
        Self { pool, size }
    }

    #[inline]
    fn draw(&self, rng: &mut Rng) -> &[u8] {
        let span = self.size.max - self.size.min;
        let size = if span == 0 { self.size.min } else { self.size.min + rng.below(span as u64 + 1) as usize };
        // The pool is longer than any value by POOL_BYTES.
        let at = rng.below(POOL_BYTES as u64) as usize;
        &self.pool[at..at + size]
    }
}

/// A part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// Bytes that never change.
    Bytes(Vec<u8>),
    /// A key.
    Key,
    /// The key before once more.
    Same,
    /// A value; its length stands in the bytes before.
    Value,
    /// A value with its length line, for values of many sizes; the argument has this many bytes beside the value.
    Sized(usize),
}

/// One command, ready to be written many times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

/// The meaning of a part of an argument.
#[derive(Clone, Copy, Debug)]
enum Part<'a> {
    Text(&'a [u8]),
    Key,
    Same,
    Value,
}

impl Template {
    /// A command from its arguments, in which `__key__` stands for a key, `__same__` for the same key again and
    /// `__data__` for a value.
    ///
    /// # Errors
    /// `__data__` twice in one argument while values have many sizes.
    pub fn new(arguments: &[Vec<u8>], keys: &KeyFormat, size: ValueSize) -> Result<Self, String> {
        let mut template = Self { pieces: Vec::new() };
        template.bytes(format!("*{}\r\n", arguments.len()).as_bytes());
        for argument in arguments {
            let parts = split(argument);
            let values = parts.iter().filter(|part| matches!(part, Part::Value)).count();
            let fixed: usize = parts
                .iter()
                .map(|part| match part {
                    Part::Text(text) => text.len(),
                    Part::Key | Part::Same => keys.len(),
                    Part::Value => 0,
                })
                .sum();
            let sized = values > 0 && size.min != size.max;
            if sized {
                // The length is known only when the value is drawn, so the value must come right after it.
                if values > 1 || !matches!(parts.first(), Some(Part::Value)) {
                    return Err(
                        "with --value-size MIN-MAX, __data__ must begin its argument and stand there once".into()
                    );
                }
                template.pieces.push(Piece::Sized(fixed));
            } else {
                template.bytes(format!("${}\r\n", fixed + values * size.min).as_bytes());
            }
            for part in &parts[usize::from(sized)..] {
                match part {
                    Part::Text(text) => template.bytes(text),
                    Part::Key => template.pieces.push(Piece::Key),
                    Part::Same => template.pieces.push(Piece::Same),
                    Part::Value => template.pieces.push(Piece::Value),
                }
            }
            template.bytes(b"\r\n");
        }
        Ok(template)
    }

    fn bytes(&mut self, text: &[u8]) {
        if let Some(Piece::Bytes(bytes)) = self.pieces.last_mut() {
            bytes.extend_from_slice(text);
        } else {
            self.pieces.push(Piece::Bytes(text.to_vec()));
        }
    }

    /// Appends the command, with a key number from `key` for each of its keys; `last` is the one before.
    #[inline]
    pub fn write(
        &self,
        format: &KeyFormat,
        values: &Values,
        rng: &mut Rng,
        mut key: impl FnMut(&mut Rng) -> u64,
        last: &mut u64,
        out: &mut Vec<u8>,
    ) {
        for piece in &self.pieces {
            match piece {
                Piece::Bytes(bytes) => out.extend_from_slice(bytes),
                Piece::Key => {
                    *last = key(rng);
                    format.write(*last, out);
                }
                Piece::Same => format.write(*last, out),
                Piece::Value => out.extend_from_slice(values.draw(rng)),
                Piece::Sized(beside) => {
                    let value = values.draw(rng);
                    out.extend_from_slice(format!("${}\r\n", value.len() + beside).as_bytes());
                    out.extend_from_slice(value);
                }
            }
        }
    }
}

fn split(argument: &[u8]) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let (mut from, mut at) = (0, 0);
    while at < argument.len() {
        let (part, len) = if argument[at..].starts_with(b"__key__") {
            (Part::Key, 7)
        } else if argument[at..].starts_with(b"__same__") {
            (Part::Same, 8)
        } else if argument[at..].starts_with(b"__data__") {
            (Part::Value, 8)
        } else {
            at += 1;
            continue;
        };
        if from < at {
            parts.push(Part::Text(&argument[from..at]));
        }
        parts.push(part);
        at += len;
        from = at;
    }
    if from < argument.len() {
        parts.push(Part::Text(&argument[from..]));
    }
    parts
}

/// The arguments of `--command`: a preset's name, or a line split at blanks, with single or double quotes.
///
/// # Errors
/// An empty line, an open quote, a preset with a count out of bounds.
pub fn arguments(line: &str) -> Result<Vec<Vec<u8>>, String> {
    if let Some(preset) = preset(line)? {
        return Ok(preset);
    }
    let mut arguments = Vec::new();
    let mut current: Option<Vec<u8>> = None;
    let mut quote = None;
    for byte in line.bytes() {
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (None, b'"' | b'\'') => {
                quote = Some(byte);
                current.get_or_insert_default();
            }
            (None, b' ' | b'\t') => arguments.extend(current.take()),
            _ => current.get_or_insert_default().push(byte),
        }
    }
    if quote.is_some() {
        return Err(format!("--command {line}: a quote is not closed"));
    }
    arguments.extend(current);
    if arguments.is_empty() {
        return Err("--command: the line is empty".into());
    }
    Ok(arguments)
}

fn preset(line: &str) -> Result<Option<Vec<Vec<u8>>>, String> {
    let name = line.trim_end_matches(|character: char| character.is_ascii_digit());
    let count = &line[name.len()..];
    let (each, counted): (&[&str], bool) = match name {
        "get" | "incr" => (&["__key__"], false),
        "set" => (&["__key__", "__data__"], false),
        "mset" => (&["__key__", "__data__"], true),
        "mget" | "del" => (&["__key__"], true),
        _ => return Ok(None),
    };
    let times = match (counted, count) {
        (false, "") => 1,
        (true, _) => count.parse().ok().filter(|count| (1..=10_000).contains(count)).ok_or_else(|| {
            format!("--command {line}: accepted are {name}1 to {name}10000, or a whole line with __key__")
        })?,
        (false, _) => return Err(format!("--command {line}: {name} takes no number")),
    };
    let mut arguments = vec![name.as_bytes().to_vec()];
    for _ in 0..times {
        arguments.extend(each.iter().map(|part| part.as_bytes().to_vec()));
    }
    Ok(Some(arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(line: &str, size: ValueSize) -> Result<String, String> {
        let keys = KeyFormat { prefix: b"kv_".to_vec(), digits: 4 };
        let template = Template::new(&arguments(line)?, &keys, size)?;
        let mut out = Vec::new();
        let mut next = 6;
        let mut key = |_: &mut Rng| {
            next += 1;
            next
        };
        template.write(&keys, &Values::new(size, 1), &mut Rng::new(1, 0), &mut key, &mut 0, &mut out);
        Ok(String::from_utf8(out).unwrap())
    }

    const FIVE: ValueSize = ValueSize { min: 5, max: 5 };

    #[test]
    fn presets_and_lines() {
        assert_eq!(encode("get", FIVE).unwrap(), "*2\r\n$3\r\nget\r\n$7\r\nkv_0007\r\n");
        let mget = "*3\r\n$4\r\nmget\r\n$7\r\nkv_0007\r\n$7\r\nkv_0008\r\n";
        assert_eq!(encode("mget2", FIVE).unwrap(), mget);
        let line = "*3\r\n$4\r\nHGET\r\n$12\r\nh:{kv_0007}:\r\n$3\r\na b\r\n";
        assert_eq!(encode("HGET  h:{__key__}: 'a b'", FIVE).unwrap(), line);
        let again = "*4\r\n$4\r\nZADD\r\n$1\r\nz\r\n$7\r\nkv_0007\r\n$9\r\nm:kv_0007\r\n";
        assert_eq!(encode("ZADD z __key__ m:__same__", FIVE).unwrap(), again);
        assert_eq!(encode("ECHO \"\"", FIVE).unwrap(), "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n");
        let set = encode("set", FIVE).unwrap();
        assert!(set.starts_with("*3\r\n$3\r\nset\r\n$7\r\nkv_0007\r\n$5\r\n") && set.len() == 37, "{set}");
    }

    #[test]
    fn values_of_many_sizes() {
        let keys = KeyFormat { prefix: b"k".to_vec(), digits: 1 };
        let size = ValueSize { min: 0, max: 300 };
        let template = Template::new(&arguments("set __key__ __data__").unwrap(), &keys, size).unwrap();
        let values = Values::new(size, 1);
        let mut rng = Rng::new(1, 0);
        let mut seen = (usize::MAX, 0);
        for _ in 0..5000 {
            let mut out = Vec::new();
            template.write(&keys, &values, &mut rng, |_| 3, &mut 0, &mut out);
            let text = String::from_utf8(out).unwrap();
            let rest = text.strip_prefix("*3\r\n$3\r\nset\r\n$2\r\nk3\r\n$").unwrap();
            let (length, value) = rest.split_once("\r\n").unwrap();
            let length: usize = length.parse().unwrap();
            assert_eq!(value.len(), length + 2);
            seen = (seen.0.min(length), seen.1.max(length));
        }
        assert_eq!(seen, (0, 300));
    }

    #[test]
    fn keys_are_padded() {
        let format = KeyFormat { prefix: b"kv_".to_vec(), digits: 6 };
        for (number, expected) in [(0, "kv_000000"), (42, "kv_000042"), (999_999, "kv_999999")] {
            let mut out = Vec::new();
            format.write(number, &mut out);
            assert_eq!(out, expected.as_bytes());
        }
    }

    #[test]
    fn refuses_bad_lines() {
        for (line, part) in [
            ("", "empty"),
            ("   ", "empty"),
            ("SET 'a", "quote"),
            ("mset", "mset1 to mset10000"),
            ("mset0", "mset1 to mset10000"),
            ("get5", "takes no number"),
        ] {
            let error = encode(line, FIVE).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
        let error = encode("SET k x__data__", ValueSize { min: 1, max: 2 }).unwrap_err();
        assert!(error.contains("__data__"), "{error}");
    }
}
