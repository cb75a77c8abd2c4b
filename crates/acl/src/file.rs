//! Users in files: ACL SAVE and LOAD, and `user` lines of a configuration file.

use std::collections::BTreeMap;

use crate::error::{BadRule, has_blank};
use crate::foreign::WithoutEffect;
use crate::merge::merged;
use crate::secret::without_passwords;
use crate::user::{User, UserNumber};
use crate::users::{Change, RuleBook, Users};

/// The faults of a file of users, in one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileError(Vec<u8>);

impl FileError {
    /// The text for the log.
    pub fn text(&self) -> &[u8] {
        &self.0
    }

    /// The reply to ACL LOAD, with its code.
    pub fn reply(&self) -> Vec<u8> {
        [b"ERR ", &self.0[..]].concat()
    }
}

/// The effect of a file of users.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Loaded {
    /// The users that have changed.
    pub changes: Vec<Change>,
    /// Rules without an effect: only other servers have what they name.
    pub without_effect: Vec<String>,
}

impl Users {
    /// The file that ACL SAVE writes: a line for each user.
    pub fn file(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for user in self.iter() {
            out.extend(user.file_line());
            out.push(b'\n');
        }
        out
    }

    /// ACL LOAD: replaces all users by those of a file, or none if anything in it is wrong. `file` is its name, for
    /// errors.
    ///
    /// # Errors
    ///
    /// The file is wrong: the error names every wrong line and its fault. No user has changed.
    pub fn load(&mut self, book: RuleBook<'_>, file: &str, text: &[u8]) -> Result<Loaded, FileError> {
        let (users, errors, ignored) = Default::default();
        let mut reading = Reading { book, file, users, errors, ignored };
        for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            reading.line(number, line);
        }
        let Reading { users, mut errors, ignored, .. } = reading;
        if errors.is_empty() {
            return Ok(Loaded { changes: self.replace_all(book.catalogue, users), without_effect: ignored });
        }
        errors.extend_from_slice(
            b"WARNING: ACL errors detected, no change to the previously active ACL rules was performed",
        );
        Err(FileError(errors))
    }
}

struct Reading<'a> {
    book: RuleBook<'a>,
    file: &'a str,
    users: BTreeMap<Vec<u8>, User>,
    errors: Vec<u8>,
    ignored: WithoutEffect,
}

impl Reading<'_> {
    fn line(&mut self, number: usize, line: &[u8]) {
        let line = trimmed(line);
        if line.is_empty() || line.starts_with(b"#") {
            return;
        }
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let [b"user", name, rules @ ..] = &words[..] else {
            return self
                .say(&format!("{}:{number} should start with user keyword followed by the username. ", self.file));
        };
        if has_blank(name) {
            let name = without_passwords(name);
            let name = String::from_utf8_lossy(&name);
            return self.say(&format!("'{}:{number}: username '{name}' contains invalid characters. ", self.file));
        }
        if self.users.contains_key(*name) {
            let name = String::from_utf8_lossy(name);
            return self.say(&format!("WARNING: Duplicate user '{name}' found on line {number}. "));
        }
        let mut user = User::new(name, UserNumber::DEFAULT, self.book.all_channels);
        self.rules(number, &mut user, rules);
        self.users.insert(name.to_vec(), user);
    }

    /// Names all unknown commands. Of other errors it names only the first of a line, without the rule, which may be a
    /// password.
    fn rules(&mut self, number: usize, user: &mut User, rules: &[&[u8]]) {
        let rules = merged(rules).unwrap_or_else(|(_, before)| {
            self.say(&format!("{}:{number}: Unmatched parenthesis in selector definition.", self.file));
            before
        });
        let mut is_told = false;
        for rule in rules {
            let rule = trimmed(&rule);
            let RuleBook { catalogue, all_channels } = self.book;
            let Err(bad) = user.apply_of_file(catalogue, all_channels, rule, &mut self.ignored) else { continue };
            if bad == BadRule::Unknown {
                let rule = without_passwords(rule);
                let rule = String::from_utf8_lossy(&rule);
                self.say(&format!("{}:{number}: Error in applying operation '{rule}': {bad}. ", self.file));
            } else if !is_told {
                is_told = true;
                self.say(&format!("{}:{number}: {bad}. ", self.file));
            }
        }
    }

    fn say(&mut self, error: &str) {
        self.errors.extend_from_slice(error.as_bytes());
    }
}

fn trimmed(mut line: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    while let [first, rest @ ..] = line
        && is_blank(first)
    {
        line = rest;
    }
    while let [rest @ .., last] = line
        && is_blank(last)
    {
        line = rest;
    }
    line
}

