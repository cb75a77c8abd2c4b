//! Streams: a listpack for each node, figures, groups.
//!
//! ```text
//! nodes, each: ID of the first entry (16 bytes, big-endian, as a string), listpack
//! length, last ID [2: first ID, greatest deleted ID, entries added]
//! groups, each: name, last ID [2: entries read], pending (ID, time, count), consumers [5: IDs that nobody has]
//! consumer: name, seen [3: active], its pending IDs
//! [4: duration, size, producers (name, entries (text, ID)), two counts, for idempotent producers, which are not kept here]
//! ```
//!
//! A listpack begins with the numbers of entries and of tombstones, the number of names, the names, and 0. An entry is
//! flags, both parts of its ID relative to the node's first, the number of fields unless they are the node's names, its
//! contents, and the number of all these pieces.

use super::input::Input;
use super::output::{self, Output};
use super::{kind, listpack};
use crate::Corrupt;
use crate::block::Elem;
use crate::stream::{Delivery, Group, Id, Node, Stream};

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

/// Appends type and value.
pub(super) fn save(out: &mut Output<'_>, stream: &Stream) {
    // The newest form only where it is needed: older Redis does not read it.
    let releases = stream.groups.iter().any(|(_, group)| group.released_len() > 0);
    out.push(if releases { kind::STREAM_LISTPACKS_5 } else { kind::STREAM_LISTPACKS_3 });
    // Redis refuses a node of deleted entries alone.
    let nodes = || {
        let sealed = stream.log.sealed.leaves_from(0).map(|(node, _)| node);
        sealed.chain([&stream.log.tail]).filter(|node| node.live > 0)
    };
    output::length(out, nodes().count() as u64);
    for node in nodes() {
        output::string(out, &raw_id(node.first));
        output::string(out, &pack(node));
    }
    let marks = stream.log.marks();
    output::length(out, marks.len);
    for id in [marks.last, marks.first, marks.max_deleted] {
        length_id(out, id);
    }
    output::length(out, marks.added);
    output::length(out, stream.groups.len() as u64);
    for (name, group) in stream.groups.iter() {
        output::string(out, name);
        save_group(out, group, marks.added);
        if releases {
            let released = group.released();
            output::length(out, released.len() as u64);
            released.iter().for_each(|delivery| out.extend_from_slice(&raw_id(delivery.id)));
        }
    }
    if releases {
        // Idempotent producers: Redis's defaults, no producer, nothing counted.
        [100, 100, 0, 0, 0].into_iter().for_each(|number| output::length(out, number));
    }
}

fn raw_id(id: Id) -> [u8; 16] {
    let mut raw = [0; 16];
    raw[..8].copy_from_slice(&id.ms.to_be_bytes());
    raw[8..].copy_from_slice(&id.seq.to_be_bytes());
    raw
}

fn length_id(out: &mut Vec<u8>, id: Id) {
    output::length(out, id.ms);
    output::length(out, id.seq);
}

fn pack(node: &Node) -> Vec<u8> {
    let mut pack = listpack::Builder::new();
    let int = |pack: &mut listpack::Builder, n: i64| pack.push_elem(Elem::Int(n));
    int(&mut pack, i64::from(node.live));
    int(&mut pack, i64::from(node.deleted));
    int(&mut pack, node.names().count() as i64);
    node.names().for_each(|name| pack.push_elem(name));
    int(&mut pack, 0);
    for raw in node.raw() {
        let entry = node.entry(raw);
        let fields = entry.len() as i64;
        let flags = if raw.deleted { DELETED } else { 0 } | if raw.is_same() { SAME_FIELDS } else { 0 };
        int(&mut pack, flags);
        int(&mut pack, raw.id.ms.wrapping_sub(node.first.ms) as i64);
        int(&mut pack, raw.id.seq.wrapping_sub(node.first.seq) as i64);
        if !raw.is_same() {
            int(&mut pack, fields);
        }
        for (name, value) in entry.pairs() {
            if !raw.is_same() {
                pack.push_elem(name);
            }
            pack.push_elem(value);
        }
        int(&mut pack, 3 + fields + if raw.is_same() { 0 } else { fields + 1 });
    }
    pack.finish()
}

