//! What a block costs: a script may use as many undeclared keys as there are slots.

use std::sync::Arc;

use command::Tunables;
use keyspace::Keyspace;
use resp::{Batch, Protocol};

use crate::testing::row;
use crate::{Begin, Call, Engine, Shared};

#[test]
fn a_block_widens_over_most_slots_in_short_steps() {
    let mut engine = Engine::new(Arc::new(Shared::new(Keyspace::new(1, 1, 7))), 0, 1);
    engine.configure(Arc::new(Tunables { max_string: 1 << 20, databases: 1, ..Tunables::default() }), 0);
    engine.begin_turn(1_000_000_000_000);
    let mut out = Vec::new();
    let mut block = engine.begin_block(&Begin { may_widen: true, ..Begin::default() }, 0).ok().flatten().expect("free");
    let mut number = 0;
    while block.held().slots().len() < 12_000 {
        number += 1;
        let key = format!("k{number}");
        for words in [&["set", &key, "v"], &["mget", &key, "k1"]] {
            let mut batch = Batch::new();
            assert!(batch.push_copy(words.iter().map(|word| word.as_bytes())));
            let args = batch.args(0, &[]);
            let call = Call {
                row: row(words[0]),
                args,
                first: None,
                db: 0,
                protocol: Protocol::Resp2,
                token: 0,
                seat: None,
                caller: crate::Caller::default(),
            };
            assert!(engine.widen_block(&mut block, &call).is_ok(), "nobody else is there");
            engine.run_in_block(&mut block, &call, &mut out);
        }
    }
    assert!(block.held().slots().is_sorted());
    let (first, last) = (block.held().slots()[0], engine.last_version);
    engine.end_block(block, 0);
    let held = engine.acquire_one(first).expect("given back");
    assert!(engine.shared.keyspace.last_version(&held) >= last, "later writers come after all of the block");
    engine.release(held);
}
