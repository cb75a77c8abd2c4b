//! Reading configuration: files with `include`, standard input, and the options of the command line.
//!
//! The syntax and the texts of errors are Redis's; an error also names the file and the values that the setting takes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use resp::split_args;

use super::describe::describe;
use super::kind::Value;
use super::line::trim;
use super::login::{self, Password};
use super::renames::Renames;
use super::row::Row;
use super::special::Special;
use super::table::{self, Id};
use super::values::Values;
use super::{Kind, arguments::Arguments};

/// Depth of files inside files: a file that includes itself ends here.
const INCLUDE_DEPTH_MAX: usize = 16;
/// Most files read in all, against a file that includes itself twice.
const FILES_MAX: usize = 1000;

/// Names that Redis no longer knows but still accepts with one value, and ignores.
const DEPRECATED: [&str; 3] = ["list-max-ziplist-entries", "list-max-ziplist-value", "lua-replicate-commands"];

/// Access to files, handed in.
pub trait Files {
    /// The content of a file.
    ///
    /// # Errors
    ///
    /// The system's error.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The files that a glob pattern matches, sorted.
    ///
    /// # Errors
    ///
    /// The system's error. A pattern without a match is no error.
    fn matching(&self, pattern: &Path) -> io::Result<Vec<PathBuf>>;
}

/// A configuration as it was read.
#[derive(Debug, Default)]
pub struct Loaded {
    /// All settings.
    pub values: Values,
    /// The file that was named, if one was: where `CONFIG REWRITE` writes.
    pub file: Option<PathBuf>,
    /// `rename-command`: old and new name; an empty new name removes the command.
    pub(super) renames: Vec<(Vec<u8>, Vec<u8>)>,
    /// The line of each of them.
    rename_places: Vec<Place>,
    /// SHA-256 of the password, if a `user` line has no more of it.
    pub hash: Option<[u8; 32]>,
    /// Other `user` lines, without their first word, and where they stand.
    users: Vec<(Vec<Vec<u8>>, Place)>,
    /// Settings that the file or the command line names.
    pub named: BTreeSet<Id>,
    /// A `user` line says as much as `requirepass` can.
    has_login: bool,
    /// Warnings for the user before the server runs.
    pub warnings: Vec<String>,
}

impl Loaded {
    /// Hands the name and the rules of each `user` line out that says more than `requirepass` can.
    ///
    /// # Errors
    /// The first line that is refused.
    pub fn users(&self, mut add: impl FnMut(&[u8], &[Vec<u8>]) -> Result<(), String>) -> Result<(), LoadError> {
        for (words, place) in &self.users {
            let [name, rules @ ..] = &words[..] else { continue };
            if self.has_login && name == b"default" {
                return Err(at(place.clone(), TWICE));
            }
            add(name, rules).map_err(|why| at(place.clone(), &why))?;
        }
        Ok(())
    }

    /// The commands under their new names; `exists` and `is_known` as for [`Renames::new`].
    ///
    /// # Errors
    ///
    /// The first line that renames a command that does not exist, or to a name that exists.
    pub fn renames(
        &self,
        exists: impl Fn(&[u8]) -> bool,
        is_known: impl Fn(&[u8]) -> bool,
    ) -> Result<Renames, LoadError> {
        Renames::new(&self.renames, exists, is_known).map_err(|(index, why)| {
            let place = self.rename_places.get(index).cloned();
            LoadError { place, message: why.to_owned(), hint: None }
        })
    }
}

/// The source of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    File(PathBuf),
    Stdin,
    CommandLine,
}

#[derive(Clone, Debug)]
struct Place {
    source: Rc<Source>,
    /// From 1.
    line: usize,
    text: Vec<u8>,
}

/// A configuration that cannot be used. Its text is the whole message to the user.
#[derive(Debug)]
pub struct LoadError {
    place: Option<Place>,
    message: String,
    /// The values that the setting takes.
    hint: Option<String>,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n*** FATAL CONFIG FILE ERROR (Holdfast {}) ***", env!("CARGO_PKG_VERSION"))?;
        if let Some(place) = &self.place {
            let line = place.line;
            match &*place.source {
                Source::File(path) => writeln!(f, "Reading the configuration file {}, at line {line}", path.display())?,
                Source::Stdin => writeln!(f, "Reading the configuration from standard input, at line {line}")?,
                Source::CommandLine => writeln!(f, "Reading the configuration from the command line")?,
            }
            writeln!(f, ">>> '{}'", String::from_utf8_lossy(&place.text))?;
        }
        write!(f, "{}", self.message)?;
        self.hint.iter().try_for_each(|hint| write!(f, "\n{hint}"))
    }
}

impl std::error::Error for LoadError {}

