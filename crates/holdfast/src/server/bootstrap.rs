//! A new copy of a shard's data begins with a checkpoint of its owner's store, which the owner ships.
//!
//! The owner makes a checkpoint and copies the store by links to its tables, so checkpoints and clients go on while the
//! copy is sent, at a bounded pace.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use membership::ShardId;
use membership::handshake::Party;
use node::Node;
use shipping::{Pace, Pauses, Progress, Waited};
use socket2::Socket;
use standby::{NodeNumber, Process};

use super::switch::Switch;

/// Bytes of a store that are sent in a second at most.
const PACE: u64 = 64 << 20;

/// The longest time for which the other end may stand still: it may have gigabytes to put on its disk.
const PATIENCE: Duration = Duration::from_secs(600);

/// The longest time until it says what it wants.
const ASKS: Duration = Duration::from_secs(10);

/// Ships copies of the store of this node.
pub struct Bootstraps {
    switch: OnceLock<Arc<Switch>>,
    /// Copies that were begun.
    count: AtomicU64,
    pace: Pace,
}

impl Bootstraps {
    /// Until [`Self::begin`] it refuses.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { switch: OnceLock::new(), count: AtomicU64::new(0), pace: Pace::new(PACE) })
    }

    /// The node has its data. Copies that an earlier start has left are removed.
    pub fn begin(&self, switch: &Arc<Switch>) {
        if let Some(store) = switch.store_folder()
            && let Err(why) = tidy_up(&store)
        {
            tracing::warn!("A copy of the store that was begun before cannot be removed: {why}");
        }
        let _ = self.switch.set(Arc::clone(switch));
    }

    /// Serves a connection of a node that wants a copy, on a thread of its own.
    pub fn serve(self: &Arc<Self>, socket: OwnedFd, peer: Party) {
        let bootstraps = Arc::clone(self);
        let serve = move || {
            if let Err(why) = bootstraps.answer(Socket::from(socket), peer) {
                tracing::warn!(cause = "copy of the store", "A copy of the store was not sent: {why}");
            }
        };
        if let Err(why) = thread::Builder::new().name("bootstrap".into()).spawn(serve) {
            tracing::warn!(cause = "copy of the store", "A copy of the store is not sent: {why}");
        }
    }

    fn answer(&self, socket: Socket, peer: Party) -> io::Result<()> {
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(ASKS))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let (mut from, mut to) = (socket.try_clone()?, socket);
        let wanted = shipping::asked(&mut from)?;
        from.set_read_timeout(Some(PATIENCE))?;
        let shard = ShardId(wanted.shard);
        let (switch, folder) = match self.copy(shard, peer) {
            Ok(copied) => copied,
            Err(why) => {
                shipping::refuse(&mut to, &why)?;
                return Err(io::Error::other(why));
            }
        };
        tracing::info!("A copy of the store of shard {} is being sent to another node", shard.0);
        let progress = Progress::default();
        let clock = Paced(&switch.node);
        let sent = shipping::send(&folder, (&mut from, &mut to), (&self.pace, &clock), &progress);
        let removed = fs::remove_dir_all(&folder);
        sent?;
        let bytes = progress.bytes().0;
        tracing::info!("Another node has a copy of the store of shard {}: {bytes} bytes", shard.0);
        removed
    }

    /// Copies the store to a new folder beside it.
    fn copy(&self, shard: ShardId, peer: Party) -> Result<(&Arc<Switch>, PathBuf), String> {
        let switch = self.switch.get().ok_or("the node has no data yet")?;
        let cluster = switch.node.cluster().ok_or("the node is starting")?;
        let map = cluster.map();
        if !map.shards_of(cluster.me()).any(|of| of.id == shard) {
            return Err(format!("this node does not own shard {}", shard.0));
        }
        let number = map.member(peer.node).map(|member| member.number).ok_or("the node is no member")?;
        let process = Process { node: NodeNumber(number), life: peer.incarnation };
        // The checkpoint begins when the log waits for the copy (rule S4).
        if !switch.standbys().is_some_and(|standbys| standbys.may_ship(process)) {
            return Err("the log does not wait for the copy yet".to_owned());
        }
        let store = switch.store_folder().ok_or("appendonly is off")?;
        let folder = copy_at(&store, self.count.fetch_add(1, Relaxed));
        match switch.copy_store(&folder) {
            Ok(()) => Ok((switch, folder)),
            Err(why) => {
                // The remaining files are no store.
                let _ = fs::remove_dir_all(&folder);
                Err(why)
            }
        }
    }
}

/// The end of the names of copies that are being sent.
const COPY: &str = "-copy-";

/// The folder of a copy: beside the store, as tables are links.
fn copy_at(store: &Path, number: u64) -> PathBuf {
    let name = store.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    store.with_file_name(format!("{name}{COPY}{number}"))
}

/// Removes copies beside the store.
fn tidy_up(store: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (store.parent(), store.file_name().and_then(|name| name.to_str())) else {
        return Ok(());
    };
    let begins = format!("{name}{COPY}");
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
        if entry.file_name().to_str().and_then(|name| name.strip_prefix(&begins)).is_some_and(is_number) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// The node's clock, and its clients, who wait for the log.
struct Paced<'a>(&'a Node);

impl Pauses for Paced<'_> {
    fn now_ns(&self) -> u64 {
        self.0.clock.monotonic_ns().0
    }

    fn pause(&self, time: Duration) {
        thread::park_timeout(time);
    }

    fn waited(&self) -> Waited {
        let Some(durable) = self.0.durable() else { return Waited::default() };
        let facts = (0..durable.log().streams()).map(|stream| durable.log().facts(stream));
        facts.fold(Waited::default(), |all, one| Waited {
            times: all.times + one.syncs.iter().sum::<u64>(),
            ns: all.ns + one.synced_for,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_an_earlier_start_are_removed_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("holdfast-bootstrap-{}", std::process::id()));
        let store = folder.join("store");
        let gone = [copy_at(&store, 0), copy_at(&store, 17)];
        let stays = [store.clone(), folder.join("store-copy-"), folder.join("store-copy-x"), folder.join("log-copy-1")];
        gone.iter().chain(&stays).for_each(|path| fs::create_dir_all(path.join("tables")).unwrap());
        tidy_up(&store).unwrap();
        assert!(gone.iter().all(|path| !path.exists()));
        assert!(stays.iter().all(|path| path.exists()));
        fs::remove_dir_all(folder).unwrap();
    }
}
