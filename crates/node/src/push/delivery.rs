//! The kinds of subscriptions, and the messages on their way.

use std::sync::Arc;

use keyspace::Horizon;

/// The kind of a subscription.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// SUBSCRIBE.
    Channel,
    /// PSUBSCRIBE.
    Pattern,
    /// SSUBSCRIBE.
    Shard,
}

impl Kind {
    /// The first word of a message that came by such a subscription.
    pub(super) fn message(self) -> &'static str {
        match self {
            Kind::Channel => "message",
            Kind::Pattern => "pmessage",
            Kind::Shard => "smessage",
        }
    }
}

/// The place of a subscriber: its worker, and the worker's name for the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Index of the worker.
    pub worker: u16,
    /// The worker's name for the connection.
    pub token: u64,
}

/// A message on its way to the subscribers at one worker.
pub struct Delivery {
    /// The kind of subscription that it goes to.
    pub kind: Kind,
    /// The channel or pattern subscribed to.
    pub topic: Arc<[u8]>,
    /// The message as RESP3 pushes it.
    pub push: Arc<[u8]>,
    /// The connections.
    pub tokens: Vec<u64>,
    /// The versions that it waits for: its receivers see what the publisher has seen.
    pub seen: Horizon,
}
