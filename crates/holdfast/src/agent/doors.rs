//! The ways by which an agent asks its children: a socket for each, of which clients know nothing. It listens while no
//! process accepts.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::server::chance;
use crate::server::metrics::SEEN;
use crate::server::sentinel::{Seen, Source};

/// The most bytes of an answer.
const ANSWER_MAX: u64 = 64 << 20;

/// How long a child may take to say how the cluster is.
const PATIENCE: Duration = Duration::from_millis(500);

/// The way to a child.
pub struct Door {
    /// Its number among those of its machine, from 1.
    pub number: usize,
    listener: UnixListener,
    /// Its name in the abstract namespace, behind a zero.
    name: Vec<u8>,
    is_up: AtomicBool,
    starts: AtomicU64,
}

/// The ways to all children, in the order of their numbers.
pub struct Doors(Vec<Arc<Door>>);

impl Doors {
    /// Opens so many.
    ///
    /// # Errors
    /// The system gives no sockets, or no randomness.
    pub fn open(count: usize) -> io::Result<Self> {
        (1..=count).map(|number| Door::open(number).map(Arc::new)).collect::<io::Result<_>>().map(Self)
    }

    /// All of them.
    pub fn all(&self) -> &[Arc<Door>] {
        &self.0
    }
}

impl Door {
    fn open(number: usize) -> io::Result<Self> {
        let name = format!("holdfast-{}-{number}-{:016x}", std::process::id(), u64::from_le_bytes(chance::random()?));
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        let name = [&[0], name.as_bytes()].concat();
        Ok(Self { number, listener, name, is_up: AtomicBool::new(false), starts: AtomicU64::new(0) })
    }

    /// Its descriptor, for the child.
    pub fn fd(&self) -> RawFd {
        self.listener.as_raw_fd()
    }

    /// A process is there from now on.
    pub fn is_started(&self) {
        self.is_up.store(true, SeqCst);
        self.starts.fetch_add(1, SeqCst);
    }

    /// The process has ended.
    pub fn has_ended(&self) {
        self.is_up.store(false, SeqCst);
    }

    /// How often it was started.
    pub fn starts(&self) -> u64 {
        self.starts.load(SeqCst)
    }

    /// The status and the text of the child's answer for a path.
    ///
    /// # Errors
    /// It does not run, or does not answer in this time.
    pub async fn ask(&self, path: &str, patience: Duration) -> io::Result<(u16, String)> {
        // A connection would wait for the next process.
        if !self.is_up.load(SeqCst) {
            return Err(io::Error::other("it does not run"));
        }
        timeout(patience, self.exchange(path)).await.map_err(|_| io::Error::other("it does not answer"))?
    }

    async fn exchange(&self, path: &str) -> io::Result<(u16, String)> {
        let mut stream = UnixStream::connect(OsStr::from_bytes(&self.name)).await?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: node\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.take(ANSWER_MAX).read_to_string(&mut answer).await?;
        let whole = answer.split_once("\r\n\r\n");
        let found = whole.and_then(|(head, body)| Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned())));
        found.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// The cluster as any child sees it, for clients of Sentinel.
pub struct Asked {
    doors: Arc<Doors>,
    /// The cluster, and the version of the last map.
    last: Mutex<(String, u64)>,
}

impl Asked {
    pub fn new(doors: &Arc<Doors>) -> Self {
        Self { doors: Arc::clone(doors), last: Mutex::default() }
    }
}

impl Source for Asked {
    /// The first one that knows leases, or else the first one that answers. One that has just started may know an older map
    /// than the agent has heard of.
    async fn look(&self) -> Option<Seen> {
        let mut found: Option<Seen> = None;
        for door in self.doors.all() {
            let Ok((200, text)) = door.ask(SEEN, PATIENCE).await else { continue };
            let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            let seen = Seen::read(&text).filter(|seen| !seen.is_before(&last.0, last.1));
            let is_led = seen.as_ref().is_some_and(|seen| seen.is_led);
            if is_led || found.is_none() {
                found = seen;
            }
            if is_led {
                break;
            }
        }
        let seen = found?;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = (seen.cluster.clone(), seen.version);
        Some(seen)
    }
}
