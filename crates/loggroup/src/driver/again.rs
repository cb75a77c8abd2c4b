//! Another term of the same process, while the log runs: acceptors change so (rules G1, G11).
//!
//! ```text
//! streams rest: all that was taken is on the own disk -- sealed -- start blocks -- leads -- streams go on
//! ```
//!
//! Records that are left meanwhile wait. Before it comes to that, new acceptors are brought up ([`Driver::follow_up`]).

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use quorum::{AcceptorId, Cut, Owner, Stage, StreamId, Term};
use redolog::{Log, State};

use super::{Driver, Ended, Plan, Wait};
use crate::port::{Heard, Listener, Port};

/// Between two looks at whether the streams rest.
const REST: Duration = Duration::from_micros(200);

impl Driver {
    /// Has acceptors brought up that do not count yet.
    pub fn follow_up(self: &Arc<Self>, ports: impl FnOnce(&Listener) -> Vec<(AcceptorId, Arc<dyn Port>)>) {
        let ports = ports(&self.listener());
        let mut before = Vec::new();
        self.act(None, |inner, events| {
            for (acceptor, port) in ports {
                before.extend(inner.ports.insert(acceptor, port));
                inner.owner.follow(acceptor, events);
            }
        });
        // Without the lock: the end of a port waits for its thread, which may wait for that.
        drop(before);
    }

    /// Lets go of acceptors that count for nothing and are not among these: the ways to them end.
    pub fn keep_only(&self, wanted: &[AcceptorId]) {
        let gone: Vec<Arc<dyn Port>> = self.act(None, |inner, events| {
            let wanted: Vec<AcceptorId> = wanted.iter().copied().chain([self.own]).collect();
            inner.owner.let_go(&wanted, events);
            let peers: Vec<AcceptorId> = inner.owner.peers().collect();
            let is_gone = |id: &&AcceptorId| !peers.contains(id) && !wanted.contains(id);
            let gone: Vec<AcceptorId> = inner.ports.keys().filter(is_gone).copied().collect();
            gone.iter().filter_map(|id| inner.ports.remove(id)).collect()
        });
        // Without the lock: the end of a port waits for its thread, which may wait for that.
        drop(gone);
    }

