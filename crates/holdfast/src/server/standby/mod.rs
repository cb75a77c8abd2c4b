//! A node that stands by for a shard of another node: it has a copy of the shard's data, which follows the shard's log.
//!
//! ```text
//! no data:  pin in the metadata -> fetch a checkpoint of the owner -> start again
//! data:     open the store -> follow the own acceptor's blocks -> checkpoints -> counted by the owner
//! owner:    take over the log that it has followed
//! ```
//! Each step is decided by what the metadata say of this process ([`standby::Part`]), and a process whose memory cannot go
//! on starts again.

mod checkpoints;
mod fetch;
mod follow;
mod health;
mod lead;
mod note;
mod owner;
mod pace;
mod yields;

use std::error::Error;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use membership::ShardId;
use membership::control::{Control, Following, Standing};
use membership::meta::Shard;
use node::config::Settings;
use node::{CopyOfData, Node};
use shipping::Progress;
use standby::{Change, Part};

use self::checkpoints::Checkpoints;
use self::fetch::Fetch;
use self::follow::{Copy, Follow};
use self::health::{Probes, Pulse};
use self::lead::Leads;
pub use self::note::Note;
pub use self::owner::Standbys;
use super::clock::SystemClock;
use super::durable::Stored;
use super::member::begin_again;
use super::ownership::{Ownership, WeakOwnership};
use super::places::Places;
use super::switch::Switch;
use super::{chance, copies, member};

/// Between two looks at what is to be done.
const LOOK: Duration = Duration::from_millis(50);

/// The pause before another try of what has failed.
const AGAIN: Duration = Duration::from_secs(1);

/// `replica-priority` of Redis: among standbys that are as near, the lowest goes first.
const PRIORITY: u32 = 100;

/// How long a change of the metadata is waited for.
const ANSWER: Duration = Duration::from_secs(5);

/// How long a connection to the owner may take.
const DIALS: Duration = Duration::from_secs(10);

/// The work of a node that stands by. It ends with the value.
pub struct StandsBy {
    node: Arc<Node>,
    shared: Arc<Shared>,
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The part that other threads see.
#[derive(Default)]
pub struct Shared {
    follow: Mutex<Option<Arc<Follow>>>,
    /// Threads that read the store, until the process leads.
    readers: Mutex<Vec<JoinHandle<()>>>,
    /// Holds the log once the process leads.
    switch: OnceLock<Arc<Switch>>,
    /// Does the work.
    thread: Mutex<Option<Thread>>,
    /// The node, and its shard.
    belongs: OnceLock<(Weak<Node>, WeakOwnership)>,
    /// A switchover is under way.
    is_switching: AtomicBool,
    /// The work of a process that has led, and follows.
    follows: Mutex<Option<StandsBy>>,
    /// A bootstrap that is under way.
    progress: Mutex<Option<Arc<Progress>>>,
    pulse: Mutex<Pulse>,
    /// Up to when a majority of the acceptors counts as reached by a standby, in milliseconds of the boot clock.
    reaches_until: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// The node has joined its cluster.
    pub fn belongs(self: &Arc<Self>, node: &Arc<Node>, ownership: &Ownership) {
        let _ = self.belongs.set((Arc::downgrade(node), ownership.weak()));
        let leaves = Arc::downgrade(self);
        node.before_stopping(Box::new(move || leaves.upgrade().iter().for_each(|shared| shared.leave())));
    }

    /// The process follows no more.
    pub fn end(&self) {
        let follows = lock(&self.follows).take();
        drop(follows);
    }

    /// The server has started.
    pub fn begin(&self, switch: &Arc<Switch>) {
        let _ = self.switch.set(Arc::clone(switch));
        self.look();
    }

    /// The metadata have changed.
    pub fn look(&self) {
        lock(&self.thread).iter().for_each(Thread::unpark);
    }

