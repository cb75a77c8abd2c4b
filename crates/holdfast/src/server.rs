//! `holdfast server`: reads the configuration, starts the node, waits for its end.

use std::io::{self, Read};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use net::Server;
use node::config::{Arguments, Disk, Live, LogLevel, help, load};
use node::{Clock, Facts, Node};

/// The clocks of the machine.
struct SystemClock(Instant);

#[expect(clippy::disallowed_methods, reason = "this is where the real clocks enter")]
impl SystemClock {
    fn new() -> Self {
        Self(Instant::now())
    }

    fn unix(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn since_start(&self) -> Duration {
        self.0.elapsed()
    }
}

impl Clock for SystemClock {
    fn unix_ms(&self) -> u64 {
        self.unix().as_millis() as u64
    }

    fn monotonic_ns(&self) -> u64 {
        self.since_start().as_nanos() as u64
    }
}

/// Runs a server with what follows `holdfast server` on the command line.
pub fn run(args: &[Vec<u8>]) -> ExitCode {
    if args.iter().any(|a| a == b"--help" || a == b"-h") {
        println!("{}", help());
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

fn serve(args: &[Vec<u8>]) -> Result<(), Box<dyn std::error::Error>> {
    let mut stdin = || {
        let mut text = Vec::new();
        io::stdin().read_to_end(&mut text).map(|_| text)
    };
    let loaded = load(&Arguments::parse(args), &Disk, &mut stdin)?;
    let warnings = loaded.warnings.clone();
    let live = Arc::new(Live::of(loaded));
    let settings = live.settings();
    let level = match settings.loglevel {
        LogLevel::Debug => tracing::Level::TRACE,
        LogLevel::Verbose => tracing::Level::DEBUG,
        LogLevel::Notice => tracing::Level::INFO,
        LogLevel::Warning | LogLevel::Nothing => tracing::Level::WARN,
    };
    tracing_subscriber::fmt().with_max_level(level).with_ansi(false).init();
    for warning in warnings {
        tracing::warn!("{warning}");
    }

    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let workers = if settings.workers == 0 { cores } else { settings.workers };
    let clock = Arc::new(SystemClock::new());
    let seed = random_seed()?;
    let facts = Facts {
        run_id: format!("{:016x}{:016x}{:08x}", random_seed()?, random_seed()?, random_seed()? as u32),
        pid: std::process::id(),
        os: std::env::consts::OS.into(),
        started_ms: clock.unix_ms(),
        executable: std::env::current_exe().map(|p| p.display().to_string()).unwrap_or_default(),
        driver: "epoll".into(),
        memory: Some(crate::memory::in_use),
        resident: Some(crate::memory::resident),
        ..Facts::default()
    };
    let listeners = net::listeners(&settings)?;
    let node = Node::new(live, clock, workers, seed, facts);
    println!("Holdfast {} pid {}", env!("CARGO_PKG_VERSION"), std::process::id());
    println!("  port      {}", settings.port);
    println!("  workers   {workers}");
    println!("  driver    {}", node.facts.driver);
    println!("  durability none: a pure cache; the log is not built yet");
    let server = Server::start(node, listeners, seed)?;
    println!("Ready to accept connections");
    server.join()?;
    Ok(())
}

/// Eight bytes from the system's source of randomness.
fn random_seed() -> io::Result<u64> {
    let mut bytes = [0u8; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
