//! What was fetched from other nodes, on its way into a workspace: of which moment it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use command::effects;
use engine::Workspace;
use txn::{Lock, NodeId};

use super::coordinator::Block;
use super::wire;
use crate::conn::Conn;
use crate::session::Aside;
use crate::worker::Worker;

/// How far clocks of nodes may be apart, in milliseconds: what runs on keys of several nodes has one time, that of the latest of them.
const APART_MAX: u64 = 60_000;
const APART: &str = "ERR the clocks of nodes of the cluster are more than a minute apart: nothing was done";
const WRONG: &str = "ERR a node of the cluster has said what cannot be";
/// Why a transaction is over.
const TOO_MUCH: &str = "it has looked at more than 16 MB";

/// Why nothing runs on what was fetched.
pub(super) enum Unusable {
    /// By the clock of one node something is there whose time has come by that of another: it will have come by both.
    Untimely,
    /// What the client is told.
    Wrong(String),
}

impl From<&str> for Unusable {
    fn from(text: &str) -> Self {
        Unusable::Wrong(text.into())
    }
}

impl Worker {
    /// Puts what was fetched into a workspace. The time of what runs there, and what it runs with.
    pub(super) fn fill_workspace(
        &mut self,
        conn: &mut Conn,
        block: &mut Block,
        workspace: &mut Workspace,
        found: &[(NodeId, Arc<[u8]>)],
    ) -> Result<(u64, Aside), Unusable> {
        let Some(fetching) = block.fetching.as_deref_mut() else { return Err(WRONG.into()) };
        let waits = |id: usize| self.node.table.get(id).spec.has(command::flags::BLOCKING);
        let patient =
            block.alone && !fetching.is_interactive() && block.multi.queue.iter().all(|queued| waits(queued.command));
        fetching.patient = patient.then(BTreeMap::new);
        let clock = self.node.clock.unix_ms();
        let mut of_nodes = Vec::with_capacity(found.len());
        for (node, found) in found {
            let (there, keys) = wire::found(found).map_err(|_| WRONG)?;
            // It has answered after it was asked, and before this.
            if there > clock + APART_MAX || there + APART_MAX < fetching.asked_at {
                let ahead_ms = there.wrapping_sub(clock) as i64;
                tracing::warn!(node = node.0, ahead_ms, "the clock of another node is far from that of this one");
                return Err(APART.into());
            }
            of_nodes.push((*node, there, keys));
        }
        // Nobody may see a key that another has seen to be gone.
        let latest = of_nodes.iter().map(|(_, there, _)| *there).max();
        let mut now = latest.unwrap_or(self.engine.now());
        let transaction = conn.session.transaction.as_deref_mut().filter(|_| fetching.is_interactive());
        if let Some(transaction) = transaction.as_deref() {
            // Nor one that it has itself. Its time goes on as the clocks of those who were asked, whatever that of this node says.
            let goes_on = clock.saturating_add_signed(transaction.lead);
            now = latest.unwrap_or(goes_on).max(transaction.now);
        }
        let tunables = self.engine.tunables().clone();
        workspace.begin(now, &tunables);
        if let Some(transaction) = transaction {
            for (node, there, keys) in &of_nodes {
                let of = |lock: &&Lock| fetching.owner_of(lock.place()) == Some(*node);
                let asked: Vec<Lock> = fetching.asked.iter().filter(of).cloned().collect();
                if !transaction.note_found(&asked, *there, keys) {
                    transaction.end(TOO_MUCH);
                    return Err(Unusable::Wrong(format!("ABORTED The transaction was rolled back: {TOO_MUCH}")));
                }
            }
            for lock in fetching.parts.iter().flat_map(|part| part.locks.iter()) {
                let seen = transaction.keys.get_mut(&(lock.db, lock.key.clone())).ok_or(WRONG)?;
                workspace.put(&seen.image).map_err(|_| WRONG)?;
                let fetched = seen.fetched.take();
                if let Some(there) = fetched.filter(|_| seen.version != 0) {
                    seen.ends = workspace.ends(lock.db, &lock.key, there);
                }
                match fetched {
                    _ if seen.ends.iter().flatten().all(|ends| now <= *ends) => {}
                    Some(_) => return Err(Unusable::Untimely),
                    None => seen.doubt(),
                }
            }
            if latest.is_some() {
                transaction.lead = now.wrapping_sub(clock) as i64;
            }
            transaction.now = now;
        } else {
            for (_, there, keys) in &of_nodes {
                for (version, image) in keys {
                    workspace.put(image).map_err(|_| WRONG)?;
                    let Some(Ok(effect)) = effects::decode(image).next() else { continue };
                    // Whoever asks its owner alone is told by that one's clock.
                    let is_there = *version != 0 && *there < now;
                    if is_there
                        && workspace.ends(effect.db, effect.key, *there).into_iter().flatten().any(|ends| ends < now)
                    {
                        return Err(Unusable::Untimely);
                    }
                    if let Some(versions) = &mut fetching.patient {
                        versions.insert((effect.db, effect.key.into()), *version);
                    }
                }
            }
        }
        workspace.end();
        let locks = fetching.parts.iter().flat_map(|part| part.locks.iter());
        let keys = locks.map(|lock| ((lock.db, lock.key.clone()), lock.mode)).collect();
        let aside = Aside { keys, ..Aside::default() };
        fetching.told = None;
        Ok((now, aside))
    }

    /// What was found is of no one moment: it is fetched again.
    pub(super) fn fetch_later(&mut self, which: (u64, u32)) {
        let (now, mut events) = (self.tx_now(), Vec::new());
        if let Some(coordinator) = self.peers.as_deref_mut().and_then(|peers| peers.tx.coordinator.as_mut()) {
            // If the attempt is void by now, there will be another.
            coordinator.later(now, which, &mut events);
        }
        self.tx_events(events);
    }
}
