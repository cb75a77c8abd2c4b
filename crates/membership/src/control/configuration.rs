//! The settings that are the cluster's ([`crate::meta::Configuration`]). A node takes those of the metadata whenever
//! they change, and before its lease begins to count. So a node that serves lacks no change from before it asked for
//! its lease. Other nodes are behind by the length of a lease at most, and mostly by a heartbeat of the leader.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select;
use openraft::EntryPayload;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::agent::{Agent, COMMAND};
use super::kept::Kept;
use super::links::Op;
use crate::meta::{Command, Configuration, Response, Setting, State};

/// How long a change waits for a leader of the metadata: longer than an election lasts.
const UNLED: Duration = Duration::from_secs(3);

/// Between two looks at whether there is one.
const AGAIN: Duration = Duration::from_millis(50);

/// Takes the cluster's settings: on a thread that may wait for a moment, one call after the other.
pub type OnConfiguration = Arc<dyn Fn(&Configuration) + Send + Sync>;

/// The reason why settings of the cluster were not changed, or may not have been.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotConfigured {
    /// The metadata do not take them; the reason, in words.
    Refused(String),
    /// There is no leader of the metadata to ask; the reason, in words. Nothing was changed.
    Unled(String),
    /// It is uncertain whether they were changed; the reason, in words.
    Unknown(String),
}

impl fmt::Display for NotConfigured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => f.write_str(why),
            Self::Unled(why) => write!(f, "the cluster's settings were not changed: {why}"),
            Self::Unknown(why) => write!(f, "it is not certain that the cluster's settings were changed: {why}"),
        }
    }
}

/// The settings that this node has taken.
pub struct Configured {
    /// Which version of the metadata; 0: none yet.
    version: watch::Sender<u64>,
    /// The version that the start has found in the files. The metadata may be older until everything is applied that
    /// others have committed before.
    found: u64,
    /// All of that is applied.
    is_caught_up: watch::Sender<bool>,
    take: OnConfiguration,
}

impl Configured {
    pub fn new(found: u64, take: OnConfiguration) -> Self {
        Self { version: watch::Sender::new(0), found, is_caught_up: watch::Sender::new(false), take }
    }

    /// True if settings of this version are to be taken.
    fn are_newer(&self, version: u64) -> bool {
        version > *self.version.borrow() && (version >= self.found || *self.is_caught_up.borrow())
    }
}

/// Bytes of settings in a command.
pub fn bytes_of(settings: &[Setting]) -> usize {
    settings.iter().map(|setting| setting.name.len() + setting.value.len()).sum()
}

impl Agent {
    /// Keeps the settings of this node up to date, for ever.
    pub async fn keep_configuration(self: Arc<Self>) {
        let (mut applied, mut caught_up) = (self.machine.index(), self.configured.is_caught_up.subscribe());
        loop {
            applied.borrow_and_update();
            caught_up.borrow_and_update();
            if let Err(why) = self.take_configuration().await {
                tracing::error!(cause = "settings", "the cluster's settings are not taken: {why}");
                sleep(self.settings.renew).await;
            } else {
                select(pin!(applied.changed()), pin!(caught_up.changed())).await;
            }
        }
    }

    async fn take_configuration(&self) -> Result<(), String> {
        let known = self.machine.look(|applied| {
            let known = applied.state.configuration();
            self.configured.are_newer(known.version()).then(|| known.clone())
        });
        let Some(known) = known else { return Ok(()) };
        let (version, take) = (known.version(), Arc::clone(&self.configured.take));
        tokio::task::spawn_blocking(move || take(&known)).await.map_err(|why| why.to_string())?;
        self.configured.version.send_replace(version);
        Ok(())
    }

    /// Waits until this node has the settings of the metadata as it knows them, for a lease at most. It has applied
    /// everything that others had committed a moment ago.
    pub async fn until_it_has_configuration(&self) -> Result<(), String> {
        let known = self.machine.look(|applied| applied.state.configuration().version());
        if known == 0 {
            return Err("the cluster has no settings yet".to_owned());
        }
        self.configured.is_caught_up.send_if_modified(|is| !std::mem::replace(is, true));
        let mut version = self.configured.version.subscribe();
        let waited = timeout(self.settings.lease, version.wait_for(|has| *has >= known)).await;
        waited.map(drop).map_err(|_| "it has not taken the cluster's settings".to_owned())
    }

    /// Waits until a leader answers that a majority has just confirmed. A change is asked for once: if the asked node
    /// had gone, it would be open whether the change was made.
    pub(super) async fn until_it_is_led(self: &Arc<Self>) -> Result<(), String> {
        let mut body = Vec::new();
        self.me().put(&mut body);
        let mut why = "no answer".to_owned();
        let asking = async {
            while let Err(failure) = self.ask_leader(Op::Past, &body).await {
                why = failure;
                sleep(AGAIN).await;
            }
        };
        timeout(UNLED, asking).await.map_err(|_| why)
    }

    /// Changes settings of the cluster. They are on the disks of a majority then, and this node has taken them.
    pub async fn configure(self: &Arc<Self>, settings: Vec<Setting>) -> Result<(), NotConfigured> {
        self.until_it_is_led().await.map_err(NotConfigured::Unled)?;
        let command = Command::Configure { first: false, settings };
        let version = match timeout(COMMAND, self.submit(&command)).await {
            Ok(Ok(Response::Done { version, .. })) => version,
            Ok(Ok(Response::Refused(why))) => return Err(NotConfigured::Refused(why.to_string())),
            Ok(Err(why)) => return Err(NotConfigured::Unknown(why)),
            Err(_) => return Err(NotConfigured::Unknown("no answer in time".to_owned())),
        };
        let taken = async {
            let mut applied = self.machine.index();
            while self.machine.look(|applied| applied.state.version()) < version {
                applied.changed().await.map_err(|_| "this node is stopping".to_owned())?;
            }
            self.until_it_has_configuration().await
        };
        let late = || "they are changed, but this node has not heard of it yet".to_owned();
        let taken = timeout(self.settings.lease, taken).await.unwrap_or_else(|_| Err(late()));
        taken.map_err(NotConfigured::Unknown)
    }

    /// The first settings of a cluster, if this node is its first leader. They are those of the node that has formed
    /// it, or this node's own if those are unknown, as in a cluster of an earlier version.
    pub fn first_configuration(&self) -> Vec<Setting> {
        let cluster = self.cluster();
        let founding = self.volatile().founding.clone();
        let of_first = founding.filter(|(founded, _)| Some(*founded) == cluster).map(|(_, settings)| settings);
        of_first.unwrap_or_else(|| self.settings.configuration.clone())
    }
}

/// The cluster's settings in a node's files. The last entries of the log count, though the node does not know yet that
/// they are committed. Otherwise a start would forget the last change, which may be that of a password.
pub fn known(kept: &Kept) -> Configuration {
    let snapshot = kept.snapshot.as_ref();
    let last = snapshot.and_then(|snapshot| snapshot.meta.last_log_id).map_or(0, |last| last.index);
    let state = snapshot.and_then(|snapshot| State::restore(&snapshot.snapshot).ok());
    let mut known = state.map(|state| state.configuration().clone()).unwrap_or_default();
    for (_, entry) in kept.entries.range(last + 1..) {
        if let EntryPayload::Normal(Command::Configure { first, settings }) = &entry.payload {
            // A change that the metadata refused changed no setting.
            let _ = known.change(*first, settings);
        }
    }
    known
}
