//! The leader's part in takeovers: it looks at shards with standbys, and proposes what [`crate::takeovers`] decides.

use std::sync::Arc;
use std::time::Duration;

use clocks::BootMs;
use standby::{Change, NodeNumber, Position, Process, Refused, Standby, Why};
use tokio::time::timeout;

use super::agent::{Agent, Volatile, is_done};
use super::granting::Renewal;
use super::links::Reply;
use super::standing::{Following, ShardLease, Standing};
use crate::codec::Reader;
use crate::meta::{ChangeCopies, Command, Lead, Response};
use crate::takeovers::{CopiedShard, Takeover};
use crate::{BootNs, NodeId};

impl Agent {
    /// Decides on takeovers for ever, as long as this node leads. It sleeps while there is nothing to decide.
    pub async fn decide_takeovers(self: Arc<Self>) {
        loop {
            let looked = self.looks_at_shards.notified();
            match self.propose_takeovers() {
                BootMs::NEVER => looked.await,
                until => {
                    let wait = Duration::from_millis(until.since((self.clock)().ms()).max(1));
                    let _ = timeout(wait, looked).await;
                }
            }
        }
    }

    /// Wakes [`Self::decide_takeovers`], if there is a shard with standbys.
    pub fn look_at_shards(&self) {
        if self.machine.look(|applied| applied.state.has_standbys()) {
            self.looks_at_shards.notify_one();
        }
    }

    /// Proposes the takeovers that are due. Returns when to ask again.
    fn propose_takeovers(self: &Arc<Self>) -> BootMs {
        let Some(term) = self.leads() else { return BootMs::NEVER };
        let (due, again) = {
            let mut volatile = self.volatile();
            // Under the lock: a takeover that was committed is seen here before it counts as done.
            let shards = self.machine.look(|applied| applied.state.copied_shards());
            volatile.takeovers.decide(term, &shards, (self.clock)().ms())
        };
        for takeover in due {
            tokio::spawn(Arc::clone(self).take_over(term, takeover));
        }
        again
    }

    async fn take_over(self: Arc<Self>, term: u64, Takeover { shard, change, why }: Takeover) {
        // Another command may be about to take the shard from its owner. It looks at the owner of then.
        let fencing = Arc::clone(&self.fencing).lock_owned().await;
        let command = Command::Copies(ChangeCopies { shard, change });
        let because = match why {
            Why::Silent => "its owner has not renewed its lease",
            Why::Ended => "its owner's process has ended",
            Why::Yielded => "its owner has given it up",
        };
        let (who, known) = match change {
            Change::TakeOver { to, known, .. } => (self.place_of(to.node), known.get()),
            _ => Default::default(),
        };
        let of = format!("shard {} after term {known}", shard.0);
        self.say_once(&of, format!("node {who} takes over shard {}: {because}", shard.0));
        let reply = self.write(term, command).await;
        drop(fencing);
        let is_taken = matches!(&reply, Reply::Done(answer) if is_done(answer));
        if !is_taken {
            self.say_once(&of, format!("shard {} was not taken over: {}", shard.0, self.in_words(&reply)));
        }
        let failed = self.volatile().takeovers.done(shard, is_taken, (self.clock)().ms());
        if is_taken && failed > 0 {
            tracing::warn!("node {who} has taken over shard {}, after {failed} tries that failed", shard.0);
        }
        self.looks_at_shards.notify_one();
    }

    /// Logs a line about a shard in a term, unless it is there already: what fails is tried again and again.
    fn say_once(&self, of: &str, line: String) {
        if self.volatile().told_of_shards.is_new(of, &line) {
            tracing::warn!("{line}");
        }
    }

    /// The reason of a reply that is no success.
    fn in_words(&self, reply: &Reply) -> String {
        match reply {
            Reply::Done(answer) => match Response::read(&mut Reader::new(answer)) {
                Ok(Response::Refused(why)) => why.in_words(&self.machine.map()),
                Ok(Response::Done { .. }) => String::new(),
                Err(why) => why.to_string(),
            },
            Reply::NotLeader(_) => "the metadata are led by another node now".to_owned(),
            Reply::Failed(why) => why.clone(),
        }
    }

