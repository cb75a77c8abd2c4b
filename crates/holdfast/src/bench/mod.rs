//! `holdfast bench`: a load generator light enough to saturate the server from one core.
//!
//! `options` is the command line, and `nodes` the servers. `keys`, `template` and `workload` make the requests;
//! `connection` and `worker` send them, and `reconnect` makes lost connections again; `scan` counts the replies. `stats`, `process` and `report` give the results.
//! Nothing here knows the server: it works against any that speaks RESP.

mod clock;
mod connection;
mod keys;
mod nodes;
mod options;
mod process;
mod reconnect;
mod report;
mod run;
mod scan;
mod stats;
mod template;
mod worker;
mod workload;

pub use options::Options;
pub use run::run;
