//! The control thread: one thread of a node for everything about its cluster: Raft, leases, joining, handshakes. The
//! rest of the process sees a [`Control`].

mod agent;
mod configuration;
mod copied;
mod copies;
mod cuts;
mod disk;
mod duties;
mod ended;
mod files;
mod folder;
mod forming;
mod granting;
mod holder;
mod kept;
mod levels;
mod libraries;
mod links;
mod network;
mod past;
mod places;
mod placing;
mod relay;
mod serve;
mod shard;
mod shelf;
mod standing;
mod status;
mod storage;
mod stream;
mod takeovers;
mod tls;
mod told;
mod types;
mod wire;
mod yields;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use openraft::{Config, Raft, SnapshotPolicy};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use agent::{Agent, Shared, Volatile};
use configuration::Configured;
use disk::Disk;
use folder::Folder;
use kept::Kept;
use libraries::Taken;
use links::Links;
use network::Network;
use places::Places;
use relay::Relays;
use shard::OfShard;
use storage::{Log, Machine};
use stream::Stream;
use tls::Tls;
use told::Told;

pub use crate::certificates::TlsFiles;
pub use configuration::{NotConfigured, OnConfiguration};
pub use copies::{CopyReport, CopyState};
pub use ended::Parent;
pub use folder::KeptError;
pub use libraries::OnLibraries;
pub use places::{Made, OnPlace, Wanted};
pub use shard::{ChangingShard, OnShard, ShardSettings};
pub use standing::{Following, HeardStandby, Standing};
pub use status::{NodeStatus, Status};
pub use yields::{OnSwitchover, Yield};

use crate::handshake::{Party, Peer, Role};
use crate::leases::Leases;
use crate::map::Map;
use crate::meta::{Command, Configuration, Kind, Response, Setting, Shard};
use crate::takeovers::Takeovers;
use crate::{AcceptorId, BootNs, ClusterId, LeaseEnd, NodeId, ShardId, level};

/// The clock of leases.
pub type BootClock = Arc<dyn Fn() -> BootNs + Send + Sync>;

/// Fills bytes with unpredictable randomness.
pub type Random = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// Takes data links.
pub type OnData = Arc<dyn Fn(DataLink) + Send + Sync>;

/// The settings of a node's membership.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder of the node's state.
    pub folder: PathBuf,
    /// The address to listen at for nodes.
    pub bind: SocketAddr,
    /// Where others find this node, a name or an address. None: its listening address, or, if that is everywhere, the
    /// one that the seeds see.
    pub host: Option<String>,
    /// The kind of member that this process is.
    pub kind: Kind,
    /// The name of the machine that this node runs on. Voters are spread over machines.
    pub machine: String,
    /// The port for clients.
    pub port: u16,
    /// The port for nodes, as others are told. 0: the listening one.
    pub bus_port: u16,
    /// The port for smart clients, as others are told. 0: it has none.
    pub client_port: u16,
    /// The places to look for a cluster: hosts and ports for nodes. None: this node forms a cluster of itself.
    pub seeds: Vec<(String, u16)>,
    /// The secret that only the nodes of the cluster know.
    pub secret: Arc<[u8]>,
    /// The certificates, if nodes speak TLS: all of them do, or none. None: they do not.
    pub tls: Option<TlsFiles>,
    /// The name of the data on the node's disks, if there are any: a node of a cluster does not start without its data.
    pub data: Option<[u8; 16]>,
    /// The highest term in the node's own log; 0: it has none. Terms of its shard are above it.
    pub log_term: u32,
    /// The node's data hold transactions over nodes: see [`Control::has_inherited`].
    pub knows_transactions: bool,
    /// Libraries of functions in the node's data: they become the cluster's, if it has never had any. Otherwise those
    /// of the cluster replace them.
    pub libraries: Option<Arc<[u8]>>,
    /// The level that a cluster needs to take these libraries.
    pub libraries_level: u16,
    /// So many nodes get slots when this node leads the forming of a cluster; 0: all of them.
    pub shards: u16,
    /// Copies of each shard's data, the owner's included, for which this node finds places as long as it leads the metadata.
    /// At most 1: operators place them.
    pub copies: u16,
    /// Other settings that must be the same on all nodes: names and values.
    pub agreed: Vec<(String, String)>,
    /// The settings of a cluster whose first node is this one.
    pub configuration: Vec<Setting>,
    /// How long a lease is.
    pub lease: Duration,
    /// How often it is renewed.
    pub renew: Duration,
    /// How often the leader of the metadata sends a heartbeat.
    pub heartbeat: Duration,
    /// How long others wait for that before they elect another: at least and at most.
    pub election: (Duration, Duration),
}

