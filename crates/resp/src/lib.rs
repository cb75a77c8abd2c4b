//! RESP2 and RESP3 requests and replies, inline commands.
//!
//! Nothing here knows a command, a connection or a clock: bytes go in, positions and bytes come out. Everything that reads
//! bounds what its input can make it keep, and no bytes can make it panic or loop.

mod batch;
mod error;
mod inline;
mod request;

pub use batch::{Args, Batch};
pub use error::ProtocolError;
pub use inline::{UnbalancedQuotes, split_args};
pub use request::{Decoder, LINE_MAX, Limits, Progress};
