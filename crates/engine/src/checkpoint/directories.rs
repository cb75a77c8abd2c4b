//! The names of the directories of the log that goes with a store, so that a start which lacks one can name it.
//!
//! Nothing depends on it: directories may be moved, and a log is known by its segments.

use object::Corrupt;
use store::{Batch, Store};

use super::format::{DIRECTORIES, META};
use super::load::{Unloadable, nonsense};

const KEY: [u8; 2] = [META, DIRECTORIES];
/// The version of the bytes under it.
const VERSION: u8 = 1;

/// The directories that the last start had; empty: unknown.
///
/// # Errors
///
/// The store cannot be read, or holds nonsense.
pub fn directories(store: &dyn Store) -> Result<Vec<Vec<u8>>, Unloadable> {
    let Some(bytes) = store.get(&KEY)? else { return Ok(Vec::new()) };
    decode(&bytes).ok_or_else(|| nonsense(&KEY, Corrupt("directories of the log")))
}

/// Notes the directories of this start, one for each stream, in place of the former ones.
///
/// # Errors
///
/// The store cannot be written.
pub fn note_directories(store: &dyn Store, names: &[Vec<u8>]) -> Result<(), Unloadable> {
    let bytes = encode(names);
    if store.get(&KEY)?.is_none_or(|found| *found != *bytes) {
        let mut batch = Batch::new();
        batch.put(&KEY, &bytes);
        store.write(&batch)?;
        store.flush()?;
    }
    Ok(())
}

fn encode(names: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    for name in names {
        bytes.extend((name.len() as u32).to_le_bytes());
        bytes.extend(name);
    }
    bytes
}

fn decode(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (VERSION, mut rest) = bytes.split_first().map(|(version, rest)| (*version, rest))? else { return None };
    let mut names = Vec::new();
    while !rest.is_empty() {
        let (length, after) = rest.split_first_chunk()?;
        let (name, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        names.push(name.to_vec());
        rest = after;
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use store::{Platter, Simulated};

    use super::*;

    #[test]
    fn what_cannot_be_read_is_replaced() {
        let store = Simulated::open(&Platter::new(), 0).unwrap();
        let names = vec![b"/a".to_vec()];
        for found in [&b"\x02"[..], b"\x01\x02\0\0\0/"] {
            let mut batch = Batch::new();
            batch.put(&KEY, found);
            store.write(&batch).unwrap();
            assert!(directories(&store).is_err());
            note_directories(&store, &names).unwrap();
            assert_eq!(directories(&store).unwrap(), names);
        }
    }

    #[test]
    fn golden_bytes() {
        let names = vec![b"/a".to_vec(), b"".to_vec(), b"b c".to_vec()];
        let bytes = encode(&names);
        assert_eq!(bytes, b"\x01\x02\0\0\0/a\0\0\0\0\x03\0\0\0b c");
        assert_eq!(decode(&bytes), Some(names));
        // Behind the version and behind each name it may end.
        let ends = (0..bytes.len()).filter(|at| decode(&bytes[..*at]).is_some());
        assert_eq!(ends.collect::<Vec<_>>(), [1, 7, 11]);
        assert_eq!(decode(b"\x02"), None);
    }
}
