//! Mistakes that tests make on purpose, where a rule is kept inside of a machine. Elsewhere they are made from outside.
//! In what is shipped there are none: [`Planted::is`] is false there, and the compiler leaves the branch out.

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) enum Mistake {
    /// P8: a standby's store is flushed up to what is applied (rule G7).
    FlushesAhead,
    /// P10: a standby applies what is not committed (rule S1).
    AppliesUncommitted,
    /// P11: a standby applies each stream by itself (rule S1).
    AppliesStreamsApart,
    /// A standby applies while its streams are settled in different terms (rule S1).
    MixesTerms,
    /// P12: an owner does not look at its lease (rule O1).
    IgnoresLease,
    /// P13: a successor does not rest after an early end of a lease (rule S7).
    RestsNever,
    /// P13: an owner answers unlogged reads until its lease ends (rule S7).
    ReadsToTheEnd,
    /// P15: a cut does not wait for standbys (rule G12).
    CutsAlone,
    /// P28: a standby is counted without a pin (rule S4).
    CountsUnpinned,
    /// P32: a command that was forwarded and may write runs again (rule S9).
    RunsAgain,
    /// A standby that is not counted may be elected (rule S5).
    ElectsUncounted,
    /// A given-up standby's earlier life may be counted (rule S4).
    CountsEarlierLives,
    /// A leader counts silence from before its own reign (rule S6).
    ForgetsItsReign,
    /// A checkpoint covers what the owner's word alone has passed (rule S2).
    QuietCovers,
    /// A standby goes on that has applied more than a seal keeps (rule S8).
    GoesOn,
    /// An owner thaws by a timer after it has yielded (rule S10).
    ThawsByTimer,
    /// A switchover ends without giving parked commands on (rule S10).
    DropsParked,
}

/// The mistake that a machine makes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
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
