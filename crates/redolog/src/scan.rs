//! Reads one stream: which of its blocks are valid, and where it ends. Nothing is changed, and no more than a group of
//! blocks is in memory.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use crate::Lsn;
use crate::chain::Chain;
use crate::cursor::{Blocks, Cursor, Found, Partial};
use crate::disk::{Disk, File, PAGE};
use crate::format::{
    Block, Broken, CleanEnd, END_SIZE, Format, Head, Kind, Mark, Name, Part, SEGMENT_HEADER, SegmentHeader,
};
use crate::recover::Damage;
use crate::segments::{Full, is_end, is_made, is_spare};
use crate::window::{CHUNK, Window, places};

/// A segment that is there.
pub(crate) struct Segment {
    pub(crate) name: String,
    pub(crate) header: SegmentHeader,
    pub(crate) size: u64,
    /// Where its valid blocks begin and end.
    begin: u64,
    end: u64,
    /// Every record in it and in the earlier ones is at or below this.
    highest: Lsn,
}

/// A block that starts a term, or a life up to version 3. It declares earlier records above `limit` void.
struct Fall {
    segment: usize,
    at: u64,
    limit: Lsn,
    /// Its place in the log.
    sequence: u64,
}

/// A place from which on the folder has a new life: of the log's blocks before it those up to `keep` stand.
struct Drop {
    segment: usize,
    at: u64,
    keep: u64,
}

/// The contents of a stream's folder.
pub(crate) struct Scan<D> {
    pub(crate) disk: Arc<D>,
    segments: Vec<Segment>,
    falls: Vec<Fall>,
    drops: Vec<Drop>,
    partial: Option<Partial>,
    /// Blocks were dropped: a part may go on with a record whose beginning was read earlier.
    goes_back: bool,
    /// The names of the log's blocks, and where the block before the first one ends.
    pub(crate) chain: Chain,
    base: Lsn,
    /// Files without a use that can be used, and those that cannot.
    pub(crate) spares: Vec<String>,
    pub(crate) litter: Vec<String>,
    /// Number and life of the last valid block.
    pub(crate) number: u64,
    pub(crate) life: u64,
    /// The end of the valid part.
    pub(crate) end: Lsn,
    /// The end of the part that is known to be synced.
    pub(crate) synced: Lsn,
    /// The number of the last block that is known to be synced.
    synced_number: u64,
    /// Blocks behind that: the number and the cut of each.
    unsynced: VecDeque<(u64, Lsn)>,
    /// The highest LSN or cut in any valid block, void or not.
    pub(crate) highest: Lsn,
    /// Valid blocks, their records and the bytes of those, void or not.
    pub(crate) blocks: u64,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    /// A torn tail, and its place: for the log.
    pub(crate) torn: Option<(String, u64)>,
}

impl<D: Disk> Scan<D> {
    /// Reads a stream's folder.
    pub(crate) fn new(disk: D) -> Result<Self, Damage> {
        Self::of(Arc::new(disk))
    }

    /// As [`Self::new`], of a folder that may be in use.
    pub(crate) fn of(disk: Arc<D>) -> Result<Self, Damage> {
        let (mut segments, mut spares, mut litter) = (Vec::new(), Vec::new(), Vec::new());
        let mut ends = Vec::new();
        for name in disk.list()? {
            if is_spare(&name) {
                spares.push(name);
            } else if is_made(&name) {
                litter.push(name);
            } else if is_end(&name) {
                ends.push((clean_end(&*disk, &name)?, name));
            } else if name.ends_with(".log") {
                segments.push(open(&*disk, name)?);
            }
        }
        segments.sort_by_key(|segment| segment.header.number);
        if let Some(pair) = segments.windows(2).find(|pair| pair[0].header.number + 1 != pair[1].header.number) {
            let name = disk.describe(&pair[1].name);
            return Err(Damage::at(&name, 0, "the segment before this one is missing"));
        }
        if ends.is_empty() && segments.iter().any(|segment| segment.header.has_end) {
            let what =
                "the file is missing that says how far the log goes at least: its newest segments may be missing, too";
            return Err(Damage::at(&disk.describe("end-*"), 0, what));
        }
        let mut scan = Self {
            disk,
            segments,
            falls: Vec::new(),
            drops: Vec::new(),
            partial: None,
            goes_back: false,
            chain: Chain::default(),
            base: Lsn::ZERO,
            spares,
            litter,
            number: 0,
            life: 0,
            end: Lsn::ZERO,
            synced: Lsn::ZERO,
            synced_number: 0,
            unsynced: VecDeque::new(),
            highest: Lsn::ZERO,
            blocks: 0,
            records: 0,
            bytes: 0,
            torn: None,
        };
        scan.follow()?;
        for (end, name) in ends {
            scan.must_reach(&end, &name)?;
            scan.note_end(&end);
        }
        Ok(scan)
    }

