//! Ranges of scores and of members, as ZRANGEBYSCORE and ZRANGEBYLEX know them.

/// One end of a range of scores. Never NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScoreBound {
    /// This score and beyond.
    Inclusive(f64),
    /// Beyond this score.
    Exclusive(f64),
}

impl ScoreBound {
    fn value(self) -> f64 {
        match self {
            ScoreBound::Inclusive(s) | ScoreBound::Exclusive(s) => s,
        }
    }
}

/// A range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreRange {
    /// The lower end.
    pub min: ScoreBound,
    /// The upper end.
    pub max: ScoreBound,
}

impl ScoreRange {
    /// Every score.
    pub const ALL: ScoreRange =
        ScoreRange { min: ScoreBound::Inclusive(f64::NEG_INFINITY), max: ScoreBound::Inclusive(f64::INFINITY) };

    /// True if a score is below the range.
    pub fn is_above(&self, score: f64) -> bool {
        match self.min {
            ScoreBound::Inclusive(min) => score < min,
            ScoreBound::Exclusive(min) => score <= min,
        }
    }

    /// True if a score is above the range.
    pub fn is_below(&self, score: f64) -> bool {
        match self.max {
            ScoreBound::Inclusive(max) => score > max,
            ScoreBound::Exclusive(max) => score >= max,
        }
    }

    /// True if no score can be in the range.
    pub fn is_empty(&self) -> bool {
        let (min, max) = (self.min.value(), self.max.value());
        let both = matches!((self.min, self.max), (ScoreBound::Inclusive(_), ScoreBound::Inclusive(_)));
        min > max || (min == max && !both)
    }
}

/// One end of a range of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexBound<'a> {
    /// Before every member (`-`).
    Min,
    /// This member and beyond (`[member`).
    Inclusive(&'a [u8]),
    /// Beyond this member (`(member`).
    Exclusive(&'a [u8]),
    /// Behind every member (`+`).
    Max,
}

/// A range of members, meaningful where all scores are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LexRange<'a> {
    /// The lower end.
    pub min: LexBound<'a>,
    /// The upper end.
    pub max: LexBound<'a>,
}

impl LexRange<'_> {
    /// True if a member is below the range.
    pub fn is_above(&self, member: &[u8]) -> bool {
        match self.min {
            LexBound::Min => false,
            LexBound::Inclusive(min) => member < min,
            LexBound::Exclusive(min) => member <= min,
            LexBound::Max => true,
        }
    }

    /// True if a member is above the range.
    pub fn is_below(&self, member: &[u8]) -> bool {
        match self.max {
            LexBound::Min => true,
            LexBound::Inclusive(max) => member > max,
            LexBound::Exclusive(max) => member >= max,
            LexBound::Max => false,
        }
    }
}
