//! The server's part in a cluster: the thread that keeps the metadata with the other nodes, and what it tells the
//! workers.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::ffi::OsStr;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use membership::control::{Control, DataLink, HeardStandby, Hooks, Settings as ControlSettings, Status, TlsFiles};
use membership::meta::{Command, Configuration, HAS_LOG, LIBRARIES_MAX, Response, Setting, Shard};
use membership::{BootNs, LeaseEnd, Map, NodeId, NodeNumber, ShardId, level};
use net::Links;
use node::cluster::{
    Administration, Agreed, Changed, Cluster, Lease, LibrariesChanged, SettingsChanged, ShardChanged, join, split,
    take_agreed,
};
use node::config::{Live, Settings, seeds};
use node::{Clock, Node};
use redolog::Format;

use super::again::Again;
use super::bootstrap::Bootstraps;
use super::chance::{self, Source};
use super::clock::SystemClock;
use super::copies;
use super::machine;
use super::ownership::Ownership;
use super::places::Places;
use super::standby::{self, Begins, StandsBy};
use super::switch::Switch;
use crate::agent::child;

/// Between the port for clients and that for nodes, as in Redis.
pub const BUS: u16 = 10_000;

/// The folder of a node's metadata.
fn folder(settings: &Settings) -> PathBuf {
    Path::new(OsStr::from_bytes(&settings.dir)).join("cluster")
}

/// Refuses to serve a cluster's data alone: the other nodes own most of the keys, and may have got these, too.
///
/// # Errors
/// If the settings name no cluster, and `dir` is that of a node of one.
pub fn check(settings: &Settings) -> Result<(), Box<dyn Error>> {
    let folder = folder(settings);
    if settings.takes_part_in_cluster() || !Control::is_kept_in(&folder) {
        return Ok(());
    }
    let folder = folder.display();
    Err(format!(
        "{folder} makes this server a node of a cluster, but neither cluster-seeds nor cluster-enabled is set: start it with the cluster-seeds that it had. \
         (To make it a server by itself, with the keys that this node has, remove {folder}: the cluster will not take it back as this node.)"
    )
    .into())
}

/// Refuses a node of a cluster whose data is gone, before the start makes new directories in its place. A directory
/// that an operator moves back would land inside such a new one. Data of another node shows later, when the log has
/// been read.
///
/// # Errors
/// If the node's folder names data, and there is none.
pub fn check_data(settings: &Settings, dir: &Path) -> Result<(), Box<dyn Error>> {
    if settings.appendonly && settings.takes_part_in_cluster() && Places::of(settings, dir).hold_nothing() {
        // No data has this name.
        Control::look(&folder(settings), chance::random()?)?;
    }
    Ok(())
}

/// The format of the log that the server writes (rule U1). A node writes a later one when it starts at a level that has
/// it. Until then it may go back to an earlier build, and the log with it. A new node has no earlier build to go back to.
/// `is_new`: the log is empty.
pub fn log_format(settings: &Settings, dir: &Path, is_new: bool) -> Format {
    let folder = dir.join("cluster");
    let may = !settings.takes_part_in_cluster()
        || Control::known_level(&folder) >= level::LOG_FRAMES
        || is_new && !Control::is_kept_in(&folder);
    if may { Format::Four } else { Format::Three }
}

/// Takes the settings of the server's cluster from its files. This comes before clients, because a password of the
/// cluster keeps some out. It comes before reading data, because the cluster's limits choose the encodings of values, and
/// the settings of the node's shard say whether there is a log.
pub fn take_known_settings(live: &Live) {
    let settings = live.settings();
    if settings.takes_part_in_cluster() {
        let known = Control::known_configuration(&folder(&settings));
        if known.version() > 0 {
            live.take(known.values());
        }
        if let Some(shard) = known_shard(&settings)
            && let Err(why) = take_settings_of(live, &shard)
        {
            tracing::warn!("{why}");
        }
    }
}

