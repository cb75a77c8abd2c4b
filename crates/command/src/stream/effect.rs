//! The effects of streams.
//!
//! IDs are two varints. The values of `*` and `$` are written out, trimming is the number of entries it removed, and
//! reading as a group names its begin and end. Replay finds the same entries there.

use keyspace::{Db, Key};
use object::stream::{Delivery, Group, Id};
use object::{Corrupt, Limits, Stream};

use crate::effects::{Reader, Writer, op};

/// Payload: ID, entries trimmed in front afterwards (varint), number of fields (varint), fields and values (bytes).
pub(super) const ADD: u8 = op::STREAMS;
/// Payload: number of entries removed in front (varint).
pub(super) const TRIM: u8 = op::STREAMS + 1;
/// Payload: IDs.
pub(super) const DELETE: u8 = op::STREAMS + 2;
/// Payload: last ID, entries added (varint), greatest deleted ID.
pub(super) const MARKS: u8 = op::STREAMS + 3;
/// A group was made, the stream perhaps too. Payload: name, last ID, entries read (int).
pub(super) const GROUP: u8 = op::STREAMS + 4;
/// Payload: name of the group.
pub(super) const GROUP_GONE: u8 = op::STREAMS + 5;
/// Payload: name of the group, last ID, entries read (int).
pub(super) const POSITION: u8 = op::STREAMS + 6;
/// Payload: names of group and consumer, when it was made (int).
pub(super) const CONSUMER: u8 = op::STREAMS + 7;
/// Payload: names of group and consumer.
pub(super) const CONSUMER_GONE: u8 = op::STREAMS + 8;
/// Entries were delivered for the first time. Payload: names of group and consumer, time (int), 1 if none became
/// pending, the group's last ID before and after, entries read (int).
pub(super) const DELIVER: u8 = op::STREAMS + 9;
/// Entries were delivered again to their consumer. Payload: name of the group, time (int), IDs.
pub(super) const AGAIN: u8 = op::STREAMS + 10;
/// Payload: names of group and consumer, time (int), number of entries (varint), their ID, time (int) and count
/// (varint).
pub(super) const CLAIM: u8 = op::STREAMS + 11;
/// Payload: name of the group, IDs.
pub(super) const ACKNOWLEDGE: u8 = op::STREAMS + 12;
/// Entries behind the first were trimmed, which leaves no gap as deleting does. Payload: IDs.
pub(super) const TRIM_BETWEEN: u8 = op::STREAMS + 13;
/// Entries are no longer pending in any group. Payload: IDs.
pub(super) const UNREFERENCE: u8 = op::STREAMS + 14;
/// Pending entries have no consumer any more, in this order. Payload: name of the group, number of entries (varint),
/// their ID and how often they were delivered (varint).
pub(super) const RELEASE: u8 = op::STREAMS + 15;

impl Writer<'_> {
    pub(super) fn id(&mut self, id: Id) {
        self.varint(id.ms);
        self.varint(id.seq);
    }

    pub(super) fn ids(&mut self, ids: &[Id]) {
        self.varint(ids.len() as u64);
        ids.iter().for_each(|id| self.id(*id));
    }
}

impl Reader<'_> {
    fn id(&mut self) -> Result<Id, Corrupt> {
        Ok(Id { ms: self.varint()?, seq: self.varint()? })
    }

    /// Calls `each` with IDs, one after the other.
    fn each_id(&mut self, mut each: impl FnMut(Id)) -> Result<(), Corrupt> {
        for _ in 0..self.varint()? {
            each(self.id()?);
        }
        Ok(())
    }
}

const NO_STREAM: Corrupt = Corrupt("effect on a stream that is not there");
const NO_GROUP: Corrupt = Corrupt("effect on a consumer group that is not there");

