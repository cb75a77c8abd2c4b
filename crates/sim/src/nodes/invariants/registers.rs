//! Registers that are written together are seen together, and nobody sees what was replaced before he asked.

use crate::invariants::{Verdict, violated};
use crate::nodes::history::{Came, Deed, History};

/// See the module's text.
pub fn check(history: &History) -> Verdict {
    let writes = |group: usize| move |deed: &&Deed| deed.wrote == Some(group) && deed.came == Came::Done;
    for (number, deed) in history.deeds.iter().enumerate() {
        let Some((group, seen)) = &deed.saw else { continue };
        let first = seen[0];
        if seen.iter().any(|other| *other != first) {
            return violated("atomicity", format_args!("{number} has seen {seen:?} in group {group}"));
        }
        let ended = match first {
            None => 0,
            Some(by) => match history.deeds.get(by as usize) {
                Some(by) if by.wrote == Some(*group) && by.came != Came::Refused && by.began < deed.ended => by.ended,
                _ => return violated("refused", format_args!("{number} has seen {by} in group {group}")),
            },
        };
        // Somebody wrote after that, and was answered before this one asked.
        let newer = |by: &&Deed| by.began > ended && by.ended < deed.began;
        if let Some(newer) = history.deeds.iter().filter(writes(*group)).find(newer) {
            let what = format_args!("{number} has seen {first:?} in group {group}, replaced by {newer:?} before");
            return violated("serializable", what);
        }
    }
    Ok(())
}
