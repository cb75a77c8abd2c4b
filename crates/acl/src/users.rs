//! All users, their numbers and revisions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::catalogue::Catalogue;
use crate::check::channel_is_among;
use crate::error::{Refused, has_blank};
use crate::merge::merged;
use crate::ordered::Ordered;
use crate::password::PasswordHash;
use crate::user::{User, UserNumber};

/// The name of the user that connections begin as.
pub(crate) const DEFAULT: &[u8] = b"default";

/// The meaning of rules: the commands there are, and the rights of a new user.
#[derive(Clone, Copy, Debug)]
pub struct RuleBook<'a> {
    /// The commands.
    pub catalogue: &'a Catalogue,
    /// True if `acl-pubsub-default` is `allchannels`.
    pub all_channels: bool,
}

/// All users. There is always one called `default`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Users {
    pub(crate) by_number: BTreeMap<UserNumber, Arc<User>>,
    pub(crate) numbers: BTreeMap<Vec<u8>, UserNumber>,
    pub(crate) next_number: u64,
    pub(crate) revision: u64,
}

/// One user before and after a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// `None`: the user is new.
    pub before: Option<Arc<User>>,
    /// `None`: the user was deleted, and its clients are closed.
    pub after: Option<Arc<User>>,
}

/// The subscriptions that a user's clients keep after a change. A client with another one is closed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Subscriptions {
    /// All subscriptions.
    Untouched,
    /// The subscriptions that these patterns allow.
    Only(Vec<Vec<u8>>),
}

/// A node's knowledge about a user that another node names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing<'a> {
    /// Its rights, of that revision or a later one.
    Known(&'a Arc<User>),
    /// The user was deleted: nothing is allowed.
    Gone,
    /// This node has not heard of that revision yet.
    Behind,
}

impl Users {
    /// The user `default` alone, without a password and with all rights.
    pub fn new(catalogue: &Catalogue) -> Users {
        let mut users = Users { by_number: BTreeMap::new(), numbers: BTreeMap::new(), next_number: 1, revision: 0 };
        users.put(User::full(catalogue));
        users
    }

    pub(crate) fn put(&mut self, user: User) -> Arc<User> {
        let user = Arc::new(user);
        self.numbers.insert(user.name.clone(), user.number);
        self.by_number.insert(user.number, Arc::clone(&user));
        user
    }

    /// The number of changes of users.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The number of users.
    #[allow(clippy::len_without_is_empty, reason = "never empty: there is always the user `default`")]
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The users in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<User>> {
        self.numbers.values().filter_map(|number| self.by_number.get(number))
    }

    /// The user of this name.
    pub fn find(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.by_number.get(self.numbers.get(name)?)
    }

    /// The user with this number.
    pub fn get(&self, number: UserNumber) -> Option<&Arc<User>> {
        self.by_number.get(&number)
    }

