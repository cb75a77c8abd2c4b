//! How well this process is, for its renewals (rule S13). An owner may be alive and of no use: then a standby that would be
//! of use gets the shard.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use clocks::BootMs;
use membership::control::Control;
use membership::meta::{Acceptor, Shard};
use membership::{AcceptorId, ShardId};
use node::{Clock, Node};
use redolog::{Lsn, State};
use standby::Health;

use super::super::{copies, group};
use super::lock;

/// A look at the workers counts for so many milliseconds at most: a process that was stopped has not looked.
const COUNTS_MS: u64 = 2_000;
/// After so many milliseconds without a committed record the acceptors are probed.
const QUIET_MS: u64 = 2_000;
/// Milliseconds between two probes of an acceptor.
const EVERY_MS: u64 = 2_000;
/// For so many milliseconds the answer to a probe counts.
const FRESH_MS: u64 = 5_000;
/// How long a connection to an acceptor, and its answer, may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The workers, as they were at the last look.
#[derive(Default)]
pub struct Pulse {
    turns: u64,
    looked: BootMs,
    stuck_ms: u64,
}

impl Pulse {
    /// Notes how many turns all workers have taken. Returns for how many milliseconds none has turned.
    fn look(&mut self, turns: u64, now: BootMs) -> u64 {
        let since = now.since(std::mem::replace(&mut self.looked, now)).min(COUNTS_MS);
        let is_alive = std::mem::replace(&mut self.turns, turns) != turns;
        self.stuck_ms = if is_alive { 0 } else { self.stuck_ms + since };
        self.stuck_ms
    }

    /// The health of an owner, and of a standby but for its probes. A worker that waits for nothing does not turn, so all
    /// are woken where none did. A worker whose script runs does turn.
    pub fn health(&mut self, node: &Node, follows: Option<ShardId>) -> Health {
        let stuck_ms = self.look(node.turns(), node.clock.boot_ns().ms());
        if stuck_ms > 0 {
            node.look_all();
        }
        let log = node.durable();
        let own = log.as_ref().map(|durable| durable.log());
        let has_failed = own.is_some_and(|log| log.own_loss().is_some() || matches!(log.state(), State::Failed(_)));
        let acceptor = follows.and_then(copies::of_shard);
        Health {
            stuck_ms,
            stalled_ms: log.as_ref().map_or(0, |durable| durable.stalled_ms()),
            reaches_majority: false,
            disk_failed: has_failed || acceptor.is_some_and(|acceptor| acceptor.figures().trouble.is_some()),
        }
    }
}

/// The last answer of an acceptor to a probe.
#[derive(Clone, Copy, Default)]
struct Probed {
    is_under_way: bool,
    at: Option<BootMs>,
}

/// A standby's own writes to the acceptors of its shard: they say whether it would be of use where the owner is not. As
/// long as records are committed nobody asks, and nothing is written.
#[derive(Default)]
pub struct Probes {
    of: Arc<Mutex<BTreeMap<AcceptorId, Probed>>>,
    applied: Lsn,
    quiet_since: BootMs,
    due: BootMs,
}

impl Probes {
    /// Begins the probes that are due. `applied`: the last record that is applied. `reaches_until` is the time up to which a
    /// majority counts as reached.
    pub fn look(
        &mut self,
        means: (&Arc<Control>, &Arc<dyn Clock>),
        shard: &Shard,
        applied: Lsn,
        reaches_until: &AtomicU64,
    ) {
        let now = means.1.boot_ns().ms();
        if std::mem::replace(&mut self.applied, applied) != applied || self.quiet_since == BootMs::ZERO {
            self.quiet_since = now;
            lock(&self.of).retain(|_, probed| probed.is_under_way);
        }
        let sets = || [Some(&shard.settled), shard.pending.as_ref()].into_iter().flatten();
        let until = sets().map(|set| reached_until(set, &lock(&self.of))).min().unwrap_or_default();
        reaches_until.store(until.0, SeqCst);
        if now < self.quiet_since + QUIET_MS || now < self.due {
            return;
        }
        self.due = now + EVERY_MS;
        for acceptor in sets().flatten() {
            let is_under_way =
                std::mem::replace(&mut lock(&self.of).entry(acceptor.id).or_default().is_under_way, true);
            if !is_under_way && let Err(why) = self.begin(means, shard.id, *acceptor) {
                tracing::debug!("an acceptor is not probed: {why}");
                lock(&self.of).remove(&acceptor.id);
            }
        }
    }

