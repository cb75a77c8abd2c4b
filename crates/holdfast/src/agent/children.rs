//! The child processes of a machine, and their sockets.

use std::ffi::OsString;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use std::{env, fs};

use net::Listener;
use node::config::Settings;

use super::bereaved::Bereaved;
use super::child::{ENVIRONMENT, Life, Said};
use super::doors::{Door, Doors};
use super::plan::{Part, Plan};
use super::restarts::Restarts;
use crate::server::clock;
use crate::server::process::{CHILD, End, Signals, end_with_parent, hand_down, reap, set_nonblocking, signal_child};

/// The program that runs, however it was called.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// The longest wait, when the agent ends, for the cluster to hear that its nodes have ended, in milliseconds.
const FAREWELL_MS: u64 = 1_000;

/// The longest turn of a node that ends: then the next one is asked to, whether or not it has ended. A node gives its shard
/// away within half of that.
const TURN_MS: u64 = 5_000;

/// Between two starts of a log-server that fails, in milliseconds.
const LATER_MS: u64 = 5_000;

/// Why an agent ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was asked to, or a child was.
    Stopped,
    /// A child never served; its exit status.
    Failed(u8),
}

/// All children of a machine.
pub struct Children {
    all: Vec<Child>,
    bereaved: Bereaved,
}

struct Child {
    plan: Plan,
    /// The way to ask a node.
    door: Option<Arc<Door>>,
    /// They listen while no process accepts.
    listeners: Vec<Listener>,
    running: Option<Running>,
    restarts: Restarts,
    /// When it starts again.
    due: Option<u64>,
    /// Ends the telling of its last end.
    tells: Option<Arc<AtomicBool>>,
}

struct Running {
    pid: libc::pid_t,
    since: u64,
    pipe: PipeReader,
    /// Bytes of a line that is not whole.
    rest: Vec<u8>,
    life: Option<Life>,
    serves: bool,
    owns: bool,
    /// When it was asked to end.
    asked: Option<u64>,
}

impl Children {
    /// Opens the sockets of all nodes, and starts them. The log-server is started as well if it is a member already, and
    /// otherwise when a node says that it may be one.
    ///
    /// # Errors
    /// An address cannot be listened on, or a process cannot be started.
    pub fn start(
        plans: Vec<Plan>,
        (log_server, is_member): (Plan, bool),
        bereaved: Bereaved,
        doors: &Doors,
    ) -> io::Result<Self> {
        let mut all = Vec::new();
        for (plan, door) in plans.into_iter().zip(doors.all()) {
            fs::create_dir_all(&plan.dir)?;
            // A path is its process's to make: a stale one is replaced.
            let settings = Settings { unixsocket: None, ..plan.settings.clone() };
            let listeners = net::listeners(&settings)?;
            let restarts = Restarts::default();
            let door = Some(Arc::clone(door));
            all.push(Child { plan, door, listeners, running: None, restarts, due: None, tells: None });
        }
        let mut children = Self { all, bereaved };
        let now = clock::monotonic_ms();
        children.all.iter_mut().try_for_each(|child| child.start(now))?;
        // It has to answer before the nodes have leases. Its own failures end nothing.
        let due = is_member.then_some(now);
        children.all.push(Child {
            plan: log_server,
            door: None,
            listeners: Vec::new(),
            running: None,
            restarts: Restarts::default(),
            due,
            tells: None,
        });
        Ok(children)
    }

    /// True if every node accepts connections.
    pub fn are_ready(&self) -> bool {
        let mut nodes = self.all.iter().filter(|child| child.plan.part != Part::LogServer);
        nodes.all(|child| child.running.as_ref().is_some_and(|running| running.serves))
    }

    /// Hears what children say, takes note of those that have ended, and starts those that are due. Returns why the agent
    /// is to end, if it is.
    pub fn look(&mut self, now: u64) -> Option<Outcome> {
        let mut outcome = None;
        while let Some((pid, end)) = reap() {
            let Some(child) = self.all.iter_mut().find(|child| child.is(pid)) else {
                // Of a process whose parent has ended before it: this one is the first of its namespace.
                continue;
            };
            outcome = child.ended(end, now, &self.bereaved).or(outcome);
        }
        if outcome.is_some() {
            return outcome;
        }
        self.hear(now);
        for child in &mut self.all {
            if child.running.is_none()
                && child.due.is_some_and(|due| due <= now)
                && let Err(error) = child.start(now)
            {
                tracing::warn!("{} of this machine cannot be started: {error}", child.plan.part);
                child.due = Some(now + 1_000);
            }
        }
        None
    }