fn save_group(out: &mut Output<'_>, group: &Group, added: u64) {
    length_id(out, group.last);
    // XSETID may have set the number of entries back.
    output::length(out, group.entries_read.min(i64::try_from(added).unwrap_or(i64::MAX)) as u64);
    output::length(out, group.pending_len());
    for delivery in group.pending_from(Id::MIN) {
        out.extend_from_slice(&raw_id(delivery.id));
        out.extend_from_slice(&delivery.time.to_le_bytes());
        output::length(out, delivery.count);
    }
    output::length(out, group.consumer_count() as u64);
    for (_, consumer) in group.consumers() {
        output::string(out, &consumer.name);
        out.extend_from_slice(&consumer.seen.to_le_bytes());
        out.extend_from_slice(&consumer.active.to_le_bytes());
        output::length(out, consumer.pending_len());
        consumer.pending_from(Id::MIN).for_each(|id| out.extend_from_slice(&raw_id(id)));
    }
}

/// Reads a value of one of the five types.
pub(super) fn load(kind: u8, input: &mut Input<'_>) -> Result<Stream, Corrupt> {
    let mut stream = Stream::new();
    let mut before = None;
    for _ in 0..input.length()? {
        let first = input.string()?;
        let first = parse_id(first.as_ref().try_into().map_err(|_| Corrupt("ID of a node"))?);
        if before.is_some_and(|before| first <= before) {
            return Err(Corrupt("order of a stream's nodes"));
        }
        before = Some(first);
        unpack(first, &input.string()?, |node| stream.log.push_node(node))?;
    }
    let (len, last) = (input.length()?, load_id(input)?);
    let (mut max_deleted, mut added) = (Id::MIN, len);
    if kind != kind::STREAM_LISTPACKS {
        // The first ID is where the entries are.
        load_id(input)?;
        (max_deleted, added) = (load_id(input)?, input.length()?);
    }
    if added < len || added > i64::MAX as u64 {
        return Err(Corrupt("Stream entries_added inconsistent with length"));
    }
    if !stream.log.count(last, added, max_deleted) || stream.len() != len {
        return Err(Corrupt("length or order of a stream"));
    }
    for _ in 0..input.length()? {
        let name = input.string()?;
        let group = load_group(kind, input, &stream)?;
        if !stream.groups.create(&name, group) {
            return Err(Corrupt("duplicate group"));
        }
    }
    if matches!(kind, kind::STREAM_LISTPACKS_4 | kind::STREAM_LISTPACKS_5) {
        skip_producers(input)?;
    }
    Ok(stream)
}

/// Passes over what Redis keeps for idempotent producers.
fn skip_producers(input: &mut Input<'_>) -> Result<(), Corrupt> {
    let (_duration, _size) = (input.length()?, input.length()?);
    for _ in 0..input.length()? {
        input.string()?;
        for _ in 0..input.length()? {
            input.string()?;
            load_id(input)?;
        }
    }
    let (_added, _duplicates) = (input.length()?, input.length()?);
    Ok(())
}

fn parse_id(raw: [u8; 16]) -> Id {
    let half = |at: usize| u64::from_be_bytes(std::array::from_fn(|i| raw[at + i]));
    Id { ms: half(0), seq: half(8) }
}

fn load_id(input: &mut Input<'_>) -> Result<Id, Corrupt> {
    Ok(Id { ms: input.length()?, seq: input.length()? })
}

/// The pieces of a listpack.
struct Pieces<'a>(listpack::Entries<'a>);

impl<'a> Pieces<'a> {
    fn elem(&mut self) -> Result<Elem<'a>, Corrupt> {
        let elem = self.0.next().ok_or(Corrupt("listpack of a stream is cut short"))??;
        // Redis may keep a number as text; here equal strings are equal elements.
        Ok(if let Elem::Bytes(bytes) = elem { Elem::from_bytes(bytes) } else { elem })
    }

    fn int(&mut self) -> Result<i64, Corrupt> {
        match self.elem()? {
            Elem::Int(int) => Ok(int),
            Elem::Bytes(_) => Err(Corrupt("number in a stream")),
        }
    }

    /// A number of further pieces.
    fn count(&mut self) -> Result<usize, Corrupt> {
        usize::try_from(self.int()?).map_err(|_| Corrupt("number of fields"))
    }
}

