//! The log of a node, on disks in memory, without threads.

use std::sync::Arc;

use node::config::AppendFsync;
use node::{Checkpoints, Durable, Node};
use redolog::simulated::Simulated;
use redolog::{After, Fsync, Limits, Log, Opened, Stepped};
use store::Platter;

const LIMITS: Limits = Limits { segment: 1 << 20, spares: 1, reserve: 3000, block: 4096 };

/// The disks after a power cut.
#[derive(Default)]
pub struct Disks {
    log: Simulated,
    platter: Platter,
}

impl Disks {
    /// Drops everything that was not synced.
    pub fn after_power_cut(self) -> Self {
        Self { log: self.log.clone_durable(), ..self }
    }
}

/// See the module's text.
pub struct Ledger {
    pub disks: Disks,
    log: Log,
    streams: Vec<Stepped<Simulated>>,
    /// True if syncs that have begun do not end.
    pub holds_syncs: bool,
    /// True if nothing is written at all.
    pub hangs: bool,
}

impl Ledger {
    /// Gives the node the contents of the disks, and logs from now on.
    pub fn open(disks: Disks, node: &Arc<Node>, workers: usize) -> Self {
        let mut opened = Opened::of(vec![disks.log.clone()], &[]).unwrap();
        let store: Arc<dyn store::Store> = Arc::new(store::Simulated::open(&disks.platter, 0).unwrap());
        let recovered = node::recover(node, &*store, |apply| opened.replay(apply)).unwrap();
        let clock = node.clock.clone();
        let settings = redolog::Settings {
            limits: LIMITS,
            fsync: if node.config.settings().appendfsync == AppendFsync::Always {
                Fsync::Always
            } else {
                Fsync::Everysec
            },
            clock: Arc::new(move || clock.monotonic_ns().0),
            seed: 1,
        };
        let (log, gates, streams) = opened.start_by_hand([5; 16], recovered.highest(), workers, settings).unwrap();
        let checkpoints = Arc::new(Checkpoints::new(store, node.clock.unix_ms(), None));
        node.set_log(Some((Arc::new(Durable::new(log.clone(), gates)), checkpoints)));
        let watcher = Arc::downgrade(node);
        log.on_moved(Box::new(move || {
            if let Some(node) = watcher.upgrade() {
                node.log_moved();
            }
        }));
        Self { disks, log, streams, holds_syncs: false, hangs: false }
    }

    /// Sets the room of the disk, in bytes, or takes the limit away.
    pub fn leave_room(&mut self, room: Option<u64>) {
        self.disks.log.set_room(room);
    }

    /// The next sync fails.
    pub fn fail_sync(&mut self) {
        self.disks.log.fail_sync_after(0);
    }

    /// Does the work of the log's threads. Returns true if there was any.
    pub fn step(&mut self) -> bool {
        if self.hangs {
            return false;
        }
        let before = self.log.written();
        for stream in &mut self.streams {
            while stream.step(true) == After::Step {}
            stream.help(0);
            if !self.holds_syncs {
                stream.help(1);
            }
        }
        self.log.written() != before
    }
}
