//! The log of a running server: threads for each stream, and the workers' view of it.

mod bell;
mod crew;
mod demand;
mod helper;
mod meter;
pub(crate) mod open;
mod promoted;
mod slice;
mod soon;
mod stream;

pub use open::{Gates, Opened, Settings, Stepped, lock};
pub use promoted::{Promoted, ends_of};
pub use stream::{After, Step};

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::*, fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::commit::Moved;
use crate::copies::{Around, Held, NO_ROOM};
use crate::intake::Waiting;
use crate::lack::Lack;
use crate::own::Loss;
use crate::{Lsn, Watermarks};
use bell::Bell;
use demand::Demand;
use meter::{BUCKETS, Meter};

/// Nanoseconds that never go back.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// How long a thread waits for the disk that writes the log itself ([`Log::lend`]).
pub(crate) const LENT_MOST: Duration = Duration::from_millis(5);

/// When written bytes are synced: `appendfsync`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Fsync {
    /// Before the watermark moves: a reply says that the write is on the disk.
    Always,
    /// Once a second. The watermark moves when the system has the write: it survives the process, not the machine.
    Everysec,
    /// When a segment is full, and at the end. The watermark moves as with [`Fsync::Everysec`].
    No,
}

impl Fsync {
    fn from(byte: u8) -> Self {
        match byte {
            0 => Fsync::Always,
            1 => Fsync::Everysec,
            _ => Fsync::No,
        }
    }
}

/// The state of the log: it takes records, or it does not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// It does.
    Running,
    /// The next segment lacks a resource for now: mostly room on the disk (rule L8). Writes are refused until it can be
    /// made. Records that were left are written then.
    Full(Lack),
    /// A write or sync has failed, with its error (rule L9). The watermark of that stream does not move any more, and
    /// only a new start makes it run again. Connections that wait for the log are closed without an answer.
    Failed(String),
}

const RUNNING: u8 = 0;
const FAILED: u8 = 1;
const FULL: u8 = 2;

/// [`State::Full`] as a number.
const fn full(lack: Lack) -> u8 {
    FULL + lack as u8
}

/// The state of a number other than `FAILED`.
fn of_code(code: u8) -> State {
    code.checked_sub(FULL).and_then(Lack::from_number).map_or(State::Running, State::Full)
}

/// The state that a stream shares with all threads.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Stream {
    bell: Bell,
    /// A thread wants everything up to here on the disk, whatever the watermark promises.
    sync_wanted: AtomicU64,
    /// No later record is to get an LSN at or below this.
    pass_wanted: AtomicU64,
    /// Records up to here are durable elsewhere.
    truncate: AtomicU64,
    /// `RUNNING`, or the number of the resource that it lacks.
    state: AtomicU8,
    /// `always` was set since its thread looked.
    demanded: AtomicBool,
    /// The term that is wanted.
    term: AtomicU32,
    /// One more than the term that has begun, if all that was taken before is on the disk.
    rested: AtomicU32,
    /// With copies: the reason why it goes around the own disk.
    around: Mutex<Option<Around>>,
    /// Its watermark waits for those of other streams.
    waits_for_commit: AtomicBool,
    /// A record in it stands on one that is not on the disk of another stream.
    waits_for_sync: AtomicBool,
    meter: Meter,
    /// The sum of left bytes, and that of written ones.
    left: OnceLock<Waiting>,
    landed: AtomicU64,
    demand: Demand,
}

