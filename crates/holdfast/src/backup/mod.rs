//! `holdfast backup`: asks a running server for a backup. `holdfast restore`: makes data of one.

pub mod manifest;
mod restore;

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use clap::Args;

pub use restore::{Options as RestoreOptions, run as restore};

/// Asks a running server for a backup of one moment, and waits until it is complete. The server writes it, where it runs; it
/// does not stop meanwhile. See `holdfast restore`.
#[derive(Args)]
pub struct Options {
    /// Where the server listens.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// Its port.
    #[arg(short, long, default_value_t = 6379)]
    port: u16,
    /// Its unix socket, instead.
    #[arg(long, value_name = "PATH")]
    unix_socket: Option<PathBuf>,
    /// Its password. The environment variable HOLDFAST_PASSWORD does not show in the list of processes.
    #[arg(long)]
    password: Option<String>,
    /// A directory that is new, or empty. Relative to the server's `dir`; elsewhere needs its `enable-protected-configs`.
    directory: PathBuf,
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// Asks, and waits.
pub fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let target = match &options.unix_socket {
        Some(path) => path.display().to_string(),
        None => format!("{}:{}", options.host, options.port),
    };
    let connected: io::Result<Box<dyn Stream>> = match &options.unix_socket {
        Some(path) => UnixStream::connect(path).map(|stream| Box::new(stream) as _),
        None => TcpStream::connect((options.host.as_str(), options.port)).map(|stream| Box::new(stream) as _),
    };
    let mut stream = connected.map_err(|error| format!("cannot connect to {target}: {error}"))?;
    let password = options.password.clone().or_else(|| std::env::var("HOLDFAST_PASSWORD").ok());
    if let Some(password) = password {
        call(&mut *stream, &[b"AUTH", password.as_bytes()])?;
    }
    call(&mut *stream, &[b"HOLDFAST", b"BACKUP", options.directory.as_os_str().as_bytes()])?;
    println!("{target} has written a backup to {}", options.directory.display());
    Ok(())
}

/// Sends a command that answers with a line.
fn call(stream: &mut dyn Stream, words: &[&[u8]]) -> Result<(), Box<dyn Error>> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    stream.write_all(&bytes)?;
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).map_err(|error| format!("the server has not answered: {error}"))?;
        line.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&line);
    match text.trim_end().strip_prefix('-') {
        Some(error) => Err(error.to_owned().into()),
        None => Ok(()),
    }
}
