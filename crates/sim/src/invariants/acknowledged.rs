//! No acknowledged write is lost: each stream ends at or above the watermark that replies were let out by (rules L5, L6). Clients look at
//! the same from their side.

use super::{Restart, Verdict, violated};

/// See the module's text.
pub fn check(restart: &Restart<'_>) -> Verdict {
    // Without a promise, too, what is known to be on the disk stays there, unless it stands on what is not.
    let marks = match (restart.keeps_promises, restart.synced) {
        (true, _) => restart.marks,
        (false, [one]) => std::slice::from_ref(one),
        (false, _) => return Ok(()),
    };
    for (stream, (mark, end)) in marks.iter().zip(&restart.start.ends).enumerate() {
        // Some LSNs belong to no record: nothing is lost up to the last one that does.
        let promised = restart.written.keys().filter(|(lsn, of)| usize::from(*of) == stream && lsn <= mark).max();
        if promised.is_some_and(|(lsn, _)| lsn > end) {
            let what = format_args!("stream {stream} was committed up to {mark}, and ends at {end}");
            return violated("acknowledged", what);
        }
    }
    Ok(())
}
