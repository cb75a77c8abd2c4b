//! `holdfast server` as its operator sees it: command line, configuration file, log, signals.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::support::{Launched, Scratch, free_port};

impl Scratch {
    /// Writes a configuration file with this text behind `dir`. Returns its path.
    fn config(&self, text: &str) -> String {
        let path = self.path().join("holdfast.conf");
        let own = format!("dir {}\nbind 127.0.0.1\nlog-segment-size 1mb\n", self.path().display());
        fs::write(&path, own + text).unwrap();
        path.display().to_string()
    }
}

fn holdfast(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.arg("server").args(args);
    command
}

/// Runs a server that is expected to end by itself.
fn ends(args: &[&str]) -> Output {
    holdfast(args).stdin(Stdio::null()).output().unwrap()
}

/// A server that runs until it is told to end, or the value goes.
struct Running {
    process: Child,
    /// Its log lines until it was ready.
    log: String,
}

impl Running {
    fn start(args: &[&str]) -> Running {
        let mut process = holdfast(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut log = String::new();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        while !log.contains("Ready to accept connections") {
            assert_ne!(lines.read_line(&mut log).unwrap(), 0, "it ended: {log}");
        }
        // Keeps the pipe empty, so that the server never waits for a reader of its log.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Running { process, log }
    }

    /// As [`Running::start`], for a server that logs to a file.
    fn start_quietly(args: &[&str], log: &std::path::Path) -> Running {
        let server = Running { process: holdfast(args).spawn().unwrap(), log: String::new() };
        let ready = || fs::read_to_string(log).is_ok_and(|log| log.contains("Ready to accept connections"));
        for _ in 0..12_000 {
            if ready() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(ready());
        server
    }

    /// Asks for the end. Returns true if it was a good one.
    fn terminate(mut self) -> bool {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").arg(pid).status().unwrap().success());
        self.process.wait().unwrap().success()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends one inline command. Returns its reply, with lines joined by blanks.
fn ask(port: u16, line: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "{line}\r\nquit\r\n").unwrap();
    let lines: Vec<_> = BufReader::new(stream).lines().map_while(Result::ok).collect();
    let (_, reply) = lines.split_last().expect("the reply to quit");
    reply.join(" ")
}

fn get(port: u16, name: &str) -> String {
    let reply = ask(port, &format!("config get {name}"));
    reply.rsplit(' ').next().unwrap().to_owned()
}

#[test]
fn says_what_is_wrong_with_the_command_line() {
    for (args, wanted) in [
        (&["--invalid"][..], "Bad directive or wrong number of arguments"),
        (&["--port", "--bla", "--loglevel", "verbose"], "argument couldn't be parsed into an integer"),
        (&["--store", "s3://bucket"], "others than the embedded one are not built yet"),
        (&["--rename-command", "nothing", "x"], "No such command in rename-command"),
        (&["--dir", "/no/such/directory"], "No such file or directory"),
        (&["/no/such/file.conf"], "can't open config file"),
    ] {
        let output = ends(args);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(wanted), "{args:?}: {text}");
    }
    let help = ends(&["--help"]);
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(help.status.success() && text.contains("--maxmemory-policy"), "{text}");
    assert!(ends(&["--version"]).stdout.starts_with(b"Holdfast server v="));
}

#[test]
fn says_who_has_the_port() {
    let scratch = Scratch::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let output = ends(&[&scratch.config(""), "--port", &port.to_string()]);
    let log = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && log.contains(&format!("Failed listening on port {port}")), "{log}");
}

/// The PID file belongs to a server that serves. A server that cannot serve leaves another's file alone.
#[test]
fn who_does_not_serve_writes_no_pid_file() {
    let scratch = Scratch::new();
    let pid_file = scratch.path().join("pid");
    fs::write(&pid_file, "another").unwrap();
    let (port, taken) = (free_port(), TcpListener::bind("127.0.0.1:0").unwrap());
    let (seeds, nodes) = (format!("127.0.0.1:{port}"), taken.local_addr().unwrap().port().to_string());
    let cluster = ["--port", &port.to_string(), "--cluster-seeds", &seeds, "--cluster-port", &nodes];
    let output = ends(&[&[&*scratch.config(""), "--pidfile", &pid_file.display().to_string()][..], &cluster].concat());
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && why.contains("Address already in use"), "{why}");
    assert_eq!(fs::read_to_string(&pid_file).unwrap(), "another");
}