    /// Reads what children have said.
    fn hear(&mut self, now: u64) {
        let known =
            self.all.iter_mut().filter_map(|child| Some((child.hear()?, child.running.as_ref()?.life.clone()?)));
        let known: Vec<(String, Life)> = known.collect();
        let log_server = self.all.iter_mut().find(|child| child.plan.part == Part::LogServer);
        if let (Some((host, life)), Some(child)) = (known.into_iter().next(), log_server) {
            child.joins(host, &life, now);
        }
    }

    /// Has one after another end, and waits for them. Those that own slots are first, and give them to other machines while
    /// the rest of this one is there. The log-server is last. A second signal kills them.
    pub fn stop(&mut self, signals: &Signals) {
        while self.all.iter().any(|child| child.running.is_some()) {
            let now = clock::monotonic_ms();
            self.all.iter_mut().for_each(|child| drop(child.hear()));
            self.ask_next(now);
            if let Some(name) = signals.wait_for(Duration::from_millis(20))
                && name != CHILD
            {
                tracing::warn!("Received {name} again: the nodes of this machine are killed");
                self.signal(libc::SIGKILL);
            }
            let now = clock::monotonic_ms();
            while let Some((pid, end)) = reap() {
                if let Some(child) = self.all.iter_mut().find(|child| child.is(pid)) {
                    let _ = child.ended(end, now, &self.bereaved);
                }
            }
        }
        // A standby elsewhere takes over at once if it hears this. The machine may be about to go down.
        let until = clock::monotonic_ms() + FAREWELL_MS;
        while self.bereaved.tells() && clock::monotonic_ms() < until {
            let _ = signals.wait_for(Duration::from_millis(10));
        }
        self.all.iter().filter_map(|child| child.tells.as_ref()).for_each(|tells| tells.store(true, SeqCst));
    }

    /// Asks the next one to end, if it is its turn.
    fn ask_next(&mut self, now: u64) {
        let running = || self.all.iter().filter_map(|child| child.running.as_ref());
        let mut asked = running().filter_map(|running| running.asked);
        let is_late = asked.clone().next().is_some();
        if asked.any(|asked| now.saturating_sub(asked) < TURN_MS) {
            return;
        }
        let mut waiting: Vec<&mut Child> = self.all.iter_mut().filter(|child| child.waits_for_its_turn()).collect();
        waiting.sort_by_key(|child| (child.plan.part == Part::LogServer, !child.owns(), child.plan.part));
        let Some(child) = waiting.into_iter().next() else { return };
        let part = child.plan.part;
        if is_late {
            tracing::warn!("{part} of this machine waits for its turn no longer: another one takes long to end");
        }
        if let Some(running) = &mut child.running {
            tracing::info!("{part} of this machine, PID {}, is asked to end", running.pid);
            running.asked = Some(now);
            signal_child(running.pid, libc::SIGTERM);
        }
    }

    fn signal(&self, signal: libc::c_int) {
        for running in self.all.iter().filter_map(|child| child.running.as_ref()) {
            signal_child(running.pid, signal);
        }
    }
}

impl Drop for Children {
    /// Those that still run after a failed start end with this process's word; otherwise at the latest with this process.
    fn drop(&mut self) {
        self.signal(libc::SIGTERM);
    }
}

impl Child {
    fn is(&self, pid: libc::pid_t) -> bool {
        self.running.as_ref().is_some_and(|running| running.pid == pid)
    }

