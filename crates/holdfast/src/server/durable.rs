//! The data of a server on its disks: its log and its store, which it reads before it listens.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use clocks::UnixMs;
use engine::checkpoint::{
    Checkpointer, Header, Replayed, StoreSource, Unloadable, WarmUp, directories, header, note_directories,
    note_streams, streams_begun,
};
use loggroup::Driver;
use node::config::{AppendFsync, EvictionPolicy, Settings};
use node::{Checkpoints, Clock, Durable, Floor, Node, Recovered, size_of};
use redolog::{Damage, Format, Fsync, Gate, Gates, Limits, Log, Lsn, Opened, Promoted, State};
use store::{Embedded, Store};

use super::chance;
use super::group::Group;
use super::places::Places;
use super::standby::Standbys;
use super::{checkpoints, copies, loaders, member, process, replay, taken_over, warm_up};

/// The most threads that replay the log. One more reads for them.
const HANDS_MAX: usize = 8;

/// Translates the setting for the log.
pub fn fsync(setting: AppendFsync) -> Fsync {
    match setting {
        AppendFsync::Always => Fsync::Always,
        AppendFsync::Everysec => Fsync::Everysec,
        AppendFsync::No => Fsync::No,
    }
}

/// An opened log and store. Nothing of them is in memory yet.
pub struct Disks {
    pub(super) log: Opened,
    pub(super) node: [u8; 16],
    pub(super) store: Arc<dyn Store>,
    pub(super) header: Option<Header>,
    pub(super) places: Places,
    /// The copies of the log, if it has any, and what the metadata say of them.
    pub(super) copies: Option<(Arc<Driver>, Group)>,
}

/// A store that was opened before the log is there: that has to be taken over from its copies first.
pub struct Stored {
    node: [u8; 16],
    store: Arc<dyn Store>,
    pub places: Places,
}

/// The parts that keep data on the disks while the server runs.
pub struct Kept {
    /// The log.
    pub log: Log,
    /// Gates to the log for this value alone, one for each stream.
    pub gates: Vec<Gate>,
    /// The checkpoints, and their thread.
    pub checkpoints: Arc<Checkpoints>,
    pub thread: JoinHandle<Checkpointer>,
    /// Threads that read the store.
    pub readers: Vec<JoinHandle<()>>,
    pub places: Places,
    pub node: Arc<Node>,
    pub copies: Option<Arc<Driver>>,
    /// The standbys of the shard, if its log has copies.
    pub standbys: Option<Arc<Standbys>>,
}

/// A log that runs.
pub struct Running {
    pub log: Log,
    pub durable: Arc<Durable>,
    /// Gates for the checkpointer, and for the switch of the log.
    pub gates: [Vec<Gate>; 2],
}

/// A log that runs, and the store beside it.
pub struct Runs {
    pub running: Running,
    pub store: Arc<dyn Store>,
    places: Places,
    copies: Option<Arc<Driver>>,
    standbys: Option<Arc<Standbys>>,
}

impl Runs {
    /// The state of its checkpoints. `saved`: when the last one was made, and its keys.
    pub fn checkpoints(&self, node: &Node, saved: Option<(UnixMs, u64)>) -> Arc<Checkpoints> {
        Arc::new(Checkpoints::new(self.store.clone(), node.facts.started, saved))
    }

    /// Starts the threads that make checkpoints and read the store into memory. `readers`: those that read it already.
    pub fn keep(
        self,
        node: &Arc<Node>,
        checkpointer: Checkpointer,
        state: Arc<Checkpoints>,
        mut readers: Vec<JoinHandle<()>>,
    ) -> Result<Kept, Box<dyn Error>> {
        let Self {
            running: Running { log, durable, gates: [for_checkpoints, gates] },
            store,
            places,
            copies,
            standbys,
        } = self;
        let warm = WarmUp::new(node.engine.clone(), store, node.spare_local());
        readers.push(warm_up::start(node, &state, warm)?);
        let floor = standbys.clone().map(|standbys| Arc::new(move |covered: &[Lsn]| standbys.floor(covered)) as Floor);
        let (node, tail) = (Arc::clone(node), durable.tail().clone());
        let thread = checkpoints::start(
            Arc::clone(&node),
            log.clone(),
            for_checkpoints,
            checkpointer,
            state.clone(),
            tail,
            floor,
        )?;
        Ok(Kept { log, gates, checkpoints: state, thread, readers, places, node, copies, standbys })
    }
}