impl Stream {
    fn around(&self) -> Option<Around> {
        *self.around.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_around(&self, why: Option<Around>) {
        *self.around.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// Bytes that have been left and are not taken.
    fn left(&self) -> u64 {
        self.left.get().map_or(0, Waiting::bytes)
    }

    /// Bytes that are left and not written. It is not the sum of the waiting and the written ones: bytes that are just
    /// being taken would be in neither.
    fn backlog(&self) -> u64 {
        let landed = self.landed.load(Acquire);
        self.left.get().map_or(0, Waiting::ever).saturating_sub(landed)
    }

    /// True if as many bytes are left as a block is worth.
    fn pays(&self) -> bool {
        self.demand.pays(|| self.left())
    }

    /// Notes that a worker waits for its records.
    #[inline]
    fn ring(&self) {
        if self.demand.want(|| self.left()) {
            self.bell.ring();
        }
    }
}

/// Called with a state.
type OnState = Box<dyn Fn(&State) + Send + Sync>;

pub(crate) struct Shared {
    marks: Arc<Watermarks>,
    streams: Box<[Stream]>,
    moved: OnceLock<Box<dyn Fn() + Send + Sync>>,
    changed: OnceLock<OnState>,
    state: AtomicU8,
    reason: Mutex<Option<String>>,
    fsync: AtomicU8,
    stopping: AtomicBool,
    /// Another owner has the log.
    superseded: AtomicBool,
    /// Nothing is taken: another term of the log begins.
    paused: AtomicBool,
    clock: Clock,
    incarnations: [u64; 2],
    /// The crew of each stream, if there are threads.
    hands: OnceLock<Box<[Hand]>>,
    /// With copies: how far enough of them have each stream, and its crew, if there are threads.
    held: Box<[Arc<Held>]>,
    lookers: OnceLock<Box<[Looker]>>,
    leavers: OnceLock<Box<[Looker]>>,
    /// With copies: the error for which the log goes on without its own disks.
    own_loss: Loss,
    /// With copies: no majority of them has room.
    full_elsewhere: AtomicBool,
}

/// Takes a stream's steps on the calling thread: see [`Log::lend`].
type Hand = Box<dyn Fn() -> bool + Send + Sync>;

/// Moves a stream's watermark on the calling thread: see [`Log::look`].
type Looker = Box<dyn Fn() + Send + Sync>;

impl Shared {
    fn moved(&self) {
        if let Some(moved) = self.moved.get() {
            moved();
        }
    }

    /// One after the other, as `reason` is locked.
    fn changed(&self, state: &State) {
        if let Some(changed) = self.changed.get() {
            changed(state);
        }
    }

    /// Rule L9: this is final.
    fn fail(&self, reason: String) {
        {
            let mut known = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
            let reason = known.get_or_insert(reason);
            if self.state.swap(FAILED, SeqCst) != FAILED {
                self.changed(&State::Failed(reason.clone()));
            }
        }
        self.moved();
    }

    /// A stream is full now, or no longer.
    fn look_at_full(&self) {
        {
            let reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
            let mut codes = self.streams.iter().map(|stream| stream.state.load(SeqCst));
            let elsewhere = if self.full_elsewhere.load(SeqCst) { full(Lack::Copies) } else { RUNNING };
            let code = codes.find(|code| *code != RUNNING).unwrap_or(elsewhere);
            if reason.is_none() && self.state.swap(code, SeqCst) != code {
                self.changed(&of_code(code));
            }
        }
        self.moved();
    }

    /// A stream's watermark, or the mark of its disk, has moved: threads that wait for it look again.
    fn tell(&self, stream: usize, moved: Moved) {
        if self.streams.len() > 1 {
            // This thread sees that another waits, or that one sees the mark (rule K2).
            fence(SeqCst);
            let others = self.streams.iter().enumerate().filter(|(other, _)| *other != stream);
            for (_, other) in others {
                let waits = moved.committed && other.waits_for_commit.load(Relaxed);
                if waits || moved.synced && other.waits_for_sync.load(Relaxed) {
                    other.bell.ring();
                }
            }
        }
        self.moved();
    }
}

/// The figures of a stream, for INFO.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Bytes of the segments in use.
    pub size: u64,
    /// Bytes of records written since the start.
    pub written: u64,
    /// Records written since the start.
    pub records: u64,
    /// How many groups they were written in.
    pub groups: u64,
    /// Bytes of records that have been left and are not written.
    pub backlog: u64,
    /// Nanoseconds that the last sync took.
    pub last_sync: u64,
    /// Nanoseconds that the running sync takes so far; 0 if none is.
    pub stalled: u64,
    /// Syncs by how long they took: the `i`th number counts those of less than `2^i` microseconds and not less than
    /// half of that.
    pub syncs: [u64; BUCKETS],
    /// Nanoseconds that all syncs took together.
    pub synced_for: u64,
}

/// The log as workers see it; clones are the same one.
#[derive(Clone)]
pub struct Log {
    shared: Arc<Shared>,
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("streams", &self.streams()).field("state", &self.state()).finish()
    }
}