/// Applies an effect of this family.
///
/// # Errors
///
/// The effect is damaged, or does not fit the entry.
pub fn replay(number: u8, key: &Key<'_>, r: &mut Reader<'_>, db: &mut Db<'_>, limits: &Limits) -> Result<(), Corrupt> {
    if matches!(number, ADD | GROUP) {
        let stream = db.stream_or_create(key).map_err(|_| NO_STREAM)?;
        return if number == ADD { add(stream, r, limits) } else { create_group(stream, r) };
    }
    let stream = db.stream_mut(key).map_err(|_| NO_STREAM)?.ok_or(NO_STREAM)?;
    match number {
        TRIM => {
            stream.log.remove_first(r.varint()?);
        }
        DELETE => r.each_id(|id| {
            stream.log.delete(id);
        })?,
        TRIM_BETWEEN => r.each_id(|id| {
            stream.log.remove(id);
        })?,
        UNREFERENCE => r.each_id(|id| {
            stream.groups.acknowledge(id);
        })?,
        MARKS => {
            let (last, added, max_deleted) = (r.id()?, r.varint()?, r.id()?);
            if stream.log.last_entry().is_some_and(|top| last < top) {
                return Err(Corrupt("last ID of a stream"));
            }
            stream.log.set_marks(last, added, max_deleted);
        }
        GROUP_GONE => {
            stream.groups.destroy(r.bytes()?).ok_or(NO_GROUP)?;
        }
        _ => group(number, stream, r)?,
    }
    Ok(())
}

fn add(stream: &mut Stream, r: &mut Reader<'_>, limits: &Limits) -> Result<(), Corrupt> {
    let (id, trimmed, fields) = (r.id()?, r.varint()?, r.varint()?);
    // As many as fit into what is there: a wrong count cannot make this allocate.
    let pairs = (0..fields).map(|_| Ok((r.bytes()?, r.bytes()?))).collect::<Result<Vec<_>, Corrupt>>()?;
    let added = stream.log.append(id, pairs.len(), pairs.iter().copied(), limits);
    added.map_err(|_| Corrupt("ID of a stream's entry"))?;
    stream.log.remove_first(trimmed);
    Ok(())
}

fn create_group(stream: &mut Stream, r: &mut Reader<'_>) -> Result<(), Corrupt> {
    let name = r.bytes()?;
    let group = Group::new(r.id()?, r.int()?);
    if stream.groups.create(name, group) { Ok(()) } else { Err(Corrupt("duplicate group")) }
}

/// An effect on a group.
fn group(number: u8, stream: &mut Stream, r: &mut Reader<'_>) -> Result<(), Corrupt> {
    let Stream { log, groups } = stream;
    let group = groups.get_mut(r.bytes()?).ok_or(NO_GROUP)?;
    match number {
        POSITION => (group.last, group.entries_read) = (r.id()?, r.int()?),
        CONSUMER => {
            let name = r.bytes()?;
            group.enroll(name, r.int()?);
        }
        CONSUMER_GONE => {
            group.dismiss(r.bytes()?);
        }
        DELIVER => {
            let (name, time, noack) = (r.bytes()?, r.int()?, r.u8()? != 0);
            let (before, last, entries_read) = (r.id()?, r.id()?, r.int()?);
            let (member, _) = group.enroll(name, time);
            if let Some(start) = before.next().filter(|start| !noack && *start <= last) {
                for entry in log.range(start, last) {
                    group.deliver(Delivery::new(entry.id, time, 1, member));
                }
            }
            (group.last, group.entries_read) = (last, entries_read);
            if let Some(consumer) = group.consumer_mut(member) {
                consumer.seen = time;
                consumer.active = if noack { consumer.active } else { time };
            }
        }
        AGAIN => {
            let time = r.int()?;
            r.each_id(|id| {
                if let Some(delivery) = group.delivery(id) {
                    group.deliver(delivery.again(time));
                }
            })?;
        }
        CLAIM => {
            let (name, time) = (r.bytes()?, r.int()?);
            let (member, _) = group.enroll(name, time);
            for _ in 0..r.varint()? {
                group.deliver(Delivery::new(r.id()?, r.int()?, r.varint()?, member));
            }
            if let Some(consumer) = group.consumer_mut(member) {
                (consumer.seen, consumer.active) = (time, time);
            }
        }
        ACKNOWLEDGE => r.each_id(|id| {
            group.acknowledge(id);
        })?,
        RELEASE => {
            for _ in 0..r.varint()? {
                group.deliver(Delivery::released(r.id()?, r.varint()?));
            }
        }
        _ => return Err(Corrupt("unknown stream effect")),
    }
    Ok(())
}