impl Disks {
    /// Opens the directories that the settings name, as seen from `dir`: the working directory may change.
    pub fn open(settings: &Settings, dir: &Path, clock: Arc<dyn Clock>) -> Result<Disks, Box<dyn Error>> {
        let places = Places::of(settings, dir);
        places.make()?;
        let (folders, folder) = (&places.logs, &places.store);
        let log = open_log(settings, folders, clock.clone());
        let mut log = log.map_err(|damage| no_log(&damage, &places, folder))?;
        let is_new = log.recovery().node().is_none();
        log.write_in(member::log_format(settings, dir, is_new));
        for (file, at) in log.recovery().torn() {
            tracing::warn!(
                "{file}: cut at byte {at}; the records after that were not known to be on the disk and were never confirmed"
            );
        }
        let node = identity_of(&log, folder)?;
        let store = open_store(settings, folder, node, clock)?;
        Self::together(log, node, store, places)
    }

    /// A log and a store that were opened, if they belong together.
    pub(super) fn together(
        log: Opened,
        node: [u8; 16],
        store: Arc<dyn Store>,
        places: Places,
    ) -> Result<Disks, Box<dyn Error>> {
        let header = header(&*store)?;
        let begun = streams_begun(&*store)?;
        node::check_disks(&log, header.as_ref(), begun, &places.store.display().to_string())
            .map_err(|why| places.explain(&why, &directories(&*store).unwrap_or_default()))?;
        Ok(Disks { log, node, store, header, places, copies: None })
    }

    /// The identity of log and store.
    pub fn id(&self) -> [u8; 16] {
        self.node
    }

    /// The highest term that the log has once the server writes to it (rule G1).
    pub fn term(&self) -> u32 {
        self.log.recovery().term().saturating_add(1)
    }

    /// The hash seed by which the store orders its keys. `None` without keys.
    pub fn seed(&self) -> Option<u64> {
        self.header.as_ref().map(|header| header.seed)
    }

    /// Reads the keys of the store, replays the log since the checkpoint, and hands log and store to the node. The node
    /// hashes with `seed`, and its workers have not started.
    pub fn start(mut self, node: &Arc<Node>, seed: u64, settings: &Settings) -> Result<Kept, Box<dyn Error>> {
        let began = node.clock.monotonic_ns();
        node.note_startup_memory();
        let recovered = self.recover(node)?;
        self.store.tend();
        let keyspace = &node.engine.keyspace;
        let there: u64 = (0..settings.databases).map(|db| keyspace.len(db)).sum();
        let (keys, highest) = (recovered.keys(), recovered.highest());
        let Replayed { bytes, records, fetched, .. } = recovered.replayed;
        let tail = size_of(bytes, records, fetched);
        let ms = node.clock.monotonic_ns().since(began) / 1_000_000;
        tracing::info!(
            "DB loaded from disk: {there} keys in {ms} ms: {keys} are in a checkpoint, each read when a command needs it; {records} records of the log, for which {fetched} were read"
        );

        self.heed(&recovered)?;
        let runs = self.run(highest, node, settings)?;
        let loaded = recovered.loaded;
        let saved = loaded.as_ref().map(|loaded| (loaded.header.saved_at, keys));
        let (durable, state) = (&runs.running.durable, runs.checkpoints(node, saved));
        durable.tail().replayed(tail);
        node.set_log(Some((durable.clone(), state.clone())));
        let readers = fetch_from(node, &runs.store)?;
        let checkpointer = Checkpointer::new(node.engine.clone(), runs.store.clone(), seed, loaded);
        runs.keep(node, checkpointer, state, readers)
    }

