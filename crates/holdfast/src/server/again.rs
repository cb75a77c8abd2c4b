//! A node that is given another shard starts again: its log and its memory are of the shard that it had.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::{env, io};

use membership::meta::Shard;
use membership::{Map, NodeId, ShardId};

/// The process that runs, however it was called.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Whether this process is to start again, and how.
#[derive(Debug)]
pub struct Again {
    folder: PathBuf,
    arguments: Vec<OsString>,
    /// The shard whose log has copies, as it was at the start. `None` in it: the log was not taken over from copies.
    began: OnceLock<Option<ShardId>>,
    is_wanted: AtomicBool,
    is_over: AtomicBool,
}

impl Again {
    /// For a server with these arguments, whose working directory is still where it was started.
    pub fn new(arguments: &[Vec<u8>]) -> Self {
        Self {
            folder: env::current_dir().unwrap_or_default(),
            arguments: arguments.iter().cloned().map(OsString::from_vec).collect(),
            began: OnceLock::new(),
            is_wanted: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        }
    }

    /// Notes the shard whose log this start takes over from copies; none: the log is the node's alone. Once.
    pub fn begins_with(&self, shard: Option<ShardId>) {
        let _ = self.began.set(shard);
    }

    /// The shard of this node in `map`, if that is not the one that the process runs: the node has to start again. A log
    /// that the node wrote alone is its shard's only copy.
    pub fn given<'a>(&self, map: &'a Map, me: NodeId) -> Option<&'a Shard> {
        let began = self.began.get().copied().flatten();
        map.shards_of(me).find(|shard| shard.settled.len() > 1 && began != Some(shard.id))
    }

    /// The process starts again when it has stopped. False if an operator has stopped it, or it starts again already.
    pub fn want(&self) -> bool {
        !self.is_over.load(SeqCst) && !self.is_wanted.swap(true, SeqCst)
    }

    /// True if it starts again when it has stopped.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(SeqCst) && !self.is_over.load(SeqCst)
    }

    /// True if the node has been given another shard.
    pub fn is_given(&self) -> bool {
        self.is_wanted.load(SeqCst)
    }

    /// An operator stops the process: it does not start again.
    pub fn never(&self) {
        self.is_over.store(true, SeqCst);
    }

    /// Starts the program anew in this process. Returns if that fails.
    pub fn start(&self) -> io::Error {
        if let Err(error) = env::set_current_dir(&self.folder) {
            return error;
        }
        let name = env::current_exe().unwrap_or_else(|_| Path::new("holdfast").to_owned());
        Command::new(OWN_PROGRAM).arg0(name).arg("server").args(&self.arguments).exec()
    }
}
