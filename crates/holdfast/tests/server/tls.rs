//! TLS for clients: who gets in, what goes through, what ends, with both drivers.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::certificates::{Authority, Flaw};
use crate::support::{Client, Scratch, Server, free_port, free_ports, limit_files};
use crate::tls_client::{config, speaking};

/// The longest wait for anything that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

type Stream = StreamOwned<ClientConnection, TcpStream>;

fn over(config: ClientConfig, port: u16) -> Stream {
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.set_nodelay(true).unwrap();
    let connection = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap();
    StreamOwned::new(connection, socket)
}

fn connect(port: u16, identity: Option<&Path>) -> Stream {
    over(config(identity), port)
}

/// Sends bytes and reads so many back. None: the server has closed.
fn exchange(stream: &mut Stream, bytes: &[u8], reply: usize) -> Option<Vec<u8>> {
    let mut heard = vec![0; reply];
    let done = stream.write_all(bytes).and_then(|()| stream.read_exact(&mut heard));
    done.map_err(|why| eprintln!("no reply: {why}")).ok().map(|()| heard)
}

/// The reply to a command that answers one line, or one string.
fn ask(stream: &mut Stream, command: &str) -> Option<String> {
    stream.write_all(format!("{command}\r\n").as_bytes()).ok()?;
    let mut line = Vec::new();
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        line.push(byte[0]);
        if line.ends_with(b"\r\n") {
            break;
        }
    }
    let line = String::from_utf8(line).unwrap().trim_end().to_owned();
    match line.strip_prefix('$').filter(|length| *length != "-1") {
        Some(length) => {
            let mut text = vec![0; length.parse::<usize>().unwrap() + 2];
            stream.read_exact(&mut text).ok()?;
            Some(String::from_utf8(text).unwrap().trim_end().to_owned())
        }
        None => Some(line),
    }
}

fn gets_in(port: u16, identity: Option<&Path>) -> bool {
    ask(&mut connect(port, identity), "PING").as_deref() == Some("+PONG")
}

/// A server that speaks TLS beside its plain port, and the folders of its certificates.
struct Secure {
    server: Server,
    port: u16,
    scratch: Scratch,
}

impl Secure {
    fn start(settings: &[&str]) -> Secure {
        Secure::made(None, &Authority::new("authority"), settings)
    }

    fn on_port(port: u16, settings: &[&str]) -> Secure {
        Secure::made(Some(port), &Authority::new("authority"), settings)
    }

