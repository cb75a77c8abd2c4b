//! The acceptors of a shard, as the metadata name them, while its log runs (rule G11).

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::channel;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use clocks::BootMs;
use loggroup::{Dial, Driver, Ended, Listener, Plan, Port, Remote, Stage, Wait};
use membership::control::Control;
use membership::meta::{Acceptor, Command, GroupCommand, Lead, Response, Settle, Shard};
use membership::{AcceptorId, Map, NodeId, ShardId, Term};
use node::Node;

use super::standby::{self, Standbys};

/// How long a change of the metadata is waited for.
const ANSWER: Duration = Duration::from_secs(5);

/// The pause before another try.
const AGAIN: Duration = Duration::from_secs(1);

/// Blocks by which new acceptors may lag when they begin to count: the streams pause until these have arrived.
const BEHIND_MAX: u64 = 16;

/// The metadata of the shard of this node.
pub struct Group(Weak<Control>);

impl Group {
    pub(super) fn new(control: &Arc<Control>) -> Self {
        Self(Arc::downgrade(control))
    }

    /// Does what the metadata want next: settles acceptors, or brings others up and has them count.
    ///
    /// # Errors
    /// It could not be done now. It is tried again.
    pub fn follow(&self, copies: &Arc<Driver>) -> Result<(), String> {
        let Some(control) = self.0.upgrade() else { return Ok(()) };
        let Some(shard) = own_shard(&control) else { return Ok(()) };
        reach(&control, copies, &shard);
        let named: Vec<Acceptor> = shard.settled.iter().chain(shard.pending.iter().flatten()).copied().collect();
        copies.keep_only(&ids(&named));
        match next(&shard, copies.pending().as_deref(), copies.may_settle(), copies.term()) {
            Next::Nothing => {}
            Next::WithoutPending => {
                withdrawn(shard.id);
                lead_again(&control, copies, &shard, &mut |_, _| true)?;
            }
            Next::IsSettled => copies.settled(),
            Next::Settle(pending) => {
                settle(&control, &shard, pending)?;
                copies.settled();
            }
            Next::Change(pending) => change(&control, copies, &shard, pending)?,
        }
        Ok(())
    }

    /// Has the log keep what the shard's standbys lack, and the metadata know which of them may take over.
    ///
    /// # Errors
    /// It could not be done now. It is tried again.
    pub fn stand_by(&self, standbys: &Standbys, now: BootMs) -> Result<(), String> {
        let Some(control) = self.0.upgrade() else { return Ok(()) };
        let Some(shard) = own_shard(&control) else { return Ok(()) };
        let Some(copies) = control.map().data_copies(&shard) else { return Ok(()) };
        let changes = standbys.hear(&copies, &control.standbys(), now);
        changes.into_iter().try_for_each(|change| standby::propose(&control, shard.id, change))
    }

    /// Slows the node's writers down for standbys that lag.
    pub fn slow_down(&self, standbys: &Standbys, node: &Node, now: BootMs) {
        if let Some(control) = self.0.upgrade() {
            standbys.slow_down(&control.standbys(), node, now);
        }
    }

    /// True if the metadata want the same acceptors as this plan's: those that were pending are not withdrawn.
    pub fn stays(&self, shard: &Shard) -> bool {
        self.0.upgrade().is_none_or(|control| stays(&control, shard))
    }

    /// True if acceptors count in the present term that the metadata do not want any more: they have withdrawn the set.
    pub fn has_withdrawn(&self, copies: &Driver) -> bool {
        let Some(shard) = self.0.upgrade().and_then(|control| own_shard(&control)) else { return false };
        let is = |set: &[Acceptor], counted: &[AcceptorId]| is_same(counted, &ids(set));
        let is_wanted = |counted: &[AcceptorId]| {
            is(&shard.settled, counted) || shard.pending.as_deref().is_some_and(|pending| is(pending, counted))
        };
        copies.pending().is_some_and(|counted| !is_wanted(&counted))
    }

