//! The libraries of functions that all nodes have. To the metadata they are bytes with a version. A change names the
//! version that it was made from, so that of two concurrent changes one is made again, from the other's result.

use std::sync::Arc;

use super::{ChangeId, Image, Refusal};
use crate::codec::{Malformed, Reader, crc, put_count};

/// Most bytes of all libraries: they go to every node as a whole, and each keeps them in a file of its own.
pub const LIBRARIES_MAX: usize = 1 << 20;

/// All of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Libraries {
    /// How often they have changed; 0: never, there are none.
    pub version: u64,
    /// The last change.
    pub(super) change: ChangeId,
    /// Their bytes; empty before the first change.
    pub payload: Arc<[u8]>,
}

impl Default for Libraries {
    fn default() -> Self {
        Self { version: 0, change: ChangeId::default(), payload: Arc::from([]) }
    }
}

impl Libraries {
    /// Changes those of version `known`. False: this very change was made before.
    pub(crate) fn change(&mut self, known: u64, change: ChangeId, payload: &Arc<[u8]>) -> Result<bool, Refusal> {
        if self.version == known.wrapping_add(1) && self.change == change {
            return Ok(false);
        }
        if self.version != known {
            return Err(Refusal::Superseded { version: self.version });
        }
        if payload.len() > LIBRARIES_MAX {
            return Err(Refusal::LibrariesTooLarge { bytes: payload.len() as u64 });
        }
        *self = Self { version: known + 1, change, payload: Arc::clone(payload) };
        Ok(true)
    }

    /// Appends their facts without their bytes.
    pub(super) fn put_apart(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.change);
        put_count(out, self.payload.len());
        out.extend_from_slice(&crc(&[&self.payload[..]]).to_le_bytes());
    }

    /// The next ones in `from`, whose bytes are apart in `image`.
    pub(super) fn read_apart(from: &mut Reader<'_>, image: &Image) -> Result<Self, Malformed> {
        let (version, change) = (from.u64()?, from.array()?);
        let (length, sum) = (from.count(LIBRARIES_MAX)?, from.u32()?);
        let payload = Arc::clone(&image.libraries);
        if image.change != change || payload.len() != length || crc(&[&payload[..]]) != sum {
            return Err(Malformed("the libraries that belong to it"));
        }
        Ok(Self { version, change, payload })
    }

    /// The next ones in `from`, as in versions 2 and 3 of snapshots.
    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { version: from.u64()?, change: from.array()?, payload: from.bytes(LIBRARIES_MAX)?.into() })
    }
}
