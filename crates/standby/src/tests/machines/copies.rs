//! The metadata.

use quorum::{Cut, Term};

use super::{counted, owned, process, term};
use crate::{Change, Copies, Part, Process, Refusal};

fn count(by: Process, of: u32, standby: Process, covered: u64, floor: u64) -> Change {
    Change::Count { term: term(of), by, standby, covered: Cut(covered), floor: Cut(floor) }
}

fn flags(copies: &Copies, node: u32) -> Option<(u64, bool, bool)> {
    copies.standby(crate::NodeNumber(node)).map(|of| (of.life, of.is_pinned, of.is_electable))
}

#[test]
fn a_standby_is_counted_only_with_a_pin_and_the_owners_word_s4() {
    let (mut copies, owner, standby) = (owned(), process(1, 1), process(2, 1));
    assert_eq!(copies.apply(count(owner, 1, standby, 10, 5)), Err(Refusal::NotPinned));
    assert_eq!(copies.apply(Change::Pin { standby: owner }), Err(Refusal::IsOwner));
    copies.apply(Change::Pin { standby }).expect("a pin");
    assert_eq!(flags(&copies, 2), Some((1, true, false)));
    assert_eq!(copies.apply(count(owner, 1, standby, 10, 11)), Err(Refusal::IsCut));
    assert_eq!(copies.apply(count(standby, 1, standby, 10, 5)), Err(Refusal::NotOwner), "its own word");
    assert_eq!(copies.apply(count(owner, 2, standby, 10, 5)), Err(Refusal::OtherTerm(term(1))));
    assert_eq!(copies.apply(Change::TakeOver { known: term(1), to: standby, rests_ms: 0 }), Err(Refusal::NotElectable));
    copies.apply(count(owner, 1, standby, 10, 10)).expect("a count");
    assert_eq!(flags(&copies, 2), Some((1, true, true)));
}

#[test]
fn a_standby_that_was_given_up_is_pinned_in_another_life_s4() {
    let (mut copies, owner, standby) = (counted(), process(1, 1), process(2, 1));
    copies.apply(Change::GiveUp { term: term(1), by: owner, standby }).expect("it is given up");
    assert_eq!(flags(&copies, 2), Some((1, false, false)));
    assert_eq!(copies.apply(count(owner, 1, standby, 10, 5)), Err(Refusal::NotPinned), "a word from before");
    assert_eq!(copies.apply(Change::Pin { standby }), Err(Refusal::EarlierLife(1)));
    copies.apply(Change::Pin { standby: process(2, 2) }).expect("another life");
    assert_eq!(copies.apply(count(owner, 1, standby, 10, 5)), Err(Refusal::EarlierLife(2)));
    copies.apply(count(owner, 1, process(2, 2), 20, 15)).expect("a count");
    // It begins anew by itself: nothing counts it before its store has something again.
    copies.apply(Change::Pin { standby: process(2, 3) }).expect("another life");
    assert_eq!(flags(&copies, 2), Some((3, true, false)));
}

#[test]
fn a_term_is_given_once_and_the_owner_of_before_stays_pinned() {
    let mut copies = counted();
    copies
        .apply(Change::TakeOver { known: term(1), to: process(2, 4), rests_ms: 0 })
        .expect("a later life has the store");
    assert_eq!((copies.term(), copies.owner()), (term(5), process(2, 4)), "it is above the starts of the node");
    assert_eq!((flags(&copies, 1), flags(&copies, 2)), (Some((1, true, false)), None));
    let lead = |known, by, of_log, rests_ms| Change::Lead { known: term(known), by, of_log: term(of_log), rests_ms };
    let (owner, other) = (process(1, 1), process(3, 1));
    for late in [Change::TakeOver { known: term(1), to: other, rests_ms: 0 }, lead(1, owner, 0, 0)] {
        assert_eq!(copies.apply(late), Err(Refusal::OtherTerm(term(5))));
    }
    assert_eq!(copies.apply(lead(5, owner, 0, 0)), Err(Refusal::NotOwner));
    assert_eq!(copies.apply(lead(5, process(2, 3), 0, 0)), Err(Refusal::EarlierLife(4)));
    copies.apply(lead(5, process(2, 5), 0, 45)).expect("a start");
    assert_eq!(copies.rests_ms(), 45);
    assert_eq!((copies.term(), copies.owner()), (term(6), process(2, 5)));
    copies.apply(lead(6, process(2, 5), 8, 0)).expect("its own log");
    assert_eq!(copies.term(), term(9), "it is above the node's own log");
    let last = Term::MAX.get();
    assert_eq!(copies.apply(lead(9, process(2, 5), last, 0)), Err(Refusal::NoTerm));
    assert_eq!(copies.apply(lead(9, process(2, u64::MAX), 0, 0)), Err(Refusal::NoTerm));
    assert_eq!(flags(&copies, 3), Some((1, true, true)), "a count outlives terms: the pin was never gone");
}

#[test]
fn a_standby_that_was_removed_comes_back_by_a_pin_alone() {
    let (mut copies, owner) = (counted(), process(1, 1));
    assert_eq!(copies.apply(Change::Remove { standby: owner }), Err(Refusal::IsOwner));
    assert_eq!(copies.apply(Change::Remove { standby: process(4, 1) }), Err(Refusal::NotPinned));
    // It follows in a later life, which was not counted.
    copies.apply(Change::Remove { standby: process(2, 3) }).expect("it is removed");
    assert_eq!((flags(&copies, 2), copies.is_electable(crate::NodeNumber(2))), (Some((3, false, false)), false));
    for life in [3, 4] {
        assert_eq!(copies.part_of(process(2, life), true), Part::Removed);
    }
    assert_eq!(copies.apply(count(owner, 1, process(2, 3), 10, 5)), Err(Refusal::NotPinned), "a word from before");
    assert_eq!(copies.apply(Change::Remove { standby: process(2, 2) }), Err(Refusal::EarlierLife(3)));
    assert_eq!(copies.apply(Change::Pin { standby: process(2, 3) }), Err(Refusal::EarlierLife(3)), "it was given up");
    copies.apply(Change::Pin { standby: process(2, 4) }).expect("another life");
    assert_eq!((flags(&copies, 2), copies.part_of(process(2, 4), false)), (Some((4, true, false)), Part::Waits));
}

#[test]
fn a_process_finds_its_part() {
    let mut copies = counted();
    let part = |copies: &Copies, node, life, has_store| copies.part_of(process(node, life), has_store);
    assert_eq!((part(&copies, 1, 1, true), part(&copies, 1, 2, true)), (Part::Owns, Part::Leads));
    assert_eq!((part(&copies, 2, 1, true), part(&copies, 2, 3, true)), (Part::Follows, Part::Follows));
    assert_eq!((part(&copies, 2, 3, false), part(&copies, 2, 1, false)), (Part::Pins, Part::StartsAgain));
    assert_eq!(part(&copies, 4, 1, true), Part::Pins);
    copies.apply(Change::Pin { standby: process(2, 3) }).expect("it begins anew");
    assert_eq!((part(&copies, 2, 3, false), part(&copies, 2, 3, true)), (Part::Waits, Part::Follows));
    let give_up = Change::GiveUp { term: term(1), by: process(1, 1), standby: process(2, 3) };
    copies.apply(give_up).expect("it is given up");
    assert_eq!((part(&copies, 2, 3, true), part(&copies, 2, 4, true)), (Part::StartsAgain, Part::Pins));
}
