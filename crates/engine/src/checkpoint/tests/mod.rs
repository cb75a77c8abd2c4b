//! Checkpoints, crashes at any step, recovery: a start finds a prefix of the history, with all committed changes.

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
