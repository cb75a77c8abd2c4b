//! A standby has what its owner had at the same LSN, whatever happens to either, and readers see prefixes.

mod cold;
mod history;
mod readers;
mod rules;
mod world;
