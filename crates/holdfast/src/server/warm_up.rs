//! The thread that reads the store into memory after a start (`engine::checkpoint::WarmUp`). This module decides how
//! much of a core it takes, and when it stops.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use engine::checkpoint::{Unloadable, WarmUp, Warmth};
use node::{Checkpoints, Node};

/// The thread's name.
pub const WARM_UP: &str = "warm-up";
/// A busy latch is free in so long, unless a script holds it.
const BUSY: Duration = Duration::from_micros(50);
/// Work is slept off in sleeps of at least this.
const SLEEP_MIN_NS: u64 = 500_000;
/// No step is slept off for longer than this.
const SLEEP_MAX_NS: u64 = 20_000_000;
/// Percent of the memory for data that it fills, by `maxmemory` and the limits of the system.
const FILL: u64 = 90;

/// Starts it.
pub fn start(node: &Arc<Node>, checkpoints: &Arc<Checkpoints>, mut warm: WarmUp) -> std::io::Result<JoinHandle<()>> {
    let (node, checkpoints) = (Arc::clone(node), Arc::clone(checkpoints));
    thread::Builder::new().name(WARM_UP.into()).spawn(move || {
        let began = node.clock.monotonic_ns();
        let outcome = run(&node, &checkpoints, &mut warm);
        checkpoints.warming_up(warm.progress(), warm.keys());
        let (keys, ms) = (warm.keys(), node.clock.monotonic_ns().since(began) / 1_000_000);
        match outcome {
            Ok(true) if keys > 0 => tracing::info!("Everything is in memory: {keys} keys were read in {ms} ms"),
            Ok(true) => {}
            Ok(false) => {
                tracing::info!("{keys} keys were read into memory, each of the others is read when a command needs it")
            }
            Err(why) => tracing::warn!("The keys in the store could not be read into memory: {why}"),
        }
    })
}

/// Returns true at the end of the store. False: memory is nearly full, the setting forbids it, or the server stops.
fn run(node: &Node, checkpoints: &Checkpoints, warm: &mut WarmUp) -> Result<bool, Unloadable> {
    let mut owed = 0;
    loop {
        let settings = node.config.settings();
        let (share, most) =
            (u64::from(settings.warm_up_cpu), node.usable_now(&settings, node.clock.unix_ms()) / 100 * FILL);
        if node.stopping.load(Relaxed) || share == 0 || node.uses_more_than(most) {
            return Ok(false);
        }
        let before = node.clock.monotonic_ns();
        match warm.step(|waiter| node.wake(waiter)) {
            Ok(Warmth::Done) => return Ok(true),
            Ok(Warmth::Busy) => thread::park_timeout(BUSY),
            Ok(Warmth::More) => {}
            Err(Unloadable::NoRoom) => return Ok(false),
            Err(why) => return Err(why),
        }
        let took = node.clock.monotonic_ns().since(before);
        owed += (took * (100 - share) / share).min(SLEEP_MAX_NS);
        if owed >= SLEEP_MIN_NS {
            checkpoints.warming_up(warm.progress(), warm.keys());
            thread::park_timeout(Duration::from_nanos(owed));
            owed = 0;
        }
    }
}
