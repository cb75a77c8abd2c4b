//! The owner's part: its log keeps what the copies of its standbys lack, and it says which of these may take over.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::pace::Pace;
use clocks::BootMs;
use membership::control::{Following, HeardStandby};
use node::Node;
use node::config::Settings;
use quorum::Cut;
use redolog::Lsn;
use standby::{Behind, Bounds, Change, Copies, Floor, GivenUp, Lags, NodeNumber, Process};

/// The standbys of the shard that this process owns.
pub struct Standbys {
    state: Mutex<State>,
}

struct State {
    /// The end of what the log has given up, or may have.
    given: Cut,
    /// None: the metadata have not been heard in this term.
    floor: Option<Floor>,
    lags: Lags,
    /// The standbys that were heard last.
    here: BTreeMap<NodeNumber, Process>,
    pace: Pace,
    /// Writers are slowed down.
    is_slowing: bool,
}

impl Standbys {
    /// Of a log that begins here: the highest begin of all streams.
    pub fn new(begins: Lsn) -> Arc<Self> {
        let state = State {
            given: Cut(begins.0),
            floor: None,
            lags: Lags::new(Bounds::default()),
            here: BTreeMap::new(),
            pace: Pace::default(),
            is_slowing: false,
        };
        Arc::new(Self { state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For each stream, the LSN up to which the log may be given up, if the own store covers `covered` (rule G12).
    pub fn floor(&self, covered: &[Lsn]) -> Vec<Lsn> {
        let mut state = self.lock();
        let State { given, floor, .. } = &mut *state;
        // Before the metadata are heard there may be standbys of which nothing is known.
        if let Some(floor) = floor {
            floor.own(Cut(covered.iter().max().copied().unwrap_or_default().0));
            *given = floor.get().max(*given);
        }
        let upto = *given;
        covered.iter().map(|covered| Lsn(covered.0.min(upto.0))).collect()
    }

    /// Hears the metadata, and what standbys have. Returns the changes that are to be proposed. `now`: by a clock that goes on
    /// while the process stands still.
    pub fn hear(&self, copies: &Copies, heard: &[HeardStandby], now: BootMs) -> Vec<Change> {
        let mut state = self.lock();
        let State { given, floor, lags, here, .. } = &mut *state;
        let floor = match floor {
            Some(floor) if floor.term() == copies.term() => floor,
            _ => floor.insert(Floor::new(*given, copies)),
        };
        floor.heard(copies);
        lags.heard(copies, now);
        for HeardStandby { process, following, .. } in heard {
            floor.covered(*process, following.covered);
            lags.report(*process, behind(following), now);
        }
        let heard: BTreeMap<_, _> = heard.iter().map(|heard| (heard.process.node, heard.process)).collect();
        for (node, lost) in std::mem::replace(here, heard.clone()) {
            if !heard.contains_key(&node) {
                lags.lost(lost, now);
            }
        }
        for (node, why) in lags.given_up(now).0 {
            let why = match why {
                GivenUp::Stuck => "it applies next to nothing",
                GivenUp::Away => "it is away for too long",
            };
            tracing::warn!(
                cause = "standbys",
                "The log does not wait for the standby at node {} any more: {why}",
                node.0
            );
        }
        let nodes = || copies.standbys().map(|(node, _)| node);
        let counted = nodes().filter_map(|node| floor.count(node));
        let cut_off = nodes().filter(|node| floor.is_cut_off(*node)).filter_map(|node| floor.give_up(node));
        let given_up = lags.given_up(now).0.into_iter().filter_map(|(node, _)| floor.give_up(node));
        counted.chain(cut_off).chain(given_up).collect()
    }

    /// Has writers of the node go on at the speed of its nearest standby, if all that may take over lag (rule S11). To be
    /// called some times a second.
    pub fn slow_down(&self, heard: &[HeardStandby], node: &Node, now: BootMs) {
        let Some(durable) = node.durable() else { return };
        let mut state = self.lock();
        let State { lags, pace, is_slowing, .. } = &mut *state;
        let (bytes, ms) = bounds(&node.config.settings());
        lags.bound(bytes, ms);
        for HeardStandby { process, following, at } in heard {
            lags.report(*process, behind(following), now);
            pace.report(*process, *at, following.applied_bytes);
        }
        pace.forget(now);
        pace.written(durable.log().written().0, durable.tail().position(durable.log()));
        let slows = lags.is_pressure();
        durable.tail().pace(slows.then(|| pace.get()));
        match (slows, std::mem::replace(is_slowing, slows)) {
            (true, false) => tracing::warn!(
                cause = "standbys",
                "The standbys lag: commands that write go on at the speed of the nearest one, {} KB a second",
                pace.get() >> 10
            ),
            (false, true) => tracing::info!("A standby is near again: commands that write are not slowed down"),
            _ => {}
        }
    }

    /// True if a checkpoint for the bootstrap of this process may begin: its pin is known here (rule S4).
    pub fn may_ship(&self, to: Process) -> bool {
        self.lock().floor.as_ref().is_some_and(|floor| floor.may_ship(to))
    }
}

fn behind(of: &Following) -> Behind {
    Behind { bytes: of.behind_bytes, ms: of.behind_ms, applied_bytes: of.applied_bytes }
}

/// The bounds of lag, in bytes and in milliseconds.
fn bounds(settings: &Settings) -> (u64, u64) {
    let bound = |most: u64| if most == 0 { u64::MAX } else { most };
    (bound(settings.standby_lag_max), bound(settings.standby_lag_max_ms))
}

#[cfg(test)]
mod tests {
    use membership::BootNs;
    use quorum::Term;

    use super::*;

    fn process(node: u32, life: u64) -> Process {
        Process { node: NodeNumber(node), life }
    }

    fn heard(process: Process, covered: u64) -> HeardStandby {
        let covered = Cut(covered);
        let following =
            Following { log: covered, covered, behind_bytes: 0, behind_ms: 0, applied_bytes: 0, priority: 100 };
        HeardStandby { process, following, at: BootNs(0) }
    }

    /// Rules G12 and S4: the log waits for a copy from its pin on, until the copy is given up.
    #[test]
    fn the_log_keeps_what_a_standby_lacks() {
        let (owner, standby) = (process(1, 1), process(2, 4));
        let mut copies = Copies::new(Term::new(2).unwrap(), owner);
        let standbys = Standbys::new(Lsn(10));
        let floor = |covered: u64| standbys.floor(&[Lsn(covered), Lsn(covered - 5)]);
        assert_eq!(floor(50), [Lsn(10), Lsn(10)], "the metadata are not heard");
        assert_eq!(standbys.hear(&copies, &[], BootMs(0)), []);
        assert_eq!(floor(60), [Lsn(60), Lsn(55)]);
        assert!(!standbys.may_ship(standby));
        copies.apply(Change::Pin { standby }).unwrap();
        assert_eq!(standbys.hear(&copies, &[], BootMs(1_000)), []);
        assert!(standbys.may_ship(standby) && !standbys.may_ship(process(2, 5)));
        assert_eq!(floor(90), [Lsn(60), Lsn(60)], "nobody knows what it has");
        // Its store lacks what the log has given up.
        let changes = standbys.hear(&copies, &[heard(standby, 59)], BootMs(2_000));
        assert!(matches!(changes[..], [Change::GiveUp { .. }]), "{changes:?}");
        let changes = standbys.hear(&copies, &[heard(standby, 70)], BootMs(3_000));
        assert!(matches!(changes[..], [Change::Count { covered: Cut(70), floor: Cut(60), .. }]), "{changes:?}");
        changes.into_iter().for_each(|change| copies.apply(change).unwrap());
        assert_eq!(standbys.hear(&copies, &[heard(standby, 80)], BootMs(4_000)), []);
        assert_eq!(floor(90), [Lsn(80), Lsn(80)]);
        // It is away, for a while and then for too long.
        assert_eq!(standbys.hear(&copies, &[], BootMs(5_000)), []);
        assert_eq!(standbys.hear(&copies, &[], BootMs(600_000)), []);
        assert_eq!(floor(99), [Lsn(80), Lsn(80)]);
        let changes = standbys.hear(&copies, &[], BootMs(605_000));
        assert!(matches!(changes[..], [Change::GiveUp { .. }]), "{changes:?}");
        changes.into_iter().for_each(|change| copies.apply(change).unwrap());
        assert_eq!(standbys.hear(&copies, &[], BootMs(606_000)), []);
        assert_eq!(floor(99), [Lsn(99), Lsn(94)]);
    }
}
