//! The reasons why rules and changes are refused, in Redis's words.

use std::fmt;

/// The reply of AUTH to a wrong password, an unknown user, or one that is off.
pub const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

/// The reply of `AUTH password` when the user `default` needs none.
pub const NO_PASSWORD_NEEDED: &str = "ERR AUTH <password> called without any password configured for the default user. \
                                      Are you sure your configuration is correct?";

/// The reply to a client that has not authenticated.
pub const NOT_AUTHENTICATED: &str = "NOAUTH Authentication required.";

/// The fault of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadRule {
    /// It is no rule, or a pattern with a blank or NUL in it.
    Syntax,
    /// It names no command or category.
    Unknown,
    /// It adds a key pattern where all keys are allowed.
    AfterAllKeys,
    /// It adds a channel pattern where all channels are allowed.
    AfterAllChannels,
    /// It removes a password that the user does not have.
    NoSuchPassword,
    /// The hash of a password is malformed.
    BadHash,
    /// It adds a first argument to a subcommand.
    OfSubcommand,
}

impl BadRule {
    /// Redis's text.
    pub fn text(self) -> &'static str {
        match self {
            BadRule::Syntax => "Syntax error",
            BadRule::Unknown => "Unknown command or category name in ACL",
            BadRule::AfterAllKeys => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. \
                 Try 'resetkeys' to start with an empty list of patterns"
            }
            BadRule::AfterAllChannels => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                 effect. Try 'resetchannels' to start with an empty list of channels"
            }
            BadRule::NoSuchPassword => "The password you are trying to remove from the user does not exist",
            BadRule::BadHash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            BadRule::OfSubcommand => "Allowing first-arg of a subcommand is not supported",
        }
    }
}

impl fmt::Display for BadRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// The reason why a change of users is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The name of a user has a blank or a NUL in it.
    BadName,
    /// A selector is not closed; the argument that opens it.
    Unmatched(Vec<u8>),
    /// A rule is wrong.
    Rule(Vec<u8>, BadRule),
    /// The user `default` cannot be deleted.
    DefaultStays,
}

impl Refused {
    /// The reply, with its code.
    pub fn reply(&self) -> Vec<u8> {
        match self {
            Refused::BadName => b"ERR Usernames can't contain spaces or null characters".to_vec(),
            Refused::Unmatched(opening) => {
                [b"ERR Unmatched parenthesis in acl selector starting at '", &opening[..], b"'."].concat()
            }
            Refused::Rule(rule, bad) => {
                [b"ERR Error in ACL SETUSER modifier '", &rule[..], b"': ", bad.text().as_bytes()].concat()
            }
            Refused::DefaultStays => b"ERR The 'default' user cannot be removed".to_vec(),
        }
    }
}

/// True if a name or pattern has a byte that rules cannot express.
pub(crate) fn has_blank(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, 0 | b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c))
}
