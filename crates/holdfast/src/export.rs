//! `holdfast export`: all keys and functions of a running server, as a file that Redis and Valkey load.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use object::Limits;
use rdb::{Entry, EntryRef, Item, Reader, Written};
use resp::Value;

use crate::client::{Connection, Target, explained};

/// Keys that are named because the file cannot hold them; the others are counted.
const PRINTED: usize = 20;
const BUFFER: usize = 1 << 20;

/// Writes all keys and functions of a running server to an RDB file, as they are at one moment.
///
/// A server that takes Valkey's place (`compatibility valkey`) gives a file of Valkey 9, any other one of Redis 8.8.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    target: Target,
    /// The file. It must not exist.
    file: PathBuf,
    /// Writes the file for this server. Keys that it cannot hold are named and left out.
    #[arg(long = "for", value_name = "SERVER")]
    wanted: Option<Wanted>,
    /// On a cluster: only the keys of the node that is reached.
    #[arg(long)]
    node: bool,
}

/// A server to load the file.
#[derive(Clone, Copy, ValueEnum)]
enum Wanted {
    /// Redis 7.2, Valkey 7.2 and 8.
    #[value(name = "7.2")]
    Redis72,
    /// Redis 7.4 to 8.4.
    #[value(name = "8.0")]
    Redis80,
    /// Redis 8.8.
    #[value(name = "8.8")]
    Redis88,
    /// Valkey 9.
    Valkey9,
}

impl Wanted {
    fn target(self) -> rdb::Target {
        match self {
            Wanted::Redis72 => rdb::Target::Redis72,
            Wanted::Redis80 => rdb::Target::Redis80,
            Wanted::Redis88 => rdb::Target::Redis88,
            Wanted::Valkey9 => rdb::Target::Valkey9,
        }
    }
}

/// Exports.
///
/// # Errors
/// Why there is no file.
pub fn run(options: &Options) -> Result<(), String> {
    let path = &options.file;
    if path.exists() {
        return Err(format!("{} is there already: name another file, or remove it", path.display()));
    }
    let mut server = Connection::open(&options.target).map_err(explained)?;
    if !options.node && is_of_cluster(&mut server)? {
        return Err(format!(
            "{} is a node of a cluster: with --node the file holds the keys of this node alone",
            options.target
        ));
    }
    let mut name = path.clone().into_os_string();
    name.push(".part");
    let part = PathBuf::from(name);
    let exported = export(options, server, &part).and_then(|said| {
        fs::rename(&part, path).map_err(|error| told(path, &error))?;
        Ok(said)
    });
    match exported {
        Ok(said) => println!("{}: {said}", path.display()),
        Err(why) => {
            let _ = fs::remove_file(&part);
            return Err(why);
        }
    }
    Ok(())
}

fn told(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn is_of_cluster(server: &mut Connection) -> Result<bool, String> {
    let info = server.call(&[b"INFO", b"cluster"]).map_err(explained)?;
    let text = match &info {
        Value::Bulk(text) | Value::Simple(text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("{other:?}"),
    };
    Ok(text.contains("cluster_enabled:1"))
}

/// Writes the file. Returns what is in it.
fn export(options: &Options, server: Connection, part: &Path) -> Result<String, String> {
    let sent = server.snapshot().map_err(explained)?;
    let len = sent.limit();
    let file = File::create(part).map_err(|error| told(part, &error))?;
    let out = BufWriter::with_capacity(BUFFER, &file);
    let said = match options.wanted {
        None => copy(sent, out, len).map_err(|error| format!("the snapshot did not arrive: {error}"))?,
        Some(wanted) => convert(sent, out, wanted.target())?,
    };
    file.sync_all().map_err(|error| told(part, &error))?;
    Ok(said)
}

fn copy(mut sent: impl Read, mut out: impl Write, len: u64) -> io::Result<String> {
    let copied = io::copy(&mut sent, &mut out)?;
    out.flush()?;
    if copied < len {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
    }
    Ok(format!("{copied} bytes"))
}

fn convert(sent: impl Read, out: impl Write, target: rdb::Target) -> Result<String, String> {
    let failed = |error: io::Error| error.to_string();
    let read = |error: rdb::Error| format!("the snapshot of the server: {error}");
    let mut reader = Reader::new(BufReader::with_capacity(BUFFER, sent)).map_err(read)?;
    let mut writer = rdb::Writer::new(out, target).map_err(failed)?;
    writer.aux(b"redis-bits", b"64").map_err(failed)?;
    let (mut keys, mut libraries, mut left_out) = (0u64, 0u64, 0usize);
    while let Some(item) = reader.next_item().map_err(read)? {
        match item {
            Item::Entry(entry) => match write(&mut writer, &entry)? {
                Written::Yes => keys += 1,
                Written::CannotHold(why) => {
                    left_out += 1;
                    if left_out <= PRINTED {
                        eprintln!("database {}, key '{}' is left out: {}", entry.db, entry.key.escape_ascii(), why.0);
                    }
                }
            },
            Item::Function(code) => {
                libraries += 1;
                writer.function(&code).map_err(failed)?;
            }
            Item::Size { db, keys, expires } => writer.database(db, keys, expires).map_err(failed)?,
            _ => {}
        }
    }
    writer.finish().map_err(failed)?;
    Ok(format!("{keys} keys, {libraries} libraries of functions; {left_out} keys were left out"))
}

fn write(writer: &mut rdb::Writer<impl Write>, entry: &Entry) -> Result<Written, String> {
    let value = entry.value(&Limits::default()).map_err(|error| error.to_string())?;
    let whole = EntryRef {
        expiry: entry.expiry,
        idle: entry.idle,
        frequency: entry.frequency,
        ..EntryRef::new(entry.db, &entry.key, value.as_value_ref())
    };
    writer.entry(whole).map_err(|error| error.to_string())
}