/// Reads everything that the arguments name: the file, standard input if asked for, then the options. The last value
/// holds.
///
/// # Errors
///
/// The first line that cannot be used, or a setting that would promise what this version does not do.
pub fn load(
    arguments: &Arguments,
    files: &dyn Files,
    stdin: &mut dyn FnMut() -> io::Result<Vec<u8>>,
) -> Result<Loaded, LoadError> {
    let mut loader =
        Loader { files, loaded: Loaded::default(), origins: BTreeMap::new(), login: None, save_seen: false, read: 0 };
    if let Some(path) = &arguments.file {
        loader.loaded.file = Some(path.clone());
        loader.named(path, 0)?;
    }
    if arguments.stdin {
        let text = stdin().map_err(|error| whole(format!("can't read standard input: {error}")))?;
        loader.text(&text, Source::Stdin, 0)?;
    }
    loader.text(&arguments.options, Source::CommandLine, 0)?;
    loader.finish()
}

/// An error about no line in particular.
fn whole(message: String) -> LoadError {
    LoadError { place: None, message, hint: None }
}

struct Loader<'a> {
    files: &'a dyn Files,
    loaded: Loaded,
    /// The line that last set a setting.
    origins: BTreeMap<Id, Place>,
    /// The password of a `user` line, if there is such a line.
    login: Option<Option<Password>>,
    /// The first `save` replaces the defaults, further ones add to it.
    save_seen: bool,
    /// Files read.
    read: usize,
}

impl Loader<'_> {
    /// Reads a file, or all files that a pattern matches.
    fn named(&mut self, path: &Path, depth: usize) -> Result<(), LoadError> {
        let text = path.as_os_str().as_encoded_bytes();
        if !text.iter().any(|byte| matches!(byte, b'*' | b'?' | b'[')) {
            return self.file(path, depth);
        }
        let found = self.files.matching(path).map_err(|error| cannot_open(path, &error))?;
        found.iter().try_for_each(|path| self.file(path, depth))
    }

    fn file(&mut self, path: &Path, depth: usize) -> Result<(), LoadError> {
        self.read += 1;
        if depth > INCLUDE_DEPTH_MAX || self.read > FILES_MAX {
            return Err(whole(format!("too many included files: does '{}' include itself?", path.display())));
        }
        let text = self.files.read(path).map_err(|error| cannot_open(path, &error))?;
        self.text(&text, Source::File(path.to_owned()), depth)
    }

    fn text(&mut self, text: &[u8], source: Source, depth: usize) -> Result<(), LoadError> {
        let source = Rc::new(source);
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = trim(line);
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let place = Place { source: Rc::clone(&source), line: index + 1, text: shown(line) };
            self.line(line, place, depth)?;
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8], place: Place, depth: usize) -> Result<(), LoadError> {
        let Ok(words) = split_args(line) else {
            return Err(at(place, "Unbalanced quotes in configuration line"));
        };
        let Some((name, words)) = words.split_first() else {
            return Ok(());
        };
        let name = name.to_ascii_lowercase();
        if let Some((id, row)) = table::find(&name) {
            return self.setting(id, row, words, place);
        }
        match (name.as_slice(), words) {
            (b"include", [path]) => self.named(Path::new(OsStr::from_bytes(path)), depth + 1),
            (b"rename-command", [from, to]) => {
                self.loaded.renames.push((from.clone(), to.clone()));
                self.loaded.rename_places.push(place);
                Ok(())
            }
            (b"user", [_, ..]) => {
                match login::read(words) {
                    Some(login) if self.login.is_none() => self.login = Some(login),
                    Some(_) => {
                        return Err(at(place, TWICE));
                    }
                    None => self.loaded.users.push((words.to_vec(), place)),
                }
                Ok(())
            }
            (b"loadmodule", [_, ..]) => Err(at(place, "Modules can't be loaded: Holdfast has none")),
            (b"sentinel", [_, ..]) => Err(at(place, "sentinel directive while not in sentinel mode")),
            (_, [_]) if DEPRECATED.iter().any(|known| known.as_bytes() == name) => Ok(()),
            (_, _) if name.contains(&b'.') => Err(at(place, "Module config specified, but Holdfast has no modules")),
            _ => Err(at(place, "Bad directive or wrong number of arguments")),
        }
    }

    fn setting(&mut self, id: Id, row: &Row, words: &[Vec<u8>], place: Place) -> Result<(), LoadError> {
        let refused = |place, message: &str| {
            let default = if row.default.is_empty() { "\"\"" } else { row.default };
            let hint = format!("{} takes {}; default {default}. {}", row.name, describe(row.kind), row.help);
            Err(LoadError { place: Some(place), message: message.to_owned(), hint: Some(hint) })
        };
        if !row.kind.takes_words() && words.len() != 1 {
            return refused(place, "wrong number of arguments");
        }
        // One text may hold several words: `--shutdown-on-sigterm "nosave now"`.
        let split = match words {
            [text] if row.kind.takes_words() && !text.is_empty() => match split_args(text) {
                Ok(words) => Some(words),
                Err(_) => return refused(place, "Unbalanced quotes in configuration line"),
            },
            _ => None,
        };
        let words: Vec<&[u8]> = split.as_deref().unwrap_or(words).iter().map(Vec::as_slice).collect();
        let mut value = match self.loaded.values.read(id, row, &words) {
            Ok(value) => value,
            Err(refusal) => return refused(place, &refusal),
        };
        if matches!(row.kind, Kind::Special(Special::Save)) {
            if let (true, Value::Words(old), Value::Words(new)) = (self.save_seen, self.loaded.values.get(id), &value)
                && !new.is_empty()
            {
                value = Value::Words([old.as_slice(), new].concat());
            }
            self.save_seen = true;
        }
        self.loaded.values.put(id, value);
        self.origins.insert(id, place);
        Ok(())
    }

    /// A file for Redis that says `appendonly no` relies on snapshots to keep the data. On the command line alone
    /// `appendonly no` is taken at its word: the server is a cache, unless something says `save`.
    fn choose_durability(&mut self) {
        let (Some((log, _)), Some((save, _))) = (table::find(b"appendonly"), table::find(b"save")) else { return };
        let on_command_line = self.origins.get(&log).is_some_and(|place| *place.source == Source::CommandLine);
        let is_off = matches!(self.loaded.values.get(log), Value::Bool(false));
        if is_off && on_command_line && !self.origins.contains_key(&save) {
            self.loaded.values.put(save, Value::Words(Vec::new()));
        }
    }

    /// As in Redis, a `user` line holds over `requirepass`, unless that is on the command line, which comes last.
    fn take_login(&mut self) {
        let Some((id, _)) = table::find(b"requirepass") else { return };
        let on_command_line = self.origins.get(&id).is_some_and(|place| *place.source == Source::CommandLine);
        self.loaded.has_login = self.login.is_some();
        let Some(login) = self.login.take().filter(|_| !on_command_line) else { return };
        let known = match self.loaded.values.get(id) {
            Value::Text(text) => text.clone(),
            _ => Vec::new(),
        };
        self.loaded.named.insert(id);
        let (text, hash) = match login {
            None => (Vec::new(), None),
            Some(Password::Plain(text)) => (text, None),
            // Redis writes both: the password, and its hash.
            Some(password) if !known.is_empty() && password.is(&known) => (known, None),
            Some(Password::Hash(hash)) => (Vec::new(), Some(hash)),
        };
        self.loaded.values.put(id, Value::Text(text));
        self.loaded.hash = hash;
    }

    /// Checks that need the whole configuration.
    fn finish(mut self) -> Result<Loaded, LoadError> {
        for (id, row) in table::rows() {
            if let Some(reason) = Values::refusal(row, self.loaded.values.get(id)) {
                let message = format!("'{}' can't be set to that: {reason}", row.name);
                return Err(LoadError { place: self.origins.remove(&id), message, hint: None });
            }
        }
        self.loaded.named.extend(self.origins.keys());
        self.choose_durability();
        self.take_login();
        self.loaded.warnings = self.loaded.values.without_effect();
        Ok(self.loaded)
    }
}

