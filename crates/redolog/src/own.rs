//! The own disk of a log with copies (rule G10). When it fails, the log goes on without it: writes there are dropped
//! from then on, and the own folder counts for nothing any more.
//!
//! When it has no room, or does not return, the log goes *around* it (`around.rs`): what is to be done there is kept in
//! memory, in its order, and is done when the disk takes it. The stream goes on as if it were done. Nobody is told so.
//!
//! Operations that a thread does in the middle of a step are done by another thread, which it leaves if they do not return.
//! So are writes into the cache, and those past it that are not in flight. A thread that has returned does the next one.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::mpsc::{RecvError, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use crate::aligned::Aligned;
use crate::around::{Around, Op, Slot};
use crate::copies::Copies;
use crate::disk::{Direct, Disk, File};
use crate::lack::Lack;
use crate::segments::create_anew;

/// The error that the own disks were given up for, if they were.
pub(crate) type Loss = Arc<OnceLock<String>>;

/// The own disks of a log's streams. The first failure of any of them ends all.
pub(crate) struct Own {
    copies: Arc<dyn Copies>,
    loss: Loss,
    /// There are threads: without, the caller does everything itself.
    has_threads: bool,
}

/// How long a write of a block may take before the log goes around the disk.
pub(crate) const HANGS: Duration = Duration::from_secs(2);

/// How long other operations may. A sync writes what waits in the cache, and making a segment writes all of it: on a slow
/// disk they take seconds.
pub(crate) const HANGS_LONG: Duration = Duration::from_secs(10);

impl Own {
    pub(crate) fn new(copies: Arc<dyn Copies>, loss: Loss, has_threads: bool) -> Arc<Self> {
        Arc::new(Self { copies, loss, has_threads })
    }

    /// True if the log goes on without its own disks.
    pub(crate) fn is_lost(&self) -> bool {
        self.loss.get().is_some()
    }

    /// An operation has failed. It counts as done if the copies go on without the own disks.
    fn lose(&self, error: io::Error, what: impl FnOnce() -> String) -> io::Result<()> {
        let why = format!("{}: {error}", what());
        if !self.is_lost() && !self.copies.lost(&why) {
            return Err(error);
        }
        let _ = self.loss.set(why);
        Ok(())
    }
}

/// A job for a thread that does operations.
type Job = Box<dyn FnOnce() + Send>;

/// The state that a disk and its files share. Without copies nothing of it is ever set.
struct Guard<F> {
    own: OnceLock<Arc<Own>>,
    is_around: AtomicBool,
    around: Mutex<Around<F>>,
    /// The way to a thread that has nothing to do. It ends with the way.
    idle: Mutex<Option<Sender<Job>>>,
}

/// Errors that have callers of their own, and say nothing about the disk.
fn is_usual(error: &io::Error) -> bool {
    Lack::of(error).is_some() || error.kind() == io::ErrorKind::AlreadyExists
}

impl<F: File> Guard<F> {
    fn new() -> Arc<Self> {
        let is_around = AtomicBool::new(false);
        Arc::new(Self { own: OnceLock::new(), is_around, around: Mutex::default(), idle: Mutex::default() })
    }

    fn around(&self) -> MutexGuard<'_, Around<F>> {
        self.around.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_around(&self) -> bool {
        self.is_around.load(SeqCst)
    }

    /// Does an operation, or keeps it for later. Without the own disk it counts as done.
    fn act(
        &self,
        what: impl FnOnce() -> String,
        is_usual: fn(&io::Error) -> bool,
        op: impl FnOnce() -> Op<F>,
        operation: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(own) = self.own.get() else { return operation() };
        if self.is_around() {
            match self.keep(op) {
                Ok(kept) => return kept,
                // It has been brought up in between.
                Err(_) => return self.act_here(own, what, is_usual, operation),
            }
        }
        self.act_here(own, what, is_usual, operation)
    }

    fn act_here(
        &self,
        own: &Own,
        what: impl FnOnce() -> String,
        is_usual: fn(&io::Error) -> bool,
        operation: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        if own.is_lost() {
            return Ok(());
        }
        operation().or_else(|error| if is_usual(&error) { Err(error) } else { own.lose(error, what) })
    }

