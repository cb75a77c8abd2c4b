//! The users of this server, as all its workers see them (docs/internals/acl.md).

mod absent;
mod files;
mod lacking;
mod shared;

use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use ::membership::items::Principal;
use acl::{Access, AccessLog, Catalogue, Categories, Channels, CommandId, Declared, Denied, KeyUse, KeyUses};
use acl::{Change, RuleBook, Standing, Subscriptions, UserNumber, Users};
use command::{KeyAt, flags, key_flags};
use resp::Args;

use crate::admission::rights::User;
use crate::config::Password;
use crate::node::Node;
use crate::table::{Command, Table};
use crate::worker::message::Message;

pub use files::{begin, configured};
pub(crate) use files::{load, read_file, save, warn_of};
pub use shared::take_known;
pub(crate) use shared::{OfCluster, take};

/// The users, and the log of denied requests.
pub(crate) struct UserTable {
    catalogue: Catalogue,
    /// The number of commands that are there; the catalogue has absent ones behind them.
    commands: usize,
    state: RwLock<State>,
    /// Rises with every change of users: written under the lock, read by every command without it.
    generation: AtomicU64,
    log: Mutex<AccessLog>,
    /// Ids of clients that have asked a cluster for a change of users, and hear of the outcome.
    asking: Mutex<Vec<u64>>,
}

struct State {
    users: Users,
    /// The `requirepass` that `default` has taken last.
    password: Option<Password>,
    /// The users that a cluster has agreed on.
    agreed: Option<OfCluster>,
    /// True for a node of a cluster that has not heard of them yet.
    awaits_cluster: bool,
    /// The users of this node's files, for a cluster that has none.
    seed: Option<Arc<[u8]>>,
}

/// The user of a client that has logged in.
pub(crate) struct Login {
    /// The user for whom its commands run.
    pub user: User,
    /// The user's name.
    pub name: Vec<u8>,
}

/// A command that a user may not run.
pub(crate) enum Denial {
    /// The user lacks a right.
    OfRights {
        /// The right.
        denied: Denied,
        /// The user's name.
        user: Vec<u8>,
        /// The command, key or channel.
        object: Vec<u8>,
        /// The text that the errors share.
        brief: Vec<u8>,
    },
    /// Patterns of SORT, which lead to keys that are no arguments; the error.
    OfPatterns(&'static str),
    /// Another node names rights of which this one has not heard yet.
    Behind,
}

/// The error while this node has not heard of a user's rights.
const BEHIND: &str = "CLUSTERDOWN this node has not heard yet of the rights that the user has";

impl UserTable {
    /// The user `default` alone, with all rights.
    pub fn new(table: &Table) -> UserTable {
        let catalogue = catalogue(table);
        let users = Users::new(&catalogue);
        let state = State { users, password: None, agreed: None, awaits_cluster: false, seed: None };
        let (state, generation) = (RwLock::new(state), AtomicU64::new(0));
        let commands = table.all().len();
        UserTable { catalogue, commands, state, generation, log: Mutex::default(), asking: Mutex::default() }
    }

    /// Rises with every change of users.
    #[inline(always)]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Acquire)
    }

