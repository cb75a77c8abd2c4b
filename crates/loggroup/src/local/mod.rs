//! A running acceptor: the machine of `quorum`, its folder, and the threads that wait for the disk.
//!
//! The machine runs under a lock on whatever thread brings it a message, and never waits there. Operations of the disk
//! go to a few threads. A stream's folder is a *hand* that one thread at a time has: it places blocks in their order.
//! The writes themselves happen without it, several at once.

mod lane;
mod tap;
mod work;

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use quorum::{
    Acceptor, AcceptorId, BlockId, Done, Extent, History, Keep, Op, Order, Output, Reply, Report, Request, ShardId,
    StreamId, Term,
};
use redolog::{Damage, Disk, Lack, Lsn, Promoted, Reader, Replica};

pub(crate) use self::lane::Task;
pub(crate) use self::lane::read;
#[cfg(test)]
pub(crate) use self::lane::{Came, Departed, carry_out};
use self::lane::{Lane, Wanted};
use self::tap::Tapped;
pub use self::tap::{Ended as TapEnded, Following, Known, Stepped as TapStepped, Tap};
#[cfg(test)]
pub(crate) use self::tap::{Mistake, Planted};
pub use self::work::Job;
use crate::folder::{Folder, Promise, Unusable, check, number_of};
use crate::port::{Heard, Listener, Port};

/// Most standbys that wait at once until a write of theirs is on the disk.
const PROBES_MAX: usize = 8;

/// Owners that are remembered, each by its latest connection: the present one, and those that it is to refuse.
const CALLERS_MAX: usize = 8;

/// Between two looks at whether anything is under way.
const LOOK: Duration = Duration::from_millis(1);

/// The promises that are to be written.
struct Promises<D: Disk> {
    hand: Option<Promise<D>>,
    /// The terms, and for each one a standby that hears when it is on the disk.
    wanted: Vec<(Term, Option<Sender<()>>)>,
}

struct State<D: Disk> {
    acceptor: Acceptor,
    promises: Promises<D>,
    lanes: Vec<Lane<D>>,
    /// The latest connection of each owner that it has sealed on, the latest owner last, and which one it is in the order
    /// of connections: 0 if no seal came on it.
    callers: Vec<(Term, Listener, u64)>,
    /// How many connections there were.
    connections: u64,
    /// The connection that asked for the read which the present step is about. The answer goes there: connections for
    /// old blocks hear nothing else.
    asker: Option<Listener>,
    /// Threads that have nothing to do.
    idle: usize,
    is_closing: bool,
    /// No other process uses the folders meanwhile.
    locks: Vec<std::fs::File>,
    trouble: Option<String>,
    /// The resource for which it takes no more blocks, as the owner was told.
    lack: Option<Lack>,
    /// A standby reads here.
    tapped: Option<Tapped>,
}

struct Shared<D: Disk> {
    id: AcceptorId,
    shard: ShardId,
    state: Mutex<State<D>>,
    work: Condvar,
    /// Notified when there is something new for the standby that reads here.
    news: Condvar,
}

/// A reply, and the owner that it goes to.
type Told = Vec<(Listener, Reply)>;

