//! One user.

use crate::password::PasswordHash;
use crate::selector::Selector;

/// Whose rights: a number that is never given to another user, also not to one of the same name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct UserNumber(pub u64);

impl UserNumber {
    /// The number of the user `default`.
    pub const DEFAULT: UserNumber = UserNumber(0);
}

/// A user and its rights at one revision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    pub(crate) name: Vec<u8>,
    pub(crate) number: UserNumber,
    pub(crate) revision: u64,
    pub(crate) is_on: bool,
    pub(crate) needs_no_password: bool,
    pub(crate) skips_sanitizing: bool,
    pub(crate) passwords: Vec<PasswordHash>,
    /// What stands outside parentheses.
    pub(crate) root: Selector,
    pub(crate) selectors: Vec<Selector>,
}

impl User {
    /// A user without rights, which nobody can log in as. `all_channels`: what `acl-pubsub-default` says.
    pub(crate) fn new(name: &[u8], number: UserNumber, all_channels: bool) -> User {
        User {
            name: name.to_vec(),
            number,
            revision: 0,
            is_on: false,
            needs_no_password: false,
            skips_sanitizing: false,
            passwords: Vec::new(),
            root: Selector::new(all_channels),
            selectors: Vec::new(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Its number.
    pub fn number(&self) -> UserNumber {
        self.number
    }

    /// The revision of all users that made it what it is.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// True if a client may authenticate as this user. One that has already stays.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// True if any password will do. If the user `default` is so, connections need no AUTH.
    pub fn needs_no_password(&self) -> bool {
        self.needs_no_password
    }

    /// True if RESTORE need not look at what this user gives it.
    pub fn skips_sanitizing(&self) -> bool {
        self.skips_sanitizing
    }

    /// True if it may do everything: then nothing has to be checked. A connection keeps this as a flag.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.root.is_full()
    }

    pub(crate) fn all_selectors(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.selectors)
    }

    /// True if these are the password and a user that may log in.
    pub fn accepts(&self, password: &[u8]) -> bool {
        // Hashed in every case: time does not tell which users there are.
        let hash = PasswordHash::of(password);
        let known = self.passwords.iter().fold(false, |known, own| known | (*own == hash));
        self.is_on && (self.needs_no_password || known)
    }

    /// True if both have the same rights and passwords, whatever they are called.
    pub(crate) fn is_like(&self, other: &User) -> bool {
        let as_other =
            User { name: other.name.clone(), number: other.number, revision: other.revision, ..self.clone() };
        as_other == *other
    }
}
