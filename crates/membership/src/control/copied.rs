//! The part of this process in copies of shards' data: what it is, what it hears, and what it proposes.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use standby::{Change, NodeNumber, Part, Process, Standby};

use super::folder::Folder;
use super::{Control, HeardStandby, levels};
use crate::meta::{ChangeCopies, Command, Response, Shard};
use crate::{BootNs, ShardId, Term};

impl Control {
    /// The term of a shard with standbys that this node's lease was granted for, and until when; none: it was granted for
    /// none. A process that is given another term has no lease for that one yet.
    pub fn leased(&self) -> Option<(Term, BootNs)> {
        *self.agent.shared.leased.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pinned standbys of the shard that this process owns, as far as the leader of the metadata has heard them within
    /// a lease's time. What is new comes with each renewal of the lease.
    pub fn standbys(&self) -> Vec<HeardStandby> {
        self.agent.shared.standbys.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// This process. None: the metadata do not know its node.
    pub fn process(&self) -> Option<Process> {
        let map = self.map();
        let node = NodeNumber(map.node(map.index_of(self.id())?).number);
        Some(Process { node, life: self.incarnation() })
    }

    /// The shard that this process has to do with, and its part in it by the present map. `has_store`: its node has a store
    /// of the shard, which this life has not found to be damaged or too old. None: it owns no shard and is no standby.
    pub fn part(&self, has_store: bool) -> Option<(Shard, Part)> {
        let (map, process) = (self.map(), self.process()?);
        let owns = |shard: &&Shard| shard.owner == self.id() || shard.standbys.contains_key(&process.node);
        let shard = map.shards().iter().find(owns)?;
        Some((shard.clone(), map.data_copies(shard)?.part_of(process, has_store)))
    }

    /// The shard that the node whose state is in `folder` is to be a standby of, and what the metadata say of it: it may
    /// have been given up in its last life. By its files, which are only read: the last changes count, though they may not
    /// be committed. `None`: it is none, or the files cannot be read, which the start reports.
    pub fn known_part(folder: &Path) -> Option<(Shard, Standby)> {
        let kept = Folder::read(folder, None).ok().flatten()?;
        let map = levels::state_of(&kept, u64::MAX).map(|_| false);
        let number = NodeNumber(map.node(map.index_of(kept.node)?).number);
        let of = |shard: &Shard| shard.standbys.get(&number).copied().filter(|standby| standby.is_wanted);
        map.shards().iter().find_map(|shard| Some((shard.clone(), of(shard)?)))
    }

    /// Asks for a pin of this process as a standby of a shard (rule S4). `then` hears from the control thread that the
    /// metadata have it, or why not.
    pub fn pin(&self, shard: ShardId, then: impl FnOnce(Result<(), String>) + Send + 'static) {
        match self.process() {
            Some(standby) => self.change_copies(shard, Change::Pin { standby }, then),
            None => then(Err("the metadata do not know this node yet".to_owned())),
        }
    }

    /// Proposes a change of a shard's copies, such as [`standby::Floor`] makes at its owner. `then` is called as by
    /// [`Self::pin`].
    pub fn change_copies(
        &self,
        shard: ShardId,
        change: Change,
        then: impl FnOnce(Result<(), String>) + Send + 'static,
    ) {
        let (agent, command) = (Arc::clone(&self.agent), Command::Copies(ChangeCopies { shard, change }));
        self.runtime.spawn(async move {
            then(match agent.submit_patiently(&command).await {
                Ok(Response::Done { .. }) => Ok(()),
                Ok(Response::Refused(why)) => Err(why.in_words(&agent.machine.map())),
                Err(why) => Err(why),
            });
        });
    }
}
