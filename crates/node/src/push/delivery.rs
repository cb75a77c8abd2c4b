//! What channels are published by, and the messages on their way.

use std::sync::Arc;

use keyspace::Horizon;

/// What a subscription is to.
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

/// Where a subscriber is: its worker, and what that calls it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Index of the worker.
    pub worker: u16,
    /// The worker's name for the connection.
    pub token: u64,
}

/// A message on its way to the subscribers at one worker.
pub struct Delivery {
    /// What it came by.
    pub kind: Kind,
    /// The channel or pattern subscribed to.
    pub topic: Arc<[u8]>,
    /// The message as RESP3 pushes it.
    pub push: Arc<[u8]>,
    /// The connections.
    pub tokens: Vec<u64>,
    /// What it waits for: who hears of it has seen what the publisher has.
    pub seen: Horizon,
}
