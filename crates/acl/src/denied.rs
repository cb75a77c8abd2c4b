//! Denied requests, and the texts about them.

use resp::Args;

use crate::catalogue::{Catalogue, CommandId};
use crate::log::Reason;
use crate::user::User;

/// The reason why a request is denied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Denied {
    /// The command.
    Command,
    /// The key that is this argument.
    Key(usize),
    /// The channel that is this argument.
    Channel(usize),
}

impl Denied {
    /// Of several selectors' reasons the one of the highest rank is told; of equal ones the first.
    pub(crate) fn rank(self) -> (u8, usize) {
        match self {
            Denied::Command => (0, 0),
            Denied::Key(index) => (1, index),
            Denied::Channel(index) => (2, index),
        }
    }

    /// The reply to a client. It does not name the key, which the client knows.
    pub fn reply(self, user: &User, catalogue: &Catalogue, command: CommandId) -> Vec<u8> {
        [b"NOPERM ", &self.brief(user, catalogue, command)[..]].concat()
    }

    /// The error of a call in a script, without a code in front of it.
    pub fn in_script(self, user: &User, catalogue: &Catalogue, command: CommandId) -> Vec<u8> {
        [b"ACL failure in script: ", &self.brief(user, catalogue, command)[..]].concat()
    }

    /// The text that the errors of clients and of scripts share.
    pub fn brief(self, user: &User, catalogue: &Catalogue, command: CommandId) -> Vec<u8> {
        match self {
            Denied::Command => {
                let name = catalogue.name(command).as_bytes();
                [b"User ", user.name(), b" has no permissions to run the '", name, b"' command"].concat()
            }
            Denied::Key(_) => b"No permissions to access a key".to_vec(),
            Denied::Channel(_) => b"No permissions to access a channel".to_vec(),
        }
    }

    /// The error of a command that EXEC refuses though it was allowed when it was queued.
    pub fn in_exec(self) -> &'static str {
        match self {
            Denied::Command => {
                "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
                 command is no longer allowed for the following reason: no permission to execute the command or subcommand"
            }
            Denied::Key(_) => {
                "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
                 command is no longer allowed for the following reason: no permission to touch the specified keys"
            }
            Denied::Channel(_) => {
                "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
                 command is no longer allowed for the following reason: no permission to access one of the channels used \
                 as arguments"
            }
        }
    }

    /// The reason that ACL LOG shows.
    pub fn reason(self) -> Reason {
        match self {
            Denied::Command => Reason::Command,
            Denied::Key(_) => Reason::Key,
            Denied::Channel(_) => Reason::Channel,
        }
    }

    /// The text of ACL DRYRUN.
    pub fn verbose(self, user: &User, catalogue: &Catalogue, command: CommandId, args: Args<'_>) -> Vec<u8> {
        let (index, what) = match self {
            Denied::Command => return self.brief(user, catalogue, command),
            Denied::Key(index) => (index, &b"' key"[..]),
            Denied::Channel(index) => (index, &b"' channel"[..]),
        };
        let name = args.get(index).unwrap_or_default();
        [b"User ", user.name(), b" has no permissions to access the '", name, what].concat()
    }

    /// The key, channel or command that ACL LOG shows.
    pub fn object(self, catalogue: &Catalogue, command: CommandId, args: Args<'_>) -> Vec<u8> {
        match self {
            Denied::Command => catalogue.name(command).into(),
            Denied::Key(index) | Denied::Channel(index) => args.get(index).unwrap_or_default().to_vec(),
        }
    }
}
