//! The libraries of functions and the users that all nodes have ([`crate::meta::Libraries`]). A node takes those of the
//! metadata before it has a lease, and reports its version with every renewal. A change is answered when every node
//! that may hold a lease has it: a node without a lease does not serve, and gets none without it.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use openraft::EntryPayload;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::agent::{Agent, COMMAND};
use super::configuration;
use super::kept::Kept;
use super::links::Reply;
use super::types::Entry;
use crate::NodeId;
use crate::meta::{ChangeId, Command, LIBRARIES_MAX, Libraries, Refusal, Response, State};

/// Takes libraries of a version in place of all that the node has. The thread may be busy with that for a while; calls
/// come one after the other. After an error, with its reason, it is called again.
pub type OnLibraries = Arc<dyn Fn(u64, &[u8]) -> Result<(), String> + Send + Sync>;

/// How long the leader waits for nodes that may hold a lease: longer than leases last.
const TAKEN: Duration = Duration::from_secs(5);

/// Between two looks at the versions of nodes.
const LOOK: Duration = Duration::from_millis(5);

/// The pause before a change of unknown outcome is asked for again.
const AGAIN: Duration = Duration::from_millis(100);

/// Bytes of libraries in the log above which it is cut, and in one message to another node.
const LOG_BYTES_MAX: usize = 4 << 20;

/// The libraries that this node has.
pub struct Taken {
    /// Their version; none: it has none yet.
    version: watch::Sender<Option<u64>>,
    /// The version that the start has found in the files. The metadata may be older until everything is applied that
    /// others have committed before. What was taken away must not come back meanwhile.
    found: u64,
    /// All of that is applied.
    is_caught_up: watch::Sender<bool>,
    take: OnLibraries,
    /// The reason why it does not have those of the metadata, in words; empty if there is none.
    why: Mutex<String>,
}

impl Taken {
    pub fn new(found: u64, take: OnLibraries) -> Self {
        let (version, is_caught_up) = (watch::Sender::new(None), watch::Sender::new(false));
        Self { version, found, is_caught_up, take, why: Mutex::default() }
    }

    /// True if the metadata, which have this version, are behind what the start has found.
    fn are_behind(&self, version: u64) -> bool {
        version < self.found && !*self.is_caught_up.borrow()
    }

    /// Sets the version.
    pub fn version(&self) -> watch::Receiver<Option<u64>> {
        self.version.subscribe()
    }

    fn say(&self, why: String) {
        let mut said = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        if *said == why {
            return;
        }
        if !why.is_empty() {
            tracing::warn!("this node does not have the cluster's libraries of functions: {why}");
        }
        *said = why;
    }

    fn why(&self) -> String {
        let said = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        let colon = if said.is_empty() { "" } else { ": " };
        format!("it has not the cluster's libraries of functions{colon}{said}")
    }
}

/// Bytes of the libraries, or of the settings, in an entry of the log.
pub fn bytes_of(entry: &Entry) -> usize {
    match &entry.payload {
        EntryPayload::Normal(Command::Libraries { payload, .. }) => payload.len(),
        EntryPayload::Normal(Command::Configure { settings, .. }) => configuration::bytes_of(settings),
        _ => 0,
    }
}

/// The first ones of consecutive entries, no longer than a message may be; but always one.
pub fn sendable<'a>(entries: impl Iterator<Item = &'a Entry>) -> impl Iterator<Item = &'a Entry> {
    let mut bytes = None;
    entries.take_while(move |entry| {
        let sum = bytes.map_or(0, |before: usize| before + bytes_of(entry));
        let fits = sum <= LOG_BYTES_MAX;
        bytes = Some(bytes.map_or(bytes_of(entry), |_| sum));
        fits
    })
}

/// The libraries in a node's files; `None`: it belongs to no cluster. As with settings
/// ([`super::configuration::known`]), the last entries of the log count, though they may not be committed.
pub fn known(kept: &Kept) -> Option<Libraries> {
    kept.cluster?;
    let snapshot = kept.snapshot.as_ref();
    let last = snapshot.and_then(|snapshot| snapshot.meta.last_log_id).map_or(0, |last| last.index);
    let state = snapshot.and_then(|snapshot| State::restore(&snapshot.snapshot).ok());
    let mut known = state.map(|state| state.libraries().clone()).unwrap_or_default();
    for (_, entry) in kept.entries.range(last + 1..) {
        if let EntryPayload::Normal(Command::Libraries { known: from, change, payload }) = &entry.payload {
            // A change that the metadata refused changed nothing.
            let _ = known.change(*from, *change, payload);
        }
    }
    Some(known)
}

