//! A stream as bytes.
//!
//! ```text
//! version (1): 1, or 2 where entries were released
//! last, max_deleted: ms, seq; added; number of nodes
//! node: number of entries; number of names, names; entries
//! entry: ms above the one before, seq (above the one before in the same ms); fields + 1 and pairs, or 0 and values
//! number of groups; group: name; last: ms, seq; entries_read + 1; number of consumers, consumers; pending
//! consumer: name; seen; active + 1
//! pending: how many; ms, seq; time; count; number of the consumer; in version 2 that and 1, or 0 for nobody, with a turn for the time
//! ```
//!
//! Numbers are in base 128, texts have their length before them. Tombstones are left out.

use super::Stream;
use super::group::{Group, Member};
use super::id::Id;
use super::node::Node;
use crate::Corrupt;
use crate::block::Elem;
use crate::hashed::varint;

const VERSION: u8 = 1;
/// The version of a stream with entries without a consumer.
const VERSION_RELEASED: u8 = 2;
const CUT: Corrupt = Corrupt("stream cut short");

fn write_id(out: &mut Vec<u8>, id: Id) {
    varint::write(out, id.ms);
    varint::write(out, id.seq);
}

fn write_elem(out: &mut Vec<u8>, elem: Elem<'_>) {
    write_text(out, elem.as_bytes(&mut itoa::Buffer::new()));
}

fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    varint::write(out, text.len() as u64);
    out.extend_from_slice(text);
}

impl Stream {
    /// Appends the stream's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let marks = self.log.marks();
        let releases = self.groups.iter().any(|(_, group)| group.released_len() > 0);
        out.push(if releases { VERSION_RELEASED } else { VERSION });
        write_id(out, marks.last);
        write_id(out, marks.max_deleted);
        varint::write(out, marks.added);
        varint::write(out, self.log.nodes());
        let tail = Some(&self.log.tail).filter(|tail| tail.live > 0);
        self.log.sealed.leaves_from(0).map(|(node, _)| node).chain(tail).for_each(|node| encode_node(out, node));
        varint::write(out, self.groups.len() as u64);
        for (name, group) in self.groups.iter() {
            write_text(out, name);
            encode_group(out, group, releases);
        }
    }

    /// Reads what [`Stream::encode`] wrote. Never panics; allocates no more than a small multiple of `bytes`.
    ///
    /// # Errors
    ///
    /// The bytes are no stream.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let mut input = Input(bytes);
        let releases = match input.byte()? {
            VERSION => false,
            VERSION_RELEASED => true,
            _ => return Err(Corrupt("unknown version of a stream")),
        };
        let mut stream = Stream::default();
        let (last, max_deleted, added) = (input.id()?, input.id()?, input.number()?);
        for _ in 0..input.number()? {
            stream.log.push_node(decode_node(&mut input)?);
        }
        if !stream.log.count(last, added, max_deleted) {
            return Err(Corrupt("order of a stream's entries"));
        }
        for _ in 0..input.number()? {
            let name = input.text()?;
            let group = decode_group(&mut input, releases)?;
            if !stream.groups.create(name, group) {
                return Err(Corrupt("duplicate group"));
            }
        }
        if input.0.is_empty() { Ok(stream) } else { Err(Corrupt("bytes after a stream")) }
    }
}

fn encode_node(out: &mut Vec<u8>, node: &Node) {
    varint::write(out, u64::from(node.live));
    varint::write(out, node.names().count() as u64);
    node.names().for_each(|name| write_elem(out, name));
    let mut before = Id::MIN;
    for raw in node.raw().filter(|raw| !raw.deleted) {
        let ms = raw.id.ms - before.ms;
        varint::write(out, ms);
        varint::write(out, if ms == 0 { raw.id.seq - before.seq } else { raw.id.seq });
        before = raw.id;
        let entry = node.entry(raw);
        varint::write(out, if raw.is_same() { 0 } else { entry.len() as u64 + 1 });
        for (name, value) in entry.pairs() {
            if !raw.is_same() {
                write_elem(out, name);
            }
            write_elem(out, value);
        }
    }
}

fn decode_node(input: &mut Input<'_>) -> Result<Node, Corrupt> {
    let count = input.number()?;
    let names = input.count()?;
    let names = (0..names).map(|_| input.text().map(Elem::from_bytes)).collect::<Result<Vec<_>, _>>()?;
    let mut node: Option<Node> = None;
    let mut before = Id::MIN;
    let mut pairs = Vec::new();
    for _ in 0..count {
        let (ms, seq) = (input.number()?, input.number()?);
        const ORDER: Corrupt = Corrupt("ID of a stream's entry");
        let id = Id {
            ms: before.ms.checked_add(ms).ok_or(ORDER)?,
            seq: if ms == 0 { before.seq.checked_add(seq).ok_or(ORDER)? } else { seq },
        };
        if id <= before {
            return Err(ORDER);
        }
        before = id;
        pairs.clear();
        match input.number()? {
            0 => {
                for name in &names {
                    pairs.push((*name, Elem::from_bytes(input.text()?)));
                }
            }
            fields => {
                for _ in 1..fields {
                    pairs.push((Elem::from_bytes(input.text()?), Elem::from_bytes(input.text()?)));
                }
            }
        }
        let node = node.get_or_insert_with(|| Node::open(id, names.iter().copied(), 0));
        node.push(id, pairs.len(), pairs.iter().copied());
        if node.size() > u32::MAX as usize / 2 {
            return Err(Corrupt("node of a stream is too large"));
        }
    }
    node.ok_or(Corrupt("empty node of a stream"))
}

