//! Metadata that a test keeps.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use cluster::NodeId;
use cluster::control::Status;
use cluster::meta::Command;
use node::cluster::{Administration, Changed};

/// What the metadata's leader says, as tests have it.
#[derive(Clone, Default)]
pub struct Leader(Arc<Mutex<Arc<BTreeSet<NodeId>>>>);

impl Leader {
    /// These nodes hold no leases.
    pub fn says(&self, silent: &[usize]) {
        *self.0.lock().unwrap() = Arc::new(silent.iter().map(|node| NodeId([*node as u8 + 1; 20])).collect());
    }
}

impl Administration for Leader {
    fn silent(&self) -> Arc<BTreeSet<NodeId>> {
        self.0.lock().unwrap().clone()
    }

    fn change(&self, _: Command, then: Changed) {
        then(Err("a test".into()));
    }

    fn settled(&self, then: Changed) {
        then(Ok(()));
    }

    fn has_data(&self, _: [u8; 16], then: Changed) {
        then(Ok(()));
    }

    fn status(&self, _: Box<dyn FnOnce(Status) + Send>) {}
}