    fn owns(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.owns)
    }

    fn waits_for_its_turn(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.asked.is_none())
    }

    fn start(&mut self, now: u64) -> io::Result<()> {
        let (pipe, said) = io::pipe()?;
        set_nonblocking(pipe.as_raw_fd())?;
        let mut handed: Vec<RawFd> = self.listeners.iter().map(Listener::fd).collect();
        let sockets = handed.iter().map(RawFd::to_string).collect::<Vec<_>>().join(",");
        handed.push(said.as_raw_fd());
        handed.extend(self.door.as_ref().map(|door| door.fd()));
        let name = env::current_exe().unwrap_or_else(|_| "holdfast".into());
        let mut command = Command::new(OWN_PROGRAM);
        command.arg0(name).arg(self.plan.part.command());
        command.args(self.plan.arguments.iter().cloned().map(OsString::from_vec));
        let door = self.door.as_ref().map_or_else(|| "-".to_owned(), |door| door.fd().to_string());
        let name = match self.plan.part {
            Part::Node(number) => number.to_string(),
            Part::LogServer => "log-server".to_owned(),
        };
        command.env(ENVIRONMENT, format!("{} {name} {door} {sockets}", said.as_raw_fd()));
        command.env_remove("NOTIFY_SOCKET").stdin(Stdio::null());
        hand_down(&mut command, handed);
        end_with_parent(&mut command);
        let process = command.spawn()?;
        let pid = libc::pid_t::try_from(process.id()).map_err(|_| io::Error::other("a process id"))?;
        tracing::info!("{} of this machine is started, PID: {pid}", self.plan.part);
        self.running = Some(Running {
            pid,
            since: now,
            pipe,
            rest: Vec::new(),
            life: None,
            serves: false,
            owns: false,
            asked: None,
        });
        self.due = None;
        self.door.iter().for_each(|door| door.is_started());
        Ok(())
    }

    /// The log-server may join the cluster, in which this machine is known by this host. `life`: of a node that belongs to
    /// it.
    fn joins(&mut self, host: String, life: &Life, now: u64) {
        if self.running.is_some() || self.due.is_some() {
            return;
        }
        if self.plan.settings.cluster_announce_ip.is_none() {
            self.plan.arguments.extend([b"--cluster-announce-ip".to_vec(), host.into_bytes()]);
        }
        let seeds: Vec<String> = life.members.iter().map(|(host, port)| format!("[{host}]:1@{port}")).collect();
        self.plan.arguments.extend([b"--cluster-seeds".to_vec(), seeds.join(",").into_bytes()]);
        self.due = Some(now);
    }

    /// Reads what it has said. Returns the host of this machine, if it has said that a log-server may join.
    fn hear(&mut self) -> Option<String> {
        let (running, mut host) = (self.running.as_mut()?, None);
        for said in running.hear() {
            match said {
                Said::Belongs(known) => host = Some(known),
                Said::Serves => {
                    running.serves = true;
                    self.restarts.serves();
                }
                Said::Owns(owns) => running.owns = owns,
                Said::Lives(life) => {
                    // The node itself tells the cluster that its earlier life has ended.
                    self.tells.take().iter().for_each(|tells| tells.store(true, SeqCst));
                    running.life = Some(life);
                }
            }
        }
        host
    }

    /// It has been waited for. Returns why the agent is to end, if it is.
    fn ended(&mut self, end: End, now: u64, bereaved: &Bereaved) -> Option<Outcome> {
        // Its last words are in the pipe.
        let _ = self.hear();
        let Running { pid, since, life, .. } = self.running.take()?;
        self.door.iter().for_each(|door| door.has_ended());
        let part = self.plan.part;
        // A cluster of one has nobody to tell.
        if let Some(life) = life.filter(|life| life.party.cluster.is_some() && life.members.len() > 1) {
            self.tells = Some(bereaved.tell(life));
        }
        match end {
            End::Exited(0) => {
                tracing::info!("{part} of this machine, PID {pid}, has ended in order");
                if part != Part::LogServer {
                    return Some(Outcome::Stopped);
                }
            }
            End::Exited(code) => tracing::warn!("{part} of this machine, PID {pid}, has ended with status {code}"),
            End::Killed(signal) => tracing::warn!("{part} of this machine, PID {pid}, was ended by signal {signal}"),
        }
        let was_killed = matches!(end, End::Killed(_));
        self.due = self.restarts.ended(now.saturating_sub(since), was_killed, now);
        if part == Part::LogServer {
            // The nodes serve without it.
            self.due = self.due.or(Some(now + LATER_MS));
        }
        match (self.due, end) {
            (Some(_), _) => None,
            (None, End::Exited(code)) => Some(Outcome::Failed(code)),
            (None, End::Killed(_)) => Some(Outcome::Failed(1)),
        }
    }
}

impl Running {
    fn hear(&mut self) -> Vec<Said> {
        let mut buffer = [0; 4096];
        // The end of the pipe, or nothing new.
        while let Ok(read @ 1..) = self.pipe.read(&mut buffer) {
            self.rest.extend_from_slice(&buffer[..read]);
        }
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        String::from_utf8_lossy(&lines).lines().filter_map(Said::read).collect()
    }
}
