//! The records of blocks that have left their owner: they may survive at others alone.

use std::collections::BTreeMap;

use quorum::{Order, Request};
use redolog::{Frame, Kind, Record};

use crate::ledger::Records;

/// See the module's text.
pub struct Departed {
    /// The first term of this process: blocks of earlier ones are known.
    term: u32,
    /// Of each stream: the last block, and the parts of a record whose end has not left yet.
    streams: BTreeMap<u16, (u64, Vec<u8>)>,
}

impl Departed {
    /// Of a process that begins with this term.
    pub fn from(term: u32) -> Self {
        Self { term, streams: BTreeMap::new() }
    }

    /// The records of a block that has not left before.
    pub fn records(&mut self, request: &Request) -> Records {
        let mut records = Records::new();
        let Order::Append { stream, block, .. } = &request.order else { return records };
        let (last, parts) = self.streams.entry(stream.0).or_default();
        if block.id.term.get() < self.term || block.id.sequence <= *last || block.body.is_empty() {
            return records;
        }
        *last = block.id.sequence;
        let Ok(frame) = Frame::decode(&block.body) else { return records };
        parts.extend_from_slice(frame.body);
        if frame.kind == Kind::Part {
            return records;
        }
        for record in Record::all(parts).flatten() {
            records.entry((record.lsn, stream.0)).or_default().push(record.effects.to_vec());
        }
        parts.clear();
        records
    }
}