    /// How well the process is, and how far, for its renewals.
    pub fn standing(&self, node: &Node) -> Standing {
        let follow = lock(&self.follow).clone().filter(|follow| !follow.has_ended());
        let mut health = lock(&self.pulse).health(node, follow.as_ref().map(|follow| follow.shard()));
        health.reaches_majority = node.clock.boot_ns().ms().0 < self.reaches_until.load(SeqCst);
        let following = follow.map(|follow| {
            let behind = follow.behind();
            Following {
                log: follow.end(),
                behind_bytes: behind.bytes,
                behind_ms: behind.ms,
                applied_bytes: behind.applied_bytes,
                priority: PRIORITY,
                covered: follow.covered(),
            }
        });
        Standing { health, following }
    }
}

/// A start of a node that stands by, as its files say.
pub struct Begins {
    pub shard: Shard,
    /// The store, if it is a checkpoint of the shard.
    pub stored: Option<Stored>,
    /// The identity of the node's data.
    pub id: [u8; 16],
    store: PathBuf,
}

impl Begins {
    /// `None`: the node stands by for nothing.
    ///
    /// # Errors
    /// The node's files cannot be read, or have the data of a shard that it neither owns nor stands by for.
    pub fn of(settings: &Settings, dir: &Path, clock: &Arc<SystemClock>) -> Result<Option<Self>, Box<dyn Error>> {
        if !settings.appendonly || !settings.takes_part_in_cluster() {
            return Ok(None);
        }
        let note = Note::read(dir)?;
        let Some(shard) = member::known_standby(settings) else {
            let is_owned = |note: &Note| member::known_shard(settings).is_some_and(|own| own.id == note.shard);
            return match note.filter(|note| !is_owned(note)) {
                None => Ok(None),
                Some(note) => Err(format!(
                    "this node has a copy of the data of shard {}, which it neither owns nor stands by for any more: start it with an empty dir",
                    note.shard.0
                )
                .into()),
            };
        };
        let places = Places::of_data(settings, dir)?;
        let is_of_it = match &note {
            Some(note) => note.shard == shard.id,
            // It was the shard's owner.
            None => loggroup::shard_of_own(&places.logs)? == Some(shard.id),
        };
        let stored = is_of_it.then(|| Stored::open(settings, dir, clock.clone())).transpose()?;
        // One without a checkpoint is as good as none.
        let has_checkpoint = stored.as_ref().map(Stored::seed).transpose()?.flatten().is_some();
        let stored = stored.filter(|_| has_checkpoint);
        let id = match &stored {
            Some(stored) => stored.id(),
            None => match store::node_of(&places.store)? {
                Some(id) => id,
                None => chance::random()?,
            },
        };
        Ok(Some(Self { shard, stored, id, store: places.store }))
    }

    /// Reads which keys the store has, and begins. The node hashes with `seed`, and its workers have not started.
    ///
    /// # Errors
    /// The store cannot be read, or the system has no thread.
    pub fn begin(
        self,
        node: &Arc<Node>,
        ownership: &Ownership,
        seed: u64,
        shared: &Arc<Shared>,
    ) -> Result<StandsBy, Box<dyn Error>> {
        let Self { shard, stored, id, store } = self;
        node.follows.store(true, SeqCst);
        let dir = Path::new(OsStr::from_bytes(&node.config.settings().dir)).to_owned();
        let copy = match stored {
            None => None,
            Some(stored) => {
                let (copy, readers) = Copy::open(node, &stored, (shard.id, shard.streams), seed)?;
                *lock(&shared.readers) = readers;
                Some((copy, stored))
            }
        };
        match &copy {
            Some(_) => tracing::info!("This node stands by for shard {}, with a copy of its data", shard.id.0),
            None => tracing::info!("This node stands by for shard {}, and has no copy of its data yet", shard.id.0),
        }
        let means = Means { node: Arc::clone(node), ownership: ownership.clone(), dir, store, id };
        Ok(StandsBy::begin(means, copy, shared)?)
    }
}

/// The means of a node that stands by.
struct Means {
    node: Arc<Node>,
    ownership: Ownership,
    /// The node's directory, and its store.
    dir: PathBuf,
    store: PathBuf,
    /// The identity of its data.
    id: [u8; 16],
}

impl StandsBy {
    /// Begins. `copy`: the data that the node has of the shard.
    ///
    /// # Errors
    /// The system has no thread.
    fn begin(means: Means, copy: Option<(Copy, Stored)>, shared: &Arc<Shared>) -> std::io::Result<Self> {
        let node = Arc::clone(&means.node);
        let (copy, stored) = copy.map_or((None, None), |(copy, stored)| (Some(copy), Some(stored)));
        let (shares, is_stopped) = (Arc::clone(shared), Arc::<AtomicBool>::default());
        let stops = Arc::clone(&is_stopped);
        let mut steps = Steps {
            means,
            copy,
            stored,
            shared: shares,
            is_stopped: stops,
            checkpoints: None,
            probes: Probes::default(),
            was_lost: false,
            is_over: false,
        };
        let run = move || steps.run();
        let thread = thread::Builder::new().name("standby".into()).spawn(run)?;
        *lock(&shared.thread) = Some(thread.thread().clone());
        Ok(Self { node, shared: Arc::clone(shared), is_stopped, thread: Some(thread) })
    }
}

impl Drop for StandsBy {
    fn drop(&mut self) {
        self.is_stopped.store(true, SeqCst);
        lock(&self.shared.progress).iter().for_each(|progress| progress.stop());
        self.shared.look();
        // One that has panicked has told so itself.
        let _ = self.thread.take().map(JoinHandle::join);
        let readers = std::mem::take(&mut *lock(&self.shared.readers));
        if !readers.is_empty() {
            self.node.engine.source.set(None);
            self.node.engine.requests.close();
        }
        for reader in readers {
            let _ = reader.join();
        }
    }
}

/// The life of a node that stands by.
struct Steps {
    means: Means,
    copy: Option<Copy>,
    /// The store, until the process leads.
    stored: Option<Stored>,
    shared: Arc<Shared>,
    is_stopped: Arc<AtomicBool>,
    checkpoints: Option<Checkpoints>,
    probes: Probes,
    /// The data that it had are of no use.
    was_lost: bool,
    /// The process starts again, or leads.
    is_over: bool,
}

impl Steps {
    fn run(&mut self) {
        while !self.is_stopped.load(SeqCst) && !self.means.node.is_stopping() {
            match self.step() {
                Ok(()) => thread::park_timeout(LOOK),
                Err(why) => {
                    tracing::warn!(cause = "standby", "This node does not stand by yet: {why}");
                    thread::park_timeout(AGAIN);
                }
            }
        }
        self.stop();
    }

