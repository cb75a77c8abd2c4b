//! What a process of a node with a copy does, as the metadata have it.

use crate::{Copies, Process};

/// A process's part in a shard.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Part {
    /// It was given the term: it seals, and serves.
    Owns,
    /// An earlier life of its node was. It asks for the next term, unless a standby gets that.
    Leads,
    /// It follows with the store that it has.
    Follows,
    /// It asks for a pin ([`crate::Change::Pin`]). Its store goes when the metadata have that, and not before.
    Pins,
    /// Its pin is there, and it has no store: it waits for a checkpoint of the owner.
    Waits,
    /// It was given up in this life: only another life begins anew.
    StartsAgain,
    /// An operator has taken it out: it has nothing to do with the shard.
    Removed,
}

impl Copies {
    /// The part of a process. `has_store`: its node has a store of the shard, which this life has not found to be
    /// damaged or too old. A standby asks again whenever the metadata change.
    #[must_use]
    pub fn part_of(&self, process: Process, has_store: bool) -> Part {
        if self.owner() == process {
            return Part::Owns;
        }
        if self.owner().node == process.node {
            return Part::Leads;
        }
        match self.standby(process.node) {
            Some(standby) if !standby.is_wanted => Part::Removed,
            Some(standby) if standby.is_pinned && standby.life <= process.life && has_store => Part::Follows,
            Some(standby) if standby.is_pinned && standby.life == process.life && !standby.is_electable => Part::Waits,
            Some(standby) if standby.life >= process.life => Part::StartsAgain,
            _ => Part::Pins,
        }
    }
}