    /// The log goes at least so far.
    fn must_reach(&self, end: &CleanEnd, name: &str) -> Result<(), Damage> {
        let damage = |name: &str, what| Damage::at(&self.disk.describe(name), 0, what);
        if self.segments.iter().any(|segment| (segment.header.node, segment.header.stream) != (end.node, end.stream)) {
            return Err(damage(name, "says where another stream ended"));
        }
        if self.newest() < end.number {
            let missing = crate::segments::name(end.number);
            return Err(damage(&missing, "it is missing, and is the newest segment of the log, or was once"));
        }
        if self.number < end.sequence {
            return Err(damage(name, "the log has gone further than it goes now: its end is missing"));
        }
        Ok(())
    }

    /// A log that ended in order had all its blocks on the disk, though its last segment may have had no room to say so.
    fn note_end(&mut self, end: &CleanEnd) {
        self.synced_number = self.synced_number.max(end.sequence);
        while let Some((_, cut)) = self.unsynced.pop_front_if(|(number, _)| *number <= end.sequence) {
            self.synced = cut;
        }
    }

    /// Its segments, in their order.
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    fn damage(&self, segment: usize, at: u64, what: &'static str) -> Damage {
        Damage::at(&self.disk.describe(&self.segments[segment].name), at, what)
    }

    fn window(&self, segment: usize) -> io::Result<Window<D::File>> {
        let segment = &self.segments[segment];
        Ok(Window::new(self.disk.open(&segment.name)?, segment.header.format, segment.size))
    }

    /// Follows the chain of blocks to its end.
    fn follow(&mut self) -> Result<(), Damage> {
        let Some(first) = self.segments.first() else { return Ok(()) };
        (self.end, self.highest, self.synced) = (first.header.base, first.header.base, first.header.base);
        (self.number, self.synced_number, self.base) = (first.header.block, first.header.block, first.header.base);
        let mut broken: Option<(usize, u64)> = None;
        for index in 0..self.segments.len() {
            let mut window = self.window(index)?;
            let SegmentHeader { life: newest, base, format, .. } = self.segments[index].header;
            let mut at = SEGMENT_HEADER as u64;
            loop {
                // Only the first block that ever was, or is left, follows none. A block from before the segment was
                // used again is below its base.
                let begins = self.blocks == 0 && index == 0;
                let (number, life) = (self.number, self.life);
                let starts = at == SEGMENT_HEADER as u64 && newest > life;
                let follows = |head: &Head| {
                    let next = !begins && head.number == number + 1 && head.life >= life;
                    let next = next && (format == Format::Three || head.life == life || head.opens);
                    // The first block of a life knows which earlier records are durable; the others may be gone by now.
                    // Or only void records behind a hole are left: their numbers may be higher.
                    let starts = starts && head.life == newest && head.opens;
                    // Up to version 3 no header says which number is the next one.
                    let begins = begins && (format == Format::Three || head.number == number + 1);
                    (next || (begins || starts) && head.cut >= base) && head.life <= newest
                };
                let Some(place) = window.find(at, follows)? else { break };
                let Some(block) = window.found(place)? else { break };
                if at == SEGMENT_HEADER as u64 {
                    self.segments[index].begin = place;
                }
                at = place;
                // A new life of a copy says itself which blocks of the log it keeps.
                if starts && !begins && block.frame.cut > self.end && block.place.mark == Mark::Block {
                    let (segment, at) = broken.unwrap_or((index, at));
                    return Err(self.damage(segment, at, "damaged, though it had been synced"));
                }
                self.take(index, at, &block)?;
                at += format.size(block.frame.body.len()) as u64;
                broken = None;
            }
            self.segments[index].end = at;
            let said = self.segments.get(index + 1).map_or(Lsn::ZERO, |next| next.header.reach);
            self.segments[index].highest = self.highest.max(said);
            // The chain may go on in the next segment. If it does not, it ended here. A segment that was begun at the
            // end of the chain shows that nothing before it is missing.
            let begun_here = self.segments[index].header.base == self.end;
            broken = if begun_here { Some((index, at)) } else { broken.or(Some((index, at))) };
        }
        self.settle_falls();
        match broken {
            Some(end) => self.look_behind(end),
            None => Ok(()),
        }
    }

