//! One node's knowledge of its cluster and its actions in it, on its control thread.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::errors::{ClientWriteError, LinearizableReadError, RaftError};
use openraft::{LinearizerOption, Raft};
use standby::Change;

use super::configuration::Configured;
use super::copies::CopyReport;
use super::disk::Disk;
use super::granting::{Renewal, Reported, Watched};
use super::levels::{Levels, with_level};
use super::libraries::Taken;
use super::links::{Links, Op, Reply};
use super::places::Places;
use super::relay::Relays;
use super::shard::OfShard;
use super::standing::{HeardStandby, ShardLease};
use super::storage::Machine;
use super::told::Told;
use super::types::{CommittedLeaderId, Types, Wire};
use super::yields::{Wish, Yield};
use super::{BootClock, CopyReports, MayLead, MayServe, OnSwitchover, Random, Settings, Standings, Trouble};
use crate::codec::{Malformed, Reader};
use crate::leases::Leases;
use crate::map;
use crate::meta::{ChangeCopies, Command, Describe, GroupCommand, Kind, Refusal, Response, Setting};
use crate::takeovers::Takeovers;
use crate::{BootNs, ClusterId, LeaseEnd, NodeId, Term, level};

/// How long a request to another node may take.
pub const ASK: Duration = Duration::from_secs(2);

/// How long a command to the metadata may take.
pub const COMMAND: Duration = Duration::from_secs(10);

/// How long a command waits for nodes to elect a leader. They do so within a few seconds of the loss of another one.
const ELECTION: Duration = Duration::from_secs(5);

/// The time between two tries to find a leader.
const AGAIN: Duration = Duration::from_millis(200);

/// How long a removed node may go on voting before the caller that removed it is told.
const VOTES_ON: Duration = Duration::from_secs(5);

/// The reason why a request to the leader has no answer, in words.
enum Unanswered {
    /// The leader gave it.
    Refused(String),
    /// No leader was found, or none that answers.
    NoLeader(String),
}

impl Unanswered {
    fn into_text(self) -> String {
        let (Self::Refused(why) | Self::NoLeader(why)) = self;
        why
    }
}

/// The state that all threads of the process see.
pub struct Shared {
    /// Until when the node may serve.
    pub lease_until: Arc<LeaseEnd>,
    /// The reason why it may not, in words; empty while it may.
    pub reason: Mutex<String>,
    /// See [`super::Control::silent`].
    pub silent: Mutex<Arc<BTreeSet<NodeId>>>,
    /// Nodes that have led.
    pub led: Mutex<Led>,
    /// See [`super::Control::leased`].
    pub leased: Mutex<Option<(Term, BootNs)>>,
    /// See [`super::Control::standbys`].
    pub standbys: Mutex<Vec<HeardStandby>>,
}

/// The leaders so far.
#[derive(Default)]
pub struct Led {
    /// The one that led last.
    last: Option<NodeId>,
    /// The one before, and until when it is suspected.
    former: Option<(NodeId, BootNs)>,
}

impl Led {
    /// The node that led and no longer does, if that is news. `leader`: the present leader; `keep`: for how many
    /// nanoseconds it is news.
    fn look(&mut self, leader: Option<NodeId>, now: BootNs, keep: u64) -> Option<NodeId> {
        if leader.is_some() && leader != self.last {
            let before = std::mem::replace(&mut self.last, leader);
            self.former = before.map(|before| (before, now.after(keep)));
        }
        self.former = self.former.filter(|(node, until)| *until > now && Some(*node) != leader);
        self.last.filter(|_| leader.is_none()).or(self.former.map(|(node, _)| node))
    }
}

impl Shared {
    pub fn say(&self, why: impl Into<String>) {
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = why.into();
    }

