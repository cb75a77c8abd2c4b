//! A real server beside ours: its process, and a connection to it. The differential tests of users and of whole
//! histories share it.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use resp::{ReplyDecoder, ReplyLimits, Value};

/// A server process, a connection to it, and its working directory. All end when the value is dropped.
pub struct Peer {
    process: Child,
    stream: TcpStream,
    unread: Vec<u8>,
    dir: PathBuf,
}

impl Peer {
    /// Starts `program` with `args` in a directory that has these files (name, text), and connects.
    pub fn start(program: &Path, args: &[&str], files: &[(&str, &str)]) -> Peer {
        // Another process may take the port before the server does.
        let peer = (0..5).find_map(|_| Self::try_start(program, args, files));
        peer.unwrap_or_else(|| panic!("{} does not answer", program.display()))
    }

    fn try_start(program: &Path, args: &[&str], files: &[(&str, &str)]) -> Option<Peer> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let dir = std::env::temp_dir().join(format!("holdfast-peer-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        files.iter().for_each(|(name, text)| std::fs::write(dir.join(name), text).unwrap());
        let mut process = Command::new(program)
            .args(args)
            .args(["--port", &port.to_string(), "--dir"])
            .arg(&dir)
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let Some(stream) = connect(port) else {
            let _ = process.kill();
            let _ = process.wait();
            return None;
        };
        let mut peer = Peer { process, stream, unread: Vec::new(), dir };
        let wanted = format!("process_id:{}\r\n", peer.process.id());
        peer.info_server().contains(&wanted).then_some(peer)
    }

    /// The section `server` of its INFO.
    pub fn info_server(&mut self) -> String {
        let Value::Bulk(info) = self.words("info server") else { panic!("INFO is a string") };
        String::from_utf8_lossy(&info).into_owned()
    }

    /// The path of a file in its directory.
    #[allow(dead_code, reason = "each target uses its part")]
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
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

    /// A command given as words with one blank between two.
    pub fn words(&mut self, line: &str) -> Value {
        self.call(&line.split(' ').collect::<Vec<_>>())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn connect(port: u16) -> Option<TcpStream> {
    for _ in 0..500 {
        if let Ok(stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            return Some(stream);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

/// A reply for people.
pub fn show(value: &Value) -> String {
    let all = |items: &[Value]| items.iter().map(show).collect::<Vec<_>>().join(", ");
    match value {
        Value::Simple(text) => format!("+{}", text.escape_ascii()),
        Value::Error(text) => format!("-{}", text.escape_ascii()),
        Value::Bulk(text) => format!("\"{}\"", text.escape_ascii()),
        Value::Integer(number) => number.to_string(),
        Value::Null => "nil".into(),
        Value::Array(items) => format!("[{}]", all(items)),
        Value::Set(items) => format!("{{{}}}", all(items)),
        Value::Map(pairs) => {
            let pairs: Vec<_> = pairs.iter().map(|(key, value)| format!("{}: {}", show(key), show(value))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        other => format!("{other:?}"),
    }
}
