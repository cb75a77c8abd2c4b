//! Registers that are written together are seen together. Registers that expire together are gone together. No client
//! sees a value that was replaced before it asked.

use crate::invariants::{Verdict, violated};
use crate::nodes::clients::LENT;
use crate::nodes::history::{Came, Deed, History};

/// They are seen together, though a replaced value may come back.
///
/// # Errors
///
/// The invariant does not hold.
pub fn check_alike(history: &History) -> Verdict {
    for (number, deed) in history.deeds.iter().enumerate() {
        if let Some((group, seen)) = &deed.saw
            && !(*group == LENT && history.is_set_back)
            && seen.iter().any(|other| *other != seen[0])
        {
            return violated("atomicity", format_args!("{number} has seen {seen:?} in group {group}"));
        }
    }
    Ok(())
}

/// See the module's text.
///
/// # Errors
///
/// The invariant does not hold.
pub fn check(history: &History) -> Verdict {
    check_alike(history)?;
    let writes = |group: usize| move |deed: &&Deed| deed.wrote == Some(group) && deed.came == Came::Done;
    for (number, deed) in history.deeds.iter().enumerate() {
        let Some((group, seen)) = &deed.saw else { continue };
        let first = seen[0];
        let ended = match first {
            None if *group == LENT => continue,
            None => 0,
            Some(by) => match history.deeds.get(by as usize) {
                Some(by) if by.wrote == Some(*group) && by.came != Came::Refused && by.began < deed.ended => by.ended,
                _ => return violated("refused", format_args!("{number} has seen {by} in group {group}")),
            },
        };
        // A later write was answered before this client asked.
        let newer = |by: &&Deed| by.began > ended && by.ended < deed.began;
        if let Some(newer) = history.deeds.iter().filter(writes(*group)).find(newer) {
            let what = format_args!("{number} has seen {first:?} in group {group}, replaced by {newer:?} before");
            return violated("serializable", what);
        }
    }
    Ok(())
}
