//! Longest common subsequence of two strings (LCS), by bit-parallel dynamic programming.
//!
//! Redis fills a table of 32-bit lengths. Within a row neighbouring lengths differ by at most one. So a row is one
//! *bit* per column here, and a handful of word operations advance 64 columns (Hyyro, "Bit-parallel LCS-length
//! computation revisited", 2004). Walking back through the rows visits the same cells as Redis does, so ties break the
//! same way and the same subsequence and ranges come out.

/// A stretch that both strings share within the subsequence; positions are first and last byte, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// Bytes of the first string.
    pub a: (usize, usize),
    /// Bytes of the second string.
    pub b: (usize, usize),
}

impl Match {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.a.1 - self.a.0 + 1
    }

    /// Never: a match has a byte at least.
    pub fn is_empty(&self) -> bool {
        false
    }
}

/// Heap bytes that [`Lcs::new`] needs at most for strings of these lengths; [`length`] needs those of one row and the
/// masks.
pub fn memory(a: usize, b: usize) -> usize {
    let row = b.div_ceil(64).saturating_mul(8);
    row.saturating_mul(a.saturating_add(1 + a.min(256)))
}

/// The length alone, in bytes: one row instead of the table.
pub fn length(a: &[u8], b: &[u8]) -> usize {
    let masks = Masks::new(a, b);
    let mut row = vec![u64::MAX; masks.words];
    for &byte in a {
        advance(&mut row, masks.of(byte));
    }
    steps(&row, b.len())
}

/// The rows of the table over `a` and `b`, from which the subsequence and its ranges are read.
pub struct Lcs<'a> {
    a: &'a [u8],
    b: &'a [u8],
    words: usize,
    /// Row `i` is after `i + 1` bytes of `a`; a *clear* bit `j` says that the length grows from column `j` to `j + 1`.
    rows: Vec<u64>,
}

impl<'a> Lcs<'a> {
    /// Computes the table: [`memory`] bytes, `a.len() * b.len() / 64` steps.
    pub fn new(a: &'a [u8], b: &'a [u8]) -> Self {
        let masks = Masks::new(a, b);
        let words = masks.words;
        let mut rows = Vec::with_capacity(words * a.len());
        let mut row = vec![u64::MAX; words];
        for &byte in a {
            advance(&mut row, masks.of(byte));
            rows.extend_from_slice(&row);
        }
        Self { a, b, words, rows }
    }

    /// Bytes of the longest common subsequence.
    pub fn len(&self) -> usize {
        match self.a.len() {
            0 => 0,
            rows => steps(&self.rows[(rows - 1) * self.words..], self.b.len()),
        }
    }

    /// True if nothing is common.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The subsequence.
    pub fn subsequence(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.pairs().map(|(i, _)| self.a[i]).collect();
        bytes.reverse();
        bytes
    }

    /// The stretches, from the end of the strings to their start, as LCS ... IDX lists them.
    pub fn matches(&self) -> impl Iterator<Item = Match> + '_ {
        let mut pairs = self.pairs().peekable();
        std::iter::from_fn(move || {
            let (i, j) = pairs.next()?;
            let mut found = Match { a: (i, i), b: (j, j) };
            while let Some((i, j)) = pairs.next_if(|&(i, j)| (i + 1, j + 1) == (found.a.0, found.b.0)) {
                (found.a.0, found.b.0) = (i, j);
            }
            Some(found)
        })
    }

    /// Matching positions from the end to the start.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let (mut i, mut j) = (self.a.len(), self.b.len());
        std::iter::from_fn(move || {
            while i > 0 && j > 0 {
                if self.a[i - 1] == self.b[j - 1] {
                    (i, j) = (i - 1, j - 1);
                    return Some((i, j));
                }
                // Where the length grows from column j - 1 to j, the cell to the left is the smaller neighbour: go up.
                let word = self.rows[(i - 1) * self.words + (j - 1) / 64];
                if word >> ((j - 1) % 64) & 1 == 0 { i -= 1 } else { j -= 1 }
            }
            None
        })
    }
}

