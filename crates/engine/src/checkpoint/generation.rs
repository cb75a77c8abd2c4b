//! The log is switched on or off while the server runs (rule L13).
//!
//! A *generation* of the log goes on from a checkpoint of everything that memory held when it began. Its first record
//! says that it begins. A start that finds this record and not the checkpoint ignores all later records. At one moment,
//! when no worker executes anything, all of memory gets a version below every later record; from then on changes are
//! logged.

use command::Generation;
use keyspace::{Databases, Held, Need, PhysicalKey, SLOTS, Waiter};
use redolog::{Gate, Lsn, Record};

use crate::engine::Shared;
use crate::record::{lsn_of, version_before, version_of};

/// Tombstones that are visited in one hold.
const TOMBSTONES_PER_HOLD: usize = 256;

/// Leaves the record of a beginning or an end in the first stream, above all records of any stream. Returns its LSN.
///
/// # Panics
///
/// If there is no stream.
pub fn leave_mark(gates: &mut [Gate], mark: Generation) -> Lsn {
    let (Generation::Begins(now) | Generation::Ends(now)) = mark;
    let last = gates.iter().map(Gate::end).fold(lsn_of(version_before(now)), Lsn::max);
    let lsn = lsn_of(version_of(gates[0].enter().max(last)).above(0));
    gates[0].leave(lsn, |out| Record::encode(lsn, &[], &mark.encode(), out));
    gates[0].exit();
    lsn
}

/// Begins a generation now, with the contents of memory: no worker executes anything, or holds a latch. Later records
/// are above everything there is, and above `begun`, the LSN of the generation's first record. `stored`: the store's
/// databases, which are retired. Returns for each stream the LSN up to which the generation has no record. `None`: a
/// latch is busy, try again.
pub fn begin(
    shared: &Shared,
    gates: &mut [Gate],
    begun: Lsn,
    stored: Option<&Databases>,
    mut wake: impl FnMut(Waiter),
) -> Option<Vec<Lsn>> {
    let held = shared.keyspace.try_acquire(&Need::All, &mut wake).ok()?;
    let passed = pass(shared, gates, &held, begun);
    shared.keyspace.begin_anew(&held, stored);
    shared.keyspace.release(held, wake);
    Some(passed)
}

/// A moment between all earlier and all later changes. Earlier ones are at or below the returned LSN of their stream,
/// which is that of a record. Later ones are above all of these. Holds everything for a moment. `None`: a latch is
/// busy, try again.
pub fn moment(shared: &Shared, gates: &mut [Gate], mut wake: impl FnMut(Waiter)) -> Option<Vec<Lsn>> {
    let held = shared.keyspace.try_acquire(&Need::All, &mut wake).ok()?;
    let passed = pass(shared, gates, &held, Lsn::ZERO);
    shared.keyspace.release(held, wake);
    Some(passed)
}

/// Leaves a record in each stream, above everything there is; every later record is above them all. The last one hides
/// from slots what they stand on, so it stands on all of that itself: on the others' records (rule L4).
fn pass(shared: &Shared, gates: &mut [Gate], held: &Held, above: Lsn) -> Vec<Lsn> {
    let keyspace = &shared.keyspace;
    let mut last = lsn_of(keyspace.last_version(held)).max(above);
    let mut passed = Vec::with_capacity(gates.len());
    for (stream, gate) in gates.iter_mut().enumerate() {
        last = lsn_of(version_of(last.max(gate.enter())).above(stream));
        // Records of other streams may come to depend on it: a start after a crash must find it.
        gate.leave(last, |out| Record::encode(last, &passed, &[], out));
        gate.exit();
        passed.push(last);
    }
    // The databases are as of this moment.
    keyspace.raise(held, version_of(last));
    passed
}

/// The work that is left when there is no store any more: its marks and tombstones are dropped, slot by slot.
#[derive(Default)]
pub struct Clearing {
    slot: usize,
    after: Option<PhysicalKey>,
}

impl Clearing {
    /// From now on none are kept.
    pub fn begin(shared: &Shared) -> Self {
        shared.keyspace.void_marks();
        shared.keyspace.begin_round();
        Self::default()
    }

    /// One hold of a latch. `None`: all is done; false: it is busy.
    pub fn step(&mut self, shared: &Shared, wake: impl FnMut(Waiter)) -> Option<bool> {
        let keyspace = &shared.keyspace;
        if self.slot == SLOTS {
            return None;
        }
        let slot = self.slot as u16;
        let Some(held) = keyspace.try_one(slot) else { return Some(false) };
        keyspace.set_walked(&held, slot, false);
        keyspace.forget_loads(&held, slot);
        self.after = keyspace.drop_tombstones(&held, slot, self.after.take(), TOMBSTONES_PER_HOLD);
        keyspace.release(held, wake);
        self.slot += usize::from(self.after.is_none());
        Some(true)
    }
}
