//! A node's actions to hold its lease, and to make its place known.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::select;
use standby::{Change, Process};
use tokio::time::timeout;

use super::agent::Agent;
use super::granting::{Granted, Renewal, TROUBLE_MAX};
use super::links::Op;
use super::types::Wire;
use crate::meta::{ChangeCopies, Command, Lead, Refusal, Response, Shard};
use crate::{BootNs, Term, level};

/// Attempts to be known by the cluster that a node does not log: they fail while a cluster forms.
const QUIET: u32 = 4;

impl Agent {
    /// Finds out whether this node may take part, or whether its folder is an older copy. In that case it takes part no
    /// more.
    pub async fn may_take_part(self: &Arc<Self>) -> bool {
        let (mut told, mut attempts) = (String::new(), 0);
        loop {
            match self.is_older_copy().await {
                Ok(None) => return true,
                Ok(Some(why)) => {
                    self.retire(&why).await;
                    return false;
                }
                Err(why) => self.wait_with(why, &mut told, &mut attempts).await,
            }
        }
    }

    /// Tells the cluster that this node has started, and where it is. Returns when the cluster knows.
    pub async fn announce(self: &Arc<Self>) {
        if self.volatile().host.is_none() {
            self.find_host().await;
        }
        let node = self.describe();
        let command = Command::Alive { node: node.clone(), settings: self.agreed(), level: 0 };
        let (mut told, mut attempts) = (String::new(), 0);
        loop {
            let why = match self.submit(&command).await {
                Ok(Response::Done { .. }) => return,
                Ok(Response::Refused(why @ Refusal::NotFormed)) => why.to_string(),
                Ok(Response::Refused(Refusal::Unknown(_))) => {
                    "the cluster has forgotten this node; with an empty dir it would join as a new one".to_owned()
                }
                Ok(Response::Refused(why)) => format!("the cluster refuses this node: {why}"),
                // The answer may have been late. On a slow disk every answer is, and each further try slows it more.
                Err(_) if self.known(node.id).as_ref() == Some(&node) => return,
                Err(why) => why,
            };
            self.wait_with(why, &mut told, &mut attempts).await;
        }
    }

    /// Logs once why the cluster does not know this node yet, if that lasts, and waits a moment.
    async fn wait_with(&self, why: String, told: &mut String, attempts: &mut u32) {
        *attempts = attempts.saturating_add(1);
        if why != *told && *attempts > QUIET {
            tracing::info!("the cluster has not taken note of this start yet: {why}");
            told.clone_from(&why);
        }
        self.shared.say(why);
        tokio::time::sleep(self.settings.renew).await;
    }

    /// The place of a node that belongs to a cluster and was not told where it is. It is its former place, or that of a
    /// seed. A node that is no seed takes the address from which it reaches them.
    async fn find_host(self: &Arc<Self>) {
        // A cluster of one may have been formed before its node knew.
        if let Some(known) = self.known(self.me()).filter(|known| !known.host.is_empty()) {
            self.volatile().host = Some(known.host);
            return;
        }
        loop {
            let mut local = None;
            for seed in &self.settings.seeds {
                let asked = self.links.ask_at((&seed.0, seed.1), Op::Who, &[], super::agent::ASK).await;
                let Ok((_, peer, from)) = asked else { continue };
                if peer.party.node == self.me() {
                    self.volatile().host = Some(seed.0.clone());
                    return;
                }
                local = Some(from);
            }
            if local.is_some() {
                self.volatile().host = local;
                return;
            }
            if self.settings.seeds.is_empty() {
                tracing::warn!(
                    "cluster-announce-ip is not set: this node announces 127.0.0.1, where other machines do not find it"
                );
                self.volatile().host = Some("127.0.0.1".to_owned());
                return;
            }
            tokio::time::sleep(self.settings.renew).await;
        }
    }

    /// Renews the lease for ever, and at once when there are other libraries, because a client waits for that. A late
    /// answer to a renewal does not keep the next one from being sent.
    pub async fn renew(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(self.settings.renew);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut libraries = self.libraries.version();
        loop {
            select(pin!(ticks.tick()), pin!(libraries.changed())).await;
            let agent = Arc::clone(&self);
            tokio::spawn(async move {
                if let Err(why) = (agent.may_serve)() {
                    // A log that has copies is taken over in the term that is asked for here.
                    agent.excuse(why);
                    return agent.take_term().await;
                }
                match agent.renew_once().await {
                    Ok(()) => {
                        agent.shared.say("");
                        agent.locate().await;
                        agent.take_term().await;
                        agent.tell_shard_settings().await;
                    }
                    Err(why) => agent.excuse(why),
                }
            });
        }
    }

