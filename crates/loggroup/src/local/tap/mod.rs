//! A standby reads the log from its own acceptor (rule S1): blocks from memory as they arrive when it is near, and from the
//! folder when it is behind. `standby::Follower` says which records it may apply.
//!
//! It gets no block that is not committed, and on this disk. So nothing that it has applied is ever dropped.

mod feed;
mod follow;
mod known;
mod planted;
mod recent;
mod shown;

use std::fmt;
use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use quorum::{Base, Block, Cut, History, Mark, StreamId, Term};
use redolog::{Clock, Disk, Lack, Recovered};
use standby::Follower;

use self::feed::{Feed, Place};
pub use self::follow::Following;
pub use self::known::Known;
pub(crate) use self::planted::{Mistake, Planted};
use self::recent::Recent;
pub(super) use self::recent::Tapped;
use self::shown::{Shown, Snapshot};
use super::{Local, Shared, State};

/// Most bytes of the last blocks of a stream that are kept for the standby.
const RECENT_BYTES: usize = 16 << 20;

/// Most bytes of blocks, and of records that wait, of one stream. One block alone may have more, and so has a stream that
/// holds up the others.
const AHEAD_BYTES: usize = 16 << 20;

/// Bytes that are taken at once: from memory, and from the folder.
const AT_ONCE: usize = 4 << 20;

/// Most records of a batch: readers and checkpoints pass between two.
const BATCH: usize = 512;

/// Most blocks between two looks.
const FED: usize = 64;

/// How long to wait before a read is tried again that has lacked a resource.
const AGAIN: Duration = Duration::from_millis(100);

