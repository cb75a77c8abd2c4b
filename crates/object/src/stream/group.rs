//! Consumer groups: how far a group has read, its consumers, and its delivered entries without an acknowledgement.
//!
//! A pending entry belongs to a consumer, or to none if it was released (XNACK). Reading with CLAIM wants the oldest
//! first: released entries come before all others, in the order of release, and delivered ones follow, by time and by
//! turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::id::Id;
use super::log::Marks;
use super::order::Place;
use super::pending::{Pending, Record};
use crate::saved::Ledger;

/// An entry that was delivered and is not acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// The entry. It may have been deleted since.
    pub id: Id,
    /// When it was delivered last, in unix milliseconds; 0 if it was released.
    pub time: i64,
    /// How often it was delivered.
    pub count: u64,
    /// To whom; [`Member::NOBODY`] if it was released.
    pub consumer: Member,
    /// Orders entries that were delivered at the same time, and released ones.
    pub(super) turn: u32,
}

/// Most deliveries that are counted: where Redis stops, too.
pub const COUNT_MAX: u64 = i64::MAX as u64;

impl Delivery {
    /// The delivery of an entry at a time, in unix milliseconds, to a consumer, for the `count`th time.
    pub fn new(id: Id, time: i64, count: u64, consumer: Member) -> Self {
        Delivery { id, time, count, consumer, turn: 0 }
    }

    /// An entry without a consumer.
    pub fn released(id: Id, count: u64) -> Self {
        Delivery::new(id, 0, count, Member::NOBODY)
    }

    /// True if it has no consumer.
    pub fn is_released(&self) -> bool {
        self.consumer == Member::NOBODY
    }

    /// Delivered once more, at `time` in unix milliseconds, to the same consumer.
    pub fn again(self, time: i64) -> Self {
        Delivery { time, count: self.count_again(), ..self }
    }

    /// How often it has been delivered once it is delivered again.
    pub fn count_again(&self) -> u64 {
        if self.count >= COUNT_MAX { self.count } else { self.count + 1 }
    }

    /// For how many milliseconds it has been pending at `now`, in unix milliseconds.
    pub fn idle(&self, now: i64) -> i64 {
        now.saturating_sub(self.time).max(0)
    }
}

impl Record for Delivery {
    fn id(&self) -> Id {
        self.id
    }
}

/// A consumer's number in its group. Not reused while the consumer is there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Member(pub(super) u32);

impl Member {
    /// No consumer.
    pub const NOBODY: Member = Member(u32::MAX);
}

/// A consumer.
#[derive(Clone)]
pub struct Consumer {
    /// Its name.
    pub name: Arc<[u8]>,
    /// When it last tried to read or claim, in unix milliseconds.
    pub seen: i64,
    /// When it last read or claimed something, in unix milliseconds; -1: never.
    pub active: i64,
    pub(super) pending: Pending<Id>,
}

impl Consumer {
    /// Number of pending entries.
    pub fn pending_len(&self) -> u64 {
        self.pending.len()
    }

    /// IDs of pending entries from `start` on.
    pub fn pending_from(&self, start: Id) -> impl Iterator<Item = Id> {
        self.pending.from(start)
    }
}

/// A consumer group. Cloning costs as much as there are consumers, whatever is pending.
#[derive(Clone)]
pub struct Group {
    /// The ID of the last entry that was delivered as a new one.
    pub last: Id,
    /// How many entries the group has read, as far as that is known; -1: unknown.
    pub entries_read: i64,
    pub(super) pending: Pending<Delivery>,
    /// How many of them have no consumer.
    pub(super) released: u64,
    /// Pending entries, the oldest first. It is built at the first use, and kept from then on.
    pub(super) oldest: Option<Pending<Place>>,
    /// The next turn.
    pub(super) turn: u32,
    names: BTreeMap<Arc<[u8]>, Member>,
    pub(super) members: Vec<Option<Consumer>>,
    /// Its number among the groups of its stream, for [`crate::saved`].
    pub(super) section: u64,
    /// The mark at its last change.
    pub(super) stamp: u32,
}

