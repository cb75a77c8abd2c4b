//! Folders for copies of the logs of shards.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use loggroup::{Acceptors, Figures, Unusable};
use membership::control::{Made, Wanted};
use membership::map::Map;
use membership::meta::DEFAULT_DIR;
use membership::{AcceptorId, ShardId};
use node::Clock;
use node::config::Settings;
use redolog::{Devices, Limits};

use super::chance;
use super::places::Places;

/// The default folder of a node, in `dir`, and that in each directory of a log with several streams.
const COPIES: &str = "holdfast/copies";
pub(super) const BESIDE: &str = "copies";

/// Opens or makes the folders of a node. `dir` is the node's directory. A node whose log is on several disks keeps copies
/// on the same disks. `is_known`: see [`make`].
///
/// # Errors
/// They cannot be used.
pub fn of_node(settings: &Settings, dir: &Path, wanted: &Wanted, is_known: bool) -> Result<Made, String> {
    let logs = Places::of(settings, dir).logs;
    let folders: Vec<PathBuf> = match wanted.dir.as_str() {
        DEFAULT_DIR if logs.len() > 1 => logs.iter().map(|log| log.join(BESIDE)).collect(),
        DEFAULT_DIR => vec![dir.join(COPIES)],
        path => vec![PathBuf::from(path)],
    };
    if let Some(devices) = DEVICES.get() {
        logs.iter().for_each(|log| devices.share(&log.join(BESIDE), log));
    }
    make(&folders, wanted, is_known)
}

/// Names the own log of a node that owns the shard: it is the first of its copies.
///
/// # Errors
/// There is none, or its directory cannot be used.
pub fn of_owner(settings: &Settings, dir: &Path, wanted: &Wanted) -> Result<Made, String> {
    if !settings.appendonly {
        return Err("appendonly is off: its owner has no log".to_owned());
    }
    let logs = Places::of(settings, dir).logs;
    let fresh = AcceptorId(chance::random().map_err(|why| why.to_string())?);
    let cluster = wanted.cluster.map(|cluster| cluster.0);
    let acceptor = loggroup::name_of_own(&logs, wanted.shard, cluster, fresh).map_err(|why| why.to_string())?;
    Ok(Made { acceptor, streams: logs.len() as u16 })
}

/// Opens or makes the folders of a copy in these directories, which its streams are spread over, and runs its acceptor.
/// `is_known`: the metadata have the name of a folder there. If they do not, one that has lost something is put aside: its
/// place has been given anew, and it does not vote (rule G9).
///
/// # Errors
/// They cannot be used.
pub fn make(directories: &[PathBuf], wanted: &Wanted, is_known: bool) -> Result<Made, String> {
    let Wanted { shard, streams, .. } = wanted;
    let streams = streams.ok_or("the own log of a shard's owner is in no such place")?;
    let of_it = |(_, of, place, _): &(AcceptorId, ShardId, Vec<PathBuf>, Figures)| of == shard && place == directories;
    if let Some((acceptor, ..)) = acceptors().figures().into_iter().find(of_it) {
        return Ok(Made { acceptor, streams });
    }
    let cluster = wanted.cluster.map(|cluster| cluster.0);
    let open = || match acceptors().open(directories, *shard, streams, cluster) {
        Err(Unusable::Empty) => {
            let fresh = AcceptorId(chance::random()?);
            acceptors().make(directories, *shard, streams, cluster, fresh)
        }
        opened => opened,
    };
    let opened = match open() {
        Err(why @ (Unusable::Lost(_) | Unusable::Damaged(_))) if !is_known => {
            let aside = loggroup::put_aside(directories, *shard, cluster).map_err(|other| other.to_string())?;
            for aside in aside {
                let aside = aside.display();
                tracing::warn!(
                    "A copy that does not vote is put aside, and takes room until it is removed: {aside}: {why}"
                );
            }
            open()
        }
        opened => opened,
    };
    let acceptor = opened.map_err(|why| why.to_string())?;
    let names: Vec<String> = directories.iter().map(|directory| directory.display().to_string()).collect();
    tracing::info!("A copy of the log of shard {} is kept in {}", shard.0, names.join(" "));
    Ok(Made { acceptor, streams })
}

/// How long a copy has to be unwanted before it is removed.
const UNWANTED: Duration = Duration::from_secs(5);

/// The copies of this process that the metadata have named, and the metadata as they were heard of last.
static NAMED: Mutex<(BTreeSet<AcceptorId>, Option<Arc<Map>>)> = Mutex::new((BTreeSet::new(), None));

/// Removes the folders of copies that the metadata have named, and name no more: the group has changed, or the shard is
/// gone. A copy counts until its successor does, so by then no owner asks it.
pub fn heed(map: &Arc<Map>) {
    let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    named.1 = Some(map.clone());
    let Some(acceptors) = ACCEPTORS.get() else { return };
    for id in acceptors.ids() {
        if names(map, id) {
            named.0.insert(id);
        } else if named.0.remove(&id) {
            let remove = move || {
                thread::park_timeout(UNWANTED);
                remove_if_unwanted(id);
            };
            // It is tried again when the process has named the copy again.
            let _ = thread::Builder::new().name("copy-remove".into()).spawn(remove);
        }
    }
}

fn names(map: &Map, id: AcceptorId) -> bool {
    let counts = |shard: &membership::meta::Shard| {
        shard.settled.iter().chain(shard.pending.iter().flatten()).any(|acceptor| acceptor.id == id)
    };
    map.reported().iter().any(|reported| reported.id == id) || map.shards().iter().any(counts)
}

fn remove_if_unwanted(id: AcceptorId) {
    let named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    if named.1.as_ref().is_none_or(|map| names(map, id)) {
        return;
    }
    drop(named);
    match acceptors().remove(id) {
        Ok(()) => tracing::info!("A copy of a log that is not wanted any more was removed"),
        Err(why) => tracing::warn!(cause = "log copy", "a copy of a log that is not wanted stays: {why}"),
    }
}

/// The acceptors of this process.
static ACCEPTORS: OnceLock<Arc<Acceptors>> = OnceLock::new();

/// Heeds `log-segment-size` and `log-pace` for the copies in this process. It is called before the first copy is opened.
pub fn begin(settings: &Settings, clock: Arc<dyn Clock>) {
    let limits = Limits::of(settings.log_segment_size);
    let _ = ACCEPTORS.get_or_init(|| Acceptors::new(limits, devices(settings, clock)));
}

fn acceptors() -> &'static Arc<Acceptors> {
    ACCEPTORS.get_or_init(|| Acceptors::new(Limits::default(), None))
}

static DEVICES: OnceLock<Arc<Devices>> = OnceLock::new();

/// The slow devices that `log-pace` asks for, for the own log and for copies.
pub fn devices(settings: &Settings, clock: Arc<dyn Clock>) -> Option<Arc<Devices>> {
    let pace = settings.log_pace?;
    let devices = || Arc::new(Devices::new(pace, Arc::new(move || clock.monotonic_ns().0)));
    Some(DEVICES.get_or_init(devices).clone())
}

/// Serves a connection of an owner.
pub fn serve(socket: OwnedFd) {
    if let Err(why) = acceptors().serve(socket) {
        tracing::warn!(cause = "log copy", "a connection for copies of a log cannot be served: {why}");
    }
}

/// Stops all acceptors of this process: what they have is on the disk.
pub fn stop() {
    if let Err(why) = acceptors().stop() {
        tracing::warn!("a copy of a log could not be closed: {why}");
    }
}
