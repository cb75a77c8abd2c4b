//! The options of SORT, and the keys that they need.

use resp::Args;

use super::pattern::Pattern;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::families::Reach;
use crate::spec::{KeyAt, key_flags};

/// The arguments of SORT.
#[derive(Default)]
pub(super) struct Options<'a> {
    pub(super) descending: bool,
    /// Compare as strings, not as numbers.
    pub(super) alpha: bool,
    /// LIMIT: offset and count; a negative count is no limit.
    pub(super) limit: Option<(i64, i64)>,
    /// A BY without `*` was given: keep the order there is.
    pub(super) keep_order: bool,
    /// Weights come from here.
    pub(super) by: Option<Pattern<'a>>,
    /// The parts of the answer for each element, in place of itself.
    pub(super) get: Vec<Pattern<'a>>,
    /// Position of the key to store to.
    pub(super) store: Option<usize>,
}

/// One option with the position of its (first) argument.
enum Word {
    Ascending,
    Descending,
    Alpha,
    Limit(usize),
    Store(usize),
    By(usize),
    Get(usize),
    Unknown,
}

/// Splits the arguments from 2 on into options.
fn words(args: Args<'_>) -> impl Iterator<Item = Word> {
    let mut i = 2;
    std::iter::from_fn(move || {
        let word = args.get(i)?.to_ascii_lowercase();
        let left = args.len() - i - 1;
        let at = i + 1;
        let (word, arguments) = match word.as_slice() {
            b"asc" => (Word::Ascending, 0),
            b"desc" => (Word::Descending, 0),
            b"alpha" => (Word::Alpha, 0),
            b"limit" if left >= 2 => (Word::Limit(at), 2),
            b"store" if left >= 1 => (Word::Store(at), 1),
            b"by" if left >= 1 => (Word::By(at), 1),
            b"get" if left >= 1 => (Word::Get(at), 1),
            _ => (Word::Unknown, 0),
        };
        i = at + arguments;
        Some(word)
    })
}

impl<'a> Options<'a> {
    /// Reads the options; `may_store`: STORE is one.
    pub(super) fn parse(ctx: &Ctx<'a>, may_store: bool) -> Result<Self, Error> {
        let mut options = Options::default();
        for word in words(ctx.args) {
            match word {
                Word::Ascending => options.descending = false,
                Word::Descending => options.descending = true,
                Word::Alpha => options.alpha = true,
                Word::Limit(at) => options.limit = Some((ctx.int(at)?, ctx.int(at + 1)?)),
                Word::Store(at) if may_store => options.store = Some(at),
                Word::By(at) => {
                    let pattern = Pattern::new(ctx.arg(at));
                    options.keep_order |= !pattern.varies();
                    options.by = Some(pattern);
                }
                Word::Get(at) => options.get.push(Pattern::new(ctx.arg(at))),
                Word::Store(_) | Word::Unknown => return Err(Error::SYNTAX),
            }
        }
        Ok(options)
    }

    /// The options that matter for elements whose patterns lead to no other key and that are to be sorted.
    pub(super) fn alone(&self) -> Option<Options<'static>> {
        let is_alone = !self.keep_order && self.by.is_none() && self.get.is_empty();
        let options =
            || Options { descending: self.descending, alpha: self.alpha, limit: self.limit, ..Options::default() };
        is_alone.then(options)
    }

    /// The part of `len` elements that LIMIT leaves.
    pub(super) fn range(&self, len: usize) -> std::ops::Range<usize> {
        let (offset, count) = self.limit.unwrap_or((0, -1));
        let start = usize::try_from(offset.max(0)).unwrap_or(usize::MAX).min(len);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        start..start.saturating_add(count).min(len)
    }
}

/// The key of STORE: the last one counts.
pub(super) fn store_key(args: Args<'_>, out: &mut Vec<KeyAt>) {
    let last = words(args).filter_map(|word| if let Word::Store(at) = word { Some(at) } else { None }).last();
    out.extend(last.map(|index| KeyAt { index, flags: key_flags::OW | key_flags::UPDATE }));
}

/// The place of keys that patterns lead to: the sorted key's slot, or any.
pub(super) fn reach(args: Args<'_>) -> Reach {
    let home = args.get(1).map(keyspace::slot_of);
    let patterns = words(args).filter_map(|word| match word {
        Word::By(at) | Word::Get(at) => args.get(at).filter(|text| Pattern::new(text).varies()),
        _ => None,
    });
    patterns.fold(Reach::Keys, |reach, text| match reach {
        Reach::Everything => reach,
        _ if super::super::scan::slot_of_pattern(text) == home => Reach::Slots,
        _ => Reach::Everything,
    })
}
