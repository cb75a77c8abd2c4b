//! The settings of this node's shard ([`crate::meta::Shard::settings`]).
//!
//! A start takes those that the metadata have, before its lease begins to count. From then on the process that owns the
//! shard is the only one that changes them: what it runs by is what the metadata should have. It tells them so after
//! every renewal that finds a difference. So a change of which only one half was made does not last.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;

use super::agent::{Agent, COMMAND};
use super::configuration::NotConfigured;
use crate::level;
use crate::meta::{Command, Response, SetShard, Shard};

/// Takes the settings of the shard that this node owns, on a thread that may wait for a moment. It says why it cannot:
/// the node gets no lease then.
pub type OnShard = Arc<dyn Fn(&Shard) -> Result<(), String> + Send + Sync>;

/// Returns the settings of a shard by which this process runs.
pub type ShardSettings = Arc<dyn Fn() -> BTreeMap<String, String> + Send + Sync>;

/// A change of the settings of the shard that the metadata have and this process is about to carry out. The metadata are
/// not compared with the process while it lives.
#[derive(Debug, Default)]
pub struct ChangingShard {
    _held: Option<OwnedMutexGuard<()>>,
}

/// The settings of the shard, as this process knows them.
pub struct OfShard {
    take: OnShard,
    has: ShardSettings,
    /// The number of the shard whose settings were taken; 0: none yet.
    taken: AtomicU32,
    /// Held while they are changed.
    changing: Arc<Mutex<()>>,
}

impl OfShard {
    pub fn new(take: OnShard, has: ShardSettings) -> Self {
        Self { take, has, taken: AtomicU32::new(0), changing: Arc::default() }
    }
}

impl Agent {
    /// The shard of this node, where shards have settings.
    fn shard_with_settings(&self) -> Option<Shard> {
        let map = self.machine.map();
        if map.level() < level::SHARD_SETTINGS { None } else { map.shards_of(self.me()).next().cloned() }
    }

    /// Takes the settings of the node's shard, unless this process has.
    pub async fn until_it_has_shard_settings(&self) -> Result<(), String> {
        let Some(shard) = self.shard_with_settings() else { return Ok(()) };
        if self.of_shard.taken.load(SeqCst) != shard.id.0 {
            let (take, id) = (Arc::clone(&self.of_shard.take), shard.id.0);
            tokio::task::spawn_blocking(move || take(&shard)).await.map_err(|why| why.to_string())??;
            self.of_shard.taken.store(id, SeqCst);
        }
        Ok(())
    }

    /// Tells the metadata by which settings this process runs its shard, if they have others. It may fail: the next
    /// renewal tells it again.
    pub async fn tell_shard_settings(self: &Arc<Self>) {
        let Ok(_held) = Arc::clone(&self.of_shard.changing).try_lock_owned() else { return };
        let Some(shard) = self.shard_with_settings() else { return };
        let has = (self.of_shard.has)();
        if self.of_shard.taken.load(SeqCst) != shard.id.0 || shard.settings == has {
            return;
        }
        if let Err(why) = self.submit_settings(&shard, has).await {
            tracing::debug!("the metadata do not have the settings of shard {}: {why}", shard.id.0);
        }
    }

    async fn submit_settings(
        self: &Arc<Self>,
        shard: &Shard,
        settings: BTreeMap<String, String>,
    ) -> Result<(), NotConfigured> {
        let (id, incarnation) = {
            let kept = self.disk.kept();
            (kept.node, kept.incarnation)
        };
        let command = Command::SetShard(SetShard { shard: shard.id, id, incarnation, settings });
        match timeout(COMMAND, self.submit(&command)).await {
            Ok(Ok(Response::Done { .. })) => Ok(()),
            Ok(Ok(Response::Refused(why))) => Err(NotConfigured::Refused(why.to_string())),
            Ok(Err(why)) => Err(NotConfigured::Unknown(why)),
            Err(_) => Err(NotConfigured::Unknown("no answer in time".to_owned())),
        }
    }

    /// Changes the settings of the node's shard in the metadata: they are on the disks of a majority then. Below
    /// [`level::SHARD_SETTINGS`] they are this process's alone.
    pub async fn set_shard(
        self: &Arc<Self>,
        settings: BTreeMap<String, String>,
    ) -> Result<ChangingShard, NotConfigured> {
        let held = Arc::clone(&self.of_shard.changing).lock_owned().await;
        if self.machine.map().level() >= level::SHARD_SETTINGS {
            self.until_it_is_led().await.map_err(NotConfigured::Unled)?;
            let shard = self.shard_with_settings();
            let shard = shard.ok_or_else(|| NotConfigured::Refused("this node owns no shard".to_owned()))?;
            self.submit_settings(&shard, settings).await?;
        }
        Ok(ChangingShard { _held: Some(held) })
    }
}