    /// Blocks before a drop stand as far as it and all later ones keep them. Records before a fall that stands are void
    /// above it, and above any later one.
    fn settle_falls(&mut self) {
        let mut keep = u64::MAX;
        for drop in self.drops.iter_mut().rev() {
            keep = keep.min(drop.keep);
            drop.keep = keep;
        }
        let drops = &self.drops;
        self.falls.retain(|fall| fall.sequence <= kept(drops, (fall.segment, fall.at)));
        let mut limit = Lsn::MAX;
        for fall in self.falls.iter_mut().rev() {
            limit = limit.min(fall.limit);
            fall.limit = limit;
        }
    }

    fn take(&mut self, segment: usize, at: u64, block: &Block<'_>) -> Result<(), Damage> {
        let Block { place, frame } = block;
        let starts = match self.segments[segment].header.format {
            Format::Three => place.life != self.life,
            Format::Four => frame.kind == Kind::Start,
        };
        self.name(segment, at, block)?;
        if starts {
            // A record that is not whole by then never will be.
            self.partial = None;
        }
        match frame.kind {
            _ if place.mark != Mark::Block => {}
            Kind::Part => {
                let part = Part::decode(frame.body).map_err(|broken| self.damage(segment, at, broken.0))?;
                // The remaining segments may have the end of a record that is not needed.
                let goes_on = self.partial.as_ref().map_or(part.offset == 0, |partial| partial.goes_on_with(&part));
                if !goes_on && self.blocks > 0 && !self.goes_back {
                    return Err(self.damage(segment, at, "a part of a record that does not follow the one before"));
                }
                self.note(segment, at, part.lsn)?;
                self.records += u64::from(part.is_last());
                self.partial = Partial::behind(&part);
                self.goes_back = false;
            }
            _ if self.partial.is_some() => {
                return Err(self.damage(segment, at, "the rest of a record is missing before this"));
            }
            _ => {
                for record in Block::raw_records_of(frame.body) {
                    let lsn = record.map_err(|broken| self.damage(segment, at, broken.0))?.lsn;
                    self.note(segment, at, lsn)?;
                    self.records += 1;
                }
                self.goes_back = false;
            }
        }
        // Records above the cut are void, whether they had come whole or not.
        if starts && self.blocks > 0 {
            self.falls.push(Fall { segment, at, limit: frame.cut, sequence: frame.name.sequence });
        }
        self.blocks += 1;
        self.bytes += frame.body.len() as u64;
        self.note_synced(segment, block);
        (self.number, self.life) = (place.number, place.life);
        self.end = frame.cut;
        self.highest = self.highest.max(frame.cut);
        Ok(())
    }

    /// Notes up to which cut everything is known to be synced.
    fn note_synced(&mut self, segment: usize, Block { place, frame }: &Block<'_>) {
        if self.segments[segment].header.format == Format::Three {
            // A start that cut the stream begins below what earlier ones had synced.
            self.synced = Lsn(place.synced);
            return;
        }
        if place.life != self.life {
            // A life begins with what is durable, and no more.
            (self.synced, self.synced_number) = (frame.cut, place.number - 1);
            self.unsynced.clear();
            return;
        }
        self.unsynced.push_back((place.number, frame.cut));
        self.synced_number = self.synced_number.max(place.synced);
        while let Some((_, cut)) = self.unsynced.pop_front_if(|(number, _)| *number <= place.synced) {
            self.synced = cut;
        }
    }