pub(super) fn take_settings_of(live: &Live, shard: &Shard) -> Result<(), String> {
    let settings = shard.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    live.take_of_shard(settings).map_err(|why| String::from_utf8_lossy(&why.text()).into_owned())
}

/// Takes the users of the server's cluster from its files, before clients come: a user that is gone, or may do less by
/// now, must not come back with this node.
///
/// # Errors
///
/// They cannot be read.
pub fn take_known_users(node: &Node) -> Result<(), Box<dyn Error>> {
    let settings = node.config.settings();
    if !settings.takes_part_in_cluster() {
        return Ok(());
    }
    match Control::known_libraries(&folder(&settings)) {
        Some(payload) => Ok(node::users::take_known(node, &payload)?),
        None => Ok(()),
    }
}

/// Refuses to join a cluster with keys: most would belong to other nodes, and the rest might return long after the
/// cluster deleted them. It also refuses libraries, because those of the cluster would replace them.
fn check_new(settings: &Settings, node: &Node) -> Result<(), Box<dyn Error>> {
    let keys: u64 = (0..settings.databases).map(|db| node.engine.keyspace.len(db)).sum();
    let (libraries, _) = node.scripts.libraries().count();
    if keys == 0 && libraries == 0 || settings.cluster_seeds.is_empty() || Control::is_kept_in(&folder(settings)) {
        return Ok(());
    }
    Err(format!(
        "this server has {keys} keys and {libraries} libraries of functions, and is no node of a cluster yet: a new node starts with an empty dir. (Started once \
         with cluster-enabled yes and without cluster-seeds, it forms a cluster of itself with these, which other nodes may join.)"
    )
    .into())
}

/// Refuses to make a cluster of a server whose libraries are more than a cluster's may be: it would never have a lease.
fn check_size(libraries: Option<&[u8]>, folder: &Path) -> Result<(), Box<dyn Error>> {
    let bytes = libraries.map_or(0, <[u8]>::len);
    if bytes <= LIBRARIES_MAX || Control::is_kept_in(folder) {
        return Ok(());
    }
    Err(format!(
        "this server has {bytes} bytes of libraries of functions and users, and a cluster may have {LIBRARIES_MAX}: start it without cluster-enabled, and delete some"
    )
    .into())
}

/// The lease that the control thread renews.
struct Renewed {
    until: Arc<LeaseEnd>,
    control: Arc<Control>,
}

impl Lease for Renewed {
    fn until(&self) -> BootNs {
        self.until.get()
    }

    fn reason(&self) -> String {
        self.control.reason()
    }
}

/// The metadata, for commands that ask for them.
struct Kept(Arc<Control>);

impl Administration for Kept {
    fn silent(&self) -> Arc<BTreeSet<NodeId>> {
        self.0.silent()
    }

    fn suspects(&self) -> Arc<BTreeSet<NodeId>> {
        self.0.suspects()
    }

    fn standbys(&self) -> Vec<HeardStandby> {
        self.0.standbys()
    }

    fn change(&self, command: Command, then: Changed) {
        let control = Arc::clone(&self.0);
        self.0.submit(command, move |response| {
            then(match response {
                Ok(Response::Done { .. }) => Ok(()),
                Ok(Response::Refused(why)) => Err(why.in_words(&control.map())),
                Err(why) => Err(why),
            });
        });
    }

    fn change_libraries(&self, known: u64, payload: Arc<[u8]>, then: LibrariesChanged) {
        self.0.change_libraries(known, payload, then);
    }

    fn configure(&self, settings: Vec<Setting>, then: SettingsChanged) {
        self.0.configure(settings, then);
    }

    fn set_shard(&self, settings: BTreeMap<String, String>, then: ShardChanged) {
        self.0.set_shard(settings, then);
    }

    fn settled(&self, then: Changed) {
        self.0.settled(then);
    }

    fn has_data(&self, data: [u8; 16], then: Changed) {
        self.0.has_data(data, then);
    }

