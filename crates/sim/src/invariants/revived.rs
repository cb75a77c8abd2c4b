//! A start finds exactly the records that were written and not cut. A record that was cut once does not come back (rule
//! L5), and no record is missing in the middle.

use super::{Restart, Verdict, violated};

/// See the module's text.
///
/// # Errors
///
/// The invariant does not hold.
pub fn check(restart: &Restart<'_>) -> Verdict {
    for (at, found) in restart.found {
        // Where the log was cut between two that share a position, it has only one of them.
        let is_at_base = at.0 <= restart.start.bases[usize::from(at.1)];
        let fits = |written: &Vec<_>| {
            if is_at_base { found.iter().all(|one| written.contains(one)) } else { same(found, written) }
        };
        if !restart.written.get(at).is_some_and(fits) {
            return violated("revived", format_args!("the record {at:?} was found, and was cut or never there"));
        }
    }
    for at @ (lsn, stream) in restart.written.keys() {
        let stream = usize::from(*stream);
        let survived = *lsn > restart.start.bases[stream] && *lsn <= restart.start.ends[stream];
        if survived && !restart.found.contains_key(at) {
            return violated("revived", format_args!("the record {at:?} is missing, and later ones are there"));
        }
    }
    Ok(())
}

fn same(a: &[Vec<u8>], b: &[Vec<u8>]) -> bool {
    let sorted = |records: &[Vec<u8>]| {
        let mut records: Vec<_> = records.to_vec();
        records.sort();
        records
    };
    sorted(a) == sorted(b)
}
