//! The password of the user `default`, and `user` lines of a configuration that say no more than `requirepass` does.
//!
//! Redis writes such a line whenever it rewrites its file, so its files have one even without any use of ACLs.

use sha2::{Digest, Sha256};

/// The password as a client has to know it.
#[derive(Clone, PartialEq, Eq)]
pub enum Password {
    /// The password itself.
    Plain(Vec<u8>),
    /// Its SHA-256.
    Hash([u8; 32]),
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(redacted)")
    }
}

impl Password {
    /// True if a client has given this password. The time does not depend on where the first difference is.
    pub fn is(&self, given: &[u8]) -> bool {
        let same =
            |a: &[u8], b: &[u8]| a.len() == b.len() && a.iter().zip(b).fold(0, |diff, (x, y)| diff | (x ^ y)) == 0;
        match self {
            Password::Plain(wanted) => same(wanted, given),
            Password::Hash(wanted) => same(wanted, &Sha256::digest(given)),
        }
    }

    /// True if both let in the same clients.
    fn matches(&self, other: &Password) -> bool {
        match other {
            Password::Plain(given) => self.is(given),
            Password::Hash(_) => self == other,
        }
    }
}

/// A hash in hexadecimal digits.
pub(super) fn digits_of(hash: &[u8; 32]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The content of a `user` line so far.
#[derive(Default)]
struct User {
    on: bool,
    /// `nopass`
    open: bool,
    passwords: Vec<Password>,
    keys: bool,
    channels: bool,
    commands: bool,
}

/// Reads the words behind `user`: the password of `default`, or that it needs none. Nothing if the line says what
/// `requirepass` cannot.
pub(super) fn read(words: &[Vec<u8>]) -> Option<Option<Password>> {
    let [name, rules @ ..] = words else { return None };
    if name != b"default" {
        return None;
    }
    let mut user = User::default();
    for rule in rules {
        user.apply(rule)?;
    }
    user.login()
}

impl User {
    fn apply(&mut self, rule: &[u8]) -> Option<()> {
        let word = rule.to_ascii_lowercase();
        match (word.as_slice(), rule) {
            (b"on", _) => self.on = true,
            (b"off", _) => self.on = false,
            (b"nopass", _) => (self.open, self.passwords) = (true, Vec::new()),
            (b"resetpass", _) => (self.open, self.passwords) = (false, Vec::new()),
            (b"reset", _) => *self = User::default(),
            (b"sanitize-payload" | b"clearselectors" | b"alldbs", _) => {}
            (b"allkeys" | b"~*" | b"%rw~*" | b"%wr~*", _) => self.keys = true,
            (b"resetkeys", _) => self.keys = false,
            (b"allchannels" | b"&*", _) => self.channels = true,
            (b"resetchannels", _) => self.channels = false,
            (b"allcommands" | b"+@all", _) => self.commands = true,
            (b"nocommands" | b"-@all", _) => self.commands = false,
            (_, [kind @ (b'>' | b'<' | b'#' | b'!'), text @ ..]) => self.password(*kind, text)?,
            _ => return None,
        }
        Some(())
    }

    fn password(&mut self, kind: u8, text: &[u8]) -> Option<()> {
        let password = match kind {
            b'>' | b'<' => Password::Plain(text.to_vec()),
            _ => Password::Hash(hash_of(text)?),
        };
        let known = self.passwords.iter().position(|other| password.matches(other) || other.matches(&password));
        match (kind, known) {
            (b'>' | b'#', None) => self.passwords.push(password),
            (b'<' | b'!', Some(at)) => drop(self.passwords.remove(at)),
            (b'<' | b'!', None) => return None,
            _ => {}
        }
        self.open &= !matches!(kind, b'>' | b'#');
        Some(())
    }

    fn login(mut self) -> Option<Option<Password>> {
        let has_all = self.on && self.keys && self.channels && self.commands;
        let known = if self.open { 0 } else { 1 };
        (has_all && self.passwords.len() == known).then(|| self.passwords.pop())
    }
}

pub(super) fn hash_of(text: &[u8]) -> Option<[u8; 32]> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut hash = [0; 32];
    let (pairs, rest) = text.as_chunks::<2>();
    if pairs.len() != hash.len() || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in hash.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(line: &str) -> Option<Option<Password>> {
        read(&line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>())
    }

    #[test]
    fn what_redis_writes_is_read() {
        assert_eq!(login("default on nopass sanitize-payload ~* &* +@all"), Some(None));
        let plain = login("default on >secret ~* &* +@all").unwrap().unwrap();
        assert!(plain.is(b"secret") && !plain.is(b"secre") && !plain.is(b""));
        // Redis 8.2 wrote this one for `requirepass s3cret`.
        let line =
            "default on sanitize-payload #1ec1c26b50d5d3c58d9583181af8076655fe00756bf7285940ba3670f99fcba0 ~* &* +@all";
        let Some(Some(hashed @ Password::Hash(_))) = login(line) else { panic!("a hash") };
        assert!(hashed.is(b"s3cret") && !hashed.is(b"other"));
    }

    #[test]
    fn rules_that_say_the_same_in_other_words() {
        for line in [
            "default ON allkeys AllChannels AllCommands nopass",
            "default on >a <a nopass %RW~* &* -@all +@all",
            "default reset on nopass ~* &* +@all clearselectors alldbs sanitize-payload",
        ] {
            assert_eq!(login(line), Some(None), "{line}");
        }
        let again = "#ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(
            login(&format!("default on resetpass >abc {again} ~* &* +@all")),
            Some(Some(Password::Plain(b"abc".into())))
        );
    }

    #[test]
    fn what_says_more_is_left_to_users() {
        for line in [
            "alice on nopass ~* &* +@all",
            "default on nopass ~* &* +@all -flushall",
            "default on nopass ~app:* &* +@all",
            "default on nopass skip-sanitize-payload ~* &* +@all",
            "default on nopass &* +@all",
            "default on nopass ~* +@all",
            "default on nopass ~* &*",
            "default off nopass ~* &* +@all",
            "default on ~* &* +@all",
            "default on >a >b ~* &* +@all",
            "default on #12 ~* &* +@all",
            "default on nopass ~* &* +@all (+get ~a)",
        ] {
            assert_eq!(login(line), None, "{line}");
        }
    }
}
