//! A client that does what operators do: checkpoints, keys sent to the store, counts of keys.

use redolog::simulated::Chance;

use super::Request;
use super::heedless::Deeds;
use crate::plan::Plan;

/// See the module's text.
pub struct Operator {
    evicts: bool,
    changes_fsync: bool,
}

impl Operator {
    /// Of a world like this.
    pub fn new(plan: &Plan) -> Self {
        Self { evicts: plan.is_cold && plan.evicts, changes_fsync: plan.changes_fsync }
    }
}

/// `D` is a database.
const LINES: &[&str] =
    &["select D;dbsize", "select D;keys *", "select D;scan 0 count 5", "select D;randomkey", "bgsave", "save"];
const FSYNC: &[&str] =
    &["config set appendfsync always", "config set appendfsync everysec", "config set appendfsync no"];
const EVICTING: &[&str] = &["select D;debug evict", "select D;debug evict", "select D;debug evict"];

impl Deeds for Operator {
    const WINDOW: u64 = 1;

    fn name(&self) -> String {
        "operator".into()
    }

    fn request(&mut self, chance: &mut Chance) -> Request {
        let lines = if self.evicts && chance.below(3) > 0 { EVICTING } else { LINES };
        let lines = if self.changes_fsync && chance.below(4) == 0 { FSYNC } else { lines };
        let db = chance.below(5).to_string();
        let line = lines[chance.below(lines.len() as u64) as usize];
        let words =
            |command: &str| command.split(' ').map(|word| if word == "D" { db.clone() } else { word.into() }).collect();
        line.split(';').map(words).collect()
    }
}
