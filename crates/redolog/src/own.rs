//! The own disk of a log with copies. When it fails, the log goes on without it (rule G10): what is written there from
//! then on is dropped, and the own folder counts for nothing any more.

use std::io;
use std::sync::{Arc, OnceLock};

use crate::copies::Copies;
use crate::disk::{Direct, Disk, File};
use crate::lack::Lack;

/// The error that the own disks were given up for, if they were.
pub(crate) type Loss = Arc<OnceLock<String>>;

/// The own disks of a log's streams. The first failure of any of them ends all.
pub(crate) struct Own {
    copies: Arc<dyn Copies>,
    loss: Loss,
}

impl Own {
    pub(crate) fn new(copies: Arc<dyn Copies>, loss: Loss) -> Arc<Self> {
        Arc::new(Self { copies, loss })
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

/// The state that a disk and its files share. Without copies it is never set.
type Guard = Arc<OnceLock<Arc<Own>>>;

/// Errors that have callers of their own, and say nothing about the disk.
fn is_usual(error: &io::Error) -> bool {
    Lack::of(error).is_some() || error.kind() == io::ErrorKind::AlreadyExists
}

/// Does an operation. Without the own disk it is done at once, with this result.
fn guarded<R>(
    guard: &OnceLock<Arc<Own>>,
    what: impl FnOnce() -> String,
    is_usual: fn(&io::Error) -> bool,
    without: impl Fn() -> R,
    operation: impl FnOnce() -> io::Result<R>,
) -> io::Result<R> {
    match guard.get() {
        None => operation(),
        Some(own) if own.is_lost() => Ok(without()),
        Some(own) => operation().or_else(|error| match is_usual(&error) {
            true => Err(error),
            false => own.lose(error, what).map(|()| without()),
        }),
    }
}

/// A disk that a log can go on without.
pub(crate) struct Guarded<D> {
    disk: Arc<D>,
    guard: Guard,
}

impl<D: Disk> Guarded<D> {
    pub(crate) fn new(disk: Arc<D>) -> Arc<Self> {
        Arc::new(Self { disk, guard: Guard::default() })
    }

    /// From now on the log goes on when the disk fails.
    pub(crate) fn guard(&self, own: Arc<Own>) {
        let _ = self.guard.set(own);
    }

    #[cfg(test)]
    pub(crate) fn inner(&self) -> &D {
        &self.disk
    }

    fn of(&self, file: Option<D::File>, size: u64) -> GuardedFile<D::File> {
        GuardedFile { file, size, guard: self.guard.clone() }
    }

    fn name<R>(&self, name: &str, without: impl Fn() -> R, f: impl FnOnce(&D) -> io::Result<R>) -> io::Result<R> {
        guarded(&self.guard, || self.disk.describe(name), is_usual, without, || f(&self.disk))
    }
}

impl<D: Disk> Disk for Guarded<D> {
    type File = GuardedFile<D::File>;

    fn list(&self) -> io::Result<Vec<String>> {
        self.name("", Vec::new, D::list)
    }

    fn open(&self, name: &str) -> io::Result<Self::File> {
        self.name(name, || self.of(None, 0), |disk| Ok(self.of(Some(disk.open(name)?), 0)))
    }

    fn create(&self, name: &str, size: u64) -> io::Result<Self::File> {
        self.name(name, || self.of(None, size), |disk| Ok(self.of(Some(disk.create(name, size)?), size)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.name(from, || (), |disk| disk.rename(from, to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.name(name, || (), |disk| disk.remove(name))
    }

    fn sync(&self) -> io::Result<()> {
        guarded(&self.guard, || self.disk.describe(""), |_| false, || (), || self.disk.sync())
    }

    fn describe(&self, name: &str) -> String {
        self.disk.describe(name)
    }
}

/// A file of such a disk: none, if it was made when the disk had failed.
pub(crate) struct GuardedFile<F> {
    file: Option<F>,
    size: u64,
    guard: Guard,
}

impl<F: File> GuardedFile<F> {
    /// A file of no such disk.
    #[cfg(test)]
    pub(crate) fn alone(file: F) -> Self {
        Self { file: Some(file), size: 0, guard: Guard::default() }
    }

    fn act(
        &self,
        what: &str,
        is_usual: fn(&io::Error) -> bool,
        f: impl FnOnce(&F) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        guarded(&self.guard, || what.to_owned(), is_usual, || (), || f(file))
    }
}

impl<F: File> File for GuardedFile<F> {
    fn size(&self) -> io::Result<u64> {
        self.file.as_ref().map_or(Ok(self.size), F::size)
    }

    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let gone = || io::Error::other("the own disk was given up");
        self.file.as_ref().ok_or_else(gone)?.read(at, buffer)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.act("a write", is_usual, |file| file.write(at, bytes))
    }

    fn sync(&self) -> io::Result<()> {
        self.act("a sync", |_| false, F::sync)
    }

    fn write_through(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.act("a write past the cache", |_| false, |file| file.write_through(at, bytes))
    }

    fn direct(&self) -> Direct {
        self.file.as_ref().map_or(Direct::No, F::direct)
    }
}