    fn switch_over(&self, shard: ShardId, owner: NodeId, to: NodeNumber, then: Changed) {
        self.0.switch_over((shard, owner), to, then);
    }

    fn status(&self, then: Box<dyn FnOnce(Status) + Send>) {
        self.0.status(then);
    }
}

/// The node's data, as the metadata know them.
pub struct Data {
    /// The identity of log and store.
    pub id: [u8; 16],
    /// The highest term of the log.
    pub term: u32,
}

/// The node's part in its cluster; it ends with the value.
pub struct Membership {
    control: Arc<Control>,
    /// The node has its data, and may have a lease.
    may_serve: Arc<AtomicBool>,
    ownership: Ownership,
    bootstraps: Arc<Bootstraps>,
    standby: Arc<standby::Shared>,
}

impl Membership {
    /// Takes part in a cluster if the settings say so. Call it before the node has workers. `may_serve`: it has its data;
    /// otherwise it gets no lease before [`Self::may_serve`]. `again`: what happens when the node gets another shard.
    pub fn begin(
        settings: &Settings,
        node: &Arc<Node>,
        data: Option<Data>,
        links: &Links,
        clock: Arc<SystemClock>,
        (may_serve, again): (bool, &Arc<Again>),
    ) -> Result<Option<Membership>, Box<dyn Error>> {
        if !settings.takes_part_in_cluster() {
            return Ok(None);
        }
        check_new(settings, node)?;
        let known: Arc<OnceLock<Arc<Cluster>>> = Arc::default();
        let may_serve = Arc::new(AtomicBool::new(may_serve));
        let dir = Path::new(OsStr::from_bytes(&settings.dir)).to_owned();
        copies::begin(&node.config.settings(), clock.clone());
        let kept: Arc<OnceLock<Weak<Control>>> = Arc::default();
        let given = Given { again: Arc::clone(again), control: Arc::clone(&kept) };
        let (bootstraps, standby) = (Bootstraps::new(), Arc::<standby::Shared>::default());
        let hooks = hooks(node, links, &known, (dir, Arc::clone(&may_serve), given), (&bootstraps, &standby));
        // This process holds its disks by now, so an earlier life has ended.
        let started = clock.boot_ns();
        let clock = Arc::new(move || clock.boot_ns());
        let source = Source::open()?;
        let chance =
            Arc::new(move |bytes: &mut [u8]| source.fill(bytes).expect("the open source of chance can be read"));
        // The node's promises to others would be lost with the folder's name.
        let folder = folder(settings);
        redolog::make_folders(&folder)
            .map_err(|error| format!("can't make the directory {}: {error}", folder.display()))?;
        let knows_transactions = !node.engine.transactions.knows_nothing();
        let has_libraries = node.scripts.libraries().count() != (0, 0);
        let users = node.users_of_files();
        let libraries_level = if users.is_some() { level::PRINCIPALS } else { level::FIRST };
        let libraries: Option<Arc<[u8]>> = (has_libraries || users.is_some()).then(|| {
            let libraries = if has_libraries { node.scripts.dump_libraries() } else { Vec::new() };
            join(users.as_deref().unwrap_or_default(), &libraries).into()
        });
        check_size(libraries.as_deref(), &folder)?;
        let (port, settings) = (settings.port_of_clients(), of(settings, folder.clone())?);
        let told = settings.client_port;
        let first = node.config.first_of_cluster().into_iter();
        let configuration = first.map(|(name, value)| Setting { name: name.to_owned(), value }).collect();
        let log_term = data.as_ref().map_or(0, |data| data.term);
        let settings = ControlSettings {
            data: data.map(|data| data.id),
            log_term,
            knows_transactions,
            libraries,
            libraries_level,
            configuration,
            ..settings
        };
        let control = Arc::new(Control::start(settings, clock, chance, hooks)?);
        child::lives(control.id(), control.incarnation());
        child::heed(&control.map());
        let _ = kept.set(Arc::downgrade(&control));
        let renewed = Renewed { until: Arc::clone(control.lease_until()), control: Arc::clone(&control) };
        // What comes later is seen by the hook.
        let map = control.map();
        starts_again(again, node, &map, control.id());
        let cluster = Cluster::new(control.id(), control.incarnation(), started, map, Box::new(renewed));
        if control.has_inherited() {
            cluster.inherits();
        }
        let _ = known.set(Arc::clone(&cluster));
        // One that came before it was known where to.
        let map = control.map();
        if !starts_again(again, node, &map, control.id()) {
            cluster.set_map(map);
        }
        cluster.set_administration(Box::new(Kept(Arc::clone(&control))));
        node.join(cluster);
        let dials = Arc::downgrade(&control);
        let failed = links.clone();
        links.on_dial(move |node, tag| match dials.upgrade() {
            Some(control) => control.dial(node, tag),
            None => failed.failed(tag, "the server stops"),
        });
        tracing::info!("Node {} listens for other nodes at {}", control.id(), control.bus());
        say_where_smart_clients_go(port, told);
        let ownership = Ownership::new(&control, again);
        standby.belongs(node, &ownership);
        Ok(Some(Membership { control, may_serve, ownership, bootstraps, standby }))
    }

