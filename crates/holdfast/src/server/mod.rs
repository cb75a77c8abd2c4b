//! `holdfast server`: reads the configuration, starts the node, waits for its end.

pub mod again;
mod asides;
mod backup;
mod bootstrap;
pub mod chance;
mod checkpoints;
mod chores;
pub mod clock;
mod copies;
mod copies_watched;
mod crash;
mod cut;
mod durable;
mod effort;
mod flushed;
mod group;
mod host;
mod limits;
mod load_snapshot;
mod loaders;
pub mod log;
pub mod log_server;
pub mod machine;
pub mod member;
pub mod metrics;
mod oom;
mod openness;
mod ownership;
mod places;
pub mod process;
pub mod rehearsal;
mod replay;
pub mod sentinel;
mod snapshots;
mod standby;
pub mod supervisor;
mod switch;
mod taken_over;
mod title;
mod warm_up;

use std::error::Error;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use net::{Driver, Links, Listener, Server};
use node::config::{AppendFsync, Arguments, Disk, Live, Loaded, Settings, Values, help, load};
use node::{Clock, Facts, Node, Table};

use crate::agent;

use self::again::Again;
use self::clock::SystemClock;
use self::durable::{Disks, Stored};
use self::host::Process;
use self::limits::Limits;
use self::log::Log;
use self::member::{Data, Membership};
use self::places::Places;
use self::process::{PidFile, Signals};
use self::supervisor::Supervisor;
use self::switch::Switch;
use self::title::Title;