/// The other tests rely on this.
#[test]
fn nobody_takes_another_server_for_his_own() {
    let first = Launched::start(&[]).unwrap();
    let second = Launched::on_port(first.port, &[]).err().unwrap_or_default();
    assert!(second.contains("Address already in use"), "{second}");
}

#[test]
fn starts_tells_and_ends() {
    let scratch = Scratch::new();
    let port = free_port();
    let pid_file = scratch.path().join("pid");
    let config = scratch.config(&format!("port {port}\npidfile {}\nlist-compress-depth 1\n", pid_file.display()));
    let server = Running::start(&[&config, "--workers", "1", "--maxmemory", "1mb"]);
    let pid = server.process.id().to_string();
    for line in [
        &format!("PID: {pid}"),
        "Durability: always",
        "1 workers",
        "'list-compress-depth' has no effect",
        "writes will fail",
    ] {
        assert!(server.log.contains(line), "{line} in {}", server.log);
    }
    assert_eq!(fs::read_to_string(&pid_file).unwrap().trim(), pid);
    assert_eq!(ask(port, "ping"), "+PONG");
    assert_eq!(get(port, "dir"), fs::canonicalize(scratch.path()).unwrap().display().to_string());
    assert!(server.terminate(), "SIGTERM is a good end");
    assert!(!pid_file.exists());
}

/// The next start finds a setting that CONFIG SET has switched, if CONFIG REWRITE was called.
#[test]
fn a_switch_is_kept_by_config_rewrite() {
    let scratch = Scratch::new();
    let port = free_port();
    let config = scratch.config(&format!("# mine\nport {port}\nappendonly no\nsave \"\"\n"));
    let server = Running::start(&[&config]);
    assert!(server.log.contains("Durability: none"), "{}", server.log);
    for line in ["set kept 1", "config set appendonly yes", "config set appendfsync everysec", "config rewrite"] {
        assert_eq!(ask(port, line), "+OK", "{line}");
    }
    let text = fs::read_to_string(&config).unwrap();
    for line in ["# mine", "appendonly yes", "appendfsync everysec"] {
        assert_eq!(text.lines().filter(|other| *other == line).count(), 1, "{line} in {text}");
    }
    assert!(server.terminate());
    let server = Running::start(&[&config]);
    assert!(server.log.contains("Durability: everysec"), "{}", server.log);
    assert_eq!(ask(port, "exists kept"), ":1");
    for line in ["config set appendonly no", "config rewrite"] {
        assert_eq!(ask(port, line), "+OK", "{line}");
    }
    assert!(server.terminate());
    let server = Running::start(&[&config]);
    assert!(
        server.log.contains("Durability: none") && server.log.contains("appendonly is off: the data in"),
        "{}",
        server.log
    );
    assert_eq!(ask(port, "exists kept"), ":0");
    assert!(server.terminate());
}

#[test]
fn tells_systemd_when_it_is_ready_and_when_it_stops() {
    let scratch = Scratch::new();
    let path = scratch.path().join("notify");
    let systemd = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    systemd.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let told = || {
        let mut text = [0; 200];
        let length = loop {
            match systemd.recv(&mut text) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                length => break length.unwrap(),
            }
        };
        String::from_utf8_lossy(&text[..length]).into_owned()
    };
    let port = free_port().to_string();
    let mut command = holdfast(&[&scratch.config(""), "--supervised", "systemd", "--port", &port]);
    let process = command.env("NOTIFY_SOCKET", &path).stdout(Stdio::null()).spawn().unwrap();
    let server = Running { process, log: String::new() };
    let first = told();
    assert!(first.contains("EXTEND_TIMEOUT_USEC=") && !first.contains("READY=1"), "{first}");
    // A slow start asks for time more than once.
    while !told().contains("READY=1\n") {}
    assert!(server.terminate());
    assert!(told().contains("STOPPING=1\n"));
}

