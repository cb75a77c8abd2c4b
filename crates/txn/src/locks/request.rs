//! Many keys at once.

use super::{Asker, KeyLock, Mode};
use crate::Stamp;

/// The place of the locks of keys. All keys of a call must be latched together: between two of its steps no other
/// request comes.
pub trait Locks<O> {
    /// The name of a lock.
    type Key: ?Sized;

    /// Calls `f` with the key's lock, if one is kept.
    fn of<R>(&mut self, key: &Self::Key, f: impl FnOnce(&mut KeyLock<O>) -> R) -> Option<R>;

    /// Calls `f` with the key's lock, which is made if need be, and removes the lock if it is free then.
    fn with<R>(&mut self, key: &Self::Key, f: impl FnOnce(&mut KeyLock<O>) -> R) -> R;

    /// Leaves out the transactions without locks and claims. One that has just given them up may still be left in.
    fn keep_open(&mut self, transactions: &mut Vec<(O, Stamp)>);
}

/// The result of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requested {
    /// All keys are held.
    Granted,
    /// So many keys are not held yet; one [`release`] for each of them will name the owner.
    Waits(usize),
    /// It is not patient, and younger than a transaction that it would wait for: it has no locks and no claims.
    Dies,
}

/// How many transactions may be before a patient one: it names all of them, and so does every waiter behind it.
const PATIENT_MAX: usize = 512;

/// A transaction asks for all its keys at this node; a key may be named once. `patient`: it has nothing at other nodes,
/// and waits for any transaction.
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

/// A plain command asks for all its keys; a key may be named once. `None`: nothing is in its way, it may run at once
/// and holds nothing. Otherwise it waits for so many keys, and holds the others until [`release`].
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
    // One key may have many waiters, and each would name the same transactions.
    let before = said.unwrap_or_else(|| {
        let mut before = awaited(locks, keys.clone());
        keep_open(locks, &mut before);
        before.into()
    });
    Some(claim(locks, owner, &Asker::Patient(before), keys))
}

/// The transactions that a request for these keys would wait for, some perhaps more than once, and some that have
/// ended.
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

/// Each of them once, without ended ones.
fn keep_open<L: Locks<O>, O: Copy + Eq>(locks: &mut L, all: &mut Vec<(O, Stamp)>) {
    // Few have the same age: attempts of one transaction.
    all.sort_by_key(|(_, stamp)| *stamp);
    all.dedup();
    locks.keep_open(all);
}

/// True if a transaction of this age is older than all of them that have not ended. If not, those are left.
fn is_older<L: Locks<O>, O: Copy + Eq>(locks: &mut L, stamp: Stamp, all: &mut Vec<(O, Stamp)>) -> bool {
    let is_older = |all: &[(O, Stamp)]| all.iter().all(|(_, age)| stamp < *age);
    if is_older(all) {
        return true;
    }
    keep_open(locks, all);
    is_older(all)
}

/// Takes the keys or places in their queues. Returns how many it waits for.
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

/// A holder of `key` in shared mode asks for it exclusively, before all waiters. [`Requested::Waits`] stands for one
/// more naming by [`release`]; a request that dies keeps its shared lock. An owner that does not hold the key dies: it
/// has lost it.
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

/// Gives back the locks and claims of `owner` on these keys. Calls `granted` with an owner for each key that is handed
/// on to it.
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

/// Locks the keys of a prepared transaction again, before any other request may come (rule T2). Returns whether all are
/// held: if not, the log has two prepared transactions that cannot both be.
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
