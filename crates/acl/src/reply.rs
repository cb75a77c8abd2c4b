//! The replies of ACL's subcommands.

use resp::{Args, Reply};

use crate::catalogue::{CATEGORIES, Catalogue, Categories, CommandId};
use crate::check::KeyUses;
use crate::log::AccessLog;
use crate::selector::Selector;
use crate::user::User;
use crate::users::Users;

/// The reply of ACL LOAD and SAVE without `aclfile`.
pub const NO_ACL_FILE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want to specify \
                               users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a \
                               Redis configuration file set) in order to store users in the Redis configuration.";

/// The reply of ACL SAVE when the file cannot be written.
pub const NOT_SAVED: &str =
    "ERR There was an error trying to save the ACLs. Please check the server logs for more information";

impl User {
    /// ACL GETUSER.
    pub fn write(&self, out: &mut Reply<'_>) {
        out.map(6);
        out.bulk("flags");
        out.set(self.flags().count());
        self.flags().for_each(|flag| out.bulk(flag));
        out.bulk("passwords");
        out.array(self.passwords.len());
        self.passwords.iter().for_each(|password| out.bulk(password.hex()));
        self.root.write(out);
        out.bulk("selectors");
        out.array(self.selectors.len());
        for selector in &self.selectors {
            out.map(3);
            selector.write(out);
        }
    }
}

impl Selector {
    fn write(&self, out: &mut Reply<'_>) {
        out.bulk("commands");
        out.bulk(self.command_text());
        out.bulk("keys");
        out.bulk(self.key_text());
        out.bulk("channels");
        out.bulk(self.channel_text());
    }
}

impl Users {
    /// ACL LIST.
    pub fn write_lines(&self, out: &mut Reply<'_>) {
        out.array(self.len());
        self.iter().for_each(|user| out.bulk(user.line()));
    }

    /// ACL USERS.
    pub fn write_names(&self, out: &mut Reply<'_>) {
        out.array(self.len());
        self.iter().for_each(|user| out.bulk(user.name()));
    }
}

impl AccessLog {
    /// ACL LOG: the newest `count` entries, as of `now`, in unix milliseconds.
    pub fn write(&self, out: &mut Reply<'_>, count: usize, now: i64) {
        let count = count.min(self.entries().len());
        out.array(count);
        for entry in self.entries().take(count) {
            let event = &entry.event;
            out.map(10);
            out.bulk("count");
            out.count(entry.count);
            out.bulk("reason");
            out.bulk(event.reason.word());
            out.bulk("context");
            out.bulk(event.context.word());
            out.bulk("object");
            out.bulk(&event.object);
            out.bulk("username");
            out.bulk(&event.user);
            out.bulk("age-seconds");
            out.double(now.saturating_sub(entry.updated) as f64 / 1000.0);
            out.bulk("client-info");
            out.bulk(&event.client);
            out.bulk("entry-id");
            out.count(entry.id);
            out.bulk("timestamp-created");
            out.integer(entry.created);
            out.bulk("timestamp-last-updated");
            out.integer(entry.updated);
        }
    }
}

/// ACL CAT.
pub fn write_categories(out: &mut Reply<'_>) {
    out.array(CATEGORIES.len());
    CATEGORIES.iter().for_each(|name| out.bulk(name));
}

/// ACL CAT with a category. Returns false, and writes nothing, if there is none of this name.
pub fn write_category(out: &mut Reply<'_>, catalogue: &Catalogue, name: &[u8]) -> bool {
    let Some(category) = Categories::of_name(name) else { return false };
    let ids: Vec<CommandId> = catalogue.of_category(category).collect();
    out.array(ids.len());
    ids.iter().for_each(|id| out.bulk(catalogue.name(*id)));
    true
}

/// The reply of ACL CAT to a name that is no category.
pub fn unknown_category(name: &[u8]) -> Vec<u8> {
    let shown = name.get(..128).unwrap_or(name);
    [b"ERR Unknown category '", shown, b"'"].concat()
}

/// The result of ACL DRYRUN.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DryRun {
    /// The user may run the request: `+OK`.
    Allowed,
    /// The reason why the user may not, as a bulk string.
    Denied(Vec<u8>),
    /// An error, with its code.
    Error(Vec<u8>),
}

/// ACL DRYRUN of `args`, which begin with the command's name. `command`: the command that a client reaches by that
/// name, if any.
pub fn dry_run(
    users: &Users,
    catalogue: &Catalogue,
    user: &[u8],
    command: Option<CommandId>,
    args: Args<'_>,
    find_keys: impl FnOnce(&mut KeyUses),
) -> DryRun {
    let Some(user) = users.find(user) else {
        return DryRun::Error([b"ERR User '", user, b"' not found"].concat());
    };
    let Some((command, declared)) = command.and_then(|id| Some((id, catalogue.declared(id)?))) else {
        return DryRun::Error([b"ERR Command '", args.get(0).unwrap_or_default(), b"' not found"].concat());
    };
    let (argc, arity) = (args.len() as i64, i64::from(declared.arity));
    if (arity > 0 && arity != argc) || argc < -arity {
        return DryRun::Error(format!("ERR wrong number of arguments for '{}' command", declared.name).into_bytes());
    }
    match user.check(catalogue, command, args, find_keys) {
        Ok(()) => DryRun::Allowed,
        Err(denied) => DryRun::Denied(denied.verbose(user, catalogue, command, args)),
    }
}

/// The lines of ACL HELP: calls, and indented their effects.
pub const HELP: [&str; 26] = [
    "CAT [<category>]",
    "    List all commands that belong to <category>, or all command categories",
    "    when no category is specified.",
    "DELUSER <username> [<username> ...]",
    "    Delete a list of users.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Returns whether the user can execute the given command without executing the command.",
    "GETUSER <username>",
    "    Get the user's details.",
    "GENPASS [<bits>]",
    "    Generate a secure 256-bit user password. The optional `bits` argument can",
    "    be used to specify a different size.",
    "LIST",
    "    Show users details in config file format.",
    "LOAD",
    "    Reload users from the ACL file.",
    "LOG [<count> | RESET]",
    "    Show the ACL log entries.",
    "SAVE",
    "    Save the current config to the ACL file.",
    "SETUSER <username> <attribute> [<attribute> ...]",
    "    Create or modify a user with the specified attributes.",
    "USERS",
    "    List all the registered usernames.",
    "WHOAMI",
    "    Return the current connection username.",
];