impl Log {
    /// The marks of the start before and of this one in everything that they wrote: unlike any other of any log.
    pub fn incarnations(&self) -> [u64; 2] {
        self.shared.incarnations
    }

    /// How far each stream is committed.
    pub fn marks(&self) -> &Arc<Watermarks> {
        &self.shared.marks
    }

    /// A worker waits for its records in this stream: they are written now. A worker calls this soon after it has left
    /// a record, and not for every record: the records until then make one group. Records for which no worker has rung
    /// are taken with the next group, or within [`Self::patience`] of the thread's falling asleep.
    ///
    /// # Panics
    ///
    /// If there is no such stream.
    #[inline]
    pub fn ring(&self, stream: u16) {
        self.shared.streams[usize::from(stream)].ring();
    }

    /// As [`Self::ring`], for a thread that waits for its records and has no other work: it writes them itself and
    /// waits for the disk. So no other thread has to be woken, nor to wake this one. True if its records are committed,
    /// as far as they do not stand on other streams. Also true if the log has failed, or if the disk has not answered
    /// for a moment and a thread of the stream waits for it. False: another thread is doing it, or no sync is promised;
    /// ring.
    ///
    /// # Panics
    ///
    /// If there is no such stream.
    pub fn lend(&self, stream: u16) -> bool {
        self.shared.hands.get().is_some_and(|hands| hands[usize::from(stream)]())
    }

    /// True if the log has copies elsewhere ([`Opened::copy_to`]).
    pub fn has_copies(&self) -> bool {
        !self.shared.held.is_empty()
    }

    /// The error for which the log goes on without its own disks, with the copies elsewhere alone (rule G10).
    pub fn own_loss(&self) -> Option<String> {
        self.shared.own_loss.get().cloned()
    }

    /// The reason why the log goes around an own disk for now: it has copies, and the own folder is brought up later.
    pub fn around(&self) -> Option<Around> {
        self.shared.streams.iter().find_map(Stream::around)
    }

    /// With copies: goes around own disks that do not return (rule G10). The caller calls it about once a second.
    pub fn leave_hanging(&self) {
        self.shared.leavers.get().into_iter().flatten().for_each(|leave| leave());
    }

    /// No majority of the copies has room for more, or has room again (rule L8). [`Self::look_at_room`] has the log heed
    /// it.
    pub fn note_room(&self, is_full: bool) {
        self.shared.full_elsewhere.store(is_full, SeqCst);
    }

    /// Refuses writes, or takes them again, by what was noted last.
    pub fn look_at_room(&self) {
        self.shared.look_at_full();
    }

    /// Enough copies have written, and synced, a stream up to here. [`Self::look`] moves the watermark.
    ///
    /// # Panics
    ///
    /// If there is no such stream, or the log has no copies.
    pub fn hold(&self, stream: u16, received: Lsn, synced: Lsn) {
        self.shared.held[usize::from(stream)].set(received, synced);
    }

    /// A number that changes when enough copies have received more of some stream. `None`: the log has no copies.
    pub fn received(&self) -> Option<u64> {
        let held = self.shared.held.iter().map(|held| held.received().0);
        self.has_copies().then(|| held.fold(0, u64::wrapping_add))
    }

    /// Too few copies have this many blocks of a stream. Without `has_room` another block would only wait. So if replies
    /// wait for copies, no more are made: records collect, and the next block is larger. [`Self::look`] has the log heed
    /// it.
    ///
    /// # Panics
    ///
    /// If there is no such stream, or the log has no copies.
    pub fn note_ahead(&self, stream: u16, ahead: u64, has_room: bool) {
        self.shared.held[usize::from(stream)].set_ahead(if has_room { ahead } else { NO_ROOM });
    }