    /// As [`Self::act`], for an operation that the caller leaves if it does not return.
    fn act_patiently(
        self: &Arc<Self>,
        what: impl FnOnce() -> String,
        is_usual: fn(&io::Error) -> bool,
        op: impl FnOnce() -> Op<F>,
        operation: impl FnOnce(&Op<F>) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let mut op = Some(op);
        let mut make = || op.take().map(|op| op());
        match self.own.get() {
            Some(own) if own.has_threads && !own.is_lost() && !self.is_around() => {
                let Some(op) = make() else { return Ok(()) };
                let what = what();
                self.clone().wait_for(own, what.clone(), op, operation).or_else(|error| match is_usual(&error) {
                    true => Err(error),
                    false => own.lose(error, || what),
                })
            }
            _ => {
                let Some(op) = make() else { return Ok(()) };
                let kept = self.own.get().is_some() && self.is_around();
                let mut op = Some(op);
                if kept && let Ok(kept) = self.keep(|| op.take().unwrap_or(Op::SyncNames)) {
                    return kept;
                }
                let Some(op) = op else { return Ok(()) };
                match self.own.get() {
                    None => operation(&op),
                    Some(own) => self.act_here(own, what, is_usual, || operation(&op)),
                }
            }
        }
    }

    /// Has another thread do an operation, and waits for it. If it does not return, the log goes around the disk.
    fn wait_for(
        self: Arc<Self>,
        own: &Arc<Own>,
        what: String,
        op: Op<F>,
        operation: impl FnOnce(&Op<F>) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let most = if matches!(op, Op::Through { .. } | Op::Write { .. }) { HANGS } else { HANGS_LONG };
        let job = Arc::new(Mutex::new(Some((op, operation))));
        let is_settled = Arc::new(AtomicBool::new(false));
        let (tell, told) = channel();
        let (guard, of, todo, settled) = (self.clone(), own.clone(), job.clone(), is_settled.clone());
        let run = move || {
            let Some((op, operation)) = todo.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
            let done = operation(&op);
            if settled.swap(true, SeqCst) {
                guard.left_returns(&of, what, op, done);
            } else {
                let _ = tell.send(done);
            }
        };
        let Some(thread) = self.give(Box::new(run)) else {
            let job = job.lock().unwrap_or_else(PoisonError::into_inner).take();
            return job.map_or(Ok(()), |(op, operation)| operation(&op));
        };
        let died = |_| io::Error::other("a thread of the log has panicked");
        match told.recv_timeout(most) {
            Ok(done) => {
                *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
                return done;
            }
            Err(RecvTimeoutError::Disconnected) => return Err(died(RecvError)),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if !own.copies.can_lack_own() {
            return told.recv().map_err(died)?;
        }
        self.go_around(1);
        if is_settled.swap(true, SeqCst) {
            // It has just returned.
            self.returned();
            return told.recv().map_err(died)?;
        }
        Ok(())
    }

    /// Has a thread that is idle, or a new one, do something, and returns the way to it. `None`: the system has none.
    fn give(&self, job: Job) -> Option<Sender<Job>> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        let job = match idle {
            Some(thread) => match thread.send(job) {
                Ok(()) => return Some(thread),
                // It has panicked.
                Err(job) => job.0,
            },
            None => job,
        };
        let (thread, jobs) = channel::<Job>();
        let work = move || jobs.into_iter().for_each(|job| job());
        thread::Builder::new().name("log-own".into()).spawn(work).ok()?;
        thread.send(job).ok()?;
        Some(thread)
    }

    fn go_around(&self, under_way: usize) {
        let mut around = self.around();
        around.under_way += under_way;
        self.is_around.store(true, SeqCst);
    }

    fn returned(&self) {
        let mut around = self.around();
        around.under_way = around.under_way.saturating_sub(1);
    }

    /// An operation returns that was left: what was kept comes behind it.
    fn left_returns(&self, own: &Own, what: String, op: Op<F>, done: io::Result<()>) {
        match done {
            Err(error) if op.may_lack() && is_usual(&error) => self.around().put_back(op),
            Err(error) => {
                if let Err(error) = own.lose(error, || what) {
                    self.around().broken = Some(error);
                }
            }
            Ok(()) => {}
        }
        self.returned();
    }

    /// Keeps an operation for later. The inner error: there is no memory for it, and the log cannot go on without the own
    /// disk. The outer one: the log does not go around the disk any more.
    fn keep<O: FnOnce() -> Op<F>>(&self, op: O) -> Result<io::Result<()>, O> {
        let Some(own) = self.own.get().filter(|own| !own.is_lost()) else { return Err(op) };
        let mut around = self.around();
        if !self.is_around() {
            return Err(op);
        }
        if around.push(op()) {
            return Ok(Ok(()));
        }
        drop(around);
        let error = io::ErrorKind::StorageFull.into();
        Ok(own.lose(error, || "more waits for the disk than memory is for".to_owned()))
    }
}

/// A disk that a log can go on without.
pub(crate) struct Guarded<D: Disk> {
    disk: Arc<D>,
    guard: Arc<Guard<D::File>>,
}