    /// The copy follows no more.
    fn stop(&mut self) {
        self.checkpoints.take().map(Checkpoints::stop);
        self.means.node.set_copy(None);
        drop(lock(&self.shared.follow).take());
    }

    fn step(&mut self) -> Result<(), String> {
        if self.is_over {
            return Ok(());
        }
        let Some((shard, part)) = self.part() else { return Ok(()) };
        match part {
            Part::Follows => self.follow(&shard),
            Part::Pins => self.pin(&shard),
            Part::Waits => self.fetch(&shard),
            Part::StartsAgain => {
                self.starts_again("the shard's owner has given it up");
                Ok(())
            }
            Part::Owns => {
                self.take_over(shard);
                Ok(())
            }
            // The map says so to those who watch it, and the process starts again.
            Part::Leads => Ok(()),
            Part::Removed => {
                self.stop();
                self.is_over = true;
                tracing::warn!(
                    "This node stands by for shard {} no more. It goes on without data, until its end: then start it with an empty dir",
                    shard.id.0
                );
                Ok(())
            }
        }
    }

    /// The shard that the node stands by for, and this process's part in it.
    fn part(&self) -> Option<(Shard, Part)> {
        let control = self.means.ownership.control();
        let (map, me) = (control.map(), control.id());
        let is_known = map.member(me).is_some_and(|member| member.incarnation == control.incarnation());
        let has_store = !self.was_lost && (self.copy.is_some() || lock(&self.shared.follow).is_some());
        is_known.then(|| control.part(has_store)).flatten()
    }

    fn follow(&mut self, shard: &Shard) -> Result<(), String> {
        let follow = lock(&self.shared.follow).clone();
        match follow {
            Some(follow) if follow.has_failed() => {
                // The store may be what does not fit the log.
                Note::remove(&self.means.dir).map_err(|why| why.to_string())?;
                self.starts_again("its copy of the data does not fit the log, and is fetched anew");
            }
            Some(follow) if follow.has_ended() => self.starts_again("its copy of the data follows the log no more"),
            Some(follow) => {
                let (means, applied) = (&self.means, follow.applied().last());
                self.probes.look(
                    (means.ownership.control(), &means.node.clock),
                    shard,
                    applied,
                    &self.shared.reaches_until,
                );
            }
            None => {
                // Its folder is opened when the metadata are heard.
                let Some(acceptor) = copies::of_shard(shard.id) else { return Ok(()) };
                let Some(copy) = self.copy.take() else { return Ok(()) };
                let (follow, checkpointer) = match Follow::begin(&self.means.node, copy, &acceptor) {
                    Ok(begun) => begun,
                    Err(why) => {
                        self.was_lost = true;
                        return Err(why.to_string());
                    }
                };
                let follow = Arc::new(follow);
                let checkpoints = Checkpoints::start(&self.means.node, &follow, checkpointer);
                self.checkpoints = Some(checkpoints.map_err(|why| why.to_string())?);
                tracing::info!("This node stands by for shard {}: its copy follows the log", shard.id.0);
                self.means.node.set_copy(Some(Arc::clone(&follow) as Arc<dyn CopyOfData>));
                *lock(&self.shared.follow) = Some(follow);
            }
        }
        Ok(())
    }