fn encode_group(out: &mut Vec<u8>, group: &Group, releases: bool) {
    write_id(out, group.last);
    varint::write(out, group.entries_read.wrapping_add(1) as u64);
    varint::write(out, group.consumer_count() as u64);
    let mut numbers = Vec::new();
    for (member, consumer) in group.consumers() {
        numbers.push(member);
        write_text(out, &consumer.name);
        varint::write(out, consumer.seen as u64);
        varint::write(out, consumer.active.wrapping_add(1) as u64);
    }
    // Consumers are numbered by name here: numbers in memory depend on their history.
    let mut places: Vec<_> = numbers.iter().copied().zip(0u64..).collect();
    places.sort_unstable();
    // Turns count from 0 here, whatever the history in memory.
    let mut turns: Vec<_> = group.released().iter().map(|delivery| delivery.id).zip(0u64..).collect();
    turns.sort_unstable();
    varint::write(out, group.pending_len());
    for delivery in group.pending_from(Id::MIN) {
        write_id(out, delivery.id);
        let turn = turns.binary_search_by_key(&delivery.id, |(id, _)| *id).ok().and_then(|at| turns.get(at));
        varint::write(out, turn.map_or(delivery.time as u64, |(_, turn)| *turn));
        varint::write(out, delivery.count);
        let place = places.binary_search_by_key(&delivery.consumer, |(member, _)| *member);
        let number = place.ok().and_then(|at| places.get(at)).map(|(_, number)| *number + u64::from(releases));
        varint::write(out, number.unwrap_or(0));
    }
}

fn decode_group(input: &mut Input<'_>, releases: bool) -> Result<Group, Corrupt> {
    let last = input.id()?;
    let mut group = Group::new(last, (input.number()? as i64).wrapping_sub(1));
    let mut members = Vec::new();
    for _ in 0..input.number()? {
        let name = input.text()?;
        let (member, new) = group.enroll(name, input.number()? as i64);
        let active = (input.number()? as i64).wrapping_sub(1);
        if let Some(consumer) = group.consumer_mut(member).filter(|_| new) {
            consumer.active = active;
        } else {
            return Err(Corrupt("duplicate consumer"));
        }
        members.push(member);
    }
    let (mut before, mut released) = (None, Vec::new());
    for _ in 0..input.number()? {
        let id = input.id()?;
        if before.is_some_and(|before| id <= before) {
            return Err(Corrupt("order of pending entries"));
        }
        before = Some(id);
        let (time, count, number) = (input.number()?, input.number()?, input.number()?);
        let consumer = match number.checked_sub(u64::from(releases)) {
            None => Some(Member::NOBODY),
            Some(number) => usize::try_from(number).ok().and_then(|at| members.get(at).copied()),
        };
        let consumer = consumer.ok_or(Corrupt("pending entry without a consumer"))?;
        let delivery = Group::stored(id, time, count, consumer)?;
        match consumer {
            Member::NOBODY => released.push(delivery),
            _ => group.deliver(delivery),
        }
    }
    // Released entries come back in the order in which they were released.
    released.sort_unstable_by_key(|delivery| delivery.turn);
    released.into_iter().for_each(|delivery| group.deliver(delivery));
    Ok(group)
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> Result<u8, Corrupt> {
        let (&byte, rest) = self.0.split_first().ok_or(CUT)?;
        self.0 = rest;
        Ok(byte)
    }

    fn number(&mut self) -> Result<u64, Corrupt> {
        let (number, size) = varint::read(self.0).ok_or(CUT)?;
        self.0 = &self.0[size..];
        Ok(number)
    }

    /// A number of things that take a byte at least.
    fn count(&mut self) -> Result<usize, Corrupt> {
        let count = self.number()?;
        usize::try_from(count).ok().filter(|count| *count <= self.0.len()).ok_or(CUT)
    }

    fn id(&mut self) -> Result<Id, Corrupt> {
        Ok(Id { ms: self.number()?, seq: self.number()? })
    }

    fn text(&mut self) -> Result<&'a [u8], Corrupt> {
        varint::take(&mut self.0).ok_or(CUT)
    }
}
