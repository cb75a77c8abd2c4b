//! Tells the cluster that a child has ended (rule S12).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use membership::control::Parent;

use super::child::Life;

/// The agent's voice.
pub struct Bereaved {
    parent: Arc<Parent>,
    /// Tellings under way.
    tells: Arc<AtomicUsize>,
}

impl Bereaved {
    pub fn new(parent: Parent) -> Self {
        Self { parent: Arc::new(parent), tells: Arc::default() }
    }

    /// Tells it, on a thread of its own. Returns what ends that: a later life of the node says the same.
    ///
    /// Call it only after a wait for the process that had this life.
    pub fn tell(&self, life: Life) -> Arc<AtomicBool> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (parent, over, tells) = (Arc::clone(&self.parent), Arc::clone(&is_over), Arc::clone(&self.tells));
        tells.fetch_add(1, SeqCst);
        let counted = Arc::clone(&tells);
        let tell = move || {
            let (node, start) = (life.party.node, life.party.incarnation);
            match parent.tell_end(life.party, &life.members, &over) {
                Ok(()) => tracing::info!("The cluster knows that start {start} of node {node} has ended"),
                Err(_) if over.load(SeqCst) => {}
                Err(why) => {
                    tracing::warn!("The cluster was not told that start {start} of node {node} has ended: {why}")
                }
            }
            counted.fetch_sub(1, SeqCst);
        };
        if let Err(error) = thread::Builder::new().name("bereaved".into()).spawn(tell) {
            tells.fetch_sub(1, SeqCst);
            tracing::warn!("The cluster is not told that a node has ended: {error}");
        }
        is_over
    }

    /// True if a telling is under way.
    pub fn tells(&self) -> bool {
        self.tells.load(SeqCst) > 0
    }
}