    pub fn silent(&self) -> Arc<BTreeSet<NodeId>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The leader has granted a lease that was asked for at `sent`, for a term of a shard with standbys or for none.
    /// Answers may come out of order.
    pub fn hear_of_lease(&self, of_shard: Option<ShardLease>, sent: BootNs, until: BootNs) {
        let mut leased = self.leased.lock().unwrap_or_else(PoisonError::into_inner);
        *leased = of_shard.as_ref().map(|of| (of.term, until)).max(*leased);
        let heard = of_shard.map_or_else(Vec::new, |of| of.standbys);
        let at = |ago_ms: u64| BootNs(sent.0.saturating_sub(ago_ms.saturating_mul(1_000_000)));
        let standbys =
            heard.into_iter().map(|(process, ago, following)| HeardStandby { process, following, at: at(ago) });
        *self.standbys.lock().unwrap_or_else(PoisonError::into_inner) = standbys.collect();
    }

    /// The leader has told which nodes are silent.
    pub fn hear_of_silent(&self, silent: BTreeSet<NodeId>) {
        let mut known = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        if **known != silent {
            *known = Arc::new(silent);
        }
    }
}

/// One node.
pub struct Agent {
    pub settings: Settings,
    pub clock: BootClock,
    pub random: Random,
    pub disk: Disk,
    pub machine: Machine,
    pub links: Arc<Links>,
    pub levels: Levels,
    pub relays: Option<Relays>,
    pub raft: Raft<Types, Machine>,
    pub shared: Arc<Shared>,
    pub volatile: Mutex<Volatile>,
    pub libraries: Taken,
    pub configured: Configured,
    pub of_shard: OfShard,
    /// See [`super::Hooks::trouble`].
    pub trouble: Trouble,
    /// See [`super::Hooks::copies`].
    pub copies: CopyReports,
    /// See [`super::Hooks::standing`].
    pub standing: Standings,
    /// Wakes [`Self::decide_takeovers`].
    pub looks_at_shards: tokio::sync::Notify,
    pub places: Places,
    /// See [`super::Hooks::ask_copy`] and [`super::Hooks::on_log`].
    pub asks_copies: (super::AskCopy, Arc<dyn Fn(std::os::fd::OwnedFd) + Send + Sync>),
    /// See [`super::Hooks::may_serve`].
    pub may_serve: MayServe,
    /// See [`super::Hooks::on_switchover`].
    pub on_switchover: OnSwitchover,
    /// See [`super::Hooks::may_lead`].
    pub may_lead: MayLead,
    /// Held while the voters are chosen and changed.
    pub changing: tokio::sync::Mutex<()>,
    /// Held by a command that takes leases away, from its look at the metadata until it is applied: another one may change
    /// from whom they have to be taken.
    pub fencing: Arc<tokio::sync::Mutex<()>>,
}

/// Tasks that are dropped at the end.
pub struct Volatile {
    /// Where others find this node, as far as it knows.
    pub host: Option<String>,
    /// A cluster that this node would belong to: it does as soon as that cluster's Raft sends it a message.
    pub tentative: Option<ClusterId>,
    /// The cluster that is being formed, and the settings that its first node gives it.
    pub founding: Option<(ClusterId, Vec<Setting>)>,
    /// True if this node is about to form a cluster.
    pub forming: bool,
    /// The leases that this node has granted as a leader.
    pub leases: Leases,
    /// The nodes that this node has refused, with the reasons.
    pub refused: Told,
    /// The versions of libraries of nodes, as they have reported them to this one.
    pub libraries: BTreeMap<NodeId, u64>,
    /// The troubles of nodes that serve, as they have reported them to this one.
    pub troubles: BTreeMap<NodeId, String>,
    /// The copies of their logs, as these have reported them to this one.
    pub copies: BTreeMap<NodeId, Vec<CopyReport>>,
    /// How well and how far processes with copies of shards' data are, as they have reported it to this one.
    pub standings: BTreeMap<NodeId, Reported>,
    /// What this node knows, as a leader, of shards with standbys.
    pub takeovers: Takeovers,
    /// Lines that were logged about takeovers, by shard and term.
    pub told_of_shards: Told,
    /// The nodes that are up, and those that were.
    pub watched: Watched,
    /// When this node has last offered to give way to another leader.
    pub gave_way: BootNs,
    /// The reason why copies have no places yet, in words, while this node leads; empty: all have theirs.
    pub unplaced: String,
}

