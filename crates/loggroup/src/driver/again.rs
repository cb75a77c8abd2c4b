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

use quorum::{AcceptorId, Cut, Owner, Stage, StreamId};
use redolog::{Log, State};

use super::{Driver, Ended, Plan, Wait};
use crate::port::{Heard, Listener, Port};

/// Between two looks at whether the streams rest.
const REST: Duration = Duration::from_micros(200);

impl Driver {
    /// Has acceptors brought up that do not count yet.
    pub fn follow_up(self: &Arc<Self>, ports: impl FnOnce(&Listener) -> Vec<(AcceptorId, Arc<dyn Port>)>) {
        let ports = ports(&self.listener());
        self.act(None, |inner, events| {
            for (acceptor, port) in ports {
                inner.ports.insert(acceptor, port);
                inner.owner.follow(acceptor, events);
            }
        });
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
    /// The term does not follow, the owner was fenced, or the caller gives up. Then the log has ended.
    pub fn again(&self, plan: Plan, wait: Wait<'_>) -> Result<(), Ended> {
        let Some(log) = self.log.get() else { return Err(Ended::Other("no log runs here".to_owned())) };
        log.pause(true);
        let begun = self.try_again(log, plan, wait);
        match &begun {
            Ok(()) => log.pause(false),
            Err(Ended::Stopped) => {}
            // Streams that rest could not go on: what they have may be of either term.
            Err(why) => log.end(format!("another term could not begin: {why}")),
        }
        begun
    }

    fn try_again(&self, log: &Log, plan: Plan, wait: Wait<'_>) -> Result<(), Ended> {
        self.wait_rest(log, wait)?;
        let Plan { term, settled, pending, .. } = plan;
        self.act(None, |inner, events| {
            let next = Owner::again(inner.owner.clone(), term, settled, pending, events);
            inner.owner = next.map_err(|not_now| Ended::Other(not_now.to_string()))?;
            inner.owner.follow(self.own, events);
            inner.may_settle = false;
            Ok::<_, Ended>(())
        })?;
        self.wait_until(wait, |inner| inner.stage() == Stage::Copying)?;
        self.act(None, |inner, events| {
            let ends: Vec<Cut> = inner.marks.iter().map(|mark| mark.end).collect();
            inner.owner.begin(&ends, events).map_err(|not_now| Ended::Other(not_now.to_string()))
        })?;
        log.begin_term(term.get());
        self.wait_until(wait, |inner| inner.stage() == Stage::Leading)?;
        self.wait_rest(log, wait)
    }

    /// Waits until the streams rest: about as long as a block takes to the disk.
    fn wait_rest(&self, log: &Log, wait: Wait<'_>) -> Result<(), Ended> {
        while !log.rests() {
            self.wait_until(&mut *wait, |_| true)?;
            if !matches!(log.state(), State::Running) {
                return Err(Ended::Other("the log does not go on".to_owned()));
            }
            if !wait(Stage::Leading, 0) {
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
