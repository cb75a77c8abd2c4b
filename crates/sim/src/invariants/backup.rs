//! A backup has exactly the contents of its moment.

use super::{Verdict, violated};
use crate::invariants::digest::differences;
use crate::machine::Start;
use crate::machine::memory::Digests;

/// `wanted`: the contents that the records up to the moment produce.
///
/// # Errors
///
/// The invariant does not hold.
pub fn check(start: &Start, wanted: &Digests) -> Verdict {
    if start.digests == *wanted {
        return Ok(());
    }
    violated("backup", format_args!("not what there was at its moment: {}", differences(&start.digests, wanted)))
}
