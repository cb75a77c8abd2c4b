//! Libraries of functions in files of their own, beside the file that names them: they are large, and other changes
//! must not write them again.
//!
//! A file is named after the change that made the libraries, and never changes. It is durable before the file that
//! names it, and removed when that one no longer does.

use std::collections::BTreeMap;
use std::sync::Arc;

use openraft::EntryPayload;

use super::types::{Entry, LogId, Snapshot, SnapshotMeta, StoredMembers, Wire};
use crate::codec::{Malformed, Reader, crc, put_bytes};
use crate::frame;
use crate::meta::{ChangeId, Command, Image, LIBRARIES_MAX};

const MAGIC: &[u8; 8] = b"HOLDLIBS";

/// The format of these files.
const VERSION: u32 = 1;

/// The beginning of the names of the files.
pub const PREFIX: &str = "libraries-";

/// In the file of a node's cluster: an entry that changes libraries, which are on the shelf.
const ENTRY_APART: u8 = 4;

/// Libraries by the change that made them. None of them is empty.
pub type Shelf = BTreeMap<ChangeId, Arc<[u8]>>;

/// The name of a file.
pub fn file_of(change: &ChangeId) -> String {
    let digits: String = change.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{PREFIX}{digits}")
}

/// The bytes of a file.
pub fn encode(change: &ChangeId, libraries: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(change);
    put_bytes(&mut out, libraries);
    let sum = crc(&[&out[12..]]);
    out[8..12].copy_from_slice(&sum.to_le_bytes());
    out
}

/// The libraries in the bytes of the file of `change`.
pub fn decode(change: &ChangeId, bytes: &[u8]) -> Result<Arc<[u8]>, Malformed> {
    let mut from = Reader::new(bytes);
    if from.array()? != *MAGIC {
        return Err(Malformed("a file of libraries"));
    }
    let sum = from.u32()?;
    if crc(&[&bytes[12..]]) != sum {
        return Err(Malformed("a checksum that matches, in a file of libraries"));
    }
    if from.u32()? != VERSION {
        return Err(Malformed("version 1 of a file of libraries"));
    }
    if from.array()? != *change {
        return Err(Malformed("the change that a file of libraries is named after"));
    }
    let libraries = from.bytes(LIBRARIES_MAX)?.into();
    from.end()?;
    Ok(libraries)
}

/// Finds libraries on the shelf.
pub type Find<'a> = &'a mut dyn FnMut(&ChangeId) -> Result<Arc<[u8]>, Malformed>;

/// The libraries of an entry that have a file.
pub fn of_entry(entry: &Entry) -> Option<(ChangeId, &Arc<[u8]>)> {
    match &entry.payload {
        EntryPayload::Normal(Command::Libraries { change, payload, .. }) if !payload.is_empty() => {
            Some((*change, payload))
        }
        _ => None,
    }
}

/// Appends an entry without libraries.
pub fn put_entry(out: &mut Vec<u8>, entry: &Entry) {
    match &entry.payload {
        EntryPayload::Normal(Command::Libraries { known, change, payload }) if !payload.is_empty() => {
            entry.log_id.put(out);
            out.push(ENTRY_APART);
            out.extend_from_slice(&known.to_le_bytes());
            out.extend_from_slice(change);
        }
        _ => entry.put(out),
    }
}

/// The next entry in `from`, with its libraries.
pub fn read_entry(from: &mut Reader<'_>, find: Find<'_>) -> Result<Entry, Malformed> {
    let mut ahead = *from;
    let log_id = LogId::read(&mut ahead)?;
    if ahead.u8()? != ENTRY_APART {
        return Entry::read(from);
    }
    let (known, change) = (ahead.u64()?, ahead.array()?);
    *from = ahead;
    let payload = EntryPayload::Normal(Command::Libraries { known, change, payload: find(&change)? });
    Ok(Entry { log_id, payload })
}

/// Appends a snapshot without its libraries.
pub fn put_snapshot(out: &mut Vec<u8>, Snapshot { meta, snapshot }: &Snapshot) {
    meta.last_log_id.put(out);
    meta.last_membership.put(out);
    put_bytes(out, &snapshot.state);
    out.push(u8::from(!snapshot.libraries.is_empty()));
    out.extend_from_slice(&snapshot.change);
}

/// The next snapshot in `from`, with its libraries.
pub fn read_snapshot(from: &mut Reader<'_>, find: Find<'_>) -> Result<Snapshot, Malformed> {
    let meta = SnapshotMeta { last_log_id: Option::read(from)?, last_membership: StoredMembers::read(from)? };
    let state = from.bytes(frame::BODY_MAX)?.to_vec();
    let (apart, change) = (from.flag()?, from.array()?);
    let libraries = if apart { find(&change)? } else { Arc::from([]) };
    Ok(Snapshot { meta, snapshot: Image { state, change, libraries } })
}
