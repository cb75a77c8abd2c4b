//! All users as bytes: for the metadata of a cluster, and for other nodes.
//!
//! ```text
//! "HFUS"  version u16 = 1  next number u64  revision u64  users u32
//! user:     number u64  revision u64  flags u8 (1 on, 2 nopass, 4 skip-sanitize-payload)
//!           name  passwords u32, 32 bytes each  selectors u32, the root first
//! selector: flags u8 (1 all keys, 2 all channels, 4 the rules begin with +@all)
//!           keys u32: access u8 (1 read, 2 write), pattern
//!           channels u32: pattern
//!           rules u32: u8 (1 allows), name
//! crc32c u32 of all before it
//! ```
//!
//! Numbers are little-endian; a name, pattern or rule is its length (u32) and its bytes. Rules about commands are kept
//! as rules, not as bits: the reader may know other commands than the writer. A rule about a command that the reader
//! does not know is kept and grants nothing. One about an unknown category is refused, because a dropped `-@category`
//! would leave rights that it took away.

use std::collections::BTreeMap;
use std::fmt;

use crc_fast::{CrcAlgorithm, checksum};

use crate::catalogue::Catalogue;
use crate::check::Access;
use crate::error::{BadRule, has_blank};
use crate::password::PasswordHash;
use crate::selector::{CommandRule, KeyPattern, Selector};
use crate::user::{User, UserNumber};
use crate::users::{DEFAULT, Users};

const MAGIC: [u8; 4] = *b"HFUS";
const VERSION: u16 = 1;

/// Bytes that the users of a cluster may have in its metadata: half of what those keep beside settings.
pub const SNAPSHOT_BYTES_MAX: usize = 512 << 10;

/// The bytes are no snapshot of users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damaged(&'static str);

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the users cannot be read: {}", self.0)
    }
}

impl std::error::Error for Damaged {}

impl Users {
    /// All users as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(VERSION.to_le_bytes());
        out.extend(self.next_number.to_le_bytes());
        out.extend(self.revision.to_le_bytes());
        put_all(&mut out, self.iter(), |out, user| put_user(out, user));
        let sum = crc(&out);
        out.extend(sum.to_le_bytes());
        out
    }

    /// Reads what [`Users::to_bytes`] has written, maybe with other commands in the catalogue.
    ///
    /// # Errors
    ///
    /// The bytes are damaged, are too many, or another version has written them.
    pub fn from_bytes(catalogue: &Catalogue, bytes: &[u8]) -> Result<Users, Damaged> {
        if bytes.len() > SNAPSHOT_BYTES_MAX {
            return Err(Damaged("they are longer than users may be"));
        }
        let (body, sum) = bytes.split_last_chunk().ok_or(Damaged("they end early"))?;
        if crc(body) != u32::from_le_bytes(*sum) {
            return Err(Damaged("their checksum is wrong"));
        }
        let mut reader = Reader { rest: body, catalogue };
        if reader.array()? != MAGIC {
            return Err(Damaged("they do not begin as users do"));
        }
        if u16::from_le_bytes(reader.array()?) != VERSION {
            return Err(Damaged("another version has written them"));
        }
        reader.users()
    }
}

fn crc(bytes: &[u8]) -> u32 {
    (checksum(CrcAlgorithm::Crc32Iscsi, bytes) & 0xffff_ffff) as u32
}

