//! Lua 5.1's patterns, by backtracking, with every step counted.

use super::class;
use crate::lua::{Frame, Raised};
use std::ffi::c_int;

/// Captures in a pattern.
const CAPTURES_MAX: usize = 32;

/// Most nesting of matches: as much as the stack holds. Lua itself has no bound, and a stack that overflows.
const DEPTH_MAX: u32 = 1_000;

/// Steps between two checks of the budget.
const STEPS: usize = 1_024;

#[derive(Debug, Clone, Copy)]
enum Length {
    /// Its `)` has not been met.
    Open,
    /// `()`: only where it is.
    Position,
    Bytes(usize),
}

#[derive(Debug, Clone, Copy)]
struct Capture {
    start: usize,
    length: Length,
}

/// The captures of a match.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Captures {
    level: usize,
    captures: [Capture; CAPTURES_MAX],
}

impl Captures {
    /// Pushes all captures, or, if there are none, the bytes of `whole` if it is given. The number pushed.
    pub(crate) fn push(
        &self,
        f: &mut Frame<'_>,
        subject: &[u8],
        whole: Option<(usize, usize)>,
    ) -> Result<c_int, Raised> {
        let count = if self.level == 0 && whole.is_some() { 1 } else { self.level };
        if !f.room(count as c_int + 4) {
            return Err(f.raise("too many captures"));
        }
        for index in 0..count {
            self.push_one(f, subject, index, whole.unwrap_or_default())?;
        }
        Ok(count as c_int)
    }

    /// Pushes one capture; the first of none is the whole match.
    pub(crate) fn push_one(
        &self,
        f: &mut Frame<'_>,
        subject: &[u8],
        index: usize,
        whole: (usize, usize),
    ) -> Result<(), Raised> {
        let captures = &self.captures[..self.level];
        let (start, end) = match captures.get(index) {
            None if index == 0 => whole,
            None => return Err(f.raise("invalid capture index")),
            Some(Capture { length: Length::Open, .. }) => return Err(f.raise("unfinished capture")),
            Some(Capture { start, length: Length::Position }) => {
                f.push_number((start + 1) as f64);
                return Ok(());
            }
            Some(Capture { start, length: Length::Bytes(len) }) => (*start, start + len),
        };
        f.push_bytes(subject.get(start..end).unwrap_or_default());
        Ok(())
    }
}

/// A pattern against a subject.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matcher<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: Captures,
    depth: u32,
    steps: usize,
}

impl<'a> Matcher<'a> {
    /// The pattern has no anchor in front, and no null byte.
    pub(crate) fn new(subject: &'a [u8], pattern: &'a [u8]) -> Self {
        let none = Capture { start: 0, length: Length::Open };
        let captures = Captures { level: 0, captures: [none; CAPTURES_MAX] };
        Self { subject, pattern, captures, depth: 0, steps: 0 }
    }

    /// Where the match that begins at `start` ends. May suspend.
    pub(crate) fn run(&mut self, f: &mut Frame<'_>, start: usize) -> Result<Option<usize>, Raised> {
        self.captures.level = 0;
        self.depth = 0;
        self.go(f, start, 0)
    }

    /// The captures of the last match that ended.
    pub(crate) fn captures(&self) -> &Captures {
        &self.captures
    }

    /// The pattern's byte, 0 at its end.
    fn pattern(&self, at: usize) -> u8 {
        self.pattern.get(at).copied().unwrap_or(0)
    }

    fn work(&mut self, f: &mut Frame<'_>, steps: usize) -> Result<(), Raised> {
        self.steps += steps;
        if self.steps < STEPS {
            return Ok(());
        }
        f.charge(std::mem::take(&mut self.steps))
    }

