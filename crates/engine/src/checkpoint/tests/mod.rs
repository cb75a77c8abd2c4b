//! Checkpoints, crashes at any step, recovery: what comes back is a prefix of the history that has everything
//! committed.

mod concurrent;
mod crashes;
mod dealing;
mod evicted;
mod fetched;
mod generations;
mod hand;
mod lengths;
mod long;
mod model;
mod warming;
