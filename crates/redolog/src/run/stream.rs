//! A stream: a state machine of steps, which its threads (`crew.rs`) take in turns. It does not know which thread
//! writes a block that a step returns, nor where the others sleep.

mod copied;
mod going;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::sync::atomic::fence;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::commit::{Committer, Moved, Promise};
use crate::copies::{Around, Copied, NO_ROOM};
use crate::disk::Disk;
use crate::flight::Flight;
use crate::intake::Take;
use crate::lack::Lack;
use crate::own::GuardedFile;
use crate::place::Unsynced;
use crate::run::helper::Helper;
use crate::run::{FAILED, Fsync, RUNNING, Shared, Stream, full};
use crate::{Lsn, Taken};
use going::Going;

/// Longest time that records wait for which no worker has rung.
pub(crate) const PATIENCE_MAX: Duration = Duration::from_millis(1);
/// Between two syncs of `everysec`, in nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// Most blocks in flight. With two, a connection that writes and waits meets a departure after half of a sync on
/// average instead of a whole one. More blocks make groups smaller, and each costs as much as thirty writes.
pub(crate) const FLIGHTS: usize = 2;
/// A block departs beside others if it is as large as this part of recent blocks, in percent.
const WORTH: u64 = 80;
/// About how many blocks count as recent.
const OF_LATE: u64 = 8;
/// Most bytes that a worker writes itself: clients may need it meanwhile.
pub(crate) const LENT_MAX: u64 = 256 * 1024;
/// How often a gate with a worker inside is checked before the processor is given up.
const SPINS: u32 = 50;
/// How often it is checked before the thread sleeps.
const YIELDS: u32 = 100;
/// How long the thread sleeps then.
const PAUSE: Duration = Duration::from_micros(50);
/// The pause before a retry after a lack.
const RETRY: Duration = Duration::from_millis(100);

/// The results of helpers.
enum Done<D: Disk> {
    /// Made a segment ready, or not.
    Made(io::Result<()>),
    /// Retired segments.
    Retired(io::Result<()>),
    /// Did what was kept for the own disk. True: all of it.
    BroughtUp(io::Result<bool>),
    /// Synced this.
    Synced(Unsynced<GuardedFile<D::File>>, io::Result<()>),
}

/// The state after a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum After {
    /// Another step, at once.
    Step,
    /// Nothing until a worker rings, or a block has landed, or this time has passed.
    Sleep(Option<Duration>),
    /// Nothing: the log was stopped, or has failed.
    End,
}

/// The result of a step.
pub enum Step<F> {
    /// This block is to be written, and then to land; other steps may be taken meanwhile.
    Write(Flight<F>),
    /// The caller has nothing to write.
    Then(After),
}

/// How a round ended.
enum Round<F> {
    /// There was nothing to do.
    Idle,
    /// Work was done, or waits for a block to land.
    Busy,
    /// This block is to be written.
    Write(Flight<F>),
}

/// Records that were taken and are not written yet.
struct Unwritten {
    taken: Taken,
    /// Bytes of it that are written.
    done: usize,
    /// After a lack: when it is tried again.
    retry_at: u64,
}

pub(crate) struct Runner<D: Disk> {
    shared: Arc<Shared>,
    index: usize,
    committer: Committer<D>,
    fsync: Fsync,
    reserve: u64,
    /// When the last sync of `everysec` began, and true if one is running.
    synced_at: u64,
    syncing: bool,
    /// A weaker setting was seen after the last records were taken.
    weakening: bool,
    /// True if a segment is being made ahead, and when a resource for that began to lack.
    making: bool,
    lacks_since: Option<(Lack, u64)>,
    unwritten: Option<Unwritten>,
    /// The step is taken by a thread that must not wait for the disk.
    lent: bool,
    /// A block has landed since the last step.
    landed: bool,
    ended: bool,
    /// Average bytes of recent blocks.
    usual: u64,
    /// With copies: written blocks that count as a backlog, as not enough copies have them. The place of each, and its
    /// bytes.
    behind: VecDeque<(Lsn, u64)>,
    behind_bytes: u64,
    going: Going,
    done: (Sender<Done<D>>, Receiver<Done<D>>),
    keeper: Helper,
    syncer: Helper,
}

