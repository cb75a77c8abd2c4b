//! When a node writes a snapshot, and when one may leave it.

use std::sync::atomic::Ordering::Relaxed;

use clocks::UnixMs;
use keyspace::Horizon;

use crate::durability::snapshots::AtEnd;
use crate::node::Node;

/// Milliseconds without another try at a `save` point after a failure (Redis `CONFIG_BGSAVE_RETRY_DELAY`).
const RETRY_MS: u64 = 5_000;

const FAILED: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. \
    Commands that may modify the data set are disabled, because this instance is configured to report errors during \
    writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about \
    the RDB error.";

impl Node {
    /// Changes that were made since the start.
    pub fn changes(&self) -> u64 {
        self.stats.iter().map(|stats| stats.dirty.load(Relaxed)).fold(0, u64::wrapping_add)
    }

    /// True if a `save` point has come. There is none where there is a log, nor on a node of a cluster: its keys would
    /// come back long after the cluster has changed them.
    pub fn save_is_due(&self, now: UnixMs) -> bool {
        let settings = self.config.settings();
        if settings.save.is_empty() || self.durable().is_some() || settings.takes_part_in_cluster() {
            return false;
        }
        let state = self.snapshots.state();
        let changes = self.changes().saturating_sub(state.saved_changes);
        let is_at = |(seconds, least): &(u64, u64)| {
            changes >= (*least).max(1) && now.since(state.saved_at) > seconds.saturating_mul(1000)
        };
        let may_try = state.failed.is_none() || now.since(state.tried_at) > RETRY_MS;
        may_try && settings.save.iter().any(is_at)
    }

    /// The error that refuses writes while snapshots fail, if it does.
    #[inline]
    pub(crate) fn refusal_of_snapshots(&self) -> Option<&'static str> {
        if self.snapshots.have_failed() { self.failed_snapshots_stop_writes() } else { None }
    }

    #[cold]
    fn failed_snapshots_stop_writes(&self) -> Option<&'static str> {
        let settings = self.config.settings();
        let is_wanted = settings.stop_writes_on_bgsave_error && !settings.save.is_empty();
        (is_wanted && self.durable().is_none() && !settings.takes_part_in_cluster()).then_some(FAILED)
    }

    /// True if a stop writes a snapshot.
    pub fn saves_at_end(&self) -> bool {
        let settings = self.config.settings();
        match self.snapshots.at_end() {
            _ if self.durable().is_some() => false,
            AtEnd::Save => true,
            AtEnd::NoSave => false,
            AtEnd::AsConfigured => !settings.save.is_empty() && !settings.takes_part_in_cluster(),
        }
    }

    /// True if everything up to these versions is as safe as replies need it. Otherwise it is asked for.
    pub fn is_safe(&self, ends: &Horizon) -> bool {
        self.durable().is_none_or(|durable| {
            durable.sync(ends.versions().iter().copied());
            durable.is_synced(ends)
        })
    }

    /// The bytes in front of a file that a client has asked for by SYNC or PSYNC.
    pub fn head_of_snapshot(&self, full_resync: bool, len: u64) -> Vec<u8> {
        let resync = if full_resync { format!("+FULLRESYNC {} 0\r\n", self.facts.run_id) } else { String::new() };
        format!("{resync}${len}\r\n").into_bytes()
    }
}
