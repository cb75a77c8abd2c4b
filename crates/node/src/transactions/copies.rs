//! Copies of large keys, of other nodes and of this one, that a worker has fetched for blocks.
//!
//! Without copies, a script over nodes that adds an element to a long list would fetch the whole list for each element.
//! So a worker keeps the copies and names their versions when it fetches the keys again. The owner then answers with
//! the changes since that version ([`engine::STEPS`]). A copy is used only together with the owner's answer.

use std::collections::BTreeMap;

use clocks::UnixMs;
use engine::{BlockRun, LARGE, STEPS, Workspace};
use keyspace::{Value, Version};
use txn::{Member, Part, ParticipantId};

use super::wire::{self, Steps};

/// Most bytes of the copies of a worker, and most copies.
const BYTES_MAX: usize = 8 << 20;
const COPIES_MAX: usize = 64;
/// Bytes of the longest key of which a copy is kept: a part names it.
const KEY_MAX: usize = 1 << 10;

/// The copies of one worker.
#[derive(Default)]
pub(super) struct Copies {
    all: BTreeMap<(u16, Box<[u8]>), Copy>,
    bytes: usize,
    /// Counts uses.
    uses: u64,
}

struct Copy {
    /// The key's owner, and the life in which it sent this copy.
    owner: Member,
    version: Version,
    /// And when it ends.
    value: (Value, Option<UnixMs>),
    bytes: usize,
    used: u64,
}

/// Why a key is not what its owner says by steps.
pub(super) enum NoCopy {
    /// There is no copy any more from which they lead on.
    Gone,
    Wrong,
}

impl Copies {
    /// Names in parts which versions of their keys there are copies of.
    pub(super) fn name_in(&self, parts: &mut [Part]) {
        for part in parts {
            let mut commands = Vec::new();
            for lock in part.locks.iter() {
                let copy = self.all.get(&(lock.db, lock.key.clone())).filter(|copy| copy.owner == part.member);
                if let Some(copy) = copy {
                    wire::name_copy(&mut commands, lock.place(), copy.version);
                }
            }
            if !commands.is_empty() {
                part.commands = [&*part.commands, &commands].concat().into();
            }
        }
    }

    /// Puts a key into a workspace. Its owner has sent the steps since a version that there is a copy of. Returns the
    /// bytes of the copy, so that the limit for what a script fetches does not depend on whether there are copies.
    pub(super) fn fill(
        &mut self,
        workspace: &mut Workspace,
        amid: Option<&BlockRun>,
        owner: ParticipantId,
        (version, steps): (Version, Steps<'_>),
    ) -> Result<usize, NoCopy> {
        let place = (steps.db, Box::from(steps.key));
        let copy = self.all.get(&place).filter(|copy| copy.owner.id == owner).ok_or(NoCopy::Gone)?;
        let first = match copy.version == version {
            true => steps.steps.len(),
            // Others have got further steps meanwhile.
            false => steps.steps.iter().position(|(from, _)| *from == copy.version).ok_or(NoCopy::Gone)?,
        };
        let further = steps.steps[first..].iter().map(|(_, effects)| *effects);
        let value = (&copy.value.0, copy.value.1);
        workspace.put_copy((steps.db, steps.key), value, further, amid).map_err(|_| NoCopy::Wrong)?;
        Ok(copy.bytes)
    }

    /// Keeps a copy of a large key that was put into a workspace as its owner sent it.
    pub(super) fn keep(
        &mut self,
        workspace: &mut Workspace,
        amid: Option<&BlockRun>,
        owner: Member,
        (place, version): ((u16, &[u8]), Version),
    ) {
        let key = (place.0, Box::from(place.1));
        self.uses += 1;
        if let Some(copy) = self.all.get_mut(&key).filter(|copy| copy.owner == owner && copy.version == version) {
            copy.used = self.uses;
            return;
        }
        self.drop_copy(&key);
        let Some((value, bytes)) = workspace.copy_of(place, LARGE, amid) else { return };
        if place.1.len() > KEY_MAX || bytes > BYTES_MAX {
            return;
        }
        while self.bytes + bytes > BYTES_MAX || self.all.len() >= COPIES_MAX {
            let Some(oldest) = self.all.iter().min_by_key(|(_, copy)| copy.used).map(|(key, _)| key.clone()) else {
                break;
            };
            self.drop_copy(&oldest);
        }
        self.bytes += bytes;
        self.all.insert(key, Copy { owner, version, value, bytes, used: self.uses });
    }

    fn drop_copy(&mut self, key: &(u16, Box<[u8]>)) {
        self.bytes -= self.all.remove(key).map_or(0, |copy| copy.bytes);
    }
}

/// True if a node has sent the steps of a key, and not all of it.
pub(super) fn are_steps(said: &[u8]) -> bool {
    said.first() == Some(&STEPS)
}