impl Agent {
    /// Keeps the libraries of this node up to date, for ever.
    pub async fn keep_libraries(self: Arc<Self>) {
        let (mut applied, mut caught_up) = (self.machine.index(), self.libraries.is_caught_up.subscribe());
        loop {
            applied.borrow_and_update();
            caught_up.borrow_and_update();
            match self.take_libraries().await {
                Ok(()) => {
                    self.libraries.say(String::new());
                    if let Either::Left((Err(_), _)) = select(pin!(applied.changed()), pin!(caught_up.changed())).await
                    {
                        return;
                    }
                }
                Err(why) => {
                    self.libraries.say(why);
                    sleep(self.settings.renew).await;
                }
            }
        }
    }

    /// Takes the libraries of the metadata. Those that the node had before there was a cluster become the cluster's, if
    /// it never had any.
    async fn take_libraries(self: &Arc<Self>) -> Result<(), String> {
        let known = self.machine.look(|applied| applied.state.cluster().map(|_| applied.state.libraries().clone()));
        let Some(libraries) = known.filter(|known| Some(known.version) != *self.libraries.version.borrow()) else {
            return Ok(());
        };
        if self.libraries.are_behind(libraries.version) {
            return Ok(());
        }
        if libraries.version == 0
            && let Some(own) = &self.settings.libraries
        {
            let (needs, has) = (self.settings.libraries_level, self.machine.map().level());
            if has < needs {
                return Err(format!(
                    "this node's files have users, for which the cluster needs level {needs}, and it has level {has}: when all nodes run this build, `holdfast cluster finalize` raises it"
                ));
            }
            // If another node was first, its libraries come. The answer would wait for this node to have them.
            let (committed, applied) =
                (pin!(self.commit_libraries(0, Arc::clone(own))), pin!(self.until_there_are_any()));
            return match select(committed, applied).await {
                Either::Left((committed, _)) => committed.map(drop),
                Either::Right(_) => Ok(()),
            };
        }
        let (take, payload) = (Arc::clone(&self.libraries.take), Arc::clone(&libraries.payload));
        let taking = tokio::task::spawn_blocking(move || take(libraries.version, &payload));
        taking.await.map_err(|why| why.to_string())??;
        self.libraries.version.send_replace(Some(libraries.version));
        Ok(())
    }

    /// Waits until the metadata, as this node knows them, have libraries.
    async fn until_there_are_any(&self) {
        let mut applied = self.machine.index();
        while self.machine.look(|applied| applied.state.libraries().version == 0) && applied.changed().await.is_ok() {}
    }

    /// True if libraries of this version are those of the metadata as this node knows them.
    fn are_up_to_date(&self, has: Option<u64>) -> bool {
        has >= Some(self.machine.look(|applied| applied.state.libraries().version))
    }

    /// The version that this node has; 0 after a start, as long as the metadata are behind its files.
    ///
    /// # Errors
    ///
    /// If it is not that of the metadata as this node knows them: the reason.
    pub fn has_libraries(&self) -> Result<u64, String> {
        if self.libraries.are_behind(self.machine.look(|applied| applied.state.libraries().version)) {
            return Ok(0);
        }
        let has = *self.libraries.version.borrow();
        has.filter(|_| self.are_up_to_date(has)).ok_or_else(|| self.libraries.why())
    }

    /// As [`Agent::has_libraries`], but waits for them, for as long as a lease lasts at most. This node has applied
    /// everything that others had committed a moment ago.
    pub async fn until_it_has_libraries(&self) -> Result<(), String> {
        self.libraries.is_caught_up.send_if_modified(|is| !std::mem::replace(is, true));
        let mut version = self.libraries.version();
        let waited = timeout(self.settings.lease, version.wait_for(|has| self.are_up_to_date(*has))).await;
        waited.map(drop).map_err(|_| self.libraries.why())
    }

