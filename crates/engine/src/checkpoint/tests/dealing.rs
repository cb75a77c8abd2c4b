//! Records as they are dealt to the threads that apply them.

use keyspace::Keyspace;
use txn::TxnId;

use super::model::{DATABASES, Machine, NOW, digest, digest_of, tunables};
use crate::Outcomes;
use crate::checkpoint::round::Planted;
use crate::checkpoint::{Dealer, Due, Replay, restore};

/// A record may do more than a batch has room for, and a batch must not grow with it: the record is handed over in the
/// middle.
#[test]
fn a_batch_does_not_grow_with_a_record() {
    const KEYS: usize = 23;
    let mut machine = Machine::new(1, Planted::None);
    let names: Vec<String> = (0..KEYS).map(|n| format!("{{tag}}{n}")).collect();
    let line: Vec<&str> = ["mset"].into_iter().chain(names.iter().flat_map(|name| [name.as_str(), "value"])).collect();
    let reply = machine.hand.run(0, &line);
    assert_eq!(reply, "+OK\r\n");
    machine.take();
    let (lsn, effects) = machine.log.records.last().expect("a record").clone();
    let keyspace = Keyspace::new(2, DATABASES, 7);
    let limits = tunables().limits.clone();
    let (mut dealer, mut hands) = Dealer::new(&keyspace, keyspace.local(0), limits, None, NOW, 1);
    let (mut hand, mut local) = (hands.remove(0), keyspace.local(1));
    let mut handed_over = 0;
    let dealt = dealer.deal(lsn, &effects, |due, _, batches| {
        assert_eq!(due, Due::Of(0));
        assert!(batches[0].is_full());
        handed_over += 1;
        hand.apply(&mut local, &mut batches[0])
    });
    dealt.expect("our own record");
    assert!(!dealer.batches()[0].is_full(), "there is no more than the rest in it");
    hand.apply(&mut local, &mut dealer.batches()[0]).expect("our own record");
    let figures = dealer.finish([&hand]);
    assert!(handed_over > 1 && figures.applied == KEYS as u64, "{handed_over} batches and a rest, {figures:?}");
    drop((hand, local));
    assert!(digest(&keyspace, 1) == digest_of(&[(lsn, effects)], &tunables()));
}

/// A checkpoint itself has the transactions known when it was made. The log may still have a record of one that had
/// been forgotten by then.
#[test]
fn records_of_transactions_that_a_checkpoint_covers_are_not_noted() {
    let mut machine = Machine::new(1, Planted::None);
    let tx = |sequence| TxnId { sequence, ..TxnId::default() };
    let transactions = &machine.hand.engine.shared.clone().transactions;
    assert!(machine.hand.engine.refuse(tx(1), 0).is_ok(), "nobody else is there");
    transactions.restore(Outcomes::default());
    machine.checkpoint();
    assert!(machine.hand.engine.refuse(tx(2), 0).is_ok(), "nobody else is there");
    machine.take();
    let [(covered, _), (later, _)] = &machine.log.records[..] else { panic!("two records") };
    assert!((*covered..*later).contains(&machine.log.cut));
    let (store, keyspace) = (machine.store.crashed(), Keyspace::new(2, DATABASES, 7));
    let mut local = keyspace.local(0);
    let restored = restore(&store, &keyspace, &mut local).expect("a store that can be read").expect("a checkpoint");
    let mut replay = Replay::new(&keyspace, local, tunables().limits.clone(), Some((&restored, &store)), NOW);
    for (lsn, effects) in &machine.log.records {
        replay.record(*lsn, effects).expect("our own record");
    }
    let replayed = replay.finish().expect("our own records");
    let noted: Vec<TxnId> = replayed.outcomes.records().map(txn::Record::tx).collect();
    assert_eq!((noted, replayed.records), (vec![tx(2)], 1));
}