    /// Starts the log, which is as it is to go on, and leads its copies, if it has any. New records have LSNs above `above`.
    fn run(mut self, above: Lsn, node: &Arc<Node>, settings: &Settings) -> Result<Runs, Box<dyn Error>> {
        let copies = self.copies.take();
        let begins = self.log.recovery().bases().iter().max().copied().unwrap_or_default();
        if let Some((copies, _)) = &copies {
            copies.lead(&mut self.log)?;
        }
        let running = run(self.log, self.node, above, node, settings, fsync(settings.appendfsync))?;
        if let Some((copies, group)) = &copies {
            taken_over::follow(copies, group, &running.log, node)?;
        }
        note_streams(&*self.store, running.log.streams())?;
        note_places(&*self.store, &self.places);
        let standbys = copies.as_ref().map(|_| Standbys::new(begins));
        let copies = copies.map(|(copies, _)| copies);
        Ok(Runs { running, store: self.store, places: self.places, copies, standbys })
    }

    /// Reads the keys of the store and replays the log since the checkpoint.
    pub(super) fn recover(&mut self, node: &Node) -> Result<Recovered, Box<dyn Error>> {
        let log = &mut self.log;
        let cores = thread::available_parallelism().map_or(1, |n| n.get());
        // Each has a part of the keyspace that is a worker's or a loader's later.
        let hands = cores.min(HANDS_MAX).min(node.workers() + node::LOADERS - 1);
        node::recover_by(node, &*self.store, hands, |dealer, hands| replay::run(log, dealer, hands))
    }

    /// Heeds the log's notes on the end of the last run.
    fn heed(&mut self, recovered: &Recovered) -> Result<(), Box<dyn Error>> {
        if let Some(lsn) = recovered.replayed.void_from {
            tracing::warn!(
                "The last run ended while it switched appendonly on: changes made during that were not confirmed to be durable, and are lost"
            );
            self.log.void_from(lsn)?;
        }
        if let Some(at) = recovered.replayed.ended {
            tracing::warn!(
                "The data is as it was when appendonly was switched off, at unix time {}.{:03}: later changes were not logged",
                at.seconds(),
                at.0 % 1000
            );
        }
        Ok(())
    }
}

impl Stored {
    /// Opens the store that the settings name, as seen from `dir`, and makes the directories of the log.
    pub fn open(settings: &Settings, dir: &Path, clock: Arc<dyn Clock>) -> Result<Stored, Box<dyn Error>> {
        let places = Places::of_data(settings, dir)?;
        places.make()?;
        let node = match store::node_of(&places.store)? {
            Some(node) => node,
            None => chance::random()?,
        };
        let store = open_store(settings, &places.store, node, clock)?;
        Ok(Stored { node, store, places })
    }

