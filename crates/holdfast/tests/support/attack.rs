//! Shared by the tests of hostile clients and races: a server under either driver, seen from outside, and raw
//! connections. These may do what no client library does.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use resp::{ReplyDecoder, Value};

use super::launch::Launched;
pub use super::launch::Scratch;
use super::process;

/// The longest wait for anything that must happen.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The driver of a test, and the number of workers (`auto`: left to the server).
#[derive(Clone, Copy, Debug)]
pub struct How {
    pub driver: &'static str,
    pub workers: &'static str,
}

/// True if the long forms run (`HOLDFAST_LONG=1`), which are meant for a night.
pub fn long() -> bool {
    std::env::var_os("HOLDFAST_LONG").is_some_and(|value| value != "0")
}

/// A server process; ends with the value.
pub struct Server {
    launched: Launched,
    pub port: u16,
}

impl Server {
    /// Starts a server with these settings (`--name value ...`) and waits until it listens. `None`: this machine does
    /// not have the driver.
    pub fn start(how: How, settings: &[&str]) -> Option<Server> {
        let workers = if how.workers == "auto" { "0" } else { how.workers };
        let all = ["--workers", workers, "--io-driver", how.driver, "--enable-debug-command", "yes"];
        match Launched::start(&[&all, settings].concat()) {
            Ok(launched) => Some(Server { port: launched.port, launched }),
            Err(log) if log.contains("this kernel does not allow it") => {
                eprintln!("skipped: {}", log.trim());
                None
            }
            Err(log) => panic!("no server: {log}"),
        }
    }

    pub fn pid(&self) -> u32 {
        self.launched.process.id()
    }

    /// A new connection.
    pub fn connect(&self) -> Raw {
        self.try_connect().expect("a connection")
    }

    pub fn try_connect(&self) -> io::Result<Raw> {
        Raw::new(TcpStream::connect(("127.0.0.1", self.port))?)
    }

    /// The value of a field of INFO, as a number.
    pub fn info(&self, field: &str) -> u64 {
        self.connect().info(field)
    }

    /// Waits until a field of INFO has a value.
    pub fn wait_info(&self, field: &str, wanted: u64) {
        let mut client = self.connect();
        let deadline = Instant::now() + PATIENCE;
        while client.try_call(&["PING"]).ok().flatten() != Some(simple("PONG")) {
            assert!(Instant::now() < deadline, "not let in");
            client = self.connect();
        }
        loop {
            let seen = client.info(field);
            if seen == wanted {
                return;
            }
            if Instant::now() >= deadline {
                panic!("{field} is {seen}, not {wanted}:\n{}", text(&client.call(&["CLIENT", "LIST"])));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until only the asking client is connected.
    pub fn wait_alone(&self) {
        self.wait_info("connected_clients", 1);
    }

    /// Resident bytes of the process.
    pub fn rss(&self) -> u64 {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.pid())).unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }

    /// CPU time of the process so far.
    pub fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Duration::from_millis(ticks * 10)
    }

    /// Sets the limit of open files of the running process. Returns the former limit.
    pub fn limit_files(&self, most: u64) -> u64 {
        process::limit_files(self.pid(), most)
    }

    /// Sends SIGTERM and waits for the end.
    pub fn terminate(mut self) -> ExitStatus {
        process::terminate(self.pid());
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.launched.process.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Asserts that it runs and answers others promptly.
    pub fn is_well(&self) {
        let mut client = self.connect();
        let begin = Instant::now();
        assert_eq!(client.call(&["PING"]), simple("PONG"));
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(5), "{took:?} for a PING");
    }
}

/// A connection.
pub struct Raw {
    pub stream: TcpStream,
    buffer: Vec<u8>,
    start: usize,
    decoder: ReplyDecoder,
}

