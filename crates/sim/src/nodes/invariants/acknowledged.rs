//! An acknowledged write is there exactly once; a refused write is not there (rule T9).

use super::Lists;
use crate::invariants::{Verdict, violated};
use crate::nodes::history::{Came, History};

/// See the module's text.
///
/// # Errors
///
/// The invariant does not hold.
pub fn check(history: &History, lists: &Lists) -> Verdict {
    for (key, list) in lists.iter().enumerate() {
        let mut sorted = list.clone();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return violated("acknowledged", format_args!("{} is twice in list {key}: {list:?}", pair[0]));
        }
    }
    for (number, deed) in history.deeds.iter().enumerate() {
        for (key, length) in &deed.appends {
            let place = lists[*key].iter().position(|there| *there == number as u64);
            match deed.came {
                Came::Done => match (place, length) {
                    (Some(place), Some(length)) if place as u64 + 1 != *length => {
                        let what = format_args!("{number} made list {key} {length} long, and is at {place}");
                        return violated("acknowledged", what);
                    }
                    (Some(_), _) => {}
                    // The contents from before the key's slot got another owner are gone.
                    (None, _) if history.moved.get(key).is_some_and(|moved| deed.began < *moved) => {}
                    (None, _) => {
                        let what =
                            format_args!("{number} was acknowledged and is not in list {key}: {:?}", lists[*key]);
                        return violated("acknowledged", what);
                    }
                },
                Came::Refused if place.is_some() => {
                    return violated("refused", format_args!("{number} was refused and is in list {key}"));
                }
                Came::Refused | Came::Unknown => {}
            }
        }
    }
    Ok(())
}