    /// The node has its data from now on.
    pub fn may_serve(&self, switch: &Arc<Switch>) {
        self.bootstraps.begin(switch);
        self.standby.begin(switch);
        self.may_serve.store(true, SeqCst);
    }

    /// Begins to stand by.
    ///
    /// # Errors
    /// As for [`Begins::begin`].
    pub fn stand_by(&self, begins: Begins, node: &Arc<Node>, seed: u64) -> Result<StandsBy, Box<dyn Error>> {
        begins.begin(node, &self.ownership, seed, &self.standby)
    }

    /// The shard of the node, as the metadata have it.
    pub fn ownership(&self) -> &Ownership {
        &self.ownership
    }
}

/// The shard of the node, as far as its files say.
pub fn known_shard(settings: &Settings) -> Option<Shard> {
    Control::known_shard(&folder(settings))
}

/// The shard that the node stands by for, as far as its files say.
pub fn known_standby(settings: &Settings) -> Option<Shard> {
    Control::known_part(&folder(settings)).map(|(shard, _)| shard)
}

/// True if that has acceptors.
pub fn has_group(settings: &Settings) -> bool {
    known_shard(settings).is_some_and(|shard| !shard.settled.is_empty() || shard.pending.is_some())
}

impl Membership {
    /// The handle that changes the certificates.
    pub fn certificates(&self) -> Certificates {
        Certificates(Arc::downgrade(&self.control))
    }
}

/// The certificates of a node that runs; those of a server that is no node by default.
#[derive(Debug, Default)]
pub struct Certificates(Weak<Control>);

impl Certificates {
    /// Has new connections use the files that the settings name.
    ///
    /// # Errors
    /// Which file cannot be used, and why; those of before stay.
    pub fn change(&self, settings: &Settings) -> Result<(), String> {
        match (self.0.upgrade(), files(settings)?) {
            (Some(control), Some(files)) => control.set_tls(&files),
            _ => Ok(()),
        }
    }
}

/// The files with certificates, if nodes speak TLS.
pub fn files(settings: &Settings) -> Result<Option<TlsFiles>, String> {
    if !settings.tls_cluster {
        return Ok(None);
    }
    let file = |name: &str, path: &Option<Vec<u8>>| match path {
        Some(path) => Ok(PathBuf::from(OsStr::from_bytes(path))),
        None => Err(format!("tls-cluster yes needs {name}")),
    };
    let (ca, ca_dir) = (settings.tls_ca_cert_file.as_ref(), settings.tls_ca_cert_dir.as_ref());
    if ca.or(ca_dir).is_none() {
        return Err("tls-cluster yes needs tls-ca-cert-file or tls-ca-cert-dir".to_owned());
    }
    Ok(Some(TlsFiles {
        cert: file("tls-cert-file", &settings.tls_cert_file)?,
        key: file("tls-key-file", &settings.tls_key_file)?,
        password: settings.tls_key_file_pass.clone(),
        ca: ca.map(|path| PathBuf::from(OsStr::from_bytes(path))),
        ca_dir: ca_dir.map(|path| PathBuf::from(OsStr::from_bytes(path))),
    }))
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.standby.end();
        self.control.stop();
    }
}

