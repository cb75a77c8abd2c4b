//! When a sync has failed, its stream commits nothing any more, whatever later ones say (rule L9). Others may: what they have stands on
//! nothing that it lacks.

use redolog::Lsn;

use super::{Verdict, violated};

/// `failed_at`: the watermarks of the streams that have ended when the log was seen to have failed; `now`: those of all at present.
pub fn check(failed_at: &[Option<Lsn>], now: &[Lsn]) -> Verdict {
    if failed_at.iter().zip(now).all(|(before, now)| before.is_none_or(|before| before == *now)) {
        return Ok(());
    }
    violated("failed", format_args!("the log has failed, and its watermarks moved from {failed_at:?} to {now:?}"))
}