fn put_all<T>(out: &mut Vec<u8>, items: impl Iterator<Item = T>, mut put: impl FnMut(&mut Vec<u8>, T)) {
    let at = out.len();
    out.extend([0; 4]);
    let mut count: u32 = 0;
    for item in items {
        put(out, item);
        count += 1;
    }
    if let Some(place) = out.get_mut(at..at + 4) {
        place.copy_from_slice(&count.to_le_bytes());
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    // A request is at most 4 GiB long.
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn flags(all: [bool; 3]) -> u8 {
    all.iter().enumerate().fold(0, |flags, (bit, on)| flags | u8::from(*on) << bit)
}

fn put_user(out: &mut Vec<u8>, user: &User) {
    out.extend(user.number.0.to_le_bytes());
    out.extend(user.revision.to_le_bytes());
    out.push(flags([user.is_on, user.needs_no_password, user.skips_sanitizing]));
    put_bytes(out, &user.name);
    put_all(out, user.passwords.iter(), |out, password| out.extend(password.0));
    put_all(out, user.all_selectors(), put_selector);
}

fn put_selector(out: &mut Vec<u8>, selector: &Selector) {
    out.push(flags([selector.all_keys, selector.all_channels, selector.future_commands]));
    put_all(out, selector.keys.iter(), |out, key| {
        out.push(key.access.bits());
        put_bytes(out, &key.glob);
    });
    put_all(out, selector.channels.iter(), |out, channel| put_bytes(out, channel));
    put_all(out, selector.rules.iter(), |out, rule| {
        out.push(u8::from(rule.allow));
        put_bytes(out, &rule.name);
    });
}

struct Reader<'a> {
    rest: &'a [u8],
    catalogue: &'a Catalogue,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Damaged> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Damaged("they end early"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn u64(&mut self) -> Result<u64, Damaged> {
        self.array().map(u64::from_le_bytes)
    }

    fn flags(&mut self) -> Result<[bool; 3], Damaged> {
        match self.array::<1>()? {
            [flags @ 0..8] => Ok([flags & 1 != 0, flags & 2 != 0, flags & 4 != 0]),
            _ => Err(Damaged("unknown flags")),
        }
    }

    /// A name or pattern. It has no blank, which rules cannot express.
    fn word(&mut self) -> Result<Vec<u8>, Damaged> {
        let len = u32::from_le_bytes(self.array()?);
        let word = self.take(usize::try_from(len).unwrap_or(usize::MAX))?;
        if has_blank(word) { Err(Damaged("a blank in a name")) } else { Ok(word.to_vec()) }
    }

    /// Reads a counted list. Reserves no memory, as the count may be wrong.
    fn all<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T, Damaged>) -> Result<Vec<T>, Damaged> {
        let count = u32::from_le_bytes(self.array()?);
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(item(self)?);
        }
        Ok(all)
    }

    fn users(&mut self) -> Result<Users, Damaged> {
        let (next_number, revision) = (self.u64()?, self.u64()?);
        let all = self.all(Self::user)?;
        let mut users = Users { by_number: BTreeMap::new(), numbers: BTreeMap::new(), next_number, revision };
        let count = all.len();
        for user in all {
            if user.number.0 >= next_number || user.revision > revision {
                return Err(Damaged("a user of a later time"));
            }
            users.put(user);
        }
        let is_whole = users.numbers.len() == count && users.by_number.len() == count && self.rest.is_empty();
        let default = users.find(DEFAULT).map(|user| user.number);
        if !is_whole || default != Some(UserNumber::DEFAULT) {
            return Err(Damaged("a user is there twice, or not at all"));
        }
        Ok(users)
    }

    fn user(&mut self) -> Result<User, Damaged> {
        let (number, revision) = (UserNumber(self.u64()?), self.u64()?);
        let [is_on, needs_no_password, skips_sanitizing] = self.flags()?;
        let name = self.word()?;
        let passwords = self.all(|reader| reader.array().map(PasswordHash))?.into_iter().collect();
        let mut selectors = self.all(Self::selector)?;
        if selectors.is_empty() {
            return Err(Damaged("a user without rights of its own"));
        }
        let root = selectors.remove(0);
        Ok(User { name, number, revision, is_on, needs_no_password, skips_sanitizing, passwords, root, selectors })
    }

    fn selector(&mut self) -> Result<Selector, Damaged> {
        let [all_keys, all_channels, future_commands] = self.flags()?;
        let keys = self.all(|reader| {
            let [access] = reader.array()?;
            let access = match access {
                1 => Access::READ,
                2 => Access::WRITE,
                3 => Access::ALL,
                _ => return Err(Damaged("a key pattern that allows nothing")),
            };
            Ok(KeyPattern { access, glob: reader.word()? })
        })?;
        let channels = self.all(Self::word)?;
        let mut selector = Selector::new(all_channels);
        selector.all_keys = all_keys;
        (selector.keys, selector.channels) = (keys.into_iter().collect(), channels.into_iter().collect());
        selector.set_all_commands(self.catalogue, future_commands);
        for rule in self.all(|reader| Ok((reader.array()? != [0], reader.word()?)))? {
            self.rule(&mut selector, rule)?;
        }
        Ok(selector)
    }

    fn rule(&self, selector: &mut Selector, (allow, name): (bool, Vec<u8>)) -> Result<(), Damaged> {
        let rule = CommandRule { allow, name };
        let is_category = rule.name.starts_with(b"@");
        match selector.apply(self.catalogue, &rule.text()) {
            Ok(()) => Ok(()),
            Err(BadRule::Unknown) if is_category => Err(Damaged("a category that nobody knows")),
            // The writer knows more commands, or has a container where this node has a command.
            Err(BadRule::Unknown) => {
                selector.note(&rule.name, rule.allow);
                Ok(())
            }
            Err(_) => Err(Damaged("a rule that is none")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{Categories, Declared};
    use crate::testing::catalogue;
    use crate::users::RuleBook;

    fn example() -> Users {
        let catalogue = catalogue();
        let book = RuleBook { catalogue: &catalogue, all_channels: false };
        let mut users = Users::new(&catalogue);
        users.set(book, b"bob", &["on", ">x", "%R~a", "~b", "&c", "+@read", "-get", "+select|0"]).unwrap();
        users.set(book, b"eve", &["skip-sanitize-payload", "+@all", "(%W~d allchannels +set)"]).unwrap();
        users.delete(&["bob"]).unwrap();
        users.set(book, b"bob", &["on", ">x", "%R~a", "~b", "&c", "+@read", "-get", "+select|0"]).unwrap();
        users
    }

    /// Another catalogue, which lacks `get`.
    fn without_get() -> Catalogue {
        let known = Declared {
            name: "set".into(),
            arity: -3,
            categories: Categories::named(["write"]).unwrap(),
            ..Declared::default()
        };
        Catalogue::new([known])
    }

    #[test]
    fn comes_back_as_it_was() {
        let users = example();
        assert_eq!(Users::from_bytes(&catalogue(), &users.to_bytes()), Ok(users));
    }

    /// A change of these bytes needs a new version: a cluster has nodes of the former version meanwhile.
    #[test]
    fn has_the_bytes_of_version_1() {
        let catalogue = catalogue();
        let book = RuleBook { catalogue: &catalogue, all_channels: false };
        let mut users = Users::new(&catalogue);
        users.set(book, b"bob", &["on", ">x", "%R~a", "&c", "-@all", "+@read", "-get"]).unwrap();
        let mut golden = b"HFUS\x01\x00".to_vec();
        golden.extend(b"\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0");
        golden.extend(b"\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\x03\0\0\0bob\x01\0\0\0");
        golden.extend(PasswordHash::of(b"x").0);
        golden.extend(b"\x01\0\0\0\x00\x01\0\0\0\x01\x01\0\0\0a\x01\0\0\0\x01\0\0\0c");
        golden.extend(b"\x02\0\0\0\x01\x05\0\0\0@read\x00\x03\0\0\0get");
        golden.extend(b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x03\x07\0\0\0default\0\0\0\0");
        golden.extend(b"\x01\0\0\0\x07\0\0\0\0\0\0\0\0\0\0\0\0");
        golden.extend(0x9cef_ae4d_u32.to_le_bytes());
        assert_eq!(users.to_bytes().escape_ascii().to_string(), golden.escape_ascii().to_string());
    }

    #[test]
    fn damage_is_noticed_and_none_makes_it_panic() {
        let bytes = example().to_bytes();
        let catalogue = catalogue();
        for end in 0..bytes.len() {
            assert!(Users::from_bytes(&catalogue, &bytes[..end]).is_err(), "{end}");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(Users::from_bytes(&catalogue, &damaged).is_err(), "{at}");
            // The same with a checksum that fits: any result will do, but no panic.
            let body = damaged.len() - 4;
            let sum = crc(&damaged[..body]);
            damaged[body..].copy_from_slice(&sum.to_le_bytes());
            let _ = Users::from_bytes(&catalogue, &damaged);
        }
    }

    #[test]
    fn a_command_that_a_node_does_not_know_grants_nothing_and_stays() {
        let users = example();
        let other = Users::from_bytes(&without_get(), &users.to_bytes()).unwrap();
        assert_eq!(other.file(), users.file());
        assert_eq!(other.to_bytes(), users.to_bytes(), "it goes on to nodes that know it");
    }

    #[test]
    fn a_category_that_a_node_does_not_know_is_refused() {
        let mut bytes = example().to_bytes();
        let at = bytes.windows(5).position(|window| window == b"@read").unwrap();
        bytes[at..at + 5].copy_from_slice(b"@rent");
        let body = bytes.len() - 4;
        let sum = crc(&bytes[..body]);
        bytes[body..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Users::from_bytes(&catalogue(), &bytes), Err(Damaged("a category that nobody knows")));
    }
}
