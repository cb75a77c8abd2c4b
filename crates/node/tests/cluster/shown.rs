//! Replies as text that a test can compare.

use resp::Value;

/// A reply as text.
pub fn shown(value: &Value) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all = |values: &[Value]| values.iter().map(shown).collect::<Vec<_>>().join(" ");
    match value {
        Value::Simple(line) | Value::Bulk(line) => text(line),
        Value::Error(line) => format!("-{}", text(line)),
        Value::Integer(n) => n.to_string(),
        Value::Null => "nil".into(),
        Value::Array(values) | Value::Set(values) => format!("[{}]", all(values)),
        Value::Push(values) => format!(">[{}]", all(values)),
        other => format!("{other:?}"),
    }
}
