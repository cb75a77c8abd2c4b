//! One entry, for readers.

use super::id::Id;
use crate::block::{Elem, read_bare};

/// An entry of a stream.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    /// Its ID.
    pub id: Id,
    fields: usize,
    /// The fields, if its node has them.
    names: Option<&'a [u8]>,
    /// Values, or pairs of field and value.
    rest: &'a [u8],
}

impl<'a> Entry<'a> {
    pub(super) fn new(id: Id, fields: usize, names: Option<&'a [u8]>, rest: &'a [u8]) -> Self {
        Entry { id, fields, names, rest }
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.fields
    }

    /// True if there are no fields, which only another server's payload can bring about.
    pub fn is_empty(&self) -> bool {
        self.fields == 0
    }

    /// Fields with their values, in the order they were given.
    pub fn pairs(&self) -> Pairs<'a> {
        Pairs { left: self.fields, names: self.names, rest: self.rest }
    }
}

/// See [`Entry::pairs`].
#[derive(Clone)]
pub struct Pairs<'a> {
    left: usize,
    names: Option<&'a [u8]>,
    rest: &'a [u8],
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (Elem<'a>, Elem<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let name = match &mut self.names {
            Some(names) => take(names),
            None => take(&mut self.rest),
        };
        Some((name, take(&mut self.rest)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

#[inline]
fn take<'a>(bytes: &mut &'a [u8]) -> Elem<'a> {
    let (elem, size) = read_bare(bytes);
    *bytes = &bytes[size..];
    elem
}
