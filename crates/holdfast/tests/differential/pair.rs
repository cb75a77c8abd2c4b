//! Two servers side by side, and when their replies count as the same.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use resp::{ReplyDecoder, ReplyLimits, Value};

use crate::support::{Scratch, free_port};

/// Thresholds so low that short histories cross them; both servers take them.
const SETTINGS: &[&str] = &[
    "--save",
    "",
    "--appendonly",
    "no",
    "--list-max-listpack-size",
    "6",
    "--hash-max-listpack-entries",
    "5",
    "--hash-max-listpack-value",
    "40",
    "--set-max-intset-entries",
    "4",
    "--set-max-listpack-entries",
    "5",
    "--set-max-listpack-value",
    "40",
    "--zset-max-listpack-entries",
    "5",
    "--zset-max-listpack-value",
    "40",
];

/// A server process and a connection to it; both end with the value.
pub struct Peer {
    process: Child,
    stream: TcpStream,
    unread: Vec<u8>,
    /// Where it works.
    _dir: Scratch,
}

impl Peer {
    /// Starts `program` with `args` before the settings and connects.
    pub fn start(program: &Path, args: &[&str]) -> Peer {
        // Somebody else may take the port before the server does.
        let peer = (0..5).find_map(|_| Self::try_start(program, args));
        peer.unwrap_or_else(|| panic!("{} does not answer", program.display()))
    }

    fn try_start(program: &Path, args: &[&str]) -> Option<Peer> {
        let (port, dir) = (free_port(), Scratch::new());
        let mut process = Command::new(program)
            .args(args)
            .args(["--port", &port.to_string(), "--dir", &dir.path().display().to_string()])
            .args(SETTINGS)
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let Some(stream) = connect(port) else {
            let _ = process.kill();
            let _ = process.wait();
            return None;
        };
        let mut peer = Peer { process, stream, unread: Vec::new(), _dir: dir };
        let wanted = format!("process_id:{}\r\n", peer.process.id());
        let Value::Bulk(info) = peer.words("info server") else { panic!("INFO is a string") };
        String::from_utf8_lossy(&info).contains(&wanted).then_some(peer)
    }