impl Settings {
    /// A node at `bind` with its state in `folder`, and the timing of clusters on a network without long pauses.
    pub fn new(folder: PathBuf, bind: SocketAddr, port: u16) -> Self {
        Self {
            folder,
            bind,
            host: None,
            kind: Kind::Data,
            machine: String::new(),
            port,
            bus_port: 0,
            client_port: 0,
            seeds: Vec::new(),
            secret: Arc::from([]),
            tls: None,
            data: None,
            log_term: 0,
            knows_transactions: false,
            libraries: None,
            libraries_level: level::FIRST,
            shards: 0,
            copies: 1,
            agreed: Vec::new(),
            configuration: Vec::new(),
            lease: Duration::default(),
            renew: Duration::default(),
            heartbeat: Duration::default(),
            election: Default::default(),
        }
        .with_lease(Duration::from_secs(2))
    }

    /// With leases of this length. A lease lasts for four renewals, and for an election: one lost message, or the end
    /// of the leader, takes no node's lease. Voters wait for the longest time first, and then for a time by chance.
    #[must_use]
    pub fn with_lease(self, lease: Duration) -> Self {
        let election = (lease * 9 / 40, lease * 3 / 8);
        Self { lease, renew: lease / 4, heartbeat: lease / 20, election, ..self }
    }
}

/// A connection for commands, after its handshake: it goes to the worker that carries them.
pub struct DataLink {
    /// A stream socket, in non-blocking mode. No byte behind the handshake has been read. With TLS it is local, and its
    /// bytes are encrypted and decrypted behind it.
    pub socket: OwnedFd,
    /// The node at its other end.
    pub peer: Peer,
    /// The argument of [`Control::dial`]; none if the other node has opened it.
    pub dialed: Option<u64>,
}

/// The reason why the control thread does not start.
#[derive(Debug)]
pub struct StartError(String);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

/// Returns the troubles of a node that serves, in words; empty: none.
pub type Trouble = Arc<dyn Fn() -> String + Send + Sync>;

/// Returns the state of each copy of the log that a node owns.
pub type CopyReports = Arc<dyn Fn() -> Vec<CopyReport> + Send + Sync>;

/// Returns how well this process is, and how far it is as a standby.
pub type Standings = Arc<dyn Fn() -> Standing + Send + Sync>;

/// Returns what an acceptor has of each stream of a shard, or why it cannot be read. Nothing: it does not say. The socket is
/// as [`DataLink::socket`].
pub type AskCopy = Arc<dyn Fn(OwnedFd, ShardId, AcceptorId) -> Result<Vec<quorum::Extent>, String> + Send + Sync>;

/// Returns why a node must have no lease yet, though it takes part: it does not have its data.
pub type MayServe = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Returns false if this process is not the one that is to run the shard which the map gives its node: the node starts
/// again for it.
pub type MayLead = Arc<dyn Fn(&Map, NodeId) -> bool + Send + Sync>;