    /// Asks the metadata to have the owner's log wait for this process.
    fn pin(&self, shard: &Shard) -> Result<(), String> {
        tracing::info!("This node is to stand by for shard {}, and asks its owner to keep the log", shard.id.0);
        let (tell, told) = channel();
        self.means.ownership.control().pin(shard.id, move |pinned| drop(tell.send(pinned)));
        told.recv_timeout(ANSWER).map_err(|_| "the metadata do not answer".to_owned())?
    }

    /// Fetches a checkpoint, and starts again with it.
    fn fetch(&mut self, shard: &Shard) -> Result<(), String> {
        let Means { ownership, dir, store, id, .. } = &self.means;
        let logs = copies::logs_of(shard.id).map_err(|why| why.to_string())?;
        let Some(logs) = logs else {
            return Err(format!("it keeps no copy of the log of shard {}, which it would read", shard.id.0));
        };
        let note = Note { shard: shard.id, logs };
        let progress = Arc::new(Progress::default());
        *lock(&self.shared.progress) = Some(Arc::clone(&progress));
        tracing::info!("A copy of the data of shard {} is fetched from its owner", shard.id.0);
        let (tell, told) = channel();
        ownership.control().dial_store(shard.owner, move |dialed| drop(tell.send(dialed)));
        let socket = told.recv_timeout(DIALS).map_err(|_| "the owner does not answer".to_owned())??;
        Fetch { dir, store, id: *id, note: &note, progress: &progress }.run(socket)?;
        let bytes = progress.bytes().0;
        tracing::info!("A copy of the data of shard {} is here: {bytes} bytes", shard.id.0);
        self.starts_again("it has a copy of the data that it stands by with");
        Ok(())
    }

    /// Leads the log that it has followed. If that fails, it takes the shard over by a start.
    fn take_over(&mut self, shard: Shard) {
        let Some(switch) = self.shared.switch.get().cloned() else { return };
        let began = self.means.node.clock.boot_ns();
        self.means.node.set_copy(None);
        let follow = lock(&self.shared.follow).take().filter(|follow| !follow.has_ended());
        let checkpointer = self.checkpoints.take().and_then(Checkpoints::stop);
        let (Some(follow), Some(checkpointer), Some(stored)) = (follow, checkpointer, self.stored.take()) else {
            return self.starts_again("it takes over the shard that it stands by for, and its copy does not follow");
        };
        let Means { node, ownership, .. } = &self.means;
        let leads = Leads { node, ownership, switch: &switch, shard, readers: &self.shared.readers };
        match leads.take_over(&follow, stored, checkpointer, began) {
            Ok(()) => self.is_over = true,
            Err(_) if self.means.node.is_stopping() => self.is_over = true,
            Err(why) => self.starts_again(&format!("it could not take over its shard in place: {why}")),
        }
    }

    fn starts_again(&mut self, why: &str) {
        self.is_over = true;
        begin_again(self.means.ownership.again(), &self.means.node, why);
    }
}

/// Has a change of a shard's copies applied.
///
/// # Errors
/// The metadata do not answer, or refuse it.
pub fn propose(control: &Control, shard: ShardId, change: Change) -> Result<(), String> {
    let (tell, told) = channel();
    control.change_copies(shard, change, move |changed| drop(tell.send(changed)));
    told.recv_timeout(ANSWER).map_err(|_| "the metadata do not answer".to_owned())?
}

/// True if the metadata have this process stand by for a shard.
pub fn stands_by_for(control: &Control, shard: ShardId) -> bool {
    let map = control.map();
    let is_this_life = map.member(control.id()).is_some_and(|member| member.incarnation == control.incarnation());
    let part = control.part(false).filter(|_| is_this_life);
    part.is_some_and(|(of, part)| of.id == shard && !matches!(part, Part::Owns | Part::Leads | Part::Removed))
}
