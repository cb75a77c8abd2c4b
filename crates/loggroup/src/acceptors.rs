//! The acceptors of this process, and the connections of owners to them.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use quorum::{AcceptorId, Request, ShardId};
use redolog::{Devices, Folder as Disk, Limits};

use crate::driver::{own_folder, remove_log};
use crate::folder::{Cluster, Folder, Place, Spread, Unusable, logs_of_copy, remove_folders};
use crate::link::{Incoming, Outgoing, answer, reply_bytes};
use crate::local::{Figures, Local};
use crate::port::{Heard, Port};

/// How long a standby waits for the disk.
const PROBE: Duration = Duration::from_secs(2);

/// An acceptor of this process.
#[derive(Clone)]
pub struct Held {
    /// The directories that its streams are spread over. Of a log that the process ran: those of its streams.
    pub directories: Vec<PathBuf>,
    /// It is the log of a shard that the node has owned.
    is_log: bool,
    /// The acceptor.
    pub acceptor: Arc<Local<Disk>>,
}

impl Held {
    /// The directories of its streams, in their order: those of its log, once its node owns the shard.
    ///
    /// # Errors
    /// A directory cannot be read, or a stream is in several of them.
    pub fn logs(&self) -> Result<Vec<PathBuf>, Unusable> {
        if self.is_log {
            return Ok(self.directories.clone());
        }
        let streams = self.acceptor.figures().streams.len() as u16;
        logs_of_copy(&self.directories, self.acceptor.shard(), streams)
    }
}

/// A connection of an owner, and its threads.
struct Served {
    outgoing: Arc<Outgoing>,
    acceptor: Arc<Mutex<Option<AcceptorId>>>,
    thread: JoinHandle<()>,
}

/// The acceptors of a process.
pub struct Acceptors {
    limits: Limits,
    /// For experiments: the directories are on slow devices.
    devices: Option<Arc<Devices>>,
    held: Mutex<BTreeMap<AcceptorId, Held>>,
    served: Mutex<Vec<Served>>,
}

impl Acceptors {
    /// None so far. `limits`: of their segments. `devices`: the slow devices that their directories are on, for
    /// experiments.
    #[must_use]
    pub fn new(limits: Limits, devices: Option<Arc<Devices>>) -> Arc<Self> {
        Arc::new(Self { limits, devices, held: Mutex::default(), served: Mutex::default() })
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<AcceptorId, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn served(&self) -> MutexGuard<'_, Vec<Served>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the acceptor of a shard in these directories, which its streams are spread over.
    ///
    /// # Errors
    /// There is none ([`Unusable::Empty`]), it is another cluster's, it lost something, or a disk cannot be used.
    pub fn open(
        &self,
        directories: &[PathBuf],
        shard: ShardId,
        streams: u16,
        cluster: Option<Cluster>,
    ) -> Result<AcceptorId, Unusable> {
        let spread = Spread::of(directories, shard, streams)?;
        let folder = Folder::open(self.place(&spread, shard)?, shard, self.limits)?;
        self.start(directories, false, folder.of_cluster(cluster)?)
    }

    /// Makes the folders of a shard in these directories, and starts its acceptor: `id` is chosen by chance. `cluster`:
    /// the one of the shard, if it is known.
    ///
    /// # Errors
    /// There is an acceptor already, or a disk has no room, or has failed.
    pub fn make(
        &self,
        directories: &[PathBuf],
        shard: ShardId,
        streams: u16,
        cluster: Option<Cluster>,
        id: AcceptorId,
    ) -> Result<AcceptorId, Unusable> {
        let spread = Spread::of(directories, shard, streams)?;
        let folder = Folder::make_in(cluster, self.place(&spread, shard)?, shard, id, self.limits)?;
        self.start(directories, false, folder)
    }

    /// Starts the acceptor in the directories of a log that this process does not run: its node owned the shard before.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn open_log(&self, logs: &[PathBuf], shard: ShardId, cluster: Option<Cluster>) -> Result<AcceptorId, Unusable> {
        let own = own_folder(logs);
        let place = Place::of(&own, logs)?;
        let place = match &self.devices {
            Some(devices) => place.on(devices, &own, logs),
            None => place,
        };
        let folder = Folder::open(place, shard, self.limits)?;
        self.start(logs, true, folder.of_cluster(cluster)?)
    }

    fn place(&self, spread: &Spread, shard: ShardId) -> Result<Place<Disk>, Unusable> {
        let place = spread.place(shard)?;
        Ok(match &self.devices {
            Some(devices) => place.on(devices, &spread.own, &spread.streams),
            None => place,
        })
    }

    fn start(&self, directories: &[PathBuf], is_log: bool, folder: Folder<Disk>) -> Result<AcceptorId, Unusable> {
        let acceptor = Arc::new(Local::start(folder)?);
        let id = acceptor.id();
        self.held().insert(id, Held { directories: directories.to_vec(), is_log, acceptor });
        Ok(id)
    }

    /// An acceptor of this process.
    #[must_use]
    pub fn get(&self, id: AcceptorId) -> Option<Held> {
        self.held().get(&id).cloned()
    }