    async fn renew_once(self: &Arc<Self>) -> Result<(), String> {
        let (id, incarnation) = {
            let kept = self.disk.kept();
            (kept.node, kept.incarnation)
        };
        // A node that does not ask has no lease soon: no client waits for it to have them.
        let libraries = self.has_libraries()?;
        let mut trouble = self.troubles();
        trouble.truncate(trouble.floor_char_boundary(TROUBLE_MAX));
        let (copies, standing) = (self.reported_copies(), self.standing());
        let body = Renewal { id, incarnation, libraries, trouble, copies, standing }.to_bytes();
        // The lease runs from here (rule O1).
        let sent = (self.clock)();
        let answer = self.ask_leader(Op::Renew, &body).await?;
        let granted = Granted::whole(&answer).map_err(|_| "an answer that is none".to_owned())?;
        let Granted { index, silent, of_shard } = granted;
        self.watch(&silent);
        self.shared.hear_of_silent(silent);
        // Slots that were given away before the renewal was granted are gone from the map before the lease counts.
        let mut applied = self.machine.index();
        let waited = timeout(self.settings.lease, applied.wait_for(|applied| *applied >= index)).await;
        waited
            .map_err(|_| "it has not heard of the latest changes".to_owned())?
            .map_err(|_| "this node is stopping".to_owned())?;
        self.until_it_has_libraries().await?;
        self.until_it_has_configuration().await?;
        self.until_it_has_shard_settings().await?;
        let (before, now) = (self.shared.lease_until.get(), (self.clock)());
        let until = sent.after(self.settings.lease.as_nanos() as u64);
        self.shared.lease_until.extend(until);
        self.shared.hear_of_lease(of_shard, sent, until);
        if before > BootNs::default() && before < now {
            tracing::warn!("this node was without a lease for {} ms", now.0.saturating_sub(before.0) / 1_000_000);
        }
        Ok(())
    }

    /// Tells the cluster on which machine this node runs, if the metadata have room for it and do not know it. It may
    /// fail: the next renewal tells it again.
    async fn locate(self: &Arc<Self>) {
        let (map, machine) = (self.machine.map(), &self.settings.machine);
        let is_me = |node: &&crate::map::Node| node.id == self.me() && node.machine != *machine;
        let Some(node) = map.members().find(is_me).filter(|_| map.level() >= level::MACHINES) else { return };
        let locate = Command::Locate { id: node.id, incarnation: node.incarnation, machine: machine.clone() };
        let why = match self.submit(&locate).await {
            Ok(Response::Done { .. }) => return,
            Ok(Response::Refused(why)) => why.to_string(),
            Err(why) => why,
        };
        tracing::debug!("the cluster has not taken note of this node's machine: {why}");
    }

    /// Asks for a term of this node's shard, unless this process has been given one (rule G1), or has the log of another
    /// shard. It may fail: the next renewal asks again.
    async fn take_term(self: &Arc<Self>) {
        let (id, incarnation) = {
            let kept = self.disk.kept();
            (kept.node, kept.incarnation)
        };
        let map = self.machine.map();
        let lacks = |shard: &&Shard| shard.incarnation != incarnation && map.level() >= level::SHARDS;
        let Some(shard) = map.shards_of(id).find(lacks) else { return };
        if !(self.may_lead)(&map, id) {
            return;
        }
        let (number, known) = (shard.id, shard.term);
        let command = match map.data_copies(shard).filter(|_| shard.has_standbys()) {
            None => Command::Lead(Lead { shard: number, known, id, incarnation, of_log: self.settings.log_term }),
            Some(copies) => {
                let by = Process { node: copies.owner().node, life: incarnation };
                let of_log = Term::new(self.settings.log_term).unwrap_or(Term::MAX);
                // Reads that an earlier life has answered may count for a while (rule S7).
                let rests_ms = standby::Settings::default().rests_ms();
                Command::Copies(ChangeCopies { shard: number, change: Change::Lead { known, by, of_log, rests_ms } })
            }
        };
        match self.submit(&command).await {
            Ok(Response::Done { .. }) => {}
            Ok(Response::Refused(why)) => tracing::debug!("this start has no term of shard {}: {why}", number.0),
            Err(why) => tracing::debug!("this start has no term of shard {}: {why}", number.0),
        }
    }

    /// Logs why the lease is not renewed, if it is over or will be.
    fn excuse(&self, why: String) {
        let now = (self.clock)();
        if self.shared.lease_until.get() <= now {
            self.shared.say(format!("this node has no lease: {why}"));
        }
    }
}
