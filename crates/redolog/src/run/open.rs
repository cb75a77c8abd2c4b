//! From directories to a running log.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::commit::{Committer, Watermarks};
use crate::copies::{Copied, Copies, Held, Lead};
use crate::device::Devices;
use crate::disk::{Disk, Folder};
use crate::flight::Flight;
use crate::format::Format;
use crate::intake::{Gate, Intake};
use crate::own::{Loss, Own};
use crate::recover::{Damage, Recovered, Recovery, recover};
use crate::run::crew::Crew;
use crate::run::helper::Helper;
use crate::run::stream::{After, FLIGHTS, Runner, Step};
use crate::run::{Clock, Fsync, Hand, LENT_MOST, Log, Looker, RUNNING, Shared, Stream};
use crate::writer::Writer;
use crate::{Limits, Lsn, Promise, STREAMS_MAX};

/// The settings of a log.
#[derive(Clone)]
pub struct Settings {
    /// Segments.
    pub limits: Limits,
    /// When written bytes are synced.
    pub fsync: Fsync,
    /// The clock.
    pub clock: Clock,
    /// A random number. A client that chooses logged bytes must not know it, so that none of them looks like a block.
    pub seed: u64,
}

/// The file of a folder that is locked.
pub(crate) const LOCK: &str = "lock";

/// The gates of each worker to the streams.
pub type Gates = Vec<Vec<Gate>>;

/// A log that is locked and has been read, and not been written to.
pub struct Opened<D: Disk = Folder> {
    recovery: Recovery<D>,
    locks: Vec<fs::File>,
    copies: Option<Arc<dyn Copies>>,
}

/// No other process uses this folder while the file is open.
///
/// # Errors
/// Another one does, or the folder cannot be written.
pub fn lock(folder: &Path) -> Result<fs::File, Damage> {
    let file = fs::File::options().create(true).truncate(false).write(true).open(folder.join(LOCK))?;
    hold(file, folder)
}

/// No other process uses this folder while this is its open lock.
pub(crate) fn hold(file: fs::File, folder: &Path) -> Result<fs::File, Damage> {
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            Err(Damage::Streams(format!("{} is used by another server", folder.display())))
        }
        Err(fs::TryLockError::Error(error)) => Err(error.into()),
    }
}

/// No other process uses these folders, which must be there, while this is held. Nothing is changed.
pub(crate) fn hold_all(folders: &[PathBuf]) -> Result<Vec<fs::File>, Damage> {
    let mut locks = Vec::new();
    for folder in folders {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
        fs::read_dir(folder).map_err(named)?;
        if let Ok(file) = fs::File::open(folder.join(LOCK)) {
            locks.push(hold(file, folder)?);
        }
    }
    Ok(locks)
}

impl Opened {
    /// Locks the folders of a log, one for each stream, and reads what is there. Folders that are not there are made.
    /// `durable`: see [`recover`].
    ///
    /// # Errors
    /// A folder is in use, cannot be read or made, or what had been synced is damaged.
    pub fn new(folders: &[PathBuf], durable: &[Lsn]) -> Result<Self, Damage> {
        Self::on(folders, durable, |folder, _| folder)
    }

    /// As [`Self::new`], on slow devices, one for each stream: for experiments.
    ///
    /// # Errors
    ///
    /// As for [`Self::new`].
    pub fn slow(folders: &[PathBuf], durable: &[Lsn], devices: &Devices) -> Result<Self, Damage> {
        Self::on(folders, durable, |folder, path| devices.slow(folder, path))
    }

    /// As [`Self::new`], for existing folders in which nothing is changed: this log cannot be started.
    ///
    /// # Errors
    ///
    /// As for [`Self::new`]; a folder is not there.
    pub fn to_read(folders: &[PathBuf]) -> Result<Self, Damage> {
        let locks = hold_all(folders)?;
        let mut opened = Self::of(folders.iter().map(|folder| Folder::to_read(folder)).collect(), &[])?;
        opened.locks = locks;
        Ok(opened)
    }