impl<D: Disk> Runner<D> {
    pub(crate) fn new(
        shared: Arc<Shared>,
        index: usize,
        mut committer: Committer<D>,
        fsync: Fsync,
        reserve: u64,
        lack: Option<Lack>,
        [keeper, syncer]: [Helper; 2],
    ) -> Self {
        let synced_at = (shared.clock)();
        let size = committer.placer().size();
        let runner = Self {
            shared,
            index,
            committer,
            fsync,
            reserve,
            synced_at,
            syncing: false,
            weakening: false,
            making: false,
            lacks_since: lack.map(|lack| (lack, 0)),
            unwritten: None,
            lent: false,
            landed: false,
            ended: false,
            usual: 0,
            behind: VecDeque::new(),
            behind_bytes: 0,
            going: Going::default(),
            done: channel(),
            keeper,
            syncer,
        };
        // A stream without a segment, or a next one, takes no writes from its first moment on.
        runner.set_lack(lack);
        // The log that it goes on with counts before anything is written.
        runner.stream().meter.size.store(size, Relaxed);
        runner
    }

    fn stream(&self) -> &Stream {
        &self.shared.streams[self.index]
    }

    fn now(&self) -> u64 {
        (self.shared.clock)()
    }

    /// Does the work that is due. `late`: there may be work even without a ring, because the time of the last step has
    /// passed.
    pub(crate) fn step(&mut self, late: bool) -> Step<D::File> {
        self.ended |= self.committer.copied().is_some() && self.shared.state.load(SeqCst) == FAILED;
        if self.ended {
            return Step::Then(After::End);
        }
        self.try_step(late).unwrap_or_else(|error| self.fail(&error))
    }

    /// As [`Self::step`], for a thread that must not wait for the disk. Work that needs more than one write is left to
    /// others, which have to be rung for.
    pub(crate) fn step_lent(&mut self) -> Step<D::File> {
        self.lent = true;
        let step = self.step(false);
        self.lent = false;
        step
    }

    /// Notes that a block from a step has been written, or not. A step is due. False: the log has gone around its disk
    /// meanwhile, and another thread has taken the place of the calling one.
    pub(crate) fn land(&mut self, flight: Flight<D::File>, written: io::Result<()>) -> bool {
        if self.ended {
            // Rule L9: after a failure nothing is promised, also for blocks in flight.
            return true;
        }
        if let Err(error) = written {
            self.fail(&error);
            return true;
        }
        if self.committer.placer().was_given_up(&flight) {
            self.came_back(&flight);
            return false;
        }
        self.stream().meter.landed(self.now().saturating_sub(flight.since));
        let (bytes, records) = (flight.body as u64, flight.records as u64);
        self.committer.land(flight);
        self.usual = (self.usual * (OF_LATE - 1) + bytes) / OF_LATE;
        self.count(bytes, records);
        self.landed = true;
        self.show_flights();
        true
    }

    /// Rule L9.
    fn fail(&mut self, error: &io::Error) -> Step<D::File> {
        self.ended = true;
        self.shared.fail(format!("stream {}: {error}", self.index));
        Step::Then(After::End)
    }

    /// True if another thread may take its steps for a while. That is so if replies are promised a sync, nothing is on
    /// its way, nothing waits for room, and there is little to write.
    pub(crate) fn may_be_lent(&mut self) -> bool {
        let placer = self.committer.placer();
        let is_at_rest = placer.in_flight() == 0 && placer.departs_at_once(0);
        let is_own = self.committer.copied().is_none();
        let is_free = is_own && !self.ended && is_at_rest && self.is_settled() && self.unwritten.is_none();
        is_free && self.stream().left() <= LENT_MAX
    }

    /// True if there are no more steps.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// The helpers, to be worked by hand.
    pub(crate) fn helpers(&self) -> [&Helper; 2] {
        [&self.keeper, &self.syncer]
    }

