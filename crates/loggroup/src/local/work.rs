//! The jobs of an acceptor, and the threads that do them.

use std::io;
use std::sync::mpsc::Sender;
use std::time::Duration;

use quorum::{Done, StreamId};
use redolog::{Disk, Lack, Replica, Spare};

use super::lane::{Came, Departed, Lane, Task, Wanted, carry_out, read};
use super::{Shared, State, Told};
use crate::folder::Promise;

/// How long a thread waits before it tries again what has lacked a resource.
const AGAIN: Duration = Duration::from_millis(100);

/// The work that a thread has taken.
pub struct Job<D: Disk>(Kind<D>);

enum Kind<D: Disk> {
    Promise(Promise<D>, quorum::Term, Option<Sender<()>>),
    Hand(usize, Replica<D>, Option<Task>),
    Write(usize, Departed<D>),
    Read(usize, redolog::Reader<D>, Wanted),
    Cut(usize, Replica<D>, u64),
    Spare(usize, Spare<D>),
}

/// What became of a task.
enum Handed<D: Disk> {
    Told(Told),
    /// The write is waited for.
    Departed(Departed<D>),
}

impl<D: Disk> Shared<D> {
    /// The life of a thread: it takes what is to be done until the acceptor stops.
    pub(super) fn run(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.next_job() {
                drop(state);
                let mut next = Some(job);
                while let Some(job) = next {
                    next = self.carry_out(job);
                }
                state = self.lock();
                continue;
            }
            if state.is_closing {
                self.news.notify_all();
                return;
            }
            let lacks = state.lanes.iter().any(Lane::waits_for_resource);
            state.idle += 1;
            state = if lacks {
                let waited = self.work.wait_timeout(state, AGAIN);
                let (mut state, ended) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
                if ended.timed_out() {
                    state.try_again();
                }
                state
            } else {
                self.work.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner)
            };
            state.idle -= 1;
        }
    }

    /// Does a job, and tells what came of it. A write past the cache that it begins is the next job of the same thread.
    pub(super) fn carry_out(&self, job: Job<D>) -> Option<Job<D>> {
        let told = match job.0 {
            Kind::Promise(promise, term, probe) => self.promise(promise, term, probe),
            Kind::Hand(at, hand, Some(task)) => match self.hand(at, hand, task) {
                Handed::Told(told) => told,
                Handed::Departed(departed) => return Some(Job(Kind::Write(at, departed))),
            },
            Kind::Hand(at, hand, None) => {
                self.give_back(&mut self.lock(), at, hand);
                Vec::new()
            }
            Kind::Write(at, departed) => self.write(at, departed),
            Kind::Read(at, mut reader, what) => {
                let place = (what.term, what.from, what.upto);
                let read = read(&mut reader, (self.shard, StreamId(at as u16)), place);
                let mut state = self.lock();
                if let Some(lane) = state.lanes.get_mut(at) {
                    lane.reader = Some(reader);
                    if read.as_ref().is_err_and(|error| Lack::of(error).is_some()) {
                        lane.reads.push_front(what);
                        lane.read_waits = true;
                        return None;
                    }
                }
                match read {
                    Ok(done) => self.step_for(what.asker, &mut state, |acceptor, out| acceptor.done(done, out)),
                    Err(error) => self.fail(&mut state, &error),
                }
            }
            Kind::Spare(at, spare) => self.spare(at, spare),
            Kind::Cut(at, mut hand, sequence) => {
                let retired = hand.retire(sequence);
                self.give_back(&mut self.lock(), at, hand);
                match retired.give_up() {
                    Ok(()) => Vec::new(),
                    Err(error) => self.fail(&mut self.lock(), &error),
                }
            }
        };
        self.tell(told);
        None
    }

    fn promise(&self, mut promise: Promise<D>, term: quorum::Term, probe: Option<Sender<()>>) -> Told {
        let put = promise.put(term);
        let mut state = self.lock();
        state.promises.hand = Some(promise);
        match (put, probe) {
            (Ok(()), Some(probe)) => {
                // One that waits no longer has counted it as lost.
                let _ = probe.send(());
                Vec::new()
            }
            (Ok(()), None) => self.step(&mut state, |acceptor, out| acceptor.done(Done::Promised(term), out)),
            (Err(error), _) => self.fail(&mut state, &error),
        }
    }

    /// Makes a segment ahead, so that a lack of room is known before blocks wait for it (rule L8).
    fn spare(&self, at: usize, spare: Spare<D>) -> Told {
        let made = spare.make();
        let mut state = self.lock();
        let Some(lane) = state.lanes.get_mut(at) else { return Vec::new() };
        lane.is_making = false;
        match made {
            Ok(()) => {
                lane.lacks_ahead = None;
                lane.look_ahead();
            }
            Err(error) => {
                let Some(lack) = Lack::of(&error) else { return self.fail(&mut state, &error) };
                (lane.lacks_ahead, lane.waits_ahead) = (Some(lack), true);
            }
        }
        self.look_at_room(&mut state)
    }

    /// Tells the owner if the folder has no room for more, or has room again.
    fn look_at_room(&self, state: &mut State<D>) -> Told {
        let lack = state.lanes.iter().find_map(Lane::lack);
        if state.lack != lack {
            match lack {
                Some(lack) => tracing::warn!(
                    cause = "log copy",
                    shard = self.shard.0,
                    "a copy of a log can take no more blocks until there is room: {lack}"
                ),
                None => tracing::warn!(cause = "log copy", shard = self.shard.0, "a copy of a log has room again"),
            }
            state.lack = lack;
        }
        self.step(state, |acceptor, out| acceptor.room(lack.is_some(), out))
    }

    fn hand(&self, at: usize, mut hand: Replica<D>, task: Task) -> Handed<D> {
        let came = carry_out(&mut hand, (self.shard, StreamId(at as u16)), &task);
        let mut state = self.lock();
        let Some(lane) = state.lanes.get_mut(at) else { return Handed::Told(Vec::new()) };
        let is_life = matches!(task, Task::Begin { .. });
        lane.is_reader_late |= is_life;
        lane.lives += u64::from(is_life);
        match came {
            Ok(Came::Done(done)) => {
                lane.lack = None;
                self.give_back(&mut state, at, hand);
                let mut told = self.done(&mut state, at, done);
                told.extend(self.look_at_room(&mut state));
                Handed::Told(told)
            }
            Ok(Came::Departed(departed)) => {
                // Room is looked at when the write has landed.
                (lane.in_flight, lane.lack) = (lane.in_flight + 1, None);
                self.give_back(&mut state, at, hand);
                Handed::Departed(departed)
            }
            Ok(Came::Later) => {
                lane.queue.push_front(task);
                // One may have landed in between.
                lane.is_later = lane.in_flight > 0;
                self.give_back(&mut state, at, hand);
                Handed::Told(Vec::new())
            }
            Err(error) => {
                let lack = Lack::of(&error);
                if lack.is_some() {
                    lane.queue.push_front(task);
                    (lane.lack, lane.waits) = (lack, true);
                }
                self.give_back(&mut state, at, hand);
                Handed::Told(match lack {
                    Some(_) => self.look_at_room(&mut state),
                    None => self.fail(&mut state, &error),
                })
            }
        }
    }

    /// Waits for a write past the cache.
    fn write(&self, at: usize, departed: Departed<D>) -> Told {
        let Departed { flight, life, sequence } = departed;
        let written: io::Result<()> = flight.write();
        let mut state = self.lock();
        let Some(lane) = state.lanes.get_mut(at) else { return Vec::new() };
        (lane.in_flight, lane.is_later) = (lane.in_flight - 1, false);
        lane.landed.push(flight);
        lane.note_landed();
        if lane.has_work() && state.idle > 0 {
            self.work.notify_one();
        }
        match written {
            Ok(()) => {
                let mut told = self.done(&mut state, at, Done::Written { stream: StreamId(at as u16), life, sequence });
                told.extend(self.look_at_room(&mut state));
                told
            }
            Err(error) => self.fail(&mut state, &error),
        }
    }

    /// An operation of a stream is done.
    fn done(&self, state: &mut State<D>, at: usize, done: Done) -> Told {
        let told = self.step(state, |acceptor, out| acceptor.done(done, out));
        let synced = told.iter().rev().find_map(|(_, reply)| match &reply.report {
            quorum::Report::Ack { synced, .. } => Some(*synced),
            _ => None,
        });
        if let (Some(lane), Some(synced)) = (state.lanes.get_mut(at), synced) {
            lane.synced = synced;
        }
        told
    }

    /// Another thread may go on with the stream.
    fn give_back(&self, state: &mut State<D>, at: usize, hand: Replica<D>) {
        let Some(lane) = state.lanes.get_mut(at) else { return };
        lane.size = hand.size();
        lane.hand = Some(hand);
        lane.note_landed();
        lane.look_ahead();
        if (lane.has_work() || lane.spare.is_some()) && state.idle > 0 {
            self.work.notify_one();
        }
    }
}

