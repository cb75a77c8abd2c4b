//! Waits of more than a minute for a lock, for a key of the store, or for a claim. They are counted, and logged with
//! the thing that they wait for.
//!
//! Each such wait is ended by another event: an outcome, a reply, a thread that reads the store. A wait that nothing
//! will end shows here first. So do claims of attempts that are over, which nothing would give back.

use std::sync::atomic::Ordering::Relaxed;

use clocks::BootMs;
use engine::{Holder, InTheWay};
use txn::TxnId;

use crate::figures::stats::add;
use crate::worker::waiting::{LONG_MS, Since};
use crate::worker::{Token, Worker};

/// Between two looks, in milliseconds.
const LOOK_MS: u64 = 5_000;

impl Worker {
    fn boot_ms(&self) -> BootMs {
        self.node.clock.boot_ns().ms()
    }

    /// Notes that a connection or a task waits for a lock, or for a key of the store; perhaps it has for long.
    pub(crate) fn notes_wait(&mut self, token: Token) {
        let since = Since { at: self.boot_ms(), is_told: false };
        self.long_waits.waiting.entry(token).or_insert(since);
    }

    /// Notes that the command of a connection has ended, in any way: it claims nothing.
    pub(crate) fn forget_claims(&mut self, token: Token) {
        self.engine.forget_claims(token);
        self.long_waits.end(token);
    }

    /// Looks now and then for waits that last too long.
    pub(crate) fn look_at_long_waits(&mut self) {
        let now = self.boot_ms();
        if now < self.long_waits.due {
            return;
        }
        self.long_waits.due = now + LOOK_MS;
        let new = self.long_waits.waiting.iter_mut().filter_map(|(token, since)| since.is_long(now).then_some(*token));
        let new: Vec<Token> = new.collect();
        add(&self.stats.waited_long, new.len() as u64);
        new.into_iter().for_each(|token| self.tell_of_long_wait(token));
        let long = self.long_waits.waiting.values().filter(|since| since.is_told).count();
        self.stats.waits_long.store(long as u64, Relaxed);
        if self.index == 0 {
            self.look_for_ownerless(now);
        }
    }

    fn tell_of_long_wait(&mut self, token: Token) {
        let seconds = LONG_MS / 1000;
        if let Some((tx, in_the_way)) = self.transactions().in_the_way_of_task(token) {
            let (part, why) = (self.transaction(tx), self.explained(&in_the_way));
            tracing::warn!(cause = "part", "the part here of {part}, has waited for more than {seconds} s for {why}");
            return;
        }
        let Some(conn) = self.conn(token) else { return };
        let client = conn.session.client.clone();
        let in_the_way = self.engine.in_the_way_of_command(token);
        let why = self.explained(&in_the_way);
        tracing::warn!(
            cause = "command",
            client = client.id,
            address = client.peer.address,
            "a command has waited for more than {seconds} s for {why}"
        );
    }

    fn explained(&self, in_the_way: &InTheWay) -> String {
        match in_the_way {
            InTheWay::Lock { db, key, holder } => {
                let key = key.escape_ascii();
                let holder = match holder {
                    Holder::Attempt(tx) => self.transaction(*tx),
                    Holder::Command(worker, token) => format!("the command {token:x} of worker {worker}"),
                };
                format!("the lock of key '{key}' in database {db}, which {holder} has or waits for")
            }
            InTheWay::Attempts(tx) => {
                format!("the end of transactions over nodes, the first of which is {}", self.transaction(*tx))
            }
            InTheWay::Latch => "a latch".to_owned(),
            InTheWay::Store => "a key that is read from the store".to_owned(),
        }
    }

    /// An attempt and its place, as people read it.
    fn transaction(&self, tx: TxnId) -> String {
        let (node, life, lane) = (tx.origin.life.node.0, tx.origin.life.incarnation, tx.origin.lane);
        let stage = self
            .node
            .cluster()
            .and_then(|cluster| cluster.parts.stage(tx))
            .unwrap_or("is over here, so that its claim has no owner");
        format!("transaction {}.{} of node {node}, life {life}, worker {lane}, which {stage}", tx.sequence, tx.attempt)
    }

    /// Looks for claims of attempts that are over. Such a claim may wait for a latch that a script has, but not for
    /// long.
    fn look_for_ownerless(&mut self, now: BootMs) {
        let open = self.node.engine.transactions.open_attempts();
        let is_over = |tx: &TxnId| self.node.cluster().is_some_and(|cluster| cluster.parts.is_over(*tx));
        let over: Vec<TxnId> = open.into_iter().filter(is_over).collect();
        let known = &mut self.long_waits.ownerless;
        known.retain(|tx, _| over.contains(tx));
        let fresh = Since { at: now, is_told: false };
        let is_new = |tx: &&TxnId| known.entry(**tx).or_insert(fresh).is_long(now);
        let new: Vec<TxnId> = over.iter().filter(is_new).copied().collect();
        let long = known.values().filter(|since| since.is_told).count();
        self.stats.ownerless.store(long as u64, Relaxed);
        for tx in new {
            let transaction = self.transaction(tx);
            tracing::error!(cause = "ownerless", "a claim of keys has no owner: {transaction}");
        }
    }
}
