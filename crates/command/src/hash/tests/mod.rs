//! Commands on hashes: exact replies, and random histories against a model and against their own effects.

mod events;
mod expiry;
mod model;
mod replies;