    fn try_step(&mut self, late: bool) -> io::Result<Step<D::File>> {
        let stopping = self.shared.stopping.load(SeqCst);
        let landed = std::mem::take(&mut self.landed);
        let asked = self.stream().bell.heard() || late || stopping;
        if asked || landed {
            self.hear_helpers()?;
            self.truncate();
            let round = self.round(asked)?;
            let in_flight = self.committer.placer().in_flight() > 0;
            let rests = self.is_paused() && self.rest()?;
            // With copies they may be out of reach. What they lack counts when the next owner has taken it over.
            let is_own = self.committer.copied().is_none();
            let waits = is_own && self.committer.is_waiting() && self.shared.state.load(SeqCst) != FAILED;
            match round {
                Round::Write(flight) => return Ok(Step::Write(flight)),
                _ if stopping && (rests || matches!(round, Round::Idle)) && !waits && !in_flight => {
                    self.close()?;
                    self.ended = true;
                    return Ok(Step::Then(After::End));
                }
                Round::Busy if stopping && !waits && !in_flight && self.unwritten.is_none() => {
                    return Ok(Step::Then(After::Step));
                }
                _ => {}
            }
        }
        self.look_at_room();
        self.sync_behind()?;
        self.bring_up();
        if self.landed {
            // The own disk has everything again.
            self.landed = false;
            if self.look() {
                self.stream().bell.note();
            }
        }
        Ok(Step::Then(After::Sleep(self.may_sleep())))
    }

    /// How long there is nothing to do without a ring.
    fn may_sleep(&mut self) -> Option<Duration> {
        if self.committer.placer().in_flight() > 0 {
            // The thread that lands looks.
            return None;
        }
        if self.unwritten.is_some() {
            return Some(RETRY);
        }
        // Where copies have to answer first, the thread that hears them looks.
        let is_free = self.ahead() == 0;
        let records = (is_free && self.committer.intake().has_records()).then_some(PATIENCE_MAX);
        let is_due = self.fsync == Fsync::Everysec && self.committer.is_unsynced() && !self.syncing;
        let sync = is_due.then(|| Duration::from_nanos((self.synced_at + SECOND).saturating_sub(self.now())));
        let segment = self.lacks_since.map(|_| RETRY);
        records.into_iter().chain(sync).chain(segment).chain(self.going.pause()).min()
    }

    /// Commits the records that were left, or begins to.
    fn round(&mut self, asked: bool) -> io::Result<Round<D::File>> {
        if self.committer.copied().is_some() {
            self.look();
        }
        let round = match self.unwritten.take() {
            Some(unwritten) => self.write(unwritten)?,
            None if !self.is_paused() && self.may_take(asked) => self.take()?,
            None => Round::Busy,
        };
        self.advance();
        if self.committer.copied().is_some() && !matches!(round, Round::Write(_)) && self.look() {
            // Copies have answered in between.
            self.stream().bell.note();
        }
        Ok(round)
    }

    /// True if to take the records now. Not when only a block has landed and no worker waits for more: a worker that
    /// leaves records rings when it has left all.
    fn may_take(&mut self, asked: bool) -> bool {
        match (self.committer.placer().in_flight(), self.ahead()) {
            (0, 0) => asked || self.stream().demand.is_wanted() || !self.is_settled(),
            _ => self.is_settled() && self.stream().pays(),
        }
    }

    /// True if blocks may be in flight: replies are promised a sync, and the setting has not changed.
    fn is_settled(&self) -> bool {
        let is_always = self.fsync == Fsync::Always && self.committer.promise() == Promise::Synced;
        is_always
            && Fsync::from(self.shared.fsync.load(SeqCst)) == Fsync::Always
            && !self.stream().demanded.load(SeqCst)
    }

    fn take(&mut self) -> io::Result<Round<D::File>> {
        let mut spins = 0;
        self.stream().demand.hear();
        let wanted = Lsn(self.stream().pass_wanted.load(SeqCst));
        self.committer.want_passed(wanted);
        loop {
            match self.committer.take() {
                Take::Nothing => {
                    self.heed_fsync()?;
                    return Ok(Round::Idle);
                }
                Take::Soon => {
                    spins += 1;
                    match spins {
                        0..SPINS => std::hint::spin_loop(),
                        SPINS..YIELDS => thread::yield_now(),
                        // The system has suspended that worker.
                        _ => thread::park_timeout(PAUSE),
                    }
                }
                Take::Taken(taken) => {
                    return self.write(Unwritten { taken, done: 0, retry_at: 0 });
                }
            }
        }
    }