/// As Redis says it.
const TWICE: &str =
    "Error in user declaration 'default': Duplicate user found. A user can only be defined once in config files";

/// A line as errors show it, without the passwords that it holds. Of a directive that does not exist only the name is
/// shown: it may be a slip in that of a password. So is that of a line whose quotes are not balanced.
fn shown(line: &[u8]) -> Vec<u8> {
    let first = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    let words = split_args(line).unwrap_or_default();
    let name = words.first().map_or_else(|| first.to_ascii_lowercase(), |name| name.to_ascii_lowercase());
    let is_secret = match (table::find(&name), name.as_slice()) {
        (Some((_, row)), _) => row.sensitive || words.is_empty(),
        (None, b"user") => {
            let words: Vec<_> = words.iter().skip(1).map(|word| acl::without_passwords(word)).collect();
            return [b"user ".as_slice(), &words.join(&b' ')].concat();
        }
        (None, name) => !KNOWN.contains(&name),
    };
    if is_secret && first.len() < line.len() { [first, b" (redacted)"].concat() } else { line.to_vec() }
}

/// First words of lines that hold no password.
const KNOWN: [&[u8]; 4] = [b"include", b"rename-command", b"loadmodule", b"sentinel"];

fn at(place: Place, message: &str) -> LoadError {
    LoadError { place: Some(place), message: message.to_owned(), hint: None }
}

fn cannot_open(path: &Path, error: &io::Error) -> LoadError {
    whole(format!("Fatal error, can't open config file '{}': {error}", path.display()))
}

#[cfg(test)]
mod tests;
