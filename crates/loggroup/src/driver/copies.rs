//! The driver as the log sees it.

use std::sync::Arc;

use quorum::{AcceptorId, Base, BlockId, Cut, Event, Reply, Report, ShardId, Stage, StreamId, Term};
use redolog::{Around, Copies, Frame, Fsync, Landed, Lsn, Name};

use super::{Driver, Inner};

impl Copies for Driver {
    fn departs(&self, stream: u16, frame: &Frame<'_>) -> Result<(), String> {
        let through = self.log.get().is_none_or(|log| log.fsync() == Fsync::Always);
        let mut bytes = Vec::with_capacity(redolog::FRAME_HEAD + frame.body.len());
        frame.encode(&mut bytes).map_err(|broken| broken.0.to_owned())?;
        let body: Arc<[u8]> = bytes.into();
        self.act(Some(stream), |inner, events| {
            inner.is_through = through;
            inner.owner.write_through(through);
            let appended = inner.owner.append(StreamId(stream), Cut(frame.cut.0), body, events);
            let id = appended.map_err(|not_now| inner.fenced_by.map_or(not_now.to_string(), super::fenced))?;
            let Name { term, sequence } = frame.name;
            if (id.term.get(), id.sequence) == (term, sequence) {
                inner.note_end(StreamId(stream), Cut(frame.cut.0));
                return Ok(());
            }
            let BlockId { term: of, sequence: at } = id;
            Err(format!("the own folder has block {sequence} of term {term} where copies have {at} of {}", of.get()))
        })
    }

    fn passed(&self, stream: u16, cut: Lsn) {
        self.act(Some(stream), |inner, events| {
            inner.owner.quiet(StreamId(stream), Cut(cut.0));
            inner.owner.tell_marks(events);
        });
    }

    fn landed(&self, stream: u16, landed: Landed) {
        self.act(Some(stream), |inner, events| {
            inner.own_landed((self.shard, self.own), StreamId(stream), landed, events)
        });
    }

    fn sync(&self, stream: u16) {
        self.act(Some(stream), |inner, events| {
            let stream = StreamId(stream);
            let last = inner.owner.history(stream).map_or(0, |history| history.last().sequence);
            if let Some(mark) = inner.marks.get_mut(usize::from(stream.0)) {
                mark.wanted = last;
                mark.asked = inner.owner.synced(stream);
            }
            inner.owner.sync(stream, events);
        });
    }

    fn may_retire(&self) -> bool {
        self.lock().stage() == Stage::Leading
    }

    fn retired(&self, stream: u16, last: Name, cut: Lsn) {
        let Some(term) = Term::new(last.term) else { return };
        let base = Base { id: BlockId { term, sequence: last.sequence }, cut: Cut(cut.0) };
        self.act(Some(stream), |inner, events| {
            if let Some(mark) = inner.marks.get_mut(usize::from(stream)) {
                mark.retired = Some(base);
            }
            inner.cut(StreamId(stream), events);
        });
    }

    /// Rule G10: the own acceptor has failed for good. The log goes on if the others can be a majority by themselves.
    fn lost(&self, why: &str) -> bool {
        let own = self.own;
        let lost = self.act(None, |inner, events| {
            if inner.is_own_lost || !inner.owner.can_lack(own) {
                return inner.is_own_lost.then_some(false);
            }
            inner.is_own_lost = true;
            let (shard, term) = (self.shard, inner.owner.term());
            inner.owner.reply(own, Reply { shard, term, report: Report::Failed }, events);
            Some(true)
        });
        if lost == Some(true) {
            tracing::error!(
                cause = "log copies",
                "A disk of the own log has failed, and the log goes on with its other copies: restart the node when the disk works, or with an empty directory in its place: {why}"
            );
        }
        lost.is_some()
    }

    fn can_lack_own(&self) -> bool {
        let inner = self.lock();
        !inner.is_own_lost && inner.owner.can_lack(self.own)
    }

    fn around(&self, stream: u16, why: Option<Around>) {
        let (began, ended) = self.act(Some(stream), |inner, events| {
            let had = !inner.around.is_empty();
            match why {
                Some(why) => inner.around.insert(stream, why),
                None => inner.around.remove(&stream),
            };
            let has = !inner.around.is_empty();
            if !inner.is_own_lost {
                let is_full = inner.around.values().any(|why| matches!(why, Around::Lacks(_)));
                inner.own_says(self, Report::Full { is_full }, events);
                if had && !has {
                    inner.resume(self, events);
                }
            }
            (!had && has, had && !has && !inner.is_own_lost)
        });
        if let Some(why) = why.filter(|_| began) {
            tracing::warn!(
                cause = "log copies",
                "The own log's disk takes nothing for now, and the log goes on with its other copies: {why}. It gets what it lacks when it goes on"
            );
        }
        if ended {
            tracing::info!("The own log's disk has everything again");
        }
    }
}

impl Inner {
    fn own_says(&mut self, of: &Driver, report: Report, events: &mut Vec<Event>) {
        let reply = Reply { shard: of.shard, term: self.owner.term(), report };
        self.owner.reply(of.own, reply, events);
    }

    /// The own disk has everything again. A seal that it did not answer meanwhile is answered now. Where a log was chosen
    /// without its answer, that log is the own one.
    fn resume(&mut self, of: &Driver, events: &mut Vec<Event>) {
        if matches!(self.stage(), Stage::Sealing | Stage::Fetching) {
            self.owner.connected(of.own, events);
        } else {
            self.owner.resumed(of.own, events);
        }
        // In a term whose seal the own folder did not answer, nothing that it told was heard.
        let landed: Vec<Landed> = self.marks.iter().map(|mark| mark.own).collect();
        for (stream, landed) in (0..).map(StreamId).zip(landed) {
            self.own_landed((of.shard, of.own), stream, landed, events);
        }
    }

    pub(super) fn note_end(&mut self, stream: StreamId, end: Cut) {
        if let Some(mark) = self.marks.get_mut(usize::from(stream.0)) {
            mark.end = end;
        }
    }

    /// The own folder's acknowledgement.
    fn own_landed(
        &mut self,
        (shard, own): (ShardId, AcceptorId),
        stream: StreamId,
        landed: Landed,
        events: &mut Vec<Event>,
    ) {
        if let Some(mark) = self.marks.get_mut(usize::from(stream.0)) {
            mark.own = landed;
        }
        let Some(history) = self.owner.history(stream).filter(|_| !self.is_own_lost) else { return };
        let (Some(written), Some(synced)) = (history.at(landed.written), history.at(landed.synced)) else { return };
        let reached = if self.is_through { synced } else { written };
        self.waits.own_has(stream.0.into(), reached.sequence);
        let report = Report::Ack { stream, written, synced };
        let term = self.owner.term();
        self.owner.reply(own, Reply { shard, term, report }, events);
    }
}
