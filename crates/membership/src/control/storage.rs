//! Raft's log and state machine on the node's state.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{Stream, TryStreamExt};
use openraft::storage::{
    EntryResponder, IOFlushed, LogState, RaftLogReader, RaftLogStorage, RaftSnapshotBuilder, RaftStateMachine,
};
use openraft::{EntryPayload, OptionalSend};
use tokio::sync::watch;

use super::disk::Disk;
use super::levels::Levels;
use super::libraries::sendable;
use super::types::{Entry, LogId, Snapshot, SnapshotMeta, StoredMembers, Types, Vote};
use crate::NodeId;
use crate::map::Map;
use crate::meta::{Image, Response, State};

/// The log.
#[derive(Clone)]
pub struct Log(pub Disk);

fn start_of(range: &impl RangeBounds<u64>) -> u64 {
    match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&start) => start + 1,
        Bound::Unbounded => 0,
    }
}

impl RaftLogReader<Types> for Log {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> io::Result<Vec<Entry>> {
        let start = start_of(&range);
        let kept = self.0.kept();
        // A range that ends before it begins is empty, and a panic of BTreeMap's.
        let entries = kept.entries.range(start..).map(|(_, entry)| entry);
        Ok(entries.take_while(|entry| range.contains(&entry.log_id.index)).cloned().collect())
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        let kept = self.0.kept();
        let entries = kept.entries.range(start..).map(|(_, entry)| entry);
        Ok(sendable(entries.take_while(|entry| entry.log_id.index < end)).cloned().collect())
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.0.kept().vote)
    }
}

impl RaftLogStorage<Types> for Log {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        let kept = self.0.kept();
        let last = kept.entries.last_key_value().map(|(_, entry)| entry.log_id);
        Ok(LogState { last_purged_log_id: kept.purged, last_log_id: last.or(kept.purged) })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let vote = *vote;
        self.0.change(|kept| kept.vote = Some(vote)).await
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        // On the disk with the next write: a start that does not know it learns it from the others.
        self.0.kept().committed = committed;
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        let kept = self.0.kept();
        // With the bytes from before the last entries were cut it may name one that is not there.
        let last = kept.entries.last_key_value().map(|(_, entry)| entry.log_id).or(kept.purged);
        Ok(kept.committed.min(last))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        let append =
            |kept: &mut super::kept::Kept| kept.entries.extend(entries.into_iter().map(|e| (e.log_id.index, e)));
        self.0.change_then(append, callback);
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let first_gone = last.map_or(0, |last| last.index + 1);
        self.0.change(|kept| drop(kept.entries.split_off(&first_gone))).await
    }

    async fn purge(&mut self, up_to: LogId) -> io::Result<()> {
        // With the next write: purged entries are in a durable snapshot.
        let mut kept = self.0.kept();
        kept.entries = kept.entries.split_off(&(up_to.index + 1));
        kept.purged = kept.purged.max(Some(up_to));
        Ok(())
    }
}

/// The applied state.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    pub state: State,
    pub last: Option<LogId>,
    pub members: StoredMembers,
}

impl Applied {
    fn of(snapshot: &Snapshot) -> io::Result<Self> {
        let state = State::restore(&snapshot.snapshot).map_err(io::Error::other)?;
        Ok(Self { state, last: snapshot.meta.last_log_id, members: snapshot.meta.last_membership.clone() })
    }

    /// True if the node votes.
    pub fn votes(&self, id: NodeId) -> bool {
        self.members.membership().get_joint_config().iter().any(|config| config.contains(&id))
    }

    fn map(&self) -> Map {
        self.state.map(|id| self.votes(id))
    }
}

/// Gets every new map.
pub type OnMap = Arc<dyn Fn(Arc<Map>) + Send + Sync>;

/// The state machine: [`State`], and its listeners.
#[derive(Clone)]
pub struct Machine {
    disk: Disk,
    applied: Arc<Mutex<Applied>>,
    /// The index of the last entry that has been applied; 0 before the first.
    index: Arc<watch::Sender<u64>>,
    map: Arc<Mutex<Arc<Map>>>,
    on_map: OnMap,
    /// The cluster's level.
    pub levels: Levels,
}

impl Machine {
    /// The machine as of the last snapshot.
    pub fn new(disk: Disk, on_map: OnMap) -> io::Result<Self> {
        let applied = disk.kept().snapshot.as_ref().map(Applied::of).transpose()?.unwrap_or_default();
        let map = Arc::new(Mutex::new(Arc::new(applied.map())));
        let index = Arc::new(watch::Sender::new(applied.last.map_or(0, |last| last.index)));
        let levels = Levels::default();
        levels.apply(applied.state.level());
        Ok(Self { disk, applied: Arc::new(Mutex::new(applied)), index, map, on_map, levels })
    }

    /// The present map.
    pub fn map(&self) -> Arc<Map> {
        Arc::clone(&self.map.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the applied state.
    pub fn look<T>(&self, at: impl FnOnce(&Applied) -> T) -> T {
        at(&self.applied.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends the index of the last applied entry.
    pub fn index(&self) -> watch::Receiver<u64> {
        self.index.subscribe()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Applied) -> T) -> T {
        change(&mut self.applied.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Publishes the applied state.
    fn publish(&self) {
        let (map, index) = self.look(|applied| (applied.map(), applied.last.map_or(0, |last| last.index)));
        self.levels.apply(map.level());
        let new = {
            let mut current = self.map.lock().unwrap_or_else(PoisonError::into_inner);
            let new = (**current != map).then(|| Arc::new(map));
            if let Some(new) = &new {
                *current = Arc::clone(new);
            }
            new
        };
        if let Some(new) = new {
            (self.on_map)(new);
        }
        self.index.send_replace(index);
    }

    async fn keep(&self, snapshot: Snapshot) -> io::Result<()> {
        self.disk.change(|kept| kept.snapshot = Some(snapshot)).await
    }
}

impl RaftSnapshotBuilder<Types> for Machine {
    type SnapshotData = Image;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let snapshot = self.look(|applied| Snapshot {
            meta: SnapshotMeta { last_log_id: applied.last, last_membership: applied.members.clone() },
            snapshot: applied.state.snapshot(),
        });
        self.keep(snapshot.clone()).await?;
        Ok(snapshot)
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotData = Image;
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembers)> {
        Ok(self.look(|applied| (applied.last, applied.members.clone())))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + OptionalSend,
    {
        let mut answers = Vec::new();
        while let Some((entry, responder)) = entries.try_next().await? {
            let response = self.change(|applied| {
                applied.last = Some(entry.log_id);
                match &entry.payload {
                    EntryPayload::Blank => {}
                    EntryPayload::Membership(members) => {
                        applied.members = StoredMembers::new(Some(entry.log_id), members.clone());
                    }
                    EntryPayload::Normal(command) => return applied.state.apply(command),
                }
                Response::Done { version: applied.state.version(), epoch: 0 }
            });
            answers.extend(responder.map(|responder| (responder, response)));
        }
        // A caller that is answered finds it in the map.
        self.publish();
        answers.into_iter().for_each(|(responder, response)| responder.send(response));
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: Image) -> io::Result<()> {
        let snapshot = Snapshot { meta: meta.clone(), snapshot };
        let applied = Applied::of(&snapshot)?;
        self.keep(snapshot).await?;
        self.change(|current| *current = applied);
        self.publish();
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        Ok(self.disk.kept().snapshot.clone())
    }
}