    /// Goes on in another term, in which the acceptors count that the metadata name then. `goes_on`: false if the caller
    /// gives up.
    ///
    /// # Errors
    /// The metadata give no term: it is tried again. Or the log has ended.
    pub fn lead_again(&self, copies: &Arc<Driver>, goes_on: Wait<'_>) -> Result<(), String> {
        let control = self.0.upgrade().ok_or("the server stops")?;
        let shard = own_shard(&control).ok_or("another process owns the shard")?;
        withdrawn(shard.id);
        lead_again(&control, copies, &shard, goes_on)
    }

    /// The next term of the shard, for the owner of this one.
    ///
    /// # Errors
    /// The metadata do not answer, or have given the shard to another owner or start.
    pub fn next_term(&self, shard: &Shard) -> Result<Shard, String> {
        let control = self.0.upgrade().ok_or("the server stops")?;
        next_term(&control, shard)
    }
}

/// The next thing that the metadata want of a shard's owner.
#[derive(PartialEq, Eq, Debug)]
enum Next<'a> {
    Nothing,
    /// The set that counts beside the settled one was withdrawn. Its majorities need not meet those of what comes next.
    WithoutPending,
    /// That set is the settled one.
    IsSettled,
    /// That set has everything.
    Settle(&'a [Acceptor]),
    /// There is another set.
    Change(&'a [Acceptor]),
}

/// `counted`: the acceptors that count beside the settled ones in this term. `may_settle`: they have everything.
fn next<'a>(shard: &'a Shard, counted: Option<&[AcceptorId]>, may_settle: bool, term: Term) -> Next<'a> {
    match (&shard.pending, counted) {
        (None, Some(counted)) if !is_same(counted, &ids(&shard.settled)) => Next::WithoutPending,
        (None, Some(_)) if may_settle => Next::IsSettled,
        (Some(pending), Some(counted))
            if may_settle && shard.pending_since < term && is_same(counted, &ids(pending)) =>
        {
            Next::Settle(pending)
        }
        (Some(pending), _) if shard.pending_since >= term => Next::Change(pending),
        _ => Next::Nothing,
    }
}

fn stays(control: &Control, shard: &Shard) -> bool {
    own_shard(control).is_none_or(|now| now.pending == shard.pending)
}

fn next_term(control: &Control, shard: &Shard) -> Result<Shard, String> {
    let (id, incarnation) = (control.id(), control.incarnation());
    let ask = Lead { shard: shard.id, known: shard.term, id, incarnation, of_log: 0 };
    submit(control, Command::Lead(ask))?;
    own_shard(control).filter(|next| is_next(next.term, shard.term)).ok_or_else(|| "there is no next term".to_owned())
}

/// The shard of the node, if the metadata have given this start a term of it (rule G1).
pub fn own_shard(control: &Control) -> Option<Shard> {
    let (map, id, life) = (control.map(), control.id(), control.incarnation());
    map.shards_of(id).find(|shard| shard.incarnation == life).cloned()
}

/// The term of a shard that has just been given, for the owner whose folder is `own`. Until there are others, the owner's
/// log is the shard's only acceptor.
pub fn plan(shard: &Shard, own: AcceptorId) -> Plan {
    let settled = if shard.settled.is_empty() { vec![own] } else { ids(&shard.settled) };
    // Acceptors that were chosen since this term was given are for a later one.
    let pending = shard.pending.as_deref().filter(|_| shard.pending_since < shard.term).map(ids);
    Plan { shard: shard.id, term: shard.term, own, settled, pending }
}

fn ids(set: &[Acceptor]) -> Vec<AcceptorId> {
    set.iter().map(|acceptor| acceptor.id).collect()
}

