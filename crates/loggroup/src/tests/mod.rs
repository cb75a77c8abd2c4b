//! Tests: folders on simulated disks, walks with power failures, and acceptors with threads.

mod connections;
mod made;
mod opens;
mod probes;
mod reads;
mod tapped;
mod taps;
mod walk;
mod world;
mod writes;
