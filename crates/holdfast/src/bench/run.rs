//! The phases of a run: connect, load, warm up, measure, report.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::clock;
use super::connection::{Connection, Role};
use super::nodes::Nodes;
use super::options::Options;
use super::process;
use super::report::{self, Report};
use super::stats::{Shares, Stats};
use super::worker::{Control, Phase, Progress, Worker};
use super::workload::{Commands, Source};

/// How often the progress bar moves.
const REFRESH: Duration = Duration::from_millis(100);
/// Files that a run needs beside its connections.
const OTHER_FILES: u64 = 64;

/// Runs what the options say and prints the result.
///
/// # Errors
/// In words for the user.
pub fn run(options: &Options) -> Result<(), String> {
    options.check()?;
    let nodes = Nodes::find(options)?;
    let commands = Arc::new(Commands::new(options, nodes.slots.clone())?);
    process::allow_open_files((options.connections + options.subscribers) as u64 + OTHER_FILES)?;
    options.server_pid.iter().try_for_each(|pid| process::cpu_time(*pid).map(drop))?;
    let mut groups = connect(options, &nodes)?;
    if options.load || options.load_only {
        let bar = Bar::new(options.quiet, options.keys, false);
        let sources = |thread| Source::fill(Arc::clone(&commands), options.seed, thread, options.threads as u64);
        let plan = Plan {
            warmup: Duration::ZERO,
            duration: None,
            operations: None,
            interval: None,
            retries: 0,
            again: None,
            patience: options.timeout,
            timeline: None,
        };
        let outcome = drive(&mut groups, &plan, sources, &options.server_pid, &bar)?;
        bar.bar.finish_and_clear();
        if outcome.stats.tally.errors > 0 {
            let messages = outcome.stats.messages.join("; ");
            return Err(format!("loading failed with {} errors: {messages}", outcome.stats.tally.errors));
        }
        let load = Report { options, title: "load", outcome };
        if options.load_only {
            return report::print(&load);
        }
        if !options.quiet {
            eprintln!("{}", report::load_line(&load));
        }
    }
    let threads = options.threads as f64;
    let plan = Plan {
        warmup: options.warmup,
        duration: options.operations.is_none().then_some(options.duration),
        operations: options.operations,
        interval: options.rate.map(|rate| Duration::from_secs_f64(threads * options.batch() as f64 / rate)),
        retries: options.retries,
        again: options.reconnect.then_some((options, &nodes)),
        patience: options.timeout,
        timeline: options.timeline,
    };
    let bar = match options.operations {
        Some(operations) => Bar::new(options.quiet, operations, false),
        None => Bar::new(options.quiet, plan.length().as_millis() as u64, true),
    };
    let stream = |thread| Source::random(Arc::clone(&commands), options.seed, thread);
    let outcome = drive(&mut groups, &plan, stream, &options.server_pid, &bar)?;
    bar.bar.finish_and_clear();
    report::print(&Report { options, title: "bench", outcome })
}

/// Opens all connections, dealt out to the threads, and those of each thread to the nodes.
fn connect(options: &Options, nodes: &Nodes) -> Result<Vec<Vec<Connection>>, String> {
    let mut groups: Vec<Vec<Connection>> = (0..options.threads).map(|_| Vec::new()).collect();
    for index in 0..options.connections {
        let node = index / options.threads % nodes.addresses.len();
        let connection =
            Connection::open(options, nodes, node, index == 0, clock::now()).map_err(|error| match index {
                0 => error,
                _ => format!("connection {} of {}: {error}", index + 1, options.connections),
            })?;
        groups[index % options.threads].push(connection);
    }
    if options.load_only {
        return Ok(groups);
    }
    if options.against.is_some() {
        for connection in groups.iter_mut().flat_map(|group| group.iter_mut().skip(1).step_by(2)) {
            connection.role = Role::Against;
        }
    }
    for index in 0..options.subscribers {
        let mut connection = Connection::open(options, nodes, index % nodes.addresses.len(), false, clock::now())?;
        connection.role = Role::Subscriber;
        let sent = connection.send(b"SUBSCRIBE bench\r\n");
        sent.map_err(|error| format!("subscriber {} of {}: {error}", index + 1, options.subscribers))?;
        groups[index % options.threads].push(connection);
    }
    Ok(groups)
}

/// A progress bar on standard error, drawn only if that is a terminal.
struct Bar {
    bar: ProgressBar,
    /// It measures time, not commands.
    timed: bool,
}

impl Bar {
    fn new(quiet: bool, length: u64, timed: bool) -> Self {
        if quiet {
            return Self { bar: ProgressBar::hidden(), timed };
        }
        let template = match timed {
            true => "{wide_bar} {elapsed} {msg}",
            false => "{wide_bar} {pos} of {len} commands {msg}",
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        Self { bar: ProgressBar::new(length).with_style(style), timed }
    }

    fn draw(&self, elapsed: Duration, commands: u64) {
        self.bar.set_message(format!("{:.0}/s", commands as f64 / elapsed.as_secs_f64().max(1e-9)));
        self.bar.set_position(if self.timed { elapsed.as_millis() as u64 } else { commands });
    }
}

/// When a run's parts end and how fast it goes.
struct Plan<'a> {
    warmup: Duration,
    /// Without a duration the run lasts until the operations or the source are used up.
    duration: Option<Duration>,
    operations: Option<u64>,
    /// Time between two batches of a thread.
    interval: Option<Duration>,
    retries: u32,
    /// With `--reconnect`.
    again: Option<(&'a Options, &'a Nodes)>,
    /// How long a batch may have no reply.
    patience: Option<Duration>,
    /// Milliseconds.
    timeline: Option<u64>,
}

impl Plan<'_> {
    fn length(&self) -> Duration {
        self.warmup + self.duration.unwrap_or_default()
    }
}

