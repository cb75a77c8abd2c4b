//! The protocol of Redis Sentinel. Its clients ask for the address of a master by a name, and subscribe to hear when that
//! changes.
//!
//! A [`Session`] is one connection: bytes in, bytes out. It answers from a [`View`] of the cluster that the caller hands
//! in. [`news`] says what subscribers hear when another view replaces it. Nothing here decides who the master is.

#![warn(clippy::missing_errors_doc)]

mod answers;
mod fields;
mod session;
#[cfg(test)]
mod tests;
mod view;

pub use session::Session;
pub use view::{Master, News, Place, View, news};