impl Agent {
    pub fn volatile(&self) -> MutexGuard<'_, Volatile> {
        self.volatile.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The troubles of this member, in words; empty: none.
    pub fn troubles(&self) -> String {
        let unplaced = self.volatile().unplaced.clone();
        let unplaced = if unplaced.is_empty() { unplaced } else { format!("copies have no places yet: {unplaced}") };
        let all = [(self.trouble)(), self.places.trouble(), unplaced];
        all.into_iter().filter(|trouble| !trouble.is_empty()).collect::<Vec<_>>().join("; ")
    }

    /// The reason why this node has no lease, in words. Empty if it has one.
    pub fn reason(&self) -> String {
        let said = self.shared.reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if said.is_empty() && self.shared.lease_until.get() <= (self.clock)() {
            return "this node has no lease: it could not renew it in time".to_owned();
        }
        said
    }

    /// This node's name.
    pub fn me(&self) -> NodeId {
        self.disk.kept().node
    }

    /// The cluster that this node belongs to.
    pub fn cluster(&self) -> Option<ClusterId> {
        self.disk.kept().cluster
    }

    /// This node's data about itself. The host is empty while it is unknown.
    pub fn describe(&self) -> Describe {
        let (id, incarnation) = {
            let kept = self.disk.kept();
            (kept.node, kept.incarnation)
        };
        let host = self.volatile().host.clone().unwrap_or_default();
        let Settings { port, bus_port, client_port, .. } = self.settings;
        Describe { id, incarnation, host, port, bus_port, client_port }
    }

    /// Settings that must be the same on all nodes.
    pub fn agreed(&self) -> Vec<(String, String)> {
        let lease = ("cluster-lease".to_owned(), format!("{} ms", self.settings.lease.as_millis()));
        self.settings.agreed.iter().cloned().chain([lease]).collect()
    }

    /// The leader, as far as this node knows, and the term.
    pub fn leader(&self) -> (Option<Describe>, u64) {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let leader = metrics.current_leader.map(|id| {
            let member = metrics.membership_config.get_node(&id).cloned().unwrap_or_default();
            self.known(id).unwrap_or(Describe { id, ..member })
        });
        (leader, metrics.current_term)
    }

    /// The term in which this node leads, if it does.
    pub fn leads(&self) -> Option<u64> {
        let (leader, term) = self.leader();
        leader.is_some_and(|leader| leader.id == self.me()).then_some(term)
    }

    /// See [`super::Control::suspects`].
    pub fn suspects(&self) -> Arc<BTreeSet<NodeId>> {
        let silent = self.known_silent();
        let leader = self.raft.metrics().borrow_watched().current_leader;
        // By then the leader has told whether it holds a lease.
        let keep = 2 * self.settings.lease.as_nanos() as u64;
        let led = self.shared.led.lock().unwrap_or_else(PoisonError::into_inner).look(leader, (self.clock)(), keep);
        match led.filter(|node| *node != self.me() && !silent.contains(node)) {
            Some(node) => Arc::new(silent.iter().copied().chain([node]).collect()),
            None => silent,
        }
    }

    /// A member's entry in the map.
    pub fn known(&self, id: NodeId) -> Option<Describe> {
        let map = self.machine.map();
        let node = map.member(id)?;
        let &map::Node { incarnation, port, bus_port, client_port, .. } = node;
        Some(Describe { id, incarnation, host: node.host.clone(), port, bus_port, client_port })
    }

