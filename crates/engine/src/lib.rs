//! Executes commands: latches, runs, emits, parks, blocks and wakes.