impl<D: Disk> Shared<D> {
    fn lock(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the machine take a step, wakes threads for what it asks of the disk, and returns its replies.
    fn step(&self, state: &mut State<D>, step: impl FnOnce(&mut Acceptor, &mut Vec<Output>)) -> Told {
        let mut out = Vec::new();
        step(&mut state.acceptor, &mut out);
        self.take(state, out)
    }

    /// A step that is about a read.
    fn step_for(
        &self,
        asker: Option<Listener>,
        state: &mut State<D>,
        step: impl FnOnce(&mut Acceptor, &mut Vec<Output>),
    ) -> Told {
        state.asker = asker;
        let told = self.step(state, step);
        state.asker = None;
        told
    }

    fn take(&self, state: &mut State<D>, out: Vec<Output>) -> Told {
        let (mut told, mut tasks) = (Vec::new(), 0);
        for output in out {
            match output {
                Output::Reply(reply) => {
                    let is_answer = matches!(reply.report, Report::Blocks { .. });
                    let asker = state.asker.as_ref().filter(|_| is_answer);
                    let of_term = || state.callers.iter().rev().find(|(term, ..)| *term == reply.term);
                    let caller = asker.or_else(|| of_term().map(|(_, listener, _)| listener));
                    told.extend(caller.map(|listener| (listener.clone(), reply)));
                }
                Output::Disk(op) => {
                    tasks += 1;
                    state.queue(op);
                }
            }
        }
        (0..tasks.min(state.idle)).for_each(|_| self.work.notify_one());
        if state.note_news() {
            self.news.notify_all();
        }
        told
    }

    /// Passes replies on. Nothing is locked: a listener may send again.
    fn tell(&self, told: Told) {
        told.into_iter().for_each(|(listener, reply)| listener(self.id, Heard::Reply(reply)));
    }

    /// Rule G10: the folder takes nothing any more, and its log goes on elsewhere.
    fn fail(&self, state: &mut State<D>, why: &dyn std::fmt::Display) -> Told {
        if state.trouble.is_none() {
            tracing::error!(cause = "log copy", shard = self.shard.0, "an acceptor's disk has failed: {why}");
            state.trouble = Some(why.to_string());
        }
        state.promises.wanted.clear();
        state.lanes.iter_mut().for_each(Lane::give_up);
        self.step(state, |acceptor, out| acceptor.done(Done::Failed, out))
    }
}

impl<D: Disk> State<D> {
    fn queue(&mut self, op: Op) {
        let (stream, task) = match op {
            Op::Promise(term) => return self.promises.wanted.push((term, None)),
            Op::Write { stream, life, through, block } => {
                self.keep_recent(stream, |recent, most| recent.push(block.clone(), most));
                (stream, Task::Write { life, through, block })
            }
            Op::Sync { stream, life, upto } => (stream, Task::Sync { life, upto }),
            Op::Begin { stream, life, keep } => {
                self.keep_recent(stream, |recent, _| match keep {
                    Keep::UpTo(sequence) => recent.keep(sequence),
                    Keep::Nothing(_) => recent.clear(),
                });
                let last = self.acceptor.history(stream).map_or(BlockId::default(), quorum::History::last);
                (stream, Task::Begin { life, keep, last })
            }
            Op::Read { stream, term, from, upto } => {
                let asker = self.asker.clone();
                if let Some(lane) = self.lanes.get_mut(number_of(stream)) {
                    lane.reads.push_back(Wanted { term, from, upto, asker });
                }
                return;
            }
            Op::Cut { stream, base } => {
                if let Some(lane) = self.lanes.get_mut(number_of(stream)) {
                    lane.cut = Some(base.id.sequence);
                }
                return;
            }
        };
        if let Some(lane) = self.lanes.get_mut(number_of(stream)) {
            lane.queue.push_back(task);
        }
    }

    /// The latest connection of an owner is the last one that a seal came on. A connection for old blocks has none. A seal
    /// that came on an earlier one may be taken later, by another thread: what it asks for goes to the latest, too.
    fn note(&mut self, term: Term, is_seal: bool, listener: &Listener, number: u64) {
        let known = self.callers.iter().find(|(known, ..)| *known == term);
        if known.is_some_and(|(_, _, latest)| !is_seal || *latest > number) {
            return;
        }
        let is_same = |(last, _, latest): &(Term, Listener, u64)| *last == term && *latest == number;
        if self.callers.last().is_some_and(is_same) {
            return;
        }
        self.callers.retain(|(known, ..)| *known != term);
        self.callers.push((term, listener.clone(), if is_seal { number } else { 0 }));
        if self.callers.len() > CALLERS_MAX {
            self.callers.remove(0);
        }
    }
}

/// An acceptor that runs in this process.
pub struct Local<D: Disk> {
    shared: Arc<Shared<D>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    is_by_hand: bool,
}

impl<D: Disk> Local<D> {
    /// Starts the acceptor of a folder.
    ///
    /// # Errors
    /// The folder's blocks contradict one another, or the system has no threads for it.
    pub fn start(folder: Folder<D>) -> Result<Self, Unusable> {
        let local = Self::open(folder, false)?;
        // One thread is for promises, reads and cuts.
        let count = local.shared.lock().lanes.len();
        for number in 0..lane::WRITES * count + 1 {
            let shared = local.shared.clone();
            let run = move || shared.run();
            let name = format!("copy-{}-{number}", local.shared.shard.0);
            let thread = std::thread::Builder::new().name(name).spawn(run)?;
            local.threads().push(thread);
        }
        Ok(local)
    }

    /// As [`Self::start`], without threads: the holder takes jobs ([`Self::job`]) and carries them out. When the value is
    /// dropped, nothing more happens on the disk. For simulations.
    ///
    /// # Errors
    /// The folder's blocks contradict one another.
    pub fn by_hand(folder: Folder<D>) -> Result<Self, Unusable> {
        Self::open(folder, true)
    }

    /// The next job that a thread would take. `again`: a job that lacked a resource is tried again.
    #[must_use]
    pub fn job(&self, again: bool) -> Option<Job<D>> {
        let mut state = self.shared.lock();
        if again {
            state.try_again();
        }
        state.next_job()
    }

