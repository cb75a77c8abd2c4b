//! The acceptors of a shard, as the metadata name them, while its log runs (rule G11).

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::channel;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use loggroup::{Dial, Driver, Ended, Listener, Plan, Port, Remote};
use membership::control::Control;
use membership::meta::{Acceptor, Command, GroupCommand, Lead, Response, Settle, Shard};
use membership::{AcceptorId, Map, NodeId, ShardId, Term};

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
        let counted = copies.pending();
        match (&shard.pending, counted) {
            (None, Some(counted)) if !is_same(&counted, &ids(&shard.settled)) => {
                // Majorities of it need not meet those of what comes next.
                withdrawn(shard.id);
                lead_again(&control, copies, &shard)?;
            }
            (None, Some(_)) if copies.may_settle() => copies.settled(),
            (Some(pending), Some(counted))
                if copies.may_settle() && shard.pending_since < copies.term() && is_same(&counted, &ids(pending)) =>
            {
                settle(&control, &shard, pending)?;
                copies.settled();
            }
            (Some(pending), _) if shard.pending_since >= copies.term() => change(&control, copies, &shard, pending)?,
            _ => {}
        }
        Ok(())
    }

    /// True if the metadata want the same acceptors as this plan's: those that were pending are not withdrawn.
    pub fn stays(&self, shard: &Shard) -> bool {
        self.0.upgrade().is_none_or(|control| stays(&control, shard))
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
fn member_with(map: &Map, acceptor: Acceptor) -> NodeId {
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
    lead_again(control, copies, shard)
}

/// Begins another term, in which the acceptors count that the metadata name then.
fn lead_again(control: &Arc<Control>, copies: &Arc<Driver>, shard: &Shard) -> Result<(), String> {
    let mut shard = next_term(control, &Shard { term: copies.term(), ..shard.clone() })?;
    loop {
        // The set may have grown until the term was given.
        reach(control, copies, &shard);
        // Without a majority the streams stand still, as they would in the term before. But a set that was withdrawn is not
        // waited for: another term goes without it.
        let begun = copies.again(plan(&shard, copies.own()), &mut |_, _| stays(control, &shard));
        match begun {
            Err(Ended::Stopped) if !copies.is_over() => {}
            begun => return begun.map_err(|why| why.to_string()),
        }
        withdrawn(shard.id);
        shard = loop {
            match next_term(control, &shard) {
                Ok(next) => break next,
                Err(why) if copies.is_over() => return Err(why),
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
