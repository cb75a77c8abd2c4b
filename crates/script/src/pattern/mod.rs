//! `string.find` and `string.match`. `gsub` and `gmatch`, which call back or keep state, are in [``lua::strings``].
//!
//! Lua's own matcher cannot be interrupted, and takes exponential time for some patterns; this one counts steps and
//! suspends.

mod class;
mod matcher;

pub(crate) use matcher::{Captures, Matcher};

use crate::lua::{Frame, Raised};
use std::ffi::c_int;

/// Puts the functions that match patterns into the table on top.
pub(crate) fn add(f: &mut Frame<'_>) {
    f.push_native(|f: &mut Frame<'_>| search(f, true));
    f.set_field(-2, "find");
    f.push_native(|f: &mut Frame<'_>| search(f, false));
    f.set_field(-2, "match");
    f.push_gsub();
    f.set_field(-2, "gsub");
    f.push_gmatch();
    f.set_field(-2, "gmatch");
}

/// A pattern ends at its first null byte, as in Lua 5.1 (`%z` matches one).
pub(crate) fn until_null(pattern: &[u8]) -> &[u8] {
    pattern.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// The pattern without its anchor, and whether it had one.
pub(crate) fn anchored(pattern: &[u8]) -> (&[u8], bool) {
    match pattern.strip_prefix(b"^") {
        Some(rest) => (rest, true),
        None => (pattern, false),
    }
}

fn search(f: &mut Frame<'_>, find: bool) -> Result<c_int, Raised> {
    let subject = f.check_bytes(1)?;
    let whole = f.check_bytes(2)?;
    let init = match f.optional_integer(3, 1)? {
        0 => 0,
        init @ 1.. => usize::try_from(init - 1).unwrap_or(usize::MAX).min(subject.len()),
        // From the end.
        init => subject.len().saturating_sub(usize::try_from(init.unsigned_abs()).unwrap_or(usize::MAX)),
    };
    let pattern = until_null(whole);
    if find && (f.truth(4) || !pattern.iter().any(|byte| b"^$*+?.([%-".contains(byte))) {
        f.charge(subject.len() / 32)?;
        let Some(found) = memchr::memmem::find(&subject[init..], whole) else {
            f.push_nil();
            return Ok(1);
        };
        f.push_number((init + found + 1) as f64);
        f.push_number((init + found + whole.len()) as f64);
        return Ok(2);
    }
    let (pattern, anchor) = anchored(pattern);
    let mut matcher = Matcher::new(subject, pattern);
    for start in init..=subject.len() {
        if let Some(end) = matcher.run(f, start)? {
            if find {
                f.push_number((start + 1) as f64);
                f.push_number(end as f64);
                return Ok(2 + matcher.captures().push(f, subject, None)?);
            }
            return matcher.captures().push(f, subject, Some((start, end)));
        }
        if anchor {
            break;
        }
    }
    f.push_nil();
    Ok(1)
}