    /// True if a job lacked a resource, and is to be tried again after a while.
    #[must_use]
    pub fn lacks(&self) -> bool {
        self.shared.lock().lanes.iter().any(Lane::waits_for_resource)
    }

    /// Does a job. A write past the cache that it begins is another job, and other jobs may be done in between.
    pub fn carry_out(&self, job: Job<D>) -> Option<Job<D>> {
        self.shared.carry_out(job)
    }

    fn open(folder: Folder<D>, is_by_hand: bool) -> Result<Self, Unusable> {
        let found = folder.found()?;
        let Folder { shard, acceptor: id, promise, streams, locks, .. } = folder;
        let mut out = Vec::new();
        let acceptor = Acceptor::open(shard, promise.term(), found, &mut out);
        let promises = Promises { hand: Some(promise), wanted: Vec::new() };
        let lanes = streams.into_iter().map(Lane::new).collect();
        let (callers, connections, idle) = (Vec::new(), 0, 0);
        let state = State {
            acceptor,
            promises,
            lanes,
            callers,
            connections,
            asker: None,
            idle,
            is_closing: false,
            locks,
            trouble: None,
            lack: None,
            tapped: None,
        };
        let (state, work, news) = (Mutex::new(state), Condvar::new(), Condvar::new());
        let shared = Arc::new(Shared { id, shard, state, work, news });
        let local = Self { shared, threads: Mutex::default(), is_by_hand };
        let told = local.shared.take(&mut local.shared.lock(), out);
        local.shared.tell(told);
        Ok(local)
    }

    /// The blocks that it has of each stream.
    #[must_use]
    pub fn histories(&self) -> Vec<History> {
        let state = self.shared.lock();
        (0..state.lanes.len() as u16).filter_map(|stream| state.acceptor.history(StreamId(stream)).cloned()).collect()
    }

    /// The term that it has promised.
    #[must_use]
    pub fn promised(&self) -> Term {
        self.shared.lock().acceptor.promised()
    }

    /// Readers of its folder, one for each stream.
    pub(crate) fn readers(&self) -> Vec<Reader<D>> {
        self.shared.lock().lanes.iter().map(|lane| lane.for_taps.another()).collect()
    }

    /// Waits until nothing is under way in a stream. Segments that are made ahead do not count.
    fn quiet(&self) -> MutexGuard<'_, State<D>> {
        let mut state = self.shared.lock();
        let is_busy = |state: &State<D>| {
            let is_at_work = |lane: &Lane<D>| lane.hand.is_none() || lane.in_flight > 0 || lane.reader.is_none();
            let of_lane = |lane: &Lane<D>| is_at_work(lane) || lane.has_work();
            state.promises.hand.is_none() || state.lanes.iter().any(of_lane)
        };
        while !self.is_by_hand && is_busy(&state) {
            state = self.shared.news.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }

    /// Where each stream ends: see [`redolog::ends_of`]. The caller has sealed it, and its owner is this process.
    ///
    /// # Errors
    /// The disk has failed.
    pub fn ends(&self) -> Result<Vec<Lsn>, Damage> {
        let state = self.quiet();
        let replicas: Vec<_> = state.lanes.iter().filter_map(|lane| lane.hand.as_ref()).collect();
        redolog::ends_of(&replicas)
    }

    /// An LSN that no record is above which ever was here.
    #[must_use]
    pub fn highest(&self) -> Lsn {
        let state = self.quiet();
        state.lanes.iter().filter_map(|lane| lane.hand.as_ref()).map(Replica::highest).max().unwrap_or_default()
    }