    /// Asks the leader, at whatever node.
    pub async fn ask_leader(self: &Arc<Self>, op: Op, body: &[u8]) -> Result<Vec<u8>, String> {
        self.ask_whoever_leads(op, body, false).await.map_err(Unanswered::into_text)
    }

    /// As [`Self::ask_leader`]. `once`: no other node is asked if one may have done it and has not answered.
    async fn ask_whoever_leads(self: &Arc<Self>, op: Op, body: &[u8], once: bool) -> Result<Vec<u8>, Unanswered> {
        let mut why =
            "no leader of the cluster's metadata is known: more than half of the voting nodes must be up".to_owned();
        let mut asked: Vec<NodeId> = Vec::new();
        let mut next = self.leader().0;
        // Another node may know a leader, if the known one does not answer or has stepped down.
        let map = self.machine.map();
        let others: Vec<NodeId> = map.members().filter(|node| !node.lost).map(|node| node.id).collect();
        let mut others = others.into_iter().filter(|id| *id != self.me());
        while asked.len() < 4 {
            let target = next.take().or_else(|| others.next().and_then(|id| self.known(id)));
            let Some(target) = target else { break };
            if asked.contains(&target.id) {
                continue;
            }
            asked.push(target.id);
            match self.ask(&target, op, body.to_vec()).await {
                Ok(Reply::Done(answer)) => return Ok(answer),
                Ok(Reply::NotLeader(hint)) => next = hint,
                Ok(Reply::Failed(what)) => return Err(Unanswered::Refused(what)),
                Err(what) => {
                    why = format!("node {} at {}:{}: {what}", target.id, target.host, target.bus_port);
                    if once {
                        break;
                    }
                }
            }
        }
        Err(Unanswered::NoLeader(why))
    }

    /// Asks a node, which may be this one.
    pub async fn ask(self: &Arc<Self>, target: &Describe, op: Op, body: Vec<u8>) -> Result<Reply, String> {
        let within = if op == Op::Command { COMMAND } else { ASK };
        if target.id == self.me() {
            // A write without a majority has no end of its own.
            let answered = tokio::time::timeout(within, Box::pin(self.answer(op, &body, level::HIGHEST))).await;
            return answered.map_err(|_| "no answer".to_owned());
        }
        self.links.ask(target.id, (&target.host, target.bus_port), op, body, within).await
    }

    /// Applies a command to the metadata, at the leader.
    pub async fn submit(self: &Arc<Self>, command: &Command) -> Result<Response, String> {
        self.submit_once(command).await.map_err(Unanswered::into_text)
    }