    /// The knowledge about a user of which another node has seen `revision`. Later rights count instead of those: the
    /// loss of a right holds from the moment at which a node hears of it.
    pub fn standing(&self, number: UserNumber, revision: u64) -> Standing<'_> {
        match self.by_number.get(&number) {
            Some(user) if user.revision >= revision => Standing::Known(user),
            None if self.revision >= revision && number.0 < self.next_number => Standing::Gone,
            _ => Standing::Behind,
        }
    }

    /// The user that a client becomes by AUTH.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<&Arc<User>> {
        let Some(user) = self.find(name) else {
            // Hashes all the same, so that the reply takes as long as for a wrong password.
            let _ = PasswordHash::of(password);
            return None;
        };
        user.accepts(password).then_some(user)
    }

    /// ACL SETUSER. All rules are applied, or none.
    ///
    /// # Errors
    ///
    /// The name has a blank, or a rule is wrong: no user has changed.
    pub fn set<T: AsRef<[u8]>>(&mut self, book: RuleBook<'_>, name: &[u8], rules: &[T]) -> Result<Change, Refused> {
        if has_blank(name) {
            return Err(Refused::BadName);
        }
        let before = self.find(name).cloned();
        let mut user = match &before {
            Some(user) => User::clone(user),
            None => User::new(name, UserNumber(self.next_number), book.all_channels),
        };
        user.apply_all(book, rules)?;
        Ok(self.replace(before, user))
    }

    /// `requirepass`: the only password of the user `default`, or none. No rights change, and so no revision does:
    /// nodes of a cluster hear of `requirepass` at different times.
    pub fn set_default_password(&mut self, password: Option<PasswordHash>) {
        let Some(user) = self.by_number.get_mut(&UserNumber::DEFAULT) else { return };
        let user = Arc::make_mut(user);
        user.passwords = password.into_iter().collect();
        user.needs_no_password = password.is_none();
    }

    /// Gives the user `default` the passwords that it has among other users.
    pub fn take_default_passwords(&mut self, from: &Users) {
        let Some(known) = from.by_number.get(&UserNumber::DEFAULT) else { return };
        let Some(user) = self.by_number.get_mut(&UserNumber::DEFAULT) else { return };
        let user = Arc::make_mut(user);
        user.passwords.clone_from(&known.passwords);
        user.needs_no_password = known.needs_no_password;
    }

    /// The differences from earlier users: each user that is gone, changed or new now.
    pub fn changes_since(&self, before: &Users) -> Vec<Change> {
        let numbers: BTreeSet<UserNumber> = before.by_number.keys().chain(self.by_number.keys()).copied().collect();
        let change = |number: UserNumber| Change {
            before: before.by_number.get(&number).cloned(),
            after: self.by_number.get(&number).cloned(),
        };
        numbers.into_iter().map(change).filter(|change| change.before != change.after).collect()
    }

    /// Replaces a user. If it has not changed, it keeps its revision.
    fn replace(&mut self, before: Option<Arc<User>>, mut user: User) -> Change {
        if before.as_ref().is_some_and(|before| before.is_like(&user)) {
            return Change { after: before.clone(), before };
        }
        self.revision += 1;
        user.revision = self.revision;
        self.next_number = self.next_number.max(user.number.0 + 1);
        Change { before, after: Some(self.put(user)) }
    }

    /// ACL DELUSER: returns the users that existed.
    ///
    /// # Errors
    ///
    /// The user `default` is among them: no user has changed.
    pub fn delete<T: AsRef<[u8]>>(&mut self, names: &[T]) -> Result<Vec<Change>, Refused> {
        if names.iter().any(|name| name.as_ref() == DEFAULT) {
            return Err(Refused::DefaultStays);
        }
        let gone: Vec<_> = names.iter().filter_map(|name| self.remove(name.as_ref())).collect();
        self.revision += u64::from(!gone.is_empty());
        Ok(gone)
    }

    fn remove(&mut self, name: &[u8]) -> Option<Change> {
        let number = self.numbers.remove(name)?;
        Some(Change { before: self.by_number.remove(&number), after: None })
    }

    /// Replaces all users by these. A name that stays keeps its number, so its clients stay, too.
    pub(crate) fn replace_all(&mut self, catalogue: &Catalogue, mut users: BTreeMap<Vec<u8>, User>) -> Vec<Change> {
        users.entry(DEFAULT.to_vec()).or_insert_with(|| User::full(catalogue));
        let mut next = self.clone();
        next.revision += 1;
        let goes = |name: &&Vec<u8>| !users.contains_key(*name);
        let mut changes: Vec<Change> = self.numbers.keys().filter(goes).filter_map(|name| next.remove(name)).collect();
        for (name, user) in users {
            let before = self.find(&name).cloned();
            if before.as_ref().is_some_and(|before| before.is_like(&user)) {
                continue;
            }
            let number = before.as_ref().map_or(UserNumber(next.next_number), |before| before.number);
            next.next_number = next.next_number.max(number.0 + 1);
            let after = Some(next.put(User { number, revision: next.revision, ..user }));
            changes.push(Change { before, after });
        }
        if !changes.is_empty() {
            *self = next;
        }
        changes
    }
}

