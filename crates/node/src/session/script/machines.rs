//! A worker's machines for scripts, and the scripts that it has run.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use script::{Error, Limits, Machine, Source};

use crate::scripts::{Digest, Known, Scripts};

/// Idle machines that are kept: usually one is enough, and each suspended script has one of its own.
const IDLE: usize = 4;
/// Scripts that a worker remembers.
const MET: usize = 1024;

/// Places for scripts that EVAL ran lately.
const RECENT: usize = 256;

/// See the module's text.
#[derive(Default)]
pub struct Machines {
    idle: Vec<Machine>,
    met: BTreeMap<Digest, Arc<Known>>,
    /// Scripts that EVAL ran lately, each in a place that follows from its text. EVAL often gets the same text again,
    /// and then it need not be digested.
    recent: Vec<Option<Arc<Known>>>,
    /// True if scripts may use functions that Redis has removed.
    deprecated: bool,
    /// [`Scripts::flushes`] as this worker knows it.
    flushes: u64,
}

impl Machines {
    /// A machine for one script. `deprecated`: with the functions that Redis has removed (`lua-enable-deprecated-api`).
    /// The setting may change when the node learns the settings of its cluster.
    pub(super) fn take(&mut self, deprecated: bool) -> Result<Machine, Error> {
        if self.deprecated != deprecated {
            self.deprecated = deprecated;
            self.idle.clear();
        }
        let limits = Limits { deprecated: self.deprecated, ..Limits::default() };
        self.idle.pop().map_or_else(|| Machine::new(limits), Ok)
    }

    /// Takes one back.
    pub(super) fn put_back(&mut self, machine: Machine) {
        if self.idle.len() < IDLE {
            self.idle.push(machine);
        }
    }

    /// The script with this digest, if EVALSHA may run it.
    pub(super) fn find(&mut self, digest: &Digest, scripts: &Scripts) -> Option<Arc<Known>> {
        if self.flushes != scripts.flushes() {
            self.flushes = scripts.flushes();
            self.met.clear();
            self.recent.clear();
            self.idle.clear();
        }
        if let Some(known) = self.met.get(digest)
            && !known.is_forgotten()
        {
            return Some(known.clone());
        }
        let known = scripts.find(digest)?;
        if self.met.len() >= MET {
            self.met.clear();
        }
        self.met.insert(*digest, known.clone());
        Some(known)
    }

    /// The script with this text, if EVALSHA may run it.
    pub(super) fn find_body(&mut self, body: &[u8], scripts: &Scripts) -> Option<Arc<Known>> {
        self.recent.resize(RECENT, None);
        let place = FixedState::default().hash_one(body) as usize % RECENT;
        if self.flushes == scripts.flushes()
            && let Some(known) = &self.recent[place]
            && **known.source.body() == *body
            && !known.is_forgotten()
        {
            return Some(known.clone());
        }
        let known = self.find(&Source::sha_of(body), scripts);
        if let Some(recent) = self.recent.get_mut(place) {
            recent.clone_from(&known);
        }
        known
    }
}
