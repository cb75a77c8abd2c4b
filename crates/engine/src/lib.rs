//! Executes commands: takes latches, runs handlers, parks, blocks and wakes. Knows no sockets.
//!
//! One [`Engine`] per worker over one [`Shared`]. The life of a command: its latches are taken (`Engine::run`), expired
//! keys are deleted, and the handler runs. Under the same latches watchers of its changes are told, and waiting
//! commands are served. Then the latches go back. A busy latch is reported ([`Ran::Busy`]) and the *connection* waits,
//! never the thread.

#![warn(clippy::missing_errors_doc)]

mod acquire;
mod apply;
mod aside;
#[cfg(test)]
mod aside_test;
mod attachment;
mod barrier;
mod block;
#[cfg(test)]
mod block_test;
mod blocked;
mod call;
pub mod checkpoint;
pub mod cold;
#[cfg(test)]
mod concurrent_test;
mod count;
mod engine;
mod evict;
mod expire;
#[cfg(test)]
mod expire_test;
pub mod follow;
mod journal;
#[cfg(test)]
mod late_test;
mod record;
mod serve;
mod snapshot;
mod space;
mod sweep;
#[cfg(test)]
mod testing;
mod tidy;
mod tracking;
mod transactions;
#[cfg(test)]
mod versions_test;
mod walker;
mod watch;
mod workspace;

pub use aside::{Asides, Task};
pub use block::{Again, Begin, BlockRun};
pub use blocked::{Blocked, Ending, Seat, Served};
pub use call::{Busy, Call, Ran};
pub use engine::{Engine, Shared};
pub use evict::{Order, Policy, Room, Stayed};
pub use record::{LATE_FROM, LIBRARIES_SLOT, Link, lsn_of};
pub use snapshot::{OfDatabase, Progress, SnapshotWalk, Spoiled};
pub use sweep::Swept;
pub use tidy::Tidied;
pub use tracking::{Caller, Invalidation, Tracking};
pub use transactions::{
    Holder, InTheWay, LARGE, Locked, NotInstalled, Outcomes, STEPS, Transactions, Undone, Untimely, restore_locks,
};
pub use walker::{Step, Walking};
pub use watch::WatchedKey;
pub use workspace::{Made, Workspace};
