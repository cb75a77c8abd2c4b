//! RESP2 and RESP3 requests and replies, inline commands.
//!
//! Nothing here knows a command, a connection or a clock: bytes go in, positions and bytes come out. Every reader
//! bounds the memory that its input can take, and no bytes can make it panic or loop.

#![warn(clippy::missing_errors_doc)]

mod batch;
mod double;
mod error;
mod inline;
mod owned;
mod parts;
mod reply;
mod request;
mod value;

pub use batch::{Args, Batch};
pub use double::{append_double, append_floating};
pub use error::ProtocolError;
pub use inline::{UnbalancedQuotes, split_args};
pub use owned::OwnedArgs;
pub use parts::{Part, Parts};
pub use reply::{Deferred, Position, Protocol, Reply};
pub use request::{Decoder, LINE_MAX, Limits, Progress, append_request};
pub use value::{BadReply, ReplyDecoder, ReplyLimits, Scanner, Sort, Value, skip_reply};
