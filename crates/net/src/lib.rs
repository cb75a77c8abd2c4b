//! Drivers that connect a worker to sockets: epoll and io_uring; listeners.
//!
//! The seam is narrow: a driver accepts, reads into the room that the worker gives, calls
//! [`node::Worker::turn`], sends what the worker names, and comes back when woken or when time is up.

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
mod uring;

pub use lane::thread_cpu_ns;
pub use links::Links;
pub use listen::Listener;
pub use listening::{Listening, listeners};
pub use server::{Driver, Server};
pub use socket::{Incoming, Socket};