/// The callbacks.
#[derive(Clone)]
pub struct Hooks {
    /// Gets every new map, from the control thread.
    pub on_map: Arc<dyn Fn(Arc<Map>) + Send + Sync>,
    /// Gets every data link, from the control thread.
    pub on_data: OnData,
    /// Gets the reason why [`Control::dial`] has failed, with its argument.
    pub on_no_link: Arc<dyn Fn(u64, String) + Send + Sync>,
    /// True if the node shuts down: it takes no data links any more.
    pub is_leaving: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Takes libraries of functions: this node has no lease before it has those of the cluster.
    pub on_libraries: OnLibraries,
    /// Takes the cluster's settings: this node has no lease before it has them.
    pub on_configuration: OnConfiguration,
    /// Takes the settings of this node's shard: this node has no lease before it runs by them.
    pub on_shard: OnShard,
    /// The settings of its shard by which this node runs.
    pub shard_settings: ShardSettings,
    /// The troubles of this node.
    pub trouble: Trouble,
    /// The copies of the log that this node owns.
    pub copies: CopyReports,
    /// How well this process is, and how far. Asked before a renewal, if the node has a copy of a shard with standbys.
    pub standing: Standings,
    /// Opens or makes the folder of a place in a log group.
    pub on_place: OnPlace,
    /// Gets the socket of every connection of an owner to the acceptors of this process, from the control thread. It is as
    /// [`DataLink::socket`].
    pub on_log: Arc<dyn Fn(OwnedFd) + Send + Sync>,
    /// Gets the socket of every connection of a node that wants a copy of this node's store, in the same way.
    pub on_store: Arc<dyn Fn(OwnedFd, Party) + Send + Sync>,
    /// An operator wants this node's shard at a standby.
    pub on_switchover: OnSwitchover,
    /// Asks an acceptor at the other end of a connection for logs whether it can be read. Called on a thread that may wait.
    pub ask_copy: AskCopy,
    /// Says whether this node may have a lease.
    pub may_serve: MayServe,
    /// Says whether this process may have a term of its node's shard (rule G1). Others take a process that has one for
    /// one that has the shard's log (rule T5).
    pub may_lead: MayLead,
}

/// The control thread of this process.
pub struct Control {
    agent: Arc<Agent>,
    runtime: Handle,
    hooks: Hooks,
    bus: SocketAddr,
    running: Mutex<Option<Running>>,
}

/// Tasks that end when the control thread stops.
struct Running {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
    disk: JoinHandle<()>,
}

impl Control {
    /// Reads the node's identity, listens for others, and starts the thread.
    ///
    /// # Errors
    ///
    /// The folder cannot be used, the address is taken, or a certificate cannot be read.
    pub fn start(mut settings: Settings, clock: BootClock, random: Random, hooks: Hooks) -> Result<Self, StartError> {
        let error = |what: &dyn fmt::Display| StartError(what.to_string());
        let tls = settings.tls.as_ref().map(Tls::new).transpose().map_err(StartError)?.map(Arc::new);
        let (data, knows) = (settings.data, settings.knows_transactions);
        let opened = Folder::open(&settings.folder, data, knows, &mut |bytes| random(bytes));
        let (folder, kept) = opened.map_err(|why| error(&why))?;
        let at = |why: io::Error| StartError(format!("cannot listen on {} for other nodes: {why}", settings.bind));
        let listener = TcpListener::bind(settings.bind).map_err(at)?;
        listener.set_nonblocking(true).map_err(at)?;
        let bus = listener.local_addr().map_err(at)?;
        if settings.bus_port == 0 {
            settings.bus_port = bus.port();
        }
        if settings.host.is_none() && !settings.bind.ip().is_unspecified() {
            settings.host = Some(settings.bind.ip().to_string());
        }
        let (disk, disk_thread) = Disk::start(folder, kept).map_err(|why| error(&why))?;
        let machine = Machine::new(disk.clone(), Arc::clone(&hooks.on_map)).map_err(|why| error(&why))?;
        let runtime = Builder::new_current_thread().enable_io().enable_time().build().map_err(|why| error(&why))?;
        let agent = agent(settings, tls, clock, random, disk, machine, &hooks);
        let agent = runtime.block_on(agent).map_err(StartError)?;
        let agent = Arc::new(agent);
        let (stop, stopped) = oneshot::channel();
        let handle = runtime.handle().clone();
        let (hears, running) = (hooks.clone(), Arc::clone(&agent));
        let thread = std::thread::Builder::new().name("cluster".to_owned()).spawn(move || {
            runtime.block_on(async {
                run(&running, listener, hears);
                let _ = stopped.await;
                running.hand_over().await;
                let _ = running.raft.shutdown().await;
            });
            // Tasks under way end here.
            drop(runtime);
        });
        let thread = thread.map_err(|why| error(&why))?;
        let running = Mutex::new(Some(Running { stop, thread, disk: disk_thread }));
        Ok(Self { agent, runtime: handle, hooks, bus, running })
    }