    /// Writes the taken records, or returns them as a block. Without a segment they stay until there is one (rule L8).
    fn write(&mut self, mut unwritten: Unwritten) -> io::Result<Round<D::File>> {
        let now = self.now();
        if now < unwritten.retry_at && !self.shared.stopping.load(SeqCst) {
            self.unwritten = Some(unwritten);
            return Ok(Round::Busy);
        }
        let is_block = !unwritten.taken.ends.is_empty();
        // More records may be left than when it was lent.
        let is_much = unwritten.taken.ends.last().is_some_and(|end| *end as u64 > LENT_MAX);
        if is_block && self.lent && (is_much || !(self.is_settled() && self.committer.departs_at_once())) {
            self.unwritten = Some(unwritten);
            return Ok(Round::Busy);
        }
        let in_flight = self.committer.placer().in_flight() > 0;
        let written = if is_block && unwritten.done == 0 && self.is_settled() && self.committer.is_one_block() {
            match self.committer.depart(&unwritten.taken, now) {
                Ok(Some(flight)) => {
                    self.show_flights();
                    return Ok(Round::Write(flight));
                }
                Ok(None) => Ok(false),
                Err(error) => Err(error),
            }
        } else if is_block && in_flight {
            Ok(false)
        } else {
            self.write_here(&mut unwritten).map(|()| true)
        };
        match written {
            Ok(true) => {
                self.count(unwritten.taken.ends.last().copied().unwrap_or(0) as u64, unwritten.taken.ends.len() as u64);
                self.heed_fsync()?;
            }
            Ok(false) => self.unwritten = Some(unwritten),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.syncing => {
                self.wait_for_syncer()?;
                return self.write(unwritten);
            }
            Err(error) => {
                let Some(lack) = Lack::of(&error) else { return Err(error) };
                if self.go_around(Around::Lacks(lack)) {
                    return self.write(unwritten);
                }
                self.set_lack(Some(lack));
                if self.shared.stopping.load(SeqCst) {
                    return Err(error);
                }
                unwritten.retry_at = now + RETRY.as_nanos() as u64;
                self.unwritten = Some(unwritten);
            }
        }
        Ok(Round::Busy)
    }

    /// Writes the taken records on this thread.
    fn write_here(&mut self, unwritten: &mut Unwritten) -> io::Result<()> {
        let through = self.committer.promise() == Promise::Synced && !unwritten.taken.ends.is_empty();
        if through {
            self.stream().meter.begin_sync(self.now());
        }
        let written = self.committer.write_from(&unwritten.taken, &mut unwritten.done);
        match (through, &written) {
            (false, _) => {}
            (true, Ok(())) => self.stream().meter.end_sync(self.now()),
            // Repeated attempts are no sync, and no sign that the disk works.
            (true, Err(_)) => self.stream().meter.in_flight(None),
        }
        written
    }

    /// Counts a written block of so many bytes and records.
    fn count(&mut self, bytes: u64, records: u64) {
        let size = self.committer.placer().size();
        let stream = self.stream();
        stream.meter.records.fetch_add(records, Relaxed);
        stream.meter.written.fetch_add(bytes, Relaxed);
        stream.meter.groups.fetch_add(u64::from(records > 0), Relaxed);
        stream.meter.size.store(size, Relaxed);
        if self.committer.copied().is_none() {
            stream.landed.fetch_add(bytes, Release);
        } else {
            let end = self.committer.writer().written();
            self.behind.push_back((end, bytes));
            self.behind_bytes += bytes;
        }
    }

    /// Shows what is in flight: since when, and from how many bytes on another block pays.
    fn show_flights(&mut self) {
        let since = self.committer.placer().in_flight_since();
        self.stream().meter.in_flight(since);
        self.show_worth();
    }

    fn show_worth(&mut self) {
        let (ahead, placer) = (self.ahead(), self.committer.placer());
        let (count, bytes) = (placer.in_flight(), placer.bytes_in_flight());
        let usual = self.usual * WORTH / 100;
        self.stream().demand.set_worth(match (count, ahead) {
            (0, 0) => 0,
            (FLIGHTS.., _) | (_, NO_ROOM) => u64::MAX,
            _ => usual.max(bytes / count.max(1) as u64).max(1),
        });
    }

