//! The owner's driver: a [`quorum::Owner`] behind a lock, between a log that runs and the acceptors' ports.
//!
//! The log's threads give blocks out ([`redolog::Copies`]), and ports' threads bring replies. Either may move a mark: the
//! driver tells the log ([`Log::hold`]), and a thread of a port has the watermark follow ([`Log::look`]). Messages leave
//! without the lock, on whatever thread comes first: an acceptor of this process may answer on the same thread.
//!
//! The own folder is an acceptor like others until the log runs on it. From then on ([`Driver::take_own`]) the log's
//! threads write there, and the driver answers in its place.

mod again;
#[cfg(test)]
mod around;
mod copies;
#[cfg(test)]
mod followed;
mod marks;
mod promoted;
#[cfg(test)]
mod promotions;
mod reads;
mod shown;
mod stages;
mod start;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod together;
mod waits;

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use quorum::{
    AcceptorId, Base, BlockId, Cut, Event, History, Lag, Limits, Order, Owner, Reply, Report, Request, ShardId,
};
use quorum::{Stage, StreamId, Term};
use redolog::{Around, Landed, Log, Lsn};

use crate::port::{Heard, Listener, Port};

pub use again::Again;
use marks::Marking;
pub use reads::OwnReads;
use reads::Reads;
pub use shown::{CopyShown, Shown};
pub use stages::{Ended, Wait};
pub use start::{NotStarted, Own, Rising, is_acceptor, name_of_own, own_folder, own_promise, remove_log, shard_of_own};
use waits::Waits;

/// A term, as the metadata give it (rule G1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The shard.
    pub shard: ShardId,
    /// The term.
    pub term: Term,
    /// The name of the own folder.
    pub own: AcceptorId,
    /// The acceptors that the metadata have settled on.
    pub settled: Vec<AcceptorId>,
    /// Those that are to replace them.
    pub pending: Option<Vec<AcceptorId>>,
}

/// The marks of a stream that the log was told.
#[derive(Clone, Copy, Default)]
struct Mark {
    received: Cut,
    synced: Cut,
    /// The last block whose sync was wanted, and the last one up to which acceptors were asked.
    wanted: u64,
    asked: u64,
    /// The place that acceptors were told to be committed.
    told: u64,
    /// Where the last block ends.
    end: Cut,
    /// How far the own folder is.
    own: Landed,
    /// How many blocks were ahead of a majority as the log was told, and true if there was room for another.
    ahead: (u64, bool),
    /// The own folder has given up everything up to here, and copies could not be cut yet.
    retired: Option<Base>,
}

/// The part behind the lock.
struct Inner {
    owner: Owner,
    ports: BTreeMap<AcceptorId, Arc<dyn Port>>,
    /// Messages that are to go out, in order, and whether each goes apart. True if a thread sends some.
    outbox: Vec<(Arc<dyn Port>, Request, bool)>,
    is_sending: bool,
    marks: Vec<Mark>,
    waits: Waits,
    /// The log's threads write the own folder. Its blocks are read by a thread for that.
    is_own_taken: bool,
    own_reads: Option<Reads>,
    has_own_failed: bool,
    /// Streams that go around the own disk for now: nothing new is told of the own folder.
    around: BTreeMap<u16, Around>,
    /// The log goes on without the own folder, which counts for nothing any more.
    is_own_lost: bool,
    /// The log was told that no majority has room.
    is_full: bool,
    /// Blocks are acknowledged when they are on disks, and not when they are written.
    is_through: bool,
    may_settle: bool,
    marking: Marking,
    /// Words about marks since all was said.
    words: u32,
    /// The term that has followed.
    fenced_by: Option<Term>,
    /// Another process gets the shard in order. The log rests, so a later term does not end it.
    gives_way: bool,
    /// The caller has given up.
    is_stopped: bool,
}

