//! Names of blocks.

use crate::{Base, BlockId, Cut, History, Term};

fn id(term: u32, sequence: u64) -> BlockId {
    BlockId { term: Term::new(term).expect("a term"), sequence }
}

/// The history of blocks of these terms, from the first.
fn of(terms: &[u32]) -> History {
    let mut history = History::default();
    for (term, sequence) in terms.iter().zip(1..) {
        assert!(history.push(id(*term, sequence)));
    }
    history
}

fn base(term: u32, sequence: u64) -> Base {
    Base { id: id(term, sequence), cut: Cut(sequence) }
}

#[test]
fn names_are_found() {
    let mut history = of(&[1, 1, 3, 3, 3, 4]);
    assert_eq!(history.runs().len(), 3);
    assert_eq!(history.at(0), Some(BlockId::default()));
    assert_eq!(history.at(2), Some(id(1, 2)));
    assert_eq!(history.at(3), Some(id(3, 3)));
    assert_eq!(history.at(7), None);
    assert!(!history.push(id(3, 7)), "terms never fall");
    assert!(!history.push(id(4, 8)), "no block is missing");
    history.keep(4);
    assert_eq!(history.last(), id(3, 4));
    history.keep(0);
    assert_eq!(history, History::default());
}

#[test]
fn a_history_begins_anywhere() {
    for at in 1..=6 {
        let terms = [1, 1, 3, 3, 3, 4];
        let mut history = of(&terms);
        assert!(!history.begin_at(base(2, at)), "another block");
        assert!(history.begin_at(base(terms[at as usize - 1], at)));
        assert_eq!(history.last(), id(4, 6));
        for sequence in at..=6 {
            assert_eq!(history.at(sequence), Some(id(terms[sequence as usize - 1], sequence)));
        }
        assert_eq!(history.at(at - 1), None);
        assert_eq!(History::from_runs(history.base(), history.runs().to_vec(), 6), Some(history));
    }
}

/// Against a search block by block.
#[test]
fn histories_part_where_the_last_common_block_is() {
    let all = [&[1, 1, 1][..], &[1, 1, 2, 2], &[1, 1, 2, 2, 5], &[1, 1, 1, 1, 3, 3], &[3, 3], &[], &[1, 1, 1, 4, 4]];
    for one in all {
        for other in all {
            let same = one.iter().zip(other).take_while(|(a, b)| a == b).count() as u64;
            assert_eq!(of(one).common(&of(other)), Some(same), "{one:?} {other:?}");
        }
    }
}

#[test]
fn histories_that_do_not_meet() {
    let mut later = of(&[1, 1, 3, 3]);
    assert!(later.begin_at(base(3, 3)));
    assert_eq!(later.common(&of(&[1, 1, 2, 2, 2])), None);
    assert_eq!(of(&[1, 1, 2, 2, 2]).common(&later), None);
    assert_eq!(of(&[1]).common(&later), None);
    assert_eq!(of(&[1, 1, 3]).common(&later), Some(3));
}
