//! The cursor and options that HSCAN, SSCAN and ZSCAN share.

use object::block::Elem;
use object::glob;

use crate::ctx::Ctx;
use crate::error::Error;

/// The command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scanned {
    Hash,
    Set,
    ZSet,
}

/// `[MATCH pattern] [COUNT count] [NOVALUES | NOSCORES]`.
pub(crate) struct ScanOptions<'a> {
    /// About how many elements to visit.
    pub count: usize,
    /// Leave out values (HSCAN) or scores (ZSCAN).
    pub no_values: bool,
    /// None: everything matches.
    pattern: Option<&'a [u8]>,
}

/// The answer to a cursor that no scan has returned.
pub(crate) const INVALID_CURSOR: Error = Error::new("ERR invalid cursor");

/// Redis reads a cursor with `strtoull`: white space, a plus and zeros before it do no harm, nor does a minus before
/// zero.
pub(crate) fn parse_cursor(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii_start();
    let digits = digits.strip_prefix(b"+").unwrap_or(digits);
    let first = digits.iter().position(|&byte| byte != b'0');
    match first {
        Some(_) if digits == b"-0" => Some(0),
        Some(at) => object::number::parse_u64(digits.get(at..)?),
        None => (!digits.is_empty()).then_some(0),
    }
}

/// The cursor at argument `i`.
pub(crate) fn cursor(ctx: &Ctx<'_>, i: usize) -> Result<u64, Error> {
    parse_cursor(ctx.arg(i)).ok_or(INVALID_CURSOR)
}

/// The cursor at argument 2 of HSCAN, SSCAN and ZSCAN: a hash of 32 bits, from which on elements were not visited.
pub(crate) fn element_cursor(ctx: &Ctx<'_>) -> Result<u64, Error> {
    let cursor = cursor(ctx, 2)?;
    u32::try_from(cursor).map(u64::from).map_err(|_| INVALID_CURSOR)
}

impl<'a> ScanOptions<'a> {
    /// Reads the arguments from `first` on.
    ///
    /// # Errors
    ///
    /// An argument is wrong; the error is the one that Redis gives.
    pub fn parse(ctx: &Ctx<'a>, first: usize, scanned: Scanned) -> Result<Self, Error> {
        let mut options = ScanOptions { count: 10, no_values: false, pattern: None };
        let mut i = first;
        while i < ctx.args.len() {
            let has_value = i + 1 < ctx.args.len();
            if has_value && ctx.is(i, "count") {
                let count = ctx.int(i + 1)?;
                options.count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(Error::SYNTAX)?;
                i += 2;
            } else if has_value && ctx.is(i, "match") {
                options.pattern = Some(ctx.arg(i + 1)).filter(|pattern| *pattern != b"*");
                i += 2;
            } else if ctx.is(i, "novalues") {
                if scanned != Scanned::Hash {
                    return Err(Error::new("ERR NOVALUES option can only be used in HSCAN"));
                }
                options.no_values = true;
                i += 1;
            } else if ctx.is(i, "noscores") && scanned == Scanned::ZSet {
                options.no_values = true;
                i += 1;
            } else {
                return Err(Error::SYNTAX);
            }
        }
        Ok(options)
    }

    /// True if the pattern, if there is one, matches.
    pub fn matches(&self, elem: Elem<'_>) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, elem.as_bytes(&mut itoa::Buffer::new())))
    }
}
