//! `holdfast export`: all keys and functions of a running server or cluster, as files that Redis and Valkey load.

mod cluster;
mod convert;
mod part;

use std::io::{self, BufWriter, Read, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use resp::Value;

use crate::client::{Connection, Target, explained};
use convert::convert;
use part::Part;

const BUFFER: usize = 1 << 20;

/// Writes all keys and functions of a running server or cluster to RDB files, as they are at one moment.
///
/// A server that takes Valkey's place (`compatibility valkey`) gives a file of Valkey 9, any other one of Redis 8.8.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    target: Target,
    /// The file. It must not exist. A cluster gives one file for each node that has slots: `dump.rdb` stands for
    /// `dump-1.rdb`, `dump-2.rdb` and so on.
    file: PathBuf,
    /// Writes the file for this server. Keys that it cannot hold are named and left out.
    #[arg(long = "for", value_name = "SERVER")]
    wanted: Option<Wanted>,
    /// On a cluster: all keys in one file.
    #[arg(long, conflicts_with = "node")]
    merge: bool,
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
    let mut server = Connection::open(&options.target).map_err(explained)?;
    if !options.node && is_of_cluster(&mut server)? {
        return cluster::export(options, server);
    }
    let part = Part::new(options.file.clone())?;
    server.ask(&[b"SYNC"])?;
    let said = write(options, server, &part)?;
    part.finish()?;
    println!("{}: {said}", options.file.display());
    Ok(())
}

fn is_of_cluster(server: &mut Connection) -> Result<bool, String> {
    let info = server.call(&[b"INFO", b"cluster"]).map_err(explained)?;
    let text = match &info {
        Value::Bulk(text) | Value::Simple(text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("{other:?}"),
    };
    Ok(text.contains("cluster_enabled:1"))
}

/// Writes the snapshot that a server was asked for. Returns what is in it.
fn write(options: &Options, server: Connection, part: &Part) -> Result<String, String> {
    let sent = server.snapshot().map_err(explained)?;
    let len = sent.limit();
    let out = BufWriter::with_capacity(BUFFER, part.file());
    match options.wanted {
        None => copy(sent, out, len).map_err(|error| format!("the snapshot did not arrive: {error}")),
        Some(wanted) => convert(vec![sent], out, Some(wanted.target())),
    }
}

fn copy(mut sent: impl Read, mut out: impl Write, len: u64) -> io::Result<String> {
    let copied = io::copy(&mut sent, &mut out)?;
    out.flush()?;
    if copied < len {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
    }
    Ok(format!("{copied} bytes"))
}
