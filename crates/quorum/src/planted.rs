//! Mistakes that tests make on purpose, where a rule is kept inside of a machine. Elsewhere they are made from outside.
//! In what is shipped there are none: [`Planted::is`] is false there, and the compiler leaves the branch out.

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) enum Mistake {
    /// P3: the longest log is taken, whatever its term (rule G4).
    LongestLog,
    /// P6: an append of a block that is there cuts what lies behind it (rule G3).
    StaleAppendCuts,
    /// P25: a stream leads as soon as its own start block is on a majority (rule G5).
    StreamLeads,
    /// P26: Seal is answered while writes are under way (rule G2).
    SealsInFlight,
    /// P27: a reset may go backwards (rule G9).
    ResetsBackwards,
    /// Figure 8 of Raft's paper: blocks of earlier terms are committed by counting copies (rule G5).
    CountsOldTerms,
    /// P10: a standby is shown what is on its acceptor's disk, committed or not (rule S1).
    ShowsUncommitted,
    /// An acceptor takes an owner's word about LSNs for that of the next one (rule S1).
    KeepsQuiet,
    /// A read that is under way ends with any answer of its source.
    TakesAnyAnswer,
    /// An acceptor that was set back counts for what it had acknowledged before (rule G9).
    TrustsSetBack,
    /// Blocks are dropped by writing over them, without a new life of the folder (rule G3).
    DropsInPlace,
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