    /// True if nothing is waited for any more: the caller has given up, or another term has followed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let inner = self.lock();
        inner.is_stopped || inner.fenced_by.is_some()
    }

    /// Those of these acceptors that there is no way to, or that the owner has nothing to do with: it may have let go of
    /// them before.
    #[must_use]
    pub fn lacking(&self, acceptors: &[AcceptorId]) -> Vec<AcceptorId> {
        let inner = self.lock();
        let peers: Vec<AcceptorId> = inner.owner.peers().collect();
        let lacks = |id: &&AcceptorId| **id != self.own && !(inner.ports.contains_key(*id) && peers.contains(id));
        acceptors.iter().filter(lacks).copied().collect()
    }

    /// The most blocks by which one of these acceptors lags in a stream. `None`: one does not answer.
    #[must_use]
    pub fn behind(&self, acceptors: &[AcceptorId]) -> Option<u64> {
        let lags = self.lags();
        let of = |id: &AcceptorId| {
            let mut of_it = lags.iter().filter(|lag| lag.acceptor == *id).peekable();
            of_it.peek()?;
            of_it.try_fold(0, |most, lag| lag.answers.then_some(lag.blocks.max(most)))
        };
        acceptors.iter().map(of).try_fold(0, |most, lag| Some(lag?.max(most)))
    }

    /// Goes on in the term that the plan names, which follows the present one. Ports of all its acceptors are there
    /// ([`Self::follow_up`]).
    ///
    /// # Errors
    /// The term does not follow, or the owner was fenced: then the log has ended. Or the caller gives up ([`Ended::Stopped`]):
    /// then the streams wait until it calls this again with the next term.
    pub fn again(&self, plan: Plan, wait: Wait<'_>) -> Result<(), Ended> {
        let Some(log) = self.log.get() else { return Err(Ended::Other("no log runs here".to_owned())) };
        log.pause(true);
        let begun = self.try_again(log, plan, wait);
        go_on(log, &begun);
        begun
    }

    fn try_again(&self, log: &Log, plan: Plan, wait: Wait<'_>) -> Result<(), Ended> {
        self.wait_rest(log, wait)?;
        let term = plan.term;
        self.seal_again(plan)?;
        self.wait_until(wait, |inner| inner.stage() == Stage::Copying)?;
        self.start_again(log, term)?;
        self.wait_until(wait, |inner| inner.stage() == Stage::Leading)?;
        self.wait_rest(log, wait)
    }

    /// As [`Self::again`], a step at a time. For simulations.
    ///
    /// # Errors
    /// No log runs here.
    pub fn again_by_hand(self: &Arc<Self>, plan: Plan) -> Result<Again, Ended> {
        let Some(log) = self.log.get() else { return Err(Ended::Other("no log runs here".to_owned())) };
        log.pause(true);
        Ok(Again { driver: self.clone(), log: log.clone(), next: Next::Seal(plan) })
    }

    fn seal_again(&self, plan: Plan) -> Result<(), Ended> {
        let Plan { term, settled, pending, .. } = plan;
        self.act(None, |inner, events| {
            let next = Owner::again(inner.owner.clone(), term, settled, pending, events);
            inner.owner = next.map_err(|not_now| Ended::Other(not_now.to_string()))?;
            inner.owner.follow(self.own, events);
            inner.may_settle = false;
            Ok(())
        })
    }

    fn start_again(&self, log: &Log, term: Term) -> Result<(), Ended> {
        self.act(None, |inner, events| {
            let ends: Vec<Cut> = inner.marks.iter().map(|mark| mark.end).collect();
            inner.owner.begin(&ends, events).map_err(|not_now| Ended::Other(not_now.to_string()))
        })?;
        log.begin_term(term.get());
        Ok(())
    }

    /// Waits until the streams rest: about as long as a block takes to the disk.
    fn wait_rest(&self, log: &Log, wait: Wait<'_>) -> Result<(), Ended> {
        while !log.rests() {
            self.wait_until(&mut *wait, |_| true)?;
            check_goes_on(log)?;
            if !wait(Stage::Leading, &[]) {
                return Err(Ended::Stopped);
            }
            thread::park_timeout(REST);
        }
        Ok(())
    }

    /// How far the own folder is on the disk.
    pub(super) fn own_synced(&self, stream: StreamId) -> u64 {
        let inner = self.lock();
        let last = inner.owner.history(stream).map_or(0, |history| history.last().sequence);
        let lag = inner.owner.lags().find(|lag| lag.acceptor == self.own && lag.stream == stream);
        lag.map_or(0, |lag| last.saturating_sub(lag.blocks))
    }

    /// The own folder's answer, from the thread that reads it.
    pub(super) fn hear_of_own(&self, heard: Heard) {
        if let Heard::Reply(reply) = heard {
            self.act(None, |inner, events| inner.owner.reply(self.own, reply, events));
        }
    }
}

fn check_goes_on(log: &Log) -> Result<(), Ended> {
    match log.state() {
        State::Failed(why) => Err(Ended::Other(format!("the log does not go on: {why}"))),
        // A full log rests when there is room.
        _ => Ok(()),
    }
}

/// Streams go on, unless the caller has given up.
fn go_on(log: &Log, begun: &Result<(), Ended>) {
    match begun {
        Ok(()) => log.pause(false),
        Err(Ended::Stopped) => {}
        // Streams that rest could not go on: their blocks may be of either term.
        Err(why) => log.end(format!("another term could not begin: {why}")),
    }
}

/// Another term that is being begun.
pub struct Again {
    driver: Arc<Driver>,
    log: Log,
    next: Next,
}

/// The next thing to do, when it may be done.
enum Next {
    /// When the streams rest.
    Seal(Plan),
    /// When a log was chosen, which is the own one.
    Start(Term),
    /// When the shard is led, and the streams rest.
    GoOn,
}

impl Again {
    /// Goes on as far as it can. True: the term has begun, and the streams go on.
    ///
    /// # Errors
    /// As for [`Driver::again`].
    pub fn step(&mut self) -> Result<bool, Ended> {
        let begun = self.try_step();
        match &begun {
            Ok(false) => {}
            Ok(true) => go_on(&self.log, &Ok(())),
            Err(why) => go_on(&self.log, &Err(why.clone())),
        }
        begun
    }

    fn try_step(&mut self) -> Result<bool, Ended> {
        let rests = self.log.rests();
        if !rests {
            check_goes_on(&self.log)?;
        }
        match &self.next {
            Next::Seal(plan) if self.driver.is_at(Stage::Leading)? && rests => {
                let (plan, term) = (plan.clone(), plan.term);
                self.driver.seal_again(plan)?;
                self.next = Next::Start(term);
            }
            Next::Start(term) if self.driver.is_at(Stage::Copying)? => {
                self.driver.start_again(&self.log, *term)?;
                self.next = Next::GoOn;
            }
            Next::GoOn => return Ok(self.driver.is_at(Stage::Leading)? && rests),
            _ => {}
        }
        Ok(false)
    }
}