/// See the module's text.
pub struct Driver {
    shard: ShardId,
    own: AcceptorId,
    inner: Mutex<Inner>,
    /// Notified when the stage has changed, or an acceptor has moved on while the log does not run.
    news: Condvar,
    log: OnceLock<Log>,
    /// Itself.
    me: Weak<Self>,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("shard", &self.shard).field("own", &self.own).finish_non_exhaustive()
    }
}

/// Streams whose marks have moved.
#[derive(Clone, Copy, Default)]
struct Moved(u16);

impl Moved {
    fn add(&mut self, stream: StreamId) {
        self.0 |= 1 << stream.0;
    }

    fn streams(self) -> impl Iterator<Item = u16> {
        (0..16).filter(move |stream| self.0 >> stream & 1 == 1)
    }
}

impl Driver {
    /// The driver of a term. `known`: the blocks of each stream that the own folder has. Messages to acceptors go out
    /// at once: `ports` makes their ports, each of which tells the listener what it hears.
    pub fn begin(
        plan: Plan,
        known: Vec<History>,
        limits: Limits,
        ports: impl FnOnce(&Listener) -> Vec<(AcceptorId, Arc<dyn Port>)>,
    ) -> Arc<Self> {
        let mut out = Vec::new();
        let streams = known.len();
        let Plan { shard, term, own, settled, pending } = plan;
        let mut owner = Owner::new((shard, term), settled, pending, known, limits, &mut out);
        owner.follow(own, &mut out);
        owner.wait_for(own);
        let inner = Inner {
            owner,
            ports: BTreeMap::new(),
            outbox: Vec::new(),
            is_sending: false,
            marks: vec![Mark::default(); streams],
            waits: Waits::new(streams),
            is_own_taken: false,
            own_reads: None,
            has_own_failed: false,
            around: BTreeMap::new(),
            is_own_lost: false,
            is_full: false,
            is_through: limits.through,
            may_settle: false,
            marking: Marking::ByHand,
            words: 0,
            fenced_by: None,
            gives_way: false,
            is_stopped: false,
        };
        let driver = Arc::new_cyclic(|me| {
            let (inner, news, log, me) = (Mutex::new(inner), Condvar::new(), OnceLock::new(), me.clone());
            Self { shard, own, inner, news, log, me }
        });
        // A port may tell its listener something while it is made.
        // One that is given up waits for its thread, which may wait for the lock.
        let ports: BTreeMap<_, _> = ports(&driver.listener()).into_iter().collect();
        driver.act(None, |inner, events| {
            inner.ports = ports;
            *events = out;
        });
        driver
    }