    /// Moves a stream's watermark on the calling thread, or has a thread of the stream do it. Not for a thread that is in
    /// a call of [`crate::Copies`] for this stream: its step moves the watermark anyway.
    ///
    /// # Panics
    ///
    /// If there is no such stream.
    pub fn look(&self, stream: u16) {
        match self.shared.lookers.get() {
            Some(lookers) => lookers[usize::from(stream)](),
            None => self.shared.streams[usize::from(stream)].bell.ring(),
        }
    }

    /// Has the streams take no records, or take them again. Records that are left meanwhile wait.
    pub fn pause(&self, paused: bool) {
        self.shared.streams.iter().for_each(|stream| stream.rested.store(0, SeqCst));
        self.shared.paused.store(paused, SeqCst);
        self.shared.streams.iter().for_each(|stream| stream.bell.ring());
    }

    /// True if everything that was taken is on the own disk, and the term that was asked for has begun there. The streams
    /// are paused.
    pub fn rests(&self) -> bool {
        // A thread that has looked for the term of before may say late that it has begun.
        self.shared.streams.iter().all(|stream| stream.rested.load(SeqCst) == stream.term.load(SeqCst) + 1)
    }

    /// Has each stream place the start block of a later term. The streams are paused, and rest ([`Self::rests`]).
    pub fn begin_term(&self, term: u32) {
        for stream in &self.shared.streams {
            stream.term.store(term, SeqCst);
            stream.bell.ring();
        }
    }

    /// A thread has looked for the wanted term, and says that this has begun when `then` is over.
    #[cfg(test)]
    pub(crate) fn rest_late(&self, then: impl FnOnce(&Self)) {
        let of = |stream: &Stream| stream.rested.load(SeqCst);
        let rested: Vec<_> = self.shared.streams.iter().map(of).collect();
        then(self);
        self.shared.streams.iter().zip(rested).for_each(|(stream, rested)| stream.rested.store(rested, SeqCst));
    }

    /// The copies follow another owner: no watermark moves any more, and the log fails with this reason (rule G6).
    pub fn end(&self, reason: String) {
        self.shared.held.iter().for_each(|held| held.end());
        self.shared.superseded.store(true, SeqCst);
        self.shared.fail(reason);
        self.shared.streams.iter().for_each(|stream| stream.bell.ring());
    }

    /// True if the log has failed because the copies follow another owner ([`Self::end`]).
    pub fn is_superseded(&self) -> bool {
        self.shared.superseded.load(SeqCst)
    }

    /// Nanoseconds for which a busy worker should leave records before it rings: a sync takes as long.
    pub fn patience(&self) -> u64 {
        let slowest = self.shared.streams.iter().map(|stream| stream.meter.last_sync()).max();
        slowest.unwrap_or(0).min(stream::PATIENCE_MAX.as_nanos() as u64)
    }

    /// Calls `f` whenever a watermark or the state has changed, on the thread of a stream: it must not wait. Only the
    /// first call counts.
    pub fn on_moved(&self, f: Box<dyn Fn() + Send + Sync>) {
        let _ = self.shared.moved.set(f);
    }

    /// Calls `f` with the present state, unless the log runs, and with every later one on the thread of a stream, in
    /// their order. `f` must not wait, nor ask for the state. Only the first call counts.
    pub fn on_state(&self, f: Box<dyn Fn(&State) + Send + Sync>) {
        // No state changes meanwhile.
        let reason = self.shared.reason.lock().unwrap_or_else(PoisonError::into_inner);
        if self.shared.changed.set(f).is_err() {
            return;
        }
        match self.shared.state.load(SeqCst) {
            RUNNING => {}
            FAILED => self.shared.changed(&State::Failed(reason.clone().unwrap_or_default())),
            code => self.shared.changed(&of_code(code)),
        }
    }

    /// True if writes are taken: one load.
    #[inline]
    pub fn takes_writes(&self) -> bool {
        self.shared.state.load(Relaxed) == RUNNING
    }

    /// The state of the log, with the reason if it takes no writes.
    pub fn state(&self) -> State {
        match self.shared.state.load(Acquire) {
            FAILED => {
                let reason = self.shared.reason.lock().unwrap_or_else(PoisonError::into_inner);
                State::Failed(reason.clone().unwrap_or_default())
            }
            code => of_code(code),
        }
    }

