//! Nodes that can be started, stopped and wiped.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use membership::control::{
    Control, CopyReport, DataLink, Hooks, Made, NotConfigured, Settings, Standing, StartError, Status, Wanted,
};
use membership::meta::{Command, Configuration, Response, Setting};
use membership::{AcceptorId, BootNs, Map, NodeId};

/// The longest wait before a test gives up. Machines that run tests may be slow.
pub const PATIENCE: Duration = Duration::from_secs(120);

const PORT: u16 = 7000;
const BUS_PORT: u16 = 17000;

type Channel<T> = (Sender<T>, Receiver<T>);

/// A node: its folder stays when it is stopped.
pub struct Node {
    pub settings: Settings,
    control: Option<Control>,
    maps: Arc<Mutex<Vec<Arc<Map>>>>,
    libraries: Arc<Mutex<(u64, Vec<u8>)>>,
    configuration: Arc<Mutex<Configuration>>,
    /// The settings by which it runs its shard.
    pub of_shard: Arc<Mutex<BTreeMap<String, String>>>,
    /// True if it cannot take libraries.
    pub refuses: Arc<AtomicBool>,
    /// If true, it takes no term; how often it was asked whether it may.
    pub leads_not: Arc<(AtomicBool, AtomicUsize)>,
    /// The trouble that it reports.
    pub trouble: Arc<Mutex<String>>,
    /// The copies of its log that it reports.
    pub reports: Arc<Mutex<Vec<CopyReport>>>,
    /// The folders that it has made for copies of logs.
    pub copies: Arc<Mutex<BTreeMap<Wanted, Made>>>,
    /// How well it is, and how far it follows.
    pub standing: Arc<Mutex<Standing>>,
    links: Channel<DataLink>,
    no_links: Channel<(u64, String)>,
}

/// A node's knowledge of libraries, for threads.
#[derive(Clone, Copy)]
pub struct Keeper<'a> {
    control: &'a Control,
    libraries: &'a Mutex<(u64, Vec<u8>)>,
}

impl Keeper<'_> {
    pub fn libraries(&self) -> (u64, Vec<u8>) {
        self.libraries.lock().unwrap().clone()
    }

    /// Changes the libraries of version `known`.
    pub fn change(&self, known: u64, payload: &[u8]) -> Result<bool, String> {
        let (sender, receiver) = channel();
        self.control.change_libraries(known, payload.into(), move |changed| drop(sender.send(changed)));
        receiver.recv_timeout(PATIENCE).unwrap()
    }
}

/// Nodes that know each other, at addresses of their own.
pub struct Nodes {
    pub nodes: Vec<Node>,
    seeds: Vec<(String, u16)>,
    folder: PathBuf,
    test: u8,
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.nodes.clear();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[expect(clippy::disallowed_methods, reason = "tests run by the real clock")]
pub fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begun.elapsed() < PATIENCE, "in vain: {what}");
        sleep(Duration::from_millis(20));
    }
}

#[expect(clippy::disallowed_methods, reason = "tests run by the real clock")]
pub fn now() -> BootNs {
    static BEGUN: Mutex<Option<Instant>> = Mutex::new(None);
    let begun = *BEGUN.lock().unwrap().get_or_insert_with(Instant::now);
    BootNs(begun.elapsed().as_nanos() as u64)
}

/// A link's socket, in blocking mode: any kind is a stream.
pub fn stream(link: DataLink) -> TcpStream {
    let stream = TcpStream::from(link.socket);
    stream.set_nonblocking(false).unwrap();
    stream
}