impl User {
    /// The user `default` of a server without configured users.
    fn full(catalogue: &Catalogue) -> User {
        let mut user = User::new(DEFAULT, UserNumber::DEFAULT, true);
        user.root.set_all_commands(catalogue, true);
        user.root.all_keys = true;
        user.is_on = true;
        user.needs_no_password = true;
        user
    }

    /// Applies the rules of ACL SETUSER, in which selectors may be in pieces.
    pub(crate) fn apply_all<T: AsRef<[u8]>>(&mut self, book: RuleBook<'_>, rules: &[T]) -> Result<(), Refused> {
        let rules = merged(rules).map_err(|(at, _)| {
            Refused::Unmatched(rules.get(at).map(|rule| rule.as_ref().to_vec()).unwrap_or_default())
        })?;
        for rule in rules {
            let applied = self.apply(book.catalogue, book.all_channels, &rule);
            applied.map_err(|bad| Refused::Rule(rule, bad))?;
        }
        Ok(())
    }
}

impl Change {
    /// The user's number.
    pub fn number(&self) -> Option<UserNumber> {
        self.after.as_ref().or(self.before.as_ref()).map(|user| user.number)
    }

    /// The subscriptions that the user's clients keep.
    pub fn subscriptions(&self) -> Subscriptions {
        let Some(before) = &self.before else { return Subscriptions::Untouched };
        let Some(after) = &self.after else { return Subscriptions::Only(Vec::new()) };
        if after.all_selectors().any(|selector| selector.all_channels) {
            return Subscriptions::Untouched;
        }
        let left: Vec<Vec<u8>> = after.all_selectors().flat_map(|selector| selector.channels.iter().cloned()).collect();
        let known: BTreeSet<&Vec<u8>> = left.iter().collect();
        let keeps = |channels: &Ordered<Vec<u8>>| channels.iter().all(|channel| known.contains(channel));
        if before.all_selectors().all(|selector| !selector.all_channels && keeps(&selector.channels)) {
            return Subscriptions::Untouched;
        }
        Subscriptions::Only(left)
    }
}

