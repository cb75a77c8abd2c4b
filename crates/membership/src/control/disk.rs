//! A thread that writes the node's state of the metadata, so that the control thread never waits for the disk: leases
//! are renewed while it is slow.

use std::io;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use openraft::storage::IOFlushed;
use tokio::sync::oneshot;

use super::files;
use super::folder::Folder;
use super::kept::Kept;
use super::shelf::Shelf;
use super::types::Types;

/// How often a write without room is tried again, and the pause before it.
const TRIES: u32 = 50;
const RETRY: Duration = Duration::from_millis(100);

/// The waiters for a write.
enum Waiter {
    Raft(IOFlushed<Types>),
    Task(oneshot::Sender<io::Result<()>>),
    /// The thread is to end, and give the folder back.
    Stop,
}

/// The state, in memory and on its way to the disk.
#[derive(Clone)]
pub struct Disk {
    kept: Arc<Mutex<Kept>>,
    waiters: Sender<Waiter>,
}

impl Disk {
    /// Starts the thread.
    pub fn start(folder: Folder, kept: Kept) -> io::Result<(Self, JoinHandle<()>)> {
        let kept = Arc::new(Mutex::new(kept));
        let (waiters, receiver) = channel();
        let shared = Arc::clone(&kept);
        let thread = std::thread::Builder::new()
            .name("cluster-disk".to_owned())
            .spawn(move || write_all(folder, &shared, &receiver))?;
        Ok((Self { kept, waiters }, thread))
    }

    /// Ends the thread when it has done all earlier writes.
    pub fn stop(&self) {
        let _ = self.waiters.send(Waiter::Stop);
    }

    /// The kept state, locked for a moment.
    pub fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state; a caller that wants the result waits until it is durable.
    pub fn change(&self, change: impl FnOnce(&mut Kept)) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send>> {
        let (sender, receiver) = oneshot::channel();
        let mut kept = self.kept();
        change(&mut kept);
        // Within the lock, so that waiters are in the order of the changes.
        let sent = self.waiters.send(Waiter::Task(sender));
        drop(kept);
        Box::pin(async move {
            sent.map_err(|_| stopped())?;
            receiver.await.map_err(|_| stopped())?
        })
    }

    /// Changes the state, and calls back when it is durable.
    pub fn change_then(&self, change: impl FnOnce(&mut Kept), then: IOFlushed<Types>) {
        let mut kept = self.kept();
        change(&mut kept);
        if let Err(unsent) = self.waiters.send(Waiter::Raft(then)) {
            unsent.0.tell(Err(stopped()));
        }
    }
}

fn stopped() -> io::Error {
    io::Error::other("the thread that writes the cluster's state has ended")
}

impl Waiter {
    fn tell(self, result: io::Result<()>) {
        match self {
            Self::Raft(flushed) => flushed.io_completed(result),
            Self::Task(sender) => drop(sender.send(result)),
            Self::Stop => {}
        }
    }
}

fn write_all(mut folder: Folder, kept: &Mutex<Kept>, waiters: &Receiver<Waiter>) {
    while let Ok(first) = waiters.recv() {
        let (bytes, shelf, told) = {
            let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            let told: Vec<Waiter> = std::iter::once(first).chain(waiters.try_iter()).collect();
            (kept.encode(), kept.shelf(), told)
        };
        let written = write(&mut folder, &bytes, &shelf);
        if let Err(why) = &written {
            tracing::error!(
                "the cluster's state cannot be written: {why}; this node takes no more part in its metadata"
            );
        }
        let copy = |result: &io::Result<()>| {
            result.as_ref().map(|&()| ()).map_err(|why| io::Error::new(why.kind(), why.to_string()))
        };
        let stop = told.iter().any(|waiter| matches!(waiter, Waiter::Stop));
        told.into_iter().for_each(|waiter| waiter.tell(copy(&written)));
        if stop {
            return;
        }
        if written.is_err() {
            // It is unknown what a failed write has left (rule L9): nothing more is acknowledged, and the next start
            // reads what is there.
            return;
        }
    }
}

/// A write on a full disk is tried again for a while. The log, if it has the same disk, takes the free room for a
/// moment, and gives it back.
fn write(folder: &mut Folder, bytes: &[u8], shelf: &Shelf) -> io::Result<()> {
    let mut tries = TRIES;
    loop {
        match folder.write(bytes, shelf) {
            Err(why) if files::is_lack(&why) && tries > 0 => tries -= 1,
            written => return written,
        }
        std::thread::park_timeout(RETRY);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::control::types::Vote;

    /// Acknowledged changes are on the disk; after a failure none is acknowledged any more.
    #[test]
    fn a_change_is_durable_when_it_is_acknowledged() {
        let path = std::env::temp_dir().join(format!("holdfast-disk-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        let (folder, kept) = Folder::open(&path, None, false, &mut |_| {}).unwrap();
        let (disk, thread) = Disk::start(folder, kept).unwrap();
        let wait = futures_util::future::FutureExt::now_or_never;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for term in 1..20 {
            let vote = Vote::new(term, crate::NodeId([1; 20]));
            runtime.block_on(disk.change(|kept| kept.vote = Some(vote))).unwrap();
            assert_eq!(Folder::read(&path, None).unwrap().unwrap().vote, Some(vote));
        }
        fs::remove_dir_all(&path).unwrap();
        assert!(runtime.block_on(disk.change(|kept| kept.incarnation = 9)).is_err());
        thread.join().unwrap();
        assert!(wait(disk.change(|kept| kept.incarnation = 10)).unwrap().is_err(), "the write is not tried again");
    }
}