/// `dir`: the node's directory. `may_serve`: it has its data.
fn hooks(
    node: &Arc<Node>,
    links: &Links,
    known: &Arc<OnceLock<Arc<Cluster>>>,
    (dir, may_serve, given): (PathBuf, Arc<AtomicBool>, Given),
    (bootstraps, standby): (&Arc<Bootstraps>, &Arc<standby::Shared>),
) -> Hooks {
    let (known, watcher) = (Arc::clone(known), Arc::downgrade(node));
    let (holder, placer) = (Weak::clone(&watcher), Weak::clone(&watcher));
    let (taken, failed) = (links.clone(), links.clone());
    let (leaver, troubled, configured, owner) = (watcher.clone(), watcher.clone(), watcher.clone(), watcher.clone());
    let (again, serves, logs) = (Arc::clone(&given.again), Arc::clone(&given.again), Arc::clone(&given.again));
    let (of_shard, runs, stands) = (watcher.clone(), watcher.clone(), watcher.clone());
    let (leads, stores, standby) = (Arc::clone(&given.again), Arc::clone(bootstraps), Arc::clone(standby));
    let (follows, yields) = (Arc::clone(&standby), Arc::clone(&standby));
    Hooks {
        on_map: Arc::new(move |map: Arc<Map>| {
            copies::heed(&map);
            child::heed(&map);
            follows.look();
            if let (Some(cluster), Some(node)) = (known.get(), watcher.upgrade())
                && !starts_again(&again, &node, &map, cluster.me())
            {
                cluster.set_map(map);
                node.look_all();
            }
        }),
        on_data: Arc::new(move |link: DataLink| match link.dialed {
            Some(tag) => taken.dialed(tag, link.socket),
            None => {
                if let Err(error) = taken.take(link.socket, &link.peer.party.node.to_string()) {
                    tracing::warn!(cause = "link", %error, "a link of another node cannot be taken");
                }
            }
        }),
        on_no_link: Arc::new(move |tag, why| failed.failed(tag, &why)),
        trouble: Arc::new(move || troubled.upgrade().map_or_else(String::new, |node| node.trouble())),
        copies: Arc::new(move || owner.upgrade().map_or_else(Vec::new, |node| node.reported_copies())),
        standing: Arc::new(move || stands.upgrade().map(|node| standby.standing(&node)).unwrap_or_default()),
        on_place: Arc::new(move |wanted, is_known| match (wanted.streams, placer.upgrade()) {
            (None, Some(node)) => given.check().and_then(|()| copies::of_owner(&node.config.settings(), &dir, wanted)),
            // Opening it may take long, and the next life opens it anyway.
            (_, Some(_)) if given.again.is_given() => Err("the node starts again".to_owned()),
            (_, Some(node)) => copies::of_node(&node.config.settings(), &dir, wanted, is_known),
            (_, None) => Err("the node stops".to_owned()),
        }),
        on_log: Arc::new(copies::serve),
        on_store: Arc::new(move |socket, peer| stores.serve(socket, peer)),
        on_switchover: Arc::new(move |shard, to| yields.switch_over(shard, to)),
        ask_copy: Arc::new(loggroup::ask),
        may_serve: Arc::new(move || match may_serve.load(SeqCst) {
            true if serves.is_given() => Err("it starts again, as the owner of its shard has changed".to_owned()),
            true => Ok(()),
            false => Err("its log is being taken over from the copies".to_owned()),
        }),
        may_lead: Arc::new(move |map, me| leads.wanted_by(map, me).is_none()),
        is_leaving: Arc::new(move || leaver.upgrade().is_none_or(|node| node.is_stopping())),
        on_configuration: Arc::new(move |known: &Configuration| {
            if let Some(node) = configured.upgrade() {
                node.config.take(known.values());
            }
        }),
        on_shard: Arc::new(move |shard| match of_shard.upgrade() {
            Some(node) if shard.settings.get(HAS_LOG).is_some_and(|value| value == "yes") && !has_log(&node) => {
                begin_again(&logs, &node, &format!("shard {} has a log", shard.id.0));
                Err(format!("it starts again with appendonly yes, which shard {} has", shard.id.0))
            }
            Some(node) => take_settings_of(&node.config, shard),
            None => Ok(()),
        }),
        shard_settings: Arc::new(move || {
            let settings = runs.upgrade().map_or_else(Vec::new, |node| node.config.of_shard());
            let as_text =
                |(name, value): (&str, Vec<u8>)| (name.to_owned(), String::from_utf8_lossy(&value).into_owned());
            settings.into_iter().map(as_text).collect()
        }),
        on_libraries: Arc::new(move |version, payload| {
            holder.upgrade().map_or(Ok(()), |node| take_libraries(&node, version, payload))
        }),
    }
}