    /// Notes the block's name, and what a new life drops.
    fn name(&mut self, segment: usize, at: u64, block: &Block<'_>) -> Result<(), Damage> {
        let Block { place, frame } = block;
        let header = &self.segments[segment].header;
        let is_first = self.blocks == 0;
        let before = Name { term: frame.before, sequence: frame.name.sequence.saturating_sub(1) };
        if header.format == Format::Three {
            if is_first || !self.chain.push(frame.name, self.chain.last().term) {
                // Numbers have gone back behind a hole. No other copy has blocks of such a log.
                self.chain = Chain::new(before);
                self.chain.push(frame.name, frame.before);
            }
            return Ok(());
        }
        if frame.stream != header.stream || frame.shard != 0 && frame.shard != header.shard {
            return Err(self.damage(segment, at, "a block of another stream"));
        }
        match place.mark {
            Mark::Block => {
                // A life may begin behind a hole, of which only void records are left.
                let jumps = place.life != self.life && place.number != self.number + 1;
                if is_first || jumps {
                    self.chain = Chain::new(before);
                    self.base = header.base;
                }
                if !self.chain.push(frame.name, frame.before) {
                    return Err(self.damage(segment, at, "a block that does not follow the one before in the log"));
                }
            }
            Mark::Life | Mark::End if is_first => self.chain = Chain::new(frame.name),
            Mark::Life => {
                if self.is_cut_behind(frame.name) {
                    (self.chain, self.base) = (Chain::new(frame.name), frame.cut);
                } else if !self.chain.keep(frame.name) {
                    return Err(self.damage(segment, at, "it keeps a block of the log that is not there"));
                }
                self.drops.push(Drop { segment, at, keep: frame.name.sequence });
                (self.partial, self.goes_back) = (None, true);
            }
            Mark::Reset => {
                (self.chain, self.base) = (Chain::new(frame.name), frame.cut);
                self.drops.push(Drop { segment, at, keep: 0 });
                (self.partial, self.goes_back) = (None, true);
            }
            Mark::End if self.chain.last() != frame.name => {
                return Err(self.damage(segment, at, "it ends behind a block of the log that is not the last one"));
            }
            Mark::End => {}
        }
        Ok(())
    }

    /// True if the folder's log was cut behind this block, and nothing that is left of before stands.
    fn is_cut_behind(&self, name: Name) -> bool {
        let first = self.segments.first().map(|segment| &segment.header);
        let Some(first) = first.filter(|first| first.format == Format::Four && first.number > 1) else { return false };
        let base = self.chain.base();
        base <= first.last && name < base && name.sequence < base.sequence
    }

    /// Notes that there is a record with this LSN.
    fn note(&mut self, segment: usize, at: u64, lsn: Lsn) -> Result<(), Damage> {
        if lsn.stream() != self.segments[segment].header.stream {
            return Err(self.damage(segment, at, "a record of another stream"));
        }
        self.highest = self.highest.max(lsn);
        Ok(())
    }

    /// Notes that the chain ends here: nothing behind it may have been synced (rule L10).
    fn look_behind(&mut self, (segment, at): (usize, u64)) -> Result<(), Damage> {
        let (number, life) = (self.number, self.life);
        let torn = (self.disk.describe(&self.segments[segment].name), at);
        if self.was_begun(segment, at)? {
            self.torn = Some(torn.clone());
        }
        for index in segment..self.segments.len() {
            let SegmentHeader { life: newest, format, .. } = self.segments[index].header;
            let header = format.header() as u64;
            let mut window = self.window(index)?;
            let mut place = if index == segment { at } else { SEGMENT_HEADER as u64 };
            let size = self.segments[index].size;
            // There cannot be more blocks than these, if any is known.
            let most = match self.blocks {
                0 => u64::MAX,
                _ => number + (size / header + 1) * (index - segment + 1) as u64,
            };
            while place + header <= size {
                // A header of zeros names no block. Most of a new segment is zeros.
                if place.is_multiple_of(PAGE as u64) {
                    let zeros = window.zeros(place)?;
                    if zeros > 0 {
                        place += zeros - header.next_multiple_of(8);
                        continue;
                    }
                }
                let later =
                    |head: &Head| (number + 1..=most).contains(&head.number) && (life..=newest).contains(&head.life);
                if let Some(synced) = window.said(place, later)? {
                    let is_here = match format {
                        Format::Three => synced <= self.end.0,
                        Format::Four => synced <= self.number,
                    };
                    if !is_here {
                        return Err(self.damage(segment, at, "damaged, though it had been synced"));
                    }
                    self.torn = Some(torn.clone());
                }
                place += 8;
            }
        }
        Ok(())
    }

