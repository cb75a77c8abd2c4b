//! A stream in a store: nodes and groups as leaves.
//!
//! ```text
//! label := section (20 bits) · place (44 bits)
//! section 0: place 0 is the last node, others are those in the tree
//! section n: a group; place 0 is the group itself, others hold what is pending
//! own   := last: ms, seq · max_deleted: ms, seq · added
//! node  := first: ms, seq · number of names · names, entries as in memory (see `node`)
//! group := name · last: ms, seq · entries_read + 1 · consumers to the end: 0, or 1 · name · seen · active + 1
//! pending := records to the end: ms above the one before · seq (above the one before in the same ms) · time · count · consumer
//!            of what nobody has: its turn for the time, 4294967295 for the consumer
//! ```
//!
//! Numbers are in base 128, texts have their length before them. Consumers are named by their place; the pending
//! entries of each follow from those of its group.

use std::convert::Infallible;

use super::group::{Consumer, Delivery, Group, Groups, Member, SECTIONS_MAX};
use super::id::Id;
use super::node::Node;
use super::pending::{Pending, Run};
use super::{Log, Stream};
use crate::Corrupt;
use crate::hashed::varint;
use crate::saved::Ledger;
use crate::tree::{Leaf, Tree};
use std::ops::RangeInclusive;

const PLACE_BITS: u32 = 44;

const PLACE: u64 = (1 << PLACE_BITS) - 1;

const CUT: Corrupt = Corrupt("leaf of a stream cut short");

/// The label of a place of a section.
fn label(section: u64, place: u64) -> u64 {
    section << PLACE_BITS | place
}

/// All labels of a section but the first.
fn all_places(section: u64) -> RangeInclusive<u64> {
    label(section, 1)..=label(section, PLACE)
}

impl Group {
    /// The section after that of the log.
    fn own_section(&self) -> u64 {
        self.section + 1
    }
}

impl Stream {
    /// About as many bytes as it takes in a store. O(groups).
    pub(crate) fn large_bytes(&self) -> usize {
        // Beyond, there are no labels.
        if self.groups.len() as u64 >= SECTIONS_MAX / 2 {
            return 0;
        }
        let group = |(_, group): (&[u8], &Group)| 32 * group.consumer_count() + 16 * group.pending_len() as usize;
        self.log.memory() + self.groups.iter().map(group).sum::<usize>()
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.groups.ledger
    }

    /// After a copy was taken for a checkpoint: begins the next mark.
    pub(crate) fn begin(&mut self, epoch: u64) {
        self.log.sealed.ledger_mut().begin(epoch);
        self.groups.ledger.begin(epoch);
    }

    /// Number of leaves. O(groups).
    pub(crate) fn leaf_count(&self) -> u64 {
        let groups = self.groups.iter().map(|(_, group)| 1 + group.pending.0.leaf_count()).sum::<u64>();
        self.log.sealed.leaf_count() + u64::from(self.log.tail.live > 0) + groups
    }

    /// True if the nodes in the tree are stored as of the last freeze, except for known changes since.
    fn sealed_known(&self) -> bool {
        self.log.sealed.ledger().is_some_and(|ledger| ledger.epoch() == self.groups.ledger.epoch())
    }

    /// Labels of leaves that the last freeze has stored and that are void.
    pub(crate) fn removed(&self) -> Vec<RangeInclusive<u64>> {
        let mut removed = Vec::new();
        let one = |label| label..=label;
        if self.log.tail.live == 0 {
            removed.push(one(label(0, 0)));
        }
        match self.log.sealed.ledger() {
            Some(ledger) if self.sealed_known() => {
                removed.extend(ledger.removed().iter().map(|at| one(label(0, at + 1))));
            }
            _ => removed.push(all_places(0)),
        }
        let mark = self.groups.ledger.mark();
        for (_, group) in self.groups.iter() {
            let section = group.own_section();
            match group.pending.0.ledger().filter(|ledger| ledger.mark() == mark) {
                Some(ledger) if ledger.epoch() == 0 => removed.push(all_places(section)),
                Some(ledger) => removed.extend(ledger.removed().iter().map(|at| one(label(section, at + 1)))),
                None => {}
            }
        }
        let gone = self.groups.ledger.removed().iter();
        removed.extend(gone.map(|section| label(section + 1, 0)..=*all_places(section + 1).end()));
        removed
    }

    /// Shows label and contents of all leaves, or of those changed since the last freeze.
    pub(crate) fn leaves<E>(
        &self,
        all: bool,
        mut each: impl FnMut(u64, &dyn Fn(&mut Vec<u8>)) -> Result<(), E>,
    ) -> Result<(), E> {
        let log = &self.log;
        let sealed_mark = log.sealed.ledger().map_or(0, Ledger::mark);
        if log.tail.live > 0 && (all || log.tail_stamp >= sealed_mark) {
            each(label(0, 0), &|out| log.tail.save(out))?;
        }
        let since = if all || !self.sealed_known() { 0 } else { sealed_mark };
        log.sealed.changed(since, |at, node| each(label(0, at + 1), &|out| node.save(out)))?;
        let mark = self.groups.ledger.mark();
        for (name, group) in self.groups.iter().filter(|(_, group)| all || group.stamp >= mark) {
            let (section, pending) = (group.own_section(), &group.pending.0);
            each(label(section, 0), &|out| save_group(out, name, group))?;
            let lost = pending.ledger().is_none_or(|ledger| ledger.epoch() == 0);
            let since = if all || lost { 0 } else { mark };
            pending.changed(since, |at, run| each(label(section, at + 1), &|out| save_pending(out, run)))?;
        }
        Ok(())
    }

