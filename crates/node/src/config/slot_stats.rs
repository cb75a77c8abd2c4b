//! `cluster-slot-stats-enabled`: which statistics of slots are kept.

use super::choices::SlotStats;
use super::kind::{Kind, Value};

/// Its name.
pub(super) const NAME: &str = "cluster-slot-stats-enabled";
/// Its words; `yes` stands for all others.
pub(super) const WORDS: Kind = Kind::Set(&["no", "yes", "cpu", "net", "mem"]);

const YES: u32 = 1;
const CPU: u32 = 1 << 1;
const NET: u32 = 1 << 2;
const MEM: u32 = 1 << 3;

/// The figures that these words ask for. The memory of slots is not kept, and CLUSTER SLOT-STATS shows none.
pub(super) fn kept(mask: u32) -> SlotStats {
    let has = |word: u32| mask & (YES | word) != 0;
    SlotStats { cpu: has(CPU), net: has(NET) }
}

/// Why CONFIG SET refuses a value, in Redis's words: memory is tracked from the start or not at all.
pub(super) fn refusal(old: &Value, new: &Value) -> Option<&'static str> {
    let wants_memory = |value: &Value| matches!(value, Value::Choices(mask) if mask & (YES | MEM) != 0);
    (wants_memory(new) && !wants_memory(old)).then_some("memory tracking cannot be enabled at runtime")
}
