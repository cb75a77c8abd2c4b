//! Folders for copies of the logs of shards.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use loggroup::{Acceptors, Driver, Figures, Local, Unusable};
use membership::control::{Made, Wanted};
use membership::map::Map;
use membership::meta::DEFAULT_DIR;
use membership::{AcceptorId, ShardId};
use node::Clock;
use node::config::Settings;
use redolog::{Devices, Limits, Promoted};

use super::chance;
use super::places::Places;

/// The default folder of a node, in `dir`, and that in each directory of a log with several streams.
const COPIES: &str = "holdfast/copies";
pub(super) const BESIDE: &str = "copies";

/// Taken while a folder is opened here, and while the log of a shard that was given up becomes a copy.
static OPENING: Mutex<()> = Mutex::new(());

/// No folder of a copy is opened before this is dropped: the log of a shard that was given up is closed, and opened as one.
pub fn none_is_opened() -> MutexGuard<'static, ()> {
    OPENING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens or makes the folders of a node. `dir` is the node's directory. A node whose log is on several disks keeps copies
/// on the same disks. `is_known`: see [`make`].
///
/// # Errors
/// They cannot be used.
pub fn of_node(settings: &Settings, dir: &Path, wanted: &Wanted, is_known: bool) -> Result<Made, String> {
    let _opens = none_is_opened();
    let logs = Places::of(settings, dir).logs;
    // A log without an acceptor is this node's alone, and may be running.
    let is_former = wanted.dir == DEFAULT_DIR && loggroup::is_acceptor(&logs);
    if is_former && loggroup::shard_of_own(&logs).map_err(|why| why.to_string())? == Some(wanted.shard) {
        return of_former_owner(&logs, wanted);
    }
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
    let logs = Places::of_data(settings, dir)?.logs;
    let fresh = AcceptorId(chance::random().map_err(|why| why.to_string())?);
    let cluster = wanted.cluster.map(|cluster| cluster.0);
    let acceptor = loggroup::name_of_own(&logs, wanted.shard, cluster, fresh).map_err(|why| why.to_string())?;
    Ok(Made { acceptor, streams: logs.len() as u16 })
}

/// Runs the acceptor of the log in these directories, which this node wrote as the shard's owner.
fn of_former_owner(logs: &[PathBuf], wanted: &Wanted) -> Result<Made, String> {
    let streams = logs.len() as u16;
    let found = {
        let mut named = named();
        let of_it =
            |(_, of, place, _): &(AcceptorId, ShardId, Vec<PathBuf>, Figures)| *of == wanted.shard && place == logs;
        let found = acceptors().figures().into_iter().find(of_it).map(|(acceptor, ..)| acceptor);
        named.0.tell(wanted.shard, found)?;
        found
    };
    if let Some(acceptor) = found {
        return Ok(Made { acceptor, streams });
    }
    let cluster = wanted.cluster.map(|cluster| cluster.0);
    let acceptor = open_former(logs, wanted.shard, cluster)?;
    Ok(Made { acceptor, streams })
}

