//! Checkpoints, crashes at any step, recovery: a start finds a prefix of the history, with all committed changes.

mod concurrent;
mod crashes;
mod dealing;
mod evicted;
mod fetched;
mod generations;
pub(crate) mod hand;
mod lengths;
mod long;
pub(crate) mod model;
mod warming;
