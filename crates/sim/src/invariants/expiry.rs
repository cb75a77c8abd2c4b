//! A key that has expired for a client does not come back, none expires before its time, and the times survive.

use clocks::UnixMs;
use resp::Value;

use super::{Violation, violated};
use crate::clients::model::{Content, Entry};

/// True if a key with a known value has expired, judged by the reply to GET. `latest`: the highest unix time so
/// far.
///
/// # Errors
///
/// The invariant does not hold.
pub fn has_expired(who: &str, known: Option<&Entry>, got: &Value, latest: UnixMs) -> Result<bool, Violation> {
    let until = known.and_then(|entry| entry.until);
    let text = known.and_then(|entry| match &entry.content {
        Content::Text(text) => Some(text.as_bytes()),
        _ => None,
    });
    match (got, text) {
        (Value::Null, None) => Ok(false),
        (Value::Null, Some(_)) if until.is_some_and(|until| until <= latest) => Ok(true),
        (Value::Bulk(bytes), Some(text)) if bytes == text => Ok(false),
        _ => violated("expiry", format_args!("{who}: {known:?} should be there, GET says {got:?}")).map(|()| false),
    }
}
