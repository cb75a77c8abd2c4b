//! Blocks, scripts and commands with several keys are whole, and what a client has not heard of survives only with what it stands on.

use crate::clients::model::Contents;

/// Something that happens as a whole, or not.
pub trait Whole {
    /// What it makes of the contents.
    fn apply(&self, contents: &mut Contents);
    /// Whether it, which was done later, survives only if the other does: it has read or changed what that has changed.
    fn stands_on(&self, other: &Self) -> bool;
}

/// Whether some of what is pending, in its order, makes of `base` what `fits`: any choice that leaves nothing out that a later one stands
/// on.
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
