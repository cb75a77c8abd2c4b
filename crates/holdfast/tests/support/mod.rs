//! A server of our own and plain clients, for tests of the user's view.
#![allow(dead_code, unused_imports, reason = "each target uses its part")]

pub mod attack;
mod launch;
mod nodes;
mod process;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub use launch::{Launched, Scratch, free_port, free_ports, in_time};
pub use nodes::Nodes;
pub use process::{limit_files, terminate};

/// The longest wait for anything that must happen, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Random numbers below the argument, the same for the same seed.
pub fn random(mut seed: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 11) % below
    }
}

/// A server process, which ends when the value is dropped.
pub struct Server(Launched);

impl Server {
    /// Starts a server with these settings (`--name value ...`) and waits until it listens.
    pub fn start(settings: &[&str]) -> Server {
        Server(Launched::start(settings).unwrap_or_else(|error| panic!("no server: {error}")))
    }

    /// As [`Self::start`], on a port of the caller's choice.
    pub fn on_port(port: u16, settings: &[&str]) -> Server {
        Server(Launched::on_port(port, settings).unwrap_or_else(|error| panic!("no server: {error}")))
    }

    /// Starts a server with these settings and at most so many KB of address space.
    pub fn within(kilobytes: u64, settings: &[&str]) -> Server {
        Server(Launched::within(kilobytes, settings).unwrap_or_else(|error| panic!("no server: {error}")))
    }

    /// Starts a server with these settings, or returns its error.
    pub fn try_start(settings: &[&str]) -> Result<Server, String> {
        Launched::start(settings).map(Server)
    }

    /// Starts a server with a configuration file and these settings, or returns its error.
    pub fn with_file(file: &std::path::Path, settings: &[&str]) -> Result<Server, String> {
        Launched::with_file(file, settings).map(Server)
    }

    /// As [`Self::with_file`], on a port of the caller's choice.
    pub fn with_file_on_port(port: u16, file: &std::path::Path, settings: &[&str]) -> Server {
        Self::try_with_file_on_port(port, file, settings).unwrap_or_else(|error| panic!("no server: {error}"))
    }

    /// As [`Self::with_file_on_port`], or returns its error.
    pub fn try_with_file_on_port(port: u16, file: &std::path::Path, settings: &[&str]) -> Result<Server, String> {
        Launched::with_file_on_port(port, file, settings).map(Server)
    }

    /// The error of a server that does not start with these settings.
    pub fn refused(settings: &[&str]) -> String {
        match Launched::start(settings) {
            Ok(_) => panic!("it starts"),
            Err(error) => error,
        }
    }

    /// Waits until this many clients wait for keys.
    pub fn blocked_clients(&self, n: usize) {
        let mut client = self.client();
        let line = format!("blocked_clients:{n} ");
        for _ in 0..6000 {
            if client.call("info clients").contains(&line) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("never {n} blocked clients");
    }

    /// How often connections have waited for keys that others held.
    pub fn parked(&self) -> u64 {
        let info = self.client().call("info workers");
        let counts = info.split("parked=").skip(1).map(|rest| {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<u64>().unwrap()
        });
        counts.sum()
    }

    /// The largest resident size of the process, in bytes.
    pub fn peak_rss(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// The lines that it has logged.
    pub fn log(&self) -> String {
        self.0.wrote("stdout")
    }

    /// The resident size of the process, in bytes.
    pub fn rss(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The largest address space of the process, in bytes.
    pub fn peak_virtual(&self) -> u64 {
        self.status("VmPeak:")
    }

    fn status(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
    }

    /// True if the process has a thread of that name.
    pub fn has_thread(&self, name: &str) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.0.process.id())).unwrap();
        tasks
            .flatten()
            .any(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(|found| found.trim() == name))
    }

    /// Waits for the end of the process. Returns true if it was a good one.
    pub fn ends_well(&mut self) -> bool {
        self.0.process.wait().unwrap().success()
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.0.process.id()
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.0.port
    }

    /// A new connection.
    pub fn client(&self) -> Client {
        Client::at(self.0.port)
    }
}

