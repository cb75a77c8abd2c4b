//! The values of all settings, and reading one setting's value by its rules.

use super::kind::{Kind, Refusal, Value};
use super::row::{Acts, Row};
use super::table::{self, Id};

/// A value for every setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values {
    by_id: Vec<Value>,
}

impl Default for Values {
    fn default() -> Self {
        Values { by_id: table::rows().map(|(_, row)| default_of(row)).collect() }
    }
}

impl Values {
    /// The value of the setting.
    pub fn get(&self, id: Id) -> &Value {
        // An `Id` comes from the table only, and there is a value for every row of it.
        &self.by_id[id.0]
    }

    /// Sets a value that was read for this setting.
    pub fn put(&mut self, id: Id, value: Value) {
        if let Some(slot) = self.by_id.get_mut(id.0) {
            *slot = value;
        }
    }

    /// Reads the words of a setting, given its present value.
    ///
    /// # Errors
    ///
    /// The reason, in Redis's words.
    pub fn read(&self, id: Id, row: &Row, words: &[&[u8]]) -> Result<Value, Refusal> {
        let value = row.kind.parse(Some(self.get(id)), words)?;
        if let Some(check) = row.check {
            check(&row.kind.show(&value))?;
        }
        match (value, row.clamp) {
            (Value::Number(number), Some((min, max))) => Ok(Value::Number(number.clamp(min, max))),
            (value, _) => Ok(value),
        }
    }

    /// Sets a setting to a value that the process has found, such as the absolute path of `dir`.
    ///
    /// # Errors
    ///
    /// The reason, in Redis's words.
    pub fn set(&mut self, name: &str, text: &[u8]) -> Result<(), Refusal> {
        let (id, row) = table::find(name.as_bytes()).ok_or("no such setting")?;
        let value = self.read(id, row, &words_of(row.kind, text))?;
        self.put(id, value);
        Ok(())
    }

    /// The value as `CONFIG GET` shows it.
    pub fn show(&self, id: Id, row: &Row) -> Vec<u8> {
        row.kind.show(self.get(id))
    }

    /// Name (as asked for) and value of every setting that one of the patterns matches (`CONFIG GET`), sorted by name.
    ///
    /// A pattern without `*`, `?`, `[` is a name in any case of letters, and matches hidden settings too.
    pub fn matching(&self, patterns: &[&[u8]]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut add = |name: &[u8], id: Id, row: &Row| {
            let at = found.binary_search_by(|(known, _)| {
                known.iter().map(u8::to_ascii_lowercase).cmp(name.iter().map(u8::to_ascii_lowercase))
            });
            if let Err(at) = at {
                found.insert(at, (name.to_vec(), self.show(id, row)));
            }
        };
        for pattern in patterns {
            if !pattern.iter().any(|byte| matches!(byte, b'*' | b'?' | b'[')) {
                if let Some((id, row)) = table::find(pattern) {
                    add(pattern, id, row);
                }
                continue;
            }
            for (name, id, row) in table::names() {
                if !row.hidden && object::glob::matches_nocase(pattern, name.as_bytes()) {
                    add(name.as_bytes(), id, row);
                }
            }
        }
        found
    }

    /// The reason why this version does not take the value, if it would promise what is not built.
    pub fn refusal(row: &Row, value: &Value) -> Option<&'static str> {
        match row.acts {
            Acts::Refused(reason) if *value != default_of(row) => Some(reason),
            _ => None,
        }
    }

    /// One sentence for every setting that was changed from its default but has no effect yet.
    pub fn without_effect(&self) -> Vec<String> {
        table::rows().filter_map(|(id, row)| self.no_effect(id, row)).collect()
    }

    /// The sentence for one setting; `None` if it has its effect, or its lack costs nothing.
    pub(super) fn no_effect(&self, id: Id, row: &Row) -> Option<String> {
        let Acts::No(reason) = row.acts else {
            return None;
        };
        let shown = self.show(id, row);
        let quiet = row.harmless.is_some_and(|harmless| harmless.as_bytes() == shown);
        if quiet || *self.get(id) == default_of(row) {
            return None;
        }
        let shown = if row.sensitive { "(redacted)".into() } else { String::from_utf8_lossy(&shown).into_owned() };
        Some(format!("setting '{}' has no effect at '{shown}': {reason}", row.name))
    }
}

/// The default of a setting.
pub fn default_of(row: &Row) -> Value {
    let words: Vec<&[u8]> = match row.kind.takes_words() {
        true => row.default.split(' ').map(str::as_bytes).collect(),
        false => vec![row.default.as_bytes()],
    };
    // A test reads every default, so the alternative is never taken.
    row.kind.parse(None, &words).unwrap_or(Value::Text(Vec::new()))
}

/// Splits the single text that `CONFIG SET` gives for a setting of several words.
pub fn words_of(kind: Kind, text: &[u8]) -> Vec<&[u8]> {
    match (kind.takes_words(), text) {
        (true, b"") => Vec::new(),
        (true, text) => text.split(|byte| *byte == b' ').collect(),
        (false, text) => vec![text],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(values: &Values, patterns: &[&str]) -> Vec<(String, String)> {
        let patterns: Vec<_> = patterns.iter().map(|pattern| pattern.as_bytes()).collect();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        values.matching(&patterns).into_iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn every_default_is_read_by_its_own_rules() {
        for (id, row) in table::rows() {
            let values = Values::default();
            let text = values.show(id, row);
            let mut words = words_of(row.kind, &text);
            if matches!(row.kind, Kind::Special(super::super::special::Special::ReplicaOf)) {
                words = vec![b"no", b"one"];
            }
            let read = values.read(id, row, &words);
            assert_eq!(read.as_ref(), Ok(values.get(id)), "{}", row.name);
            if let Some(harmless) = row.harmless {
                let read = values.read(id, row, &words_of(row.kind, harmless.as_bytes())).unwrap();
                assert_ne!(&read, values.get(id), "{}: this is the default", row.name);
            }
        }
        assert!(Values::default().without_effect().is_empty());
    }

    #[test]
    fn get_finds_names_aliases_and_patterns_once() {
        let values = Values::default();
        assert_eq!(shown(&values, &["SAVE"]), [("SAVE".into(), "3600 1 300 100 60 10000".into())]);
        let found = shown(&values, &["maxmemory", "maxmemory*", "bind", "*of"]);
        let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "bind",
                "maxmemory",
                "maxmemory-clients",
                "maxmemory-eviction-tenacity",
                "maxmemory-policy",
                "maxmemory-samples",
                "replicaof",
                "slaveof"
            ]
        );
        assert!(shown(&values, &["*"]).iter().all(|(name, _)| name != "key-load-delay"));
        assert_eq!(shown(&values, &["key-load-delay"]).len(), 1);
        assert!(shown(&values, &["nothing-of-this-name"]).is_empty());
        let limits = shown(&values, &["client-output-buffer-limit"]);
        assert_eq!(limits[0].1, "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60");
    }

    #[test]
    fn what_does_nothing_is_told() {
        let mut values = Values::default();
        for (name, text) in [("rdb-version-check", "relaxed"), ("save", ""), ("masterauth", "secret")] {
            let (id, row) = table::find(name.as_bytes()).unwrap();
            let value = values.read(id, row, &words_of(row.kind, text.as_bytes())).unwrap();
            values.put(id, value);
        }
        assert_eq!(
            values.without_effect(),
            [
                "setting 'masterauth' has no effect at '(redacted)': replication is not built yet",
                "setting 'rdb-version-check' has no effect at 'relaxed': a file of a newer version is refused"
            ]
        );
    }
}