/// Next row: `row` is the one above, `mask` has the columns whose byte equals the row's.
fn advance(row: &mut [u64], mask: &[u64]) {
    let mut carry = false;
    for (word, &mask) in row.iter_mut().zip(mask) {
        let (sum, overflow) = word.overflowing_add(*word & mask);
        let (sum, overflow_again) = sum.overflowing_add(u64::from(carry));
        carry = overflow | overflow_again;
        *word = sum | (*word & !mask);
    }
}

/// Clear bits among the first `columns` of a row: the length at its end.
fn steps(row: &[u64], columns: usize) -> usize {
    let mut left = columns;
    row.iter()
        .map(|word| {
            let used = left.min(64);
            left -= used;
            let outside = if used == 64 { 0 } else { u64::MAX << used };
            (word | outside).count_zeros() as usize
        })
        .sum()
}

/// For each byte of `a`, the positions in `b` that hold it.
struct Masks {
    words: usize,
    /// Where the mask of a byte starts in `bits`; bytes that `a` lacks share the first, empty one but are never asked
    /// for.
    starts: [usize; 256],
    bits: Vec<u64>,
}

impl Masks {
    fn new(a: &[u8], b: &[u8]) -> Self {
        let words = b.len().div_ceil(64);
        let mut masks = Self { words, starts: [usize::MAX; 256], bits: Vec::new() };
        for &byte in a {
            let start = &mut masks.starts[usize::from(byte)];
            if *start == usize::MAX {
                *start = masks.bits.len();
                masks.bits.resize(masks.bits.len() + words, 0);
            }
        }
        for (index, &byte) in b.iter().enumerate() {
            let start = masks.starts[usize::from(byte)];
            if start != usize::MAX {
                masks.bits[start + index / 64] |= 1 << (index % 64);
            }
        }
        masks
    }

    /// The mask of a byte of `a`.
    fn of(&self, byte: u8) -> &[u64] {
        let start = self.starts[usize::from(byte)];
        &self.bits[start..start + self.words]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Redis's table and its way back.
    fn model(a: &[u8], b: &[u8]) -> (usize, Vec<(usize, usize)>) {
        let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
        for i in 1..=a.len() {
            for j in 1..=b.len() {
                table[i][j] =
                    if a[i - 1] == b[j - 1] { table[i - 1][j - 1] + 1 } else { table[i - 1][j].max(table[i][j - 1]) };
            }
        }
        let (mut i, mut j, mut pairs) = (a.len(), b.len(), Vec::new());
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                (i, j) = (i - 1, j - 1);
                pairs.push((i, j));
            } else if table[i - 1][j] > table[i][j - 1] {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        (table[a.len()][b.len()], pairs)
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        let letters = prop_oneof![Just(2u8), Just(4), Just(26)];
        letters.prop_flat_map(|letters| proptest::collection::vec(0..letters, 0..200))
    }

    proptest! {
        #[test]
        fn as_the_table(a in text(), b in text()) {
            let (len, pairs) = model(&a, &b);
            let lcs = Lcs::new(&a, &b);
            prop_assert_eq!(length(&a, &b), len);
            prop_assert_eq!(lcs.len(), len);
            prop_assert_eq!(lcs.pairs().collect::<Vec<_>>(), pairs.clone());
            prop_assert_eq!(lcs.subsequence(), pairs.iter().rev().map(|&(i, _)| a[i]).collect::<Vec<_>>());
            let listed: Vec<_> = lcs.matches()
                .flat_map(|found| (0..found.len()).map(move |back| (found.a.1 - back, found.b.1 - back)))
                .collect();
            prop_assert_eq!(listed, pairs);
            prop_assert!(lcs.rows.len() * 8 <= memory(a.len(), b.len()));
        }
    }

    #[test]
    fn the_example_of_the_documentation() {
        let lcs = Lcs::new(b"ohmytext", b"mynewtext");
        assert_eq!(lcs.subsequence(), b"mytext");
        let matches: Vec<_> = lcs.matches().collect();
        assert_eq!(matches, [Match { a: (4, 7), b: (5, 8) }, Match { a: (2, 3), b: (0, 1) }]);
        assert_eq!(Lcs::new(b"", b"abc").len(), 0);
        assert_eq!(Lcs::new(b"abc", b"").subsequence(), b"");
        assert_eq!(length(b"", b""), 0);
    }
}