/// Tells whether the metadata have given the node another shard than this process runs.
struct Given {
    again: Arc<Again>,
    control: Arc<OnceLock<Weak<Control>>>,
}

impl Given {
    /// Checks that the log of this process is that of the node's shard: otherwise it must not get the name of a copy.
    fn check(&self) -> Result<(), String> {
        let control = self.control.get().and_then(Weak::upgrade).ok_or("the node is starting")?;
        match self.again.wanted_by(&control.map(), control.id()) {
            Some(why) => Err(format!("the node starts again: {why}")),
            None => Ok(()),
        }
    }
}

/// Before a node that is given another shard stops: a client that asked for that hears the answer.
const ANSWER: Duration = Duration::from_millis(300);

/// Has the process start again if this map gives it another shard than it runs, or its shard to another node. Returns true
/// if the node must not take the map: it would serve slots without their keys, or before it has taken them over. A map by
/// which it has lost slots it must take, or it would serve those on.
fn starts_again(again: &Again, node: &Arc<Node>, map: &Map, me: NodeId) -> bool {
    let is_placed = node.config.settings().cluster_copies > 1;
    let gets_copies = || again.gets_copies_by(map, me).filter(|_| is_placed);
    if let Some(why) = again.wanted_by(map, me).or_else(gets_copies) {
        begin_again(again, node, &why);
    }
    again.given_by(map, me).is_some() || again.is_to_take_over(map, me)
}

fn has_log(node: &Node) -> bool {
    node.config.settings().appendonly
}

/// Has the process stop and start again, unless it stops already.
pub fn begin_again(again: &Again, node: &Arc<Node>, why: &str) {
    if !node.is_stopping() && again.want() {
        tracing::warn!("This node stops, and starts again: {why}");
        // One that does not serve yet hurries: connections that its machine has taken wait for the next life.
        let answers = if node.clients().is_empty() { Duration::ZERO } else { ANSWER };
        let pause = answers.max(again.pause());
        let stopped = Arc::clone(node);
        let stop = move || {
            std::thread::park_timeout(pause);
            stopped.stop();
        };
        if std::thread::Builder::new().name("again".into()).spawn(stop).is_err() {
            node.stop();
        }
    }
}

/// How long a change of users waits for workers that are busy.
const HEARD: Duration = Duration::from_secs(1);