    /// Matches the rest of the pattern within another match.
    fn nested(&mut self, f: &mut Frame<'_>, at: usize, pattern: usize) -> Result<Option<usize>, Raised> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(f.raise("pattern too complex"));
        }
        let outcome = self.go(f, at, pattern);
        self.depth -= 1;
        outcome
    }

    fn go(&mut self, f: &mut Frame<'_>, mut at: usize, mut pattern: usize) -> Result<Option<usize>, Raised> {
        loop {
            self.work(f, 1)?;
            match (self.pattern(pattern), self.pattern(pattern + 1)) {
                (0, _) => return Ok(Some(at)),
                (b'(', b')') => return self.open(f, at, pattern + 2, Length::Position),
                (b'(', _) => return self.open(f, at, pattern + 1, Length::Open),
                (b')', _) => return self.close(f, at, pattern + 1),
                (b'$', 0) => return Ok((at == self.subject.len()).then_some(at)),
                (b'%', b'b') => match self.balance(f, at, pattern + 2)? {
                    Some(end) => {
                        at = end;
                        pattern += 4;
                    }
                    None => return Ok(None),
                },
                (b'%', b'f') => {
                    pattern += 2;
                    if self.pattern(pattern) != b'[' {
                        return Err(f.raise("missing '[' after '%f' in pattern"));
                    }
                    let end = self.item_end(f, pattern)?;
                    let set = &self.pattern[pattern..end - 1];
                    let before = if at == 0 { 0 } else { self.subject[at - 1] };
                    let here = self.subject.get(at).copied().unwrap_or(0);
                    if class::set(before, set) || !class::set(here, set) {
                        return Ok(None);
                    }
                    pattern = end;
                }
                (b'%', digit @ b'0'..=b'9') => match self.back(f, at, digit)? {
                    Some(end) => {
                        at = end;
                        pattern += 2;
                    }
                    None => return Ok(None),
                },
                _ => {
                    let end = self.item_end(f, pattern)?;
                    self.work(f, (end - pattern) / 4)?;
                    let item = &self.pattern[pattern..end];
                    let here = self.subject.get(at).is_some_and(|byte| class::single(*byte, item));
                    match self.pattern(end) {
                        b'?' => {
                            if here && let Some(found) = self.nested(f, at + 1, end + 1)? {
                                return Ok(Some(found));
                            }
                            pattern = end + 1;
                        }
                        b'*' => return self.most(f, at, item, end + 1),
                        b'+' if here => return self.most(f, at + 1, item, end + 1),
                        b'-' => return self.least(f, at, item, end + 1),
                        b'+' => return Ok(None),
                        _ if here => {
                            at += 1;
                            pattern = end;
                        }
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    /// Where the item that begins at `at` ends.
    fn item_end(&mut self, f: &mut Frame<'_>, at: usize) -> Result<usize, Raised> {
        match self.pattern(at) {
            b'%' if self.pattern(at + 1) == 0 => Err(f.raise("malformed pattern (ends with '%')")),
            b'%' => Ok(at + 2),
            b'[' => {
                let mut end = at + 1 + usize::from(self.pattern(at + 1) == b'^');
                // The first byte may be a `]` that is meant.
                loop {
                    let byte = self.pattern(end);
                    end += 1;
                    if byte == 0 {
                        return Err(f.raise("malformed pattern (missing ']')"));
                    }
                    if byte == b'%' && self.pattern(end) != 0 {
                        end += 1;
                    }
                    if self.pattern(end) == b']' {
                        self.work(f, (end - at) / 4)?;
                        return Ok(end + 1);
                    }
                }
            }
            _ => Ok(at + 1),
        }
    }

    fn most(&mut self, f: &mut Frame<'_>, at: usize, item: &[u8], pattern: usize) -> Result<Option<usize>, Raised> {
        let rest = self.subject.get(at..).unwrap_or_default();
        let mut count = 0;
        while rest.get(count).is_some_and(|byte| class::single(*byte, item)) {
            count += 1;
            self.work(f, 1 + item.len() / 4)?;
        }
        for count in (0..=count).rev() {
            if let Some(end) = self.nested(f, at + count, pattern)? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    fn least(
        &mut self,
        f: &mut Frame<'_>,
        mut at: usize,
        item: &[u8],
        pattern: usize,
    ) -> Result<Option<usize>, Raised> {
        loop {
            if let Some(end) = self.nested(f, at, pattern)? {
                return Ok(Some(end));
            }
            if !self.subject.get(at).is_some_and(|byte| class::single(*byte, item)) {
                return Ok(None);
            }
            at += 1;
            self.work(f, 1 + item.len() / 4)?;
        }
    }

    fn open(&mut self, f: &mut Frame<'_>, at: usize, pattern: usize, length: Length) -> Result<Option<usize>, Raised> {
        let level = self.captures.level;
        let Some(capture) = self.captures.captures.get_mut(level) else {
            return Err(f.raise("too many captures"));
        };
        *capture = Capture { start: at, length };
        self.captures.level = level + 1;
        let end = self.nested(f, at, pattern)?;
        if end.is_none() {
            self.captures.level = level;
        }
        Ok(end)
    }

    fn close(&mut self, f: &mut Frame<'_>, at: usize, pattern: usize) -> Result<Option<usize>, Raised> {
        let captures = &mut self.captures.captures[..self.captures.level];
        let Some(index) = captures.iter().rposition(|capture| matches!(capture.length, Length::Open)) else {
            return Err(f.raise("invalid pattern capture"));
        };
        captures[index].length = Length::Bytes(at - captures[index].start);
        let end = self.nested(f, at, pattern)?;
        if end.is_none() {
            self.captures.captures[index].length = Length::Open;
        }
        Ok(end)
    }

    /// `%1`: the captured text, again.
    fn back(&mut self, f: &mut Frame<'_>, at: usize, digit: u8) -> Result<Option<usize>, Raised> {
        let index = usize::from(digit).checked_sub(usize::from(b'1'));
        let capture = index.and_then(|index| self.captures.captures[..self.captures.level].get(index)).copied();
        let (start, len) = match capture {
            Some(Capture { start, length: Length::Bytes(len) }) => (start, len),
            // A position has no bytes that could be found again.
            Some(Capture { length: Length::Position, .. }) => return Ok(None),
            _ => return Err(f.raise("invalid capture index")),
        };
        self.work(f, len / 16)?;
        let again = self.subject[at..].starts_with(&self.subject[start..start + len]);
        Ok(again.then_some(at + len))
    }

    /// `%bxy`.
    fn balance(&mut self, f: &mut Frame<'_>, at: usize, pattern: usize) -> Result<Option<usize>, Raised> {
        let (open, close) = (self.pattern(pattern), self.pattern(pattern + 1));
        if open == 0 || close == 0 {
            return Err(f.raise("unbalanced pattern"));
        }
        if self.subject.get(at) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1usize;
        for index in at + 1..self.subject.len() {
            self.work(f, 1)?;
            let byte = self.subject[index];
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(index + 1));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }
}