/// The users of a configuration file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConfiguredUsers {
    users: BTreeMap<Vec<u8>, User>,
    ignored: WithoutEffect,
}

impl ConfiguredUsers {
    /// True if there was no `user` line.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// True if a line is about this user.
    pub fn has(&self, name: &[u8]) -> bool {
        self.users.contains_key(name)
    }

    /// Rules without an effect: only other servers have what they name.
    pub fn without_effect(&self) -> &[String] {
        &self.ignored
    }

    /// Adds a line `user NAME RULE ...`, without its first word. The error names no password.
    ///
    /// # Errors
    ///
    /// The name or a rule is wrong, or the user was added before. No user was added.
    pub fn add<T: AsRef<[u8]>>(&mut self, book: RuleBook<'_>, name: &[u8], rules: &[T]) -> Result<(), String> {
        let wrong = |what: &[u8], why: &str| {
            let what = without_passwords(what);
            Err(format!("Error in user declaration '{}': {why}", String::from_utf8_lossy(&what)))
        };
        if has_blank(name) {
            return Err("Spaces not allowed in ACL usernames".to_owned());
        }
        if self.has(name) {
            return wrong(name, "Duplicate user found. A user can only be defined once in config files");
        }
        let mut user = User::new(name, UserNumber::DEFAULT, book.all_channels);
        let rules = match merged(rules) {
            Ok(rules) => rules,
            Err((at, _)) => {
                let opening = rules.get(at).map(AsRef::as_ref).unwrap_or_default();
                return wrong(opening, "Unmatched parenthesis in selector definition.");
            }
        };
        for rule in rules {
            let applied = user.apply_of_file(book.catalogue, book.all_channels, &rule, &mut self.ignored);
            if let Err(bad) = applied {
                return wrong(&rule, bad.text());
            }
        }
        self.users.insert(name.to_vec(), user);
        Ok(())
    }

