//! The log as a whole on a disk that loses, tears and reorders what was not synced.

mod alike;
mod copies;
mod crashes;
mod failing;
mod lacking;
mod reuse;
mod running;
mod standing;
mod starts;