    /// True if the bytes here, which are no valid block, were to be the next one: most of the header is right.
    fn was_begun(&self, segment: usize, at: u64) -> io::Result<bool> {
        let mut window = self.window(segment)?;
        for place in places(at) {
            if window.head(place)?.is_some_and(|head| {
                let is_later = head.life == self.life && head.cut > self.end;
                self.blocks > 0 && (head.number == self.number + 1 || is_later)
            }) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes the valid part durable where it lies. It may be in the system's cache alone: a failed sync is reported
    /// once, to another process (rule L9). The bytes stay the same, so a crash meanwhile loses nothing.
    pub(crate) fn write_in_place(&self) -> io::Result<()> {
        self.write_again(self.segments.iter().skip_while(|segment| segment.highest <= self.synced))
    }

    /// The same for blocks: those of a copy count by their names, whether or not they have records (rule G2).
    pub(crate) fn write_blocks_in_place(&self) -> io::Result<()> {
        // Up to version 3 no header says which number is the next one.
        let is_synced = |next: &Segment| next.header.format == Format::Four && next.header.block <= self.synced_number;
        let count = self.segments.iter().skip(1).take_while(|next| is_synced(next)).count();
        let is_whole = self.number <= self.synced_number;
        self.write_again(self.segments.iter().skip(if is_whole { self.segments.len() } else { count }))
    }

    fn write_again<'a>(&self, segments: impl Iterator<Item = &'a Segment>) -> io::Result<()> {
        let mut chunk = Vec::new();
        for segment in segments {
            let file = self.disk.open(&segment.name)?;
            for at in (0..segment.size).step_by(CHUNK) {
                let left = usize::try_from(segment.size - at).unwrap_or(CHUNK).min(CHUNK);
                chunk.resize(left, 0);
                file.read(at, &mut chunk)?;
                file.write(at, &chunk)?;
            }
            file.sync()?;
        }
        self.disk.sync()
    }

    /// Reads the valid records.
    pub(crate) fn cursor(&self) -> Cursor<'_> {
        self.cursor_at(0)
    }

    /// Reads the valid records above `base`, and some that are not above it, in any order.
    pub(crate) fn cursor_above(&self, base: Lsn) -> Cursor<'_> {
        let below = self.segments.iter().take_while(|segment| segment.highest <= base);
        self.cursor_at(below.count())
    }

    fn cursor_at(&self, segment: usize) -> Cursor<'_> {
        let at = self.begin_of(segment);
        // A segment may begin in the middle of a group.
        let cut = self.segments.get(segment).map_or(Lsn::ZERO, |segment| segment.header.base);
        let place = (segment, at);
        let blocks = OnDisk { scan: self, segment, at, window: None, fall: 0, number: 0, life: 0, place };
        Cursor::new(Box::new(blocks), cut)
    }

    /// Where the valid blocks of a segment begin.
    fn begin_of(&self, segment: usize) -> u64 {
        self.segments.get(segment).map_or(0, |segment| segment.begin)
    }

    /// The segments as the writer keeps them.
    pub(crate) fn full(&self) -> VecDeque<Full> {
        // A segment's blocks end where the next one's begin, or before, where a later life dropped them.
        let mut last = (self.chain.last(), self.end);
        let mut full = VecDeque::new();
        for segment in self.segments.iter().rev() {
            full.push_front(Full { name: segment.name.clone(), size: segment.size, end: segment.highest, last });
            if segment.header.format == Format::Four {
                last = earlier(last, (segment.header.last, segment.header.base));
            }
        }
        full
    }

    /// Bytes of all segments.
    fn size(&self) -> u64 {
        self.segments.iter().map(|segment| segment.size).sum()
    }

    /// Where the block before the first one of [`Self::chain`] ends.
    pub(crate) fn base(&self) -> Lsn {
        self.base
    }

    /// The begin of the stream: records at or below are not there any more; 0 if nothing is missing.
    pub(crate) fn begins(&self) -> Lsn {
        self.segments.first().map_or(Lsn::ZERO, |segment| segment.header.reach)
    }

    /// Number of the newest segment.
    pub(crate) fn newest(&self) -> u64 {
        self.segments.last().map_or(0, |segment| segment.header.number)
    }
}

/// The valid blocks of a stream, in their order, on the disk.
pub(crate) struct OnDisk<'a, D: Disk> {
    scan: &'a Scan<D>,
    segment: usize,
    at: u64,
    window: Option<Window<D::File>>,
    /// The next fall.
    fall: usize,
    /// Of the last block.
    number: u64,
    life: u64,
    /// Where the last block begins.
    place: (usize, u64),
}