#[test]
fn warns_of_what_has_no_effect_when_it_is_set() {
    let scratch = Scratch::new();
    let port = free_port();
    let log = scratch.path().join("server.log");
    let _server = Running::start_quietly(&[&scratch.config(&format!("port {port}\nlogfile server.log\n"))], &log);
    assert_eq!(ask(port, "config set locale-collate C"), "+OK");
    assert!(ask(port, "config set min-replicas-to-write 1").contains("replication is not built yet"));
    let log = fs::read_to_string(&log).unwrap();
    assert!(log.contains("setting 'locale-collate' has no effect at 'C'"), "{log}");
}

#[test]
fn logs_to_a_file() {
    let scratch = Scratch::new();
    let port = free_port().to_string();
    let log = scratch.path().join("server.log");
    Running::start_quietly(&[&scratch.config("logfile server.log\n"), "--port", &port], &log);
}

#[test]
fn what_was_set_and_written_holds_after_a_restart() {
    let scratch = Scratch::new();
    let port = free_port();
    let config = scratch.config(&format!("# my file\nport {port}\nmaxmemory 1gb\nrename-command echo shout\n"));
    let server = Running::start(&[&config]);
    assert_eq!(ask(port, "shout hello"), "$5 hello");
    assert!(ask(port, "echo hello").starts_with("-ERR unknown command"));
    assert_eq!(ask(port, "config set maxmemory 2gb save \"\" maxmemory-policy allkeys-lru"), "+OK");
    assert!(ask(port, "config set maxmemory 3gb maxmemory-samples 0").starts_with("-ERR CONFIG SET failed"));
    assert_eq!(ask(port, "config rewrite"), "+OK");
    let text = fs::read_to_string(&config).unwrap();
    assert!(text.contains("# my file\n") && text.contains("maxmemory 2gb\n"), "{text}");
    assert!(server.terminate());
    let _server = Running::start(&[&config]);
    assert_eq!(get(port, "maxmemory"), (2u64 << 30).to_string());
    assert_eq!(get(port, "maxmemory-policy"), "allkeys-lru");
    assert_eq!(ask(port, "config get save"), "*2 $4 save $0 ");
    assert_eq!(ask(port, "shout hello"), "$5 hello");
}

#[test]
fn moves_to_another_port_while_it_runs() {
    let scratch = Scratch::new();
    let (first, second) = (free_port(), free_port());
    let _server = Running::start(&[&scratch.config(&format!("port {first}\n"))]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = taken.local_addr().unwrap().port();
    let error = ask(first, &format!("config set maxmemory 10000001 port {busy} client-query-buffer-limit 10m"));
    assert!(
        error.starts_with(
            "-ERR CONFIG SET failed (possibly related to argument 'port') - Unable to listen on this port"
        ),
        "{error}"
    );
    assert_eq!((get(first, "maxmemory"), get(first, "port")), ("0".to_owned(), first.to_string()));
    assert_eq!(ask(first, &format!("config set port {second}")), "+OK");
    assert_eq!(get(second, "port"), second.to_string());
    assert!(TcpStream::connect(("127.0.0.1", first)).is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn the_title_of_the_process() {
    let shown = |server: &Running| {
        let bytes = fs::read(format!("/proc/{}/cmdline", server.process.id())).unwrap();
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
    };
    let (scratch, port) = (Scratch::new(), free_port());
    let file = scratch.config(&format!("port {port}"));
    let server = Running::start(&[&file]);
    assert_eq!(shown(&server), format!("{} 127.0.0.1:{port}", env!("CARGO_BIN_EXE_holdfast")));
    let long = "x".repeat(200);
    for (template, title) in [
        ("{port}-{tls-port}-{config-file}".to_owned(), format!("{port}-0-{file}")),
        (format!("{long}{{server-mode}}"), long.clone()),
        ("short".to_owned(), "short".to_owned()),
    ] {
        assert_eq!(ask(port, &format!("config set proc-title-template {template}")), "+OK");
        assert_eq!(shown(&server), title);
    }
    drop(server);
    let server = Running::start(&[&file, "--set-proc-title", "no"]);
    assert!(shown(&server).contains("set-proc-title"));
}
