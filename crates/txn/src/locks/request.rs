//! Many keys at once.

use super::{Asker, KeyLock, Mode};
use crate::Stamp;

/// Where the locks of keys are kept. All keys of a call must be latched together: between two of its steps nobody else comes to them.
pub trait Locks<O> {
    /// What a lock is kept by.
    type Key: ?Sized;

    /// Calls `f` with the key's lock, if one is kept.
    fn of<R>(&mut self, key: &Self::Key, f: impl FnOnce(&mut KeyLock<O>) -> R) -> Option<R>;

    /// Calls `f` with the key's lock, which is made if need be, and forgets the lock if it is free then.
    fn with<R>(&mut self, key: &Self::Key, f: impl FnOnce(&mut KeyLock<O>) -> R) -> R;

    /// Leaves out the transactions that have no locks and wait for none. One that has just given them up may still be left in.
    fn keep_open(&mut self, transactions: &mut Vec<(O, Stamp)>);
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requested {
    /// All keys are held.
    Granted,
    /// So many keys are not held yet; for each of them one [`release`] will name the owner.
    Waits(usize),
    /// It is not patient, and younger than somebody it would wait for: nothing is held, nothing waits.
    Dies,
}

/// How many transactions who is patient may have before it: it names all of them, and so does everybody behind it.
const PATIENT_MAX: usize = 512;

/// A transaction asks for all its keys at this node; a key may be named once. `patient`: it has nothing at other nodes, and waits for whomever it has to.
pub fn request<'k, L: Locks<O>, O: Copy + Eq>(
    locks: &mut L,
    owner: O,
    (stamp, patient): (Stamp, bool),
    keys: impl Iterator<Item = (&'k L::Key, Mode)> + Clone,
) -> Requested
where
    L::Key: 'k,
{
    let mut before = awaited(locks, keys.clone());
    let asker = match is_older(locks, stamp, &mut before) {
        true => Asker::Transaction(stamp),
        false if !patient || before.len() >= PATIENT_MAX => return Requested::Dies,
        false => {
            before.push((owner, stamp));
            Asker::Patient(before.into())
        }
    };
    match claim(locks, owner, &asker, keys) {
        0 => Requested::Granted,
        waits => Requested::Waits(waits),
    }
}

/// A plain command asks for all its keys; a key may be named once. None: nobody is in its way, it may run at once and holds nothing.
/// Otherwise it waits for so many keys, and holds what it has until [`release`].
pub fn request_plain<'k, L: Locks<O>, O: Copy + Eq>(
    locks: &mut L,
    owner: O,
    keys: impl Iterator<Item = (&'k L::Key, Mode)> + Clone,
) -> Option<usize>
where
    L::Key: 'k,
{
    if !keys.clone().any(|(key, mode)| locks.of(key, |lock| lock.is_taken(mode)) == Some(true)) {
        return None;
    }
    let mut each = keys.clone();
    let alone = each.next().filter(|_| each.next().is_none());
    let said = alone.and_then(|(key, mode)| locks.of(key, |lock| lock.awaited_by_last(mode)).flatten());
    // Of those who want one key there may be many, and each would name the same transactions.
    let before = said.unwrap_or_else(|| {
        let mut before = awaited(locks, keys.clone());
        keep_open(locks, &mut before);
        before.into()
    });
    Some(claim(locks, owner, &Asker::Patient(before), keys))
}

/// The transactions that who asks for these keys would wait for, some perhaps more than once, and some that have ended.
fn awaited<'k, L: Locks<O>, O: Copy + Eq>(
    locks: &mut L,
    keys: impl Iterator<Item = (&'k L::Key, Mode)>,
) -> Vec<(O, Stamp)>
where
    L::Key: 'k,
{
    let mut all = Vec::new();
    for (key, mode) in keys {
        locks.of(key, |lock| lock.awaited(mode, |owner, stamp| all.push((owner, stamp))));
    }
    all
}

/// Each of them once, and none that has ended.
fn keep_open<L: Locks<O>, O: Copy + Eq>(locks: &mut L, all: &mut Vec<(O, Stamp)>) {
    // Of one age there are attempts of one transaction: few.
    all.sort_by_key(|(_, stamp)| *stamp);
    all.dedup();
    locks.keep_open(all);
}

/// Whether somebody of this age is older than all of them that have not ended. If not, those are left.
fn is_older<L: Locks<O>, O: Copy + Eq>(locks: &mut L, stamp: Stamp, all: &mut Vec<(O, Stamp)>) -> bool {
    let is_older = |all: &[(O, Stamp)]| all.iter().all(|(_, age)| stamp < *age);
    if is_older(all) {
        return true;
    }
    keep_open(locks, all);
    is_older(all)
}

/// Takes the keys or a place in their queues; for how many it waits.
fn claim<'k, L: Locks<O>, O: Copy + Eq>(
    locks: &mut L,
    owner: O,
    asker: &Asker<O>,
    keys: impl Iterator<Item = (&'k L::Key, Mode)>,
) -> usize
where
    L::Key: 'k,
{
    keys.filter(|(key, mode)| !locks.with(key, |lock| lock.claim(owner, *mode, asker.clone()))).count()
}

/// Who holds `key` shared asks for it exclusively, before all who wait. [`Requested::Waits`] is for one more naming by [`release`]; who dies holds
/// what it held. Who does not hold the key dies: it has lost it.
pub fn upgrade<L: Locks<O>, O: Copy + Eq>(locks: &mut L, owner: O, stamp: Stamp, key: &L::Key) -> Requested {
    let mut all = Vec::new();
    locks.of(key, |lock| lock.awaited_by_holder(owner, |other, stamp| all.push((other, stamp))));
    if !is_older(locks, stamp, &mut all) {
        return Requested::Dies;
    }
    locks.with(key, |lock| match lock.upgrade(owner) {
        Some(true) => Requested::Granted,
        Some(false) => Requested::Waits(1),
        None => Requested::Dies,
    })
}

/// Gives back what `owner` holds of these keys and waits for. Calls `granted` with an owner for each key that is handed on to it.
pub fn release<'k, L: Locks<O>, O: Copy + Eq>(
    locks: &mut L,
    owner: O,
    keys: impl Iterator<Item = &'k L::Key>,
    mut granted: impl FnMut(O),
) where
    L::Key: 'k,
{
    for key in keys {
        if locks.of(key, |_| ()).is_some() {
            locks.with(key, |lock| lock.release(owner, &mut granted));
        }
    }
}

/// Locks the keys of a prepared transaction again, before anybody else may come (rule T2). Answers whether all are held: if not, the log
/// holds two prepared transactions that cannot both be.
pub fn restore<'k, L: Locks<O>, O: Copy + Eq>(
    locks: &mut L,
    owner: O,
    stamp: Stamp,
    keys: impl Iterator<Item = (&'k L::Key, Mode)>,
) -> bool
where
    L::Key: 'k,
{
    claim(locks, owner, &Asker::Transaction(stamp), keys) == 0
}
