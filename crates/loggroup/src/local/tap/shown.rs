//! How far a standby is behind, for its owner: other threads ask while it works.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use quorum::{Cut, History, Mark, StreamId};
use redolog::{Clock, Disk};
use standby::Behind;

use super::feed::Feed;
use super::{Shared, State, known};

/// A stream's part.
#[derive(Default)]
struct Stream {
    /// The place up to which all records are applied.
    place: AtomicU64,
    /// Where the last block ends that was looked at.
    cut: AtomicU64,
    /// Blocks that were taken so far, and their bytes.
    blocks: AtomicU64,
    bytes: AtomicU64,
}

/// The words of the standby's thread about itself.
pub struct Shown {
    clock: Clock,
    streams: Vec<Stream>,
    /// Bytes of effects that were applied.
    pub applied_bytes: AtomicU64,
    /// All that was committed at this time is applied, in nanoseconds of the clock.
    caught_at: AtomicU64,
    /// What is known of the log's end.
    pub known: known::Shared,
    /// Memory has all records up to here.
    passed: AtomicU64,
}

/// The place that was committed at a time.
pub struct Snapshot {
    at: u64,
    places: Vec<u64>,
}

impl Shown {
    pub fn new(clock: Clock, streams: usize) -> Self {
        let caught_at = AtomicU64::new(clock());
        let streams = (0..streams).map(|_| Stream::default()).collect();
        let (known, passed) = (known::Shared::default(), AtomicU64::new(0));
        Self { clock, streams, applied_bytes: AtomicU64::new(0), caught_at, known, passed }
    }

    pub fn now(&self) -> u64 {
        (self.clock)()
    }

    /// All that was committed at this time is applied.
    pub fn caught(&self, at: u64) {
        self.caught_at.fetch_max(at, SeqCst);
    }

    /// Memory has all records up to here.
    pub fn passed(&self) -> Cut {
        Cut(self.passed.load(SeqCst))
    }

    pub fn note_passed(&self, passed: Cut) {
        self.passed.store(passed.0, SeqCst);
    }

    /// Notes how far the standby is. `looked_at`: when its marks were looked at last.
    pub fn note<D: Disk>(&self, feeds: &[Feed<D>], looked_at: u64, snapshot: &mut Option<Snapshot>) {
        for (feed, stream) in feeds.iter().zip(&self.streams) {
            stream.place.store(feed.place(), SeqCst);
            stream.cut.store(feed.cut.0, SeqCst);
            stream.blocks.store(feed.taken.0, SeqCst);
            stream.bytes.store(feed.taken.1, SeqCst);
        }
        let is_done = |of: &mut Snapshot| feeds.iter().zip(&of.places).all(|(feed, place)| feed.place() >= *place);
        if let Some(done) = snapshot.take_if(is_done) {
            self.caught(done.at);
        }
        snapshot.get_or_insert_with(|| Snapshot {
            at: looked_at,
            places: feeds.iter().map(|feed| feed.mark.committed.sequence).collect(),
        });
    }

    /// How far the standby is behind what is committed, and where the log ends that its acceptor has.
    pub fn behind<D: Disk>(&self, shared: &Shared<D>) -> (Behind, Cut) {
        let (mut bytes, mut is_behind, mut log) = (0, false, Cut(u64::MAX));
        let state = shared.lock();
        for (stream, id) in self.streams.iter().zip((0..).map(StreamId)) {
            let (mark, end) = state.end_of(id);
            log = log.min(end.max(Cut(stream.cut.load(SeqCst))));
            let blocks = mark.committed.sequence.saturating_sub(stream.place.load(SeqCst));
            let mean = stream.bytes.load(SeqCst) / stream.blocks.load(SeqCst).max(1);
            let of_folder = || state.mean_of(id);
            bytes += blocks * if mean > 0 { mean } else { of_folder() };
            is_behind |= blocks > 0;
        }
        drop(state);
        let since = self.now().saturating_sub(self.caught_at.load(SeqCst));
        let (ms, applied_bytes) = (if is_behind { since / 1_000_000 } else { 0 }, self.applied_bytes.load(SeqCst));
        (Behind { bytes, ms, applied_bytes }, log)
    }
}

impl<D: Disk> State<D> {
    /// How far a stream is committed, and where it ends as far as that is known.
    fn end_of(&self, stream: StreamId) -> (Mark, Cut) {
        let mark = self.acceptor.mark(stream).unwrap_or_default();
        let begin = self.acceptor.history(stream).map_or(Cut(0), |history| history.base().cut);
        let at = usize::from(stream.0);
        let last = self.tapped.as_ref().and_then(|tapped| tapped.ends.get(at)).copied().unwrap_or_default();
        // Nothing more comes there at or below what the stream has passed.
        let quiet = mark.quiet.filter(|(after, _)| self.acceptor.history(stream).map(History::last) == Some(*after));
        (mark, last.max(begin).max(quiet.map_or(Cut(0), |(_, cut)| cut)))
    }

    /// Bytes of a block of a stream, about.
    fn mean_of(&self, stream: StreamId) -> u64 {
        let blocks = self.acceptor.history(stream).map_or(0, |of| of.last().sequence - of.base().id.sequence);
        self.lanes.get(usize::from(stream.0)).map_or(0, |lane| lane.size / blocks.max(1))
    }
}
