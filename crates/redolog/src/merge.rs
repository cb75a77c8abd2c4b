//! Merges the records of several streams. A stream may come from a folder, from a peer, or from both: see [`Cursor`].

use crate::Lsn;
use crate::cursor::Cursor;
use crate::recover::{Damage, Recovered};

/// Calls `f` with every record that survives, in the order of their LSNs over all streams (rule L2). `ends`: how far
/// each stream goes. Each ends before its first record whose dependencies did not survive (rule L5); `durable`: below
/// these positions everything is durable elsewhere. Returns the ends.
///
/// A record is above all that it depends on. So in this order it is known for each dependency whether it survived, and
/// one pass is the fixpoint.
pub(crate) fn merge(
    mut cursors: Vec<Cursor<'_>>,
    mut ends: Vec<Lsn>,
    durable: &[Lsn],
    mut f: impl FnMut(Recovered<'_>),
) -> Result<Vec<Lsn>, Damage> {
    let mut heads = cursors.iter_mut().map(Cursor::peek).collect::<Result<Vec<_>, _>>()?;
    let mut last = Lsn::ZERO;
    while let Some((lsn, stream)) = heads.iter().zip(0..).filter_map(|(lsn, stream)| Some(((*lsn)?, stream))).min() {
        let wrong = |what| Damage::Streams(format!("stream {stream}, record {lsn}: {what}"));
        // Records of workers that have seen nothing of each other may have the same LSN.
        if lsn < last {
            return Err(wrong("below the one before"));
        }
        last = lsn;
        let is_lost = |on: Lsn| {
            let of = usize::from(on.stream());
            ends.get(of).is_none_or(|end| on > *end.max(durable.get(of).unwrap_or(&Lsn::ZERO)))
        };
        {
            // Records with one LSN survive together.
            let others_are_lost = cursors[stream].dependencies_of_others().any(is_lost);
            let (mut dependencies, effects) = cursors[stream].next();
            if dependencies.clone().any(|on| on >= lsn) {
                return Err(wrong("it depends on a later one"));
            }
            if others_are_lost || dependencies.any(is_lost) {
                ends[stream] = lsn.before();
                heads[stream] = None;
                continue;
            }
            f(Recovered { stream: stream as u16, lsn, effects });
        }
        heads[stream] = cursors[stream].peek()?;
    }
    Ok(ends)
}