/// The reason why a standby does not follow any more, or cannot begin to.
#[derive(Debug)]
pub enum Ended {
    /// Another standby reads there.
    Taken,
    /// The log begins behind what memory has: a bootstrap is needed.
    Gap,
    /// It has applied what the log does not have any more: the process starts again, from its store (rule S8).
    StartAgain,
    /// The acceptor has stopped.
    Closed,
    /// The folder cannot be read, or its blocks are no records.
    Io(io::Error),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken => f.write_str("another standby reads there"),
            Self::Gap => standby::Gap.fmt(f),
            Self::StartAgain => f.write_str("it has applied what the log does not have any more"),
            Self::Closed => f.write_str("the acceptor has stopped"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Ended {}

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stepped {
    /// So many records were applied.
    Applied(usize),
    /// Something was done, and there may be more.
    Went,
    /// There is nothing to do until something arrives.
    Idle,
    /// A read has lacked a resource, and is tried again.
    Later,
}

/// See the module's text. One step at a time, on the thread of the caller: [`Following`] has a thread of its own.
pub struct Tap<D: Disk> {
    shared: Arc<Shared<D>>,
    feeds: Vec<Feed<D>>,
    follower: Follower,
    /// The figures that are shown of it, its last look, and the places that were committed at some time before.
    shown: Option<Arc<Shown>>,
    looked_at: u64,
    snapshot: Option<Snapshot>,
    pub(crate) planted: Planted,
}

/// The part of a stream that a standby may take.
struct Found {
    mark: Mark,
    base: Base,
    blocks: Vec<Block>,
    /// The blocks to read in the folder, and the last of them.
    older: Option<(History, u64)>,
    lives: u64,
}

impl<D: Disk> Local<D> {
    /// Has a standby read the log here: one at a time. Its memory has everything up to `applied`, and its store everything
    /// up to `covered`. The owner is asked for marks from now on, so nodes of the cluster have to know of standbys.
    ///
    /// # Errors
    /// There is one already, the acceptor has stopped, or the log here begins behind what memory has.
    pub fn tap(&self, applied: Cut, covered: Cut) -> Result<Tap<D>, Ended> {
        self.tap_with(applied, covered, RECENT_BYTES)
    }

    /// True if a standby waits that has applied all that is committed.
    #[cfg(test)]
    pub(crate) fn is_follower_caught(&self) -> bool {
        self.shared.lock().tapped.as_ref().is_some_and(|tapped| tapped.is_caught)
    }

    /// As [`Self::tap`]. `recent`: most bytes of the last blocks of a stream that are kept for it.
    pub(crate) fn tap_with(&self, applied: Cut, covered: Cut, recent: usize) -> Result<Tap<D>, Ended> {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        if state.is_closing {
            return Err(Ended::Closed);
        }
        if state.tapped.is_some() {
            return Err(Ended::Taken);
        }
        let streams = state.lanes.len();
        let base_of = |stream: u16| state.acceptor.history(StreamId(stream)).map(History::base).unwrap_or_default();
        let begins: Vec<_> = (0..streams as u16).map(base_of).map(|base| (base.id, base.cut)).collect();
        let follower = Follower::new(applied, covered, &begins).map_err(|_| Ended::Gap)?;
        let feed = |((lane, begin), stream): ((&super::Lane<D>, &_), u16)| {
            Feed::new((shared.shard, StreamId(stream)), lane.for_taps.another(), *begin, applied)
        };
        let feeds = state.lanes.iter().zip(&begins).zip(0..).map(feed).collect();
        state.tapped = Some(Tapped::new(streams, recent));
        let told = shared.step(&mut state, |acceptor, out| acceptor.want_marks(true, out));
        drop(state);
        shared.tell(told);
        let planted = Planted::default();
        Ok(Tap { shared, feeds, follower, shown: None, looked_at: 0, snapshot: None, planted })
    }
}

impl<D: Disk> Shared<D> {
    /// The part of each stream behind the block that the standby has. It forgets the news.
    fn look(&self, wanted: &[Wanted], done: &[u64], planted: Planted) -> Result<Vec<Option<Found>>, Ended> {
        let mut state = self.lock();
        let State { acceptor, lanes, tapped: Some(tapped), is_closing: false, .. } = &mut *state else {
            return Err(Ended::Closed);
        };
        tapped.has_news = false;
        tapped.is_done(done);
        let mut all = Vec::new();
        let of_streams = wanted.iter().zip(lanes).zip(&mut tapped.recent).zip((0..).map(StreamId));
        for (((Wanted { next, has_room }, lane), recent), stream) in of_streams {
            let next = *next;
            let (Some(history), Some(mark)) = (acceptor.history(stream), acceptor.mark(stream)) else {
                all.push(None);
                continue;
            };
            let any = planted.is(Mistake::TakesUncommitted);
            let upto = if any { history.last().sequence } else { mark.committed.sequence };
            let base = history.base();
            let is_due = *has_room && next <= upto && next > base.id.sequence;
            let blocks = if is_due { recent.take(next, upto, AT_ONCE) } else { Vec::new() };
            let older = (is_due && blocks.is_empty()).then(|| {
                let before = recent.first().filter(|first| *first > next).map_or(upto, |first| (first - 1).min(upto));
                (history.clone(), before)
            });
            all.push(Some(Found { mark, base, blocks, older, lives: lane.lives }));
        }
        Ok(all)
    }
}

impl<D: Disk> State<D> {
    /// Changes the last blocks of a stream that are kept, if a standby reads here.
    pub(super) fn keep_recent(&mut self, stream: StreamId, change: impl FnOnce(&mut Recent, usize)) {
        if let Some(Tapped { recent, most, ends, .. }) = &mut self.tapped
            && let Some((recent, end)) = recent.iter_mut().zip(ends).nth(usize::from(stream.0))
        {
            change(recent, *most);
            *end = recent.end().unwrap_or_default();
        }
    }

    /// Notes the word of the owner of a term about a stream, if a standby reads here.
    pub(super) fn note_word(&mut self, term: Term, stream: StreamId, committed: u64) {
        let is_owner = term == self.acceptor.promised();
        let Some(tapped) = self.tapped.as_mut().filter(|_| is_owner) else { return };
        let Some(shown) = &tapped.shown else { return };
        tapped.words.say(term, usize::from(stream.0), committed, shown.now());
        tapped.words.show(&shown.known);
    }

    /// Notes for the standby that reads here what it may look at now. True if it has to be woken.
    pub(super) fn note_news(&mut self) -> bool {
        let Some(tapped) = &mut self.tapped else { return false };
        let mut is_new = false;
        for (at, (known, begins)) in tapped.marks.iter_mut().zip(&mut tapped.bases).enumerate() {
            let stream = StreamId(at as u16);
            let mark = self.acceptor.mark(stream);
            let base = self.acceptor.history(stream).map_or(*begins, |history| history.base().id);
            is_new |= *known != mark || *begins != base;
            (*known, *begins) = (mark, base);
        }
        let wakes = is_new && !tapped.has_news;
        tapped.has_news |= is_new;
        if is_new && std::mem::take(&mut tapped.is_caught) {
            tapped.shown.iter().for_each(|shown| shown.caught(shown.now()));
        }
        wakes
    }
}

impl<D: Disk> Tap<D> {
    /// The machine that says what may be applied. For checkpoints, and for what the standby tells its owner.
    pub fn follower(&mut self) -> &mut Follower {
        &mut self.follower
    }

    /// Takes one step: looks for blocks, finds their records, and has a batch of them applied. `apply` may take its time:
    /// what arrives meanwhile waits in bounded memory, and then in the folder.
    ///
    /// # Errors
    /// The standby does not go on: see [`Ended`].
    pub fn step(&mut self, apply: &mut dyn FnMut(&[Recovered<'_>])) -> Result<Stepped, Ended> {
        if let Some(applied) = self.apply(apply)? {
            return Ok(Stepped::Applied(applied));
        }
        let is_new = self.load()?;
        let was_fed = self.feed()?;
        Ok(match (self.apply(apply)?, is_new) {
            (Some(applied), _) => Stepped::Applied(applied),
            (None, Loaded::Later) if !was_fed => Stepped::Later,
            (None, Loaded::Nothing) if !was_fed => Stepped::Idle,
            _ => Stepped::Went,
        })
    }

    /// Has the next batch applied.
    fn apply(&mut self, apply: &mut dyn FnMut(&[Recovered<'_>])) -> Result<Option<usize>, Ended> {
        if self.follower.must_start_again() {
            return Err(Ended::StartAgain);
        }
        let next = self.follower.next(BATCH);
        if next.is_empty() {
            return Ok(None);
        }
        let mut places = vec![Place::default(); self.feeds.len()];
        let mut batch = Vec::with_capacity(next.len());
        for one in &next {
            let at = usize::from(one.stream.0);
            if let (Some(feed), Some(place)) = (self.feeds.get(at), places.get_mut(at)) {
                feed.batch(place, redolog::Lsn(one.lsn.0), &mut batch);
            }
        }
        apply(&batch);
        let applied = batch.len();
        if let Some(shown) = &self.shown {
            let bytes: usize = batch.iter().map(|record| record.effects.len()).sum();
            shown.applied_bytes.fetch_add(bytes as u64, SeqCst);
        }
        drop(batch);
        self.feeds.iter_mut().zip(places).for_each(|(feed, place)| feed.applied(place));
        self.follower.done();
        Ok(Some(applied))
    }

    /// Takes blocks from memory, or reads them.
    fn load(&mut self) -> Result<Loaded, Ended> {
        let newest = self.feeds.iter().map(|feed| feed.fed.term).max();
        let wanted = |feed: &Feed<D>| {
            // One that has not come to the newest term holds up all others.
            let may_wait = feed.record_bytes < AHEAD_BYTES || Some(feed.fed.term) < newest;
            Wanted { next: feed.loaded.sequence + 1, has_room: may_wait && feed.block_bytes < AHEAD_BYTES }
        };
        let wanted: Vec<Wanted> = self.feeds.iter().map(wanted).collect();
        self.looked_at = self.shown.as_ref().map_or(0, |shown| shown.now());
        let done: Vec<u64> = self.feeds.iter().map(Feed::place).collect();
        let all = self.shared.look(&wanted, &done, self.planted)?;
        let mut loaded = Loaded::Nothing;
        for ((feed, found), stream) in self.feeds.iter_mut().zip(all).zip((0..).map(StreamId)) {
            let Some(Found { mark, base, blocks, older, lives }) = found else { continue };
            if std::mem::replace(&mut feed.lives, lives) != lives {
                feed.forget();
            }
            if base.id.sequence > feed.loaded.sequence {
                self.follower.begins(stream, base.id, base.cut).map_err(|_| Ended::Gap)?;
                feed.begin(base.id, base.cut);
                loaded = Loaded::Some;
            }
            feed.mark = mark;
            if !blocks.is_empty() {
                feed.load(blocks);
                loaded = Loaded::Some;
            } else if let Some((history, upto)) = older {
                match feed.read(&history, upto, AT_ONCE) {
                    Err(Ended::Io(error)) if Lack::of(&error).is_some() => loaded = loaded.max(Loaded::Later),
                    read => {
                        read?;
                        loaded = Loaded::Some;
                    }
                }
            }
        }
        Ok(loaded)
    }

    /// Finds the records of blocks, first in the stream that is furthest behind: it holds up the others.
    fn feed(&mut self) -> Result<bool, Ended> {
        let mut was_fed = false;
        for _ in 0..FED {
            let with_blocks = self.feeds.iter_mut().zip((0..).map(StreamId)).filter(|(feed, _)| feed.has_blocks());
            let Some((feed, stream)) = with_blocks.min_by_key(|(feed, _)| feed.cut) else { break };
            if let Some(block) = feed.feed()? {
                let id = block.id;
                self.follower.block(stream, block);
                self.follower.committed(stream, id);
                self.follower.synced(stream, id);
                was_fed = true;
            }
        }
        for (feed, stream) in self.feeds.iter().zip((0..).map(StreamId)) {
            if self.planted.is(Mistake::AppliesStreamsApart) {
                self.follower.quiet(stream, feed.fed, Cut(u64::MAX));
            }
            // Of blocks that have not come yet it says nothing, and what was said before still holds.
            if let Some((after, cut)) = feed.mark.quiet.filter(|(after, _)| after.sequence <= feed.fed.sequence) {
                self.follower.quiet(stream, after, cut);
            }
        }
        Ok(was_fed)
    }

    /// Waits until something arrives, or the caller is woken ([`Self::waker`]) and `is_due` says so.
    fn wait(&self, is_due: &dyn Fn() -> bool) {
        let mut state = self.shared.lock();
        let is_caught = self.feeds.iter().all(|feed| feed.place() >= feed.mark.committed.sequence);
        if let Some(tapped) = state.tapped.as_mut().filter(|tapped| !tapped.has_news) {
            tapped.is_caught = is_caught;
        }
        let has_news = |state: &State<D>| state.tapped.as_ref().is_none_or(|tapped| tapped.has_news);
        while !state.is_closing && !has_news(&state) && !is_due() {
            state = self.shared.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// As [`Self::wait`], for a while: a read has lacked a resource.
    fn wait_a_while(&self) {
        let state = self.shared.lock();
        if !state.is_closing {
            drop(self.shared.news.wait_timeout(state, AGAIN));
        }
    }

    /// Shows how far it is to other threads.
    fn show(&mut self, clock: Clock) -> Arc<Shown> {
        let shown = Arc::new(Shown::new(clock, self.feeds.len()));
        self.shown = Some(shown.clone());
        if let Some(tapped) = &mut self.shared.lock().tapped {
            tapped.shown = Some(shown.clone());
        }
        self.note();
        shown
    }

    /// Says how far it is, on any thread.
    fn looker(&self, shown: &Arc<Shown>) -> Box<dyn Fn() -> (standby::Behind, Cut) + Send + Sync> {
        let (shared, shown) = (self.shared.clone(), shown.clone());
        Box::new(move || shown.behind(&shared))
    }

    /// Notes how far it is.
    fn note(&mut self) {
        if let Some(shown) = &self.shown {
            // Between two batches.
            self.follower.passed().into_iter().for_each(|passed| shown.note_passed(passed));
            shown.note(&self.feeds, self.looked_at, &mut self.snapshot);
        }
    }

    /// Has [`Self::wait`] look again.
    fn waker(&self) -> Box<dyn Fn() + Send + Sync> {
        let shared = self.shared.clone();
        Box::new(move || {
            // The waiting thread is in its wait, or has not looked yet.
            drop(shared.lock());
            shared.news.notify_all();
        })
    }
}

impl<D: Disk> Drop for Tap<D> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.tapped = None;
        let told = self.shared.step(&mut state, |acceptor, out| acceptor.want_marks(false, out));
        drop(state);
        self.shared.tell(told);
    }
}

/// The outcome of loading blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Loaded {
    Nothing,
    /// A read has lacked a resource.
    Later,
    Some,
}

/// A standby's wish in a stream: blocks from this place on, if it has room for any.
struct Wanted {
    next: u64,
    has_room: bool,
}
