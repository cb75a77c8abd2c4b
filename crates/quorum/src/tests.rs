//! The machines one by one, and small groups of them: explored breadth first, and walked at random.

mod bytes;
mod folder;
mod machines;
mod model;
mod stories;
mod walk;
mod world;