    /// Appends what its header has beside what all headers have.
    pub(crate) fn save_own(&self, out: &mut Vec<u8>) {
        let marks = self.log.marks();
        write_id(out, marks.last);
        write_id(out, marks.max_deleted);
        varint::write(out, marks.added);
    }

    /// Appends the whole stream, as [`Stream::load`] reads it. Tombstones are kept.
    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        self.save_own(out);
        let mut leaf = Vec::new();
        let done = self.leaves(true, |label, save| {
            leaf.clear();
            save(&mut leaf);
            varint::write(out, label);
            write_text(out, &leaf);
            Ok::<(), Infallible>(())
        });
        match done {
            Ok(()) => {}
        }
    }

    /// Reads what [`Stream::save`] wrote. Never panics.
    pub(crate) fn load(bytes: &[u8]) -> Result<Self, Corrupt> {
        let mut input = Input(bytes);
        let mut parts = Parts::new(&mut input)?;
        let mut next = 0;
        while !input.0.is_empty() {
            let (label, leaf) = (input.number()?, input.text()?);
            // The store has no leaves under these labels, so others do as well, which are certainly distinct.
            let (section, place) = (label >> PLACE_BITS, label & PLACE);
            next += 1;
            parts.add(self::label(section, if place == 0 { 0 } else { next }), leaf)?;
        }
        for ((_, group), section) in parts.groups.iter_mut().zip(0..) {
            group.section = section;
        }
        parts.finish(0)
    }
}

fn write_id(out: &mut Vec<u8>, id: Id) {
    varint::write(out, id.ms);
    varint::write(out, id.seq);
}

fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    varint::write(out, text.len() as u64);
    out.extend_from_slice(text);
}

fn save_group(out: &mut Vec<u8>, name: &[u8], group: &Group) {
    write_text(out, name);
    write_id(out, group.last);
    varint::write(out, group.entries_read.wrapping_add(1) as u64);
    for consumer in &group.members {
        match consumer {
            None => out.push(0),
            Some(consumer) => {
                out.push(1);
                write_text(out, &consumer.name);
                varint::write(out, consumer.seen as u64);
                varint::write(out, consumer.active.wrapping_add(1) as u64);
            }
        }
    }
}

fn save_pending(out: &mut Vec<u8>, run: &Run<Delivery>) {
    let mut before = Id::MIN;
    for delivery in &run.0 {
        let ms = delivery.id.ms.wrapping_sub(before.ms);
        varint::write(out, ms);
        varint::write(out, if ms == 0 { delivery.id.seq.wrapping_sub(before.seq) } else { delivery.id.seq });
        before = delivery.id;
        varint::write(out, Group::time_or_turn(delivery));
        varint::write(out, delivery.count);
        varint::write(out, u64::from(delivery.consumer.0));
    }
}

/// A stream that is being read, leaf by leaf: pending entries follow their group. Labels are distinct; the caller has
/// checked that, or has them numbered anew.
pub(crate) struct Parts {
    last: Id,
    max_deleted: Id,
    added: u64,
    tail: Option<Node>,
    sealed: Vec<(u64, Node)>,
    groups: Vec<(Box<[u8]>, Group)>,
    /// The pending entries of the last group.
    pending: Vec<(u64, Run<Delivery>)>,
}

