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
    /// Whether a client has given this password. The time does not depend on where the first difference is.
    pub fn is(&self, given: &[u8]) -> bool {
        let same =
            |a: &[u8], b: &[u8]| a.len() == b.len() && a.iter().zip(b).fold(0, |diff, (x, y)| diff | (x ^ y)) == 0;
        match self {
            Password::Plain(wanted) => same(wanted, given),
            Password::Hash(wanted) => same(wanted, &Sha256::digest(given)),
        }
    }

    /// Whether both let in the same clients.
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

/// The line by which Redis and Holdfast read this hash again.
pub(super) fn line_of(hash: &[u8; 32]) -> Vec<u8> {
    format!("default on sanitize-payload #{} ~* &* +@all", digits_of(hash)).into_bytes()
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

/// Reads the words behind `user`: the password of `default`, or `None` if it needs none.
///
/// # Errors
///
/// The part of the line that `requirepass` cannot express.
pub(super) fn read(words: &[Vec<u8>]) -> Result<Option<Password>, String> {
    let [name, rules @ ..] = words else {
        return Err("a user needs a name".into());
    };
    if name != b"default" {
        let name = String::from_utf8_lossy(name);
        return Err(format!("ACL users are not there yet: there is only the user 'default', not '{name}'"));
    }
    let mut user = User::default();
    for rule in rules {
        user.apply(rule)?;
    }
    user.login()
}

fn more(rule: &str) -> String {
    format!(
        "ACL users are not there yet: a line for the user 'default' may say what `requirepass` does, such as \
         `user default on >PASSWORD ~* &* +@all`, and no more ({rule})"
    )
}

impl User {
    fn apply(&mut self, rule: &[u8]) -> Result<(), String> {
        let word = rule.to_ascii_lowercase();
        match (word.as_slice(), rule) {
            (b"on", _) => self.on = true,
            (b"off", _) => self.on = false,
            (b"nopass", _) => (self.open, self.passwords) = (true, Vec::new()),
            (b"resetpass", _) => (self.open, self.passwords) = (false, Vec::new()),
            (b"reset", _) => *self = User::default(),
            // Payloads are always checked, whatever the user is.
            (b"sanitize-payload" | b"skip-sanitize-payload" | b"clearselectors" | b"alldbs", _) => {}
            (b"allkeys" | b"~*" | b"%rw~*" | b"%wr~*", _) => self.keys = true,
            (b"resetkeys", _) => self.keys = false,
            (b"allchannels" | b"&*", _) => self.channels = true,
            (b"resetchannels", _) => self.channels = false,
            (b"allcommands" | b"+@all", _) => self.commands = true,
            (b"nocommands" | b"-@all", _) => self.commands = false,
            (_, [kind @ (b'>' | b'<' | b'#' | b'!'), text @ ..]) => self.password(*kind, text)?,
            _ => return Err(more(&format!("'{}'", String::from_utf8_lossy(rule)))),
        }
        Ok(())
    }

    fn password(&mut self, kind: u8, text: &[u8]) -> Result<(), String> {
        let password = match kind {
            b'>' | b'<' => Password::Plain(text.to_vec()),
            _ => Password::Hash(hash_of(text).ok_or("a password's hash has 64 lower-case hexadecimal digits")?),
        };
        let known = self.passwords.iter().position(|other| password.matches(other) || other.matches(&password));
        match (kind, known) {
            (b'>' | b'#', None) => self.passwords.push(password),
            (b'<' | b'!', Some(at)) => drop(self.passwords.remove(at)),
            (b'<' | b'!', None) => return Err("the password to take away is not one of the user's".into()),
            _ => {}
        }
        self.open &= !matches!(kind, b'>' | b'#');
        Ok(())
    }

    fn login(mut self) -> Result<Option<Password>, String> {
        let missing = match &self {
            User { on: false, .. } => Some("the user is off"),
            User { keys: false, .. } => Some("it may not use all keys: '~*'"),
            User { channels: false, .. } => Some("it may not use all channels: '&*'"),
            User { commands: false, .. } => Some("it may not use all commands: '+@all'"),
            User { open: false, passwords, .. } if passwords.is_empty() => Some("no password lets anybody in"),
            User { passwords, .. } if passwords.len() > 1 => Some("it has several passwords"),
            _ => None,
        };
        match missing {
            Some(missing) => Err(more(missing)),
            None => Ok(self.passwords.pop()),
        }
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

    fn login(line: &str) -> Result<Option<Password>, String> {
        read(&line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>())
    }

    #[test]
    fn what_redis_writes_is_read() {
        assert_eq!(login("default on nopass sanitize-payload ~* &* +@all"), Ok(None));
        let plain = login("default on >secret ~* &* +@all").unwrap().unwrap();
        assert!(plain.is(b"secret") && !plain.is(b"secre") && !plain.is(b""));
        // Redis 8.2 wrote this one for `requirepass s3cret`.
        let line =
            "default on sanitize-payload #1ec1c26b50d5d3c58d9583181af8076655fe00756bf7285940ba3670f99fcba0 ~* &* +@all";
        let Some(hashed @ Password::Hash(hash)) = login(line).unwrap() else { panic!("a hash") };
        assert!(hashed.is(b"s3cret") && !hashed.is(b"other"));
        assert_eq!(String::from_utf8(line_of(&hash)).unwrap(), line);
    }

    #[test]
    fn rules_that_say_the_same_in_other_words() {
        for line in [
            "default ON allkeys AllChannels AllCommands nopass",
            "default on >a <a nopass %RW~* &* -@all +@all",
            "default reset on nopass ~* &* +@all clearselectors alldbs skip-sanitize-payload",
        ] {
            assert_eq!(login(line), Ok(None), "{line}");
        }
        let again = "#ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(
            login(&format!("default on resetpass >abc {again} ~* &* +@all")),
            Ok(Some(Password::Plain(b"abc".into())))
        );
    }

    #[test]
    fn what_says_more_is_refused_and_says_why() {
        for (line, why) in [
            ("alice on nopass ~* &* +@all", "'alice'"),
            ("default on nopass ~* &* +@all -flushall", "'-flushall'"),
            ("default on nopass ~app:* &* +@all", "'~app:*'"),
            ("default on nopass &* +@all", "all keys"),
            ("default on nopass ~* +@all", "all channels"),
            ("default on nopass ~* &*", "all commands"),
            ("default off nopass ~* &* +@all", "the user is off"),
            ("default on ~* &* +@all", "no password"),
            ("default on >a >b ~* &* +@all", "several passwords"),
            ("default on #12 ~* &* +@all", "64"),
            ("default on nopass ~* &* +@all (+get ~a)", "'(+get'"),
        ] {
            let error = login(line).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