/// The results of a run.
pub struct Outcome {
    /// Sums over the threads, of the measured part.
    pub stats: Stats,
    /// Commands answered in the measured time.
    pub commands: u64,
    /// Each connection's share.
    pub shares: Shares,
    /// The measured time.
    pub elapsed: Duration,
    /// CPU time of this process in it.
    pub client_cpu: Duration,
    /// The server's processes, if their numbers were given.
    pub server: Option<Server>,
}

/// The use of resources by the server's processes together.
pub struct Server {
    /// CPU time in the measured time.
    pub cpu: Duration,
    /// Resident memory at the end, in bytes.
    pub resident: u64,
}

/// CPU times and progress at one moment.
struct Moment {
    at: Instant,
    commands: u64,
    client: Duration,
    server: Option<Duration>,
}

impl Moment {
    fn now(progress: &[Progress], server_pids: &[u32]) -> Result<Self, String> {
        let server = server_pids.iter().map(|pid| process::cpu_time(*pid)).sum::<Result<Duration, _>>()?;
        Ok(Self {
            server: (!server_pids.is_empty()).then_some(server),
            client: process::cpu_time(std::process::id())?,
            commands: progress.iter().map(Progress::get).sum(),
            at: clock::now(),
        })
    }
}

/// Runs one thread per group of connections to the plan's end, and gives the groups back.
fn drive(
    groups: &mut Vec<Vec<Connection>>,
    plan: &Plan<'_>,
    source: impl Fn(u64) -> Source,
    server_pids: &[u32],
    bar: &Bar,
) -> Result<Outcome, String> {
    let threads = groups.len();
    let control = Control::default();
    let progress: Vec<Progress> = (0..threads).map(|_| Progress::default()).collect();
    let (done, finished) = channel();
    if plan.warmup.is_zero() {
        control.set(Phase::Measure);
    }
    std::thread::scope(|scope| {
        let began = Moment::now(&progress, server_pids)?;
        let mut handles = Vec::new();
        for (index, connections) in std::mem::take(groups).into_iter().enumerate() {
            let worker = Worker {
                connections,
                source: source(index as u64),
                control: &control,
                progress: &progress[index],
                quota: plan.operations.map(|operations| share(operations, index, threads)),
                interval: plan.interval,
                retries: plan.retries,
                again: plan.again,
                patience: plan.patience,
                timeline: plan.timeline,
            };
            let done = done.clone();
            handles.push(scope.spawn(move || {
                let result = worker.run();
                // The receiver lives until all threads are joined.
                let _ = done.send(result.is_ok());
                result
            }));
        }
        let watch = Watch { control: &control, progress: &progress, finished: &finished, server_pids, bar };
        let moments = watch.run(plan, began, threads);
        // Also after an error: the scope ends only when every thread has.
        control.set(Phase::Stop);
        let mut stats = Stats::new();
        let mut failure = None;
        for handle in handles {
            match handle.join() {
                Ok(Ok((connections, counted))) => {
                    groups.push(connections);
                    stats.add(counted);
                }
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        let (first, last) = moments?;
        if let Some(error) = failure {
            return Err(error);
        }
        let server = match (first.server, last.server) {
            (Some(first), Some(last)) => {
                let resident = server_pids.iter().map(|pid| process::resident_bytes(*pid)).sum::<Result<u64, _>>()?;
                Some(Server { cpu: last.saturating_sub(first), resident })
            }
            _ => None,
        };
        let loading = groups.iter().flatten().filter(|connection| connection.role == Role::Load);
        let shares = Shares::of(&loading.map(|connection| connection.batches).collect::<Vec<_>>());
        Ok(Outcome {
            stats,
            shares,
            commands: last.commands - first.commands,
            elapsed: last.at.saturating_duration_since(first.at),
            client_cpu: last.client.saturating_sub(first.client),
            server,
        })
    })
}

/// The main thread's part while the others run.
struct Watch<'a> {
    control: &'a Control,
    progress: &'a [Progress],
    /// A thread has ended: well or not.
    finished: &'a Receiver<bool>,
    server_pids: &'a [u32],
    bar: &'a Bar,
}

impl Watch<'_> {
    /// Waits for the plan's end and returns the first and last moment of the measured part.
    fn run(&self, plan: &Plan<'_>, began: Moment, mut running: usize) -> Result<(Moment, Moment), String> {
        let start = began.at;
        let mut first = began;
        if !plan.warmup.is_zero() {
            self.wait(start, Some(start + plan.warmup), &mut running);
            self.control.set(Phase::Measure);
            first = Moment::now(self.progress, self.server_pids)?;
        }
        self.wait(start, plan.duration.map(|duration| first.at + duration), &mut running);
        let last = Moment::now(self.progress, self.server_pids)?;
        Ok((first, last))
    }

    /// Waits for a time, or until every thread has ended, or until one has failed.
    fn wait(&self, start: Instant, until: Option<Instant>, running: &mut usize) {
        while *running > 0 {
            let now = clock::now();
            let step = until.map_or(REFRESH, |until| until.saturating_duration_since(now).min(REFRESH));
            if step.is_zero() {
                return;
            }
            match self.finished.recv_timeout(step) {
                Ok(true) => *running -= 1,
                Err(RecvTimeoutError::Timeout) => self.draw(now.saturating_duration_since(start)),
                Ok(false) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn draw(&self, elapsed: Duration) {
        let commands: u64 = self.progress.iter().map(Progress::get).sum();
        self.bar.draw(elapsed, commands);
    }
}

/// A thread's share of a number.
fn share(total: u64, index: usize, threads: usize) -> u64 {
    let threads = threads as u64;
    total / threads + u64::from((index as u64) < total % threads)
}