impl Group {
    /// A group that has read up to `last`.
    pub fn new(last: Id, entries_read: i64) -> Self {
        let (pending, names, members) = (Pending::default(), BTreeMap::new(), Vec::new());
        let (released, oldest, turn) = (0, None, 0);
        Group { last, entries_read, pending, released, oldest, turn, names, members, section: 0, stamp: 0 }
    }

    /// Notes that it is about to change.
    fn changes(&mut self, mark: u32) {
        self.stamp = mark;
        self.pending.0.follow(mark);
    }

    /// Notes that `id` is being delivered as a new entry: `marks` are the stream's.
    pub fn advance(&mut self, id: Id, marks: &Marks) {
        if id <= self.last {
            return;
        }
        // Entries that were trimmed unread count as read, so before the first entry there is nothing to add one to.
        if self.entries_read != -1 && self.last >= marks.first && !marks.has_gap_from(self.last) {
            self.entries_read = self.entries_read.wrapping_add(1);
        } else if marks.added > 0 {
            self.entries_read = marks.entries_before(id).map_or(-1, |n| n as i64);
        }
        self.last = id;
    }

    /// How many entries of the stream the group has still to read; `None`: unknown.
    pub fn lag(&self, marks: &Marks) -> Option<i64> {
        let added = marks.added as i64;
        if marks.added == 0 || marks.len == 0 {
            Some(0)
        } else if self.last < marks.first && marks.max_deleted < marks.first {
            Some(marks.len as i64)
        } else if self.entries_read != -1 && !marks.has_gap_from(self.last) {
            Some(added.wrapping_sub(self.entries_read))
        } else {
            marks.entries_before(self.last).map(|read| added.wrapping_sub(read as i64))
        }
    }

    /// Number of consumers.
    pub fn consumer_count(&self) -> usize {
        self.names.len()
    }

    /// Consumers, by name.
    pub fn consumers(&self) -> impl Iterator<Item = (Member, &Consumer)> {
        self.names.values().filter_map(|member| Some((*member, self.consumer(*member)?)))
    }

    /// The number of a consumer.
    pub fn find(&self, name: &[u8]) -> Option<Member> {
        self.names.get(name).copied()
    }

    /// A consumer.
    pub fn consumer(&self, member: Member) -> Option<&Consumer> {
        self.members.get(member.0 as usize)?.as_ref()
    }

    /// A consumer's name; empty if there is none of this number.
    pub fn name(&self, member: Member) -> &[u8] {
        self.consumer(member).map_or(&[], |consumer| &consumer.name)
    }

    /// A consumer, to be changed.
    pub fn consumer_mut(&mut self, member: Member) -> Option<&mut Consumer> {
        self.members.get_mut(member.0 as usize)?.as_mut()
    }

    /// Makes a consumer that was seen at `now`, if there is none of this name. Its number, and whether it is new.
    pub fn enroll(&mut self, name: &[u8], now: i64) -> (Member, bool) {
        if let Some(member) = self.find(name) {
            return (member, false);
        }
        let name: Arc<[u8]> = name.into();
        let consumer = Consumer { name: name.clone(), seen: now, active: -1, pending: Pending::default() };
        let at = self.members.iter().position(Option::is_none).unwrap_or(self.members.len());
        if at == self.members.len() {
            self.members.push(None);
        }
        self.members[at] = Some(consumer);
        let member = Member(at as u32);
        self.names.insert(name, member);
        (member, true)
    }