/// Takes the users and the libraries of the cluster in place of all there are.
fn take_libraries(node: &Arc<Node>, version: u64, payload: &[u8]) -> Result<(), String> {
    if version > 0
        && let (&[], libraries) = split(payload)?
        && let Some(users) = node.users_of_files()
    {
        return Err(give_users(node, version, &join(&users, libraries)));
    }
    let Agreed { version: before, libraries: had, .. } = node.scripts.agreed();
    take_agreed(node, version, payload)?;
    // A client that hears of a change must find no command still waiting whose user has lost the right to it.
    node.until_workers_have_heard(HEARD);
    if before == 0 && version > 0 {
        let has = node.scripts.libraries();
        let gone: Vec<&str> = had.all().map(|library| library.name()).filter(|name| has.get(name).is_none()).collect();
        if !gone.is_empty() {
            tracing::warn!(
                "libraries of functions that only this node's data had, and not the cluster, are gone: {}",
                gone.join(", ")
            );
        }
    }
    Ok(())
}

/// Gives a cluster that has never had users those of this node's files. The node serves when it has got them back; why
/// it does not serve until then.
fn give_users(node: &Arc<Node>, version: u64, payload: &[u8]) -> String {
    let Some(cluster) = node.cluster() else { return "this node is starting".to_owned() };
    let has = cluster.map().level();
    if has < level::PRINCIPALS {
        return format!(
            "this node's files have users, for which the cluster needs level {}, and it has level {has}: when all nodes run this build, `holdfast cluster finalize` raises it",
            level::PRINCIPALS
        );
    }
    if let Some(administration) = cluster.administration() {
        administration.change_libraries(version, payload.into(), Box::new(|_| {}));
    }
    "the cluster has no users yet, and gets those of this node's files".to_owned()
}

fn say_where_smart_clients_go(port: u16, told: u16) {
    match told {
        0 => tracing::info!(
            "There is no port for smart clients: CLUSTER SLOTS names port {port}, where every node answers for all of them"
        ),
        told => tracing::info!(
            "CLUSTER SLOTS names port {told}, for smart clients. If they can reach port {port} only, they cannot connect: then set cluster-client-port to 0"
        ),
    }
}

/// The settings of a member whose metadata are in `folder`.
pub(super) fn of(settings: &Settings, folder: PathBuf) -> Result<ControlSettings, Box<dyn Error>> {
    let bus = match settings.cluster_port {
        0 => settings.port_of_clients().checked_add(BUS).ok_or("cluster-port: port + 10000 is no port, name one")?,
        port => port,
    };
    let host = settings.bind.first().map_or("*", |host| host.trim_start_matches('-'));
    let host = if host == "*" { "0.0.0.0" } else { host.trim_start_matches("::*") };
    let host = if host.is_empty() { "::" } else { host };
    let bind: SocketAddr = (host, bus).to_socket_addrs()?.next().ok_or("bind: no address for other nodes")?;
    let mut control = ControlSettings::new(folder, bind, settings.port_of_clients())
        .with_lease(Duration::from_millis(settings.cluster_lease));
    control.seeds = seeds(&settings.cluster_seeds).ok_or("cluster-seeds: host:port[@cluster-port], ...")?;
    control.secret = settings.cluster_secret.clone().unwrap_or_default().into();
    control.tls = files(settings)?;
    control.host = settings.cluster_announce_ip.as_ref().map(|host| String::from_utf8_lossy(host).into_owned());
    control.machine = machine::name(settings.cluster_host.as_deref(), &control.folder)?;
    control.client_port = match (settings.port_for_smart_clients(), settings.cluster_announce_client_port) {
        (port, 0) | (port @ 0, _) => port,
        (_, announced) => announced,
    };
    (control.shards, control.copies) = (settings.shards_of_new_cluster(), settings.cluster_copies);
    control.agreed = vec![("databases".to_owned(), settings.databases.to_string())];
    if settings.cluster_secret.is_none() && control.tls.is_none() && !bind.ip().is_loopback() {
        tracing::warn!(
            "cluster-secret is empty and tls-cluster is off: any host that reaches {bind} may join the cluster"
        );
    }
    Ok(control)
}
