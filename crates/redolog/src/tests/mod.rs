//! The log as a whole, on a disk that loses, tears and reorders unsynced writes.

mod alike;
mod around;
mod copies;
mod crashes;
mod failing;
mod formats;
mod grouped;
mod lacking;
mod lives;
mod merging;
mod passing;
mod reading;
mod reuse;
mod running;
mod standing;
mod starts;
