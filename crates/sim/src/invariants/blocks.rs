//! Blocks, scripts and commands with several keys are atomic. A request without a reply survives only together with the
//! requests it depends on.

use crate::clients::model::Contents;

/// Something that happens as a whole, or not.
pub trait Whole {
    /// The contents after this request.
    fn apply(&self, contents: &mut Contents);
    /// True if this later request survives only if the other one does: it has read or changed what the other changed.
    fn stands_on(&self, other: &Self) -> bool;
}

/// True if some of the pending requests, applied to `base` in their order, produce a state that `fits`. A choice may
/// leave out a request only if no chosen later one depends on it.
pub fn can_be<W: Whole>(base: &Contents, pending: &[W], fits: &dyn Fn(&Contents) -> bool) -> bool {
    choose(base, pending, 0, &mut Vec::new(), fits)
}

fn choose<W: Whole>(
    contents: &Contents,
    pending: &[W],
    at: usize,
    left_out: &mut Vec<usize>,
    fits: &dyn Fn(&Contents) -> bool,
) -> bool {
    let Some(next) = pending.get(at) else { return fits(contents) };
    if !left_out.iter().any(|earlier| next.stands_on(&pending[*earlier])) {
        let mut with = contents.clone();
        next.apply(&mut with);
        if choose(&with, pending, at + 1, left_out, fits) {
            return true;
        }
    }
    left_out.push(at);
    let found = choose(contents, pending, at + 1, left_out, fits);
    left_out.pop();
    found
}