    /// The version it says it has: 255.255 for one that is not released.
    pub fn version(&mut self) -> (u32, u32) {
        let Value::Bulk(info) = self.words("info server") else { panic!("INFO is a string") };
        let info = String::from_utf8_lossy(&info).into_owned();
        let line = info.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or_default().to_owned();
        let mut parts = line.split('.').map(|part| part.parse().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
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
        self.call(&line.split_ascii_whitespace().collect::<Vec<_>>())
    }
}

fn connect(port: u16) -> Option<TcpStream> {
    for _ in 0..500 {
        if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            return Some(stream);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A reply in a form in which what may differ does not: members without order are sorted, doubles are numbers.
pub fn comparable(command: &[u8], reply: Value) -> Value {
    let reply = numbers(reply);
    match command {
        b"smembers" | b"sunion" | b"sinter" | b"sdiff" | b"hkeys" | b"hvals" | b"keys" => sorted(reply, 1),
        b"hgetall" => sorted(reply, 2),
        b"exec" => deeply_sorted(timeless(reply)),
        b"sscan" | b"scan" => scanned(reply, 1),
        b"hello" => about_hello(reply),
        b"xpending" | b"xinfo" | b"xreadgroup" => timeless(reply),
        b"zscan" => scanned(reply, 2),
        // Redis makes a hash ready for expiries even by a command that then sets none.
        b"object" if reply == Value::Bulk(b"listpackex".to_vec()) => Value::Bulk(b"listpack".to_vec()),
        // Without values a field stands alone; pairs of fields sort as well, as long as both servers show them alike.
        b"hscan" => scanned(reply, 1),
        _ => reply,
    }
}

/// Without the times that XPENDING, XINFO and XREADGROUP tell, without the shape of Redis's tree, and without what only some versions of
/// Redis tell.
fn timeless(reply: Value) -> Value {
    // Redis knows producers of entries (IDMP), which are not there, and since 8.8 XNACK.
    let is_new = |name: &Value| {
        const NAMES: [&[u8]; 4] = [b"idmp-", b"pids-", b"iids-", b"nacked-count"];
        matches!(name, Value::Bulk(name) if NAMES.iter().any(|prefix| name.starts_with(prefix)))
    };
    const TIMES: [&[u8]; 5] = [b"idle", b"inactive", b"seen-time", b"active-time", b"radix-tree-nodes"];
    let is_time = |name: &Value| matches!(name, Value::Bulk(name) if TIMES.contains(&name.as_slice()));
    let unless_never = |value: Value| if value == Value::Integer(-1) { value } else { Value::Integer(0) };
    match reply {
        Value::Array(mut items) => {
            match items.as_mut_slice() {
                // -1: nobody has it.
                [Value::Bulk(_), Value::Bulk(_), Value::Integer(-1), Value::Integer(_)] => {}
                [Value::Bulk(_), Value::Bulk(_) | Value::Array(_), time @ Value::Integer(_), Value::Integer(_)]
                | [Value::Bulk(_), time @ Value::Integer(_), Value::Integer(_)] => *time = Value::Integer(0),
                _ => {}
            }
            while let Some(at) = items.iter().position(is_new) {
                items.drain(at..(at + 2).min(items.len()));
            }
            let mut after_name = false;
            let items = items.into_iter().map(|item| {
                let item = if std::mem::take(&mut after_name) { unless_never(item) } else { timeless(item) };
                after_name = is_time(&item);
                item
            });
            Value::Array(items.collect())
        }
        Value::Map(pairs) => {
            let pairs = pairs.into_iter().filter(|(name, _)| !is_new(name)).map(|(name, value)| {
                let value = if is_time(&name) { unless_never(value) } else { timeless(value) };
                (name, value)
            });
            Value::Map(pairs.collect())
        }
        other => other,
    }
}

/// A block may hold commands whose members have no order.
fn deeply_sorted(reply: Value) -> Value {
    match sorted(reply, 1) {
        Value::Array(items) => sorted(Value::Array(items.into_iter().map(|item| sorted(item, 1)).collect()), 1),
        other => other,
    }
}

/// Servers have names, versions and ids of their own.
fn about_hello(reply: Value) -> Value {
    if matches!(reply, Value::Error(_)) { reply } else { Value::Null }
}

/// Redis's shortest text of a double is not always the shortest, so doubles are compared as numbers.
fn numbers(reply: Value) -> Value {
    match reply {
        Value::Error(text) => Value::Error(printed(text)),
        Value::Bulk(text) => match double(&text) {
            Some(number) => Value::Double(number),
            None => Value::Bulk(text),
        },
        Value::Array(items) => Value::Array(items.into_iter().map(numbers).collect()),
        Value::Set(items) => Value::Set(items.into_iter().map(numbers).collect()),
        Value::Map(pairs) => Value::Map(pairs.into_iter().map(|(k, v)| (numbers(k), numbers(v))).collect()),
        other => other,
    }
}

/// An error as C prints it: what it quotes ends at a zero byte.
fn printed(mut text: Vec<u8>) -> Vec<u8> {
    while let Some(zero) = text.iter().position(|byte| *byte == 0) {
        let quote = text[zero..].iter().position(|byte| *byte == b'\'').unwrap_or(text.len() - zero);
        text.drain(zero..zero + quote);
    }
    text
}

/// A text of many digits that is a double.
fn double(text: &[u8]) -> Option<f64> {
    let long = text.len() >= 15 && text.contains(&b'.');
    std::str::from_utf8(text).ok().filter(|_| long).and_then(|text| text.parse().ok())
}

/// Members sorted, in groups of `width`.
fn sorted(reply: Value, width: usize) -> Value {
    let sort = |items: Vec<Value>| {
        let mut groups: Vec<Vec<Value>> = items.chunks(width).map(<[Value]>::to_vec).collect();
        groups.sort_by_key(|group| format!("{group:?}"));
        groups.concat()
    };
    match reply {
        Value::Array(items) => Value::Array(sort(items)),
        Value::Set(items) => Value::Set(sort(items)),
        Value::Map(mut pairs) => {
            pairs.sort_by_key(|pair| format!("{pair:?}"));
            Value::Map(pairs)
        }
        other => other,
    }
}

/// Cursor and members of a scan.
fn scanned(reply: Value, width: usize) -> Value {
    match reply {
        Value::Array(mut parts) if parts.len() == 2 => {
            let members = sorted(parts.remove(1), width);
            parts.push(members);
            Value::Array(parts)
        }
        other => other,
    }
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
