//! Snapshots of one or several servers, written as one file for another server.

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};

use object::Limits;
use rdb::{Dialect, Entry, EntryRef, Item, Reader, Target, Writer, Written};

use super::BUFFER;

/// Keys that are named because the file cannot hold them; the others are counted.
const PRINTED: usize = 20;
/// The fields of a snapshot that hold for all of them.
const FIELDS: [&[u8]; 4] = [b"redis-ver", b"valkey-ver", b"redis-bits", b"ctime"];

/// A snapshot as it arrives.
struct Source<R> {
    reader: Reader<BufReader<R>>,
    /// Its first key, which ends the items before the keys.
    first: Option<Entry>,
}

/// The items before the keys.
#[derive(Default)]
struct Head {
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    libraries: Vec<Vec<u8>>,
    /// By database: keys, and those that expire.
    sizes: BTreeMap<u64, (u64, u64)>,
}

/// Writes what the snapshots hold to one file, for `target`; without one, for such a server as they come from. The
/// servers have the same libraries. Returns what is in it.
///
/// # Errors
/// A snapshot is not whole, or the file cannot be written.
pub fn convert<R: Read>(sent: Vec<R>, out: impl Write, target: Option<Target>) -> Result<String, String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut head = Head::default();
    let sources: Vec<Source<R>> = sent.into_iter().map(|sent| head.read(sent)).collect::<Result<_, _>>()?;
    let is_valkey = sources.first().is_some_and(|source| source.reader.dialect() == Dialect::Valkey);
    let target = target.unwrap_or(if is_valkey { Target::Valkey9 } else { Target::Redis88 });
    let mut writer = Writer::new(out, target).map_err(failed)?;
    for (name, value) in &head.fields {
        writer.aux(name, value).map_err(failed)?;
    }
    for code in &head.libraries {
        writer.function(code).map_err(failed)?;
    }
    for (db, (keys, expires)) in &head.sizes {
        writer.database(*db, *keys, *expires).map_err(failed)?;
    }
    let (mut keys, mut left_out) = (0u64, 0usize);
    for mut source in sources {
        let mut next = source.first.take();
        while let Some(entry) = next {
            match write(&mut writer, &entry)? {
                Written::Yes => keys += 1,
                Written::CannotHold(why) => {
                    left_out += 1;
                    if left_out <= PRINTED {
                        eprintln!("database {}, key '{}' is left out: {}", entry.db, entry.key.escape_ascii(), why.0);
                    }
                }
            }
            next = source.next_entry()?;
        }
    }
    writer.finish().map_err(failed)?;
    let libraries = head.libraries.len();
    Ok(format!("{keys} keys, {libraries} libraries of functions; {left_out} keys were left out"))
}

impl Head {
    /// Reads a snapshot up to its first key.
    fn read<R: Read>(&mut self, sent: R) -> Result<Source<R>, String> {
        let reader = Reader::new(BufReader::with_capacity(BUFFER, sent)).map_err(not_whole)?;
        let mut source = Source { reader, first: None };
        while let Some(item) = source.reader.next_item().map_err(not_whole)? {
            match item {
                Item::Entry(entry) => {
                    source.first = Some(entry);
                    break;
                }
                Item::Function(code) if !self.libraries.contains(&code) => self.libraries.push(code),
                Item::Aux { name, value }
                    if FIELDS.contains(&&*name) && self.fields.iter().all(|(known, _)| *known != name) =>
                {
                    self.fields.push((name, value));
                }
                Item::Size { db, keys, expires } => {
                    let size = self.sizes.entry(db).or_default();
                    *size = (size.0 + keys, size.1 + expires);
                }
                _ => {}
            }
        }
        Ok(source)
    }
}

impl<R: Read> Source<R> {
    fn next_entry(&mut self) -> Result<Option<Entry>, String> {
        while let Some(item) = self.reader.next_item().map_err(not_whole)? {
            if let Item::Entry(entry) = item {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }
}

fn not_whole(error: rdb::Error) -> String {
    format!("the snapshot of the server: {error}")
}

fn write(writer: &mut Writer<impl Write>, entry: &Entry) -> Result<Written, String> {
    let value = entry.value(&Limits::default()).map_err(|error| error.to_string())?;
    let whole = EntryRef {
        expiry: entry.expiry,
        idle: entry.idle,
        frequency: entry.frequency,
        ..EntryRef::new(entry.db, &entry.key, value.as_value_ref())
    };
    writer.entry(whole).map_err(|error| error.to_string())
}
