//! One user.

use crate::ordered::Ordered;
use crate::password::PasswordHash;
use crate::selector::Selector;

/// A number that identifies a user. It is never given to another user, not even to one of the same name.
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
    pub(crate) passwords: Ordered<PasswordHash>,
    /// The rights outside parentheses.
    pub(crate) root: Selector,
    pub(crate) selectors: Vec<Selector>,
}

impl User {
    /// A user without rights, whom no client can log in as. `all_channels`: the value of `acl-pubsub-default`.
    pub(crate) fn new(name: &[u8], number: UserNumber, all_channels: bool) -> User {
        User {
            name: name.to_vec(),
            number,
            revision: 0,
            is_on: false,
            needs_no_password: false,
            skips_sanitizing: false,
            passwords: Ordered::default(),
            root: Selector::new(all_channels),
            selectors: Vec::new(),
        }
    }

    /// The user's name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The user's number.
    pub fn number(&self) -> UserNumber {
        self.number
    }

    /// The revision of all users that gave it its present rights.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// True if a client may authenticate as this user. A client that already has stays.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// True if any password will do. If this holds for the user `default`, connections need no AUTH.
    pub fn needs_no_password(&self) -> bool {
        self.needs_no_password
    }

    /// True if RESTORE need not check payloads from this user.
    pub fn skips_sanitizing(&self) -> bool {
        self.skips_sanitizing
    }

    /// True if the user may do everything, so that nothing has to be checked. A connection keeps this as a flag.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.root.is_full()
    }

    pub(crate) fn all_selectors(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.selectors)
    }

    /// True if the user may log in with this password.
    pub fn accepts(&self, password: &[u8]) -> bool {
        // The password is hashed in every case, so that time does not reveal which users exist.
        let hash = PasswordHash::of(password);
        let known = self.passwords.iter().fold(false, |known, own| known | (*own == hash));
        self.is_on && (self.needs_no_password || known)
    }

    /// True if both have the same rights and passwords, under any names.
    pub(crate) fn is_like(&self, other: &User) -> bool {
        let as_other =
            User { name: other.name.clone(), number: other.number, revision: other.revision, ..self.clone() };
        as_other == *other
    }
}