    fn made(plain: Option<u16>, authority: &Authority, settings: &[&str]) -> Secure {
        let scratch = Scratch::new();
        authority.equip("server", &scratch.path().join("server"));
        authority.issue("app", Flaw::None, &scratch.path().join("app"));
        Authority::new("other").issue("app", Flaw::None, &scratch.path().join("stranger"));
        let file = |name: &str| scratch.path().join("server").join(name).display().to_string();
        let (cert, key, ca) = (file("cert.pem"), file("key.pem"), file("ca.pem"));
        let port = free_port();
        let text = port.to_string();
        let own = ["--tls-port", &text, "--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
        let settings = [&own, settings].concat();
        let server = plain.map_or_else(|| Server::start(&settings), |plain| Server::on_port(plain, &settings));
        Secure { server, port, scratch }
    }

    fn folder(&self, name: &str) -> std::path::PathBuf {
        self.scratch.path().join(name)
    }
}

fn with_both_drivers(test: impl Fn(&[&str])) {
    for driver in ["epoll", "auto"] {
        test(&["--io-driver", driver, "--workers", "2"]);
    }
}

#[test]
fn certificates_decide_as_the_setting_says() {
    with_both_drivers(|settings| {
        let secure = Secure::start(settings);
        let (app, stranger) = (secure.folder("app"), secure.folder("stranger"));
        let mut admin = secure.server.client();
        let who = |port| [None, Some(app.as_path()), Some(stranger.as_path())].map(|identity| gets_in(port, identity));
        assert_eq!(who(secure.port), [false, true, false], "yes");
        for (value, in_) in
            [("no", [true, true, true]), ("optional", [true, true, false]), ("yes", [false, true, false])]
        {
            assert_eq!(admin.call(&format!("config set tls-auth-clients {value}")), "+OK");
            assert_eq!(who(secure.port), in_, "{value}");
        }
    });
}

/// The server's words to a client that begins in this way, until the server closes.
fn answer(port: u16, beginning: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(beginning).unwrap();
    let mut heard = Vec::new();
    let end = socket.read_to_end(&mut heard);
    assert!(end.is_ok_and(|_| true) || heard.is_empty(), "no end but a reset");
    heard
}

#[test]
fn a_client_at_the_wrong_port_is_not_left_waiting() {
    with_both_drivers(|settings| {
        let secure = Secure::start(settings);
        // As with Redis: no byte that a client could take for a reply.
        for beginning in ["PING\r\n", "*1\r\n$4\r\nPING\r\n", "GET / HTTP/1.1\r\n\r\n", "\0\0\0\0"] {
            assert_eq!(answer(secure.port, beginning.as_bytes()), b"", "{beginning}");
        }
        let log = secure.server.log();
        assert!(log.contains("Error accepting a client connection: "), "{log}");
        assert!(log.contains("the client does not speak TLS (addr=127.0.0.1:"), "{log}");
        // TLS where none is spoken: the greeting may have no end of a line in it.
        let mut greeting = Vec::new();
        ClientConnection::new(Arc::new(config(None)), ServerName::try_from("localhost").unwrap())
            .unwrap()
            .write_tls(&mut greeting)
            .unwrap();
        for beginning in [&greeting[..], &[0x16, 3, 1, 2, 0], b"\x16\x03\x01\r\nPING\r\n"] {
            let heard = answer(secure.server.port(), beginning);
            assert_eq!(String::from_utf8_lossy(&heard), "-ERR Protocol error: this port does not speak TLS\r\n");
        }
    });
}

#[test]
fn a_certificate_names_its_user() {
    with_both_drivers(|settings| {
        let secure = Secure::start(settings);
        let mut admin = secure.server.client();
        let whoami = || ask(&mut connect(secure.port, Some(&secure.folder("app"))), "ACL WHOAMI").unwrap();
        assert_eq!(admin.call("acl setuser app on >secret ~* +@all"), "+OK");
        assert_eq!(whoami(), "default");
        assert_eq!(admin.call("config set tls-auth-clients-user CN"), "+OK");
        assert_eq!(whoami(), "app");
        let denied = || secure.server.client().call("info stats");
        assert!(denied().contains("acl_access_denied_tls_cert:0"));
        assert_eq!(admin.call("acl setuser app off"), "+OK");
        assert_eq!(whoami(), "default");
        assert!(denied().contains("acl_access_denied_tls_cert:1"));
        let log = admin.call("acl log");
        assert!(log.contains("tls-cert") && log.contains(" app "), "{log}");
    });
}

#[test]
fn changed_files_are_used_by_new_connections() {
    let secure = Secure::start(&["--tls-auth-clients", "yes"]);
    let (app, folder) = (secure.folder("app"), secure.folder("server"));
    let mut old = connect(secure.port, Some(&app));
    assert_eq!(ask(&mut old, "PING").unwrap(), "+PONG");
    let other = Authority::new("another");
    other.issue("app", Flaw::None, &secure.folder("new"));
    fs::write(folder.join("ca.pem"), &other.pem).unwrap();
    let began = Instant::now();
    while !gets_in(secure.port, Some(&secure.folder("new"))) {
        assert!(began.elapsed() < PATIENCE, "the file is not read again");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(!gets_in(secure.port, Some(&app)), "an authority that is gone");
    assert_eq!(ask(&mut old, "PING").unwrap(), "+PONG", "a connection that was there stays");
    // Files that cannot be used change nothing.
    fs::write(folder.join("ca.pem"), "nothing").unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    assert!(gets_in(secure.port, Some(&secure.folder("new"))));
}

#[test]
fn settings_are_checked_when_they_are_set() {
    let mut secure = Secure::start(&[]);
    let mut admin = secure.server.client();
    let refused = "Unable to update TLS configuration. Check server logs.";
    for (setting, value) in [
        ("tls-ciphers", "AES128-SHA"),
        ("tls-ciphersuites", "TLS_AES_128_CCM_SHA256"),
        ("tls-protocols", "TLSv1.1"),
        ("tls-cert-file", "/nowhere"),
        ("tls-ca-cert-file", "/nowhere"),
        ("tls-ca-cert-dir", "/nowhere"),
    ] {
        let reply = admin.call(&format!("config set {setting} {value}"));
        assert!(reply.contains(refused), "{setting}: {reply}");
        assert!(!admin.call(&format!("config get {setting}")).contains(value));
    }
    let other = free_port();
    assert_eq!(admin.call(&format!("config set tls-port {other}")), "+OK");
    assert!(admin.call("info server").contains(&format!("name=tls,bind=*,bind=-::*,port={other}")));
    assert_eq!(admin.call("config set tls-port 0"), "+OK");
    assert!(TcpStream::connect(("127.0.0.1", other)).is_err());
    admin.send("shutdown nosave");
    assert!(secure.server.ends_well());
    let none = Server::refused(&["--tls-port", &free_port().to_string()]);
    assert!(none.contains("No tls-cert-file configured!"), "{none}");
}

#[test]
fn versions_and_suites_are_those_that_are_set() {
    let secure = Secure::start(&["--tls-auth-clients", "no"]);
    let mut admin = secure.server.client();
    let speaks = |version: &'static rustls::SupportedProtocolVersion| {
        let mut stream = over(speaking(&[version]), secure.port);
        let suite = ask(&mut stream, "PING").map(|_| stream.conn.negotiated_cipher_suite().unwrap().suite());
        suite.map(|suite| format!("{suite:?}"))
    };
    let (older, newer) = (&rustls::version::TLS12, &rustls::version::TLS13);
    assert!(speaks(older).is_some() && speaks(newer).is_some());
    assert_eq!(admin.call("config set tls-ciphersuites TLS_AES_128_GCM_SHA256"), "+OK");
    assert_eq!(speaks(newer).unwrap(), "TLS13_AES_128_GCM_SHA256");
    assert_eq!(admin.call("config set tls-protocols TLSv1.3"), "+OK");
    assert!(speaks(older).is_none() && speaks(newer).is_some());
    assert_eq!(admin.call("config set tls-protocols TLSv1.2"), "+OK");
    assert!(speaks(older).is_some() && speaks(newer).is_none());
    assert_eq!(admin.call("config set tls-ciphers ECDHE-ECDSA-CHACHA20-POLY1305"), "+OK");
    assert_eq!(speaks(older).unwrap(), "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256");
}

#[test]
fn large_values_and_pipelines_go_through_both_ways() {
    with_both_drivers(|settings| {
        let secure = Secure::start(&[settings, &["--tls-auth-clients", "no"]].concat());
        let mut stream = connect(secure.port, None);
        let value: Vec<u8> = (0..8u32 << 20).map(|i| (i / 3) as u8).collect();
        let mut set = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", value.len()).into_bytes();
        set.extend_from_slice(&value);
        set.extend_from_slice(b"\r\n");
        assert_eq!(exchange(&mut stream, &set, 5).unwrap(), b"+OK\r\n");
        let head = format!("${}\r\n", value.len());
        for _ in 0..3 {
            let got = exchange(&mut stream, b"GET k\r\n", head.len() + value.len() + 2).unwrap();
            assert!(&got[head.len()..head.len() + value.len()] == value.as_slice());
        }
        // Many small commands, whose replies are read only when all are sent: more than sockets hold.
        let many = 200_000;
        let (mut reader, writer) = (stream.sock.try_clone().unwrap(), "PING\r\n".repeat(many));
        stream.sock.set_nonblocking(true).unwrap();
        let (mut sent, mut heard) = (0, 0);
        let mut piece = vec![0; 1 << 16];
        let began = Instant::now();
        while heard < many * 7 {
            assert!(began.elapsed() < PATIENCE, "{sent} {heard}");
            if sent < writer.len() {
                match stream.write(&writer.as_bytes()[sent..(sent + 16384).min(writer.len())]) {
                    Ok(n) => sent += n,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
            }
            match stream.read(&mut piece) {
                Ok(0) => panic!("closed"),
                Ok(n) => heard += n,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        assert_eq!((sent, heard), (writer.len(), many * 7));
        reader.flush().unwrap();
    });
}

#[test]
fn messages_come_and_ends_are_told() {
    with_both_drivers(|settings| {
        let secure = Secure::start(&[settings, &["--tls-auth-clients", "no"]].concat());
        let (mut subscriber, mut admin) = (connect(secure.port, None), secure.server.client());
        let told = b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
        assert_eq!(exchange(&mut subscriber, b"SUBSCRIBE c\r\n", told.len()).unwrap(), told);
        assert_eq!(admin.call("publish c hello"), ":1");
        let message = b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\nhello\r\n";
        let mut heard = vec![0; message.len()];
        subscriber.read_exact(&mut heard).unwrap();
        assert_eq!(heard, message);
        // QUIT: the server says that nothing follows (close_notify), else reading to the end were an error.
        let mut stream = connect(secure.port, None);
        stream.write_all(b"QUIT\r\n").unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"+OK\r\n");
        // A client that says so is answered to the end, then closed in the same way.
        let mut stream = connect(secure.port, None);
        stream.write_all(b"PING\r\nPING\r\n").unwrap();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"+PONG\r\n+PONG\r\n");
        // One that is killed.
        let mut stream = connect(secure.port, None);
        let id: u64 = ask(&mut stream, "CLIENT ID").unwrap()[1..].parse().unwrap();
        assert_eq!(admin.call(&format!("client kill id {id}")), ":1");
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        // Damage in the middle of a record ends the connection, and nothing of it is executed.
        let mut stream = connect(secure.port, None);
        assert_eq!(ask(&mut stream, "PING").unwrap(), "+PONG");
        stream.sock.write_all(&[0x17, 3, 3, 0, 40]).unwrap();
        stream.sock.write_all(&[7; 40]).unwrap();
        assert!(stream.read(&mut [0]).is_err(), "an alert");
        assert_eq!(ask(&mut connect(secure.port, None), "PING").unwrap(), "+PONG");
    });
}

/// Clients that the server has, without the one that asks.
fn connected(admin: &mut Client) -> usize {
    let clients = admin.call("info clients");
    let count = clients.split("connected_clients:").nth(1).unwrap().split_whitespace().next().unwrap();
    count.parse::<usize>().unwrap() - 1
}

/// Connections whose handshakes have begun and go no further.
fn half_open(port: u16, beginning: &[u8], count: usize) -> Vec<TcpStream> {
    let open = |_| {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.write_all(beginning).unwrap();
        socket
    };
    (0..count).map(open).collect()
}

/// A long record of a greeting that does not end.
fn long_greeting() -> Vec<u8> {
    let mut bytes = vec![0x16, 3, 1, 0x3f, 0xff, 1, 0, 0x7f, 0xff, 3, 3];
    bytes.resize(5 + 0x3fff, 0);
    bytes.extend([0x16, 3, 1, 0x3f, 0xff]);
    bytes.resize(30 << 10, 0);
    bytes
}

#[test]
fn five_thousand_half_open_handshakes_hold_little_and_end() {
    limit_files(std::process::id(), 12_000);
    with_both_drivers(|settings| {
        let limits = ["--maxclients", "6000", "--tls-auth-clients", "no"];
        let secure = Secure::start(&[settings, &limits].concat());
        let mut admin = secure.server.client();
        for (beginning, each) in
            [(&b"\x16\x03\x01\x02\x00\x01"[..], 16 << 10), (b"", 16 << 10), (&long_greeting(), 56 << 10)]
        {
            let (before, began) = (secure.server.rss(), Instant::now());
            let mut half = half_open(secure.port, beginning, 5000);
            // Honest ones get in at once.
            assert!(gets_in(secure.port, None) && began.elapsed() < Duration::from_secs(30));
            let held = secure.server.rss().saturating_sub(before);
            eprintln!("{} bytes each: {} KB, {:?}", beginning.len(), held >> 10, began.elapsed());
            assert!(held < 5000 * each, "{held} bytes");
            // Those that are slow are soon half of all clients at most, and none after ten seconds.
            let mut few = false;
            while connected(&mut admin) > 0 {
                assert!(began.elapsed() < PATIENCE);
                few |= began.elapsed() > Duration::from_secs(4) && connected(&mut admin) <= 3100;
                std::thread::sleep(Duration::from_millis(100));
            }
            eprintln!("all gone after {:?}", began.elapsed());
            assert!(few || began.elapsed() > Duration::from_secs(15), "they did not give way");
            for socket in &mut half {
                let heard = socket.read(&mut [0]);
                let is_closed = matches!(&heard, Ok(0)) || heard.is_err_and(|why| why.kind() != ErrorKind::WouldBlock);
                assert!(is_closed, "an answer to half a record");
            }
        }
        assert!(gets_in(secure.port, None));
    });
}

#[test]
fn a_burst_of_honest_clients_loses_none() {
    with_both_drivers(|settings| {
        let secure = Secure::start(&[settings, &["--maxclients", "130", "--tls-auth-clients", "no"]].concat());
        let mut streams: Vec<Stream> = (0..110).map(|_| connect(secure.port, None)).collect();
        // All have begun before one goes on.
        for stream in &mut streams {
            let Stream { conn, sock } = stream;
            conn.write_tls(sock).unwrap();
        }
        for stream in &mut streams {
            assert_eq!(ask(stream, "PING").as_deref(), Some("+PONG"));
        }
    });
}

#[test]
fn a_handshake_byte_by_byte_ends_in_time() {
    with_both_drivers(|settings| {
        let secure = Secure::start(&[settings, &["--tls-auth-clients", "no"]].concat());
        let mut socket = half_open(secure.port, &[0x16], 1).remove(0);
        let began = Instant::now();
        for byte in [3, 1, 2, 0, 1, 0].iter().cycle() {
            if socket.write_all(&[*byte]).is_err() {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "it is still open");
            std::thread::sleep(Duration::from_millis(500));
        }
        assert!(began.elapsed() > Duration::from_secs(9), "{:?}", began.elapsed());
        // More than a handshake needs is not kept.
        let mut greedy = half_open(secure.port, &long_greeting(), 1).remove(0);
        greedy.set_read_timeout(Some(PATIENCE)).unwrap();
        let began = Instant::now();
        while greedy.write_all(&long_greeting()).is_ok() {
            assert!(began.elapsed() < Duration::from_secs(9), "it may send more and more");
        }
        assert!(gets_in(secure.port, None));
    });
}

#[test]
fn a_node_that_does_not_know_the_users_of_its_cluster_takes_a_certificate_for_none() {
    let first = free_ports(2);
    let seeds = format!("127.0.0.1:{first},127.0.0.1:{}", first + 1);
    let dir = Scratch::new();
    let file = dir.path().join("users.acl");
    fs::write(&file, "user default on nopass ~* &* +@all\nuser app on nopass ~app:* &* +@all\n").unwrap();
    let (file, folder) = (file.display().to_string(), dir.path().display().to_string());
    let node = ["--tls-auth-clients-user", "CN", "--aclfile", &file, "--cluster-seeds", &seeds, "--dir", &folder];
    let secure = Secure::on_port(first, &node);
    let mut stream = connect(secure.port, Some(&secure.folder("app")));
    let refused = "-CLUSTERDOWN this node has not heard of the cluster's users yet";
    for command in ["ACL WHOAMI", "GET other", "HELLO 3", "ACL WHOAMI"] {
        assert_eq!(ask(&mut stream, command).as_deref(), Some(refused), "{command}");
    }
    assert_eq!(secure.server.client().call("acl whoami"), "$7 default");
    // The same connection is the user as soon as the node knows who that is.
    let other = Scratch::new();
    let _other = Server::on_port(first + 1, &["--cluster-seeds", &seeds, "--dir", &other.path().display().to_string()]);
    let began = Instant::now();
    let user = loop {
        let user = ask(&mut stream, "ACL WHOAMI").unwrap();
        if user != refused {
            break user;
        }
        assert!(began.elapsed() < PATIENCE, "the cluster does not form");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(user, "app");
    assert!(ask(&mut stream, "GET other").unwrap().starts_with("-NOPERM"));
}

#[test]
fn smart_clients_are_told_ports_that_speak_tls_and_nodes_demand_certificates() {
    let first = free_ports(2);
    let seeds = format!("127.0.0.1:{first},127.0.0.1:{}", first + 1);
    let dirs = [Scratch::new(), Scratch::new()];
    let settings = ["--cluster-seeds", &seeds, "--tls-cluster", "yes", "--tls-auth-clients", "no", "--dir"];
    let authority = Authority::new("authority");
    let nodes: Vec<Secure> = (0..2)
        .map(|n| {
            let dir = dirs[n].path().display().to_string();
            Secure::made(Some(first + n as u16), &authority, &[&settings[..], &[&dir]].concat())
        })
        .collect();
    let began = Instant::now();
    while nodes[0].server.client().call("get somebody") != "$-1" {
        assert!(began.elapsed() < PATIENCE, "the cluster does not form");
        std::thread::sleep(Duration::from_millis(50));
    }
    let shards = nodes[0].server.client().call("cluster shards");
    for smart in [first + 1000, first + 1001] {
        assert!(shards.contains(&format!("$4 port :{smart} $8 tls-port :{smart}")), "{shards}");
        // The port speaks either. The error for a key elsewhere names such a port.
        let mut stream = connect(smart, None);
        let mut plain = Client::at(smart);
        for key in ["a", "b", "c", "d", "e", "f"] {
            let (told, heard) = (ask(&mut stream, &format!("GET {key}")).unwrap(), plain.call(&format!("get {key}")));
            assert!(told == heard || told.starts_with("$-1"), "{told} {heard}");
            if let Some(place) = told.strip_prefix("-MOVED ") {
                let port = place.rsplit(':').next().unwrap().parse().unwrap();
                assert!(gets_in(port, None), "{told}");
            }
        }
        // Clients need no certificate here. Other nodes do.
        let mut bus = over(config(None), smart - 1000 + 10_000);
        let why = bus.read(&mut [0]).expect_err("it is no node");
        assert!(why.to_string().contains("CertificateRequired"), "{why}");
    }
}

/// Without a port for smart clients, a client is told the port that speaks as it does.
#[test]
fn clients_are_told_the_port_that_speaks_their_language() {
    let scratch = Scratch::new();
    let dir = scratch.path().display().to_string();
    let first = free_ports(1);
    let settings =
        ["--cluster-enabled", "yes", "--cluster-client-port", "0", "--tls-auth-clients", "no", "--dir", &dir];
    let secure = Secure::made(Some(first), &Authority::new("authority"), &settings);
    let (mut plain, mut stream) = (secure.server.client(), connect(secure.port, None));
    let began = Instant::now();
    plain.call("cluster addslotsrange 0 16383");
    while !plain.call("cluster slots").contains(&format!(":16383 *4 $9 127.0.0.1 :{first} ")) {
        assert!(began.elapsed() < PATIENCE, "the cluster does not form: {}", plain.call("cluster slots"));
        std::thread::sleep(Duration::from_millis(50));
    }
    let nodes = plain.call("cluster nodes");
    assert!(nodes.contains(&format!("127.0.0.1:{first}@")), "{nodes}");
    stream.write_all(b"CLUSTER NODES\r\nPING\r\n").unwrap();
    let mut told = String::new();
    while !told.ends_with("+PONG\r\n") {
        let mut bytes = [0; 4096];
        let n = stream.read(&mut bytes).unwrap();
        told += std::str::from_utf8(&bytes[..n]).unwrap();
    }
    assert!(told.contains(&format!("127.0.0.1:{}@", secure.port)), "{told}");
    let shards = plain.call("cluster shards");
    assert!(shards.contains(&format!("$4 port :{first} $8 tls-port :{}", secure.port)), "{shards}");
}

#[test]
fn a_slow_client_is_served_byte_by_byte() {
    with_both_drivers(|settings| {
        let secure = Secure::start(&[settings, &["--tls-auth-clients", "no"]].concat());
        let mut stream = connect(secure.port, None);
        assert_eq!(ask(&mut stream, "PING").unwrap(), "+PONG");
        // Two records, which arrive in single bytes.
        let mut sealed = Vec::new();
        for _ in 0..2 {
            stream.conn.writer().write_all(b"PING\r\n").unwrap();
            stream.conn.write_tls(&mut sealed).unwrap();
        }
        for byte in sealed {
            stream.sock.write_all(&[byte]).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut heard = [0; 14];
        stream.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"+PONG\r\n+PONG\r\n");
    });
}

#[test]
fn output_limits_count_and_connections_move() {
    with_both_drivers(|settings| {
        let limits = [
            "--tls-auth-clients",
            "no",
            "--client-output-buffer-limit",
            "normal 1mb 0 0",
            "--enable-debug-command",
            "yes",
        ];
        let secure = Secure::start(&[settings, &limits].concat());
        let mut admin: Client = secure.server.client();
        // Connections go from worker to worker, and back.
        let mut streams: Vec<Stream> = (0..6).map(|_| connect(secure.port, None)).collect();
        admin.call("debug shuffle-clients 1");
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(1) {
            for stream in &mut streams {
                assert_eq!(ask(stream, "PING").unwrap(), "+PONG");
            }
        }
        admin.call("debug shuffle-clients 0");
        // A client that asks for much and reads nothing is closed.
        let big = "x".repeat(1 << 18);
        let mut stream = connect(secure.port, None);
        let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{big}\r\n", big.len());
        assert_eq!(exchange(&mut stream, set.as_bytes(), 5).unwrap(), b"+OK\r\n");
        for _ in 0..256 {
            if stream.write_all(b"GET k\r\n").is_err() {
                break;
            }
        }
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        assert!(heard.len() < 256 << 18, "all of it");
    });
}