/// Ways to the acceptors of these at other members.
pub fn ports(control: &Arc<Control>, acceptors: &[Acceptor], listener: &Listener) -> Vec<(AcceptorId, Arc<dyn Port>)> {
    let others = acceptors.iter().filter(|acceptor| acceptor.node != control.id());
    let port = |acceptor: &Acceptor| {
        let remote = Remote::start(acceptor.id, dial(control, *acceptor), listener.clone());
        let remote = remote.inspect_err(|why| tracing::warn!("a copy of the log cannot be reached: {why}")).ok()?;
        Some((acceptor.id, Arc::new(remote) as Arc<dyn Port>))
    };
    others.filter_map(port).collect()
}

/// A folder may be another member's later: of a log-server that lost its part of the metadata and joined anew.
fn dial(control: &Arc<Control>, acceptor: Acceptor) -> Dial {
    let control = Arc::downgrade(control);
    Arc::new(move || {
        let control = control.upgrade().ok_or_else(|| io::Error::other("the server stops"))?;
        let member = member_with(&control.map(), acceptor);
        let (tell, told) = channel();
        control.dial_log(member, move |dialed| drop(tell.send(dialed)));
        let dialed = told.recv_timeout(ANSWER).map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
        dialed.map_err(io::Error::other)
    })
}

/// The member that has an acceptor now, as far as the metadata know.
pub(super) fn member_with(map: &Map, acceptor: Acceptor) -> NodeId {
    let all = || map.shards().iter();
    let mut known =
        all().flat_map(|shard| shard.pending.iter().flatten()).chain(all().flat_map(|shard| &shard.settled));
    known.find(|known| known.id == acceptor.id).map_or(acceptor.node, |known| known.node)
}

fn is_same(one: &[AcceptorId], other: &[AcceptorId]) -> bool {
    one.len() == other.len() && one.iter().all(|id| other.contains(id))
}

fn withdrawn(shard: ShardId) {
    tracing::warn!(cause = "log copies", "The copies that the log of shard {} was to get are withdrawn", shard.0);
}

fn settle(control: &Control, shard: &Shard, pending: &[Acceptor]) -> Result<(), String> {
    let (id, incarnation) = (control.id(), control.incarnation());
    let settle = Settle { shard: shard.id, id, incarnation, term: shard.term, acceptors: ids(pending) };
    submit(control, Command::Group(GroupCommand::Settle(settle)))?;
    tracing::info!("The log of shard {} has {} copies now", shard.id.0, pending.len());
    Ok(())
}

/// Makes ways to acceptors of a shard that have none. Those that do not count yet are brought up.
fn reach(control: &Arc<Control>, copies: &Arc<Driver>, shard: &Shard) {
    let all = || shard.settled.iter().chain(shard.pending.iter().flatten());
    let lacking = copies.lacking(&all().map(|acceptor| acceptor.id).collect::<Vec<_>>());
    let lacking: BTreeMap<AcceptorId, Acceptor> =
        all().filter(|acceptor| lacking.contains(&acceptor.id)).map(|acceptor| (acceptor.id, *acceptor)).collect();
    let new: Vec<Acceptor> = lacking.into_values().filter(|acceptor| acceptor.node != control.id()).collect();
    if !new.is_empty() {
        copies.follow_up(|listener| ports(control, &new, listener));
    }
}

/// Brings pending acceptors up, and begins a term in which they count beside the settled ones.
fn change(control: &Arc<Control>, copies: &Arc<Driver>, shard: &Shard, pending: &[Acceptor]) -> Result<(), String> {
    if copies.behind(&ids(pending)).is_none_or(|blocks| blocks > BEHIND_MAX) {
        // They catch up while the log runs.
        return Ok(());
    }
    lead_again(control, copies, shard, &mut |_, _| true)
}