impl<D: Disk> Guarded<D> {
    pub(crate) fn new(disk: Arc<D>) -> Arc<Self> {
        Arc::new(Self { disk, guard: Guard::new() })
    }

    /// From now on the log goes on when the disk fails.
    pub(crate) fn guard(&self, own: Arc<Own>) {
        let _ = self.guard.own.set(own);
    }

    #[cfg(test)]
    pub(crate) fn inner(&self) -> &D {
        &self.disk
    }

    fn of(&self, slot: Slot<D::File>, size: u64) -> GuardedFile<D::File> {
        GuardedFile { file: slot, size, guard: self.guard.clone() }
    }

    fn name(&self, name: &str, op: impl FnOnce() -> Op<D::File>) -> io::Result<()> {
        let disk = self.disk.clone();
        // A caller hears that a file is there already.
        let operation = move |op: &Op<D::File>| match op {
            Op::Create { name, size, slot } => disk.create(name, *size).map(|file| drop(slot.set(file))),
            op => carry_out(&*disk, op),
        };
        self.guard.act_patiently(|| self.disk.describe(name), is_usual, op, operation)
    }

    /// True while the log goes around the disk.
    pub(crate) fn is_around(&self) -> bool {
        self.guard.is_around()
    }

    /// Goes around the disk from now on. So many operations are under way, and do not return now: what is kept is done
    /// after them. Each is told with [`Self::returned`].
    pub(crate) fn go_around(&self, under_way: usize) {
        self.guard.go_around(under_way);
    }

    /// An operation has returned that was under way when the log went around the disk.
    pub(crate) fn returned(&self) {
        self.guard.returned();
    }

    /// Does what was kept, in its order. True: the disk has everything, and the log does not go around it any more. One
    /// thread at a time calls it.
    ///
    /// # Errors
    /// The disk has failed, and the log cannot go on without it.
    pub(crate) fn bring_up(&self) -> io::Result<bool> {
        loop {
            let op = {
                let mut around = self.guard.around();
                let is_lost = self.guard.own.get().is_none_or(|own| own.is_lost());
                if let Some(error) = around.broken.take() {
                    return Err(error);
                }
                if is_lost {
                    around.clear();
                } else if around.under_way > 0 {
                    return Ok(false);
                }
                match around.next() {
                    Some(op) => op,
                    None => {
                        self.guard.is_around.store(false, SeqCst);
                        return Ok(true);
                    }
                }
            };
            match carry_out(&*self.disk, &op) {
                Ok(()) => self.guard.around().done(&op),
                Err(error) if op.may_lack() && Lack::of(&error).is_some() => {
                    self.guard.around().put_back(op);
                    return Ok(false);
                }
                Err(error) => {
                    let what = || format!("what was kept for {}", self.disk.describe(""));
                    self.guard.own.get().map_or(Ok(()), |own| own.lose(error, what))?;
                }
            }
        }
    }
}

fn carry_out<D: Disk>(disk: &D, op: &Op<D::File>) -> io::Result<()> {
    let fill = |slot: &Slot<D::File>, file| {
        let _ = slot.set(file);
    };
    match op {
        // A file of that name is the rest of a step that had no room for the next.
        Op::Create { name, size, slot } => create_anew(disk, name, *size).map(|file| fill(slot, file)),
        Op::Open { name, slot } => disk.open(name).map(|file| fill(slot, file)),
        Op::Rename { from, to } => disk.rename(from, to),
        Op::Remove { name } => disk.remove(name),
        Op::SyncNames => disk.sync(),
        Op::Write { slot, at, bytes } => slot.get().map_or(Ok(()), |file| file.write(*at, bytes)),
        Op::Through { slot, at, bytes } => slot.get().map_or(Ok(()), |file| file.write_through(*at, bytes.bytes())),
        Op::Sync { slot } => slot.get().map_or(Ok(()), File::sync),
    }
}

impl<D: Disk> Disk for Guarded<D> {
    type File = GuardedFile<D::File>;

