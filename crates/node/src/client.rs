//! A client as all workers may see it (CLIENT LIST): its own worker writes it, all read it.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use clocks::UnixMs;
use engine::Seat;

use crate::push::tracker::Tracker;

/// Bytes that a connection costs beside its buffers, roughly.
const CONNECTION: u64 = 1024;
/// Bytes that a watched key costs beside its own, roughly.
const WATCHED: u64 = 96;
/// Bytes that a subscription costs beside its channel's, roughly.
const SUBSCRIBED: u64 = 128;

/// Where a connection comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// "address:port" of the client, or "path:0" of a unix socket.
    pub address: String,
    /// "address:port" it connected to.
    pub local: String,
    /// Over a unix socket.
    pub unix: bool,
    /// From this machine.
    pub loopback: bool,
    /// It greets by TLS, and hears a refusal after that.
    pub tls: bool,
    /// The socket's descriptor, for CLIENT LIST.
    pub fd: i32,
    /// It came to `cluster-client-port`: a smart client, which finds the owner of a key by itself, as clients of Redis
    /// Cluster do.
    pub smart: bool,
}

/// One connected client.
pub struct Client {
    /// CLIENT ID.
    pub id: u64,
    /// Where it comes from.
    pub peer: Peer,
    /// When it connected.
    pub since: UnixMs,
    /// The worker that owns it.
    pub worker: AtomicU16,
    /// The worker's name for it.
    pub token: AtomicU64,
    /// Selected database.
    pub db: AtomicU16,
    /// Id + 1 of the last command; 0 before the first.
    pub last_command: AtomicU32,
    /// Unix milliseconds of the last command.
    pub last_active: AtomicU64,
    /// Commands queued by MULTI, -1 outside.
    pub queued: AtomicI32,
    /// Number of watched keys.
    pub watching: AtomicU32,
    /// Bytes of these keys.
    pub watched_bytes: AtomicU64,
    /// Blocked in a command.
    pub blocked: AtomicBool,
    /// 2 or 3.
    pub protocol: AtomicU16,
    /// Bytes waiting in the query buffer, without [`Self::arguments`].
    pub query_len: AtomicU64,
    /// Room behind them; for the rest of an argument whose length is known, the room that it needs.
    pub query_free: AtomicU64,
    /// Bytes of an arriving command before the argument that is arriving.
    pub arguments: AtomicU64,
    /// Bytes of output waiting to be sent.
    pub output_len: AtomicU64,
    /// Size of the buffer they are in.
    pub output_buffer: AtomicU64,
    /// Bytes of the commands queued by MULTI.
    pub queued_bytes: AtomicU64,
    /// Bytes that its transaction keeps between BEGIN and COMMIT.
    pub transaction_bytes: AtomicU64,
    /// Bytes received in total.
    pub bytes_in: AtomicU64,
    /// Bytes sent in total.
    pub bytes_out: AtomicU64,
    /// Reads of its socket.
    pub reads: AtomicU64,
    /// Times that commands of it were executed: each time may have been several.
    pub pipelines: AtomicU64,
    /// Commands in total.
    pub commands: AtomicU64,
    /// The difference to Redis's count: one more for each call of a script, one less while a command waits for keys.
    pub uneven: AtomicI64,
    /// Channels it has subscribed to.
    pub channels: AtomicU32,
    /// Patterns it has subscribed to.
    pub patterns: AtomicU32,
    /// Shard channels it has subscribed to.
    pub shard_channels: AtomicU32,
    /// Bytes of the names of all these.
    pub subscribed_bytes: AtomicU64,
    /// Blocked in a command that another node runs.
    pub waits_elsewhere: AtomicBool,
    /// In MONITOR mode.
    pub monitor: AtomicBool,
    /// CLIENT NO-EVICT, NO-TOUCH.
    pub no_evict: AtomicBool,
    /// See above.
    pub no_touch: AtomicBool,
    /// How it tracks.
    pub tracker: Tracker,
    /// The place where its wait is found by commands that end it.
    pub seat: Seat,
    texts: Mutex<Texts>,
}

