//! The store's description of itself is one value, with lengths of 32 bits. A longer one is refused before anything of
//! the round counts.

use std::sync::Arc;

use txn::{Prepared, Record, Stamp, TxnId};

use super::model::Machine;
use crate::Outcomes;
use crate::checkpoint::round::Planted;
use crate::checkpoint::{Step, header};

#[test]
fn a_round_with_more_outcomes_than_a_value_can_have_is_refused_and_can_be_made_later() {
    let mut machine = Machine::new(1, Planted::None);
    (0..20).for_each(|_| machine.hand.act());
    machine.checkpoint();
    let before = header(&machine.store.crashed()).expect("a store that can be read");
    let mut outcomes = Outcomes::default();
    for sequence in 0..2 {
        let tx = TxnId { sequence, ..TxnId::default() };
        let (members, locks, effects) = (Arc::from([]), Arc::from([]), vec![1; 600 << 10].into());
        outcomes.note(Record::Prepare(Arc::new(Prepared { tx, stamp: Stamp::default(), members, locks, effects })));
    }
    let transactions = &machine.hand.engine.shared.clone().transactions;
    transactions.restore(outcomes);
    (0..20).for_each(|_| machine.hand.act());
    machine.take();
    machine.log.committed = machine.log.left;
    let cut = machine.log.cut;
    machine.checkpointer.begin(&mut machine.log);
    let mut step = || machine.checkpointer.step(&mut machine.log);
    let refused = std::iter::repeat_with(&mut step).take(1000).find_map(Result::err).map(|error| error.to_string());
    assert!(refused.as_ref().is_some_and(|text| text.contains("2 transactions over nodes")), "{refused:?}");
    assert!(step().is_err(), "again, as nothing has changed");
    assert_eq!(header(&machine.store.crashed()).expect("a store that can be read"), before);
    assert_eq!(machine.log.cut, cut, "the log has what the store does not");
    // Once they are settled, the round goes on.
    transactions.restore(Outcomes::default());
    while machine.checkpointer.step(&mut machine.log).expect("nothing is too long") != Step::Done {}
    assert_ne!(header(&machine.store.crashed()).expect("a store that can be read"), before);
    machine.counts_are_right().expect("they are");
}