impl Subscriptions {
    /// True if a client keeps this subscription.
    pub fn keeps(&self, channel: &[u8], is_pattern: bool) -> bool {
        match self {
            Subscriptions::Untouched => true,
            Subscriptions::Only(left) => channel_is_among(left.iter().map(Vec::as_slice), channel, is_pattern),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::catalogue;

    fn with(f: impl Fn(&mut Users, RuleBook<'_>)) {
        let catalogue = catalogue();
        let mut users = Users::new(&catalogue);
        f(&mut users, RuleBook { catalogue: &catalogue, all_channels: false });
    }

    #[test]
    fn a_number_never_comes_again() {
        with(|users, book| {
            let first = users.set(book, b"bob", &["on"]).unwrap().number().unwrap();
            assert_eq!(users.set(book, b"bob", &["+get"]).unwrap().number(), Some(first));
            assert_eq!(users.delete(&["bob", "nobody"]).unwrap().len(), 1);
            let second = users.set(book, b"bob", &["on"]).unwrap().number().unwrap();
            assert!(second > first && first > UserNumber::DEFAULT);
            assert_eq!(users.delete(&["bob", "default"]), Err(Refused::DefaultStays));
            assert!(users.find(b"bob").is_some());
        });
    }

    #[test]
    fn a_failed_rule_changes_nothing() {
        with(|users, book| {
            users.set(book, b"bob", &["+get"]).unwrap();
            let before = users.clone();
            assert!(users.set(book, b"bob", &["on", "+set", "+nosuch"]).is_err());
            assert!(users.set(book, b"eve", &["on", "(~a"]).is_err());
            assert_eq!(*users, before);
        });
    }

    #[test]
    fn a_revision_stands_for_a_change() {
        with(|users, book| {
            let made = users.set(book, b"bob", &["on", "+get"]).unwrap().after.unwrap();
            assert_eq!((made.revision(), users.revision()), (1, 1));
            users.set(book, b"bob", &["+get"]).unwrap();
            assert_eq!(users.revision(), 1, "nothing has changed");
            let changed = users.set(book, b"bob", &["-get"]).unwrap().after.unwrap();
            assert_eq!(users.standing(made.number(), 1), Standing::Known(&changed));
            assert_eq!(users.standing(made.number(), 3), Standing::Behind);
            users.delete(&["bob"]).unwrap();
            assert_eq!(users.standing(made.number(), 2), Standing::Gone);
            assert_eq!(users.standing(UserNumber(9), 2), Standing::Behind, "another node knows more");
        });
    }

    #[test]
    fn what_has_become_of_users_is_told_by_number() {
        with(|users, book| {
            users.set(book, b"bob", &["on"]).unwrap();
            users.set(book, b"eve", &["on"]).unwrap();
            let before = users.clone();
            assert!(users.changes_since(&before).is_empty());
            users.delete(&["bob"]).unwrap();
            users.set(book, b"bob", &["on"]).unwrap();
            let changes = users.changes_since(&before);
            let shape: Vec<_> = changes.iter().map(|one| (one.before.is_some(), one.after.is_some())).collect();
            assert_eq!(shape, [(true, false), (false, true)], "one bob is gone, another one is there");
            users.set_default_password(Some(PasswordHash::of(b"x")));
            assert_eq!(users.changes_since(&before).len(), 3);
            users.take_default_passwords(&before);
            assert_eq!(users.changes_since(&before), changes);
        });
    }

    #[test]
    fn passwords_and_states_decide_about_a_login() {
        with(|users, book| {
            let logs_in = |users: &Users, password: &[u8]| users.authenticate(b"bob", password).is_some();
            assert!(!logs_in(users, b"a"));
            users.set(book, b"bob", &[">a", ">b"]).unwrap();
            assert!(!logs_in(users, b"a"), "a new user is off");
            users.set(book, b"bob", &["on"]).unwrap();
            assert!(logs_in(users, b"a") && logs_in(users, b"b") && !logs_in(users, b"c"));
            users.set(book, b"bob", &["<a"]).unwrap();
            assert!(!logs_in(users, b"a") && logs_in(users, b"b"));
            users.set(book, b"bob", &["nopass"]).unwrap();
            assert!(logs_in(users, b"whatever"));
            users.set(book, b"bob", &["resetpass"]).unwrap();
            assert!(!logs_in(users, b"b") && !logs_in(users, b""));
            assert!(users.authenticate(b"default", b"").is_some());
            users.set_default_password(Some(PasswordHash::of(b"secret")));
            assert!(users.authenticate(b"default", b"").is_none());
            assert!(users.authenticate(b"default", b"secret").is_some());
            users.set_default_password(None);
            assert!(users.authenticate(b"default", b"x").is_some());
        });
    }

    #[test]
    fn subscriptions_end_whose_channel_is_taken_away() {
        with(|users, book| {
            users.set(book, b"bob", &["&foo:*", "&bar"]).unwrap();
            let more = users.set(book, b"bob", &["&baz"]).unwrap();
            assert_eq!(more.subscriptions(), Subscriptions::Untouched);
            let less = users.set(book, b"bob", &["resetchannels", "&foo:*"]).unwrap().subscriptions();
            assert!(less.keeps(b"foo:1", false) && less.keeps(b"foo:*", true));
            assert!(!less.keeps(b"bar", false) && !less.keeps(b"foo:1", true));
            let all = users.set(book, b"bob", &["allchannels"]).unwrap();
            assert_eq!(all.subscriptions(), Subscriptions::Untouched);
            let none = users.set(book, b"bob", &["resetchannels"]).unwrap();
            assert!(!none.subscriptions().keeps(b"foo:1", false));
        });
    }
}
