//! Of a block without a known outcome either all is there, or nothing. (`acknowledged` checks those with a known
//! outcome.)

use super::Lists;
use crate::invariants::{Verdict, violated};
use crate::nodes::history::{Came, Deed, History};

/// See the module's text.
///
/// # Errors
///
/// The invariant does not hold.
pub fn check(history: &History, lists: &Lists) -> Verdict {
    check_of(history, lists, |deed| deed.came == Came::Unknown)
}

/// As [`check`], of these deeds.
///
/// # Errors
///
/// The invariant does not hold.
pub fn check_of(history: &History, lists: &Lists, which: impl Fn(&Deed) -> bool) -> Verdict {
    for (number, deed) in history.deeds.iter().enumerate().filter(|(_, deed)| which(deed)) {
        let stays = deed.appends.iter().filter(|(key, _)| !history.moved.contains_key(key));
        let (there, not): (Vec<usize>, Vec<usize>) =
            stays.map(|(key, _)| *key).partition(|key| lists[*key].contains(&(number as u64)));
        if !there.is_empty() && !not.is_empty() {
            let what = format_args!("{number} is in lists {there:?} and not in lists {not:?}");
            return violated("atomicity", what);
        }
    }
    Ok(())
}