    /// Where clients find a node, for people to read.
    fn place_of(&self, number: NodeNumber) -> String {
        let map = self.machine.map();
        let node = map.nodes().iter().find(|node| node.number == number.0);
        node.map_or_else(|| format!("number {}", number.0), |node| format!("{}:{}", node.host, node.port))
    }

    /// Judges a renewal. Returns what the owner of a shard with standbys gets besides its lease, if it is one.
    ///
    /// # Errors
    /// The process owns such a shard, and another one is to have it.
    pub fn judge(&self, volatile: &mut Volatile, term: u64, renewal: &Renewal) -> Result<Option<ShardLease>, Refused> {
        // Under the lock, as for takeovers.
        let shards = self.machine.look(|applied| applied.state.copied_shards());
        let Some(node) = self.known_number(renewal.id).filter(|_| !shards.is_empty()) else { return Ok(None) };
        let Standing { health, following } = renewal.standing.unwrap_or_default();
        let machine = |id| self.machine.map().member(id).map(|member| member.machine.clone()).unwrap_or_default();
        let position = following.map(|Following { log, behind_bytes, priority, .. }| Position {
            log,
            behind_bytes,
            priority,
            is_beside_leader: machine(renewal.id) == machine(self.me()),
        });
        let renewal = standby::Renewal { process: Process { node, life: renewal.incarnation }, health, position };
        let now = (self.clock)();
        let of_shard = volatile.takeovers.renew(term, &shards, renewal, now.ms())?;
        Ok(of_shard.and_then(|term| {
            let shard = shards.iter().find(|shard| shard.copies.owner() == renewal.process)?;
            Some(ShardLease { term, standbys: self.heard(volatile, shard, now) })
        }))
    }

    /// The pinned standbys of a shard that have said lately how far they are, and how many milliseconds ago.
    fn heard(&self, volatile: &Volatile, shard: &CopiedShard, now: BootNs) -> Vec<(Process, u64, Following)> {
        let map = self.machine.map();
        let pinned = shard.copies.standbys().filter(|(_, standby)| standby.is_pinned);
        let heard = |(node, standby): (NodeNumber, &Standby)| {
            let id = map.nodes().iter().find(|member| member.number == node.0)?.id;
            let reported = volatile.standings.get(&id).filter(|reported| reported.life >= standby.life)?;
            let ago = now.0.saturating_sub(reported.at.0);
            let following = reported.standing.following.filter(|_| ago < self.settings.lease.as_nanos() as u64)?;
            Some((Process { node, life: reported.life }, ago.div_ceil(1_000_000), following))
        };
        pinned.filter_map(heard).collect()
    }

    fn known_number(&self, id: NodeId) -> Option<NodeNumber> {
        let map = self.machine.map();
        map.index_of(id).map(|index| NodeNumber(map.node(index).number))
    }

    /// Checks that a process that asks for a term of its node's shard may be given it.
    ///
    /// # Errors
    /// A standby goes before it. In words.
    pub fn may_be_given_a_term(&self, term: u64, command: &Command) -> Result<(), String> {
        let (shard, process) = match command {
            Command::Lead(Lead { shard, id, incarnation, .. }) => match self.known_number(*id) {
                Some(node) => (*shard, Process { node, life: *incarnation }),
                None => return Ok(()),
            },
            Command::Copies(ChangeCopies { shard, change: Change::Lead { by, .. } }) => (*shard, *by),
            _ => return Ok(()),
        };
        let mut volatile = self.volatile();
        let shards = self.machine.look(|applied| applied.state.copied_shards());
        match volatile.takeovers.may_lead(term, &shards, (shard, process), (self.clock)().ms()) {
            true => Ok(()),
            false => Err(format!("a standby takes over shard {}", shard.0)),
        }
    }
}
