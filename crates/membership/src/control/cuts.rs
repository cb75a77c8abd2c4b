//! A log that is to be read without a store must begin at its beginning: checkpoints may have cut it.

use quorum::{Extent, ShardId};

/// Checks that a shard's log is whole, whichever `needed` of these copies its new owner reads. Each copy has its place, and
/// what it has of each stream; nothing of one that does not say.
///
/// # Errors
/// The copies that begin behind a checkpoint, and the ways out, in words.
pub fn check(shard: ShardId, known: &[(String, Vec<Extent>)], needed: usize) -> Result<(), String> {
    let streams = known.iter().map(|(_, extents)| extents.len()).max().unwrap_or(0);
    if !(0..streams).any(|stream| is_cut(known, stream, needed)) {
        return Ok(());
    }
    let begins = |(place, extents): &(String, Vec<Extent>)| {
        let blocks =
            extents.iter().filter(|extent| lacks_records(extent)).map(|extent| extent.base.id.sequence).max()?;
        Some(format!("{place} (behind block {blocks})"))
    };
    let cut: Vec<String> = known.iter().filter_map(begins).collect();
    Err(format!(
        "nothing was changed: checkpoints have cut the log of shard {}, and what they cover is in the lost owner's store alone. The log begins later at {}. Start the owner again with its dir; if it is lost for good, take it out with `holdfast cluster forget --lose-data`, and import the last export",
        shard.0,
        cut.join(", ")
    ))
}

/// True if some choice of `needed` copies takes a log that was cut: of each choice the highest log is taken, and of equal
/// ones the one that begins first (rule G4).
fn is_cut(known: &[(String, Vec<Extent>)], stream: usize, needed: usize) -> bool {
    let of_stream: Vec<Extent> = known.iter().filter_map(|(_, extents)| extents.get(stream).copied()).collect();
    let rank = |extent: &Extent| (extent.last, std::cmp::Reverse(extent.base.id.sequence));
    // One that does not say may be any.
    let silent = known.len() - of_stream.len();
    let is_taken = |it: &Extent| of_stream.iter().filter(|other| rank(other) <= rank(it)).count() + silent >= needed;
    of_stream.iter().any(|it| lacks_records(it) && is_taken(it))
}

/// True if records were cut, and not only blocks without any: a log that was empty gives these up, too.
fn lacks_records(extent: &Extent) -> bool {
    extent.base.cut.0 > 0
}

#[cfg(test)]
mod tests {
    use quorum::{Base, BlockId, Cut, Term};

    use super::*;

    fn extent(base: u64, last: u64) -> Extent {
        let id = |sequence| BlockId { term: Term::new(1).unwrap(), sequence };
        Extent { base: Base { id: id(base), cut: Cut(base) }, last: id(last) }
    }

    /// `copies`: what each has of its only stream.
    fn checked(copies: &[(u64, u64)], needed: usize) -> Result<(), String> {
        let copies = (1..).zip(copies).map(|(n, (base, last))| (format!("h:{n}"), vec![extent(*base, *last)]));
        check(ShardId(7), &copies.collect::<Vec<_>>(), needed)
    }

    #[test]
    fn a_log_that_may_be_read_behind_a_checkpoint_is_refused() {
        assert_eq!(checked(&[(0, 9), (0, 9)], 2), Ok(()));
        // A copy that had not heard of the cut, and has all: it is taken.
        assert_eq!(checked(&[(0, 9), (5, 9)], 2), Ok(()));
        assert_eq!(checked(&[(0, 9), (5, 8)], 2), Ok(()));
        for lost in [[(5, 9), (5, 9)], [(0, 8), (5, 9)]] {
            let why = checked(&lost, 2).unwrap_err();
            assert!(why.contains("shard 7") && why.contains("h:2 (behind block 5)"), "{why}");
            assert_eq!(why.contains("h:1"), lost[0].0 > 0, "{why}");
        }
        // Blocks without records are no loss.
        let mut empty = extent(5, 9);
        empty.base.cut = Cut(0);
        assert_eq!(check(ShardId(7), &[("h:1".to_owned(), vec![empty]), ("h:2".to_owned(), vec![empty])], 2), Ok(()));
        // Of five, three are read: perhaps not the only one that has all.
        assert!(checked(&[(0, 9), (5, 9), (5, 9), (5, 9)], 3).is_err());
        assert_eq!(checked(&[(0, 9), (0, 9), (5, 9), (5, 9)], 3), Ok(()));
    }

    #[test]
    fn every_stream_is_looked_at_and_a_copy_of_an_earlier_build_says_nothing() {
        let both = |second| vec![("h:1".to_owned(), vec![extent(0, 9), second]), ("h:2".to_owned(), Vec::new())];
        assert_eq!(check(ShardId(7), &both(extent(0, 9)), 2), Ok(()));
        assert!(check(ShardId(7), &both(extent(5, 9)), 2).is_err());
        assert_eq!(check(ShardId(7), &[("h:1".to_owned(), Vec::new())], 1), Ok(()));
    }
}
