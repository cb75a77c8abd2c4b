//! The machines one by one, and whole shards: explored breadth first, and walked at random.

mod machines;
mod model;
mod stories;
mod walk;
mod world;