    /// As [`Self::submit`]; where no node leads, it waits for the next leader.
    pub async fn submit_patiently(self: &Arc<Self>, command: &Command) -> Result<Response, String> {
        let deadline = tokio::time::Instant::now() + ELECTION;
        loop {
            match self.submit_once(command).await {
                Err(Unanswered::NoLeader(_)) if !command.is_asked_once() && tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(AGAIN).await;
                }
                other => return other.map_err(Unanswered::into_text),
            }
        }
    }

    async fn submit_once(self: &Arc<Self>, command: &Command) -> Result<Response, Unanswered> {
        if let Command::Raise { .. } = command {
            self.may_rise().map_err(Unanswered::Refused)?;
        }
        let mut body = Vec::new();
        command.put(&mut body);
        let answer = self.ask_whoever_leads(Op::Command, &body, command.is_asked_once()).await?;
        Response::read(&mut Reader::new(&answer)).map_err(|why| Unanswered::Refused(why.to_string()))
    }

    /// Answers a request to any node or to the leader, from a node of this level.
    pub async fn answer(self: &Arc<Self>, op: Op, body: &[u8], of_node: u16) -> Reply {
        let malformed = |Malformed(what)| Reply::Failed(format!("a request that is not {what}"));
        let mut from = Reader::new(body);
        match op {
            Op::Who => {
                let who = Who { node: self.describe(), cluster: self.cluster(), kind: self.settings.kind };
                Reply::Done(who.to_bytes())
            }
            Op::Command => match Command::read(&mut from) {
                Ok(command) => self.lead(command, of_node).await,
                Err(why) => malformed(why),
            },
            Op::Renew => match Renewal::read(&mut from) {
                Ok(renewal) => self.grant(renewal).await,
                Err(why) => malformed(why),
            },
            Op::Status => match self.leads() {
                Some(_) => Reply::Done(self.holders().to_bytes()),
                None => Reply::NotLeader(self.leader().0),
            },
            Op::Past => match NodeId::read(&mut from) {
                Ok(id) => self.past_of(id).await,
                Err(why) => malformed(why),
            },
            Op::Yield => match Yield::read(&mut from) {
                Ok(yields) => self.hear_yield(yields).await,
                Err(why) => malformed(why),
            },
            Op::SwitchOver => match Wish::read(&mut from) {
                Ok(wish) => self.hear_wish(wish),
                Err(why) => malformed(why),
            },
            Op::Append | Op::Vote | Op::PreVote | Op::Snapshot | Op::Form | Op::Ended | Op::GiveWay => {
                Reply::Failed("asked of no one".to_owned())
            }
        }
    }

    /// Applies a command of a node of this level, if this node leads.
    async fn lead(self: &Arc<Self>, command: Command, of_node: u16) -> Reply {
        let Some(term) = self.leads() else { return Reply::NotLeader(self.leader().0) };
        let of_cluster = self.machine.look(|applied| applied.state.level());
        let command = match command {
            Command::Raise { .. } => match self.raise() {
                Ok(raise) => raise,
                Err(why) => return Reply::Failed(why),
            },
            other => with_level(other, of_cluster, of_node),
        };
        if of_cluster < command.needs() {
            // Nodes of an earlier build could not read the entry in the metadata's log (rule U1).
            let why = Refusal::EarlierLevel { has: of_cluster, needs: command.needs() };
            let mut answer = Vec::new();
            Response::Refused(why).put(&mut answer);
            return Reply::Done(answer);
        }
        if let Err(why) = self.may_be_given_a_term(term, &command) {
            return Reply::Failed(why);
        }
        let fencing = match fences(&command) {
            true => Some(Arc::clone(&self.fencing).lock_owned().await),
            false => None,
        };
        let losers = match self.fence_losers(term, &command) {
            Ok(losers) => losers,
            Err(why) => return Reply::Failed(why),
        };
        if let Command::Group(GroupCommand::Recover(recover)) = &command
            && let Err(why) = self.can_be_read(*recover).await
        {
            losers.iter().for_each(|id| self.volatile().leases.release(*id));
            return Reply::Failed(why);
        }
        // A task of its own, because the caller may go away: the fence stays until the outcome is known.
        let agent = Arc::clone(self);
        let (mut goes, mut changes) = (None, None);
        match &command {
            Command::Leave { id } | Command::Forget { id } => goes = Some(*id),
            Command::Libraries { known, .. } => changes = Some(known.saturating_add(1)),
            _ => {}
        }
        let once = command.is_asked_once();
        let writing = tokio::spawn(async move {
            let mut reply = agent.write(term, command).await;
            drop(fencing);
            if once && matches!(reply, Reply::NotLeader(_)) {
                // It may be in the log, and be done.
                reply = Reply::Failed("the metadata are led by another node now".to_owned());
            }
            losers.into_iter().for_each(|id| agent.volatile().leases.release(id));
            let waited = match &reply {
                Reply::Done(answer) => match (goes, changes.filter(|_| is_done(answer))) {
                    (Some(id), _) => agent.until_out(id).await.map_err(Reply::Failed),
                    (_, Some(version)) => agent.until_all_have(term, version).await,
                    _ => Ok(()),
                },
                _ => Ok(()),
            };
            waited.map_or_else(|other| other, |()| reply)
        });
        writing.await.unwrap_or_else(|why| Reply::Failed(why.to_string()))
    }

    /// A node that loses slots, or its place, must not hold a lease, and gets none before it can know (rule O1).
    /// Returns the nodes that are fenced for that, or the reason why the command must wait.
    fn fence_losers(&self, term: u64, command: &Command) -> Result<Vec<NodeId>, String> {
        let (losers, place) = match command {
            Command::Forget { id } => (vec![*id], None),
            Command::Group(GroupCommand::Recover(recover)) => (self.losers_of(*recover), None),
            Command::Copies(ChangeCopies { shard, change: Change::TakeOver { .. } }) => (self.owner_of(*shard), None),
            Command::Join { node, .. } | Command::JoinLog { node, .. } | Command::Alive { node, .. } => {
                (self.others_at(node), Some(node))
            }
            _ => return Ok(Vec::new()),
        };
        debug_assert!(fences(command), "{command}");
        let now = (self.clock)();
        let mut volatile = self.volatile();
        for (fenced, id) in losers.iter().enumerate() {
            let Err(left) = volatile.leases.fence(term, *id, now) else { continue };
            losers[..fenced].iter().for_each(|id| volatile.leases.release(*id));
            let seconds = Duration::from_nanos(left).as_secs_f64();
            return Err(match place {
                None => format!("node {id} may be alive: its lease is over in {seconds:.1} s if it does not renew it"),
                Some(Describe { host, bus_port, .. }) => format!(
                    "{host}:{bus_port} is where node {id} is, which may be alive for another {seconds:.1} s: no two nodes can be found at one place"
                ),
            });
        }
        Ok(losers)
    }

    /// Other nodes at the place that `node` claims: they would be lost to the others.
    fn others_at(&self, node: &Describe) -> Vec<NodeId> {
        let map = self.machine.map();
        let there = |other: &&crate::map::Node| node.displaces(other.id, &other.host, other.bus_port);
        map.members().filter(|other| !other.lost).filter(there).map(|other| other.id).collect()
    }

    /// Waits until a removed node no longer votes, so that its end, and then that of others, does no harm.
    async fn until_out(self: &Arc<Self>, id: NodeId) -> Result<(), String> {
        const LOOK: Duration = Duration::from_millis(20);
        let out = async {
            loop {
                // A change under way may give it a vote.
                let settled = self.changing.lock().await;
                // The next leader goes on with it.
                if self.machine.look(|applied| applied.state.has(id) || !applied.votes(id)) || self.leads().is_none() {
                    return;
                }
                drop(settled);
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(VOTES_ON, out).await.map_err(|_| {
            format!("node {id} has been taken out, but it still votes, perhaps because too few other nodes answer: if it runs, it must go on until `cluster status` no longer says that the voting nodes are being changed")
        })
    }

    /// Puts a command into the log, if this node leads in `term`. Returns when it was applied, or when this node no
    /// longer leads in that term: the next leader confirms renewals at an index above the command's.
    pub async fn write(&self, term: u64, command: Command) -> Reply {
        let (responder, answer) = openraft::impls::OneshotResponder::new_pair();
        let leader = CommittedLeaderId::new(term);
        if let Err(why) = self.raft.write(command).responder(responder).with_leader(leader).await {
            return Reply::Failed(why.to_string());
        }
        match answer.await {
            Ok(Ok(written)) => {
                // Others hear of a commit with the next message: a standby that is given a shard must not wait for that.
                let _ = self.raft.trigger().heartbeat().await;
                let mut out = Vec::new();
                written.data.put(&mut out);
                Reply::Done(out)
            }
            Ok(Err(ClientWriteError::ForwardToLeader(to))) => Reply::NotLeader(to.leader_node),
            Ok(Err(why)) => Reply::Failed(why.to_string()),
            Err(_) => Reply::Failed("the leader is stopping".to_owned()),
        }
    }

    /// Confirms with a majority that this node leads. Earlier commits come up to the returned index.
    pub async fn confirmed(&self) -> Result<u64, Reply> {
        let confirm = LinearizerOption::new(Some(Duration::ZERO), true).with_wait_timeout(self.settings.lease / 2);
        match self.raft.get_read_linearizer(confirm).await {
            Ok(confirmed) => Ok(confirmed.read_log_id().index()),
            Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(to))) => {
                Err(Reply::NotLeader(to.leader_node))
            }
            Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(few))) => {
                Err(Reply::Failed(self.too_few(&few.got)))
            }
            Err(why) => Err(Reply::Failed(why.to_string())),
        }
    }

    /// The reason why nothing can be decided: only these voters hear the leader, which is this node.
    fn too_few(&self, got: &BTreeSet<NodeId>) -> String {
        const NAMED_MAX: usize = 5;
        let voters: Vec<NodeId> = {
            let metrics = self.raft.metrics();
            metrics.borrow_watched().membership_config.membership().voter_ids().collect()
        };
        let heard = voters.iter().filter(|id| got.contains(id)).count();
        let place = |id: &NodeId| match self.known(*id) {
            Some(node) => format!("{}:{}", node.host, node.port),
            None => id.to_string(),
        };
        let silent = voters.iter().filter(|id| !got.contains(id)).take(NAMED_MAX);
        format!(
            "only {heard} of {} voting nodes answer, and more than half are needed: none comes from {}",
            voters.len(),
            silent.map(place).collect::<Vec<_>>().join(", ")
        )
    }
}