    /// Deletes a consumer with all that is pending for it. How much that was; `None`: there is no such consumer.
    pub fn dismiss(&mut self, name: &[u8]) -> Option<u64> {
        let member = self.names.remove(name)?;
        let consumer = self.members.get_mut(member.0 as usize)?.take()?;
        let len = consumer.pending.len();
        // One by one, or all at once if that is less work.
        if len < self.pending.len() / 64 {
            for id in consumer.pending.from(Id::MIN) {
                self.take(id);
            }
        } else if len > 0 {
            self.oldest = None;
            self.pending.retain(|delivery| delivery.consumer != member);
        }
        Some(len)
    }

    /// Number of pending entries.
    pub fn pending_len(&self) -> u64 {
        self.pending.len()
    }

    /// The pending entry of an ID.
    pub fn delivery(&self, id: Id) -> Option<Delivery> {
        self.pending.get(id)
    }

    /// Pending entries from `start` on.
    pub fn pending_from(&self, start: Id) -> impl Iterator<Item = Delivery> {
        self.pending.from(start)
    }

    /// IDs of the first and the last pending entry.
    pub fn pending_ends(&self) -> Option<(Id, Id)> {
        Some((self.pending.first()?.id, self.pending.last()?.id))
    }

    /// Makes an entry pending for a consumer, or changes whose it is, when and how often it was delivered.
    pub fn deliver(&mut self, delivery: Delivery) {
        let delivery = Delivery { turn: self.take_turn(), ..delivery };
        let before = self.pending.put(delivery);
        self.released += u64::from(delivery.is_released());
        self.released -= u64::from(before.is_some_and(|before| before.is_released()));
        if let Some(oldest) = &mut self.oldest {
            before.map(|before| oldest.take(before.place()));
            oldest.put(Place::of(&delivery));
        }
        let before = before.map(|before| before.consumer);
        if before == Some(delivery.consumer) {
            return;
        }
        if let Some(consumer) = before.and_then(|member| self.consumer_mut(member)) {
            consumer.pending.take(delivery.id);
        }
        if let Some(consumer) = self.consumer_mut(delivery.consumer) {
            consumer.pending.put(delivery.id);
        }
    }

    /// An entry is no longer pending. False: it was not.
    pub fn acknowledge(&mut self, id: Id) -> bool {
        let Some(delivery) = self.take(id) else { return false };
        if let Some(consumer) = self.consumer_mut(delivery.consumer) {
            consumer.pending.take(id);
        }
        true
    }

    /// Puts a consumer into the next place, or leaves that empty. False: there is one of this name.
    pub(super) fn seat(&mut self, consumer: Option<Consumer>) -> bool {
        let member = Member(self.members.len() as u32);
        let new = consumer.as_ref().is_none_or(|c| self.names.insert(c.name.clone(), member).is_none());
        self.members.push(consumer);
        new
    }

    /// Number of pending entries without a consumer.
    pub fn released_len(&self) -> u64 {
        self.released
    }

    fn memory(&self) -> usize {
        let oldest = self.oldest.as_ref().map_or(0, Pending::memory);
        let consumers = self.consumers().map(|(_, consumer)| consumer.pending.memory() + consumer.name.len() + 64);
        oldest
            + self.pending.memory()
            + self.members.capacity() * size_of::<Option<Consumer>>()
            + consumers.sum::<usize>()
    }

    fn shed(&mut self, budget: &mut usize) {
        self.pending.shed(budget);
        if let Some(oldest) = &mut self.oldest {
            oldest.shed(budget);
        }
        for consumer in self.members.iter_mut().flatten() {
            if *budget == 0 {
                return;
            }
            consumer.pending.shed(budget);
        }
    }
}

/// The groups of a stream, by name. Shared with clones until one of them changes.
#[derive(Clone, Default)]
pub struct Groups {
    map: Option<Arc<BTreeMap<Box<[u8]>, Group>>>,
    /// Of the stream as a whole; groups are its leaves.
    pub(super) ledger: Box<Ledger>,
}

/// Most groups that have numbers of their own: twenty bits of a label.
pub(crate) const SECTIONS_MAX: u64 = if cfg!(test) { 8 } else { (1 << 20) - 1 };

