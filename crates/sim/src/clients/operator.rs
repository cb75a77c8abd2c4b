//! A client that does what operators do: checkpoints, keys sent to the store, counts of keys.

use log::simulated::Chance;
use resp::Value;

use super::{Client, Common, Found, Request, Verdict};
use crate::plan::Plan;

/// See the module's text.
pub struct Operator {
    evicts: bool,
    changes_fsync: bool,
    pending: u64,
    is_cut_off: bool,
}

impl Operator {
    /// Of a world like this.
    pub fn new(plan: &Plan) -> Self {
        Self { evicts: plan.is_cold && plan.evicts, changes_fsync: plan.changes_fsync, pending: 0, is_cut_off: false }
    }
}

/// `D` is a database.
const LINES: &[&str] =
    &["select D;dbsize", "select D;keys *", "select D;scan 0 count 5", "select D;randomkey", "bgsave", "save"];
const FSYNC: &[&str] =
    &["config set appendfsync always", "config set appendfsync everysec", "config set appendfsync no"];
const EVICTING: &[&str] = &["select D;debug evict", "select D;debug evict", "select D;debug evict"];

impl Client for Operator {
    fn name(&self) -> String {
        "operator".into()
    }

    fn next(&mut self, _: &mut Common, chance: &mut Chance) -> Option<Request> {
        if self.is_cut_off || self.pending > 0 {
            return None;
        }
        self.pending += 1;
        let lines = if self.evicts && chance.below(3) > 0 { EVICTING } else { LINES };
        let lines = if self.changes_fsync && chance.below(4) == 0 { FSYNC } else { lines };
        let db = chance.below(5).to_string();
        let line = lines[chance.below(lines.len() as u64) as usize];
        let words =
            |command: &str| command.split(' ').map(|word| if word == "D" { db.clone() } else { word.into() }).collect();
        Some(line.split(';').map(words).collect())
    }

    fn answered(&mut self, _: &mut Common, _: Vec<Value>) -> Verdict {
        self.pending -= 1;
        Ok(())
    }

    fn refused(&mut self, _: &mut Common) {
        self.pending -= 1;
    }

    fn cut_off(&mut self) {
        (self.is_cut_off, self.pending) = (true, 0);
    }

    fn look(&mut self, _: &mut Common, _: &Found<'_>) -> Verdict {
        self.is_cut_off = false;
        Ok(())
    }
}