impl<D: Disk> OnDisk<'_, D> {
    /// Moves to the next block, whatever it is. False: there is none.
    fn advance(&mut self) -> Result<bool, Damage> {
        let scan = self.scan;
        let segment = loop {
            let Some(segment) = scan.segments.get(self.segment) else { return Ok(false) };
            if self.at < segment.end {
                break segment;
            }
            (self.segment, self.at, self.window) = (self.segment + 1, scan.begin_of(self.segment + 1), None);
        };
        let window = match &mut self.window {
            Some(window) => window,
            none => none.insert(scan.window(self.segment)?),
        };
        let (index, number, life) = (self.segment, self.number, self.life);
        let is_first = self.at == segment.begin;
        let follows = |head: &Head| head.number == number + 1 && head.life >= life;
        let place = window.find(self.at, |head| is_first || follows(head))?;
        let at = place.unwrap_or(self.at);
        let Some(head) = window.head(at)?.filter(|_| place.is_some()) else {
            return Err(scan.damage(index, at, "a block that could be read a moment ago"));
        };
        (self.number, self.life) = (head.number, head.life);
        while scan.falls.get(self.fall).is_some_and(|fall| (fall.segment, fall.at) <= (index, at)) {
            self.fall += 1;
        }
        (self.at, self.place) = (at + segment.header.format.size(head.length) as u64, (index, at));
        Ok(true)
    }

    /// True if the block that it has moved to is one of the log, and stands.
    fn stands(&mut self) -> Result<bool, Damage> {
        let (place, drops) = (self.place, &self.scan.drops);
        let Some(window) = &mut self.window else { return Ok(false) };
        let block = window.found(place.1)?;
        Ok(block
            .is_some_and(|block| block.place.mark == Mark::Block && block.frame.name.sequence <= kept(drops, place)))
    }
}

/// The last block of the log that is kept of those at or before a place.
fn kept(drops: &[Drop], place: (usize, u64)) -> u64 {
    let next = drops.partition_point(|drop| (drop.segment, drop.at) <= place);
    drops.get(next).map_or(u64::MAX, |drop| drop.keep)
}

impl<D: Disk> Blocks for OnDisk<'_, D> {
    fn next(&mut self) -> Result<Option<Found<'_>>, Damage> {
        loop {
            if !self.advance()? {
                return Ok(None);
            }
            if self.stands()? {
                break;
            }
        }
        let ((segment, at), scan) = (self.place, self.scan);
        let limit = scan.falls.get(self.fall).map_or(Lsn::MAX, |fall| fall.limit).min(scan.end);
        let Some(window) = &mut self.window else { return Ok(None) };
        let Some(Block { frame, .. }) = window.found(at)? else {
            return Err(scan.damage(segment, at, "a block that could be read a moment ago"));
        };
        Ok(Some(Found { is_part: frame.is_part(), cut: frame.cut, limit, body: frame.body }))
    }

    fn damage(&self, broken: Broken) -> Damage {
        self.scan.damage(self.place.0, self.place.1, broken.0)
    }

    fn most(&self) -> u64 {
        self.scan.size()
    }
}

/// The one that is earlier in the log.
pub(crate) fn earlier(a: (Name, Lsn), b: (Name, Lsn)) -> (Name, Lsn) {
    if b.0.sequence < a.0.sequence { b } else { a }
}

fn clean_end<D: Disk>(disk: &D, name: &str) -> Result<CleanEnd, Damage> {
    let mut bytes = [0; END_SIZE];
    let damage = |what| Damage::at(&disk.describe(name), 0, what);
    let file = disk.open(name)?;
    if file.size()? != END_SIZE as u64 {
        return Err(damage("not as long as what says where the log ended"));
    }
    file.read(0, &mut bytes)?;
    CleanEnd::decode(&bytes).map_err(|broken| damage(broken.0))
}

/// Opens a segment, and reads its header.
pub(crate) fn open<D: Disk>(disk: &D, name: String) -> Result<Segment, Damage> {
    let file = disk.open(&name)?;
    let size = file.size()?;
    let mut header = [0; SEGMENT_HEADER];
    let damage = |what| Damage::at(&disk.describe(&name), 0, what);
    if size < SEGMENT_HEADER as u64 {
        return Err(damage("shorter than the header of a segment"));
    }
    file.read(0, &mut header)?;
    let header = SegmentHeader::decode(&header).map_err(|broken| damage(broken.0))?;
    if header.size != size || crate::segments::name(header.number) != name {
        return Err(damage("not the segment that its header describes"));
    }
    Ok(Segment { name, header, size, begin: SEGMENT_HEADER as u64, end: SEGMENT_HEADER as u64, highest: Lsn::ZERO })
}