    /// The users that a server begins with: these, and `default` with all rights if no line is about it.
    pub fn into_users(self, book: RuleBook<'_>) -> Users {
        let mut users = Users::new(book.catalogue);
        users.replace_all(book.catalogue, self.users);
        users
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;
    use crate::testing::catalogue;

    fn load(users: &mut Users, text: &str) -> Result<Vec<Change>, String> {
        load_with(&catalogue(), users, text).map(|loaded| loaded.changes)
    }

    fn load_with(catalogue: &Catalogue, users: &mut Users, text: &str) -> Result<Loaded, String> {
        let book = RuleBook { catalogue, all_channels: false };
        users.load(book, "/u.acl", text.as_bytes()).map_err(|e| String::from_utf8_lossy(e.text()).into_owned())
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let catalogue = catalogue();
        let book = RuleBook { catalogue: &catalogue, all_channels: false };
        let mut users = Users::new(&catalogue);
        users.set(book, b"bob", &["on", ">x", "~a*", "%R~b", "+get", "+select|0", "(%W~c &d +@hash)"]).unwrap();
        users.set(book, b"alice", &["nopass", "+@all", "-config|set"]).unwrap();
        let file = users.file();
        let mut loaded = Users::new(&catalogue);
        let changes = loaded.load(book, "", &file).unwrap().changes;
        assert_eq!(changes.len(), 2);
        assert_eq!(loaded.file(), file);
    }

    #[test]
    fn a_file_replaces_all_users_and_numbers_stay_with_names() {
        let mut users = Users::new(&catalogue());
        load(&mut users, "# a comment\n\n  user bob on\r\nuser eve on\n").unwrap();
        let bob = users.find(b"bob").unwrap().number();
        let changes = load(&mut users, "user bob on +get\nuser default on nopass +@all ~* &*").unwrap();
        assert_eq!(changes.len(), 2, "{changes:?}");
        assert_eq!(users.find(b"bob").unwrap().number(), bob);
        assert!(users.find(b"eve").is_none());
        assert!(users.find(b"default").unwrap().is_full());
        load(&mut users, "user default off").unwrap();
        assert!(!users.find(b"default").unwrap().is_on());
        load(&mut users, "").unwrap();
        assert!(users.find(b"default").unwrap().is_full(), "a file that does not speak of it means the usual one");
    }

    #[test]
    fn anything_wrong_in_a_file_leaves_all_as_it_was() {
        let mut users = Users::new(&catalogue());
        load(&mut users, "user bob on").unwrap();
        let before = users.clone();
        let end = "WARNING: ACL errors detected, no change to the previously active ACL rules was performed";
        for (text, error) in [
            ("user eve on\nusr bob", "/u.acl:2 should start with user keyword followed by the username. "),
            ("user", "/u.acl:1 should start with user keyword followed by the username. "),
            ("user a\tb on", "'/u.acl:1: username 'a\tb' contains invalid characters. "),
            ("user a on\nuser a off", "WARNING: Duplicate user 'a' found on line 2. "),
            ("user a +get (~a +set", "/u.acl:1: Unmatched parenthesis in selector definition."),
            (
                "user a +nosuch hehe hihi +@nosuch",
                "/u.acl:1: Error in applying operation '+nosuch': Unknown command or category name in ACL. \
                 /u.acl:1: Syntax error. \
                 /u.acl:1: Error in applying operation '+@nosuch': Unknown command or category name in ACL. ",
            ),
        ] {
            assert_eq!(load(&mut users, text), Err(format!("{error}{end}")), "{text}");
            assert_eq!(users, before);
        }
    }

    #[test]
    fn lines_of_a_configuration_make_users() {
        let catalogue = catalogue();
        let book = RuleBook { catalogue: &catalogue, all_channels: false };
        let mut lines = ConfiguredUsers::default();
        lines.add(book, b"bob", &["on", "(~a", "+get)"]).unwrap();
        lines.add(book, b"default", &["on", ">x", "~*", "+@all"]).unwrap();
        assert_eq!(
            lines.add(book, b"bob", &["on"]).unwrap_err(),
            "Error in user declaration 'bob': Duplicate user found. A user can only be defined once in config files"
        );
        assert_eq!(lines.add(book, b"eve", &["hehe"]).unwrap_err(), "Error in user declaration 'hehe': Syntax error");
        assert!(!lines.add(book, b"eve", &[">x", "<secret"]).unwrap_err().contains("secret"));
        let users = lines.into_users(book);
        assert_eq!(users.len(), 2);
        let default = users.find(b"default").unwrap();
        assert_eq!(default.number(), UserNumber::DEFAULT);
        assert!(default.accepts(b"x") && !default.is_full());
    }

    /// A slip in a denial would leave a right, so only names that another server has are let pass.
    #[test]
    fn rules_about_what_other_servers_have_are_kept_without_effect() {
        let catalogue = catalogue().with_foreign(|name| matches!(name, b"ft.search" | b"@search"));
        let mut users = Users::new(&catalogue);
        let file = "user bob on +@all -FT.search -@search +ft.search -get (~a -@search +ft.search)";
        let loaded = load_with(&catalogue, &mut users, file).unwrap();
        let ignored = ["-FT.search", "-@search", "+ft.search", "-@search", "+ft.search"];
        assert_eq!(loaded.without_effect, ignored.map(|rule| format!("'{rule}' of the user 'bob'")));
        let line = users.find(b"bob").unwrap().line();
        let expected =
            "user bob on sanitize-payload resetchannels +@all +ft.search -get (~a resetchannels -@all +ft.search)";
        assert_eq!(String::from_utf8_lossy(&line), expected);
        let text = users.file();
        let again = Users::from_bytes(&catalogue, &users.to_bytes()).unwrap();
        assert_eq!(again.file(), text, "other nodes take them");
        load_with(&catalogue, &mut users, &String::from_utf8_lossy(&text)).unwrap();
        assert_eq!(users.file(), text);
        for slip in ["-@serch", "-ft.serch", "-config|nosuch", "(-@serch)"] {
            assert!(load_with(&catalogue, &mut users, &format!("user bob on +@all {slip}")).is_err(), "{slip}");
        }
        let mut lines = ConfiguredUsers::default();
        let book = RuleBook { catalogue: &catalogue, all_channels: false };
        lines.add(book, b"bob", &["on", "-@search"]).unwrap();
        assert_eq!(lines.without_effect().len(), 1);
        assert!(users.set(book, b"bob", &["-@search"]).is_err(), "ACL SETUSER is as in Redis without modules");
    }

    #[test]
    fn errors_name_no_password() {
        let catalogue = catalogue();
        let mut users = Users::new(&catalogue);
        for text in [
            "user bob\ton\t>secret",
            "user bob (~a >secret)",
            "user bob +nosuch\t>secret",
            "user bob (+nosuch >secret)",
        ] {
            let error = load_with(&catalogue, &mut users, text).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
        let book = RuleBook { catalogue: &catalogue, all_channels: false };
        for rules in [&["(~a >secret)"][..], &["(~a", ">secret"], &["~a >secret"], &["!secret"]] {
            let error = ConfiguredUsers::default().add(book, b"bob", rules).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
