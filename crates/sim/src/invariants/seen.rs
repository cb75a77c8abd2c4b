//! Nothing that anybody was shown is lost (rule L7): not what its writer has not heard of yet, either. And what was copied from what was
//! shown does not survive without it (rule L4).

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

/// `shown`: of each register, the highest number that anybody was shown.
pub fn check(shown: &BTreeMap<String, u64>, contents: &Contents) -> Verdict {
    for (register, number) in shown {
        let there = number_in(contents, register);
        if there < *number {
            return violated("seen", format_args!("{register} has {there}, and somebody was shown {number}"));
        }
    }
    Ok(())
}

/// A register is not behind what was firmly promised of it. `firm`: of each register, the number.
pub fn check_firm(firm: &BTreeMap<String, u64>, register: &str, contents: &Contents) -> Verdict {
    let (promised, there) = (firm.get(register).copied().unwrap_or(0), number_in(contents, register));
    if there < promised {
        let what = format_args!("{register} has {there}, and {promised} was acknowledged when that was synced");
        return violated("acknowledged", what);
    }
    Ok(())
}

/// A copy of a register is not ahead of it.
pub fn check_copy(contents: &Contents, copy: &str, register: &str) -> Verdict {
    let (copied, there) = (number_in(contents, copy), number_in(contents, register));
    if copied > there {
        return violated("cut", format_args!("{copy} has {copied}, copied from {register}, which has {there}"));
    }
    Ok(())
}