/// Runs a server with what follows `holdfast server` on the command line.
pub fn run(args: &[Vec<u8>]) -> ExitCode {
    match args.first().map(Vec::as_slice) {
        Some(b"--help" | b"-h") => {
            print!("{}", help());
            return ExitCode::SUCCESS;
        }
        Some(b"--version" | b"-v") => {
            println!("Holdfast server v={}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    if let Some(code) = agent::run(args) {
        return code;
    }
    let again = Arc::new(Again::new(args));
    match serve(args, &again) {
        Ok(()) if again.begins() => {
            eprintln!("the server cannot start again: {}", again.start());
            ExitCode::FAILURE
        }
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &[Vec<u8>], again: &Arc<Again>) -> Result<(), Box<dyn Error>> {
    // Before any thread is started, so that all of them leave the signals to the one that waits.
    let signals = Signals::hold();
    agent::child::begin();
    process::show_name();
    let loaded = configuration(args)?;
    let table = Table::new();
    let exists = |name: &[u8]| table.find(name).is_some_and(|command| !command.is_subcommand);
    let renames = loaded.renames(exists, node::compatibility::is_known)?;
    let users = node::users::configured(&table, &loaded)?;
    let Loaded { mut values, file, hash, named, warnings, .. } = loaded;
    // Paths of the command line are meant from where it was typed, all others from `dir`.
    let file = file.map(std::path::absolute).transpose()?;
    enter_dir(&mut values)?;
    let settings = Settings::of(&values);
    agent::check(&settings)?;
    let log = Log::start(&settings.logfile, settings.loglevel, agent::child::name())
        .map_err(|error| format!("can't open the log file {}: {error}", lossy(&settings.logfile)))?;
    tracing::info!("Holdfast {} is starting, PID: {}", env!("CARGO_PKG_VERSION"), std::process::id());
    match &file {
        Some(file) => tracing::info!("Configuration loaded from {}", file.display()),
        None => {
            tracing::info!("No configuration file: `holdfast server FILE` names one, `--help` explains all settings")
        }
    }
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    process::disable_huge_pages(settings.disable_thp);
    limit_clients(&mut values, settings.maxclients)?;
    let limits = limits::apply();
    let supervisor = Supervisor::of(settings.supervised);
    let starting = supervisor.starting();
    let mut title = Title::reserve(&settings, file.as_deref());

    // The nodes of a machine share the file, and each has settings of its own.
    let rewritten = file.clone().filter(|_| !agent::child::is_child());
    let live = Arc::new(Live::new(values, rewritten, renames).with_hash(hash).with_named(named));
    member::check(&live.settings())?;
    member::take_known_settings(&live);
    let settings = live.settings();
    let driver = Driver::choose(settings.io_driver)?;
    let clock = Arc::new(SystemClock::new());
    let dir = Path::new(OsStr::from_bytes(&settings.dir));
    say_what_is_ignored(&settings, dir);
    load_snapshot::check_ignored(&settings, dir)?;
    snapshots::tidy_up(dir);
    member::check_data(&settings, dir)?;
    // A log that has copies is opened when these have brought it up to date.
    taken_over::check(&settings)?;
    let stands_by = standby::Begins::of(&settings, dir, &clock)?;
    let has_copies = stands_by.is_none() && taken_over::has_copies(&settings, dir)?;
    let stored = if has_copies { Some(Stored::open(&settings, dir, clock.clone())?) } else { None };
    let shard = stored.as_ref().map(|stored| taken_over::begin(&settings, stored)).transpose()?;
    let shard = shard.flatten();
    match &stands_by {
        Some(begins) => again.stands_by(begins.shard.id),
        None => again.begins_with(shard),
    }
    let is_alone = settings.appendonly && !has_copies && stands_by.is_none();
    let disks = if is_alone { Some(Disks::open(&settings, dir, clock.clone())?) } else { None };
    let known_seed = match stored.as_ref().or_else(|| stands_by.as_ref()?.stored.as_ref()) {
        Some(stored) => stored.seed()?,
        None => disks.as_ref().and_then(Disks::seed),
    };
    let seed = match known_seed {
        Some(seed) => seed,
        None => u64::from_le_bytes(chance::random()?),
    };
    let node = start_node(Arc::clone(&live), driver, clock.clone(), seed, limits)?;
    if let Err(why) = node::users::begin(&node, users) {
        tracing::error!("{why}");
        return Err(why.into());
    }
    member::take_known_users(&node)?;
    crash::prepare(&node, &settings.logfile)?;
    crash::follow(settings.crash_log_enabled);
    if let Err(error) = oom::follow(&settings) {
        tracing::warn!("{error}");
    }
    // Before the data is read, which may take long: probes ask meanwhile.
    let endpoint = metrics::Endpoint::start(&settings, &node)?;
    sentinel::start(&settings, sentinel::OfNode(Arc::clone(&node)))?;
    let links = Links::new(Arc::clone(&node));
    let mut signals = Some(signals);
    let (mut membership, mut disks, mut data, mut copy) = (None, disks, None, None);
    if let Some(stored) = stored {
        // Copies may be out of reach for long: the operator must be able to end the wait.
        signals.take().map(|signals| stop_on(signals, Arc::clone(&node), supervisor.clone(), again)).transpose()?;
        let known = Data { id: stored.id(), term: 0 };
        let joined = Membership::begin(&settings, &node, Some(known), &links, Arc::clone(&clock), (false, again))?;
        let Some(joined) = joined else { return Err("a log with copies belongs to a node of a cluster".into()) };
        disks = taken_over::bring_up(&settings, &node, stored, joined.ownership(), shard)?;
        membership = Some(joined);
        if disks.is_none() {
            return Ok(());
        }
    } else if let Some(begins) = stands_by {
        let known = Data { id: begins.id, term: 0 };
        let joined = Membership::begin(&settings, &node, Some(known), &links, Arc::clone(&clock), (true, again))?;
        let Some(joined) = joined else { return Err("a copy of a shard's data belongs to a node of a cluster".into()) };
        copy = Some(joined.stand_by(begins, &node, seed)?);
        membership = Some(joined);
    } else {
        data = disks.as_ref().map(|disks| Data { id: disks.id(), term: disks.term() });
    }
    let kept = match disks.map(|disks| disks.start(&node, seed, &settings)).transpose() {
        Err(why) if has_copies && node.is_stopping() => {
            tracing::info!("{why}");
            return Ok(());
        }
        kept => kept?,
    };
    if let (Some(kept), Some(membership)) = (&kept, &membership)
        && let Some(copies) = &kept.copies
    {
        taken_over::keep((copies, kept.standbys.as_ref()), &kept.log, membership.ownership(), &node)?;
    }
    if kept.is_none() && !settings.takes_part_in_cluster() {
        load_snapshot::load(&node, &settings)?;
    }
    let switch = Arc::new(Switch::new(Arc::clone(&node), seed, kept));
    let listeners = net::listeners(&settings).map_err(|error| {
        // These words are what Redis's test suite looks for to try another port.
        tracing::warn!("Failed listening on port {}, aborting: {error}", settings.port);
        error
    })?;
    banner(&settings, &node, &listeners);
    title.show(&settings);
    let chores = chores::start(Arc::clone(&node), Arc::clone(&switch))?;
    let asides = asides::start(&node)?;
    let snapshots = snapshots::start(Arc::clone(&node), Arc::clone(&switch))?;
    let membership = match membership {
        Some(membership) => Some(membership),
        None => Membership::begin(&settings, &node, data, &links, clock, (true, again))?,
    };
    membership.iter().for_each(|membership| membership.may_serve(&switch));
    let certificates = membership.as_ref().map(Membership::certificates).unwrap_or_default();
    let host_switch = Arc::clone(&switch);
    let open =
        |listening| live.set_host(Box::new(Process { log, switch: host_switch, listening, certificates, title }));
    let server =
        Server::start(Arc::clone(&node), listeners, driver, u64::from_le_bytes(chance::random()?), &links, open)?;
    // The log takes over settings that the metadata have given to the shard meanwhile.
    live.follow(|settings| switch.follow(settings));
    // Not before: a reader of the file takes the server for one that serves.
    let _pid_file = PidFile::write(settings.pidfile.as_deref());
    tracing::info!("Server initialized");
    tracing::info!("Ready to accept connections");
    endpoint.ready();
    drop(starting);
    supervisor.ready();
    agent::child::serves();
    signals.map(|signals| stop_on(signals, Arc::clone(&node), supervisor, again)).transpose()?;
    let ended = server.join();
    drop(copy);
    drop(membership);
    node.jobs.wake();
    node.snapshots.jobs.wake();
    if chores.join().is_err() | asides.join().is_err() | snapshots.join().is_err() {
        tracing::warn!("A thread of long tasks has panicked");
    }
    // A log that was on says so until it has stopped.
    let saved = if ended.is_ok() { snapshots::at_end(&node) } else { Ok(()) };
    switch.stop();
    copies::stop();
    ended?;
    saved?;
    if again.is_wanted() {
        tracing::warn!("This process starts again, for the shard that it was given");
        return Ok(());
    }
    tracing::info!("Holdfast is now ready to exit, bye bye...");
    Ok(())
}

fn configuration(args: &[Vec<u8>]) -> Result<Loaded, Box<dyn Error>> {
    let mut stdin = || {
        let mut text = Vec::new();
        io::stdin().read_to_end(&mut text).map(|_| text)
    };
    Ok(load(&Arguments::parse(args), &Disk, &mut stdin)?)
}

/// Makes `dir` the working directory; from then on the setting holds its absolute path.
fn enter_dir(values: &mut Values) -> Result<(), Box<dyn Error>> {
    let dir = Settings::of(values).dir;
    let entered = process::enter_dir(&dir).map_err(|error| format!("can't work in dir {}: {error}", lossy(&dir)))?;
    values.set("dir", &entered)?;
    Ok(())
}

/// Raises the limit of open files for `maxclients`, or lowers `maxclients` to what is possible.
fn limit_clients(values: &mut Values, wanted: u32) -> Result<(), Box<dyn Error>> {
    let possible = process::reserve_files(wanted);
    if possible == 0 {
        return Err("the limit of open files is too low to serve any client: raise `ulimit -n`".into());
    }
    if possible < wanted {
        tracing::warn!("maxclients has been reduced from {wanted} to {possible}: raise `ulimit -n` for more");
        values.set("maxclients", possible.to_string().as_bytes())?;
    }
    Ok(())
}

fn start_node(
    live: Arc<Live>,
    driver: Driver,
    clock: Arc<SystemClock>,
    seed: u64,
    limits: Limits,
) -> Result<Arc<Node>, Box<dyn Error>> {
    let settings = live.settings();
    // Before the first large value exists: a client that knew the seed could choose members that collide. The same one
    // every time, so that what a checkpoint has of them lies in their order.
    if !object::hashed::hand_in_seed(seed) {
        return Err("the hash seed of large values is set already: a server has started in this process before".into());
    }
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let workers = if settings.workers == 0 { cores } else { settings.workers };
    let facts = Facts {
        run_id: format!(
            "{:016x}{:016x}{:08x}",
            u64::from_le_bytes(chance::random()?),
            u64::from_le_bytes(chance::random()?),
            u32::from_le_bytes(chance::random()?)
        ),
        pid: std::process::id(),
        random: Some(chance::fill),
        os: process::system(),
        cpu: Some(process::cpu),
        thread_cpu: Some(process::thread_cpu),
        system_memory: process::memory(),
        started: clock.unix_ms(),
        executable: std::env::current_exe().map(|p| p.display().to_string()).unwrap_or_default(),
        driver: driver.name().into(),
        memory: Some(crate::memory::in_use),
        memory_about: Some(crate::memory::in_use_about),
        resident: Some(crate::memory::resident),
        swapped: Some(crate::memory::swapped),
        give_back_soon: Some(crate::memory::give_back_soon),
        give_back: Some(crate::memory::give_back),
        mapped: limits.mapped,
        resident_max: limits.resident,
    };
    let node = Node::new(live, clock, workers, seed, facts);
    let weak = Arc::downgrade(&node);
    let left = Box::new(move || weak.upgrade().map_or(i64::MAX, |node| node.left()));
    headroom::ask(headroom::Asked { left, has_block: crate::memory::has_block });
    Ok(node)
}

/// Logs the data that the server finds and does not load.
fn say_what_is_ignored(settings: &Settings, dir: &Path) {
    let places = Places::of(settings, dir);
    if let Some(folder) = places.data().filter(|_| !settings.appendonly) {
        tracing::warn!(
            "appendonly is off: the data in {} is not loaded. It stays as it is, and CONFIG SET appendonly yes is refused while it is there",
            folder.display()
        );
    }
}

fn banner(settings: &Settings, node: &Node, listeners: &[Listener]) {
    // Not `bind`: an address that may be missing is not listened on where it is.
    let addresses: Vec<_> = listeners.iter().filter_map(Listener::address).map(|address| address.to_string()).collect();
    let socket = settings.unixsocket.as_ref().map(|path| format!(", socket {}", lossy(path))).unwrap_or_default();
    let addresses = if addresses.is_empty() { "no TCP port".to_owned() } else { addresses.join(" ") };
    tracing::info!("Listening on {addresses}{socket}; {} workers, driver {}", node.workers(), node.facts.driver);
    let directories: Vec<_> = settings.log_dirs.iter().map(|path| lossy(path)).collect();
    match (settings.appendonly, settings.appendfsync) {
        (false, _) => {
            let kept = match settings.save.is_empty() {
                true => "changes since the last SAVE are lost when it stops".to_owned(),
                false => format!("{} is written now and then, and at the end", lossy(&settings.dbfilename)),
            };
            tracing::info!("Durability: none, {kept}; `appendonly yes` keeps confirmed writes");
        }
        (true, AppendFsync::Always) => tracing::info!(
            "Durability: always. Confirmed writes are on the disk, in {}; `appendonly no` keeps snapshots alone",
            directories.join(" ")
        ),
        (true, AppendFsync::Everysec) => tracing::info!(
            "Durability: everysec. The log is in {}; if the machine fails, the last second may be lost",
            directories.join(" ")
        ),
        (true, AppendFsync::No) => tracing::info!(
            "Durability: no appendfsync. The log is in {}; if the machine fails, writes that the system has not put on the disk are lost",
            directories.join(" ")
        ),
    }
    openness::tell(settings, node.lets_strangers_in());
    let (most, used) = (settings.maxmemory, crate::memory::in_use());
    if most > 0 && most <= used {
        tracing::warn!("maxmemory is {most} bytes, but the server takes {used} before it holds data: writes will fail");
    }
}

/// Stops the node when a signal asks for it.
fn stop_on(signals: Signals, node: Arc<Node>, supervisor: Supervisor, again: &Arc<Again>) -> io::Result<()> {
    let again = Arc::clone(again);
    let wait = move || {
        let signal = signals.wait();
        if !again.never() {
            return signals.put_back();
        }
        tracing::warn!("Received {signal}, shutting down");
        supervisor.stopping();
        node.stop_in_order();
    };
    // Nobody waits for this thread: the process ends with its main thread, whatever stopped the node.
    std::thread::Builder::new().name("signals".into()).spawn(wait).map(drop)
}

fn lossy(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
