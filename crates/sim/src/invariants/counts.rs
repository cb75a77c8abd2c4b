//! DBSIZE and SCAN count every key, in memory or in the store only: no key is left out, and no key is counted twice.

use std::collections::BTreeSet;

use clocks::UnixMs;
use resp::Value;

use super::{Verdict, violated};
use crate::clients::model::Contents;

/// `contents`: the keys found one by one just before, unchanged since. `counted`: for each database the replies to
/// SELECT, DBSIZE and SCAN. `now`: unix milliseconds after them.
///
/// # Errors
///
/// The invariant does not hold.
pub fn check(contents: &Contents, counted: &[Value], now: UnixMs) -> Verdict {
    for (db, replies) in (0u16..).zip(counted.chunks(3)) {
        let there = contents.iter().filter(|((of, _), _)| *of == db);
        let all: BTreeSet<&str> = there.clone().map(|((_, name), _)| &name[..]).collect();
        let stay = there.filter(|(_, entry)| entry.until.is_none_or(|until| until > now));
        let stay: BTreeSet<&str> = stay.map(|((_, name), _)| &name[..]).collect();
        let [_, Value::Integer(size), Value::Array(scanned)] = replies else {
            return violated("counts", format_args!("{replies:?}"));
        };
        if !(stay.len()..=all.len()).contains(&(*size as usize)) {
            return violated("counts", format_args!("database {db} has {size} keys, and there are {all:?}"));
        }
        let [Value::Bulk(cursor), Value::Array(names)] = &scanned[..] else {
            return violated("counts", format_args!("{scanned:?}"));
        };
        let text = |name: &Value| {
            if let Value::Bulk(bytes) = name { String::from_utf8_lossy(bytes).into_owned() } else { String::new() }
        };
        let names: Vec<String> = names.iter().map(text).collect();
        let found: BTreeSet<&str> = names.iter().map(|name| &name[..]).collect();
        // It may end before the end.
        let is_whole = cursor != b"0" || stay.is_subset(&found);
        if !is_whole || !found.is_subset(&all) {
            return violated("counts", format_args!("database {db} is scanned as {found:?}, and there are {all:?}"));
        }
    }
    Ok(())
}
