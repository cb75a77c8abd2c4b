//! The node's part of a crash report.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use crate::node::Node;

impl Node {
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
        text.push_str(&String::from_utf8_lossy(&super::client::lines_of_all(self)));
        text.push_str("\n------ INFO OUTPUT ------\n");
        text.push_str(&super::everything(self).replace('\r', ""));
        text
    }
}