    /// Moves the watermark as far as it may go.
    pub(crate) fn advance(&mut self) {
        let mut moved = self.committer.advance();
        self.count_held();
        let waits = self.committer.waits_for();
        self.stream().waits_for_commit.store(waits.committed, Relaxed);
        self.stream().waits_for_sync.store(waits.synced, Relaxed);
        if waits.any() {
            // This stream sees how far the others have come, or they see that it waits (rule K2).
            fence(SeqCst);
            moved = moved.or(self.committer.advance());
        }
        if moved.any() {
            self.shared.tell(self.index, moved);
        }
    }

    /// Obeys the setting, between taking records and moving the watermark (rule L6). Records that were left after it
    /// became stronger have the stronger promise. Records that were left before it became weaker are all taken in the
    /// round after this was seen; until then the stronger promise holds.
    fn heed_fsync(&mut self) -> io::Result<()> {
        if self.committer.placer().in_flight() > 0 {
            // When they have landed: until then no other block departs.
            return Ok(());
        }
        let wanted = Fsync::from(self.shared.fsync.load(SeqCst));
        let demanded = self.stream().demanded.swap(false, SeqCst);
        let strong = wanted == Fsync::Always || demanded;
        if strong || self.committer.promise() == Promise::Synced {
            self.sync()?;
        }
        self.fsync = wanted;
        let seen = std::mem::replace(&mut self.weakening, !strong);
        let weaken = !strong && seen;
        if !strong && self.committer.promise() == Promise::Synced && !weaken {
            // Another round, now.
            self.stream().bell.ring();
        }
        match (strong, weaken) {
            (true, _) => self.committer.set_promise(Promise::Synced),
            (false, true) => self.committer.set_promise(Promise::Written),
            (false, false) => Ok(()),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.wait_for_syncer()?;
        if self.committer.is_unsynced() {
            self.committer.copied().into_iter().for_each(Copied::sync);
            self.stream().meter.begin_sync(self.now());
            self.committer.sync()?;
            self.stream().meter.end_sync(self.now());
            self.show_synced();
        }
        Ok(())
    }

    /// Waits until the helper has finished its sync. Of two threads that sync a file the system tells only one that it
    /// has failed (rule L9).
    fn wait_for_syncer(&mut self) -> io::Result<()> {
        while self.syncing {
            // By hand no other thread does it.
            self.syncer.work();
            let Ok(done) = self.done.1.recv() else { break };
            self.hear(done)?;
        }
        Ok(())
    }

    /// Records that others stand on may be on the disk now.
    fn show_synced(&mut self) {
        if self.committer.show_synced() {
            self.shared.tell(self.index, Moved { committed: false, synced: true });
        }
    }

    /// Makes the helper sync the written bytes, if it is time: writes go on meanwhile.
    fn sync_behind(&mut self) -> io::Result<()> {
        let is_asked = self.stream().sync_wanted.load(SeqCst) > self.shared.marks.synced(self.index as u16).0;
        let due = match self.fsync {
            // Bytes on their way are not written.
            _ if self.committer.placer().in_flight() > 0 => false,
            Fsync::Always => false,
            _ if is_asked => self.committer.is_unsynced(),
            Fsync::Everysec => self.committer.is_unsynced() && self.now() >= self.synced_at + SECOND,
            Fsync::No => self.committer.placer().unsynced_segments() > 0,
        };
        if !due || self.syncing {
            return Ok(());
        }
        if self.going.is_around() {
            // It does not wait for the disk. The thread that else does it may.
            self.synced_at = self.now();
            return self.sync();
        }
        self.syncing = true;
        self.synced_at = self.now();
        self.committer.copied().into_iter().for_each(Copied::sync);
        let unsynced = self.committer.placer().give_unsynced();
        let (shared, index, done) = (self.shared.clone(), self.index, self.done.0.clone());
        self.syncer.give(move || {
            let stream = &shared.streams[index];
            stream.meter.begin_sync((shared.clock)());
            let result = unsynced.sync();
            stream.meter.end_sync((shared.clock)());
            let _ = done.send(Done::Synced(unsynced, result));
            stream.bell.ring();
        });
        Ok(())
    }

    /// Takes the results of the helpers.
    fn hear_helpers(&mut self) -> io::Result<()> {
        while let Ok(done) = self.done.1.try_recv() {
            self.hear(done)?;
        }
        Ok(())
    }

    fn hear(&mut self, done: Done<D>) -> io::Result<()> {
        match done {
            Done::Made(result) => {
                self.making = false;
                self.lacks_since = match result.and_then(|()| self.begin_late()) {
                    Ok(()) => None,
                    Err(error) => Some((Lack::of(&error).ok_or(error)?, self.now())),
                };
            }
            Done::Retired(result) => {
                self.lacks_since = self.lacks_since.map(|(lack, _)| (lack, 0));
                result?;
            }
            Done::BroughtUp(result) => self.brought_up(result?),
            Done::Synced(_, result) if self.going.sync_returns() => {
                result?;
                self.committer.placer().disk().returned();
            }
            Done::Synced(unsynced, result) => {
                self.syncing = false;
                result?;
                self.committer.placer().note_synced(&unsynced);
                self.show_synced();
            }
        }
        Ok(())
    }

    /// Begins the segment that the start could not make, now that one is ready.
    fn begin_late(&mut self) -> io::Result<()> {
        let writer = self.committer.writer();
        if writer.placer().waits().is_some() { writer.begin_late(0) } else { Ok(()) }
    }

    /// Makes the helper prepare a segment ahead, and notes whether there is room for more records (rule L8).
    fn look_at_room(&mut self) {
        if self.unwritten.is_some() {
            // Later room is for that segment.
            return;
        }
        let placer = self.committer.placer();
        if let Some(lack) = placer.take_short() {
            self.lacks_since.get_or_insert((lack, 0));
        }
        let waits = placer.waits().is_some();
        let (spares, disk, room) = (placer.spares().clone(), placer.disk().clone(), placer.room());
        let left = room.saturating_sub(self.stream().backlog().saturating_sub(self.behind_bytes));
        let lack = self.lacks_since.filter(|_| left < self.reserve || waits).map(|(lack, _)| lack);
        let goes_around = lack.is_some() && self.can_go_around();
        self.set_lack(lack.filter(|_| !goes_around));
        let wait = RETRY.as_nanos() as u64;
        let may_try = self.lacks_since.is_none_or(|(_, since)| self.now() >= since + wait);
        let is_ready = spares.ready() > 0;
        if self.making || !may_try || is_ready && left >= self.reserve && !waits {
            return;
        }
        self.making = true;
        let (shared, index, done) = (self.shared.clone(), self.index, self.done.0.clone());
        self.keeper.give(move || {
            // A stream that waits for its first segment may lack another resource, and has a segment.
            let made = if waits && is_ready { Ok(()) } else { spares.make_ready(&*disk) };
            let _ = done.send(Done::Made(made));
            shared.streams[index].bell.ring();
        });
    }

    fn set_lack(&self, lack: Option<Lack>) {
        let code = lack.map_or(RUNNING, full);
        if self.stream().state.swap(code, SeqCst) != code {
            self.shared.look_at_full();
        }
    }

    fn truncate(&mut self) {
        let end = Lsn(self.stream().truncate.load(SeqCst));
        if !self.committer.placer().may_retire(end)
            || self.committer.copied().is_some_and(|copied| !copied.may_retire())
        {
            return;
        }
        let placer = self.committer.placer();
        let retired = placer.retired(end);
        let (spares, disk, size) = (placer.spares().clone(), placer.disk().clone(), placer.size());
        if let (Some(copied), Some((last, cut))) = (self.committer.copied(), retired.last().map(|full| full.last)) {
            copied.retired(last, cut);
        }
        self.stream().meter.size.store(size, Relaxed);
        let (shared, index, done) = (self.shared.clone(), self.index, self.done.0.clone());
        self.keeper.give(move || {
            let result = spares.retire_all(&*disk, &retired);
            let _ = done.send(Done::Retired(result));
            shared.streams[index].bell.ring();
        });
    }

    fn close(&mut self) -> io::Result<()> {
        self.wait_for_syncer()?;
        self.committer.placer().close()?;
        self.advance();
        Ok(())
    }
}