/// Calls `push` with the node a listpack holds; with several where a deleted entry's ID would stand in the way of
/// order.
fn unpack(first: Id, bytes: &[u8], mut push: impl FnMut(Node)) -> Result<(), Corrupt> {
    let mut pieces = Pieces(listpack::entries(bytes)?);
    let (live, deleted, names) = (pieces.int()?, pieces.int()?, pieces.count()?);
    let names = (0..names).map(|_| pieces.elem()).collect::<Result<Vec<_>, _>>()?;
    if pieces.int()? != 0 {
        return Err(Corrupt("end of a stream's names"));
    }
    let open = |id: Id| Node::open(id, names.iter().copied(), bytes.len());
    let mut node = open(first);
    let (mut seen, mut buried) = (0, 0);
    let mut pairs = Vec::new();
    let total = live.checked_add(deleted).filter(|_| live > 0 && deleted >= 0).ok_or(Corrupt("number of entries"))?;
    for _ in 0..total {
        let flags = pieces.int()?;
        let (ms, seq) = (pieces.int()?, pieces.int()?);
        let id = Id { ms: first.ms.wrapping_add_signed(ms), seq: first.seq.wrapping_add_signed(seq) };
        pairs.clear();
        let mut count = 3;
        if flags & SAME_FIELDS != 0 {
            for name in &names {
                pairs.push((*name, pieces.elem()?));
            }
            count += names.len();
        } else {
            let fields = pieces.count()?;
            for _ in 0..fields {
                pairs.push((pieces.elem()?, pieces.elem()?));
            }
            count += 1 + 2 * fields;
        }
        if pieces.int()? != count as i64 {
            return Err(Corrupt("number of an entry's pieces"));
        }
        let is_deleted = flags & DELETED != 0;
        (seen, buried) = (seen + i64::from(!is_deleted), buried + i64::from(is_deleted));
        let beyond = node.live + node.deleted > 0 && id <= node.last;
        match (beyond, is_deleted) {
            (true, true) => continue,
            (true, false) if node.live > 0 && id <= node.last_live => {
                return Err(Corrupt("order of a stream's entries"));
            }
            (true, false) => push(std::mem::replace(&mut node, open(id))),
            (false, _) => {}
        }
        if is_deleted {
            node.push_deleted(id, pairs.len(), pairs.iter().copied());
        } else {
            node.push(id, pairs.len(), pairs.iter().copied());
        }
    }
    if (seen, buried) != (live, deleted) || pieces.0.next().is_some() {
        return Err(Corrupt("number of a stream's entries"));
    }
    if node.live > 0 {
        push(node);
    }
    Ok(())
}

fn load_group(kind: u8, input: &mut Input<'_>, stream: &Stream) -> Result<Group, Corrupt> {
    let last = load_id(input)?;
    let entries_read = if kind == kind::STREAM_LISTPACKS {
        stream.log.marks().entries_before(last).map_or(-1, |n| n as i64)
    } else {
        input.length()? as i64
    };
    if entries_read != -1 && (entries_read < 0 || entries_read as u64 > stream.log.marks().added) {
        return Err(Corrupt("Stream cgroup entries_read inconsistent with entries_added"));
    }
    let mut group = Group::new(last, entries_read);
    // The consumers name their entries.
    let (mut pending, mut owned) = (std::collections::BTreeMap::new(), Vec::new());
    for _ in 0..input.length()? {
        let id = parse_id(input.array()?);
        let (time, count) = (i64::from_le_bytes(input.array()?), input.length()?);
        if pending.insert(id, (time, count)).is_some() {
            return Err(Corrupt("duplicate pending entry"));
        }
    }
    for _ in 0..input.length()? {
        let name = input.string()?;
        let seen = i64::from_le_bytes(input.array()?);
        let has_active = !matches!(kind, kind::STREAM_LISTPACKS | kind::STREAM_LISTPACKS_2);
        let active = if has_active { i64::from_le_bytes(input.array()?) } else { seen };
        let (member, new) = group.enroll(&name, seen);
        match group.consumer_mut(member) {
            Some(consumer) if new => consumer.active = active,
            _ => return Err(Corrupt("Duplicate stream consumer detected")),
        }
        for _ in 0..input.length()? {
            let id = parse_id(input.array()?);
            let Some((time, count)) = pending.remove(&id) else {
                let is_owned = owned.iter().any(|delivery: &Delivery| delivery.id == id);
                return Err(Corrupt(match is_owned {
                    true => "Stream consumer PEL entry already has a consumer assigned",
                    false => "pending entry of a consumer",
                }));
            };
            owned.push(Delivery::new(id, time, count, member));
        }
    }
    // Entries of equal age are claimed in the order of IDs, whatever their consumers.
    owned.sort_unstable_by_key(|delivery| delivery.id);
    owned.into_iter().for_each(|delivery| group.deliver(delivery));
    if kind == kind::STREAM_LISTPACKS_5 {
        for _ in 0..input.length()? {
            let id = parse_id(input.array()?);
            let (_, count) = pending.remove(&id).ok_or(Corrupt("released entry that is not pending"))?;
            group.deliver(Delivery::released(id, count));
        }
    }
    if pending.is_empty() { Ok(group) } else { Err(Corrupt("pending entry without a consumer")) }
}