    /// True if `folder` has the state of a node.
    pub fn is_kept_in(folder: &Path) -> bool {
        folder.join(folder::FILE).exists()
    }

    /// The cluster's settings in the files of `folder`, which are only read. Other nodes may have newer ones. If the
    /// files cannot be read, the start reports it.
    pub fn known_configuration(folder: &Path) -> Configuration {
        let kept = Folder::read(folder, None).ok().flatten();
        kept.map_or_else(Configuration::default, |kept| configuration::known(&kept))
    }

    /// The cluster's level in the files of `folder`, which are only read: as far as its changes are known to be
    /// committed. [`level::FIRST`] if it belongs to no cluster, or the files cannot be read, which the start reports.
    pub fn known_level(folder: &Path) -> u16 {
        Folder::read(folder, None).ok().flatten().map_or(level::FIRST, |kept| levels::known(&kept))
    }

    /// The shard of the node whose state is in `folder`, by its files, which are only read: the last changes count, though
    /// they may not be committed. `None`: there is none, or the files cannot be read, which the start reports.
    pub fn known_shard(folder: &Path) -> Option<Shard> {
        let kept = Folder::read(folder, None).ok().flatten()?;
        let state = levels::state_of(&kept, u64::MAX);
        state.shards().find(|shard| shard.owner == kept.node).cloned()
    }

    /// The libraries and the users, as bytes, in the files of `folder`, which are only read. Other nodes may have newer
    /// ones. `None`: it belongs to no cluster, or the files cannot be read, which the start reports.
    pub fn known_libraries(folder: &Path) -> Option<Arc<[u8]>> {
        let kept = Folder::read(folder, None).ok().flatten()?;
        libraries::known(&kept).map(|known| known.payload)
    }

    /// The owner of the state in `folder`, if it is a node's; nothing is changed. `data`: the name of log and store on
    /// the node's disks.
    ///
    /// # Errors
    ///
    /// The reason why a node does not start with it.
    pub fn look(folder: &Path, data: [u8; 16]) -> Result<Option<Party>, KeptError> {
        Ok(Folder::read(folder, Some(data))?.map(|kept| kept.party()))
    }

