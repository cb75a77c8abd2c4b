//! A real redis-server, and the catalogue of its commands.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use acl::{Catalogue, Categories, Channels, Declared};
use resp::{ReplyDecoder, ReplyLimits, Value};

/// A server process and a connection to it; both end with the value.
pub struct Redis {
    process: Child,
    stream: TcpStream,
    unread: Vec<u8>,
    dir: PathBuf,
}

impl Redis {
    pub fn start(program: &Path, users: &str) -> Redis {
        let peer = (0..5).find_map(|_| Redis::try_start(program, users));
        peer.unwrap_or_else(|| panic!("{} does not answer", program.display()))
    }

    fn try_start(program: &Path, users: &str) -> Option<Redis> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let dir = std::env::temp_dir().join(format!("holdfast-acl-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("users.acl"), users).unwrap();
        let mut process = Command::new(program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--aclfile", "users.acl"])
            .arg("--dir")
            .arg(&dir)
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let stream = (0..500).find_map(|_| {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok();
            if stream.is_none() {
                std::thread::sleep(Duration::from_millis(10));
            }
            stream
        });
        let Some(stream) = stream else {
            let _ = process.kill();
            let _ = process.wait();
            return None;
        };
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Some(Redis { process, stream, unread: Vec::new(), dir })
    }

    /// The file that ACL LOAD reads.
    pub fn file(&self) -> PathBuf {
        self.dir.join("users.acl")
    }

    /// Sends a command and waits for its reply.
    pub fn call<T: AsRef<[u8]>>(&mut self, args: &[T]) -> Value {
        let mut request = Vec::new();
        resp::append_request(&mut request, args);
        self.stream.write_all(&request).unwrap();
        let mut decoder = ReplyDecoder::new(ReplyLimits::default());
        loop {
            if let Some((value, len)) = decoder.next(&self.unread).unwrap() {
                self.unread.drain(..len);
                return value;
            }
            let mut more = [0; 16 * 1024];
            let len = match self.stream.read(&mut more) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                len => len.unwrap(),
            };
            assert!(len > 0, "the server closed the connection");
            self.unread.extend_from_slice(&more[..len]);
        }
    }

    /// A command given as words.
    pub fn words(&mut self, line: &str) -> Value {
        self.call(&line.split(' ').collect::<Vec<_>>())
    }

    /// Its commands.
    pub fn catalogue(&mut self) -> Catalogue {
        let mut declared = Vec::new();
        items(&self.words("command")).iter().for_each(|command| declare(command, &mut declared));
        Catalogue::new(declared)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

pub fn text(value: &Value) -> String {
    match value {
        Value::Bulk(text) | Value::Simple(text) | Value::Error(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("no text: {other:?}"),
    }
}

/// A reply for people.
pub fn show(value: &Value) -> String {
    match value {
        Value::Array(items) | Value::Set(items) => {
            format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", "))
        }
        Value::Bulk(_) | Value::Simple(_) | Value::Error(_) => text(value),
        other => format!("{other:?}"),
    }
}

pub fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) | Value::Set(items) => items,
        other => panic!("no array: {other:?}"),
    }
}

/// A command of COMMAND's reply, with its subcommands.
fn declare(command: &Value, declared: &mut Vec<Declared>) {
    let fields = items(command);
    let name = text(&fields[0]);
    let Value::Integer(arity) = fields[1] else { panic!("{name} has no arity") };
    let categories: Vec<String> = items(&fields[6]).iter().map(text).collect();
    let known = categories.iter().map(|name| name.trim_start_matches('@'));
    declared.push(Declared {
        arity: arity as i32,
        categories: Categories::named(known).unwrap_or_else(|| panic!("{name} has other categories")),
        is_free: items(&fields[2]).iter().any(|flag| text(flag) == "no_auth"),
        channels: match &*name {
            "publish" | "spublish" => Channels::First,
            "subscribe" | "ssubscribe" => Channels::All,
            "psubscribe" => Channels::Patterns,
            _ => Channels::None,
        },
        is_hidden: false,
        name,
    });
    items(&fields[9]).iter().for_each(|sub| declare(sub, declared));
}