/// Begins another term, in which the acceptors count that the metadata name then. `goes_on`: false if the caller gives up.
fn lead_again(control: &Arc<Control>, copies: &Arc<Driver>, shard: &Shard, goes_on: Wait<'_>) -> Result<(), String> {
    let mut shard = next_term(control, &Shard { term: copies.term(), ..shard.clone() })?;
    loop {
        // The set may have grown until the term was given.
        reach(control, copies, &shard);
        // Without a majority the streams stand still, as they would in the term before. But a set that was withdrawn is not
        // waited for: another term goes without it.
        let mut is_given_up = false;
        let begun = copies.again(plan(&shard, copies.own()), &mut |stage, silent| {
            is_given_up |= !goes_on(stage, silent);
            !is_given_up && stays(control, &shard)
        });
        match begun {
            Err(Ended::Stopped) if !is_given_up && !copies.is_over() => {}
            begun => return begun.map_err(|why| why.to_string()),
        }
        withdrawn(shard.id);
        shard = loop {
            match next_term(control, &shard) {
                Ok(next) => break next,
                Err(why) if copies.is_over() || !goes_on(Stage::Leading, &[]) => return Err(why),
                Err(why) => {
                    tracing::warn!(cause = "log copies", "The log waits for another term: {why}");
                    thread::park_timeout(AGAIN);
                }
            }
        };
    }
}

fn is_next(term: Term, before: Term) -> bool {
    term.is_next_of(before)
}

/// Has a command applied, and waits until this process has heard of it.
fn submit(control: &Control, command: Command) -> Result<(), String> {
    let (tell, told) = channel();
    control.submit(command, move |response| drop(tell.send(response)));
    match told.recv_timeout(ANSWER).map_err(|_| "the metadata do not answer".to_owned())?? {
        Response::Done { .. } => Ok(()),
        Response::Refused(why) => Err(why.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(of: &[u8]) -> Vec<Acceptor> {
        of.iter().map(|n| Acceptor { id: AcceptorId([*n; 16]), node: NodeId([*n; 20]) }).collect()
    }

    /// Rule G11: the owner goes on with the sets that the metadata have, whatever it has sealed.
    #[test]
    fn a_withdrawn_set_is_not_taken_for_settled_g11() {
        let term = Term::new(5).unwrap_or(Term::ZERO);
        let of = |settled: &[u8], pending: Option<&[u8]>, since: u32| Shard {
            id: ShardId(1),
            owner: NodeId([1; 20]),
            incarnation: 1,
            term,
            group: String::new(),
            settled: set(settled),
            pending: pending.map(set),
            pending_since: Term::new(since).unwrap_or(Term::ZERO),
            streams: 1,
            settings: BTreeMap::new(),
            standbys: BTreeMap::new(),
            rests_ms: 0,
        };
        let (old, new, other) = ([1, 2, 3], [1, 2, 4], [1, 2, 5]);
        let counted = ids(&set(&new));
        let next = |shard: &Shard, counted: Option<&[AcceptorId]>, has_all| match next(shard, counted, has_all, term) {
            Next::Nothing => "nothing",
            Next::WithoutPending => "without",
            Next::IsSettled => "is settled",
            Next::Settle(pending) if pending == set(&new) => "settle",
            Next::Settle(_) => "settle another",
            Next::Change(_) => "change",
        };
        for has_all in [false, true] {
            assert_eq!(next(&of(&old, None, 4), Some(&counted), has_all), "without", "{has_all}");
            assert_eq!(next(&of(&old, None, 4), None, has_all), "nothing");
            // Another set has taken its place: it is for a later term.
            assert_eq!(next(&of(&old, Some(&other), 5), Some(&counted), has_all), "change");
            assert_eq!(next(&of(&old, Some(&other), 5), None, has_all), "change");
            assert_eq!(next(&of(&old, Some(&other), 4), Some(&counted), has_all), "nothing");
        }
        let order = [4, 1, 2];
        assert_eq!(next(&of(&order, None, 4), Some(&counted), true), "is settled");
        assert_eq!(next(&of(&old, Some(&new), 4), Some(&counted), true), "settle");
        assert_eq!(next(&of(&old, Some(&new), 4), Some(&counted), false), "nothing", "it lacks something");
    }
}
