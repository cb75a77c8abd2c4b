//! When no fault is left, every client gets its answers and all locks are given back.

use crate::invariants::Violation;
use crate::nodes::clients::Client;
use crate::nodes::member::Member;

/// The nodes and clients that do not come to rest.
pub fn unrest(members: &[Member], clients: &[Client]) -> Violation {
    let waiting: Vec<usize> = (0..clients.len()).filter(|client| !clients[*client].is_quiet()).collect();
    let nodes = members.iter().enumerate().map(|(number, member)| {
        let machine = &member.host.machine;
        let transactions = &machine.node.engine.transactions;
        let outcomes = transactions.outcomes();
        let prepared: Vec<_> = outcomes.prepared().map(|prepared| prepared.tx).collect();
        format!(
            "node {number}: off: {}, locks: {}, prepared: {prepared:?}, committed: {}, log: {:?}",
            member.is_off,
            transactions.any(),
            member.host.is_committed(),
            machine.log.state()
        )
    });
    let nodes = nodes.collect::<Vec<_>>().join("; ");
    Violation { rule: "locks", what: format!("no rest: clients {waiting:?} are not answered; {nodes}") }
}
