//! A takeover by a process whose own folder has an acceptor that runs: a standby's. The log goes on in the files that
//! are open, and nothing is read again.
//!
//! ```text
//! running acceptor -- sealed, filled --> start blocks on a majority --> the standby applies the rest --> promoted
//! ```

use std::sync::Arc;

use quorum::{AcceptorId, Cut, Limits, Stage, StreamId};
use redolog::{Disk, Log, Lsn, Promoted};

use super::{Driver, Ended, NotStarted, Plan, Wait};
use crate::local::Local;
use crate::port::{Listener, Port};

impl Driver {
    /// Begins the term that the plan names, and leads it: the own acceptor has all of the log on its disk, and the standby
    /// that reads there is told to take all of it. `others` makes the ports of the other acceptors. Records come once the
    /// acceptor is promoted ([`Self::promote`]).
    ///
    /// # Errors
    /// The own folder knows the term or has failed, another term follows, or the caller gives up.
    pub fn take_over<D: Disk>(
        own: &Arc<Local<D>>,
        plan: Plan,
        limits: Limits,
        others: impl FnOnce(&Listener) -> Vec<(AcceptorId, Arc<dyn Port>)>,
        wait: Wait<'_>,
    ) -> Result<Arc<Self>, NotStarted> {
        if own.promised() >= plan.term {
            return Err(Ended::Fenced(super::fenced(own.promised())).into());
        }
        let (known, local) = (own.histories(), own.clone());
        let driver = Self::begin(plan, known, limits, |listener| {
            let mut ports = others(listener);
            ports.push((local.id(), Arc::new(local.caller(listener.clone()))));
            ports
        });
        // The standby may be told of all before its acceptor has said that it wants to hear of it.
        driver.mark_by_thread();
        let led = driver.lead_from(own, wait);
        if led.is_err() {
            driver.stop();
        }
        led.map(|()| driver)
    }

    fn lead_from<D: Disk>(&self, own: &Local<D>, wait: Wait<'_>) -> Result<(), NotStarted> {
        self.wait_copied(wait)?;
        let ends: Vec<Cut> = own.ends()?.iter().map(|end| Cut(end.0)).collect();
        self.act(None, |inner, events| {
            (0..).map(StreamId).zip(&ends).for_each(|(stream, end)| inner.note_end(stream, *end));
            inner.owner.begin(&ends, events).map_err(|not_now| Ended::Other(not_now.to_string()))
        })?;
        self.wait_until(wait, |inner| inner.stage() == Stage::Leading && self.own_has_all(inner))?;
        Ok(())
    }

    /// Tells the standby that reads from the own acceptor that all of the log is committed, and that its later records are
    /// above `above`, and above all that ever was there: so it applies the rest. Returns where these begin.
    pub fn tell_rest<D: Disk>(&self, own: &Local<D>, above: Lsn) -> Lsn {
        let floor = own.highest().max(above);
        self.act(None, |inner, events| {
            (0..inner.marks.len() as u16).for_each(|stream| inner.owner.quiet(StreamId(stream), Cut(floor.0)));
            inner.owner.tell_marks(events);
        });
        floor
    }

    /// True if the log has all that a memory has (rule S8).
    pub fn has_all_of(&self, memory: &standby::Memory) -> bool {
        let inner = self.lock();
        let of_stream = |(stream, mark): (u16, &super::Mark)| {
            inner.owner.history(StreamId(stream)).map(|history| (history.clone(), mark.end))
        };
        let log: Option<Vec<_>> = (0..).zip(&inner.marks).map(of_stream).collect();
        log.is_some_and(|log| memory.is_within(&log))
    }

    /// Ends the own acceptor, whose folder the log goes on in: it is started next ([`Promoted::start`]), and then
    /// [`Self::goes_on`].
    ///
    /// # Errors
    /// The own folder has failed.
    pub fn promote<D: Disk>(self: &Arc<Self>, own: &Local<D>) -> Result<Promoted<D>, Ended> {
        // Before the acceptor ends: a read that comes in between waits.
        let reads = self.reads(own.readers());
        self.take_own();
        let promoted = own.promote().map_err(|error| Ended::Own(format!("the own log folder: {error}")))?;
        self.read_own(reads)?;
        Ok(promoted)
    }

    /// The end of the log: no record in it is above that. It may have none of this term.
    pub fn end(&self) -> Lsn {
        Lsn(self.lock().marks.iter().map(|mark| mark.end.0).max().unwrap_or_default())
    }

    /// Another process gets the shard in order, and the log rests until then: a later term does not end it. False: the
    /// shard stays here.
    pub fn gives_way(&self, gives_way: bool) {
        let by = {
            let mut inner = self.lock();
            inner.gives_way = gives_way;
            inner.fenced_by.filter(|_| !gives_way)
        };
        if let (Some(by), Some(log)) = (by, self.log.get()) {
            log.end(super::fenced(by));
        }
    }

    /// The log runs in the own folder.
    pub fn goes_on(&self, log: &Log) {
        self.attach(log);
    }
}
