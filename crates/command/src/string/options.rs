//! The options that SET, GETEX and MSETEX share: conditions, GET, and how long the key shall live.

use clocks::UnixMs;
use resp::Args;

use super::compare::Condition;
use crate::error::Error;

/// The options of one command. Where one is given twice, the last counts; contradictions are syntax errors.
#[derive(Clone, Copy, Default)]
pub(super) struct Options<'a> {
    pub(super) condition: Option<Condition<'a>>,
    /// GET: the reply is the value before.
    pub(super) get: bool,
    pub(super) ttl: Ttl<'a>,
}

/// The change of the expiry.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Ttl<'a> {
    /// None is given: SET clears it, GETEX leaves it.
    #[default]
    Unsaid,
    /// KEEPTTL.
    Keep,
    /// PERSIST.
    Persist,
    /// EX, PX, EXAT or PXAT with its argument.
    Time(Unit, &'a [u8]),
}

/// The form of an expiry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// EX.
    Seconds,
    /// PX.
    Milliseconds,
    /// EXAT.
    UnixSeconds,
    /// PXAT.
    UnixMilliseconds,
}

impl Ttl<'_> {
    /// The time of expiry, if a time is given; `command` is named in the error.
    pub(super) fn deadline(self, now: UnixMs, command: &str) -> Result<Option<UnixMs>, Error> {
        let Ttl::Time(unit, amount) = self else { return Ok(None) };
        let invalid = || Error::text(format!("ERR invalid expire time in '{command}' command"));
        let amount = keyspace::canonical_int(amount).ok_or(Error::NOT_INTEGER)?;
        let amount = u64::try_from(amount).ok().filter(|amount| *amount > 0).ok_or_else(invalid)?;
        let ms = match unit {
            Unit::Seconds | Unit::UnixSeconds => amount.checked_mul(1000),
            Unit::Milliseconds | Unit::UnixMilliseconds => Some(amount),
        };
        let at = match unit {
            Unit::Seconds | Unit::Milliseconds => ms.and_then(|ms| now.checked_add(ms)),
            Unit::UnixSeconds | Unit::UnixMilliseconds => ms.map(UnixMs),
        };
        at.filter(|at| i64::try_from(at.0).is_ok()).map(Some).ok_or_else(invalid)
    }
}

/// The command whose options are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grammar {
    Set,
    GetEx,
    MSetEx,
}

impl<'a> Options<'a> {
    /// The options of `SET key value ...`.
    pub(super) fn parse_set(args: Args<'a>) -> Result<Self, Error> {
        Self::parse(args, 3, Grammar::Set)
    }

    /// The options of `GETEX key ...`.
    pub(super) fn parse_getex(args: Args<'a>) -> Result<Self, Error> {
        Self::parse(args, 2, Grammar::GetEx)
    }

    /// The options of MSETEX, from argument `from` on.
    pub(super) fn parse_msetex(args: Args<'a>, from: usize) -> Result<Self, Error> {
        Self::parse(args, from, Grammar::MSetEx)
    }

    fn parse(args: Args<'a>, from: usize, grammar: Grammar) -> Result<Self, Error> {
        let mut options = Options::default();
        let mut i = from;
        while let Some(word) = args.get(i) {
            i += 1;
            let mut argument = || {
                i += 1;
                args.get(i - 1).ok_or(Error::SYNTAX)
            };
            let mut upper = [0; 8];
            let Some(upper) = upper.get_mut(..word.len()) else { return Err(Error::SYNTAX) };
            upper.copy_from_slice(word);
            upper.make_ascii_uppercase();
            match &*upper {
                b"NX" => options.condition(Condition::Absent, grammar)?,
                b"XX" => options.condition(Condition::Present, grammar)?,
                b"IFEQ" => options.condition(Condition::Equal(argument()?), grammar)?,
                b"IFNE" => options.condition(Condition::NotEqual(argument()?), grammar)?,
                b"IFDEQ" => options.condition(Condition::DigestEqual(argument()?), grammar)?,
                b"IFDNE" => options.condition(Condition::DigestNotEqual(argument()?), grammar)?,
                b"GET" if grammar == Grammar::Set => options.get = true,
                b"KEEPTTL" if grammar != Grammar::GetEx => options.ttl(Ttl::Keep)?,
                b"PERSIST" if grammar == Grammar::GetEx => options.ttl(Ttl::Persist)?,
                b"EX" => options.ttl(Ttl::Time(Unit::Seconds, argument()?))?,
                b"PX" => options.ttl(Ttl::Time(Unit::Milliseconds, argument()?))?,
                b"EXAT" => options.ttl(Ttl::Time(Unit::UnixSeconds, argument()?))?,
                b"PXAT" => options.ttl(Ttl::Time(Unit::UnixMilliseconds, argument()?))?,
                _ => return Err(Error::SYNTAX),
            }
        }
        Ok(options)
    }

    fn condition(&mut self, condition: Condition<'a>, grammar: Grammar) -> Result<(), Error> {
        let known = match grammar {
            Grammar::Set => true,
            Grammar::GetEx => false,
            Grammar::MSetEx => matches!(condition, Condition::Absent | Condition::Present),
        };
        let kind = std::mem::discriminant(&condition);
        let agrees = self.condition.is_none_or(|before| std::mem::discriminant(&before) == kind);
        self.condition = Some(condition);
        if known && agrees { Ok(()) } else { Err(Error::SYNTAX) }
    }

    fn ttl(&mut self, ttl: Ttl<'a>) -> Result<(), Error> {
        let agrees = match (self.ttl, ttl) {
            (Ttl::Unsaid, _) => true,
            (Ttl::Time(before, _), Ttl::Time(unit, _)) => before == unit,
            (before, now) => before == now,
        };
        self.ttl = ttl;
        if agrees { Ok(()) } else { Err(Error::SYNTAX) }
    }
}
