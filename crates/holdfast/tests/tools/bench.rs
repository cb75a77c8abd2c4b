//! `holdfast bench` as a user runs it, against a tiny server in the test.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};

/// The behaviour of the server beside GET, SET and the transaction commands.
#[derive(Clone, Copy, Default)]
struct Behaviour {
    password: bool,
    /// Every third EXEC of a connection answers nil.
    conflicts: bool,
    /// Every EXEC answers an error.
    aborts: bool,
    /// Closes after this many commands.
    close_after: Option<usize>,
    /// Answers nothing after this many commands.
    silent_after: Option<usize>,
    not_resp: bool,
    /// Present if it is one of two nodes: their ports, the first of which has the lower slots, and its own number.
    half: Option<([u16; 2], usize)>,
}

/// Serves every connection until the test's process ends; returns the port.
fn serve(behaviour: Behaviour) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    serve_at(listener, behaviour);
    port
}

fn serve_at(listener: TcpListener, behaviour: Behaviour) {
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream, behaviour));
        }
    });
}

/// Starts a cluster of two.
fn serve_halves() -> [u16; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = [0, 1].map(|at: usize| listeners[at].local_addr().unwrap().port());
    for (at, listener) in listeners.into_iter().enumerate() {
        serve_at(listener, Behaviour { half: Some((ports, at)), ..Behaviour::default() });
    }
    ports
}

/// One connection; ends when the client hangs up.
fn answer(stream: TcpStream, behaviour: Behaviour) -> Option<()> {
    stream.set_nodelay(true).unwrap();
    let mut out = stream.try_clone().unwrap();
    let mut input = BufReader::new(stream);
    let (mut logged_in, mut commands, mut executed) = (!behaviour.password, 0, 0);
    let mut queued: Option<Vec<String>> = None;
    loop {
        let arguments = request(&mut input)?;
        let name = String::from_utf8(arguments[0].to_ascii_uppercase()).unwrap();
        commands += 1;
        if behaviour.close_after.is_some_and(|limit| commands > limit) {
            return None;
        }
        if behaviour.silent_after.is_some_and(|limit| commands > limit) {
            continue;
        }
        let slots;
        let plain = match name.as_str() {
            "CLUSTER" => {
                let of = |at: usize| behaviour.half.map_or(0, |(ports, _)| ports[at]);
                let range =
                    |first, last, port| format!("*3\r\n:{first}\r\n:{last}\r\n*3\r\n$0\r\n\r\n:{port}\r\n$2\r\nid\r\n");
                slots = format!("*2\r\n{}{}", range(0, 8191, of(0)), range(8192, 16383, of(1)));
                slots.as_str()
            }
            "GET" | "SET"
                if behaviour.half.is_some_and(|(_, at)| usize::from(keyspace::slot_of(&arguments[1])) / 8192 != at) =>
            {
                "-MOVED 1 elsewhere\r\n"
            }
            "GET" if arguments[1].ends_with(b"7") => "$-1\r\n",
            "GET" => "$5\r\nhello\r\n",
            "PING" => "+PONG\r\n",
            _ => "+OK\r\n",
        };
        let reply = match (name.as_str(), &mut queued) {
            _ if behaviour.not_resp => "HTTP/1.1 400 Bad Request\r\n".to_owned(),
            ("AUTH", _) if arguments[1..] == [b"default".to_vec(), b"secret".to_vec()] => {
                logged_in = true;
                "+OK\r\n".to_owned()
            }
            ("AUTH", _) => "-WRONGPASS invalid username-password pair\r\n".to_owned(),
            _ if !logged_in => "-NOAUTH Authentication required.\r\n".to_owned(),
            ("MULTI", _) => {
                queued = Some(Vec::new());
                "+OK\r\n".to_owned()
            }
            ("EXEC", _) => {
                executed += 1;
                let replies = queued.take().unwrap();
                match behaviour {
                    Behaviour { aborts: true, .. } => "-ABORTED by a test\r\n".to_owned(),
                    Behaviour { conflicts: true, .. } if executed % 3 == 0 => "*-1\r\n".to_owned(),
                    _ => format!("*{}\r\n{}", replies.len(), replies.concat()),
                }
            }
            (_, Some(queue)) => {
                queue.push(plain.to_owned());
                "+QUEUED\r\n".to_owned()
            }
            _ => plain.to_owned(),
        };
        // Sometimes in two parts, so that replies arrive cut.
        let (head, tail) = reply.as_bytes().split_at(if commands % 5 == 0 { reply.len() / 2 } else { 0 });
        out.write_all(head).ok()?;
        out.write_all(tail).ok()?;
    }
}

