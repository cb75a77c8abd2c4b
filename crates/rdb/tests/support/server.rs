//! A real server on a Unix socket, and a client of it.
#![allow(clippy::disallowed_methods, reason = "tests wait for real servers")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A folder that is removed with its owner.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("rdb-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server; dropping it kills it.
pub struct Server {
    process: Child,
    input: BufReader<UnixStream>,
}

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Text(String),
    Error(String),
    Int(i64),
    Bytes(Option<Vec<u8>>),
    Array(Vec<Reply>),
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// Starts `program` on the files of `folder`, and waits until it has loaded them.
    pub fn start(program: &Path, folder: &Path, more: &[&str]) -> Self {
        let socket = folder.join("socket");
        let _ = std::fs::remove_file(&socket);
        let mut process = Command::new(program)
            .args(["--port", "0", "--save", "", "--enable-debug-command", "yes", "--maxmemory-policy", "allkeys-lfu"])
            .args(["--dir".as_ref(), folder.as_os_str(), "--unixsocket".as_ref(), socket.as_os_str()])
            .args(more)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let stream = loop {
            assert!(process.try_wait().unwrap().is_none(), "{} refused what it found", program.display());
            if let Ok(stream) = UnixStream::connect(&socket) {
                break stream;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let mut server = Server { process, input: BufReader::new(stream) };
        while matches!(server.call(&["PING"]), Reply::Error(_)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    pub fn call<A: AsRef<[u8]>>(&mut self, words: &[A]) -> Reply {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.as_ref().len()).as_bytes());
            request.extend_from_slice(word.as_ref());
            request.extend_from_slice(b"\r\n");
        }
        self.input.get_mut().write_all(&request).unwrap();
        self.reply()
    }

    /// A command in one line. Its words have no spaces.
    pub fn line(&mut self, line: &str) -> Reply {
        self.call(&line.split(' ').collect::<Vec<_>>())
    }

    fn reply(&mut self) -> Reply {
        let mut line = String::new();
        self.input.read_line(&mut line).unwrap();
        let (mark, text) = line.trim_end().split_at(1);
        let number = || text.parse::<i64>().unwrap();
        match mark {
            "+" => Reply::Text(text.to_owned()),
            "-" => Reply::Error(text.to_owned()),
            ":" => Reply::Int(number()),
            "$" if number() < 0 => Reply::Bytes(None),
            "$" => {
                let mut bytes = vec![0; number() as usize + 2];
                self.input.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                Reply::Bytes(Some(bytes))
            }
            "*" => Reply::Array((0..number()).map(|_| self.reply()).collect()),
            _ => panic!("{line}"),
        }
    }

    /// The type byte and the value of a key.
    pub fn body(&mut self, key: &[u8]) -> Vec<u8> {
        let Reply::Bytes(Some(mut payload)) = self.call(&[b"DUMP", key]) else { panic!("{}", key.escape_ascii()) };
        payload.truncate(payload.len() - 10);
        payload
    }

    /// A digest of all databases.
    pub fn digest(&mut self) -> Reply {
        self.line("DEBUG DIGEST")
    }
}
