//! A value that any client was shown is not lost (rule L7), even if its writer has no reply yet. A copy of a shown
//! value does not survive without that value (rule L4).

use std::collections::BTreeMap;

use super::{Verdict, violated};
use crate::clients::model::{Content, Contents};

/// The number that a register holds; 0 if it is not there.
pub fn number_in(contents: &Contents, register: &str) -> u64 {
    match contents.get(&(0, register.to_owned())).map(|entry| &entry.content) {
        Some(Content::Text(text)) => text.parse().unwrap_or(0),
        _ => 0,
    }
}

/// `shown`: of each register, the highest number that any client was shown.
///
/// # Errors
///
/// The invariant does not hold.
pub fn check(shown: &BTreeMap<String, u64>, contents: &Contents) -> Verdict {
    for (register, number) in shown {
        let there = number_in(contents, register);
        if there < *number {
            return violated("seen", format_args!("{register} has {there}, and somebody was shown {number}"));
        }
    }
    Ok(())
}

/// A register is not behind its firm promise. `firm`: of each register, the promised number.
///
/// # Errors
///
/// The invariant does not hold.
pub fn check_firm(firm: &BTreeMap<String, u64>, register: &str, contents: &Contents) -> Verdict {
    let (promised, there) = (firm.get(register).copied().unwrap_or(0), number_in(contents, register));
    if there < promised {
        let what = format_args!("{register} has {there}, and {promised} was acknowledged when that was synced");
        return violated("acknowledged", what);
    }
    Ok(())
}

/// A copy of a register is not ahead of it.
///
/// # Errors
///
/// The invariant does not hold.
pub fn check_copy(contents: &Contents, copy: &str, register: &str) -> Verdict {
    let (copied, there) = (number_in(contents, copy), number_in(contents, register));
    if copied > there {
        return violated("cut", format_args!("{copy} has {copied}, copied from {register}, which has {there}"));
    }
    Ok(())
}
