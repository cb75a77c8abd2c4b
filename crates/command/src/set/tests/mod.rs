//! Commands on sets: exact replies, and random histories against a model and against their own effects.

mod model;
mod replies;
