//! The nodes of a former agent of this machine that was killed: they end in order by themselves, and have the sockets until
//! then. A supervisor may start the next agent before.

use std::io;

use node::config::Settings;

use super::TICK;
use super::plan::Plan;
use crate::server::clock;
use crate::server::process::Signals;

/// The longest wait for their end, in milliseconds. A port that is taken then is somebody else's.
const ENDS_MS: u64 = 30_000;

/// Waits until the ports of nodes are free, or the time is up: opening them says then which is not. False: the agent is to
/// end meanwhile.
pub fn has_ended(plans: &[Plan], signals: &Signals) -> bool {
    let until = clock::monotonic_ms() + ENDS_MS;
    let mut has_told = false;
    for plan in plans {
        let settings = Settings { unixsocket: None, ..plan.settings.clone() };
        while let Err(why) = net::listeners(&settings)
            && why.kind() == io::ErrorKind::AddrInUse
            && clock::monotonic_ms() < until
        {
            if !has_told {
                tracing::warn!("{why}: nodes of an earlier start may be ending, and are waited for");
                has_told = true;
            }
            if let Some("SIGTERM" | "SIGINT") = signals.wait_for(TICK) {
                return false;
            }
        }
    }
    true
}