    /// Empty while the log goes around the disk: what it would find is not what will be there.
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        if self.is_around() {
            return Ok(names);
        }
        let list = |names: &mut Vec<String>| self.disk.list().map(|list| *names = list);
        match self.guard.own.get() {
            None => list(&mut names)?,
            Some(own) => self.guard.act_here(own, || self.disk.describe(""), is_usual, || list(&mut names))?,
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Self::File> {
        let slot = Slot::default();
        let op = || Op::Open { name: name.to_owned(), slot: slot.clone() };
        self.name(name, op)?;
        Ok(self.of(slot, 0))
    }

    fn create(&self, name: &str, size: u64) -> io::Result<Self::File> {
        let slot = Slot::default();
        let op = || Op::Create { name: name.to_owned(), size, slot: slot.clone() };
        self.name(name, op)?;
        Ok(self.of(slot, size))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let op = || Op::Rename { from: from.to_owned(), to: to.to_owned() };
        self.name(from, op)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.name(name, || Op::Remove { name: name.to_owned() })
    }

    fn sync(&self) -> io::Result<()> {
        let disk = self.disk.clone();
        let operation = move |_: &Op<D::File>| disk.sync();
        self.guard.act_patiently(|| self.disk.describe(""), |_| false, || Op::SyncNames, operation)
    }

    fn describe(&self, name: &str) -> String {
        self.disk.describe(name)
    }
}

/// A file of such a disk. It is not there, if it was made when the disk had failed, and not yet, if the log goes around
/// the disk.
pub(crate) struct GuardedFile<F> {
    file: Slot<F>,
    size: u64,
    guard: Arc<Guard<F>>,
}

impl<F: File> GuardedFile<F> {
    /// A file of no such disk.
    #[cfg(test)]
    pub(crate) fn alone(file: F) -> Self {
        let slot = Slot::default();
        let _ = slot.set(file);
        Self { file: slot, size: 0, guard: Guard::new() }
    }

    fn act(
        &self,
        what: &str,
        is_usual: fn(&io::Error) -> bool,
        op: impl FnOnce(Slot<F>) -> Op<F>,
        f: impl FnOnce(&F) -> io::Result<()>,
    ) -> io::Result<()> {
        let act = || self.file.get().map_or(Ok(()), f);
        self.guard.act(|| what.to_owned(), is_usual, || op(self.file.clone()), act)
    }

    /// Keeps a write past the cache for later, if the log goes around the disk. Otherwise the bytes come back.
    ///
    /// # Errors
    /// There is no memory for it, and the log cannot go on without the own disk.
    pub(crate) fn keep_through(&self, at: u64, bytes: Aligned) -> io::Result<Option<Aligned>> {
        if !self.guard.is_around() {
            return Ok(Some(bytes));
        }
        let mut bytes = Some(bytes);
        let op = || Op::Through { slot: self.file.clone(), at, bytes: bytes.take().unwrap_or_default() };
        let kept = self.guard.keep(op).ok();
        kept.map_or(Ok(bytes), |kept| kept.map(|()| None))
    }

    /// Writes past the cache. The caller leaves it if the disk does not return.
    pub(crate) fn write_through_patiently(&self, at: u64, bytes: Aligned) -> io::Result<()> {
        let (slot, file) = (self.file.clone(), self.file.clone());
        let write = move |op: &Op<F>| match (file.get(), op) {
            (Some(file), Op::Through { at, bytes, .. }) => file.write_through(*at, bytes.bytes()),
            _ => Ok(()),
        };
        let what = || "a write past the cache".to_owned();
        self.guard.act_patiently(what, |_| false, || Op::Through { slot, at, bytes }, write)
    }

    /// Writes past the cache, even if the log goes around the disk: it began before that.
    pub(crate) fn write_through_here(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let write = || self.file.get().map_or(Ok(()), |file| file.write_through(at, bytes));
        match self.guard.own.get() {
            None => write(),
            Some(own) => self.guard.act_here(own, || "a write past the cache".to_owned(), |_| false, write),
        }
    }
}

impl<F: File> File for GuardedFile<F> {
    fn size(&self) -> io::Result<u64> {
        self.file.get().map_or(Ok(self.size), F::size)
    }

    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let gone = || io::Error::other("the own disk was given up");
        self.file.get().ok_or_else(gone)?.read(at, buffer)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if self.guard.own.get().is_none() {
            return self.file.get().map_or(Ok(()), |file| file.write(at, bytes));
        }
        let (slot, file) = (self.file.clone(), self.file.clone());
        let operation = move |op: &Op<F>| match (file.get(), op) {
            (Some(file), Op::Write { at, bytes, .. }) => file.write(*at, bytes),
            _ => Ok(()),
        };
        let op = || Op::Write { slot, at, bytes: bytes.to_vec() };
        self.guard.act_patiently(|| "a write".to_owned(), is_usual, op, operation)
    }

    fn sync(&self) -> io::Result<()> {
        let (slot, file) = (self.file.clone(), self.file.clone());
        let operation = move |_: &Op<F>| file.get().map_or(Ok(()), F::sync);
        self.guard.act_patiently(|| "a sync".to_owned(), |_| false, || Op::Sync { slot }, operation)
    }

    fn write_through(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let op = |slot| Op::Through { slot, at, bytes: Aligned::of(bytes) };
        self.act("a write past the cache", |_| false, op, |file| file.write_through(at, bytes))
    }

    fn direct(&self) -> Direct {
        self.file.get().map_or(Direct::No, F::direct)
    }
}