    fn listener(self: &Arc<Self>) -> Listener {
        let weak = Arc::downgrade(self);
        Arc::new(move |acceptor, heard| {
            if let Some(driver) = weak.upgrade() {
                driver.hear(acceptor, heard);
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of the own folder.
    #[must_use]
    pub fn own(&self) -> AcceptorId {
        self.own
    }

    /// Its shard.
    #[must_use]
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// Its term.
    #[must_use]
    pub fn term(&self) -> Term {
        self.lock().owner.term()
    }

    /// How far each acceptor is behind in each stream.
    #[must_use]
    pub fn lags(&self) -> Vec<Lag> {
        self.lock().owner.lags().collect()
    }

    /// Bytes of blocks that no majority has.
    #[must_use]
    pub fn uncommitted_bytes(&self) -> usize {
        self.lock().owner.uncommitted_bytes()
    }

    /// True if the acceptors that are pending have everything: the change may be settled in the metadata (rule G11).
    #[must_use]
    pub fn may_settle(&self) -> bool {
        self.lock().may_settle
    }

    /// The acceptors that count beside the settled ones, until [`Self::settled`].
    #[must_use]
    pub fn pending(&self) -> Option<Vec<AcceptorId>> {
        self.lock().owner.pending().map(<[_]>::to_vec)
    }

    /// The metadata have settled on the acceptors that were pending.
    pub fn settled(&self) {
        self.act(None, |inner, events| {
            inner.may_settle = false;
            inner.owner.settled(events);
        });
    }

    /// Tells acceptors how far the streams are committed, where that has changed, and goes around own disks that do not
    /// return. The caller calls it about once a second.
    pub fn tell_committed(&self) {
        self.log.get().into_iter().for_each(Log::leave_hanging);
        self.act(None, |inner, events| {
            for (stream, mark) in (0..).map(StreamId).zip(&mut inner.marks) {
                let committed = inner.owner.synced(stream);
                if committed > mark.told {
                    mark.told = committed;
                    inner.owner.advance(stream, events);
                }
            }
            (0..inner.marks.len() as u16).map(StreamId).for_each(|stream| inner.cut(stream, events));
        });
    }

    /// An acceptor, or its connection, has said something.
    fn hear(&self, acceptor: AcceptorId, heard: Heard) {
        self.act(None, |inner, events| {
            if inner.is_own_taken && acceptor == self.own {
                // The log's threads speak for it.
                return;
            }
            let has_failed = |reply: &Reply| matches!(reply.report, Report::Failed);
            inner.has_own_failed |= acceptor == self.own && matches!(&heard, Heard::Reply(reply) if has_failed(reply));
            match heard {
                Heard::Connected => inner.owner.connected(acceptor, events),
                Heard::Lost => inner.owner.lost(acceptor, events),
                Heard::Reply(reply) => inner.owner.reply(acceptor, reply, events),
            }
        });
    }

    /// Has the owner do something, and carries out what it says. `of`: the stream whose step the calling thread takes,
    /// which looks at its marks itself.
    fn act<R>(&self, of: Option<u16>, f: impl FnOnce(&mut Inner, &mut Vec<Event>) -> R) -> R {
        let (mut events, mut moved) = (Vec::new(), Moved::default());
        let mut inner = self.lock();
        let before = inner.stage();
        let result = f(&mut inner, &mut events);
        while !events.is_empty() {
            for event in std::mem::take(&mut events) {
                inner.carry_out(event, self.own, &mut moved, &mut events);
            }
        }
        let (log, by) = (self.log.get(), inner.fenced_by.filter(|_| !inner.gives_way));
        if log.is_none() || before != inner.stage() {
            self.news.notify_all();
        }
        if let Some(log) = log {
            inner.note_ahead(log, &mut moved);
            moved.streams().for_each(|stream| inner.hold(log, stream));
        }
        let is_full = inner.owner.is_full();
        let has_changed = log.is_some_and(|log| {
            // In the order of the owner's steps.
            log.note_room(is_full);
            std::mem::replace(&mut inner.is_full, is_full) != is_full
        });
        let is_marking = inner.begins_to_mark();
        self.send_out(inner);
        if is_marking {
            self.begin_to_mark();
        }
        let Some(log) = log else { return result };
        if has_changed {
            log.look_at_room();
        }
        if let Some(by) = by.filter(|_| before != Stage::Fenced) {
            log.end(fenced(by));
        }
        moved.streams().filter(|stream| Some(*stream) != of).for_each(|stream| log.look(stream));
        result
    }
}

impl Driver {
    /// Sends what is to go out, in the order in which the owner said it. Nothing is locked meanwhile: a port may have an
    /// answer at once.
    fn send_out<'a>(&'a self, mut inner: MutexGuard<'a, Inner>) {
        if inner.is_sending {
            // That thread looks again.
            return;
        }
        while !inner.outbox.is_empty() {
            inner.is_sending = true;
            let due = std::mem::take(&mut inner.outbox);
            drop(inner);
            for (port, request, apart) in due {
                if apart {
                    port.send_apart(request);
                } else {
                    port.send(request);
                }
            }
            inner = self.lock();
        }
        inner.is_sending = false;
    }
}

/// The reason for which a log fails whose owner is fenced.
fn fenced(by: Term) -> String {
    format!("another process leads the shard, or this one in another life: term {} was promised", by.get())
}

impl Inner {
    fn carry_out(&mut self, event: Event, own: AcceptorId, moved: &mut Moved, out: &mut Vec<Event>) {
        match event {
            Event::Send { to, request, .. } if self.is_own_taken && to == own => self.answer(own, request, out),
            Event::Send { to, request, apart } => {
                if let Some(port) = self.ports.get(&to) {
                    self.outbox.push((port.clone(), request, apart));
                }
            }
            // The own folder is brought up like others, and is read when it has everything.
            Event::Chosen | Event::Replay { .. } | Event::Sealed { .. } | Event::Leads => {}
            Event::MaySettle => self.may_settle = true,
            Event::Received { stream, id, cut } => {
                if !self.is_through {
                    self.waits.majority_has(stream.0.into(), id.sequence);
                }
                if let Some(mark) = self.marks.get_mut(usize::from(stream.0)) {
                    mark.received = cut.max(mark.received);
                    moved.add(stream);
                }
                self.sync_more(stream, id, out);
            }
            Event::Synced { stream, id, cut } => {
                if self.is_through {
                    self.waits.majority_has(stream.0.into(), id.sequence);
                }
                if let Some(mark) = self.marks.get_mut(usize::from(stream.0)) {
                    mark.synced = cut.max(mark.synced);
                    moved.add(stream);
                }
            }
            Event::Fenced { by } => self.fenced_by = Some(by),
        }
    }

    /// Answers for the own folder, which the log writes.
    fn answer(&mut self, own: AcceptorId, request: Request, out: &mut Vec<Event>) {
        let Request { shard, term, order } = request;
        let report = match order {
            _ if self.is_own_lost => Report::Failed,
            // Not everything is on its disk. It answers when everything is.
            Order::Seal if !self.around.is_empty() => return,
            // It is asked at a term of the same process, for which the log rests: all blocks are on its disk.
            Order::Seal => {
                let streams = (0..self.marks.len() as u16).map(StreamId);
                let histories = streams.filter_map(|stream| self.owner.history(stream).cloned()).collect();
                Report::Sealed { histories }
            }
            Order::Read { stream, from, most } if self.own_reads.is_some() => {
                self.own_reads.iter().for_each(|reads| reads.ask(term, stream, from, most));
                return;
            }
            Order::Read { stream, .. } => Report::Blocks { stream, blocks: Vec::new() },
            _ => return,
        };
        self.owner.reply(own, Reply { shard, term, report }, out);
    }

    /// Blocks that were not sent yet when a sync was wanted are synced when a majority has them.
    fn sync_more(&mut self, stream: StreamId, received: BlockId, out: &mut Vec<Event>) {
        let Some(mark) = self.marks.get_mut(usize::from(stream.0)) else { return };
        if mark.asked < mark.wanted && received.sequence > mark.asked {
            mark.asked = received.sequence;
            self.owner.sync(stream, out);
        }
    }

    fn hold(&self, log: &Log, stream: u16) {
        if let Some(mark) = self.marks.get(usize::from(stream)) {
            log.hold(stream, Lsn(mark.received.0), Lsn(mark.synced.0));
        }
    }

    /// Tells the log how many blocks are ahead of a majority. It looks where that are fewer than before.
    fn note_ahead(&mut self, log: &Log, moved: &mut Moved) {
        for (stream, mark) in (0..).map(StreamId).zip(&mut self.marks) {
            let ahead = (self.owner.ahead(stream), self.owner.has_room(stream));
            let before = std::mem::replace(&mut mark.ahead, ahead);
            if ahead != before {
                log.note_ahead(stream.0, ahead.0, ahead.1);
            }
            if ahead.0 < before.0 {
                moved.add(stream);
            }
        }
    }

    /// Has copies cut what the own folder has given up, if they can be now.
    fn cut(&mut self, stream: StreamId, events: &mut Vec<Event>) {
        let Some(mark) = self.marks.get_mut(usize::from(stream.0)) else { return };
        if let Some(base) = mark.retired
            && self.owner.cut(stream, base, events).is_ok()
        {
            mark.retired = None;
        }
    }

    fn stage(&self) -> Stage {
        self.owner.stage()
    }
}
