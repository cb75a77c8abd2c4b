//! What a crash report has of the node, and how DEBUG makes a server crash.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use crate::node::Node;
use crate::session;

/// How a server is made to crash, for tests of what it says then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// It writes to memory that it may only read (DEBUG SEGFAULT).
    Segfault,
    /// It panics (DEBUG PANIC).
    Panic,
    /// An assertion fails (DEBUG ASSERT).
    Assertion,
}

impl Node {
    /// Sets what makes the process crash. Once.
    pub fn on_crash(&self, crash: fn(Crash)) {
        let _ = self.crash.set(crash);
    }

    /// Makes the process crash. It returns where nobody has said how.
    pub(crate) fn crash(&self, kind: Crash) {
        if let Some(crash) = self.crash.get() {
            crash(kind);
        }
    }

    /// INFO, the clients, and which of them each worker serves. It takes locks and memory.
    pub fn crash_report(&self) -> String {
        let mut text = String::from("\n------ CURRENT CLIENTS ------\n");
        for (worker, stats) in self.stats.iter().enumerate() {
            match stats.serves.load(Relaxed) {
                0 => continue,
                client => drop(writeln!(text, "worker {worker} serves client id={client}")),
            }
        }
        text.push_str("\n------ CLIENT LIST OUTPUT ------\n");
        text.push_str(&String::from_utf8_lossy(&session::lines_of_all(self)));
        text.push_str("\n------ INFO OUTPUT ------\n");
        text.push_str(&session::everything(self).replace('\r', ""));
        text
    }
}