/// A connection that sends words and sees encoded replies, lines separated by blanks: `*2 $1 l $1 a`.
pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    /// A new connection to this port.
    pub fn at(port: u16) -> Client {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, buffer: Vec::new() }
    }

    /// A connection to a server that may not exist.
    pub fn connect(port: u16) -> Option<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_nodelay(true).ok()?;
        Some(Client { stream, buffer: Vec::new() })
    }

    /// Sends a command and waits for its reply.
    pub fn call(&mut self, line: &str) -> String {
        self.send(line);
        self.reply()
    }

    /// Sends a command, or several in one packet, separated by `;`. Blanks and line breaks end a word. Between quotes
    /// `"` they and `;` are part of a word, and `\n` is a line break.
    pub fn send(&mut self, lines: &str) {
        let mut bytes = Vec::new();
        let mut words: Vec<String> = vec![String::new()];
        for (i, piece) in lines.split('"').enumerate() {
            if i % 2 == 1 {
                words.last_mut().unwrap().push_str(&piece.replace("\\n", "\n"));
                continue;
            }
            // In pieces: values are long, and this code is not optimised.
            for (n, command) in piece.split(';').enumerate() {
                if n > 0 {
                    encode(&mut words, &mut bytes);
                }
                for (n, word) in command.split(' ').flat_map(|word| word.split('\n')).enumerate() {
                    if n > 0 {
                        words.push(String::new());
                    }
                    words.last_mut().unwrap().push_str(word);
                }
            }
        }
        encode(&mut words, &mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    /// As [`Self::call`], for a command that may take long.
    pub fn reply_to(&mut self, line: &str) -> String {
        self.send(line);
        self.reply_within(2 * PATIENCE).expect("a reply")
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Waits for a reply, for at most a minute.
    pub fn reply(&mut self) -> String {
        self.reply_within(PATIENCE).expect("a reply")
    }

    /// Waits for a reply; `None` if none comes.
    pub fn reply_within(&mut self, time: Duration) -> Option<String> {
        self.stream.set_read_timeout(Some(time)).unwrap();
        loop {
            if let Some((len, _)) = resp::skip_reply(&self.buffer).unwrap() {
                let reply: Vec<u8> = self.buffer.drain(..len).collect();
                let text = String::from_utf8_lossy(&reply).replace("\r\n", " ");
                return Some(text.trim_end().to_string());
            }
            // A long reply in few pieces.
            let mut more = vec![0; self.buffer.len().clamp(4096, 4 << 20)];
            match self.stream.read(&mut more) {
                Ok(0) => panic!("the server closed the connection"),
                Ok(n) => self.buffer.extend_from_slice(&more[..n]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// As [`Self::call`]; `None` if the server ends before it answers.
    pub fn try_call(&mut self, line: &str) -> Option<String> {
        let (mut bytes, mut words) = (Vec::new(), line.split(' ').map(str::to_owned).collect());
        encode(&mut words, &mut bytes);
        self.stream.write_all(&bytes).ok()?;
        self.stream.set_read_timeout(Some(PATIENCE)).ok()?;
        loop {
            if let Some((len, _)) = resp::skip_reply(&self.buffer).unwrap() {
                let reply: Vec<u8> = self.buffer.drain(..len).collect();
                return Some(String::from_utf8_lossy(&reply).replace("\r\n", " ").trim_end().to_string());
            }
            let mut more = [0; 4096];
            match self.stream.read(&mut more) {
                Ok(n @ 1..) => self.buffer.extend_from_slice(&more[..n]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => return None,
            }
        }
    }

    /// Waits until the server closes the connection. Returns false if it sends something instead.
    pub fn is_closed(&mut self) -> bool {
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        loop {
            match self.stream.read(&mut [0; 1]) {
                Ok(n) => return n == 0,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::ConnectionReset,
            }
        }
    }

    /// Makes a checkpoint of all data, after one that may be under way.
    pub fn saves(&mut self) {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.call("save").as_str() {
                "+OK" => return,
                reply => assert_eq!(reply, "-ERR Background save already in progress"),
            }
            assert!(Instant::now() < end, "one is under way all the time");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for the next bytes, and leaves them there.
    fn peek(&self) -> usize {
        loop {
            match self.stream.peek(&mut [0]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                there => return there.unwrap(),
            }
        }
    }

    /// Waits until bytes have come, and leaves them there.
    pub fn hears(&mut self) {
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert!(!self.buffer.is_empty() || self.peek() == 1);
    }

    /// Closes once a reply has come, without reading it: that resets the connection.
    pub fn resets(self) {
        assert!(self.buffer.is_empty());
        assert_eq!(self.peek(), 1);
    }

    /// Asserts that no reply comes for a moment.
    pub fn waits(&mut self) {
        assert_eq!(self.reply_within(Duration::from_millis(100)), None);
    }
}

/// Writes a command and begins the next.
fn encode(words: &mut Vec<String>, bytes: &mut Vec<u8>) {
    words.retain(|word| !word.is_empty());
    write!(bytes, "*{}\r\n", words.len()).unwrap();
    words.iter().for_each(|word| write!(bytes, "${}\r\n{word}\r\n", word.len()).unwrap());
    *words = vec![String::new()];
}
