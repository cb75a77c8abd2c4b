//! No acknowledged write is lost: each stream ends at or above the watermark up to which replies were released (rules
//! L5, L6). The clients check the same from their side.

use super::{Restart, Verdict, violated};

/// See the module's text.
///
/// # Errors
///
/// The invariant does not hold.
pub fn check(restart: &Restart<'_>) -> Verdict {
    // Even without a promise, a record that is known to be on the disk stays, unless it depends on a record that is
    // not.
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
