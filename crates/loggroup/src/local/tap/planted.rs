//! Mistakes of a standby's reader that tests make on purpose. In what is shipped there are none.

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) enum Mistake {
    /// P10: blocks that are not committed are taken (rule S1).
    TakesUncommitted,
    /// P11: each stream is applied by itself (rule S1).
    AppliesStreamsApart,
}

/// The mistake that a reader makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Planted(#[cfg(test)] pub(crate) Option<Mistake>);

impl Planted {
    #[cfg(test)]
    pub(crate) fn is(self, mistake: Mistake) -> bool {
        self.0 == Some(mistake)
    }

    #[cfg(not(test))]
    #[inline]
    pub(crate) fn is(self, _: Mistake) -> bool {
        false
    }
}