/// The names that a client has given itself.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    /// CLIENT SETNAME.
    pub name: Vec<u8>,
    /// CLIENT SETINFO LIB-NAME.
    pub lib_name: Vec<u8>,
    /// CLIENT SETINFO LIB-VER.
    pub lib_version: Vec<u8>,
    /// ACL user.
    pub user: Vec<u8>,
}

impl Client {
    pub(crate) fn new(id: u64, peer: Peer, now: UnixMs, worker: u16, token: u64) -> Self {
        Self {
            id,
            peer,
            since: now,
            worker: AtomicU16::new(worker),
            token: AtomicU64::new(token),
            db: AtomicU16::new(0),
            last_command: AtomicU32::new(0),
            last_active: AtomicU64::new(now.0),
            queued: AtomicI32::new(-1),
            watching: AtomicU32::new(0),
            watched_bytes: AtomicU64::new(0),
            blocked: AtomicBool::new(false),
            protocol: AtomicU16::new(2),
            query_len: AtomicU64::new(0),
            query_free: AtomicU64::new(0),
            arguments: AtomicU64::new(0),
            output_len: AtomicU64::new(0),
            output_buffer: AtomicU64::new(0),
            queued_bytes: AtomicU64::new(0),
            transaction_bytes: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            pipelines: AtomicU64::new(0),
            commands: AtomicU64::new(0),
            uneven: AtomicI64::new(0),
            channels: AtomicU32::new(0),
            patterns: AtomicU32::new(0),
            shard_channels: AtomicU32::new(0),
            subscribed_bytes: AtomicU64::new(0),
            waits_elsewhere: AtomicBool::new(false),
            monitor: AtomicBool::new(false),
            no_evict: AtomicBool::new(false),
            no_touch: AtomicBool::new(false),
            tracker: Tracker::default(),
            seat: Seat::default(),
            texts: Mutex::new(Texts { user: b"default".to_vec(), ..Texts::default() }),
        }
    }

    /// Number of its subscriptions.
    pub fn subscriptions(&self) -> u32 {
        self.channels.load(Relaxed) + self.patterns.load(Relaxed) + self.shard_channels.load(Relaxed)
    }

    /// Bytes that it costs: its buffers, its queue, its transaction, the keys it watches, its subscriptions and itself,
    /// without the arguments of a running command. An announced argument counts as if it were there. So clients that
    /// send the same weigh the same, however it arrives.
    pub fn memory(&self) -> u64 {
        let sum = |counters: &[&AtomicU64]| counters.iter().map(|counter| counter.load(Relaxed)).sum::<u64>();
        let query = sum(&[&self.arguments, &self.query_len, &self.query_free]);
        let output = self.output_buffer.load(Relaxed).max(self.output_len.load(Relaxed));
        let watched = u64::from(self.watching.load(Relaxed)) * WATCHED + self.watched_bytes.load(Relaxed);
        let subscribed = u64::from(self.subscriptions()) * SUBSCRIBED + self.subscribed_bytes.load(Relaxed);
        CONNECTION
            + query
            + output
            + watched
            + subscribed
            + self.queued_bytes.load(Relaxed)
            + self.transaction_bytes.load(Relaxed)
            + self.tracker.prefix_bytes.load(Relaxed)
    }

    /// Adds to the commands that [`Client::commands`] leaves out. Only the client's worker does.
    pub(crate) fn count_besides(&self, more: i64) {
        self.uneven.store(self.uneven.load(Relaxed) + more, Relaxed);
    }

    /// Commands that have ended, those of its scripts included.
    pub fn ended(&self) -> u64 {
        self.commands.load(Relaxed).saturating_add_signed(self.uneven.load(Relaxed))
    }

    /// The names that the client has given itself.
    pub fn texts(&self) -> MutexGuard<'_, Texts> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
