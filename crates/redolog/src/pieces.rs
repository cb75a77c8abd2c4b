//! How records are divided into blocks.

/// The piece of several records that one block holds.
pub(crate) struct Piece {
    /// Where it ends.
    pub(crate) to: usize,
    /// The begin and the end of the record of which it is a part.
    pub(crate) part_of: Option<(usize, usize)>,
}

impl Piece {
    /// The piece from `from` on, for records that end here and blocks of so many bytes. `None`: there is nothing more.
    pub(crate) fn next(ends: &[usize], from: usize, block: usize) -> Option<Piece> {
        let index = ends.partition_point(|end| *end <= from);
        let (begin, end) = (index.checked_sub(1).map_or(0, |last| ends[last]), *ends.get(index)?);
        if end - begin > block {
            return Some(Piece { to: end.min(from + block), part_of: Some((begin, end)) });
        }
        // As many whole records as fit.
        let count = ends[index..].partition_point(|end| end - from <= block);
        Some(Piece { to: ends[index + count - 1], part_of: None })
    }
}
