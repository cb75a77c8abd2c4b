//! Command rows and handlers, one file or folder per family; effects and their replay.
//!
//! A command is data plus a function: one [`Row`]. Handlers are synchronous and see a [`Ctx`]; they know
//! no sockets, no log, no cluster. `CONTRIBUTING.md` shows how to add one.

#![warn(clippy::missing_errors_doc)]

mod arguments;
mod aside;
mod barrier;
mod ctx;
mod debug;
mod dialect;
mod digest;
mod dump;
pub mod effects;
mod elem;
mod error;
mod families;
mod generation;
mod help;
mod notify;
mod rest;
mod rng;
mod sample;
mod scan_options;
mod spec;
#[cfg(test)]
#[allow(dead_code, reason = "not every family needs all of it")]
mod testing;
mod tunables;
mod walk;

mod generic;
mod geo;
pub mod hash;
mod lacking;
mod list;
mod set;
mod stream;
mod string;
mod zset;

pub use arguments::check_i32;
pub use aside::{Aside, Prepared};
pub use barrier::{About, Barrier};
pub use ctx::{Block, Ctx, Nil, Outcome};
pub use dialect::{Dialect, Difference};
pub use digest::Digest;
pub use dump::{put_rdb_value, with_rdb_value};
pub use effects::{Before, Effect, Effects, Touched};
pub use error::Error;
pub use families::{FAMILIES, Reach, Run};
pub use generation::Generation;
pub use generic::{CLUSTER, slot_of_argument, slot_of_cursor};
pub use help::write_help;
pub use notify::{Event, Events, class};
pub use rest::Rest;
pub use rng::Rng;
pub use spec::{Begin, Find, KeyAt, KeySpec, Row, Spec, flags, key_flags};
pub use tunables::Tunables;
pub use walk::{Position, Visited, Walk};
