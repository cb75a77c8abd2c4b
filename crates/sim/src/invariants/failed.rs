//! After a failed sync its stream commits nothing more, whatever later syncs report (rule L9). Other streams may commit
//! records that depend on nothing in the failed stream.

use redolog::Lsn;

use super::{Verdict, violated};

/// `failed_at`: the watermarks of the ended streams when the failure was seen; `now`: those of all streams at present.
///
/// # Errors
///
/// The invariant does not hold.
pub fn check(failed_at: &[Option<Lsn>], now: &[Lsn]) -> Verdict {
    if failed_at.iter().zip(now).all(|(before, now)| before.is_none_or(|before| before == *now)) {
        return Ok(());
    }
    violated("failed", format_args!("the log has failed, and its watermarks moved from {failed_at:?} to {now:?}"))
}