    /// Changes the libraries of version `known`. True: all nodes that serve have them. False: other nodes have changed
    /// them, and this node has their version.
    ///
    /// # Errors
    ///
    /// In words, after [`COMMAND`] at the latest. Most leave open whether the change was made, or will be, and say so.
    pub async fn change_libraries(self: &Arc<Self>, known: u64, payload: Arc<[u8]>) -> Result<bool, String> {
        match self.commit_libraries(known, payload).await? {
            None => Ok(true),
            Some(newer) => {
                let mut version = self.libraries.version();
                let waited = timeout(self.settings.lease, version.wait_for(|has| *has >= Some(newer))).await;
                waited.map(|_| false).map_err(|_| "this node has not heard of the latest changes".to_owned())
            }
        }
    }

    /// As [`Agent::change_libraries`]: `None` if it is done, or the version that others have made.
    async fn commit_libraries(self: &Arc<Self>, known: u64, payload: Arc<[u8]>) -> Result<Option<u64>, String> {
        if payload.len() > LIBRARIES_MAX {
            return Err(Refusal::LibrariesTooLarge { bytes: payload.len() as u64 }.to_string());
        }
        let mut change = ChangeId::default();
        (self.random)(&mut change);
        let command = Command::Libraries { known, change, payload };
        let mut why = "no answer".to_owned();
        let mut is_open = false;
        let trying = async {
            loop {
                match self.submit(&command).await {
                    Ok(Response::Done { .. }) => return Ok(None),
                    // Unless another node has made that of this change.
                    Ok(Response::Refused(Refusal::Superseded { version })) if !is_open => return Ok(Some(version)),
                    Ok(Response::Refused(refusal)) => return Err(refusal.to_string()),
                    Err(failure) => why = failure,
                }
                is_open = true;
                sleep(AGAIN).await;
            }
        };
        let outcome = timeout(COMMAND, trying).await;
        let open = |why: &str| format!("nobody knows whether the libraries are changed: {why}");
        match outcome {
            Ok(Err(refusal)) if is_open => Err(open(&refusal)),
            Ok(outcome) => outcome,
            Err(_) => Err(open(&why)),
        }
    }

    /// Waits, as the leader in `term`, until every node that may hold a lease has libraries of this version.
    pub async fn until_all_have(&self, term: u64, version: u64) -> Result<(), Reply> {
        let mut lagging = None;
        let waiting = async {
            while self.leads() == Some(term) {
                lagging = self.who_lacks(term, version);
                if lagging.is_none() {
                    return Ok(());
                }
                sleep(LOOK).await;
            }
            // The next leader finds the change made, if it is asked for once more, and waits for the same.
            Err(Reply::Failed("the metadata are led by another node now".to_owned()))
        };
        timeout(TAKEN, waiting).await.unwrap_or_else(|_| {
            let who = lagging.map_or_else(String::new, |id| format!("node {id} "));
            Err(Reply::Failed(format!("the change is made, but {who}has not said that it has it")))
        })
    }

    fn who_lacks(&self, term: u64, version: u64) -> Option<NodeId> {
        let now = (self.clock)();
        let nodes = self.machine.look(|applied| applied.state.nodes());
        let mut volatile = self.volatile();
        nodes.into_iter().map(|(id, _)| id).find(|id| {
            let has_them = volatile.libraries.get(id).is_some_and(|has| *has >= version);
            !has_them && volatile.leases.left(term, *id, now) > 0
        })
    }

    /// Cuts the log where libraries or settings have made it large: each node has all of it in memory and on its disk.
    pub async fn cut_log(&self) {
        let (covered, rest, snapshot) = {
            let kept = self.disk.kept();
            let last = kept.snapshot.as_ref().and_then(|snapshot| snapshot.meta.last_log_id);
            let snapshot = last.map_or(0, |last| last.index);
            let bytes = |entries: std::collections::btree_map::Range<'_, u64, Entry>| {
                entries.map(|(_, entry)| bytes_of(entry)).sum::<usize>()
            };
            (bytes(kept.entries.range(..=snapshot)), bytes(kept.entries.range(snapshot + 1..)), snapshot)
        };
        if covered + rest <= LOG_BYTES_MAX {
            return;
        }
        let trigger = self.raft.trigger();
        let mut asked = Ok(());
        if covered > 0 {
            asked = trigger.purge_log(snapshot).await;
        }
        if rest > 0 && asked.is_ok() {
            asked = trigger.snapshot().await;
        }
        if let Err(why) = asked {
            tracing::debug!("the log of the metadata is not cut: {why}");
        }
    }
}
