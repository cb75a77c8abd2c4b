//! The agent of a machine: with `cluster-copies` above 1 `holdfast server` is a small parent, and this machine's nodes are
//! its children.
//!
//! The parent has no data and takes no part in the cluster. It opens the sockets that clients connect to, starts the
//! children, and starts one again that has ended. Because it waits for its children it can prove that one has ended
//! (rule S12), and tells the cluster so. A child that ends in order, at `SHUTDOWN`, ends all.
//!
//! One more child is a log-server, which holds the machine's vote on the metadata. It has no data, so whatever becomes of a
//! node, the vote is there, and none of those that lead the metadata has to do with keys.
//!
//! Metrics and clients of Sentinel have one port for the machine. The parent answers there, and asks its children.

mod bereaved;
pub mod child;
mod children;
mod doors;
mod former;
mod metrics;
mod plan;
mod restarts;

use std::error::Error;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use membership::control::Parent;
use node::config::{Arguments, Disk, Settings, load};

use self::bereaved::Bereaved;
use self::children::{Children, Outcome};
use self::doors::{Asked, Doors};
use crate::server::log::Log;
use crate::server::process::{PidFile, Signals};
use crate::server::supervisor::Supervisor;
use crate::server::{chance, clock, log_server, machine, member, sentinel};

/// The longest wait for a signal: what children say is read then at the latest.
const TICK: Duration = Duration::from_millis(20);

/// Runs the agent, if the arguments of `holdfast server` ask for one and this process is no child of one. `None`: they do
/// not, or cannot be read, which the start of a server reports.
pub fn run(args: &[Vec<u8>]) -> Option<ExitCode> {
    if child::is_child() {
        return None;
    }
    let arguments = Arguments::parse(args);
    // Standard input can be read once, and each child reads the settings.
    if arguments.stdin {
        return None;
    }
    let mut no_input = || Ok(Vec::new());
    let values = load(&arguments, &Disk, &mut no_input).ok()?.values;
    let settings = Settings::of(&values);
    // Without the machine's log-server its vote would be gone.
    if settings.cluster_copies < 2 && !(settings.takes_part_in_cluster() && has_log_server(&settings)) {
        return None;
    }
    Some(match watch(args, &settings) {
        Ok(code) => code,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    })
}

/// Checks that settings which ask for an agent have one.
///
/// # Errors
/// They were read from standard input, or name no cluster.
pub fn check(settings: &Settings) -> Result<(), String> {
    if settings.cluster_copies < 2 || child::is_child() {
        return Ok(());
    }
    Err("cluster-copies above 1 has this server start others with its settings: give them in a file or on the command line, not by standard input".to_owned())
}

/// True if the log-server of this machine is, or may be, a member of a cluster.
fn has_log_server(settings: &Settings) -> bool {
    log_server::is_kept_in(&plan::dir_of_log_server(Path::new(OsStr::from_bytes(&settings.dir))))
}

fn watch(args: &[Vec<u8>], settings: &Settings) -> Result<ExitCode, Box<dyn Error>> {
    if !settings.takes_part_in_cluster() {
        return Err("cluster-copies above 1 needs a cluster: set cluster-seeds, or cluster-enabled yes".into());
    }
    // Before any thread is started, so that all of them leave the signals to the one that waits.
    let signals = Signals::hold_with_children();
    let dir = std::fs::canonicalize(OsStr::from_bytes(&settings.dir))
        .map_err(|error| format!("can't work in dir {}: {error}", String::from_utf8_lossy(&settings.dir)))?;
    let logfile = match &settings.logfile[..] {
        b"" => PathBuf::new(),
        file => dir.join(OsStr::from_bytes(file)),
    };
    Log::start(logfile.as_os_str().as_bytes(), settings.loglevel, "agent")
        .map_err(|error| format!("can't open the log file {}: {error}", logfile.display()))?;
    let supervisor = Supervisor::of(settings.supervised);
    let starting = supervisor.starting();
    let host = machine::name(settings.cluster_host.as_deref(), &dir.join("cluster"))?;
    let plans = plan::children(args, settings, &dir, &host)?;
    let log_server = plan::log_server(args, settings, &dir, &host)?;
    std::fs::create_dir_all(&log_server.dir)
        .map_err(|error| format!("can't make the directory {}: {error}", log_server.dir.display()))?;
    let log_server = (log_server, has_log_server(settings));
    let pids = std::process::id();
    tracing::info!(
        "Holdfast {} starts {} nodes of machine {host}, PID: {pids}",
        env!("CARGO_PKG_VERSION"),
        plans.len()
    );
    if !former::has_ended(&plans, &signals) {
        return Ok(ExitCode::SUCCESS);
    }
    let parent = Parent {
        secret: settings.cluster_secret.clone().unwrap_or_default().into(),
        tls: member::files(settings)?,
        random: Arc::new(|bytes| assert!(chance::fill(bytes), "the system has no randomness")),
    };
    let doors = Arc::new(Doors::open(plans.len())?);
    metrics::start(settings, &doors)?;
    sentinel::start(settings, Asked::new(&doors))?;
    let mut children = Children::start(plans, log_server, Bereaved::new(parent), &doors)?;
    let mut starting = Some(starting);
    let mut pid_file = None;
    let outcome = loop {
        if let Some(name @ ("SIGTERM" | "SIGINT")) = signals.wait_for(TICK) {
            tracing::warn!("Received {name}: the nodes of this machine end");
            break Outcome::Stopped;
        }
        if let Some(outcome) = children.look(clock::monotonic_ms()) {
            break outcome;
        }
        if starting.is_some() && children.are_ready() {
            starting = None;
            supervisor.ready();
            pid_file = Some(PidFile::write(settings.pidfile.as_deref()));
            tracing::info!("All nodes of this machine accept connections");
        }
    };
    drop(starting);
    supervisor.stopping();
    children.stop(&signals);
    drop(pid_file);
    tracing::info!("All nodes of this machine have ended");
    Ok(match outcome {
        Outcome::Stopped => ExitCode::SUCCESS,
        Outcome::Failed(code) => ExitCode::from(code),
    })
}

/// The directory of a child, in the machine's: the first one works in that itself, as a server without copies does.
fn dir_of(dir: &Path, number: usize) -> PathBuf {
    match number {
        1 => dir.to_owned(),
        number => dir.join(format!("copy-{number}")),
    }
}