impl Nodes {
    /// No nodes yet. `test` is the number of the test: its nodes have addresses of their own.
    pub fn none(test: u8) -> Self {
        let folder = std::env::temp_dir().join(format!("holdfast-cluster-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Self { nodes: Vec::new(), seeds: Vec::new(), folder, test }
    }

    /// `count` nodes, each of which has all of them as its seeds; not started.
    pub fn prepared(test: u8, count: u8) -> Self {
        let mut nodes = Self::none(test);
        nodes.seeds = (0..count).map(|n| (nodes.host(n), BUS_PORT)).collect();
        for _ in 0..count {
            nodes.add();
        }
        nodes
    }

    /// As [`Nodes::prepared`], and started.
    pub fn start(test: u8, count: u8) -> Self {
        let mut nodes = Self::prepared(test, count);
        nodes.nodes.iter_mut().for_each(Node::start);
        nodes
    }

    /// As [`Nodes::start`]; returns when the cluster is formed and all nodes serve.
    pub fn formed(test: u8, count: u8) -> Self {
        let nodes = Self::start(test, count);
        nodes.serve();
        nodes
    }

    fn host(&self, n: u8) -> String {
        format!("127.{}.{}.{}", std::process::id() % 250 + 1, self.test, n + 1)
    }

    /// Adds a node with the same seeds; not started.
    pub fn add(&mut self) -> &mut Node {
        let n = self.nodes.len() as u8;
        let bind = SocketAddr::new(self.host(n).parse().unwrap(), BUS_PORT);
        let mut settings = Settings::new(self.folder.join(n.to_string()), bind, PORT);
        settings.seeds = self.seeds.clone();
        settings.secret = Arc::from(*b"secret");
        settings.agreed = vec![("databases".to_owned(), "16".to_owned())];
        self.nodes.push(Node::new(settings));
        &mut self.nodes[usize::from(n)]
    }

    /// Waits until so many vote, and no change of voters is under way.
    pub fn vote(&self, voters: usize) {
        wait("all vote", || {
            let running = self.nodes.iter().filter(|node| node.is_running());
            let has_settled = |node: &Node| {
                node.map().nodes().iter().filter(|n| n.voter).count() == voters && !node.status().changing
            };
            running.into_iter().all(has_settled).then_some(())
        });
    }

    /// Waits until all running nodes have the same map, with all of them in it, and leases.
    pub fn serve(&self) {
        let running = || self.nodes.iter().filter(|node| node.control.is_some());
        wait("all serve", || {
            let first = running().next()?.map();
            let same =
                running().all(|node| node.map() == first && first.index_of(node.id()).is_some() && node.has_lease());
            let fresh = running().all(|node| {
                first
                    .nodes()
                    .iter()
                    .any(|known| known.id == node.id() && known.incarnation == node.control().incarnation())
            });
            (same && fresh && first.cluster().is_some()).then_some(())
        });
    }

    /// The place in `nodes` of the leader of the metadata.
    pub fn leader(&self) -> usize {
        wait("a leader", || {
            let running = self.nodes.iter().find(|node| node.control.is_some())?;
            let leader = running.status().leader?;
            self.nodes.iter().position(|node| node.control.is_some() && node.id() == leader)
        })
    }
}

impl Node {
    pub fn new(settings: Settings) -> Self {
        let (maps, libraries, refuses) = (Arc::default(), Arc::default(), Arc::default());
        let (links, no_links, trouble) = (channel(), channel(), Arc::default());
        let (configuration, reports, copies) = (Arc::default(), Arc::default(), Arc::default());
        let control = None;
        let of_shard = Arc::default();
        let leads_not = Arc::default();
        let standing = Arc::default();
        Self {
            settings,
            control,
            maps,
            libraries,
            configuration,
            of_shard,
            refuses,
            leads_not,
            trouble,
            reports,
            copies,
            standing,
            links,
            no_links,
        }
    }

    /// The folder of its certificates.
    pub fn tls_folder(&self) -> PathBuf {
        self.settings.folder.with_extension("tls")
    }

    pub fn start(&mut self) {
        self.try_start().unwrap();
    }

    pub fn try_start(&mut self) -> Result<(), StartError> {
        let random = Arc::new(|bytes: &mut [u8]| File::open("/dev/urandom").unwrap().read_exact(bytes).unwrap());
        let maps = Arc::clone(&self.maps);
        let (links, no_links) = (self.links.0.clone(), self.no_links.0.clone());
        self.libraries = Arc::default();
        let (libraries, refuses) = (Arc::clone(&self.libraries), Arc::clone(&self.refuses));
        let trouble = Arc::clone(&self.trouble);
        self.configuration = Arc::default();
        let configuration = Arc::clone(&self.configuration);
        let (of_shard, taken_of_shard) = (Arc::clone(&self.of_shard), Arc::clone(&self.of_shard));
        let (copies, fill) = (Arc::clone(&self.copies), Arc::clone(&random));
        let hooks = Hooks {
            on_map: Arc::new(move |map| maps.lock().unwrap().push(map)),
            on_data: Arc::new(move |link| links.send(link).unwrap()),
            on_no_link: Arc::new(move |tag, why| no_links.send((tag, why)).unwrap()),
            is_leaving: Arc::new(|| false),
            on_place: Arc::new(move |wanted, _| {
                if wanted.dir == "/bad" {
                    return Err("a test says so".to_owned());
                }
                let new = || {
                    let mut made = Made { acceptor: AcceptorId::default(), streams: wanted.streams.unwrap_or(2) };
                    fill(&mut made.acceptor.0);
                    made
                };
                Ok(*copies.lock().unwrap().entry(wanted.clone()).or_insert_with(new))
            }),
            trouble: Arc::new(move || trouble.lock().unwrap().clone()),
            copies: {
                let reports = Arc::clone(&self.reports);
                Arc::new(move || reports.lock().unwrap().clone())
            },
            standing: {
                let standing = Arc::clone(&self.standing);
                Arc::new(move || *standing.lock().unwrap())
            },
            may_serve: Arc::new(|| Ok(())),
            may_lead: {
                let leads_not = Arc::clone(&self.leads_not);
                Arc::new(move |_, _| {
                    leads_not.1.fetch_add(1, Ordering::Relaxed);
                    !leads_not.0.load(Ordering::Relaxed)
                })
            },
            on_log: Arc::new(drop),
            on_store: Arc::new(|_, _| {}),
            on_switchover: Arc::new(|_, _| Err("no data".to_owned())),
            on_shard: Arc::new(move |shard| {
                if !shard.settings.is_empty() {
                    taken_of_shard.lock().unwrap().clone_from(&shard.settings);
                }
                Ok(())
            }),
            shard_settings: Arc::new(move || of_shard.lock().unwrap().clone()),
            ask_copy: Arc::new(|_, _, _| Ok(Vec::new())),
            on_configuration: Arc::new(move |taken| configuration.lock().unwrap().clone_from(taken)),
            on_libraries: Arc::new(move |version, payload| {
                if refuses.load(Ordering::Relaxed) {
                    return Err("a test says so".to_owned());
                }
                *libraries.lock().unwrap() = (version, payload.to_vec());
                Ok(())
            }),
        };
        self.control = Some(Control::start(self.settings.clone(), Arc::new(now), random, hooks)?);
        Ok(())
    }

    pub fn stop(&mut self) {
        self.control = None;
    }

    pub fn is_running(&self) -> bool {
        self.control.is_some()
    }

    /// Removes the files of a stopped node.
    pub fn wipe(&self) {
        assert!(self.control.is_none());
        fs::remove_dir_all(&self.settings.folder).unwrap();
    }

    pub fn control(&self) -> &Control {
        self.control.as_ref().unwrap()
    }

    pub fn id(&self) -> NodeId {
        self.control().id()
    }

    pub fn map(&self) -> Arc<Map> {
        self.control().map()
    }

    /// Every map that it got.
    pub fn maps(&self) -> Vec<Arc<Map>> {
        self.maps.lock().unwrap().clone()
    }

    pub fn has_lease(&self) -> bool {
        self.lease_until() > now()
    }

    pub fn lease_until(&self) -> BootNs {
        self.control().lease_until().get()
    }

    pub fn status(&self) -> Status {
        let (sender, receiver) = channel();
        self.control().status(move |status| sender.send(status).unwrap());
        receiver.recv_timeout(PATIENCE).unwrap()
    }

    pub fn submit(&self, command: Command) -> Result<Response, String> {
        let (sender, receiver) = channel();
        self.control().submit(command, move |response| drop(sender.send(response)));
        receiver.recv_timeout(PATIENCE).unwrap()
    }

    /// Submits a command until it is applied.
    pub fn done(&self, command: &Command) {
        wait("a command is applied", || match self.submit(command.clone()) {
            Ok(Response::Done { .. }) => Some(()),
            Ok(Response::Refused(why)) => panic!("refused: {why}"),
            Err(_) => None,
        });
    }

    /// Changes settings of the cluster.
    pub fn configure(&self, settings: &[Setting]) -> Result<(), NotConfigured> {
        let (sender, receiver) = channel();
        self.control().configure(settings.to_vec(), move |changed| drop(sender.send(changed)));
        receiver.recv_timeout(PATIENCE).unwrap()
    }

    /// The settings that it has taken.
    pub fn configuration(&self) -> Configuration {
        self.configuration.lock().unwrap().clone()
    }

    /// The number of its slots, by `map`.
    pub fn slots(&self, map: &Map) -> usize {
        map.index_of(self.id()).map_or(0, |index| map.slots_of(index))
    }

    /// Its knowledge of libraries.
    pub fn keeper(&self) -> Keeper<'_> {
        Keeper { control: self.control(), libraries: &self.libraries }
    }

    /// The version and the contents of its libraries.
    pub fn libraries(&self) -> (u64, Vec<u8>) {
        self.keeper().libraries()
    }

    pub fn data_link(&self) -> DataLink {
        self.links.1.recv_timeout(PATIENCE).unwrap()
    }

    pub fn try_data_link(&self) -> Option<DataLink> {
        self.links.1.try_recv().ok()
    }

    pub fn try_no_link(&self) -> Option<(u64, String)> {
        self.no_links.1.try_recv().ok()
    }

    pub fn no_link(&self) -> (u64, String) {
        self.no_links.1.recv_timeout(PATIENCE).unwrap()
    }
}