    fn on(folders: &[PathBuf], durable: &[Lsn], make: impl Fn(Folder, &Path) -> Folder) -> Result<Self, Damage> {
        let mut locks = Vec::new();
        let mut disks = Vec::new();
        for folder in folders {
            disks.push(make(Folder::new(folder)?, folder));
            locks.push(lock(folder)?);
        }
        let mut opened = Self::of(disks, durable)?;
        opened.locks = locks;
        Ok(opened)
    }
}

impl<D: Disk> Opened<D> {
    /// Reads the log on these disks, one for each stream.
    ///
    /// # Errors
    /// A disk cannot be read, its files are not of one log, or what had been synced is damaged.
    pub fn of(disks: Vec<D>, durable: &[Lsn]) -> Result<Self, Damage> {
        if disks.is_empty() || disks.len() > STREAMS_MAX {
            return Err(Damage::Streams(format!("a log has 1 to {STREAMS_MAX} streams, not {}", disks.len())));
        }
        Ok(Self { recovery: recover(disks, durable)?, locks: Vec::new(), copies: None })
    }

    /// The findings.
    pub fn recovery(&self) -> &Recovery<D> {
        &self.recovery
    }

    /// The end of each stream: see [`Recovery::ends`].
    ///
    /// # Errors
    ///
    /// As for [`Recovery::ends`].
    pub fn ends(&mut self) -> Result<Vec<Lsn>, Damage> {
        self.recovery.ends()
    }

