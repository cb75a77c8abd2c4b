//! Long strings of replies that are not copied into the output but sent from where they are.

use std::sync::Arc;

/// A long string and its place in an output.
#[derive(Debug, Clone)]
pub struct Part {
    /// It comes before the byte at this position of the output's own bytes.
    pub at: usize,
    /// The string.
    pub bytes: Arc<Vec<u8>>,
}

/// The long strings of an output, in its order. See [`crate::Reply::sharing`].
#[derive(Debug, Default)]
pub struct Parts {
    list: Vec<Part>,
    len: usize,
    /// The places where a writer has left out bytes that the system had no memory for.
    pub(crate) refused: Option<usize>,
}

impl Parts {
    /// True if there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many bytes they have together.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the system had no memory for a part of the reply, which is missing: the whole of it is to be replaced by
    /// an error. Only a writer with parts ([`crate::Reply::sharing`]) leaves anything out.
    #[inline]
    pub fn take_refused(&mut self) -> bool {
        self.refused.is_some() && self.refused.take().is_some()
    }

    /// Adds one behind all others.
    pub(crate) fn push(&mut self, at: usize, bytes: Arc<Vec<u8>>) {
        debug_assert!(self.list.last().is_none_or(|last| last.at <= at));
        self.len += bytes.len();
        self.list.push(Part { at, bytes });
    }

    /// Drops those that come after position `end`: the output was cut to that.
    #[inline]
    pub fn truncate(&mut self, end: usize) {
        while let Some(last) = self.list.last().filter(|last| last.at > end) {
            self.len -= last.bytes.len();
            self.list.pop();
        }
    }

    /// The bytes before position `from` became `more` bytes longer.
    pub(crate) fn shift(&mut self, from: usize, more: usize) {
        for part in self.list.iter_mut().rev().take_while(|part| part.at >= from) {
            part.at += more;
        }
    }

    /// Takes all of them.
    pub fn drain(&mut self) -> impl Iterator<Item = Part> + '_ {
        self.len = 0;
        self.list.drain(..)
    }

    /// Copies all of them to their places in `out`, for an output that cannot keep them.
    pub fn copy_into(&mut self, out: &mut Vec<u8>) {
        if self.is_empty() {
            return;
        }
        let own = std::mem::take(out);
        out.reserve_exact(own.len() + self.len);
        let mut copied = 0;
        for part in self.drain() {
            let at = part.at.clamp(copied, own.len());
            out.extend_from_slice(&own[copied..at]);
            out.extend_from_slice(&part.bytes);
            copied = at;
        }
        out.extend_from_slice(&own[copied..]);
    }
}