fn request(input: &mut impl BufRead) -> Option<Vec<Vec<u8>>> {
    let number = |input: &mut dyn BufRead| -> Option<usize> {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        line.trim_end().get(1..)?.parse().ok()
    };
    let count = number(input)?;
    (0..count)
        .map(|_| {
            let len = number(input)?;
            let mut argument = vec![0; len + 2];
            input.read_exact(&mut argument).ok()?;
            argument.truncate(len);
            Some(argument)
        })
        .collect()
}

fn bench(port: u16, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .args(["bench", "--port", &port.to_string(), "--connections", "4", "--keys", "100", "--quiet"])
        .args(arguments)
        .output()
        .unwrap()
}

/// The number of a field of the JSON report.
fn field(output: &Output, name: &str) -> f64 {
    let text = String::from_utf8_lossy(&output.stdout);
    let (_, rest) = text.split_once(&format!("\"{name}\": ")).unwrap_or_else(|| panic!("no {name} in {output:?}"));
    rest.split([',', '}']).next().unwrap().parse().unwrap()
}

fn error(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn connections_that_were_closed_are_made_again() {
    let port = serve(Behaviour { close_after: Some(50), ..Behaviour::default() });
    let output = bench(port, &["--operations", "2000", "--reconnect", "--timeline", "100", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let (answered, lost) = (field(&output, "batches"), field(&output, "lost"));
    assert_eq!(answered + lost, 2000.0);
    // Each connection of four lasts for fifty commands, and the next one is lost with it.
    assert!(field(&output, "reconnects") >= 30.0 && lost >= 30.0, "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let (_, steps) = text.split_once("\"timeline\": [[").unwrap();
    let counts = steps.split('[').map(|step| step.split(',').next().unwrap().parse::<f64>().unwrap());
    assert_eq!(counts.sum::<f64>(), answered);
    assert!(error(&bench(port, &["--timeline", "100"])).contains("--json"));
}

#[test]
fn connections_that_are_silent_are_made_again() {
    let port = serve(Behaviour { silent_after: Some(50), ..Behaviour::default() });
    let run = bench(port, &["--operations", "1000", "--reconnect", "--timeout", "0.2", "--json"]);
    assert!(run.status.success(), "{run:?}");
    let (answered, lost) = (field(&run, "batches"), field(&run, "lost"));
    assert_eq!(answered + lost, 1000.0);
    assert!(field(&run, "reconnects") >= 10.0 && lost >= 10.0, "{run:?}");
    let run = error(&bench(port, &["--operations", "1000", "--timeout", "0.2"]));
    assert!(run.contains("has not answered within 200ms"), "{run}");
}

#[test]
fn counts_operations_nils_and_errors() {
    let port = serve(Behaviour::default());
    let run = bench(port, &["--json", "--operations", "2000", "--get-ratio", "1", "--threads", "2", "--load"]);
    assert!(run.status.success(), "{run:?}");
    assert_eq!(field(&run, "commands"), 2000.0);
    assert_eq!(field(&run, "errors"), 0.0);
    let nils = field(&run, "nils");
    assert!((100.0..350.0).contains(&nils), "a tenth of the keys are nil: {nils}");
    assert!(field(&run, "latency_ms_p50") > 0.0 && field(&run, "latency_ms_max") >= field(&run, "latency_ms_p999"));
}

#[test]
fn pipelines_and_custom_commands() {
    let port = serve(Behaviour::default());
    let run = bench(port, &["--json", "--operations", "1600", "--mode", "pipeline", "--batch", "16"]);
    assert_eq!((field(&run, "commands"), field(&run, "batches")), (1600.0, 100.0));
    let run = bench(port, &["--json", "--operations", "100", "--command", "GET k7"]);
    assert_eq!((field(&run, "commands"), field(&run, "nils")), (100.0, 100.0));
    let run = bench(port, &["--load-only"]);
    assert!(String::from_utf8_lossy(&run.stdout).contains("SET of every key once"), "{run:?}");
}

#[test]
fn several_nodes() {
    let [one, two] = serve_halves();
    // Clients that know the owner of each key. The last threads to load have keys for each node, too.
    let of_all = ["--json", "--cluster", "--load", "--threads", "2", "--operations", "1600", "--mode", "pipeline"];
    let run = bench(two, &of_all);
    assert!(run.status.success(), "{run:?}");
    assert_eq!((field(&run, "commands"), field(&run, "errors")), (1600.0, 0.0));
    // Clients that do not: half of their commands reach the wrong node.
    let nodes = format!("localhost:{one},127.0.0.1:{two}");
    let dealt_out = |more: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_holdfast"))
            .args(["bench", "--nodes", &nodes, "--connections", "4", "--keys", "100", "--quiet", "--json"])
            .args(["--operations", "1000"])
            .args(more)
            .output()
            .unwrap()
    };
    let run = dealt_out(&[]);
    assert_eq!(field(&run, "commands"), 1000.0);
    assert!((200.0..800.0).contains(&field(&run, "errors")), "{run:?}");
    // Clients that share the keys out themselves.
    let run = dealt_out(&["--shard"]);
    assert_eq!((field(&run, "commands"), field(&run, "errors")), (1000.0, 0.0));
    let gone = format!("{},4294967295", std::process::id());
    assert!(error(&bench(one, &["--server-pid", &gone])).contains("no such process"), "each is looked at");
    let few = error(&bench(one, &["--cluster", "--threads", "3"]));
    assert!(few.contains("--connections 4") && few.contains("2 nodes"), "{few}");
    let none = error(&bench(serve(Behaviour::default()), &["--cluster", "--mode", "tx"]));
    assert!(none.contains("--mode tx"), "{none}");
}

#[test]
fn a_duration_and_a_rate_end_by_themselves() {
    let port = serve(Behaviour::default());
    let run = bench(port, &["--json", "--duration", "0.3", "--warmup", "0.1", "--rate", "1000"]);
    assert!(run.status.success() && field(&run, "seconds") >= 0.3, "{run:?}");
}

#[test]
fn transactions_are_retried_and_given_up() {
    let port = serve(Behaviour { conflicts: true, ..Behaviour::default() });
    let run = bench(port, &["--json", "--operations", "600", "--mode", "tx", "--batch", "6"]);
    assert_eq!((field(&run, "commands"), field(&run, "batches")), (600.0, 100.0));
    assert_eq!(field(&run, "transactions_failed"), 0.0);
    assert!(field(&run, "transactions_retried") >= 25.0, "{run:?}");
    let port = serve(Behaviour { aborts: true, ..Behaviour::default() });
    let run = bench(port, &["--operations", "600", "--mode", "tx", "--batch", "6", "--retries", "1"]);
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(text.contains("100 retried (50.00%), 100 failed"), "{text}");
    assert!(text.contains("200 errors, 0 nils (ABORTED by a test)"), "{text}");
}

#[test]
fn says_what_is_wrong() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let refused = error(&bench(free, &[]));
    assert!(
        refused.contains(&format!("cannot connect to 127.0.0.1:{free}")) && refused.contains("refused"),
        "{refused}"
    );

    let port = serve(Behaviour { password: true, ..Behaviour::default() });
    assert!(error(&bench(port, &[])).contains("set HOLDFAST_PASSWORD or --password (NOAUTH Authentication required.)"));
    assert!(error(&bench(port, &["--password", "x"])).contains("refused AUTH: the server refuses the password"));
    assert!(bench(port, &["--password", "secret", "--operations", "10"]).status.success());

    let port = serve(Behaviour { not_resp: true, ..Behaviour::default() });
    assert!(error(&bench(port, &[])).contains("not RESP: unexpected byte 'H'"));

    let port = serve(Behaviour { close_after: Some(50), ..Behaviour::default() });
    let closed = error(&bench(port, &["--operations", "10000"]));
    assert!(closed.contains("the server closed a connection after"), "{closed}");

    for (arguments, part) in [
        (["--get-ratio", "2"], "accepted are 0 (only SET) to 1 (only GET)"),
        (["--mode", "pipe"], "possible values: single, pipeline, tx"),
        (["--connections", "0"], "--connections"),
        (["--value-size", "5-2"], "the smaller size first"),
        (["--command", "get9"], "takes no number"),
        (["--server-pid", "4294967295"], "no such process"),
    ] {
        let message =
            error(&Command::new(env!("CARGO_BIN_EXE_holdfast")).arg("bench").args(arguments).output().unwrap());
        assert!(message.contains(part) && message.contains(arguments[0]), "{arguments:?}: {message}");
    }
}
