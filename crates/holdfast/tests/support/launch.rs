//! Server processes of a test: each has a directory and a port of its own.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The longest wait for a server that starts.
const PATIENCE: Duration = Duration::from_secs(120);

/// A directory of its own, removed with the value.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("holdfast-test-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A port that is free now and that no other test of this process gets. Another process may still take it before its
/// server does.
pub fn free_port() -> u16 {
    free_ports(1)
}

/// The first of `n` ports in a row, of which each is free now. So are the one 1,000 above it, where a node of a cluster
/// has its smart clients, and the one 10,000 above it, where nodes hear each other, and those 2,000 above a machine's
/// first ones, where its log-server is. No other test of this process gets the first of them.
///
/// They are below those that Linux gives to connections, so a server that is started again finds its port free.
pub fn free_ports(n: u16) -> u16 {
    const RANGE: (u16, u16) = (11_000, 16_900);
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    for _ in 0..20_000 {
        // Processes begin at different places.
        let next = std::process::id().wrapping_mul(97).wrapping_add(NEXT.fetch_add(u32::from(n), Ordering::Relaxed));
        let first = RANGE.0 + (next % u32::from(RANGE.1 - RANGE.0 - n)) as u16;
        let all = [0, 1_000, 2_000, 10_000, 12_000];
        if (first..first + n).all(|port| all.iter().all(|above| free(port + above))) {
            return first;
        }
    }
    panic!("no free ports");
}

/// Repeats an action until it has taken less than `most`, a bounded number of times. Other work of the machine may
/// delay it now and then, but not always. Panics if it never does.
pub fn in_time(most: Duration, mut act: impl FnMut()) {
    let mut fastest = Duration::MAX;
    for _ in 0..10 {
        let begun = Instant::now();
        act();
        fastest = fastest.min(begun.elapsed());
        if fastest < most {
            return;
        }
    }
    panic!("it takes {fastest:?} at least, not {most:?} at most");
}

/// A server process, its port and its directory. All three end when the value is dropped. If the test fails, it prints
/// the last lines of the server's log.
pub struct Launched {
    pub process: Child,
    pub port: u16,
    dir: Scratch,
}

impl Launched {
    /// Starts a server with these settings (`--name value ...`) and waits until it listens. An error is the text that
    /// it wrote to standard error before it ended.
    pub fn start(settings: &[&str]) -> Result<Launched, String> {
        let mut error = String::new();
        // Another process may take the port before the server does.
        for _ in 0..5 {
            match Self::on_port(free_port(), settings) {
                Err(text) if text.contains("Address already in use") => error = text,
                result => return result,
            }
        }
        Err(error)
    }

    /// As [`Self::start`], with at most so many KB of address space.
    pub fn within(kilobytes: u64, settings: &[&str]) -> Result<Launched, String> {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -v {kilobytes}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_holdfast")]);
        Self::run(command, free_port(), None, settings)
    }

    /// As [`Self::start`], with a configuration file.
    pub fn with_file(file: &Path, settings: &[&str]) -> Result<Launched, String> {
        Self::run(Command::new(env!("CARGO_BIN_EXE_holdfast")), free_port(), Some(file), settings)
    }

    /// As [`Self::with_file`], on a port of the caller's choice.
    pub fn with_file_on_port(port: u16, file: &Path, settings: &[&str]) -> Result<Launched, String> {
        Self::run(Command::new(env!("CARGO_BIN_EXE_holdfast")), port, Some(file), settings)
    }

    /// As [`Self::start`], on a port of the caller's choice.
    pub fn on_port(port: u16, settings: &[&str]) -> Result<Launched, String> {
        Self::run(Command::new(env!("CARGO_BIN_EXE_holdfast")), port, None, settings)
    }

    fn run(mut command: Command, port: u16, file: Option<&Path>, settings: &[&str]) -> Result<Launched, String> {
        let dir = Scratch::new();
        let path = |name: &str| dir.path().join(name);
        let process = command
            .arg("server")
            .args(file)
            .args(["--port", &port.to_string(), "--dir", &dir.path().display().to_string()])
            .args(["--pidfile", &path("pid").display().to_string()])
            // Tests of durability ask for a log.
            .args(["--appendonly", "no"])
            .args(settings)
            .stdin(Stdio::null())
            .stdout(File::create(path("stdout")).unwrap())
            .stderr(File::create(path("stderr")).unwrap())
            .spawn()
            .unwrap();
        let mut server = Launched { process, port, dir };
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if server.process.try_wait().unwrap().is_some() {
                return Err(server.wrote("stderr"));
            }
            // The file is written once the server listens. A test that only connected might reach another server on the
            // port, which may be gone in the middle of the test.
            if server.wrote("pid").trim() == server.process.id().to_string() {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(format!("it does not listen: {}", server.wrote("stdout")))
    }

    /// The contents of a file of its directory.
    pub fn wrote(&self, name: &str) -> String {
        let bytes = fs::read(self.dir.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            let log = self.wrote("stdout") + &self.wrote("stderr");
            let last = log.lines().count().saturating_sub(30);
            log.lines().skip(last).for_each(|line| eprintln!("server: {line}"));
        }
    }
}
