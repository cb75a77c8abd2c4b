//! What nobody in the world knows, and what must hold.

use std::collections::BTreeSet;

use quorum::Term;

use super::{CommandState, Plan, Record, Role, Store, World};

pub const LOST: &str = "something acknowledged is lost";
pub const GAP: &str = "a new owner lacks what the log has given up";
pub const UNFIT: &str = "a counted standby lacks what the log has given up";
pub const OTHERWISE: &str = "a new owner has something else than the log";
pub const TWO: &str = "two processes serve";
pub const LATE: &str = "a process serves after a later term has";
pub const STALE: &str = "a read misses what was acknowledged before it";
pub const READER: &str = "a write while an unlogged read of another process counts";
pub const SHOWN: &str = "a standby shows what is not committed";
pub const PREFIX: &str = "a standby has no prefix of the log";
pub const AHEAD: &str = "a store has what no majority has";
pub const CLOSED: &str = "a switchover has closed a client's connection";
pub const TWICE: &str = "a command was executed twice";

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Ghosts {
    pub acknowledged: BTreeSet<Record>,
    /// The highest term that has executed something.
    pub served: Term,
    /// Until when an unlogged read counts, in true time, and of which node.
    pub windows: Vec<(u64, usize)>,
    /// Terms that have led.
    pub led: BTreeSet<Term>,
    /// A process was lost, or a lease: clients may notice.
    pub is_unplanned: bool,
    /// Switchovers that have handed the shard over.
    pub handed_over: u32,
    pub broken: Option<&'static str>,
}

impl Ghosts {
    pub fn break_on(&mut self, why: &'static str) {
        self.broken.get_or_insert(why);
    }
}

impl World {
    pub fn check(&mut self, is_right: bool, why: &'static str) {
        if !is_right {
            self.ghosts.break_on(why);
        }
    }

    /// Looked at after each step.
    pub fn look(&mut self, plan: &Plan) {
        let may = |at: &usize| {
            let running = self.nodes[*at].running.as_ref();
            let clock = self.clock(plan, *at);
            running.is_some_and(|r| matches!(&r.role, Role::Owner(owner) if owner.tenure.may_execute(clock)))
        };
        let serving = (0..self.nodes.len()).filter(may).count();
        self.check(serving < 2, TWO);
        let begins = self.begins();
        let fits = |store: &Option<Store>| store.as_ref().is_some_and(|store| store.covered >= begins);
        let counted = self.metadata.standbys().filter(|(_, standby)| standby.is_electable);
        let all_fit = counted.map(|(node, _)| &self.nodes[node.0 as usize].store).all(fits);
        self.check(all_fit, UNFIT);
        let valid = self.log.valid();
        let mut commands: Vec<u8> = valid.iter().map(|record| record.command).collect();
        commands.sort_unstable();
        self.check(commands.windows(2).all(|two| two[0] != two[1]), TWICE);
        let now = self.now;
        self.ghosts.windows.retain(|(until, _)| *until > now);
    }

    /// A process of a node executes something.
    pub fn executes(&mut self, at: usize, term: Term, writes: bool) {
        self.check(term >= self.ghosts.served, LATE);
        self.ghosts.served = self.ghosts.served.max(term);
        let is_read = self.ghosts.windows.iter().any(|(until, of)| *until > self.now && *of != at);
        self.check(!(writes && is_read), READER);
    }

    /// All commands have come to an end.
    pub fn is_answered(&self) -> bool {
        self.commands.iter().all(|command| matches!(command.state, CommandState::Answered | CommandState::Closed))
    }
}