impl<D: Disk> Lane<D> {
    /// Writes that have returned count for the folder, if its hand is here.
    fn note_landed(&mut self) {
        if let Some(hand) = &mut self.hand {
            self.landed.drain(..).for_each(|flight| hand.land(flight));
        }
    }
}

impl<D: Disk> State<D> {
    /// What lacked a resource is to be tried again.
    pub(super) fn try_again(&mut self) {
        for lane in &mut self.lanes {
            (lane.waits, lane.waits_ahead, lane.read_waits) = (false, false, false);
            lane.look_ahead();
        }
    }

    pub(super) fn next_job(&mut self) -> Option<Job<D>> {
        if !self.promises.wanted.is_empty()
            && let Some(hand) = self.promises.hand.take()
        {
            let (term, probe) = self.promises.wanted.remove(0);
            return Some(Job(Kind::Promise(hand, term, probe)));
        }
        for (at, lane) in self.lanes.iter_mut().enumerate() {
            if let Some(spare) = lane.spare.take() {
                lane.is_making = true;
                return Some(Job(Kind::Spare(at, spare)));
            }
            if lane.has_work()
                && let Some(hand) = lane.hand.take()
            {
                return Some(Job(match lane.cut.take() {
                    Some(sequence) => Kind::Cut(at, hand, sequence),
                    None => Kind::Hand(at, hand, lane.queue.pop_front()),
                }));
            }
            if lane.reader.is_some()
                && !lane.read_waits
                && let Some(what) = lane.reads.pop_front()
                && let Some(mut reader) = lane.reader.take()
            {
                if std::mem::take(&mut lane.is_reader_late) {
                    reader.forget();
                }
                return Some(Job(Kind::Read(at, reader, what)));
            }
        }
        None
    }
}
