//! A start of the owner: its own folder is brought to the log that a majority has, and then becomes the log that runs.
//!
//! ```text
//! own folder's acceptor -- sealed, filled --> closed -- `Opened`, replayed, cut --> begun --> leads: clients are served
//! ```
//!
//! So there is one recovery: whatever the own folder lacked is there before the log is opened.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorum::{AcceptorId, History, Limits, ShardId, Term};
use redolog::{Damage, Disk, Holder, Lead, Log, Lsn, Name, Opened, Reader, Replica};

use super::{Driver, Ended, OwnReads, Plan, Wait};
use crate::folder::{Cluster, Folder, Identity, NAME, Place, Unusable, folder_above, named, shard_of};
use crate::local::Local;
use crate::port::{Listener, Port};

/// The folder beside the first stream's segments for all that an acceptor has but blocks. It is removed together with
/// the log (rule G9).
const OWN: &str = "acceptor";

/// The owner's own folder: the directories of its log, as an acceptor.
pub struct Own<D: Disk = redolog::Folder> {
    folder: Folder<D>,
    known: Vec<History>,
}

/// The reason why a start cannot go on.
#[derive(Debug)]
pub enum NotStarted {
    /// The own folder cannot be used.
    Own(Unusable),
    /// The log cannot be read.
    Log(Damage),
    /// See there.
    Ended(Ended),
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(why) => why.fmt(f),
            Self::Log(why) => why.fmt(f),
            Self::Ended(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for NotStarted {}

impl From<Unusable> for NotStarted {
    fn from(why: Unusable) -> Self {
        Self::Own(why)
    }
}

impl From<Damage> for NotStarted {
    fn from(why: Damage) -> Self {
        Self::Log(why)
    }
}

impl From<Ended> for NotStarted {
    fn from(why: Ended) -> Self {
        Self::Ended(why)
    }
}

impl Own {
    /// The acceptor in the directories of a log, one for each stream. One that is not there yet is made, of a log that
    /// has had no copies or of none, and gets the name `fresh`.
    ///
    /// # Errors
    /// A directory is used by another process, cannot be read or written, or has lost something. Or the log has blocks of
    /// version 3, or is another cluster's.
    pub fn at(
        logs: &[PathBuf],
        shard: ShardId,
        cluster: Option<Cluster>,
        limits: redolog::Limits,
        fresh: AcceptorId,
    ) -> Result<Self, Unusable> {
        refuse_old(logs)?;
        let _held = naming();
        refuse_nameless(logs)?;
        Self::of_cluster(cluster, || Place::of(&own_folder(logs), logs), shard, limits, fresh)
    }
}

/// Held while the own folder gets its name: a start and the metadata may ask for one at the same time.
static NAMING: Mutex<()> = Mutex::new(());

fn naming() -> MutexGuard<'static, ()> {
    NAMING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name of the acceptor in the directories of a log that may be running. It gets the name `fresh` if it has none.
///
/// # Errors
/// No log has begun there, it has blocks of version 3, or those of an acceptor whose name is gone, or it is another
/// cluster's. Or the directory cannot be used.
pub fn name_of_own(
    logs: &[PathBuf],
    shard: ShardId,
    cluster: Option<Cluster>,
    fresh: AcceptorId,
) -> Result<AcceptorId, Unusable> {
    let _held = naming();
    let begun = |folder: &PathBuf| {
        let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
        names.into_iter().any(|entry| entry.path().extension().is_some_and(|extension| extension == "log"))
    };
    if let Some(folder) = logs.iter().find(|folder| !begun(folder)) {
        return Err(Unusable::Lost(format!("no log has begun in {}", folder.display())));
    }
    refuse_old(logs)?;
    refuse_nameless(logs)?;
    let identity = Identity { acceptor: fresh, shard, streams: logs.len() as u16, cluster };
    Folder::name(redolog::Folder::new(&own_folder(logs))?, identity)
}

/// Blocks of version 3 cannot be copied. Without this an owner would wait for ever for a copy that has them.
fn refuse_old(logs: &[PathBuf]) -> Result<(), Unusable> {
    for folder in logs.iter().filter(|folder| folder.exists()) {
        if redolog::has_old_blocks(&redolog::Folder::to_read(folder))? {
            return Err(Unusable::Old(folder.clone()));
        }
    }
    Ok(())
}

/// A log of several directories has lost the one with its name, which may only be away.
fn refuse_nameless(logs: &[PathBuf]) -> Result<(), Unusable> {
    let Some((folder, shard)) = nameless(logs)? else { return Ok(()) };
    Err(Unusable::Lost(format!(
        "{} has blocks of the log of shard {}, whose name as a copy is not in {}: is a disk not mounted? With all directories of the log empty it is read from its other copies",
        folder.display(),
        shard.0,
        own_folder(logs).display(),
    )))
}

/// A directory with blocks of an acceptor, and its shard, if its name is not there.
fn nameless(logs: &[PathBuf]) -> Result<Option<(PathBuf, ShardId)>, Unusable> {
    if is_acceptor(logs) {
        return Ok(None);
    }
    for (folder, stream) in logs.iter().zip(0..).filter(|(folder, _)| folder.exists()) {
        let disk = redolog::Folder::to_read(folder);
        let Some((acceptor, shard)) = redolog::newest_holder(&disk)? else { continue };
        let holder = Holder { acceptor, shard, stream, streams: logs.len() as u16 };
        // An acceptor that was being made has none.
        let has_blocks = |of: Replica<_>| of.last() != (Name::default(), Lsn::ZERO);
        if Replica::open(disk, holder, redolog::Limits::default()).map_or(true, has_blocks) {
            return Ok(Some((folder.clone(), ShardId(shard))));
        }
    }
    Ok(None)
}

/// True if there is an acceptor in these directories of a log.
pub fn is_acceptor(logs: &[PathBuf]) -> bool {
    own_folder(logs).join(NAME).exists()
}

/// The shard whose acceptor, or whose blocks as an acceptor's, are in these directories of a log; none: neither.
///
/// # Errors
/// A file cannot be read, or the acceptor's is damaged.
pub fn shard_of_own(logs: &[PathBuf]) -> Result<Option<ShardId>, Unusable> {
    if !is_acceptor(logs) {
        return Ok(nameless(logs)?.map(|(_, shard)| shard));
    }
    shard_of(&redolog::Folder::to_read(&own_folder(logs)))
}

/// The shard, the name, and the promised term of the acceptor in an own log; none if it has no copies. Nothing is changed.
///
/// # Errors
/// The acceptor's files are damaged, or cannot be read.
pub fn own_promise(logs: &[PathBuf]) -> Result<Option<(ShardId, AcceptorId, Term)>, Unusable> {
    if !is_acceptor(logs) {
        return Ok(None);
    }
    let (identity, promised) = named(&own_folder(logs))?;
    Ok(Some((identity.shard, identity.acceptor, promised)))
}

/// The folder of the acceptor in these directories of a log. A log that began as a copy has it where copies do: above
/// those of its streams.
pub fn own_folder(logs: &[PathBuf]) -> PathBuf {
    let above = logs.iter().filter_map(|log| folder_above(log)).find(|folder| folder.join(NAME).exists());
    let first = || logs.first().map(PathBuf::as_path).unwrap_or_else(|| Path::new(""));
    above.map_or_else(|| first().join(OWN), Path::to_owned)
}

/// Removes a log, and its acceptor first. The directories stay, which may be where disks are mounted, and so do other
/// folders in them: copies of other nodes' logs, and what a file system keeps of its own.
///
/// # Errors
/// A file cannot be removed. The rest is no acceptor any more, and can be removed by another call.
pub fn remove_log(logs: &[PathBuf]) -> io::Result<()> {
    let own = own_folder(logs);
    match fs::remove_file(own.join(NAME)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    if own.exists() {
        fs::File::open(&own)?.sync_all()?;
    }
    for folder in logs {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path == own {
                fs::remove_dir_all(&path)?;
            } else if !path.is_dir() {
                fs::remove_file(&path)?;
            }
        }
        fs::File::open(folder)?.sync_all()?;
    }
    Ok(())
}

impl<D: Disk> Own<D> {
    /// The acceptor on these disks. One that is not there yet is made, and gets the name `fresh`.
    ///
    /// # Errors
    /// The disks cannot be used, or have lost something.
    pub fn on(
        place: impl Fn() -> Result<Place<D>, Unusable>,
        shard: ShardId,
        limits: redolog::Limits,
        fresh: AcceptorId,
    ) -> Result<Self, Unusable> {
        Self::of_cluster(None, place, shard, limits, fresh)
    }

    fn of_cluster(
        cluster: Option<Cluster>,
        place: impl Fn() -> Result<Place<D>, Unusable>,
        shard: ShardId,
        limits: redolog::Limits,
        fresh: AcceptorId,
    ) -> Result<Self, Unusable> {
        match Folder::open(place()?, shard, limits) {
            Err(Unusable::Empty) => Self::of(Folder::make_in(cluster, place()?, shard, fresh, limits)?),
            opened => Self::of(opened?.of_cluster(cluster)?),
        }
    }

    /// Of a folder that was opened or made.
    pub(crate) fn of(folder: Folder<D>) -> Result<Self, Unusable> {
        let known = folder.found()?.into_iter().map(|found| found.history).collect();
        Ok(Self { folder, known })
    }

    /// Its name.
    pub fn acceptor(&self) -> AcceptorId {
        self.folder.acceptor()
    }

    /// The highest term that anything in it is of.
    pub fn term(&self) -> Term {
        let terms = self.known.iter().map(|history| history.last().term);
        terms.chain([self.folder.promised()]).max().unwrap_or(Term::ZERO)
    }

    /// Begins the term that the plan names: seals, and has the own folder filled. Its acceptor is closed when this returns,
    /// and the log can be opened ([`lead`]). `others` makes the ports of the other acceptors.
    ///
    /// # Errors
    /// The own folder failed, another term follows, or the caller gives up.
    pub fn bring_up(
        self,
        plan: Plan,
        limits: Limits,
        others: impl FnOnce(&Listener) -> Vec<(AcceptorId, Arc<dyn Port>)>,
        wait: Wait<'_>,
    ) -> Result<Arc<Driver>, NotStarted> {
        let rising = self.begin(Local::start, plan, limits, others)?;
        let copied = rising.driver.wait_copied(wait);
        let (driver, reads) = rising.end(copied)?;
        driver.read_own(reads)?;
        Ok(driver)
    }

    /// As [`Self::bring_up`], without threads: the caller does the jobs of the own acceptor, and ends it. For simulations.
    ///
    /// # Errors
    /// The own folder's blocks contradict one another.
    pub fn bring_up_by_hand(
        self,
        plan: Plan,
        limits: Limits,
        others: impl FnOnce(&Listener) -> Vec<(AcceptorId, Arc<dyn Port>)>,
    ) -> Result<Rising<D>, NotStarted> {
        self.begin(Local::by_hand, plan, limits, others)
    }

    fn begin(
        self,
        start: impl FnOnce(Folder<D>) -> Result<Local<D>, Unusable>,
        plan: Plan,
        limits: Limits,
        others: impl FnOnce(&Listener) -> Vec<(AcceptorId, Arc<dyn Port>)>,
    ) -> Result<Rising<D>, NotStarted> {
        let Self { folder, known } = self;
        let (id, readers) = (folder.acceptor(), folder.streams.iter().map(Replica::reader).collect());
        let local = start(folder)?;
        let driver = Driver::begin(plan, known, limits, |listener| {
            let mut ports = others(listener);
            ports.push((id, Arc::new(local.caller(listener.clone()))));
            ports
        });
        Ok(Rising { driver, local, readers })
    }
}

/// An own folder that is being brought up.
pub struct Rising<D: Disk> {
    driver: Arc<Driver>,
    local: Local<D>,
    readers: Vec<Reader<D>>,
}

impl<D: Disk> Rising<D> {
    /// The driver of the term.
    #[must_use]
    pub fn driver(&self) -> &Arc<Driver> {
        &self.driver
    }

    /// The own folder's acceptor.
    #[must_use]
    pub fn acceptor(&self) -> &Local<D> {
        &self.local
    }

    /// Closes the acceptor, and returns the driver, for the log that is opened next. `copied`: whether the own folder has
    /// everything ([`Driver::is_copied`]). The caller has the driver's reads of that folder done.
    ///
    /// # Errors
    /// Those of `copied`, or the own folder failed.
    pub fn end(self, copied: Result<(), Ended>) -> Result<(Arc<Driver>, OwnReads<D>), NotStarted> {
        let Self { driver, local, readers } = self;
        // Before the acceptor is closed: a read that comes in between waits.
        let reads = driver.reads(readers);
        driver.take_own();
        let closed = local.stop();
        copied?;
        closed.map_err(|error| Ended::Own(format!("the own log folder: {error}")))?;
        Ok((driver, reads))
    }
}

impl Driver {
    /// Has the log that was opened in the own folder be the one that copies have. Its records were replayed, and what is
    /// void was cut. The log is started next, and then [`Self::attach`]ed.
    ///
    /// # Errors
    /// The own folder does not have the log that was chosen, or the owner was fenced.
    pub fn lead<D: Disk>(self: &Arc<Self>, log: &mut Opened<D>) -> Result<(), NotStarted> {
        let ends = log.ends()?;
        self.begin_term(&ends, |stream| log.recovery().chain(stream))?;
        let lead = Lead { term: self.term().get(), shard: self.shard.0, acceptor: self.own.0 };
        log.copy_to(lead, self.clone());
        Ok(())
    }

    /// Waits until the shard is led. `log` runs in the own folder.
    ///
    /// # Errors
    /// As for [`Self::wait_leads`].
    pub fn follow(&self, log: &Log, wait: Wait<'_>) -> Result<(), Ended> {
        self.attach(log);
        self.mark_by_thread();
        self.wait_leads(wait)
    }
}
