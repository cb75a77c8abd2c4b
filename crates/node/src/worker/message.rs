//! Messages between workers, and the mailbox that they go through.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use engine::Blocked;
use keyspace::Horizon;

use crate::cluster::Question;
use crate::durability::switching::Logging;
use crate::push::delivery::{Delivery, Kind};
use crate::push::notice::Notice;

/// A message to a worker.
pub enum Message {
    /// The latch this connection waits for may be free.
    Unpark(u64),
    /// The command this connection was blocked in has been served; this is its reply.
    Served {
        /// The connection.
        token: u64,
        /// The encoded reply. `None`: the command found nothing, and its client no longer waited.
        reply: Option<Vec<u8>>,
        /// The versions that the reply waits for.
        seen: Horizon,
    },
    /// Ends a connection (CLIENT KILL).
    Kill {
        /// The connection.
        token: u64,
    },
    /// A user may use no other channels than these: ends its connections that are subscribed to others.
    ChannelsLost {
        /// The user's number.
        user: u32,
        /// The subscriptions that it may keep.
        left: Arc<acl::Subscriptions>,
    },
    /// Users have fewer rights, or are gone: commands that wait are judged again.
    RightsChanged,
    /// Dropped when all earlier messages have been taken.
    Reached(std::sync::mpsc::SyncSender<()>),
    /// Ends a connection because of `maxmemory-clients`, and drops its unsent output.
    Evict {
        /// The connection.
        token: u64,
    },
    /// Answers a blocked connection whose wait has been cancelled (CLIENT UNBLOCK).
    Unblock {
        /// The connection.
        token: u64,
        /// The wait, which has been cancelled.
        wait: Arc<Blocked>,
        /// With an error instead of the nil of a timeout.
        with_error: bool,
    },
    /// As before, for a connection that waits for another node.
    UnblockElsewhere {
        /// The connection.
        token: u64,
        /// With an error instead of the nil of a timeout.
        with_error: bool,
        /// Where to note whether it was still waiting.
        question: Question,
    },
    /// A command for a client in MONITOR mode to see.
    Seen {
        /// The connection.
        token: u64,
        /// The line, with its end.
        line: Arc<[u8]>,
    },
    /// A message for subscribers.
    Publish(Box<Delivery>),
    /// A message for subscribers at other nodes, for the worker's links.
    Spread {
        /// The kind of its receivers: a channel, a pattern or a shard channel.
        kind: Kind,
        /// The channel.
        channel: Vec<u8>,
        /// The message.
        payload: Vec<u8>,
        /// The versions that the message waits for.
        seen: Horizon,
    },
    /// A message of a transaction over nodes for the worker's coordinator, with its sender.
    Transaction(Box<(txn::Life, txn::Message)>),
    /// An invalidation for a client that caches.
    Notice(Box<Notice>),
    /// Count from zero again (CONFIG RESETSTAT).
    ResetStats,
    /// Stand still, and answer whether you do: see `switching`.
    Halt(Sender<bool>),
    /// Go on.
    Resume,
    /// The log is switched on or off.
    Logging(Logging, Sender<()>),
    /// Look at the node's flags: something (shutdown, CLIENT PAUSE) has changed.
    Look,
}

/// A worker's mailbox. Senders put messages in and wake the worker's driver.
pub struct Mailbox {
    messages: Mutex<Vec<Message>>,
    /// Its own worker has put a message in, and looks before it waits.
    own: AtomicBool,
    /// The worker waits for the log.
    awaits_log: AtomicBool,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Mailbox {
    /// A mailbox; `wake` makes the worker's driver come back from waiting.
    pub fn new(wake: Box<dyn Fn() + Send + Sync>) -> Self {
        Self { messages: Mutex::default(), own: AtomicBool::new(false), awaits_log: AtomicBool::new(false), wake }
    }

    /// Sends a message.
    pub fn send(&self, message: Message) {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let first = messages.is_empty();
        messages.push(message);
        drop(messages);
        // A sender that finds mail which was not taken yet need not wake: the wake-up is on its way.
        if first {
            (self.wake)();
        }
    }

    /// Takes a message from its own worker, which [looks](Self::has_own) at the end of its turn and need not be woken.
    pub(crate) fn send_own(&self, message: Message) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        self.own.store(true, Relaxed);
    }

    /// True if its own worker has put a message in since the last look.
    pub(crate) fn has_own(&self) -> bool {
        self.own.load(Relaxed) && self.own.swap(false, Relaxed)
    }

    /// Says whether the worker is to be woken when the log has moved. The worker must look at the log after this.
    pub(crate) fn await_log(&self, awaits: bool) {
        self.awaits_log.store(awaits, Relaxed);
        fence(SeqCst);
    }

    /// Wakes the worker if it waits for the log.
    pub(crate) fn nudge(&self) {
        if self.awaits_log.load(Relaxed) && self.awaits_log.swap(false, Relaxed) {
            (self.wake)();
        }
    }

    /// Takes all messages.
    pub fn take(&self) -> Vec<Message> {
        std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