    fn begin(
        &self,
        (control, clock): (&Arc<Control>, &Arc<dyn Clock>),
        shard: ShardId,
        acceptor: Acceptor,
    ) -> std::io::Result<()> {
        let (of, control, clock) = (Arc::clone(&self.of), Arc::downgrade(control), Arc::clone(clock));
        let probe = move || {
            let began = clock.boot_ns().ms();
            let control = control.upgrade().ok_or_else(|| "the server stops".to_owned());
            let put = control.and_then(|control| put(&control, shard, acceptor));
            if let Err(why) = &put {
                tracing::debug!("an acceptor does not answer a probe: {why}");
            }
            let mut of = lock(&of);
            let probed = of.entry(acceptor.id).or_default();
            probed.is_under_way = false;
            probed.at = put.ok().map(|()| began).or(probed.at);
        };
        thread::Builder::new().name("standby-probe".into()).spawn(probe).map(drop)
    }
}

/// Has an acceptor put something on its disk.
fn put(control: &Control, shard: ShardId, acceptor: Acceptor) -> Result<(), String> {
    if let Some(own) = copies::of_shard(shard).filter(|own| own.id() == acceptor.id) {
        return own.probe().recv_timeout(PATIENCE).map_err(|_| "the own disk does not answer".to_owned());
    }
    let (tell, told) = channel();
    control.dial_log(group::member_with(&control.map(), acceptor), move |dialed| drop(tell.send(dialed)));
    let socket = told.recv_timeout(PATIENCE).map_err(|_| "no connection comes".to_owned())??;
    loggroup::probe(socket, acceptor.id)
}

/// Up to when a majority of a set counts as reached.
fn reached_until(set: &[Acceptor], of: &BTreeMap<AcceptorId, Probed>) -> BootMs {
    let mut at: Vec<BootMs> = set.iter().filter_map(|acceptor| of.get(&acceptor.id)?.at).collect();
    at.sort_unstable();
    at.reverse();
    at.get(set.len() / 2).map_or(BootMs::ZERO, |at| *at + FRESH_MS)
}

#[cfg(test)]
mod tests {
    use membership::NodeId;

    use super::*;

    #[test]
    fn a_process_that_was_stopped_has_not_looked() {
        let mut pulse = Pulse::default();
        let mut at = 1_000;
        let mut look = |turns: u64, later: u64| {
            at += later;
            pulse.look(turns, BootMs(at))
        };
        assert_eq!(look(7, 400), 0);
        assert_eq!((0..5).map(|_| look(7, 400)).collect::<Vec<_>>(), [400, 800, 1_200, 1_600, 2_000]);
        assert_eq!(look(7, 60_000), 4_000, "it stood still");
        assert_eq!(look(8, 400), 0);
        assert_eq!(look(8, 400), 400);
    }

    #[test]
    fn a_majority_has_to_have_answered() {
        let acceptor = |n: u8| Acceptor { id: AcceptorId([n; 16]), node: NodeId([n; 20]) };
        let set: Vec<Acceptor> = (1..=3).map(acceptor).collect();
        let answered = |of: &[(u8, u64)]| {
            let probed = |at: u64| Probed { is_under_way: false, at: Some(BootMs(at)) };
            of.iter().map(|(n, at)| (AcceptorId([*n; 16]), probed(*at))).collect::<BTreeMap<_, _>>()
        };
        assert_eq!(reached_until(&set, &answered(&[])), BootMs::ZERO);
        assert_eq!(reached_until(&set, &answered(&[(1, 10), (9, 20)])), BootMs::ZERO, "one of three, and a stranger");
        assert_eq!(reached_until(&set, &answered(&[(1, 10), (3, 30)])), BootMs(10 + FRESH_MS));
        assert_eq!(reached_until(&set, &answered(&[(1, 10), (2, 20), (3, 30)])), BootMs(20 + FRESH_MS));
    }
}
