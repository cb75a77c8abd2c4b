//! What a start makes of log and store is what the records that survived make when they are applied one after the other; and if nothing was
//! under way when the machine stopped, it is what that had in memory.

use super::{Verdict, violated};
use crate::machine::Start;
use crate::machine::memory::Digests;

/// `model`: what the records make; `before`: what was in memory, if all of that was promised.
pub fn check(start: &Start, model: &Digests, before: Option<&Digests>) -> Verdict {
    if start.digests != *model {
        return violated("digest", format_args!("not what the records make: {}", differences(&start.digests, model)));
    }
    match before {
        Some(before) if *before != start.digests => {
            let what = differences(&start.digests, before);
            violated("digest", format_args!("not what was there when all was committed: {what}"))
        }
        _ => Ok(()),
    }
}

/// In which keys one is not what it should be.
pub fn differences(there: &Digests, wanted: &Digests) -> String {
    let of = |one: &Digests, other: &Digests| {
        let differ = one.iter().filter(|(key, digest)| other.get(key) != Some(digest));
        differ.map(|((db, key), _)| format!("{db}:{}", key.escape_ascii())).collect::<Vec<_>>().join(" ")
    };
    format!("there [{}], wanted [{}]", of(there, wanted), of(wanted, there))
}
