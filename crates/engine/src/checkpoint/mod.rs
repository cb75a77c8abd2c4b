//! Checkpoints: the contents of memory are written to the store, slot by slot, while workers go on. Then the log may be
//! cut.
//!
//! A *round* walks every slot that has changed since the last one (`walk`), and writes its copies. It waits until the
//! log has committed all of them (rule C2). Then it makes the round durable with one flush of the store, which holds
//! all of it or nothing. The round has entries, each slot's C(s), the databases, and the position up to which the log
//! is not needed any more (rules C1, C3). After a crash the store is as after some round, and the log has everything
//! since: `load` and `replay` make memory of the two.
//!
//! The checkpointer is a state machine that does a little at each [`Checkpointer::step`]: a latch is held for one hold
//! of a walk at most. The caller decides how much of a core it may have.

mod batch;
mod copied;
mod counts;
mod directories;
mod fetch;
mod format;
mod generation;
pub(crate) mod had;
mod hand;
mod later;
mod list;
mod load;
mod output;
mod replay;
mod round;
mod source;
#[cfg(test)]
pub(crate) mod tests;
mod walk;
mod warm;

pub use batch::Batch;
pub use counts::Counts;
pub use directories::{directories, note_directories};
pub use fetch::{fetch, fetch_from};
pub use format::Header;
pub use generation::{Clearing, begin as begin_generation, leave_mark, moment};
pub use hand::Hand;
pub use load::{Loaded, Unloadable, header, highest, note_streams, restore, streams_begun};
pub use replay::{Dealer, Due, Replay, Replayed, Unreplayable, Why};
pub use round::{Checkpointer, Figures, LONG_HOLD_NS, Step, World};
pub use source::StoreSource;
pub use warm::{WarmUp, Warmth};
