//! The manifest of a folder of append-only files.
//!
//! ```text
//! file appendonly.aof.2.base.rdb seq 2 type b
//! file appendonly.aof.1.incr.aof seq 1 type h
//! file appendonly.aof.2.incr.aof seq 2 type i startoffset 0
//! ```
//!
//! `b` is the base, `i` are the files after it, and `h` are files that are not needed any more.

use std::fmt;

/// A file that a manifest names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name in the manifest's folder: never a path.
    pub name: String,
    /// Its number.
    pub sequence: u64,
}

/// The files of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The file that holds all keys of one moment.
    pub base: Option<File>,
    /// The files with the commands after that moment, in their order.
    pub increments: Vec<File>,
}

/// A malformed line of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    /// The line, from 1 on.
    pub line: usize,
    /// The fault of the line.
    pub reason: &'static str,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of the manifest: {}", self.line, self.reason)
    }
}

impl std::error::Error for ManifestError {}

impl Manifest {
    /// Reads a manifest. It ignores further words about a file, which newer servers may write.
    ///
    /// # Errors
    ///
    /// A line is malformed, or there is none.
    pub fn parse(text: &[u8]) -> Result<Self, ManifestError> {
        let mut manifest = Manifest::default();
        let text = std::str::from_utf8(text).map_err(|_| ManifestError { line: 1, reason: "it is no text" })?;
        if text.is_empty() {
            return Err(ManifestError { line: 1, reason: "it is empty" });
        }
        for (at, line) in text.lines().enumerate() {
            if !line.starts_with('#') {
                manifest.line(line).map_err(|reason| ManifestError { line: at + 1, reason })?;
            }
        }
        Ok(manifest)
    }

    /// All files that are needed, in their order.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &File> {
        let files: Vec<&File> = self.base.iter().chain(&self.increments).collect();
        files.into_iter()
    }

    fn line(&mut self, line: &str) -> Result<(), &'static str> {
        const FORMAT: &str = "it is not 'file NAME seq NUMBER type TYPE'";
        let words = words(line).ok_or(FORMAT)?;
        if words.len() < 6 || words.len() % 2 == 1 {
            return Err(FORMAT);
        }
        let value =
            |name: &str| words.chunks_exact(2).find(|pair| pair[0].eq_ignore_ascii_case(name)).map(|pair| &pair[1]);
        let (name, sequence, kind) =
            (value("file").ok_or(FORMAT)?, value("seq").ok_or(FORMAT)?, value("type").ok_or(FORMAT)?);
        if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\\', '\0']) {
            return Err("it names a file outside of its folder");
        }
        let sequence = sequence.parse().ok().filter(|&sequence| sequence > 0).ok_or(FORMAT)?;
        let file = File { name: name.clone(), sequence };
        match kind.as_str() {
            "b" if self.base.is_some() => return Err("it names a second base"),
            "b" => self.base = Some(file),
            "i" if self.increments.last().is_some_and(|last| last.sequence >= sequence) => {
                return Err("the sequence numbers of its files do not increase");
            }
            "i" => self.increments.push(file),
            "h" => {}
            _ => return Err("the type of a file is not b, i or h"),
        }
        Ok(())
    }
}

/// The words of a line; one in quotation marks may hold spaces and escapes. None if a quotation has no end.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let (word, after) = if let Some(quoted) = rest.strip_prefix('"') {
            quotation(quoted)?
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            (rest[..end].to_owned(), &rest[end..])
        };
        words.push(word);
        if after.starts_with(|next: char| !next.is_whitespace()) {
            return None;
        }
        rest = after.trim_start();
    }
    Some(words)
}

/// The text before the closing mark, and the text after it.
fn quotation(text: &str) -> Option<(String, &str)> {
    let mut bytes = Vec::new();
    let mut rest = text.chars();
    loop {
        match rest.next()? {
            '"' => return Some((String::from_utf8(bytes).ok()?, rest.as_str())),
            '\\' => match rest.next()? {
                'n' => bytes.push(b'\n'),
                'r' => bytes.push(b'\r'),
                't' => bytes.push(b'\t'),
                'a' => bytes.push(7),
                'b' => bytes.push(8),
                'x' => {
                    let (high, low) = (rest.next()?.to_digit(16)?, rest.next()?.to_digit(16)?);
                    bytes.push((high << 4 | low) as u8);
                }
                other => bytes.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
            },
            other => bytes.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, sequence: u64) -> File {
        File { name: name.to_owned(), sequence }
    }

    #[test]
    fn manifests_of_redis_are_read() {
        let text = b"# a comment\nfile a.2.base.rdb seq 2 type b\nfile a.1.incr.aof seq 1 type h\n\
            file \"a b\\x41.aof\" seq 2 type i\nfile a.3.incr.aof seq 3 type i startoffset 17 endoffset 20\n";
        let manifest = Manifest::parse(text).unwrap();
        assert_eq!(manifest.base, Some(file("a.2.base.rdb", 2)));
        assert_eq!(manifest.increments, [file("a bA.aof", 2), file("a.3.incr.aof", 3)]);
        assert_eq!(manifest.files().map(|file| file.sequence).collect::<Vec<_>>(), [2, 2, 3]);
    }

    #[test]
    fn lines_that_make_no_sense_are_named() {
        for (text, line) in [
            (&b""[..], 1),
            (b"file a seq 1 type b\n\n", 2),
            (b"file a seq 1 type\n", 1),
            (b"file a seq 0 type b\n", 1),
            (b"file a seq x type b\n", 1),
            (b"file ../a seq 1 type b\n", 1),
            (b"file .. seq 1 type i\n", 1),
            (b"file a seq 1 type q\n", 1),
            (b"file a seq 1 type b\nfile b seq 1 type b\n", 2),
            (b"file a seq 2 type i\nfile b seq 2 type i\n", 2),
            (b"file \"a seq 1 type b\n", 1),
            (b"\xff\n", 1),
        ] {
            let error = Manifest::parse(text).unwrap_err();
            assert_eq!(error.line, line, "{}: {error}", text.escape_ascii());
        }
    }
}
