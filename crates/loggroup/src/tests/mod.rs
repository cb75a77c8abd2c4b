//! Tests: folders on simulated disks, walks with power failures, and acceptors with threads.

mod made;
mod opens;
mod running;
mod walk;
mod world;
