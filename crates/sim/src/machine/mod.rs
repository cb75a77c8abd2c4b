//! A machine that is on: the server's own code without its threads and sockets.

pub mod checkpoints;
pub mod fetching;
pub mod memory;
pub mod promise;
mod start;
pub mod streams;
pub mod watched;

use std::collections::BTreeSet;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use command::effects;
use engine::checkpoint::{Checkpointer, WarmUp, Warmth};
use node::cluster::{Cluster, Dial};
use node::{Node, Outgoing, Output, Peer, SLICES, Token, Worker};
use redolog::{Gate, Log, Lsn, Watermarks};
use store::Store;
use txn::Record;

use checkpoints::Rounds;
use fetching::Fetching;
use memory::Digests;
use promise::Process;
pub use start::{Found, LIMITS, NoStart, Start};
use streams::Stream;
use watched::Watched;

/// The seed of the hashes of keys and members: one for the whole process.
pub const HASH_SEED: u64 = 7;
/// Databases of the node.
pub const DATABASES: u16 = 5;

/// The output of a worker for a connection.
pub enum Sent {
    /// These bytes have left the machine.
    Bytes(Vec<u8>),
    /// It was closed.
    Closed,
}

/// See the module's text.
pub struct Machine {
    /// The node.
    pub node: Arc<Node>,
    /// Its workers.
    pub workers: Vec<Worker>,
    woken: Vec<Arc<AtomicBool>>,
    /// Its part in a cluster, if it has one.
    pub cluster: Option<Arc<Cluster>>,
    /// Links that workers want.
    pub dials: Vec<(usize, Dial)>,
    /// The log.
    pub log: Log,
    /// The log position that the workers are told, if it is not the true one.
    pretended: Option<Arc<Watermarks>>,
    /// Its streams.
    pub streams: Vec<Stream>,
    store: Arc<dyn Store>,
    /// The process that settings change.
    pub process: Process,
    /// The checkpointer.
    pub checkpointer: Checkpointer,
    /// The rounds that it makes.
    pub rounds: Rounds,
    /// Its view of the machine.
    pub outside: Watched,
    /// The gates of the thread that makes backups.
    pub backup_gates: Vec<Gate>,
    /// The loaders, which fetch keys from the store.
    pub fetching: Fetching,
    /// Reads the contents of the store into memory.
    warm_up: Option<WarmUp>,
    /// The last to be dropped.
    _keys: Keys,
}

/// Frees the keys of a machine that is off: a server leaves that to the end of its process.
struct Keys(Arc<Node>);

impl Drop for Keys {
    fn drop(&mut self) {
        memory::free(&self.0.engine.keyspace);
    }
}

impl Machine {
    /// A new connection to a worker.
    pub fn connect(&mut self, worker: usize) -> Option<Token> {
        let now = self.node.clock.unix_ms();
        self.workers[worker].accept(Peer { loopback: true, ..Peer::default() }, now).ok()
    }

    /// A turn of a worker, as its driver takes it. `sent` hears what leaves the machine.
    pub fn turn(&mut self, worker: usize, mut sent: impl FnMut(Token, Sent)) {
        let now = self.node.clock.unix_ms();
        if let Some(pretended) = &self.pretended {
            pretended.copy_promised(self.log.marks());
        }
        if self.woken[worker].swap(false, Relaxed) {
            self.workers[worker].read_mail();
        }
        let (index, worker) = (worker, &mut self.workers[worker]);
        worker.turn(now);
        while let Some(dial) = worker.next_dial() {
            self.dials.push((index, dial));
        }
        while worker.next_thirsty().is_some() {}
        while let Some(token) = worker.next_output() {
            loop {
                let bytes = match worker.output(token) {
                    Output::Idle => break,
                    Output::Close => {
                        sent(token, Sent::Closed);
                        break;
                    }
                    Output::Last(bytes) => {
                        let bytes = bytes.to_vec();
                        worker.closed(token);
                        sent(token, Sent::Bytes(bytes));
                        sent(token, Sent::Closed);
                        break;
                    }
                    Output::Send(out) => bytes_of(out),
                };
                worker.sent(token, bytes.len());
                sent(token, Sent::Bytes(bytes));
            }
        }
    }

    /// True if a worker has anything to do.
    pub fn wants_turn(&self, worker: usize) -> bool {
        self.woken[worker].load(Relaxed) || self.workers[worker].has_work()
    }

    /// A step of reading the store into memory. False: there is nothing to read.
    pub fn step_warm_up(&mut self) -> bool {
        let Some(warm_up) = &mut self.warm_up else { return false };
        let node = &self.node;
        let ended = warm_up.step(|waiter| node.wake(waiter)).map_or(true, |warmth| warmth == Warmth::Done);
        if ended {
            self.warm_up = None;
        }
        !ended
    }

    /// True if the store takes no more writes.
    pub fn store_has_failed(&self) -> bool {
        self.store.fault().is_some()
    }

    /// Keys that have left memory for the store.
    pub fn cooled(&self) -> u64 {
        self.node
            .engine
            .keyspace
            .counters()
            .iter()
            .map(|counters| counters.cooled.load(Relaxed))
            .fold(0, u64::wrapping_add)
    }

    /// Watermarks of the streams.
    pub fn marks(&self) -> Vec<Lsn> {
        self.log.marks().all().collect()
    }

    /// It stops: all that it has, in memory and in the store.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn into_digests(self) -> Result<Digests, String> {
        let Machine { node, workers, store, fetching, warm_up, .. } = self;
        drop((workers, fetching, warm_up));
        memory::warm_up(&node.engine, &store, node.spare_local()).map_err(|error| error.to_string())?;
        Ok(memory::digests(&node.engine.keyspace))
    }
}

fn bytes_of(out: &Outgoing) -> Vec<u8> {
    let mut slices = [IoSlice::new(&[]); SLICES];
    let count = out.slices(&mut slices, usize::MAX);
    slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect()
}

/// The slots that a record's effects change; `None`: all of them.
pub fn slots_of(encoded: &[u8]) -> Option<BTreeSet<u16>> {
    let mut slots = BTreeSet::new();
    for mut effect in effects::decode(encoded).flatten() {
        if matches!(effect.barrier(), Ok(Some(_))) {
            return None;
        }
        if let Some(record) = effect.transaction() {
            // Only a Prepare says which keys the transaction has.
            if let Ok(Record::Prepare(prepared)) = Record::decode(record) {
                slots.extend(prepared.locks.iter().map(|lock| keyspace::slot_of(&lock.key)));
            }
            continue;
        }
        slots.insert(if effect.libraries().is_some() { 0 } else { keyspace::slot_of(effect.key) });
    }
    Some(slots)
}
