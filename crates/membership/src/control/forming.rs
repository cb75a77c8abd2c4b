//! How a node finds its cluster: it asks all *seeds*. If one of them belongs to a cluster, the node joins that. If all
//! of them answer and none does, the one with the lowest address forms a cluster of them.
//!
//! Asking decides nothing for good. A node belongs to a cluster when that cluster's Raft has sent it a message and it
//! has written that down. Before that it votes for no node. So of two clusters that were formed by mistake at most one
//! gets a majority.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::agent::{ASK, Agent, Who};
use super::links::{Op, Reply};
use super::types::Wire;
use crate::codec::{Malformed, Reader, put_bytes, put_count};
use crate::handshake::Peer;
use crate::meta::{Command, Describe, Kind, NODES_MAX, Response, Setting, configuration};
use crate::{ClusterId, NodeId};

/// How long to wait before the seeds are asked again.
const AGAIN: Duration = Duration::from_millis(250);

/// A cluster that is to be formed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Founding {
    pub cluster: ClusterId,
    pub nodes: Vec<Describe>,
    pub settings: Vec<(String, String)>,
    /// The initial settings of the cluster.
    pub configuration: Vec<Setting>,
}

impl Wire for Founding {
    fn put(&self, out: &mut Vec<u8>) {
        self.cluster.put(out);
        put_count(out, self.nodes.len());
        self.nodes.iter().for_each(|node| node.put(out));
        put_count(out, self.settings.len());
        for (name, value) in &self.settings {
            put_bytes(out, name.as_bytes());
            put_bytes(out, value.as_bytes());
        }
        configuration::put(out, &self.configuration);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let cluster = ClusterId::read(from)?;
        let count = from.count(NODES_MAX)?;
        let nodes = (0..count).map(|_| Describe::read(from)).collect::<Result<_, _>>()?;
        let count = from.count(crate::meta::SETTINGS_MAX)?;
        let text = |from: &mut Reader<'_>| from.text(crate::meta::TEXT_MAX).map(str::to_owned);
        let settings = (0..count).map(|_| Ok((text(from)?, text(from)?))).collect::<Result<_, _>>()?;
        Ok(Self { cluster, nodes, settings, configuration: configuration::read(from)? })
    }
}

/// The result of asking all seeds.
enum Poll {
    /// There is a cluster, and one of its nodes answers.
    Cluster(ClusterId, (String, u16)),
    /// All have answered, and none belongs to a cluster.
    Unformed(BTreeMap<NodeId, (Describe, (String, u16))>),
    /// Not all have answered, or they contradict each other.
    Wait(String),
}