    /// Calls `f` with every record that survived, in the order of their LSNs over all streams (rule L2).
    ///
    /// # Errors
    /// As for [`Recovery::replay`].
    pub fn replay(&mut self, f: impl FnMut(Recovered<'_>)) -> Result<(), Damage> {
        self.recovery.replay(f)
    }

    /// Makes everything at or above `lsn` void: see [`Recovery::void_from`].
    ///
    /// # Errors
    ///
    /// As for [`Recovery::void_from`].
    pub fn void_from(&mut self, lsn: Lsn) -> Result<(), Damage> {
        self.recovery.void_from(lsn)
    }

    /// Has the log go on in this format: see [`Recovery::write_in`].
    pub fn write_in(&mut self, format: Format) {
        self.recovery.write_in(format);
    }

    /// Has the log that starts be one of several copies: its blocks are given out, and watermarks wait for enough copies
    /// (rule G6). What is here must be wholly on the disk, and equal to what the copies are brought to.
    pub fn copy_to(&mut self, lead: Lead, copies: Arc<dyn Copies>) {
        self.recovery.lead(lead);
        self.copies = Some(copies);
    }

    /// Makes the log durable as it is, without the void part, in its format. For a log that no server goes on with now.
    ///
    /// # Errors
    ///
    /// As for [`Recovery::open`].
    pub fn settle(mut self, limits: Limits) -> Result<(), Damage> {
        if let Some(found) = self.recovery.found_format() {
            self.write_in(found);
        }
        let (node, incarnation) = (self.recovery.node().unwrap_or_default(), self.recovery.incarnation() + 1);
        self.recovery.open(node, incarnation, limits).map(drop)
    }

    /// Starts the streams' threads. `node`: of a log that is empty. `above`: LSNs begin above this, and above
    /// everything that ever was in the log (rule L1). Also the gates of each worker, one for each stream.
    ///
    /// # Errors
    /// As for [`Recovery::open`]; or a thread cannot be started.
    pub fn start(self, node: [u8; 16], above: Lsn, workers: usize, settings: Settings) -> Result<(Log, Gates), Damage> {
        self.start_lending(node, above, workers, settings, LENT_MOST)
    }

    /// As [`Self::start`]; `patience`: how long a worker waits for the disk.
    pub(crate) fn start_lending(
        self,
        node: [u8; 16],
        above: Lsn,
        workers: usize,
        settings: Settings,
        patience: Duration,
    ) -> Result<(Log, Gates), Damage> {
        self.ready(node, above, &settings)?.start(workers, settings, patience)
    }

    /// The writers of all streams, at the end of what is here.
    fn ready(self, node: [u8; 16], above: Lsn, settings: &Settings) -> Result<Ready<D>, Damage> {
        let Self { recovery, locks, copies } = self;
        let floor = recovery.highest().max(above);
        let before = recovery.incarnation();
        let incarnation = before + 1 + (settings.seed & ((1 << 40) - 1));
        let node = recovery.node().unwrap_or(node);
        let writers = recovery.open_with_lacks(node, incarnation, settings.limits)?;
        Ok(Ready { writers, floor, incarnations: [before, incarnation], copies, locks })
    }

    /// As [`Self::start`], without threads: the holder of the [`Stepped`] does their work, for each stream. For
    /// simulations.
    ///
    /// # Errors
    ///
    /// As for [`Recovery::open`].
    pub fn start_by_hand(
        self,
        node: [u8; 16],
        above: Lsn,
        workers: usize,
        settings: Settings,
    ) -> Result<(Log, Gates, Vec<Stepped<D>>), Damage> {
        self.ready(node, above, &settings)?.start_by_hand(workers, settings)
    }
}

/// A log that is about to run.
pub(super) struct Ready<D: Disk> {
    pub writers: Vec<Writer<D>>,
    /// LSNs begin above this.
    pub floor: Lsn,
    /// The incarnation that wrote to it before, and the present one.
    pub incarnations: [u64; 2],
    pub copies: Option<Arc<dyn Copies>>,
    pub locks: Vec<fs::File>,
}

impl<D: Disk> Ready<D> {
    /// Starts the streams' threads. `patience`: how long a worker waits for the disk.
    pub fn start(self, workers: usize, settings: Settings, patience: Duration) -> Result<(Log, Gates), Damage> {
        let helpers =
            |index| Ok([Helper::new(format!("log-keep-{index}"))?, Helper::new(format!("log-sync-{index}"))?]);
        let is_copied = self.copies.is_some();
        let Begun { shared, gates, runners, locks } = self.begin(workers, settings, helpers, true)?;
        let locks = Arc::new(locks);
        let (mut threads, mut hands, mut lookers) = (Vec::new(), Vec::<Hand>::new(), Vec::<Looker>::new());
        let (of_log, mut leavers): (Arc<Mutex<Vec<_>>>, Vec<Looker>) = (Arc::default(), Vec::new());
        for (runner, index) in runners.into_iter().zip(0..) {
            let crew = Arc::new(Crew::new(runner, shared.clone(), index, patience));
            let lent = Arc::downgrade(&crew);
            if is_copied {
                let (left, locks, of_log) = (lent.clone(), Arc::downgrade(&locks), Arc::downgrade(&of_log));
                lookers.push(Box::new(move || lent.upgrade().into_iter().for_each(|crew| crew.look())));
                leavers.push(Box::new(move || {
                    if let (Some(crew), Some(locks), Some(of_log)) = (left.upgrade(), locks.upgrade(), of_log.upgrade())
                    {
                        crew.replace_hanging(&locks, &of_log);
                    }
                }));
            } else {
                hands.push(Box::new(move || lent.upgrade().is_some_and(|crew| crew.lend())));
            }
            for _ in 0..FLIGHTS {
                threads.push(crew.start(&locks)?);
            }
        }
        if is_copied {
            let _ = shared.lookers.set(lookers.into());
            let _ = shared.leavers.set(leavers.into());
        } else {
            let _ = shared.hands.set(hands.into());
        }
        of_log.lock().unwrap_or_else(PoisonError::into_inner).extend(threads);
        Ok((Log { shared, threads: of_log }, gates))
    }

    /// As [`Self::start`], without threads.
    pub fn start_by_hand(self, workers: usize, settings: Settings) -> Result<(Log, Gates, Vec<Stepped<D>>), Damage> {
        let helpers = |_| Ok([Helper::by_hand(), Helper::by_hand()]);
        let Begun { shared, gates, runners, .. } = self.begin(workers, settings, helpers, false)?;
        Ok((Log { shared, threads: Arc::default() }, gates, runners.into_iter().map(Stepped).collect()))
    }