    /// The clock of its figures.
    pub fn clock(&self) -> Clock {
        self.shared.clock.clone()
    }

    /// How many streams there are.
    pub fn streams(&self) -> u16 {
        self.shared.streams.len() as u16
    }

    /// The figures of a stream.
    ///
    /// # Panics
    ///
    /// If there is no such stream.
    pub fn facts(&self, stream: u16) -> Facts {
        let stream = &self.shared.streams[usize::from(stream)];
        let meter = &stream.meter;
        Facts {
            size: meter.size.load(Relaxed),
            written: meter.written.load(Relaxed),
            records: meter.records.load(Relaxed),
            groups: meter.groups.load(Relaxed),
            backlog: stream.backlog(),
            last_sync: meter.last_sync(),
            stalled: meter.stalled((self.shared.clock)()),
            syncs: meter.syncs(),
            synced_for: meter.synced_for(),
        }
    }

    /// Bytes of the records that were written since the start, in all streams, and how many.
    pub fn written(&self) -> (u64, u64) {
        let meters = || self.shared.streams.iter().map(|stream| &stream.meter);
        (
            meters().map(|meter| meter.written.load(Relaxed)).sum(),
            meters().map(|meter| meter.records.load(Relaxed)).sum(),
        )
    }

    /// Bytes of records that have been left in all streams and are not written.
    pub fn backlog(&self) -> u64 {
        self.shared.streams.iter().map(Stream::backlog).sum()
    }

    /// How far a stream is on the disk, whatever its watermark promises (rule L6).
    ///
    /// # Panics
    ///
    /// If there is no such stream.
    pub fn synced(&self, stream: u16) -> Lsn {
        self.shared.marks.synced(stream)
    }

    /// Makes each stream sync up to here, soon, whatever the setting promises.
    pub fn want_synced(&self, ends: &[Lsn]) {
        for ((stream, end), index) in self.shared.streams.iter().zip(ends).zip(0..) {
            if *end > self.synced(index) {
                stream.sync_wanted.fetch_max(end.0, SeqCst);
                stream.bell.ring();
            }
        }
    }

    /// Makes each stream pass this LSN, soon, also where no record comes: its watermark moves there, and workers give no LSN
    /// at or below it any more. So one that is idle holds nobody up who reads all streams in the order of LSNs. Copies are
    /// told ([`crate::Copies::passed`]). It is an LSN that the log has, in some stream.
    pub fn want_passed(&self, lsn: Lsn) {
        for (stream, mark) in self.shared.streams.iter().zip(self.shared.marks.all()) {
            if mark < lsn {
                stream.pass_wanted.fetch_max(lsn.0, SeqCst);
                stream.bell.ring();
            }
        }
    }

    /// Changes when written bytes are synced (`CONFIG SET appendfsync`). Later records have the new promise, earlier
    /// ones the stronger one of both (rule L6).
    pub fn set_fsync(&self, fsync: Fsync) {
        self.shared.fsync.store(fsync as u8, SeqCst);
        for stream in &self.shared.streams {
            if fsync == Fsync::Always {
                stream.demanded.store(true, SeqCst);
            }
            stream.bell.ring();
        }
    }

    /// When written bytes are synced.
    pub fn fsync(&self) -> Fsync {
        Fsync::from(self.shared.fsync.load(SeqCst))
    }

    /// Gives up segments whose records are all at or below these positions, one for each stream: they are durable
    /// elsewhere (rule C3). It happens later.
    pub fn truncate(&self, ends: &[Lsn]) {
        for (stream, end) in self.shared.streams.iter().zip(ends) {
            stream.truncate.fetch_max(end.0, SeqCst);
            stream.bell.ring();
        }
    }

    /// Writes and syncs the records that were left, and ends the threads. No worker leaves any more. Returns how the
    /// log ended.
    pub fn stop(&self) -> State {
        self.shared.stopping.store(true, SeqCst);
        self.shared.streams.iter().for_each(|stream| stream.bell.ring());
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            if thread.join().is_err() {
                self.shared.fail("a thread of the log has panicked".into());
            }
        }
        self.state()
    }
}
