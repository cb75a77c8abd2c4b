//! Redis's error objects: tables with `err`, and where the error happened in `source` and `line`.

use crate::lua::{Frame, Kind, Raised};
use std::ffi::c_int;

/// The field that says that an error has been counted already, as one of a command.
const COUNTED: &str = "ignore_error_stats_update";

/// Pushes an error object. Text that begins with `-` begins with a code; other text gets `ERR`.
pub(crate) fn push(f: &mut Frame<'_>, text: &[u8]) {
    let (code, message) = match text.strip_prefix(b"-") {
        None => (&b"ERR"[..], text),
        Some(text) => match text.iter().position(|byte| *byte == b' ') {
            None => (&b"ERR"[..], text),
            Some(end) => (&text[..end], &text[end + 1..]),
        },
    };
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let start = message.iter().position(|byte| !is_break(byte)).unwrap_or(message.len());
    let end = message.iter().rposition(|byte| !is_break(byte)).map_or(start, |last| last + 1);
    let mut whole = f.shared().buffer();
    whole.extend_from_slice(code);
    whole.push(b' ');
    whole.extend_from_slice(&message[start..end]);
    f.push_table(0, 4);
    f.push_bytes(&whole);
    f.set_field(-2, "err");
    f.shared().give_back(whole);
}

/// Pushes the error object of a command's error reply.
pub(crate) fn push_reply(f: &mut Frame<'_>, code_and_text: &[u8]) {
    let mut text = Vec::with_capacity(code_and_text.len() + 1);
    text.push(b'-');
    text.extend_from_slice(code_and_text);
    push(f, &text);
    f.push_boolean(true);
    f.set_field(-2, COUNTED);
}

/// Raises an error object.
pub(crate) fn raise(f: &mut Frame<'_>, text: impl AsRef<[u8]>) -> Raised {
    push(f, text.as_ref());
    Raised
}

/// The content of an error object.
#[derive(Debug, Default)]
pub(crate) struct Description {
    /// Code and text.
    pub(crate) text: Vec<u8>,
    /// Chunk and line.
    pub(crate) place: Option<(Vec<u8>, Vec<u8>)>,
    /// True if it has been counted as an error of a command.
    pub(crate) counted: bool,
}

impl Description {
    /// Reads the error on top: a table or a string.
    pub(crate) fn of(f: &mut Frame<'_>) -> Self {
        if let Some(text) = f.bytes(-1) {
            return Self { text: [b"ERR ", text].concat(), ..Self::default() };
        }
        if f.kind(-1) != Kind::Table {
            return Self { text: b"ERR unknown error".into(), ..Self::default() };
        }
        let text = field(f, "err").unwrap_or_else(|| b"ERR unknown error".into());
        let place = field(f, "source").zip(field(f, "line"));
        f.push_field(-1, COUNTED);
        let counted = f.truth(-1);
        f.pop(1);
        Self { text, place, counted }
    }
}

/// The text of a field of the table on top, if it is a string or a number.
fn field(f: &mut Frame<'_>, name: &str) -> Option<Vec<u8>> {
    let text = match f.push_field(-1, name) {
        Kind::Number => f.number(-1).map(|number| number.to_string().into_bytes()),
        _ => f.bytes(-1).map(<[u8]>::to_vec),
    };
    f.pop(1);
    text
}

/// Pushes the handler of every script: it turns a raised value into an error object that knows its place.
pub(crate) fn push_handler(f: &mut Frame<'_>) {
    f.push_native(handle);
}

fn handle(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    // The function that raised it; for a native its caller, which has the line that the script's author knows.
    let place = f.place(1).and_then(|place| if place.native { f.place(2) } else { Some(place) });
    let place = place.map(|place| (place.source.to_vec(), place.line));
    if f.kind(1) != Kind::Table || f.is_proxy(1) {
        let text = describe(f);
        f.push_table(0, 3);
        f.push_bytes(text);
        f.set_field(-2, "err");
    } else {
        f.push_copy(1);
    }
    if let Some((source, line)) = place {
        f.push_bytes(source);
        f.set_field(-2, "source");
        f.push_number(f64::from(line));
        f.set_field(-2, "line");
    }
    Ok(1)
}

/// `ERR` and the text of a raised value that is no table.
fn describe(f: &mut Frame<'_>) -> Vec<u8> {
    let mut text = b"ERR ".to_vec();
    match f.kind(1) {
        Kind::String | Kind::Number => text.extend_from_slice(f.arg(1).unwrap_or_default()),
        Kind::Boolean => text.extend_from_slice(if f.truth(1) { b"true" } else { b"false" }),
        Kind::Nil | Kind::None => text.extend_from_slice(b"nil"),
        kind => text.extend_from_slice(format!("{}: {:p}", kind.name(), f.address(1)).as_bytes()),
    }
    text
}