    fn begin(
        self,
        workers: usize,
        settings: Settings,
        helpers: impl Fn(u16) -> io::Result<[Helper; 2]>,
        has_threads: bool,
    ) -> Result<Begun<D>, Damage> {
        let Self { writers, floor, incarnations, copies, locks } = self;
        // These records are durable, in the log or where `above` is from; some LSNs below belong to no record.
        let promised = vec![floor; writers.len()];
        let shared = Arc::new(Shared {
            marks: Arc::new(Watermarks::new(&promised)),
            streams: writers.iter().map(|_| Stream::default()).collect(),
            moved: OnceLock::new(),
            changed: OnceLock::new(),
            state: RUNNING.into(),
            reason: Mutex::default(),
            fsync: (settings.fsync as u8).into(),
            stopping: AtomicBool::new(false),
            superseded: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            clock: settings.clock,
            hands: OnceLock::new(),
            lookers: OnceLock::new(),
            leavers: OnceLock::new(),
            held: copies.iter().flat_map(|_| writers.iter().map(Held::of)).collect(),
            own_loss: Loss::default(),
            full_elsewhere: AtomicBool::new(false),
            incarnations,
        });
        let promise = if settings.fsync == Fsync::Always { Promise::Synced } else { Promise::Written };
        let mut gates: Gates = (0..workers).map(|_| Vec::new()).collect();
        let mut runners = Vec::new();
        let own = copies.clone().map(|copies| Own::new(copies, shared.own_loss.clone(), has_threads));
        for (mut writer, index) in writers.into_iter().zip(0u16..) {
            // A log with copies goes on without this disk, and a takeover waits for this.
            let lack = match copies {
                Some(_) => writer.placer().known_lack(),
                None => writer.placer().lack_at_start(settings.limits.reserve)?,
            };
            if let (Some(copies), Some(own)) = (&copies, &own) {
                let held = shared.held[usize::from(index)].clone();
                writer.copy_to(Copied::new(index, copies.clone(), held, own.clone()));
                writer.placer().guard(own.clone());
            }
            let (intake, of_stream) = Intake::new(workers, floor);
            let _ = shared.streams[usize::from(index)].left.set(intake.waiting());
            gates.iter_mut().zip(of_stream).for_each(|(worker, gate)| worker.push(gate));
            let committer = Committer::new(index, intake, writer, shared.marks.clone(), promise);
            let (reserve, helpers) = (settings.limits.reserve, helpers(index)?);
            runners.push(Runner::new(shared.clone(), index.into(), committer, settings.fsync, reserve, lack, helpers));
        }
        Ok(Begun { shared, gates, runners, locks })
    }
}

/// A log whose streams have not begun.
struct Begun<D: Disk> {
    shared: Arc<Shared>,
    gates: Gates,
    runners: Vec<Runner<D>>,
    locks: Vec<fs::File>,
}

/// The work of a stream's threads, a step at a time.
pub struct Stepped<D: Disk>(Runner<D>);

impl<D: Disk> Stepped<D> {
    /// A step of its only thread. `late`: as if it had slept as long as the last step said; otherwise it does nothing
    /// without a ring. No worker may be inside a gate, or it waits for ever.
    pub fn step(&mut self, mut late: bool) -> After {
        loop {
            match self.0.step(late) {
                Step::Then(after) => return after,
                Step::Write(flight) => {
                    let written = flight.write();
                    self.0.land(flight, written);
                    late = false;
                }
            }
        }
    }

    /// A step of one of several threads. A block that it returns is to be written and then to [`Self::land`]; other
    /// steps may be taken meanwhile. A step is due when a block has landed.
    pub fn step_apart(&mut self, late: bool) -> Step<D::File> {
        self.0.step(late)
    }

    /// Notes that a block has been written, or not. A step follows.
    pub fn land(&mut self, flight: Flight<D::File>, written: io::Result<()>) {
        self.0.land(flight, written);
    }

    /// As [`Log::leave_hanging`].
    #[cfg(test)]
    pub(crate) fn leave_hanging(&mut self) -> usize {
        self.0.leave_hanging()
    }

    /// A planted bug: see [`Copied::trusts_own`](crate::copies::Copied).
    #[cfg(test)]
    pub(crate) fn trust_own(&mut self) {
        self.0.trust_own();
    }

    /// A job of one of its helpers: the first (0) makes and retires segments, the second (1) syncs. False: it has none,
    /// or there is no such helper.
    pub fn help(&mut self, helper: usize) -> bool {
        self.0.helpers().get(helper).is_some_and(|helper| helper.work())
    }
}
