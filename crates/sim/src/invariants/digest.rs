//! A start produces from log and store what the surviving records produce when they are applied one after the other. If
//! nothing was under way when the machine stopped, that is also what it had in memory.

use super::{Verdict, violated};
use crate::machine::Start;
use crate::machine::memory::Digests;

/// `model`: what the records produce; `before`: the contents of memory at the stop, if all of that was promised.
///
/// # Errors
///
/// The invariant does not hold.
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

/// The keys in which the two differ.
pub fn differences(there: &Digests, wanted: &Digests) -> String {
    let of = |one: &Digests, other: &Digests| {
        let differ = one.iter().filter(|(key, digest)| other.get(key) != Some(digest));
        differ.map(|((db, key), _)| format!("{db}:{}", key.escape_ascii())).collect::<Vec<_>>().join(" ")
    };
    format!("there [{}], wanted [{}]", of(there, wanted), of(wanted, there))
}
