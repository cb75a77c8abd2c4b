//! A plain connection to a running server, for the subcommands that ask one for something.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};
use resp::{ReplyDecoder, Value};

use crate::tls;

/// The environment variable that holds the password.
const PASSWORD: &str = "HOLDFAST_PASSWORD";

/// The address of a server, and the login for it: redis-cli's options, and the longer names beside them.
///
/// Every command that reaches a server takes these. `-h` names the host, as with redis-cli, so help is `--help` alone;
/// `crate::help_if_no_host` makes a `-h` without a host ask for help.
#[derive(Args, Clone, Debug)]
#[command(disable_help_flag = true)]
pub struct Target {
    /// The host name or address of the server
    #[arg(short = 'h', long, default_value = "127.0.0.1")]
    pub host: String,
    /// The TCP port of the server
    #[arg(short, long, default_value_t = 6379)]
    pub port: u16,
    /// Connect to this unix socket instead of host and port
    #[arg(long, value_name = "PATH", conflicts_with_all = ["host", "port"])]
    pub unix_socket: Option<PathBuf>,
    /// The password. Prefer the environment variable HOLDFAST_PASSWORD: the list of processes does not show it
    #[arg(short = 'a', long, visible_alias = "pass")]
    password: Option<String>,
    /// Log in as this user instead of the default user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    #[command(flatten)]
    pub tls: tls::TlsOptions,
    /// Print help
    #[arg(id = "help", long = "help", action = ArgAction::Help, display_order = 1000)]
    _help: Option<bool>,
}

impl Target {
    /// The server at this port of this machine.
    pub fn local(port: u16) -> Target {
        let (host, tls) = ("127.0.0.1".to_owned(), tls::TlsOptions::default());
        Target { host, port, unix_socket: None, password: None, user: None, tls, _help: None }
    }

    /// Another server, with the same login.
    pub fn at(&self, host: String, port: u16) -> Target {
        Target { host, port, unix_socket: None, ..self.clone() }
    }

