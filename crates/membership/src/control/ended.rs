//! Proof of death (rule S12): the parent of a process has waited for it, and tells the leader of the metadata.
//!
//! The parent speaks in the name of the process that has ended. That name is a node and one of its lives, and nobody else
//! uses it any more. So a connection that proves the cluster's secret says all there is to say, and the parent needs
//! neither a membership of its own nor another node of its machine that lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use standby::{NodeNumber, Process};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use super::agent::Agent;
use super::links::{self, Op, Reply};
use super::tls::Tls;
use super::wire;
use super::{Random, TlsFiles};
use crate::handshake::{Party, Peer, Role};
use crate::meta::Describe;

/// The time between two tries.
const AGAIN: Duration = Duration::from_millis(50);

/// How long one member may take to answer: a leader asks a majority first.
const ANSWER: Duration = Duration::from_secs(1);

/// How long a parent tries. By then a lease that the process may have had is over.
const TRIES: Duration = Duration::from_secs(30);

/// What a parent needs to be heard by nodes.
#[derive(Clone)]
pub struct Parent {
    /// The secret that only the nodes of the cluster know.
    pub secret: Arc<[u8]>,
    /// The certificates, if nodes speak TLS.
    pub tls: Option<TlsFiles>,
    /// Fills bytes with unpredictable randomness.
    pub random: Random,
}

impl Parent {
    /// Tells the leader of the metadata that a process has ended. `members`: hosts and ports for nodes, where a leader, or
    /// nodes that know it, may be found. Tries for half a minute, and waits for that on this thread. Once `is_over` is set
    /// it ends before the next try.
    ///
    /// Call it only after a wait for exactly this process (`waitpid`), and never on the ground of a lost connection: the
    /// leader gives the shard of the process to a standby at once.
    ///
    /// # Errors
    /// No leader has heard it, or the members refuse the name: a later life of the node is known, which says the same. In
    /// words.
    pub fn tell_end(&self, ended: Party, members: &[(String, u16)], is_over: &AtomicBool) -> Result<(), String> {
        let tls = self.tls.as_ref().map(Tls::new).transpose()?.map(Arc::new);
        let runtime = Builder::new_current_thread().enable_io().enable_time().build().map_err(|why| why.to_string())?;
        let telling = async {
            let mut why = "no member is known".to_owned();
            while !is_over.load(SeqCst) {
                match self.tell_once(ended, members, tls.as_ref()).await {
                    Ok(()) => return Ok(()),
                    Err(what) => why = what,
                }
                sleep(AGAIN).await;
            }
            Err(why)
        };
        runtime
            .block_on(async { timeout(TRIES, telling).await.unwrap_or_else(|_| Err("no leader answers".to_owned())) })
    }

    async fn tell_once(&self, ended: Party, members: &[(String, u16)], tls: Option<&Arc<Tls>>) -> Result<(), String> {
        let mut why = "no member is known".to_owned();
        for (host, port) in members {
            let (mut host, mut port) = (host.clone(), *port);
            // A node names the leader, which may have changed by then.
            for _ in 0..3 {
                match timeout(ANSWER, self.tell(ended, (&host, port), tls)).await {
                    Ok(Ok(Reply::Done(_))) => return Ok(()),
                    Ok(Ok(Reply::NotLeader(Some(Describe { host: of, bus_port, .. })))) => {
                        (host, port) = (of, bus_port)
                    }
                    Ok(Ok(Reply::NotLeader(None))) => {
                        why = "no leader of the cluster's metadata is known".to_owned();
                        break;
                    }
                    Ok(Ok(Reply::Failed(what)) | Err(what)) => {
                        why = format!("{host}:{port}: {what}");
                        break;
                    }
                    Err(_) => {
                        why = format!("{host}:{port}: no answer");
                        break;
                    }
                }
            }
        }
        Err(why)
    }

    async fn tell(&self, ended: Party, place: (&str, u16), tls: Option<&Arc<Tls>>) -> Result<Reply, String> {
        let mut nonce = [0; 32];
        (self.random)(&mut nonce);
        let dialed = wire::dial(place, tls, ended, &self.secret, Role::Control, &nonce).await;
        let (stream, _) = dialed.map_err(|why| why.to_string())?;
        links::ask_on(stream, Op::Ended, &[]).await
    }
}

impl Agent {
    /// The parent of this process has waited for it (rule S12). The handshake has checked that no later life is known.
    pub(super) async fn hear_of_end(&self, peer: &Peer) -> Reply {
        let Some(term) = self.leads() else { return Reply::NotLeader(self.leader().0) };
        let Some(node) = self.machine.map().member(peer.party.node).map(|member| NodeNumber(member.number)) else {
            return Reply::Failed(format!("the cluster has no node {}", peer.party.node));
        };
        let process = Process { node, life: peer.party.incarnation };
        tracing::info!("start {} of node {} has ended, as its parent says", process.life, peer.party.node);
        {
            let mut volatile = self.volatile();
            let shards = self.machine.look(|applied| applied.state.copied_shards());
            volatile.takeovers.ended(term, &shards, process, (self.clock)().ms());
        }
        self.look_at_shards();
        // A leader that was deposed decides nothing: the parent has to find the next one.
        match self.confirmed().await {
            Ok(_) => Reply::Done(Vec::new()),
            Err(reply) => reply,
        }
    }
}
