//! Patterns of BY and GET: `weight_*` names a key for each element, `object_*->field` a field of a hash, `#` the
//! element.

use clocks::UnixMs;
use keyspace::{Db, Str};
use object::Hash;
use object::block::Elem;

/// A pattern, taken apart.
pub(super) enum Pattern<'a> {
    /// `#`.
    Itself,
    /// Without `*`: there is never a value.
    Nothing,
    /// The key around the element, and the field of the hash there.
    Key { before: &'a [u8], after: &'a [u8], field: Option<&'a [u8]> },
}

/// The value of a pattern.
pub(super) enum Found<'a> {
    Element(&'a [u8]),
    String(Str<'a>),
    Field(Elem<'a>),
}

impl Found<'_> {
    /// Calls `f` with the text.
    pub(super) fn with<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Found::Element(bytes) => f(bytes),
            Found::String(text) => text.with(f),
            Found::Field(elem) => f(elem.as_bytes(&mut itoa::Buffer::new())),
        }
    }
}

impl<'a> Pattern<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        if text == b"#" {
            return Pattern::Itself;
        }
        let Some(star) = memchr::memchr(b'*', text) else { return Pattern::Nothing };
        let (before, rest) = (&text[..star], &text[star + 1..]);
        match memchr::memmem::find(rest, b"->") {
            Some(at) if at + 2 < rest.len() => {
                Pattern::Key { before, after: &rest[..at], field: Some(&rest[at + 2..]) }
            }
            _ => Pattern::Key { before, after: rest, field: None },
        }
    }

    /// True if it leads to another key for each element.
    pub(super) fn varies(&self) -> bool {
        matches!(self, Pattern::Key { .. })
    }

    /// Makes `name` the name of the key for `element`. False: there is no such key.
    pub(super) fn name(&self, element: &[u8], name: &mut Vec<u8>) -> bool {
        let Pattern::Key { before, after, .. } = self else { return false };
        name.clear();
        for part in [before, element, after] {
            name.extend_from_slice(part);
        }
        true
    }

    /// The value for `element`, if there is one at time `now`. `name` is scratch for the key's name.
    pub(super) fn find<'d>(
        &self,
        db: &'d Db<'_>,
        now: UnixMs,
        element: &'d [u8],
        name: &mut Vec<u8>,
    ) -> Option<Found<'d>> {
        let field = match self {
            Pattern::Itself => return Some(Found::Element(element)),
            Pattern::Nothing => return None,
            Pattern::Key { field, .. } => field,
        };
        self.name(element, name);
        let entry = db.peek(&db.key(name)).filter(|entry| !entry.expired(now))?;
        match field {
            None => entry.string().ok().map(Found::String),
            Some(field) => entry.collection::<Hash>().ok()?.get(field, now).map(Found::Field),
        }
    }
}
