//! The threads that fetch keys that are not in memory from the store (`engine::cold`).

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use engine::cold::Loader;
use node::{LOADERS, Node};

/// Requests that a loader takes at once. It leaves the rest to other loaders.
const BATCH: usize = 16;
/// The time between two looks at the queue without a wake-up.
const IDLE: Duration = Duration::from_millis(100);
/// A busy latch is free in so long, unless a script holds it.
const BUSY: Duration = Duration::from_micros(50);
/// The time between two looks for room for a large value. Other loaders finish theirs meanwhile.
const ROOM: Duration = Duration::from_millis(1);

/// Starts them.
pub fn start(node: &Arc<Node>) -> std::io::Result<Vec<JoinHandle<()>>> {
    node.engine.requests.open();
    (0..LOADERS)
        .map(|number| {
            let node = Arc::clone(node);
            let builder = thread::Builder::new().name(format!("loader-{number}"));
            builder.spawn(move || {
                let mut loader = Loader::new(node.engine.clone(), node.workers() + number);
                let requests = &node.engine.requests;
                let pause = |loader: &Loader| match loader.is_busy() {
                    false => IDLE,
                    true if loader.only_postpones() => ROOM,
                    true => BUSY,
                };
                while let Some(batch) = requests.take(BATCH, pause(&loader)) {
                    loader.serve(batch, node.clock.monotonic_ns().ms(), |waiter| node.wake(waiter));
                }
            })
        })
        .collect()
}