    /// Ends the thread. Acknowledged changes are durable; tasks under way are dropped, with their completions.
    pub fn stop(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Running { stop, thread, disk }) = running {
            let _ = stop.send(());
            let _ = thread.join();
            if let Some(relays) = &self.agent.relays {
                relays.stop();
            }
            self.agent.disk.stop();
            let _ = disk.join();
        }
    }

    /// This node's name.
    pub fn id(&self) -> NodeId {
        self.agent.me()
    }

    /// How often this node has started.
    pub fn incarnation(&self) -> u64 {
        self.agent.disk.kept().incarnation
    }

    /// True if the transactions over nodes in the node's data are of another node's life, as after the restore of a
    /// backup: since the node's first start, until [`Self::settled`].
    pub fn has_inherited(&self) -> bool {
        self.agent.disk.kept().inherited
    }

    /// The node's data hold no transactions of another node any more, also not after a crash. `then` hears from the
    /// control thread that this is kept, or why it cannot be.
    pub fn settled(&self, then: impl FnOnce(Result<(), String>) + Send + 'static) {
        self.keep(|kept| kept.inherited = false, then);
    }

    /// The node has data of this name from now on, without which it does not start again. `then` is called as by
    /// [`Self::settled`].
    pub fn has_data(&self, data: [u8; 16], then: impl FnOnce(Result<(), String>) + Send + 'static) {
        self.keep(|kept| kept.data = Some(data), then);
    }

    fn keep(&self, change: impl FnOnce(&mut Kept), then: impl FnOnce(Result<(), String>) + Send + 'static) {
        let written = self.agent.disk.change(change);
        self.runtime.spawn(async move { then(written.await.map_err(|why| why.to_string())) });
    }

    /// The cluster that this node belongs to.
    pub fn cluster(&self) -> Option<ClusterId> {
        self.agent.cluster()
    }

    /// Where this node listens for others.
    pub fn bus(&self) -> SocketAddr {
        self.bus
    }

    /// The present map.
    pub fn map(&self) -> Arc<Map> {
        self.agent.machine.map()
    }

    /// The end of this node's lease: to be compared after a request's bytes have arrived (rule O1).
    pub fn lease_until(&self) -> &Arc<LeaseEnd> {
        &self.agent.shared.lease_until
    }

    /// The reason why this node has no lease, in words for people. Empty if nothing is wrong.
    pub fn reason(&self) -> String {
        self.agent.reason()
    }

    /// Nodes that hold no lease, as the leader of the metadata said last: they are down, or out of reach. A node that
    /// has just gone is among them when its lease is over.
    pub fn silent(&self) -> Arc<BTreeSet<NodeId>> {
        self.agent.known_silent()
    }

    /// Those, and a node that led until a moment ago: others have elected another, or are about to, as they do not hear
    /// it.
    pub fn suspects(&self) -> Arc<BTreeSet<NodeId>> {
        self.agent.suspects()
    }

    /// Has a command applied to the metadata; `then` hears what came of it, from the control thread. Where no node leads
    /// it waits some seconds for an election. After an error it may or may not have been applied.
    pub fn submit(&self, command: Command, then: impl FnOnce(Result<Response, String>) + Send + 'static) {
        let agent = Arc::clone(&self.agent);
        self.runtime.spawn(async move { then(agent.submit_patiently(&command).await) });
    }

    /// Changes the libraries of functions, made from those of version `known`. The control thread calls `then` with
    /// true if all nodes that serve have them. It calls it with false if other nodes have changed them, and this node
    /// has those. After an error they may or may not have been changed.
    pub fn change_libraries(
        &self,
        known: u64,
        payload: Arc<[u8]>,
        then: impl FnOnce(Result<bool, String>) + Send + 'static,
    ) {
        let agent = Arc::clone(&self.agent);
        self.runtime.spawn(async move { then(agent.change_libraries(known, payload).await) });
    }

    /// Changes settings of the cluster. The control thread calls `then` when more than half of the voting nodes have
    /// the change on their disks and this node has taken it.
    pub fn configure(&self, settings: Vec<Setting>, then: impl FnOnce(Result<(), NotConfigured>) + Send + 'static) {
        let agent = Arc::clone(&self.agent);
        self.runtime.spawn(async move { then(agent.configure(settings).await) });
    }

    /// Changes the settings of this node's shard in the metadata: they replace all. The control thread calls `then` when
    /// more than half of the voting nodes have the change on their disks. This process is to run by them then.
    pub fn set_shard(
        &self,
        settings: BTreeMap<String, String>,
        then: impl FnOnce(Result<ChangingShard, NotConfigured>) + Send + 'static,
    ) {
        let agent = Arc::clone(&self.agent);
        self.runtime.spawn(async move { then(agent.set_shard(settings).await) });
    }

    /// Opens a data link to a node: it comes to [`Hooks::on_data`] with `tag`, or a reason to [`Hooks::on_no_link`].
    pub fn dial(&self, node: NodeId, tag: u64) {
        let (agent, hooks) = (Arc::clone(&self.agent), self.hooks.clone());
        self.runtime.spawn(async move {
            match agent.dial_data(node, tag).await {
                Ok(link) => (hooks.on_data)(link),
                Err(why) => (hooks.on_no_link)(tag, why),
            }
        });
    }

    /// Opens a connection to the acceptors of a member; `then` gets its socket, from the control thread. It is as
    /// [`DataLink::socket`].
    pub fn dial_log(&self, member: NodeId, then: impl FnOnce(Result<OwnedFd, String>) + Send + 'static) {
        self.dial_for(member, Role::Log, then);
    }

    /// Opens a connection to a member for a copy of its store, in the same way.
    pub fn dial_store(&self, member: NodeId, then: impl FnOnce(Result<OwnedFd, String>) + Send + 'static) {
        self.dial_for(member, Role::Store, then);
    }

    fn dial_for(&self, member: NodeId, role: Role, then: impl FnOnce(Result<OwnedFd, String>) + Send + 'static) {
        let agent = Arc::clone(&self.agent);
        self.runtime.spawn(async move {
            let dialed = agent.dial_member(member, role).await;
            then(dialed.and_then(|(stream, _)| agent.carried(stream).map_err(|why| why.to_string())));
        });
    }

    /// Has new connections use other certificates, if nodes speak TLS. Reads the files.
    ///
    /// # Errors
    /// Which file cannot be used, and why; those of before stay.
    pub fn set_tls(&self, files: &TlsFiles) -> Result<(), String> {
        self.agent.links.tls().map_or(Ok(()), |tls| tls.change(files))
    }

    /// How the cluster is, as this node and the leader know it; `then` hears it, from the control thread.
    pub fn status(&self, then: impl FnOnce(Status) + Send + 'static) {
        let agent = Arc::clone(&self.agent);
        self.runtime.spawn(async move { then(agent.status().await) });
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Agent {
    pub(super) async fn dial_member(&self, node: NodeId, role: Role) -> Result<(Stream, Peer), String> {
        let place = self.known(node).ok_or_else(|| format!("the cluster has no node {node}"))?;
        let dialed = self.links.dial((&place.host, place.bus_port), role).await;
        let (stream, peer) = dialed.map_err(|why| why.to_string())?;
        if peer.party.node != node {
            return Err(format!("another node, {}, is at {}:{}", peer.party.node, place.host, place.bus_port));
        }
        Ok((stream, peer))
    }

    async fn dial_data(&self, node: NodeId, tag: u64) -> Result<DataLink, String> {
        let (stream, peer) = self.dial_member(node, Role::Data).await?;
        let socket = self.carried(stream).map_err(|why| why.to_string())?;
        Ok(DataLink { socket, peer, dialed: Some(tag) })
    }

    /// A socket that leads to where the connection does.
    pub(super) fn carried(&self, stream: Stream) -> io::Result<OwnedFd> {
        match (stream, &self.relays) {
            (Stream::Plain(socket), _) => Ok(socket.into_std()?.into()),
            (Stream::Tls(stream), Some(relays)) => relays.carry(stream),
            (Stream::Tls(_), None) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

async fn agent(
    settings: Settings,
    tls: Option<Arc<Tls>>,
    clock: BootClock,
    random: Random,
    disk: Disk,
    machine: Machine,
    hooks: &Hooks,
) -> Result<Agent, String> {
    let relays = tls.as_ref().map(|_| Relays::start()).transpose().map_err(|why| why.to_string())?;
    let levels = machine.levels.clone();
    let links = Links::new(disk.clone(), Arc::clone(&settings.secret), tls, Arc::clone(&random), levels.clone());
    let links = Arc::new(links);
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let config = Config {
        cluster_name: "holdfast".to_owned(),
        heartbeat_interval: millis(settings.heartbeat),
        election_timeout_min: millis(settings.election.0),
        election_timeout_max: millis(settings.election.1),
        install_snapshot_timeout: 5000,
        max_payload_entries: 64,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(200),
        max_in_snapshot_log_to_keep: 50,
        enable_pre_vote: Some(true),
        // A node that starts again is called at once: clients wait until it knows its part.
        backoff: "25ms".to_owned(),
        // A leader that starts again has forgotten the leases it has granted: it is elected anew.
        enable_leader_restore: Some(false),
        ..Config::default()
    };
    let config = config.validate().map_err(|why| why.to_string())?;
    let me = disk.kept().node;
    let found = configuration::known(&disk.kept()).version();
    let found_libraries = libraries::known(&disk.kept()).map_or(0, |known| known.version);
    let network = Network { links: Arc::clone(&links), machine: machine.clone(), acknowledged: Arc::default() };
    let raft = Raft::new(me, Arc::new(config), network, Log(disk.clone()), machine.clone()).await;
    let raft = raft.map_err(|why| why.to_string())?;
    let reason = Mutex::new("this node is starting".to_owned());
    let shared = Shared {
        lease_until: Arc::default(),
        reason,
        silent: Mutex::default(),
        led: Mutex::default(),
        leased: Mutex::default(),
        standbys: Mutex::default(),
    };
    let leases = Leases::new(settings.lease.as_nanos() as u64);
    let volatile = Mutex::new(Volatile {
        host: settings.host.clone(),
        tentative: None,
        founding: None,
        forming: false,
        leases,
        refused: Told::default(),
        libraries: BTreeMap::new(),
        troubles: BTreeMap::new(),
        copies: BTreeMap::new(),
        standings: BTreeMap::new(),
        takeovers: Takeovers::new(millis(settings.lease), millis(settings.renew)),
        told_of_shards: Told::default(),
        watched: granting::Watched::default(),
        gave_way: BootNs::default(),
        unplaced: String::new(),
    });
    Ok(Agent {
        settings,
        clock,
        random,
        disk,
        machine,
        links,
        levels,
        relays,
        raft,
        shared: Arc::new(shared),
        volatile,
        libraries: Taken::new(found_libraries, Arc::clone(&hooks.on_libraries)),
        configured: Configured::new(found, Arc::clone(&hooks.on_configuration)),
        of_shard: OfShard::new(Arc::clone(&hooks.on_shard), Arc::clone(&hooks.shard_settings)),
        trouble: Arc::clone(&hooks.trouble),
        copies: Arc::clone(&hooks.copies),
        standing: Arc::clone(&hooks.standing),
        looks_at_shards: tokio::sync::Notify::new(),
        places: Places::new(Arc::clone(&hooks.on_place)),
        may_serve: Arc::clone(&hooks.may_serve),
        on_switchover: Arc::clone(&hooks.on_switchover),
        asks_copies: (Arc::clone(&hooks.ask_copy), Arc::clone(&hooks.on_log)),
        may_lead: Arc::clone(&hooks.may_lead),
        changing: tokio::sync::Mutex::default(),
        fencing: Arc::default(),
    })
}

/// Starts all that a node does; it ends with the runtime.
fn run(agent: &Arc<Agent>, listener: TcpListener, hooks: Hooks) {
    match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => drop(tokio::spawn(serve::accept(Arc::clone(agent), listener, hooks))),
        Err(why) => tracing::error!("other nodes cannot connect: {why}"),
    }
    tokio::spawn(Arc::clone(agent).duties());
    tokio::spawn(Arc::clone(agent).decide_takeovers());
    tokio::spawn(Arc::clone(agent).keep_libraries());
    tokio::spawn(Arc::clone(agent).keep_configuration());
    tokio::spawn(Arc::clone(agent).keep_places());
    let agent = Arc::clone(agent);
    tokio::spawn(async move {
        if agent.cluster().is_none() {
            agent.find_cluster().await;
        } else if !agent.may_take_part().await {
            return;
        }
        agent.announce().await;
        agent.renew().await;
    });
}