    /// The words of the command that logs in. None: nothing names a password.
    ///
    /// # Errors
    /// A user is named, and no password.
    pub fn login(&self) -> Result<Option<[String; 3]>, String> {
        let named = std::env::var(PASSWORD).ok().filter(|password| !password.is_empty());
        match (&self.user, self.password.clone().or(named)) {
            // With a user's name a server that has no password takes any: the variable may be meant for another server.
            (user, Some(password)) => {
                let user = user.clone().unwrap_or_else(|| "default".to_owned());
                Ok(Some(["AUTH".to_owned(), user, password]))
            }
            (Some(user), None) => Err(format!("--user {user} needs a password: set {PASSWORD} or --password")),
            (None, None) => Ok(None),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.unix_socket {
            Some(path) => write!(f, "{}", path.display()),
            None => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// The longest line before a snapshot.
const LINE_MAX: usize = 4096;

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// True if the server answered, but refused this client for a missing or wrong password.
pub fn is_locked(error: &str) -> bool {
    ["NOAUTH ", "WRONGPASS "].iter().any(|code| error.starts_with(code))
}

/// An error of a server, with advice where the password is missing or wrong.
pub fn explained(error: String) -> String {
    if error.starts_with("NOAUTH ") {
        return format!("the server needs a password: set {PASSWORD} or --password ({error})");
    }
    if error.starts_with("WRONGPASS ") {
        return format!("the server refuses the password: set another one in {PASSWORD} or --password ({error})");
    }
    error
}

/// An authenticated connection.
pub struct Connection {
    stream: Box<dyn Stream>,
    buffer: Vec<u8>,
    /// The bytes of `buffer` that are read.
    taken: usize,
    /// The server, for messages.
    target: String,
    /// True if it is a TCP connection without TLS.
    is_plain: bool,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// The system's error, or the server's answer to the password.
    pub fn open(target: &Target) -> Result<Self, String> {
        Self::connect(target, None)
    }

    /// As [`Self::open`]. The server must answer every command within this time.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_within(target: &Target, time: Duration) -> Result<Self, String> {
        Self::connect(target, Some(time))
    }

    fn connect(target: &Target, time: Option<Duration>) -> Result<Self, String> {
        let login = target.login()?;
        let failed = |error: io::Error| format!("cannot connect to {target}: {error}");
        let stream: Box<dyn Stream> = match &target.unix_socket {
            Some(path) => {
                let stream = UnixStream::connect(path).map_err(failed)?;
                stream.set_read_timeout(time).map_err(failed)?;
                Box::new(stream)
            }
            None => {
                let stream = TcpStream::connect((target.host.as_str(), target.port)).map_err(failed)?;
                stream.set_read_timeout(time).map_err(failed)?;
                match target.tls.tls {
                    true => Box::new(
                        target
                            .tls
                            .connect(&target.host, stream)
                            .map_err(|why| format!("cannot connect to {target}: {why}"))?,
                    ),
                    false => Box::new(stream),
                }
            }
        };
        let is_plain = target.unix_socket.is_none() && !target.tls.tls;
        let mut connection = Self { stream, buffer: Vec::new(), taken: 0, target: target.to_string(), is_plain };
        if let Some(words) = login {
            connection.call(&words.each_ref().map(|word| word.as_bytes()))?;
        }
        Ok(connection)
    }

    /// Sends a command and waits for its reply without a limit.
    ///
    /// # Errors
    /// An error that the server replies, or the reason why no reply came.
    pub fn call(&mut self, words: &[&[u8]]) -> Result<Value, String> {
        self.ask(words)?;
        self.answer()
    }

    /// Sends a command, whose reply is still to come.
    ///
    /// # Errors
    /// Why that is not possible.
    pub fn ask(&mut self, words: &[&[u8]]) -> Result<(), String> {
        let mut bytes = Vec::new();
        resp::append_request(&mut bytes, words);
        self.send(&bytes)
    }

    /// Waits for the next reply.
    ///
    /// # Errors
    /// As for [`Self::call`].
    pub fn answer(&mut self) -> Result<Value, String> {
        match self.reply()? {
            Value::Error(text) => Err(String::from_utf8_lossy(&text).into_owned()),
            value => Ok(value),
        }
    }

    /// Waits for a snapshot, which was asked for (SYNC). It is read to its end.
    ///
    /// # Errors
    /// As for [`Self::call`].
    pub fn snapshot(mut self) -> Result<io::Take<Self>, String> {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') || line.len() == 1 {
            // A line without anything says that the server is still at it.
            if line == b"\n" {
                line.clear();
            }
            let mut byte = [0];
            self.read_exact(&mut byte).map_err(gone)?;
            line.extend(byte);
            if line.len() > LINE_MAX {
                return Err(self.no_reply("a line that is too long"));
            }
        }
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        match text.strip_prefix('$').and_then(|len| len.parse().ok()) {
            Some(len) => Ok(self.take(len)),
            None => Err(text.trim_start_matches('-').to_owned()),
        }
    }

    /// Sends requests.
    ///
    /// # Errors
    /// Why that is not possible.
    pub fn send(&mut self, requests: &[u8]) -> Result<(), String> {
        self.stream.write_all(requests).and_then(|()| self.stream.flush()).map_err(gone)
    }

    /// Waits for the first byte of the next reply, and leaves it there. Lines without anything before it are taken.
    ///
    /// # Errors
    /// Why there is no reply.
    pub fn first(&mut self) -> Result<u8, String> {
        loop {
            match self.buffer.get(self.taken) {
                Some(b'\n') => self.taken += 1,
                Some(first) => return Ok(*first),
                None => {
                    let mut byte = [0];
                    self.stream.read_exact(&mut byte).map_err(gone)?;
                    self.buffer.extend(byte);
                }
            }
        }
    }

    /// The error for bytes that are no reply. A port that speaks TLS answers a plain client with an alert of TLS.
    fn no_reply(&self, why: impl std::fmt::Display) -> String {
        let advice = if self.is_plain { "; it may speak TLS (`--tls`)" } else { "" };
        format!("{} does not speak the Redis protocol here{advice} ({why})", self.target)
    }

    /// The next reply, which may be an error.
    ///
    /// # Errors
    /// Why there is no reply.
    pub fn reply(&mut self) -> Result<Value, String> {
        let mut decoder = ReplyDecoder::default();
        loop {
            let parsed = decoder.next(&self.buffer[self.taken..]).map_err(|why| self.no_reply(why))?;
            if let Some((value, length)) = parsed {
                self.taken += length;
                return Ok(value);
            }
            // Only here, for the rest of one reply, and not after each of many.
            self.buffer.drain(..self.taken);
            self.taken = 0;
            let mut more = [0; 16 << 10];
            match self.stream.read(&mut more) {
                Ok(0) => return Err("the server has not answered: it closed the connection".to_owned()),
                Ok(n) => self.buffer.extend_from_slice(&more[..n]),
                // With a time limit, whatever stops the process for a moment ends the call.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(gone(error)),
            }
        }
    }
}

impl Read for Connection {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let left = &self.buffer[self.taken..];
        if left.is_empty() {
            return self.stream.read(to);
        }
        let len = to.len().min(left.len());
        to[..len].copy_from_slice(&left[..len]);
        self.taken += len;
        Ok(len)
    }
}

fn gone(error: io::Error) -> String {
    format!("the server has not answered: {error}")
}