impl Raw {
    fn new(stream: TcpStream) -> io::Result<Raw> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Raw { stream, buffer: Vec::new(), start: 0, decoder: ReplyDecoder::default() })
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends a command.
    pub fn command<T: AsRef<[u8]>>(&mut self, args: &[T]) {
        self.send(request(args));
    }

    /// Sends a command and waits for its reply.
    pub fn call<T: AsRef<[u8]>>(&mut self, args: &[T]) -> Value {
        self.command(args);
        self.reply()
    }

    /// Sends a command and waits for its reply; `None` at the end of the stream.
    pub fn try_call<T: AsRef<[u8]>>(&mut self, args: &[T]) -> io::Result<Option<Value>> {
        self.stream.write_all(&request(args))?;
        self.try_reply()
    }

    /// The next reply.
    pub fn reply(&mut self) -> Value {
        self.try_reply().expect("a reply").expect("a reply before the end")
    }

    /// The next reply; `None` at the end of the stream.
    pub fn try_reply(&mut self) -> io::Result<Option<Value>> {
        loop {
            match self.decoder.next(&self.buffer[self.start..]) {
                Ok(Some((value, len))) => {
                    self.start += len;
                    if self.start == self.buffer.len() {
                        self.buffer.clear();
                        self.start = 0;
                    }
                    return Ok(Some(value));
                }
                Ok(None) => {}
                Err(error) => panic!("no reply: {error:?}"),
            }
            if !self.read_more()? {
                return Ok(None);
            }
        }
    }

    /// Reads some bytes. Returns false if the stream has ended.
    fn read_more(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let old = self.buffer.len();
        self.buffer.resize(old + (64 << 10).max(old), 0);
        let read = loop {
            match self.stream.read(&mut self.buffer[old..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.buffer.truncate(old + read.as_ref().map_or(0, |n| *n));
        Ok(read? > 0)
    }

    /// True if the server has closed the connection, or does within the patience; earlier bytes are dropped.
    pub fn is_closed(&mut self) -> bool {
        loop {
            self.buffer.clear();
            self.start = 0;
            match self.read_more() {
                Ok(true) => {}
                Ok(false) => return true,
                Err(error) => return error.kind() == io::ErrorKind::ConnectionReset,
            }
        }
    }

    /// Everything until the end of the stream, as text.
    pub fn rest(&mut self) -> String {
        while self.read_more().unwrap_or(false) {}
        String::from_utf8_lossy(&self.buffer[self.start..]).into_owned()
    }

    /// Asserts that nothing comes for a moment.
    pub fn is_silent(&mut self) {
        self.stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let read = self.read_more();
        assert!(read.is_err(), "{:?}", String::from_utf8_lossy(&self.buffer));
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    }

    /// Asserts that nothing has come so far.
    pub fn is_silent_now(&mut self) {
        self.stream.set_nonblocking(true).unwrap();
        let read = self.read_more();
        assert!(read.is_err(), "{:?}", String::from_utf8_lossy(&self.buffer));
        self.stream.set_nonblocking(false).unwrap();
    }

    /// Ends sending.
    pub fn half_close(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Ends the connection with a reset.
    pub fn reset(self) {
        process::reset_on_close(&self.stream);
    }

    /// The value of a field of INFO, as a number.
    pub fn info(&mut self, field: &str) -> u64 {
        let text = text(&self.call(&["INFO", "everything"]));
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {field} in {text}")).trim().parse().unwrap()
    }

    /// CLIENT ID.
    pub fn id(&mut self) -> String {
        match self.call(&["CLIENT", "ID"]) {
            Value::Integer(id) => id.to_string(),
            other => panic!("{other:?}"),
        }
    }
}

/// A command as bytes.
pub fn request<T: AsRef<[u8]>>(args: &[T]) -> Vec<u8> {
    let mut bytes = Vec::new();
    resp::append_request(&mut bytes, args);
    bytes
}

/// The text of a string reply.
pub fn text(value: &Value) -> String {
    String::from_utf8_lossy(&bytes(value)).into_owned()
}

/// The bytes of a string reply, the text of a simple one or an error.
pub fn bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::Simple(text) | Value::Error(text) | Value::Bulk(text) | Value::Verbatim(_, text) => text.clone(),
        other => panic!("not a string: {other:?}"),
    }
}

pub fn simple(text: &str) -> Value {
    Value::Simple(text.into())
}

pub fn bulk(text: impl AsRef<[u8]>) -> Value {
    Value::Bulk(text.as_ref().into())
}

/// Makes a test of every function named, under both drivers. Each takes [`How`].
#[macro_export]
macro_rules! under_both_drivers {
    ($workers:literal: $($module:ident :: $name:ident)*) => {
        mod epoll {
            $(#[test] fn $name() {
                $crate::$module::$name($crate::support::attack::How { driver: "epoll", workers: $workers });
            })*
        }
        mod io_uring {
            $(#[test] fn $name() {
                $crate::$module::$name($crate::support::attack::How { driver: "io_uring", workers: $workers });
            })*
        }
    };
}
