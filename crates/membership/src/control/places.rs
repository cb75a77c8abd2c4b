//! The places of this member in log groups: its process makes the folders, and tells the cluster their names.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::timeout;

use super::agent::Agent;
use crate::map::Map;
use crate::meta::{Command, GroupCommand, Place, Report, Response};
use crate::{AcceptorId, ClusterId, NodeId, ShardId};

/// How long a failed attempt is left alone, unless the metadata change: at first, as the log of a shard that was given up
/// is closed only then; and in the end.
const SOON: Duration = Duration::from_millis(100);
const AGAIN: Duration = Duration::from_secs(5);

/// A folder that this process is to have.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Wanted {
    /// The cluster, which every folder names from now on.
    pub cluster: Option<ClusterId>,
    /// The shard whose log it copies.
    pub shard: ShardId,
    /// An absolute path, or [`crate::meta::DEFAULT_DIR`].
    pub dir: String,
    /// The number of streams; none: this process owns the shard, the folder is that of its log, and the process knows.
    pub streams: Option<u16>,
}

/// A folder that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Made {
    /// Its name.
    pub acceptor: AcceptorId,
    /// The number of its streams.
    pub streams: u16,
}

/// Opens a folder, or makes it if there is none. False: the metadata know no folder at this place. It is new, or an
/// operator has given it anew, so whatever cannot be opened there makes room. It may wait for a disk. An error is in words;
/// it is asked again.
pub type OnPlace = Arc<dyn Fn(&Wanted, bool) -> Result<Made, String> + Send + Sync>;

/// The folders of this process.
pub struct Places {
    open: OnPlace,
    /// Those that are not as they should be, and the reasons.
    troubles: Mutex<BTreeMap<Wanted, String>>,
}

impl Places {
    pub fn new(open: OnPlace) -> Self {
        Self { open, troubles: Mutex::default() }
    }

    /// The reasons why copies are not where they belong, in words; empty: none.
    pub fn trouble(&self) -> String {
        let troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        let mut words: Vec<String> = troubles
            .iter()
            .map(|(wanted, why)| format!("has no copy of shard {} in {}: {why}", wanted.shard.0, wanted.dir))
            .collect();
        words.dedup();
        words.join("; ")
    }

    /// Notes how it went.
    fn note(&self, wanted: &Wanted, outcome: Result<(), String>) {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(()) => drop(troubles.remove(wanted)),
            Err(why) => {
                if troubles.get(wanted) != Some(&why) {
                    tracing::warn!("this process has no copy of shard {} in {}: {why}", wanted.shard.0, wanted.dir);
                }
                troubles.insert(wanted.clone(), why);
            }
        }
    }

    fn keep(&self, wanted: &[Wanted]) {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner).retain(|of, _| wanted.contains(of));
    }
}

/// The folders that a member is to have.
fn wanted(map: &Map, me: NodeId) -> Vec<Wanted> {
    let of_shard = |shard: &crate::meta::Shard| {
        let streams = match shard.owner == me {
            true => None,
            // Its owner has to come first.
            false if shard.streams == 0 => return Vec::new(),
            false => Some(shard.streams),
        };
        let mine = map.copies_of(shard).into_iter().filter(|place| place.member == me);
        mine.map(|Place { dir, .. }| Wanted { cluster: map.cluster(), shard: shard.id, dir, streams }).collect()
    };
    map.shards().iter().flat_map(of_shard).collect()
}

impl Agent {
    /// Has the folders of this member made, and their names known, for ever.
    pub async fn keep_places(self: Arc<Self>) {
        let mut applied = self.machine.index();
        let mut made: BTreeMap<Wanted, Made> = BTreeMap::new();
        let mut pause = SOON;
        loop {
            applied.borrow_and_update();
            let (map, me) = (self.machine.map(), self.me());
            // The metadata hear nothing of a life that they do not know yet.
            let incarnation = self.disk.kept().incarnation;
            let is_known = map.member(me).is_some_and(|member| member.incarnation == incarnation);
            let wanted = if is_known { wanted(&map, me) } else { Vec::new() };
            made.retain(|of, _| wanted.contains(of));
            self.places.keep(&wanted);
            for one in &wanted {
                let outcome = self.keep_place(&map, one, &mut made).await;
                self.places.note(one, outcome);
            }
            let is_stopping = if self.places.trouble().is_empty() {
                pause = SOON;
                applied.changed().await.is_err()
            } else {
                let waited = timeout(pause, applied.changed()).await;
                pause = (2 * pause).min(AGAIN);
                waited.is_ok_and(|changed| changed.is_err())
            };
            if is_stopping {
                return;
            }
        }
    }

    async fn keep_place(
        self: &Arc<Self>,
        map: &Map,
        wanted: &Wanted,
        made: &mut BTreeMap<Wanted, Made>,
    ) -> Result<(), String> {
        let place = Place { member: self.me(), dir: wanted.dir.clone() };
        let known = map.reported().iter().find(|known| known.shard == wanted.shard && known.place == place);
        let there = match made.get(wanted) {
            Some(there) => *there,
            None => {
                let (open, what, is_known) = (Arc::clone(&self.places.open), wanted.clone(), known.is_some());
                let opening = tokio::task::spawn_blocking(move || open(&what, is_known));
                let there = opening.await.map_err(|why| why.to_string())??;
                made.insert(wanted.clone(), there);
                there
            }
        };
        if known.is_some_and(|known| known.id == there.acceptor) {
            return Ok(());
        }
        let incarnation = self.disk.kept().incarnation;
        let Made { acceptor: id, streams } = there;
        let report = Report { shard: wanted.shard, place, incarnation, id, streams };
        match self.submit(&Command::Group(GroupCommand::Report(report))).await? {
            Response::Done { .. } => Ok(()),
            Response::Refused(why) => Err(why.in_words(map)),
        }
    }
}
