//! The thread that works on large values while their connections wait (`engine::Asides`).

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use node::Node;

/// Between two looks at whether the server stops.
const LOOK: Duration = Duration::from_millis(100);

/// Starts it. It ends when the server stops.
pub fn start(node: &Arc<Node>) -> io::Result<JoinHandle<()>> {
    node.engine.asides.open();
    let node = Arc::clone(node);
    let work = move || {
        while !node.is_stopping() {
            if let Some(task) = node.engine.asides.take(LOOK) {
                node.wake(task.run(|| node.clock.monotonic_ns().0));
            }
        }
    };
    thread::Builder::new().name("aside".into()).spawn(work)
}