/// The identity of a node.
#[derive(Clone, Debug)]
pub struct Who {
    pub node: Describe,
    pub cluster: Option<ClusterId>,
    pub kind: Kind,
}

impl Wire for Who {
    fn put(&self, out: &mut Vec<u8>) {
        self.node.put(out);
        self.cluster.put(out);
        // A build that knows no log-servers can do nothing with one, and takes this for no answer.
        if self.kind == Kind::Log {
            out.push(1);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (node, cluster) = (Describe::read(from)?, Option::read(from)?);
        let kind = if from.is_empty() || !from.flag()? { Kind::Data } else { Kind::Log };
        Ok(Self { node, cluster, kind })
    }
}

impl Wire for ClusterId {
    fn put(&self, out: &mut Vec<u8>) {
        Self::put(self, out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Self::read(from)
    }
}

/// True if the answer to a command says that it is done.
pub fn is_done(answer: &[u8]) -> bool {
    matches!(Response::read(&mut Reader::new(answer)), Ok(Response::Done { .. }))
}

/// True if a command may take leases away: see [`Agent::fence_losers`].
fn fences(command: &Command) -> bool {
    matches!(
        command,
        Command::Forget { .. }
            | Command::Join { .. }
            | Command::JoinLog { .. }
            | Command::Alive { .. }
            | Command::Group(GroupCommand::Recover(_))
            | Command::Copies(ChangeCopies { change: Change::TakeOver { .. }, .. })
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_led_is_suspected_for_a_while() {
        let [a, b] = [1, 2].map(|n| NodeId([n; 20]));
        let mut led = Led::default();
        assert_eq!(led.look(None, BootNs(0), 10), None);
        assert_eq!(led.look(Some(a), BootNs(1), 10), None);
        assert_eq!(led.look(None, BootNs(2), 10), Some(a), "nobody leads");
        assert_eq!(led.look(Some(a), BootNs(3), 10), None, "it leads again");
        assert_eq!(led.look(Some(b), BootNs(4), 10), Some(a));
        assert_eq!(led.look(Some(b), BootNs(13), 10), Some(a));
        assert_eq!(led.look(Some(b), BootNs(14), 10), None, "the leader knows by now");
        assert_eq!(led.look(Some(a), BootNs(15), 10), Some(b));
        assert_eq!(led.look(Some(a), BootNs(15 + 10), 10), None);
    }
}
