//! `holdfast log-server`: a member of a cluster that holds copies of logs, and may vote on the metadata. It has no keys,
//! no slots and no workers.

mod answers;
mod folders;
mod options;

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use membership::control::{Control, Hooks, Settings as ControlSettings, Standing};
use membership::meta::{Configuration, Kind};
use node::Clock;
use node::config::{Live, Loaded, Renames, Settings};

pub use self::options::settings;

use self::answers::Answers;
use self::folders::Folders;
use super::chance::Source;
use super::clock::SystemClock;
use super::log::Log;
use super::process::{self, PidFile, Signals};
use super::supervisor::Supervisor;
use super::title::Title;
use super::{copies, enter_dir, lossy, member};
use crate::agent::child;

/// The folder of the metadata, which is not that of a node: neither process takes the other's for its own.
const METADATA: &str = "log-server";

/// Runs a log-server with what follows `holdfast log-server` on the command line.
pub fn run(args: &[Vec<u8>]) -> ExitCode {
    if let Some(b"--help" | b"-h") = args.first().map(Vec::as_slice) {
        print!("{}", options::help());
        return ExitCode::SUCCESS;
    }
    match serve(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// True if `dir` has the metadata of a log-server that has it as `dir`.
pub fn is_kept_in(dir: &Path) -> bool {
    Control::is_kept_in(&dir.join(METADATA))
}

fn serve(args: &[Vec<u8>]) -> Result<(), Box<dyn Error>> {
    // Before any thread is started, so that all of them leave the signals to the one that waits.
    let signals = Signals::hold();
    child::begin();
    process::show_name();
    let loaded = super::configuration(&options::of(args))?;
    let names = |name: &str| options::names(&loaded, name);
    let (has_dirs, has_dir, ignored) = (names("log-dirs"), names("dir"), options::without_effect(&loaded));
    let Loaded { mut values, file, hash, named, warnings, .. } = loaded;
    let file = file.map(std::path::absolute).transpose()?;
    if !has_dirs {
        return Err("a log-server needs --dirs: a directory for each of its disks".into());
    }
    if has_dir {
        enter_dir(&mut values)?;
    }
    let settings = Settings::of(&values);
    if settings.cluster_seeds.is_empty() {
        return Err("a log-server needs --cluster-seeds: addresses of nodes of its cluster".into());
    }
    let log = Log::start(&settings.logfile, settings.loglevel, child::name())
        .map_err(|error| format!("can't open the log file {}: {error}", lossy(&settings.logfile)))?;
    log.set_level(settings.loglevel);
    tracing::info!("Holdfast {} log-server is starting, PID: {}", env!("CARGO_PKG_VERSION"), std::process::id());
    // The settings of a machine are those of its nodes.
    let ignored = if child::is_child() { &[][..] } else { &ignored };
    warnings.iter().chain(ignored).for_each(|warning| tracing::warn!("{warning}"));
    process::disable_huge_pages(settings.disable_thp);
    process::share_arenas();
    let supervisor = Supervisor::of(settings.supervised);
    let starting = supervisor.starting();
    let mut title = Title::reserve(&settings, file.as_deref());
    title.show(&settings);
    let dirs = absolute(&settings.log_dirs)?;
    let metadata = match has_dir {
        true => Path::new(OsStr::from_bytes(&settings.dir)).join(METADATA),
        false => dirs.first().ok_or("log-dirs needs a directory")?.join(METADATA),
    };
    let live = Arc::new(Live::new(values, file, Renames::default()).with_hash(hash).with_named(named));
    copies::begin(&settings, Arc::new(SystemClock::new()));
    let folders = Arc::new(Folders::open(dirs)?);
    let stops = Arc::new(AtomicBool::new(false));
    let control = Arc::new(join(&settings, metadata, &live, &folders, &stops)?);
    let answers = Answers::start(&settings, &live, &control)?;
    let _pid_file = PidFile::write(settings.pidfile.as_deref());
    tracing::info!("Log-server {} listens for nodes at {}", control.id(), control.bus());
    tracing::info!("Copies of logs go to {}", folders.names());
    drop(starting);
    supervisor.ready();
    child::serves();
    let signal = signals.wait();
    tracing::warn!("Received {signal}, shutting down");
    supervisor.stopping();
    stops.store(true, Ordering::Release);
    answers.stop();
    control.stop();
    copies::stop();
    tracing::info!("Log-server is now ready to exit, bye bye...");
    Ok(())
}

/// The directories as absolute paths, by which the metadata name them.
fn absolute(dirs: &[Vec<u8>]) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    dirs.iter().map(|dir| Ok(std::path::absolute(OsStr::from_bytes(dir))?)).collect()
}

/// Starts the thread of the metadata.
fn join(
    settings: &Settings,
    metadata: PathBuf,
    live: &Arc<Live>,
    folders: &Arc<Folders>,
    stops: &Arc<AtomicBool>,
) -> Result<Control, Box<dyn Error>> {
    redolog::make_folders(&metadata)
        .map_err(|error| format!("can't make the directory {}: {error}", metadata.display()))?;
    let known = Control::known_configuration(&metadata);
    if known.version() > 0 {
        live.take(known.values());
    }
    let of_node = member::of(settings, metadata)?;
    // It has no databases that could differ from those of others.
    let settings = ControlSettings { kind: Kind::Log, client_port: 0, agreed: Vec::new(), ..of_node };
    let source = Source::open()?;
    let chance = Arc::new(move |bytes: &mut [u8]| source.fill(bytes).expect("the open source of chance can be read"));
    let clock = SystemClock::new();
    Ok(Control::start(settings, Arc::new(move || clock.boot_ns()), chance, hooks(live, folders, stops))?)
}

fn hooks(live: &Arc<Live>, folders: &Arc<Folders>, stops: &Arc<AtomicBool>) -> Hooks {
    let (live, folders, stops) = (Arc::clone(live), Arc::clone(folders), Arc::clone(stops));
    let placing = Arc::clone(&folders);
    Hooks {
        on_map: Arc::new(|map| copies::heed(&map)),
        // No commands come here: no node looks for keys at a log-server.
        on_data: Arc::new(drop),
        on_no_link: Arc::new(|_, _| {}),
        trouble: Arc::new(move || folders.trouble()),
        copies: Arc::new(Vec::new),
        may_serve: Arc::new(|| Ok(())),
        may_lead: Arc::new(|_, _| true),
        on_log: Arc::new(copies::serve),
        // It has no store.
        on_store: Arc::new(|_, _| {}),
        on_switchover: Arc::new(|_, _| Err("a log-server owns no shard".to_owned())),
        // It has no data.
        standing: Arc::new(Standing::default),
        on_place: Arc::new(move |wanted, is_known| placing.make(wanted, is_known)),
        ask_copy: Arc::new(loggroup::ask),
        is_leaving: Arc::new(move || stops.load(Ordering::Acquire)),
        on_configuration: Arc::new(move |known: &Configuration| live.take(known.values())),
        // It owns no shard.
        on_shard: Arc::new(|_| Ok(())),
        shard_settings: Arc::new(BTreeMap::new),
        // It runs no functions, and users log in at nodes.
        on_libraries: Arc::new(|_, _| Ok(())),
    }
}