impl Groups {
    /// Number of groups.
    pub fn len(&self) -> usize {
        self.map.as_ref().map_or(0, |groups| groups.len())
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Groups with their names, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Group)> {
        self.map.iter().flat_map(|groups| groups.iter()).map(|(name, group)| (&**name, group))
    }

    /// A group.
    pub fn get(&self, name: &[u8]) -> Option<&Group> {
        self.map.as_ref()?.get(name)
    }

    /// True if some group still has to do with an entry: it has not read as far yet, or the entry is pending in it.
    pub fn refer_to(&self, id: Id) -> bool {
        self.iter().any(|(_, group)| group.last < id || group.delivery(id).is_some())
    }

    /// An entry is no longer pending in any group. False: it was pending in none.
    pub fn acknowledge(&mut self, id: Id) -> bool {
        if !self.iter().any(|(_, group)| group.delivery(id).is_some()) {
            return false;
        }
        let mark = self.ledger.mark();
        let groups = self.map.as_mut().map(Arc::make_mut).into_iter().flatten();
        for (_, group) in groups.filter(|(_, group)| group.delivery(id).is_some()) {
            group.changes(mark);
            group.acknowledge(id);
        }
        true
    }

    /// A group, to be changed.
    pub fn get_mut(&mut self, name: &[u8]) -> Option<&mut Group> {
        let group = Arc::make_mut(self.map.as_mut()?).get_mut(name)?;
        group.changes(self.ledger.mark());
        Some(group)
    }

    /// Adds a group. False: there is one of this name.
    pub fn create(&mut self, name: &[u8], mut group: Group) -> bool {
        let groups = Arc::make_mut(self.map.get_or_insert_default());
        if groups.contains_key(name) {
            return false;
        }
        group.section = self.ledger.count_up();
        if group.section >= SECTIONS_MAX {
            let all = groups.values_mut().chain([&mut group]).zip(0..);
            all.for_each(|(group, section)| group.section = section);
            self.ledger.renumbered(groups.len() as u64 + 1);
        }
        group.changes(self.ledger.mark());
        // The store has nothing under its number, whatever it was before.
        if self.ledger.mark() > 0 {
            group.pending.0.ledger_mut().lose();
        }
        self.ledger.leaves += 1;
        groups.insert(name.into(), group);
        true
    }

    /// Deletes a group.
    pub fn destroy(&mut self, name: &[u8]) -> Option<Group> {
        let groups = Arc::make_mut(self.map.as_mut()?);
        let gone = groups.remove(name);
        if groups.is_empty() {
            self.map = None;
        }
        if let Some(gone) = &gone {
            self.ledger.leaves -= 1;
            self.ledger.bury(gone.section, true);
        }
        gone
    }

    /// Groups with their names and numbers as they were stored, and their ledger. `None`: two have one name.
    pub(super) fn loaded(groups: Vec<(Box<[u8]>, Group)>, epoch: u64) -> Option<Self> {
        let n = groups.len();
        let next = groups.iter().map(|(_, group)| group.section + 1).max().unwrap_or(0);
        let map: BTreeMap<_, _> = groups.into_iter().collect();
        let ledger = Box::new(Ledger::loaded(epoch, n as u64, next));
        (map.len() == n).then(|| Groups { map: (n > 0).then(|| Arc::new(map)), ledger })
    }

    pub(super) fn memory(&self) -> usize {
        self.iter().map(|(name, group)| name.len() + size_of::<(Box<[u8]>, Group)>() + group.memory()).sum()
    }

    pub(super) fn shed(&mut self, budget: &mut usize) {
        let Some(groups) = self.map.as_mut().and_then(Arc::get_mut) else { return };
        while *budget > 0
            && let Some(mut last) = groups.last_entry()
        {
            last.get_mut().shed(budget);
            if *budget == 0 {
                return;
            }
            last.remove();
            *budget -= 1;
        }
    }
}