    /// The commands that rules name.
    pub(crate) fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The log of denied requests.
    pub(crate) fn log(&self) -> MutexGuard<'_, AccessLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_state(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the users.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&Users) -> T) -> T {
        look(&self.read_state().users)
    }

    /// Changes users.
    pub(crate) fn change<T>(&self, all_channels: bool, change: impl FnOnce(&mut Users, RuleBook<'_>) -> T) -> T {
        let mut state = self.write_state();
        let changed = change(&mut state.users, RuleBook { catalogue: &self.catalogue, all_channels });
        self.generation.fetch_add(1, Release);
        changed
    }

    /// Gives the user `default` the password of `requirepass`, if that has changed since it last got it. Called before
    /// anything that a password decides.
    pub(crate) fn keep_up(&self, requirepass: Option<&Password>) {
        if self.read_state().password.as_ref() == requirepass {
            return;
        }
        let mut state = self.write_state();
        state.follow(requirepass);
        self.generation.fetch_add(1, Release);
    }

    /// True if a new connection may run commands as the user `default`.
    pub(crate) fn lets_in(&self, requirepass: Option<&Password>) -> bool {
        self.keep_up(requirepass);
        self.read(|users| users.get(UserNumber::DEFAULT).is_some_and(|user| user.is_on() && user.needs_no_password()))
    }

    /// True if any password will do for the user `default`.
    pub(crate) fn needs_no_password(&self, requirepass: Option<&Password>) -> bool {
        self.keep_up(requirepass);
        self.read(|users| users.get(UserNumber::DEFAULT).is_some_and(|user| user.needs_no_password()))
    }

    /// AUTH.
    pub(crate) fn log_in(&self, requirepass: Option<&Password>, name: &[u8], password: &[u8]) -> Option<Login> {
        self.keep_up(requirepass);
        self.read(|users| {
            let user = users.authenticate(name, password)?;
            let principal = Principal { user: number_on_wire(user.number()), revision: user.revision() };
            Some(Login { user: User::new(principal), name: user.name().to_vec() })
        })
    }

    /// The login of a client whose certificate names a user. None: there is no such user, or it is off.
    pub(crate) fn named_by_certificate(&self, requirepass: Option<&Password>, name: &[u8]) -> Option<Login> {
        self.keep_up(requirepass);
        self.read(|users| {
            let user = users.find(name).filter(|user| user.is_on())?;
            let principal = Principal { user: number_on_wire(user.number()), revision: user.revision() };
            Some(Login { user: User::new(principal), name: user.name().to_vec() })
        })
    }

    /// The reason why a user may not run a command, if there is one. A user that may do everything is marked, and is
    /// not checked again before users change.
    #[cold]
    pub(crate) fn refusal(&self, user: &mut User, command: &Command, args: Args<'_>) -> Option<Denial> {
        if user.principal == User::NODE.principal {
            user.full_at = self.generation();
            return None;
        }
        let state = self.read_state();
        let number = UserNumber(user.principal.user.into());
        let known = match state.users.standing(number, user.principal.revision) {
            Standing::Known(known) => known,
            Standing::Behind => return Some(Denial::Behind),
            Standing::Gone => {
                // The user was deleted, and its clients are about to be closed.
                let brief = b"User is deleted".to_vec();
                let (denied, object) = (Denied::Command, command.name.clone().into());
                return Some(Denial::OfRights { denied, user: Vec::new(), object, brief });
            }
        };
        user.principal.revision = known.revision();
        if known.is_full() {
            user.full_at = self.generation();
            return None;
        }
        user.full_at = User::NEVER;
        let id = id_of(command);
        let find = |keys: &mut KeyUses| find_keys(command, args, keys);
        let Err(denied) = known.check(&self.catalogue, id, args, find) else {
            let patterns = patterns_of_sort(command, args)?;
            let may = known.check_with_any_key(&self.catalogue, id, args, find, Access::READ);
            return if may { None } else { Some(Denial::OfPatterns(patterns)) };
        };
        Some(Denial::OfRights {
            denied,
            user: known.name().to_vec(),
            object: denied.object(&self.catalogue, id, args),
            brief: denied.brief(known, &self.catalogue, id),
        })
    }
}

impl Denial {
    /// The error for a client.
    pub(crate) fn reply(&self) -> Vec<u8> {
        match self {
            Denial::OfRights { brief, .. } => [b"NOPERM ", &brief[..]].concat(),
            Denial::OfPatterns(error) => error.as_bytes().to_vec(),
            Denial::Behind => BEHIND.into(),
        }
    }