    /// The acceptor of a shard in this process. An owner's own log is none of these.
    #[must_use]
    pub fn of_shard(&self, shard: ShardId) -> Option<Held> {
        self.held().values().find(|held| held.acceptor.shard() == shard).cloned()
    }

    /// The names of all.
    #[must_use]
    pub fn ids(&self) -> Vec<AcceptorId> {
        self.held().keys().copied().collect()
    }

    /// Stops an acceptor, and ends the connections to it. Its folder stays.
    ///
    /// # Errors
    /// The disk has failed, now or before.
    pub fn close(&self, id: AcceptorId) -> io::Result<()> {
        self.take_out(id).map_or(Ok(()), |acceptor| acceptor.stop())
    }

    /// An acceptor of this process, which is the caller's from now on. The connections to it end.
    pub fn take_out(&self, id: AcceptorId) -> Option<Arc<Local<Disk>>> {
        let held = self.held().remove(&id)?;
        for served in self.served().iter() {
            if *served.acceptor.lock().unwrap_or_else(PoisonError::into_inner) == Some(id) {
                served.outgoing.close();
            }
        }
        Some(held.acceptor)
    }

    /// Stops an acceptor that nobody wants any more, and removes its folders. The name goes first: the rest of a
    /// removal that was cut short is no acceptor.
    ///
    /// # Errors
    /// A folder cannot be removed.
    pub fn remove(&self, id: AcceptorId) -> io::Result<()> {
        let Some(Held { directories, is_log, acceptor }) = self.get(id) else { return Ok(()) };
        let shard = acceptor.shard();
        drop(acceptor);
        // Its disk may have failed: its blocks are not needed.
        let _ = self.close(id);
        if is_log { remove_log(&directories) } else { remove_folders(&directories, shard, id) }
    }

    /// The state of each acceptor, and the directories of its streams.
    #[must_use]
    pub fn figures(&self) -> Vec<(AcceptorId, ShardId, Vec<PathBuf>, Figures)> {
        let held: Vec<_> = self.held().values().cloned().collect();
        let of = |Held { directories, acceptor, .. }: Held| {
            (acceptor.id(), acceptor.shard(), directories, acceptor.figures())
        };
        held.into_iter().map(of).collect()
    }

    /// Serves a connection of an owner, behind its handshake, on a thread of its own.
    ///
    /// # Errors
    /// The socket cannot be used, or the system has no thread.
    pub fn serve(self: &Arc<Self>, socket: OwnedFd) -> io::Result<()> {
        let (incoming, outgoing) = Incoming::split(socket)?;
        let acceptor: Arc<Mutex<Option<AcceptorId>>> = Arc::default();
        let (acceptors, out, of) = (self.clone(), outgoing.clone(), acceptor.clone());
        let name = "copy-serve".to_owned();
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            let ended = acceptors.answer(incoming, &out, &of);
            out.close();
            if let Err(why) = ended {
                tracing::debug!("the connection of a log's owner ends: {why}");
            }
        })?;
        let mut served = self.served();
        served.retain(|served| !served.thread.is_finished());
        served.push(Served { outgoing, acceptor, thread });
        Ok(())
    }

    fn answer(&self, mut incoming: Incoming, out: &Arc<Outgoing>, of: &Mutex<Option<AcceptorId>>) -> io::Result<()> {
        let (id, is_probe) = incoming.greeted()?;
        *of.lock().unwrap_or_else(PoisonError::into_inner) = Some(id);
        let Some(Held { acceptor, .. }) = self.get(id) else {
            // A folder that lost its name has another one, and does not vote (rule G9).
            out.send(answer(Err("it has no such copy")), None);
            return Err(io::Error::other("an acceptor that is not here"));
        };
        if is_probe {
            let is_put = acceptor.probe().recv_timeout(PROBE).map_err(|_| "its disk does not answer");
            out.send(answer(is_put.map(|()| &[][..])), None);
            // The other end closes it when it has the answer.
            return incoming.next().map(drop);
        }
        let writer = out.clone();
        let writing = std::thread::Builder::new().name("copy-send".into()).spawn(move || writer.run())?;
        out.send(answer(Ok(&acceptor.extents())), None);
        let replies = out.clone();
        let caller = acceptor.caller(Arc::new(move |_, heard| {
            if let Heard::Reply(reply) = heard {
                replies.send(reply_bytes(&reply), None);
            }
        }));
        drop(acceptor);
        let ended = loop {
            match incoming.next().and_then(|bytes| Request::decode(bytes).map_err(io::Error::other)) {
                Ok(request) => caller.send(request),
                Err(error) => break error,
            }
        };
        out.close();
        // A thread that has panicked has told so itself.
        let _ = writing.join();
        Err(ended)
    }

    /// Ends all connections and stops all acceptors.
    ///
    /// # Errors
    /// A disk has failed, now or before: the first one's reason.
    pub fn stop(&self) -> io::Result<()> {
        let served = std::mem::take(&mut *self.served());
        served.iter().for_each(|served| served.outgoing.close());
        for served in served {
            let _ = served.thread.join();
        }
        let held = std::mem::take(&mut *self.held());
        let mut stopped = Ok(());
        for held in held.into_values() {
            stopped = stopped.and(held.acceptor.stop());
        }
        stopped
    }
}