/// Runs the acceptor of a log that this node wrote as its shard's owner, and writes no more. It may be running.
///
/// # Errors
/// Its directories cannot be used.
pub fn open_former(logs: &[PathBuf], shard: ShardId, cluster: Option<loggroup::Cluster>) -> Result<AcceptorId, String> {
    match acceptors().open_log(logs, shard, cluster) {
        Ok(acceptor) => {
            tracing::info!("The log of shard {} that this node wrote is a copy now", shard.0);
            Ok(acceptor)
        }
        Err(why) => of_shard(shard).map(|held| held.id()).ok_or(why.to_string()),
    }
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
    let found = {
        // No removal begins in between.
        let mut named = named();
        let found = running(directories, *shard, streams);
        named.0.tell(*shard, found)?;
        found
    };
    if let Some(acceptor) = found {
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

fn real(folders: &[PathBuf]) -> Option<Vec<PathBuf>> {
    folders.iter().map(|folder| folder.canonicalize().ok()).collect()
}

/// The acceptor of this process in these directories. A copy that was the shard's log meanwhile is known by the folders of
/// its streams.
fn running(directories: &[PathBuf], shard: ShardId, streams: u16) -> Option<AcceptorId> {
    let of_it = |(_, of, place, _): &(AcceptorId, ShardId, Vec<PathBuf>, Figures)| *of == shard && place == directories;
    let found = acceptors().figures().into_iter().find(of_it).map(|(acceptor, ..)| acceptor);
    found.or_else(|| {
        let held = acceptors().of_shard(shard)?;
        let wanted = real(&loggroup::logs_of_copy(directories, shard, streams).ok()?)?;
        (real(&held.logs().ok()?)? == wanted).then(|| held.acceptor.id())
    })
}

/// How long a copy has to be unwanted before it is removed.
const UNWANTED: Duration = Duration::from_secs(5);
/// How long the metadata may take to name a copy of which they were told.
const TOLD: Duration = Duration::from_secs(60);

/// The copies of this process that the metadata have named, and the metadata as they were heard of last.
static NAMED: Mutex<(Named, Option<Arc<Map>>)> = Mutex::new((Named::new(), None));

fn named() -> MutexGuard<'static, (Named, Option<Arc<Map>>)> {
    NAMED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the folders of copies that the metadata have named, and name no more: the group has changed, or the shard is
/// gone. A copy counts until its successor does, so by then no owner asks it.
pub fn heed(map: &Arc<Map>) {
    let mut named = named();
    named.1 = Some(map.clone());
    let Some(acceptors) = ACCEPTORS.get() else { return };
    for id in named.0.hear(&acceptors.ids(), |id| names(map, id)) {
        // It is tried again when the process has named the copy again.
        let _ = thread::Builder::new().name("copy-remove".into()).spawn(move || remove_if_unwanted(id));
    }
}

fn names(map: &Map, id: AcceptorId) -> bool {
    let counts = |shard: &membership::meta::Shard| {
        shard.settled.iter().chain(shard.pending.iter().flatten()).any(|acceptor| acceptor.id == id)
    };
    map.reported().iter().any(|reported| reported.id == id) || map.shards().iter().any(counts)
}

fn remove_if_unwanted(id: AcceptorId) {
    let mut wait = UNWANTED;
    loop {
        thread::park_timeout(wait);
        let Some(held) = acceptors().get(id) else { return };
        let mut named = named();
        let is_named = named.1.as_ref().is_none_or(|map| names(map, id));
        match named.0.may_go(id, held.acceptor.shard(), is_named) {
            May::Stay => return,
            May::Wait => wait = TOLD,
            May::Go => break,
        }
    }
    match acceptors().remove(id) {
        Ok(()) => tracing::info!("A copy of a log that is not wanted any more was removed"),
        Err(why) => tracing::warn!(cause = "log copy", "a copy of a log that is not wanted stays: {why}"),
    }
    named().0.gone(id);
}

/// The copies of a process, as the metadata know them. One that is wanted again is not removed meanwhile.
struct Named {
    named: BTreeSet<AcceptorId>,
    /// The process has found them where a copy is wanted, and tells the metadata so.
    told: BTreeSet<AcceptorId>,
    /// Their folders are being removed.
    going: BTreeMap<AcceptorId, ShardId>,
}

/// A decision about the folder of a copy that the metadata do not name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum May {
    /// It is wanted.
    Stay,
    /// It may be.
    Wait,
    /// It may. [`Named::gone`] follows.
    Go,
}

impl Named {
    const fn new() -> Self {
        Self { named: BTreeSet::new(), told: BTreeSet::new(), going: BTreeMap::new() }
    }

    /// Hears which of these copies the metadata name. Returns those that they name no more.
    fn hear(&mut self, all: &[AcceptorId], is_named: impl Fn(AcceptorId) -> bool) -> Vec<AcceptorId> {
        let mut gone = Vec::new();
        for id in all {
            if is_named(*id) {
                self.named.insert(*id);
                self.told.remove(id);
            } else if self.named.remove(id) {
                gone.push(*id);
            }
        }
        gone
    }

    /// A copy of a shard is wanted, and `found` is there: the metadata are told.
    ///
    /// # Errors
    /// A folder of a copy of the shard is being removed.
    fn tell(&mut self, shard: ShardId, found: Option<AcceptorId>) -> Result<(), String> {
        if self.going.values().any(|of| *of == shard) {
            return Err("a copy that was there before is being removed".to_owned());
        }
        self.told.extend(found);
        Ok(())
    }

    fn may_go(&mut self, id: AcceptorId, shard: ShardId, is_named: bool) -> May {
        if is_named {
            return May::Stay;
        }
        if self.told.remove(&id) {
            return May::Wait;
        }
        self.going.insert(id, shard);
        May::Go
    }

    fn gone(&mut self, id: AcceptorId) {
        self.going.remove(&id);
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

/// The copy of a shard's log that this process keeps.
pub fn of_shard(shard: ShardId) -> Option<Arc<Local<redolog::Folder>>> {
    acceptors().of_shard(shard).map(|held| held.acceptor)
}

/// The directories of its streams.
///
/// # Errors
/// They cannot be read.
pub fn logs_of(shard: ShardId) -> Result<Option<Vec<PathBuf>>, Unusable> {
    acceptors().of_shard(shard).map(|held| held.logs()).transpose()
}

/// Has the log of a shard go on in the folders of its copy here, with the files that are open.
///
/// # Errors
/// There is none, or its disk has failed.
pub fn promote(shard: ShardId, driver: &Arc<Driver>) -> Result<Promoted, String> {
    let gone = "its copy of the log has gone";
    let id = {
        // No other copy of the shard is begun meanwhile.
        let mut named = named();
        let id = acceptors().of_shard(shard).ok_or(gone)?.acceptor.id();
        named.0.going.insert(id, shard);
        id
    };
    let promoted = match acceptors().take_out(id) {
        Some(acceptor) => driver.promote(&acceptor).map_err(|why| format!("its copy of the log has failed: {why}")),
        None => Err(gone.to_owned()),
    };
    named().0.gone(id);
    promoted
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

#[cfg(test)]
mod tests {
    use super::*;

    const SHARD: ShardId = ShardId(3);

    #[test]
    fn a_copy_that_is_wanted_again_stays() {
        let [one, other] = [1, 2].map(|n| AcceptorId([n; 16]));
        let all = [one, other];
        let mut named = Named::new();
        assert_eq!(named.hear(&all, |_| false), [], "they have not been named yet");
        assert_eq!(named.hear(&all, |_| true), []);
        assert_eq!(named.hear(&all, |id| id == other), [one]);
        assert_eq!(named.may_go(one, SHARD, true), May::Stay);
        // It is found where a copy is wanted, before the metadata know.
        named.tell(SHARD, Some(one)).unwrap();
        assert_eq!(named.may_go(one, SHARD, false), May::Wait);
        assert_eq!(named.hear(&all, |_| true), []);
        assert_eq!(named.may_go(one, SHARD, true), May::Stay);
        // They do not take it.
        assert_eq!(named.hear(&all, |id| id == other), [one]);
        named.tell(SHARD, Some(one)).unwrap();
        assert_eq!(named.may_go(one, SHARD, false), May::Wait);
        assert_eq!(named.may_go(one, SHARD, false), May::Go);
        assert!(named.tell(SHARD, None).is_err(), "its folder may still be there");
        named.tell(ShardId(4), Some(other)).unwrap();
        named.gone(one);
        named.tell(SHARD, None).unwrap();
    }
}