    /// Ends it: a log goes on in its folder, with the files that are open. Nothing is answered any more.
    ///
    /// # Errors
    /// The disk has failed, now or before.
    pub fn promote(&self) -> io::Result<Promoted<D>> {
        {
            let mut state = self.shared.lock();
            state.is_closing = true;
            state.callers.clear();
            self.shared.work.notify_all();
            self.shared.news.notify_all();
        }
        let mut state = self.quiet();
        // A thread may be making a segment ahead, and ends by itself.
        self.threads().clear();
        if let Some(why) = &state.trouble {
            return Err(io::Error::other(why.clone()));
        }
        let replicas: Vec<_> = state.lanes.drain(..).filter_map(|lane| lane.hand).collect();
        if replicas.is_empty() {
            return Err(io::Error::other("the copy of a log has stopped"));
        }
        Ok(Promoted::new(replicas, std::mem::take(&mut state.locks)))
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> AcceptorId {
        self.shared.id
    }

    /// Its shard.
    #[must_use]
    pub fn shard(&self) -> ShardId {
        self.shared.shard
    }

    /// A way to it, for an owner in this process or for the connection of one. `listener` hears its replies.
    #[must_use]
    pub fn caller(&self, listener: Listener) -> Caller<D> {
        let mut state = self.shared.lock();
        state.connections += 1;
        Caller { shared: self.shared.clone(), listener, number: state.connections }
    }

    /// What it has of each stream.
    #[must_use]
    pub fn extents(&self) -> Vec<Extent> {
        let state = self.shared.lock();
        let of = |stream| state.acceptor.history(StreamId(stream)).map(quorum::History::extent);
        (0..state.lanes.len() as u16).filter_map(of).collect()
    }

    /// Writes something that changes nothing: the promise, once more. Something comes when it is on the disk, and nothing
    /// if the disk has failed, or too many ask.
    #[must_use]
    pub fn probe(&self) -> Receiver<()> {
        let (tell, told) = channel();
        let mut state = self.shared.lock();
        let probes = state.promises.wanted.iter().filter(|(_, tell)| tell.is_some()).count();
        if probes < PROBES_MAX && !state.is_closing && !state.acceptor.is_failed() {
            let promised = state.acceptor.promised();
            state.promises.wanted.push((promised, Some(tell)));
            if state.idle > 0 {
                self.shared.work.notify_one();
            }
        }
        told
    }

    /// Its state.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let state = self.shared.lock();
        let of = |(lane, stream): (&Lane<D>, u16)| {
            let history = state.acceptor.history(StreamId(stream));
            StreamFigures {
                blocks: history.map_or(0, |history| history.last().sequence - history.base().id.sequence),
                last: history.map_or(BlockId::default(), quorum::History::last),
                synced: lane.synced,
                bytes: lane.size,
                lack: lane.lack(),
            }
        };
        Figures {
            promised: state.acceptor.promised(),
            trouble: state.trouble.clone(),
            streams: state.lanes.iter().zip(0..).map(of).collect(),
        }
    }

    /// Stops it: all written blocks are put on the disk, and its threads end. Nothing is answered any more. By hand, no job
    /// is left, nor is one under way.
    ///
    /// # Errors
    /// The disk has failed, now or before.
    pub fn stop(&self) -> io::Result<()> {
        {
            let mut state = self.shared.lock();
            state.is_closing = true;
            state.callers.clear();
            self.shared.work.notify_all();
            self.shared.news.notify_all();
        }
        for thread in self.threads().drain(..) {
            // A thread that has panicked has told so itself.
            let _ = thread.join();
        }
        let mut state = self.shared.lock();
        let closed = match &state.trouble {
            Some(why) => Err(io::Error::other(why.clone())),
            None => state.lanes.iter_mut().try_for_each(Lane::close),
        };
        state.lanes.clear();
        state.locks.clear();
        closed
    }
}

impl<D: Disk> Drop for Local<D> {
    fn drop(&mut self) {
        if !self.is_by_hand {
            // The disk's error was logged where it happened, and the owner was told.
            let _ = self.stop();
        }
    }
}

/// The way of one owner, or one connection, to an acceptor.
pub struct Caller<D: Disk> {
    shared: Arc<Shared<D>>,
    listener: Listener,
    /// Its number in the order of connections.
    number: u64,
}

impl<D: Disk> Port for Caller<D> {
    /// Verifies a block's checksums before anything is done with it. A request with a damaged block is dropped.
    fn send(&self, request: Request) {
        if let Order::Append { stream, before, block, .. } = &request.order
            && let Err(why) = check(self.shared.shard, *stream, *before, block)
        {
            tracing::warn!(cause = "log copy", shard = self.shared.shard.0, "a block is refused: {}", why.0);
            return;
        }
        let told = {
            let mut state = self.shared.lock();
            if state.is_closing {
                return;
            }
            state.note(request.term, matches!(request.order, Order::Seal), &self.listener, self.number);
            if let Order::Mark { stream, committed, .. } = &request.order {
                state.note_word(request.term, *stream, committed.sequence);
            }
            let asker = matches!(request.order, Order::Read { .. }).then(|| self.listener.clone());
            self.shared.step_for(asker, &mut state, |acceptor, out| acceptor.request(request, out))
        };
        self.shared.tell(told);
    }
}

/// The state of an acceptor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Figures {
    /// The term that it has promised.
    pub promised: Term,
    /// The reason why it has failed for good.
    pub trouble: Option<String>,
    /// Its streams.
    pub streams: Vec<StreamFigures>,
}

/// The state of a copy of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamFigures {
    /// Blocks.
    pub blocks: u64,
    /// The last one.
    pub last: BlockId,
    /// The last one that the acceptor has told to be on the disk.
    pub synced: BlockId,
    /// Bytes of its segments.
    pub bytes: u64,
    /// The resource that it waits for.
    pub lack: Option<Lack>,
}
