//! Metadata that a test keeps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use membership::NodeId;
use membership::control::{NotConfigured, Status};
use membership::meta::{Command, Setting};
use node::Node;
use node::cluster::{Administration, Changed, LibrariesChanged, SettingsChanged, take_agreed};

use crate::net::Net;

/// The leases that the metadata's leader reports, as tests set them.
#[derive(Clone, Default)]
pub struct Leader(Arc<Mutex<Arc<BTreeSet<NodeId>>>>);

impl Leader {
    /// Reports that these nodes hold no leases.
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

    fn change_libraries(&self, _: u64, _: Arc<[u8]>, then: LibrariesChanged) {
        then(Err("a test".into()));
    }

    fn configure(&self, _: Vec<Setting>, then: SettingsChanged) {
        then(Err(NotConfigured::Refused("a test".into())));
    }

    fn settled(&self, then: Changed) {
        then(Ok(()));
    }

    fn has_data(&self, _: [u8; 16], then: Changed) {
        then(Ok(()));
    }

    fn status(&self, _: Box<dyn FnOnce(Status) + Send>) {}
}

/// Metadata that have libraries of functions and settings, and nothing else.
#[derive(Clone, Default)]
pub struct Librarian(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    version: u64,
    payload: Arc<[u8]>,
    settings: BTreeMap<String, Vec<u8>>,
    /// The reason why nothing can be changed, if so.
    fails: Option<String>,
    /// Nodes that hear of nothing.
    deaf: Vec<usize>,
    nodes: Vec<Arc<Node>>,
}

impl Librarian {
    /// Makes the metadata of these nodes.
    pub fn of(nodes: Vec<Arc<Node>>) -> Self {
        Self(Arc::new(Mutex::new(Kept { nodes, ..Kept::default() })))
    }

    /// Changes the libraries. No node has heard of it yet.
    pub fn changes(&self, payload: Vec<u8>) {
        let mut kept = self.0.lock().unwrap();
        kept.version += 1;
        kept.payload = payload.into();
    }

    /// These nodes hear of nothing; all others of everything so far.
    pub fn does_not_tell(&self, deaf: &[usize]) {
        let mut kept = self.0.lock().unwrap();
        kept.deaf = deaf.to_vec();
        kept.tell();
    }

    /// From now on nothing can be changed.
    pub fn fails(&self, why: &str) {
        self.0.lock().unwrap().fails = Some(why.to_owned());
    }
}

impl Kept {
    fn tell(&self) {
        let hears = |(index, _): &(usize, &Arc<Node>)| !self.deaf.contains(index);
        for (_, node) in self.nodes.iter().enumerate().filter(hears) {
            take_agreed(node, self.version, &self.payload).unwrap();
        }
    }
}

impl Administration for Librarian {
    fn silent(&self) -> Arc<BTreeSet<NodeId>> {
        Arc::default()
    }

    fn change(&self, _: Command, then: Changed) {
        then(Err("a test".into()));
    }

    fn change_libraries(&self, known: u64, payload: Arc<[u8]>, then: LibrariesChanged) {
        let changed = {
            let mut kept = self.0.lock().unwrap();
            let is_first = kept.version == known;
            if is_first && kept.fails.is_none() {
                (kept.version, kept.payload) = (known + 1, payload);
            }
            kept.tell();
            kept.fails.clone().map_or(Ok(is_first), Err)
        };
        then(changed);
    }

    fn configure(&self, settings: Vec<Setting>, then: SettingsChanged) {
        let changed = {
            let mut kept = self.0.lock().unwrap();
            if let Some(why) = kept.fails.clone() {
                Err(NotConfigured::Unknown(why))
            } else {
                kept.settings.extend(settings.into_iter().map(|setting| (setting.name, setting.value)));
                let all = || kept.settings.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
                kept.nodes.iter().for_each(|node| node.config.take(all()));
                Ok(())
            }
        };
        then(changed);
    }

    fn settled(&self, then: Changed) {
        then(Ok(()));
    }

    fn has_data(&self, _: [u8; 16], then: Changed) {
        then(Ok(()));
    }

    fn status(&self, _: Box<dyn FnOnce(Status) + Send>) {}
}

impl Net {
    /// As [`Self::say_words`], for requests to the metadata: the connection looks for the answer now and then.
    pub fn arrange(&mut self, client: usize, words: &[&str]) -> String {
        self.send_words(client, words);
        self.run();
        self.sleep(10);
        self.heard(client).join(",")
    }
}