    /// The error for a script.
    pub(crate) fn in_script(&self) -> Vec<u8> {
        match self {
            Denial::OfRights { brief, .. } => [b"ERR ACL failure in script: ", &brief[..]].concat(),
            Denial::OfPatterns(error) => error.as_bytes().to_vec(),
            Denial::Behind => BEHIND.into(),
        }
    }

    /// The error of a command that was queued when it was still allowed.
    pub(crate) fn in_exec(&self) -> Vec<u8> {
        match self {
            Denial::OfRights { denied, .. } => denied.in_exec().as_bytes().to_vec(),
            Denial::OfPatterns(error) => error.as_bytes().to_vec(),
            Denial::Behind => BEHIND.into(),
        }
    }

    /// The entry of ACL LOG, if there is one.
    pub(crate) fn event(self, context: acl::Context, client: Vec<u8>) -> Option<acl::Event> {
        match self {
            Denial::OfRights { denied, user, object, .. } => {
                Some(acl::Event { reason: denied.reason(), context, object, user, client })
            }
            Denial::OfPatterns(_) | Denial::Behind => None,
        }
    }
}

/// The error of the first pattern of SORT that leads to keys other than its arguments.
fn patterns_of_sort(command: &Command, args: Args<'_>) -> Option<&'static str> {
    if !matches!(&*command.name, "sort" | "sort_ro") {
        return None;
    }
    let is = |at: usize, word: &str| args.get(at).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
    let mut at = 2;
    while at + 1 < args.len() {
        if is(at, "by") && args[at + 1].contains(&b'*') {
            return Some("ERR BY option of SORT denied due to insufficient ACL permissions.");
        }
        if is(at, "get") {
            return Some("ERR GET option of SORT denied due to insufficient ACL permissions.");
        }
        at += match at {
            at if is(at, "limit") => 3,
            at if is(at, "by") || is(at, "store") => 2,
            _ => 1,
        };
    }
    None
}

/// The number of a user as nodes name it to each other. There are never so many that it does not fit; the highest one
/// is the node itself ([`User::NODE`]).
pub(crate) fn number_on_wire(number: UserNumber) -> u32 {
    u32::try_from(number.0).unwrap_or(u32::MAX).min(u32::MAX - 1)
}

/// DEBUG's subcommands are first arguments to rules.
pub(crate) fn id_of(command: &Command) -> CommandId {
    CommandId(if command.is_hidden() { command.counted_as } else { command.id } as u16)
}

/// The keys of a request, with the access to each.
pub(crate) fn find_keys(command: &Command, args: Args<'_>, keys: &mut KeyUses) {
    let mut found = Vec::new();
    if !command.spec.keys_of(args, &mut found) {
        return;
    }
    keys.extend(found.iter().map(|KeyAt { index, flags }| {
        let changes = key_flags::INSERT | key_flags::UPDATE | key_flags::DELETE;
        KeyUse { index: *index, access: Access::new(flags & key_flags::ACCESS != 0, flags & changes != 0) }
    }));
}

/// Makes workers end waits of commands that their users may not run any more, and close clients with subscriptions that
/// their users may not have any more.
pub(crate) fn follow(node: &Node, changes: &[Change]) {
    if !changes.is_empty() {
        // A change of keys that comes behind this one must serve no command that may not run any more.
        node.clients().values().for_each(|client| client.seat.hold());
        (0..node.workers()).for_each(|worker| node.send(worker, Message::RightsChanged));
    }
    for change in changes.iter().filter(|change| change.after.is_some()) {
        let (Subscriptions::Only(_), Some(number)) = (change.subscriptions(), change.number()) else { continue };
        let left = Arc::new(change.subscriptions());
        for worker in 0..node.workers() {
            node.send(worker, Message::ChannelsLost { user: number_on_wire(number), left: left.clone() });
        }
    }
}

fn hash_of(password: &Password) -> acl::PasswordHash {
    match password {
        Password::Plain(text) => acl::PasswordHash::of(text),
        Password::Hash(hash) => acl::PasswordHash::from(*hash),
    }
}

fn catalogue(table: &Table) -> Catalogue {
    absent::with_absent(table.all().iter().map(|command| Declared {
        name: command.name.clone(),
        arity: command.spec.arity,
        categories: Categories::named(command.categories()).unwrap_or_default(),
        is_free: command.spec.has(flags::NO_AUTH),
        channels: match &*command.name {
            "publish" | "spublish" => Channels::First,
            "subscribe" | "ssubscribe" => Channels::All,
            "psubscribe" => Channels::Patterns,
            _ => Channels::None,
        },
        is_hidden: command.is_hidden(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_of_commands_are_known() {
        for command in Table::new().all() {
            assert!(Categories::named(command.categories()).is_some(), "{}", command.name);
        }
    }

    /// Requests whose keys follow words.
    const WITH_WORDS: &[&str] = &[
        "xread streams k 0",
        "xreadgroup group g c streams k 0",
        "sort mine store k",
        "georadius mine 0 0 1 m store k",
    ];

    /// The keys of a request, if it is one, and the reply to a user that may use the key `mine` alone.
    fn of_poor_user(users: &UserTable, table: &Table, words: &[&str]) -> Option<bool> {
        let mut batch = resp::Batch::new();
        assert!(batch.push_copy(words.iter().map(|word| word.as_bytes())));
        let args = batch.args(0, &[]);
        let command = table.find_command(&args[0])?;
        let command = table.with_word(command, args.get(1)).unwrap_or(command);
        let mut keys = KeyUses::default();
        find_keys(command, args, &mut keys);
        if !command.spec.accepts(args.len()) || keys.is_empty() {
            return None;
        }
        let number = users.read(|users| users.find(b"eve").map(|user| user.number())).unwrap();
        let mut eve = User::new(Principal { user: number_on_wire(number), revision: 0 });
        let denial = users.refusal(&mut eve, command, args);
        Some(matches!(denial, Some(Denial::OfRights { denied: Denied::Key(_), .. })))
    }

    #[test]
    fn every_command_with_keys_is_denied_to_a_user_without_the_key() {
        let table = Table::new();
        let users = UserTable::new(&table);
        users.change(false, |users, book| users.set(book, b"eve", &["on", "nopass", "+@all", "~mine"])).unwrap();
        let (mut all, mut met) = (0, std::collections::BTreeSet::new());
        let mut ask = |name: &str, words: &[&str]| {
            if let Some(is_denied) = of_poor_user(&users, &table, words) {
                assert!(is_denied, "{words:?}");
                met.insert(name.to_owned());
            }
        };
        for line in WITH_WORDS {
            let words: Vec<&str> = line.split(' ').collect();
            ask(words[0], &words);
        }
        let with_keys = |command: &&Command| {
            let spec = command.spec;
            let named = spec.keys.iter().any(|key| key.flags & key_flags::NOT_KEY == 0);
            // To rules, DEBUG has no keys, as in Redis.
            !command.is_hidden() && (named || spec.find_keys.is_some() || spec.find_all_keys.is_some())
        };
        let commands: Vec<&Command> = table.all().iter().filter(with_keys).collect();
        for command in &commands {
            all += 1;
            // The number of keys is at one of the first places, or there is none.
            for (arguments, number_at) in (1..10).flat_map(|n| [9, 0, 1, 2].map(|at| (n, at))) {
                let mut words: Vec<&str> = command.name.split('|').collect();
                words.extend((0..arguments).map(|at| if at == number_at { "1" } else { "k" }));
                ask(&command.name, &words);
            }
        }
        let unmet: Vec<&str> =
            commands.iter().map(|command| &*command.name).filter(|name| !met.contains(*name)).collect();
        assert!(unmet.is_empty() && all > 150, "no request with keys is known of {unmet:?}");
    }
}
