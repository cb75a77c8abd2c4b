//! Drivers that connect a worker to sockets: epoll and io_uring; listeners.
//!
//! The seam is narrow. A driver takes sockets, reads into the buffer that the worker gives, calls
//! [`node::Worker::turn`], and sends the bytes that the worker names. It does so again after each event, wake-up and
//! time limit.

#![warn(clippy::missing_errors_doc)]

mod accept;
pub mod descriptors;
mod epoll;
mod governor;
mod lane;
mod links;
mod listen;
mod listening;
mod server;
mod socket;
mod tls;
mod uring;

pub use lane::thread_cpu_ns;
pub use links::Links;
pub use listen::{Listener, Speaks, inherit};
pub use listening::{Listening, listeners};
pub use server::{Driver, Server};
pub use socket::{Incoming, Socket};