    /// The identity of the data.
    pub fn id(&self) -> [u8; 16] {
        self.node
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The hash seed by which the store orders its keys. `None` without keys.
    pub fn seed(&self) -> Result<Option<u64>, Box<dyn Error>> {
        Ok(header(&*self.store)?.map(|header| header.seed))
    }

    /// Starts the log in the folders of its copy here. New records have LSNs above `above`.
    ///
    /// # Errors
    /// A thread cannot be started, or the store cannot be written.
    pub fn promote(
        self,
        promoted: Promoted,
        copies: Arc<Driver>,
        above: Lsn,
        node: &Arc<Node>,
        settings: &Settings,
    ) -> Result<Runs, Box<dyn Error>> {
        let standbys = Standbys::new(promoted.begins());
        let of_log = settings_of_log(node, settings, fsync(settings.appendfsync))?;
        let (log, gates) = promoted.start(copies.clone(), above, workers_of(node), of_log)?;
        copies.goes_on(&log);
        let running = Running::of(log, gates, node);
        note_streams(&*self.store, running.log.streams())?;
        note_places(&*self.store, &self.places);
        let (copies, standbys) = (Some(copies), Some(standbys));
        Ok(Runs { running, store: self.store, places: self.places, copies, standbys })
    }

    /// With the log, which copies have brought up to date.
    pub fn with_log(
        self,
        settings: &Settings,
        clock: Arc<dyn Clock>,
        copies: (Arc<Driver>, Group),
    ) -> Result<Disks, Box<dyn Error>> {
        let Stored { node, store, places } = self;
        let log = open_log(settings, &places.logs, clock);
        let mut log = log.map_err(|damage| no_log(&damage, &places, &places.store))?;
        log.write_in(Format::Four);
        let disks = Disks::together(log, node, store, places)?;
        Ok(Disks { copies: Some(copies), ..disks })
    }
}

fn open_log(settings: &Settings, folders: &[PathBuf], clock: Arc<dyn Clock>) -> Result<Opened, Damage> {
    match copies::devices(settings, clock) {
        None => Opened::new(folders, &[]),
        Some(devices) => Opened::slow(folders, &[], &devices),
    }
}

fn open_store(
    settings: &Settings,
    folder: &Path,
    node: [u8; 16],
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn Store>, Box<dyn Error>> {
    let store = store::Settings {
        node,
        at_least: 0,
        limits: limits(bound(settings.maxmemory), settings.maxmemory_policy != EvictionPolicy::NoEviction),
        clock: Arc::new(move || Duration::from_nanos(clock.monotonic_ns().0)),
    };
    if settings.maxmemory > 0 {
        // Otherwise memory that log and store have freed is resident for a second: beside a small limit that is much.
        crate::memory::give_back_soon();
    }
    Ok(Arc::new(Embedded::open(folder, &store)?))
}

/// Why there is no log in these places, and where it may be. `folder`: of the store, or of its copy.
pub(super) fn no_log(damage: &Damage, places: &Places, folder: &Path) -> String {
    let Damage::Streams(why) = damage else { return damage.to_string() };
    let before = || -> Result<_, Box<dyn Error>> {
        let Some(node) = store::node_of(folder)? else { return Ok(Vec::new()) };
        let settings =
            store::Settings { node, at_least: 0, limits: store::Limits::default(), clock: Arc::new(Duration::default) };
        Ok(directories(&Embedded::open(folder, &settings)?)?)
    };
    // It is the log that is to be mended: what else is wrong shows at the next start.
    places.explain(why, &before().unwrap_or_default())
}

/// Notes the directories of the log, to help a start that does not find them. A failure is only logged.
pub(super) fn note_places(store: &dyn Store, places: &Places) {
    if let Err(why) = note_directories(store, &places.log_names()) {
        tracing::warn!("The store cannot note where the log is: {why}");
    }
}

/// The identity of the data. `folder` is the store's.
pub(super) fn identity_of(log: &Opened, folder: &Path) -> Result<[u8; 16], Box<dyn Error>> {
    Ok(match log.recovery().node() {
        Some(node) => node,
        None => match store::node_of(folder)? {
            Some(node) => node,
            None => chance::random()?,
        },
    })
}

/// Starts threads that fetch keys from this store when a command needs them.
pub fn fetch_from(node: &Arc<Node>, store: &Arc<dyn Store>) -> std::io::Result<Vec<JoinHandle<()>>> {
    let report = |why: &Unloadable| tracing::warn!(cause = "key", "A key cannot be read from the store: {why}");
    let source = Arc::new(StoreSource { store: Arc::clone(store), report });
    limit_loads(node, &node.config.settings());
    let loaders = loaders::start(node)?;
    node.engine.source.set(Some(source));
    Ok(loaders)
}

/// Limits the bytes of large values that loaders read at once, by the settings.
pub fn limit_loads(node: &Node, settings: &Settings) {
    node.engine.budget.limit_to(at_once(bound(settings.maxmemory)));
}

/// Starts the threads of a log. An empty log gets the identity `id`. New records have LSNs above `above`.
pub fn run(
    opened: Opened,
    id: [u8; 16],
    above: Lsn,
    node: &Arc<Node>,
    settings: &Settings,
    fsync: Fsync,
) -> Result<Running, Box<dyn Error>> {
    let (log, gates) = opened.start(id, above, workers_of(node), settings_of_log(node, settings, fsync)?)?;
    Ok(Running::of(log, gates, node))
}

/// The workers of a log: those of the node, the checkpointer, and the switch of the log.
fn workers_of(node: &Node) -> usize {
    node.workers() + 2
}

fn settings_of_log(node: &Node, settings: &Settings, fsync: Fsync) -> Result<redolog::Settings, Box<dyn Error>> {
    let clock = Arc::clone(&node.clock);
    Ok(redolog::Settings {
        limits: limits_of_log(settings),
        fsync,
        clock: Arc::new(move || clock.monotonic_ns().0),
        seed: u64::from_ne_bytes(chance::random()?),
    })
}

impl Running {
    fn of(log: Log, mut gates: Gates, node: &Arc<Node>) -> Self {
        let own = [gates.pop().unwrap_or_default(), gates.pop().unwrap_or_default()];
        log.on_state(Box::new(|state| tracing::warn!(cause = news(state), "{}", news(state))));
        let watcher: Weak<Node> = Arc::downgrade(node);
        log.on_moved(Box::new(move || {
            if let Some(node) = watcher.upgrade() {
                node.log_moved();
            }
        }));
        let durable = Arc::new(Durable::new(log.clone(), gates));
        Self { log, durable, gates: own }
    }
}

/// The log line about a log that has entered this state.
fn news(state: &State) -> String {
    match state {
        State::Running => "There is a next segment of the log again: commands that write are accepted".into(),
        State::Full(lack) => format!(
            "The log's next segment cannot be had: {lack}: commands that write are refused until it can; nothing that was confirmed is lost"
        ),
        State::Failed(why) => format!(
            "The log has failed: commands that write are refused until the server is started again; nothing that was confirmed is lost: {why}"
        ),
    }
}

impl Kept {
    /// Ends all parts once the workers have ended or log no more. Returns the number of the next freeze.
    pub fn stop(self) -> u64 {
        self.node.engine.source.set(None);
        self.node.engine.requests.close();
        if !self.readers.into_iter().map(JoinHandle::join).fold(true, |well, joined| well & joined.is_ok()) {
            tracing::warn!("A thread that reads the store has panicked");
        }
        self.checkpoints.stop();
        // The store is closed with it.
        let epoch = joined(self.thread).map_or(0, |checkpointer| checkpointer.epoch());
        if let redolog::State::Failed(reason) = self.log.stop() {
            tracing::warn!("The log has failed, and writes that it did not confirm may be lost: {reason}");
        }
        self.copies.iter().for_each(|copies| copies.stop());
        epoch
    }
}

fn joined(thread: JoinHandle<Checkpointer>) -> Option<Checkpointer> {
    let checkpointer = thread.join().ok();
    if checkpointer.is_none() {
        tracing::warn!("The thread of the checkpoints has panicked");
    }
    checkpointer
}

/// The parts of a log's end that go on.
pub struct Ended {
    pub stored: Stored,
    /// A checkpoint may be under way.
    pub checkpointer: Checkpointer,
    /// Threads that read the store.
    pub readers: Vec<JoinHandle<()>>,
}

impl Kept {
    /// Ends the log: all its records are committed, and workers do not use it any more. Store and memory stay.
    ///
    /// # Errors
    /// The log has failed, or something else has panicked. In words.
    pub fn end(self) -> Result<Ended, String> {
        let Self { log, checkpoints, thread, readers, places, copies, .. } = self;
        let store = checkpoints.store().ok_or("there is no store")?;
        checkpoints.stop();
        let checkpointer = joined(thread).ok_or("the thread of the checkpoints has panicked")?;
        // That thread ends with the checkpoints: its part of the keyspace is another's then.
        let (warm_ups, readers): (Vec<_>, Vec<_>) =
            readers.into_iter().partition(|reader| reader.thread().name() == Some(warm_up::WARM_UP));
        warm_ups.into_iter().for_each(|thread| drop(thread.join()));
        let state = log.stop();
        copies.iter().for_each(|copies| copies.stop());
        if let State::Failed(why) = state {
            return Err(why);
        }
        let node = store::node_of(&places.store).map_err(|why| why.to_string())?.ok_or("the store has no name")?;
        Ok(Ended { stored: Stored { node, store, places }, checkpointer, readers })
    }
}

/// How the log is kept: where memory is limited, in smaller blocks, as they are put together there.
pub(super) fn limits_of_log(settings: &Settings) -> Limits {
    const LEAST: u64 = 1 << 18;
    // A start reads whole segments, so the bytes in them before the tail should be few beside it.
    let segment = match settings.checkpoint_log_max {
        0 => settings.log_segment_size,
        most => settings.log_segment_size.min(u32::try_from(most / 8).unwrap_or(u32::MAX)),
    };
    let limits = Limits::of(segment);
    let bound = bound(settings.maxmemory);
    if bound == 0 {
        return limits;
    }
    let block = (bound / 64).clamp(LEAST, limits.block as u64);
    Limits { block: block as usize, ..limits }
}

/// The lower one of `maxmemory` and the system's limits, in bytes. 0: no limit.
fn bound(maxmemory: u64) -> u64 {
    bound_of(maxmemory, headroom::is_limited().then(|| (headroom::limit(), headroom::resident())))
}

/// As [`bound`]. `system` has the limits of address space and of resident memory, if there are any.
fn bound_of(maxmemory: u64, system: Option<(u64, u64)>) -> u64 {
    let system = system.map(|(space, resident)| (space - headroom::margin(space)).min(resident));
    match (maxmemory, system) {
        (0, system) => system.unwrap_or(0),
        (most, system) => system.map_or(most, |system| most.min(system)),
    }
}

/// The bytes of large values that loaders may read at once: as many as the largest string may have.
fn at_once(bound: u64) -> u64 {
    if bound == 0 { u64::MAX } else { bound / 32 }
}

/// The limits of the store: a small part of the memory for data, and of the descriptors. Where a policy `deletes` keys,
/// the store is read only after a start and for compaction, so it gets less.
fn limits(maxmemory: u64, deletes: bool) -> store::Limits {
    const LEAST: u64 = 1 << 20;
    const LEAST_TABLE: u64 = 2 << 20;
    let most_files = process::limit(libc::RLIMIT_NOFILE).unwrap_or(u64::MAX);
    let files = usize::try_from(net::descriptors::of_store(most_files)).unwrap_or(usize::MAX);
    let most = store::Limits { files, ..store::Limits::default() };
    if maxmemory == 0 {
        return most;
    }
    let part = maxmemory / 32;
    let (memory, cache) = if deletes { (part / 2, part / 4) } else { (part, part) };
    let table = (2 * part).clamp(LEAST_TABLE, most.table);
    store::Limits { memory: memory.clamp(LEAST, most.memory), cache: cache.clamp(LEAST, most.cache), table, ..most }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a control group, a store without `maxmemory` took as much as one that has a machine for itself.
    #[test]
    fn what_the_system_leaves_bounds_the_store() {
        let (group, space) = (Some((u64::MAX, 400 << 20)), Some((800 << 20, u64::MAX)));
        assert_eq!([bound_of(0, None), bound_of(7, None), bound_of(7, group)], [0, 7, 7]);
        assert_eq!(
            [bound_of(0, group), bound_of(1 << 40, group), bound_of(0, space)],
            [400 << 20, 400 << 20, 500 << 20]
        );
        let (free, group) = (limits(bound_of(0, None), false), limits(bound_of(0, group), false));
        assert_eq!((free.memory, free.cache), (64 << 20, 64 << 20));
        assert!(2 * group.memory + group.cache < 400 << 20 >> 3, "{group:?}");
        let deletes = limits(400 << 20, true);
        assert!((2 * deletes.memory + deletes.cache) * 2 < 2 * group.memory + group.cache, "{deletes:?}");
    }
}