impl Parts {
    /// Takes what [`Stream::save_own`] wrote from the front.
    fn new(input: &mut Input<'_>) -> Result<Self, Corrupt> {
        let (last, max_deleted, added) = (input.id()?, input.id()?, input.number()?);
        let (sealed, groups, pending) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Parts { last, max_deleted, added, tail: None, sealed, groups, pending })
    }

    /// A large stream by the end of its header.
    pub(crate) fn of_header(own: &[u8]) -> Result<Self, Corrupt> {
        let mut input = Input(own);
        let parts = Parts::new(&mut input)?;
        if input.0.is_empty() { Ok(parts) } else { Err(Corrupt("bytes after the header of a stream")) }
    }

    /// Adds a leaf.
    pub(crate) fn add(&mut self, label: u64, bytes: &[u8]) -> Result<(), Corrupt> {
        let (section, place) = (label >> PLACE_BITS, label & PLACE);
        match (section.checked_sub(1), place.checked_sub(1)) {
            (None, None) => self.tail = Some(Node::load(bytes)?),
            (None, Some(at)) => self.sealed.push((at, Node::load(bytes)?)),
            (Some(section), None) => {
                self.finish_group()?;
                let (name, mut group) = load_group(bytes)?;
                group.section = section;
                self.groups.push((name, group));
            }
            (Some(section), Some(at)) => match self.groups.last() {
                Some((_, group)) if group.section == section => self.pending.push((at, load_pending(bytes, group)?)),
                _ => return Err(Corrupt("what is pending of no group")),
            },
        }
        Ok(())
    }

    /// Gives the last group and its consumers their pending entries.
    fn finish_group(&mut self) -> Result<(), Corrupt> {
        let mut runs = std::mem::take(&mut self.pending);
        let Some((_, group)) = self.groups.last_mut() else { return Ok(()) };
        runs.sort_by_key(|(_, run)| run.first_sep());
        let mut of_consumers: Vec<Vec<Id>> = Vec::new();
        of_consumers.resize_with(group.members.len(), Vec::new);
        let mut before = None;
        for delivery in runs.iter().flat_map(|(_, run)| &run.0) {
            if before.is_some_and(|before| delivery.id <= before) {
                return Err(Corrupt("order of pending entries"));
            }
            before = Some(delivery.id);
            if let Some(ids) = of_consumers.get_mut(delivery.consumer.0 as usize) {
                ids.push(delivery.id);
            }
        }
        group.number_loaded(runs.iter_mut().flat_map(|(_, run)| &mut run.0))?;
        group.pending = Pending(Tree::assemble(runs, 1)?);
        for (consumer, ids) in group.members.iter_mut().zip(of_consumers) {
            if let Some(consumer) = consumer {
                consumer.pending = Pending(Tree::build(ids, true, |run: &mut Run<Id>, id| run.0.push(id)));
            }
        }
        Ok(())
    }

    /// The stream, as the freeze called `epoch` left it in a store (0: none did).
    pub(crate) fn finish(mut self, epoch: u64) -> Result<Stream, Corrupt> {
        self.finish_group()?;
        if self.tail.is_none() && !self.sealed.is_empty() {
            return Err(Corrupt("a stream without a last node"));
        }
        self.sealed.sort_by_key(|(_, node)| node.first);
        let mut log = Log { sealed: Tree::assemble(self.sealed, epoch)?, ..Log::default() };
        log.tail = self.tail.unwrap_or_default();
        if !log.count(self.last, self.added, self.max_deleted) {
            return Err(Corrupt("order of a stream's entries"));
        }
        let groups = Groups::loaded(self.groups, epoch).ok_or(Corrupt("duplicate group"))?;
        Ok(Stream { log, groups })
    }
}

fn load_group(bytes: &[u8]) -> Result<(Box<[u8]>, Group), Corrupt> {
    let mut input = Input(bytes);
    let name = input.text()?.into();
    let mut group = Group::new(input.id()?, (input.number()? as i64).wrapping_sub(1));
    while let Some((there, rest)) = input.0.split_first() {
        input.0 = rest;
        let consumer = match there {
            0 => None,
            1 => {
                let (name, seen) = (input.text()?.into(), input.number()? as i64);
                let active = (input.number()? as i64).wrapping_sub(1);
                Some(Consumer { name, seen, active, pending: Pending::default() })
            }
            _ => return Err(Corrupt("consumer of a group")),
        };
        if group.members.len() >= u32::MAX as usize || !group.seat(consumer) {
            return Err(Corrupt("duplicate consumer"));
        }
    }
    Ok((name, group))
}

fn load_pending(bytes: &[u8], group: &Group) -> Result<Run<Delivery>, Corrupt> {
    const ORDER: Corrupt = Corrupt("order of pending entries");
    const OWNER: Corrupt = Corrupt("pending entry without a consumer");
    let (mut input, mut run, mut before) = (Input(bytes), Vec::new(), Id::MIN);
    while !input.0.is_empty() {
        let (ms, seq) = (input.number()?, input.number()?);
        let id = Id {
            ms: before.ms.checked_add(ms).ok_or(ORDER)?,
            seq: if ms == 0 { before.seq.checked_add(seq).ok_or(ORDER)? } else { seq },
        };
        if !run.is_empty() && id <= before {
            return Err(ORDER);
        }
        before = id;
        let (time, count) = (input.number()?, input.number()?);
        let consumer = u32::try_from(input.number()?).map(Member).map_err(|_| OWNER)?;
        if consumer != Member::NOBODY && group.consumer(consumer).is_none() {
            return Err(OWNER);
        }
        run.push(Group::stored(id, time, count, consumer)?);
    }
    Ok(Run(run))
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn number(&mut self) -> Result<u64, Corrupt> {
        let (number, size) = varint::read(self.0).ok_or(CUT)?;
        self.0 = &self.0[size..];
        Ok(number)
    }

    fn id(&mut self) -> Result<Id, Corrupt> {
        Ok(Id { ms: self.number()?, seq: self.number()? })
    }

    fn text(&mut self) -> Result<&'a [u8], Corrupt> {
        varint::take(&mut self.0).ok_or(CUT)
    }
}