impl Agent {
    /// Returns when this node belongs to a cluster.
    pub async fn find_cluster(self: &Arc<Self>) {
        let mut told = String::new();
        while self.cluster().is_none() {
            let what = match self.poll().await {
                Poll::Cluster(cluster, place) => self.join(cluster, &place).await,
                Poll::Unformed(nodes) => self.found(nodes).await,
                Poll::Wait(why) => Err(why),
            };
            if let Err(why) = what {
                if why != told {
                    tracing::info!("no cluster yet: {why}");
                    told.clone_from(&why);
                }
                self.shared.say(format!("this node belongs to no cluster yet: {why}"));
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn poll(self: &Arc<Self>) -> Poll {
        let seeds = self.settings.seeds.clone();
        if seeds.is_empty() {
            let me = self.describe();
            return Poll::Unformed(BTreeMap::from([(me.id, (me, (String::new(), 0)))]));
        }
        let answers = join_all(seeds.iter().map(|seed| self.who_is_at(seed))).await;
        let (mut waiting, mut clusters, mut nodes) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        for (seed, answer) in seeds.iter().zip(answers) {
            match answer {
                Err(why) => waiting.push(format!("{}:{}: {why}", seed.0, seed.1)),
                Ok(who) => {
                    if let Some(cluster) = who.cluster {
                        clusters.insert(cluster, seed.clone());
                    } else if who.kind == Kind::Log {
                        // It waits for a cluster of others, as this node does.
                        continue;
                    } else if who.node.host.is_empty() {
                        waiting.push(format!("{}:{}: it does not know its address yet", seed.0, seed.1));
                    }
                    nodes.insert(who.node.id, (who.node, seed.clone()));
                }
            }
        }
        let mut clusters = clusters.into_iter();
        match (clusters.next(), clusters.next()) {
            (Some((one, _)), Some((other, _))) => {
                Poll::Wait(format!("the seeds belong to two clusters, {one} and {other}"))
            }
            (Some((cluster, place)), None) => Poll::Cluster(cluster, place),
            _ if !waiting.is_empty() => Poll::Wait(waiting.join("; ")),
            _ if nodes.is_empty() => Poll::Wait("every seed is a log-server".to_owned()),
            _ => Poll::Unformed(nodes),
        }
    }

    async fn who_is_at(self: &Arc<Self>, seed: &(String, u16)) -> Result<Who, String> {
        let (reply, peer, local) = self.links.ask_at((&seed.0, seed.1), Op::Who, &[], ASK).await?;
        let Reply::Done(answer) = reply else { return Err("an answer that is none".to_owned()) };
        let mut who = Who::whole(&answer).map_err(|why| why.to_string())?;
        let mut volatile = self.volatile();
        if volatile.host.is_none() {
            // The address by which the seeds know this node; if it is no seed, the one by which it has reached a node
            // of a cluster.
            if peer.party.node == self.me() {
                volatile.host = Some(seed.0.clone());
                who.node.host.clone_from(&seed.0);
            } else if who.cluster.is_some() {
                volatile.host = Some(local);
            }
        }
        Ok(who)
    }

    /// Asks the cluster to take this node in.
    async fn join(self: &Arc<Self>, cluster: ClusterId, place: &(String, u16)) -> Result<(), String> {
        self.volatile().tentative = Some(cluster);
        self.shared.say(format!("this node is joining cluster {cluster}"));
        let mut body = Vec::new();
        let (node, settings) = (self.describe(), self.agreed());
        match self.settings.kind {
            Kind::Data => Command::Join { node, settings, level: 0 },
            Kind::Log => Command::JoinLog { node, settings, level: 0 },
        }
        .put(&mut body);
        let (mut host, mut port) = place.clone();
        for _ in 0..3 {
            match self.links.ask_at((&host, port), Op::Command, &body, ASK).await?.0 {
                Reply::Failed(why) => return Err(why),
                Reply::NotLeader(None) => return Err(format!("cluster {cluster} has no leader of its metadata now")),
                Reply::NotLeader(Some(leader)) => (host, port) = (leader.host, leader.bus_port),
                Reply::Done(answer) => {
                    let response = Response::read(&mut Reader::new(&answer)).map_err(|why| why.to_string())?;
                    return match response {
                        Response::Done { .. } => Ok(()),
                        Response::Refused(why) => Err(format!("cluster {cluster} refuses this node: {why}")),
                    };
                }
            }
        }
        Err(format!("cluster {cluster} has no leader of its metadata now"))
    }

    /// Forms a cluster of `nodes`, if this node is the one to do it.
    async fn found(self: &Arc<Self>, nodes: BTreeMap<NodeId, (Describe, (String, u16))>) -> Result<(), String> {
        let first = nodes.values().map(|(node, _)| (node.place(), node.id)).min();
        let Some(((host, port), first)) = first else { return Err("there are no seeds".to_owned()) };
        if self.settings.kind == Kind::Log {
            return Err("the nodes have not formed it yet".to_owned());
        }
        if first != self.me() {
            return Err(format!("node {first} at {host}:{port} is to form it"));
        }
        let cluster = ClusterId::random(&mut |bytes| (self.random)(bytes));
        let described: Vec<Describe> = nodes.values().map(|(node, _)| node.clone()).collect();
        let (settings, configuration) = (self.agreed(), self.settings.configuration.clone());
        let founding = Founding { cluster, nodes: described, settings, configuration };
        self.volatile().forming = true;
        let formed = self.found_with(&founding, &nodes).await;
        self.volatile().forming = false;
        formed
    }

    async fn found_with(
        self: &Arc<Self>,
        founding: &Founding,
        nodes: &BTreeMap<NodeId, (Describe, (String, u16))>,
    ) -> Result<(), String> {
        let body = founding.to_bytes();
        let others = nodes.values().filter(|(node, _)| node.id != self.me());
        let asking = others.map(|(node, place)| {
            let body = &body;
            async move {
                match self.links.ask_at((&place.0, place.1), Op::Form, body, ASK).await?.0 {
                    Reply::Done(_) => Ok(()),
                    Reply::Failed(why) => Err(format!("node {} at {}:{}: {why}", node.id, place.0, place.1)),
                    Reply::NotLeader(_) => Err("an answer that is none".to_owned()),
                }
            }
        });
        join_all(asking).await.into_iter().collect::<Result<(), String>>()?;
        // Durable with the log's first entry: this node belongs to the cluster if and only if it can lead it.
        self.disk.kept().cluster = Some(founding.cluster);
        let members: BTreeMap<NodeId, Describe> = founding.nodes.iter().map(|node| (node.id, node.clone())).collect();
        self.raft.initialize(members).await.map_err(|why| why.to_string())?;
        self.links.reset();
        tracing::info!("this node has formed cluster {} of {} nodes", founding.cluster, founding.nodes.len());
        Ok(())
    }

    /// Another node would form a cluster with this one.
    pub fn hear_founding(&self, peer: &Peer, founding: &Founding) -> Reply {
        let me = self.describe();
        let ours = self.agreed();
        let differs =
            founding.settings.iter().find(|theirs| ours.iter().any(|mine| mine.0 == theirs.0 && mine.1 != theirs.1));
        let first = founding.nodes.iter().map(|node| (node.place(), node.id)).min().map(|(_, id)| id);
        let mut volatile = self.volatile();
        let why = if self.cluster().is_some() {
            "it belongs to a cluster".to_owned()
        } else if self.settings.kind == Kind::Log {
            "it is a log-server, which takes no slots".to_owned()
        } else if volatile.forming {
            "it is forming a cluster itself".to_owned()
        } else if !founding.nodes.contains(&me) {
            "it has started again since it was asked".to_owned()
        } else if first != Some(peer.party.node) {
            "another node is to form the cluster".to_owned()
        } else if let Some((name, theirs)) = differs {
            let mine = ours.iter().find(|mine| mine.0 == *name).map_or("", |mine| mine.1.as_str());
            format!("{name} is {mine} there and {theirs} here")
        } else {
            volatile.tentative = Some(founding.cluster);
            volatile.founding = Some((founding.cluster, founding.configuration.clone()));
            return Reply::Done(Vec::new());
        };
        Reply::Failed(why)
    }
}
