//! Lua 5.1 for `EVAL` and `FUNCTION`, independent of sockets, keys and commands.
//!
//! A script is a generator: [`Running::step`] runs it up to its next request. `redis.call` gives [`Step::Call`]; the
//! host executes the command [`Running::args`] on its own stack and steps on with the reply's bytes. After about
//! [`Limits::slice`] instructions the script gives [`Step::SliceOver`], so that the host can serve others, read its
//! clock and end the script with [`Input::Stop`]. The script knows no clock and no time limit.
//!
//! ```ignore
//! let mut running = Running::eval(machine, &source, keys, argv, seed)?;
//! let mut step = running.step(Input::Start);
//! loop {
//!     step = match step {
//!         Step::Call { protocol } => { /* execute running.args() into `reply` */ running.step(Input::Reply(&reply)) }
//!         Step::CheckCommand => running.step(Input::Checked(Checked::Allowed)),
//!         Step::Log { .. } | Step::SliceOver => running.step(Input::Continue),
//!         Step::Done => break,
//!     };
//! }
//! let finished = running.finish(protocol, &mut out);
//! ```
//!
//! The host's tasks: numkeys and arity of `EVAL`, the cache of sources by SHA1 and its eviction, undoing a stopped
//! script's writes, the time limit and `SCRIPT KILL`. The host also decides which commands a script may call, and
//! answers others with an error reply: write commands in a read-only script, commands not allowed from scripts, ACLs.

#![warn(clippy::missing_errors_doc)]

mod api;
mod bit;
mod error;
mod errors;
mod json;
mod library;
mod load;
mod lua;
mod lzf;
mod machine;
mod msgpack;
mod newproxy;
mod pack;
mod pattern;
mod payload;
mod random;
mod reply;
mod running;
mod sandbox;
mod source;

pub use api::REDIS_VERSION;
pub use error::Error;
pub use library::{Function, Library, library_name, load_library};
pub use lua::memory;
pub use machine::{Limits, Machine};
pub use payload::{dump_libraries, restore_libraries};
pub use running::{Checked, Finished, Input, LogLevel, Outcome, Refused, Running, Step};
pub use source::{Flags, Source};
