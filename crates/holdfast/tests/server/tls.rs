//! TLS for clients: who gets in, what goes through, what ends, with both drivers.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned};

use crate::certificates::{Authority, Flaw};
use crate::support::{Client, Scratch, Server, free_port};

/// The longest wait for anything that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Trusts every server, and keeps nothing secret: these are tests.
#[derive(Debug)]
struct Trusting;

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

type Stream = StreamOwned<ClientConnection, TcpStream>;

fn config(identity: Option<&Path>) -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(Trusting));
    match identity {
        None => builder.with_no_client_auth(),
        Some(folder) => {
            let chain = CertificateDer::pem_file_iter(folder.join("cert.pem")).unwrap().map(Result::unwrap).collect();
            let key = PrivateKeyDer::from_pem_file(folder.join("key.pem")).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    }
}

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
    match line.strip_prefix('$') {
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
    authority: Authority,
}

impl Secure {
    fn start(settings: &[&str]) -> Secure {
        let (scratch, authority) = (Scratch::new(), Authority::new("authority"));
        authority.equip("server", &scratch.path().join("server"));
        authority.issue("app", Flaw::None, &scratch.path().join("app"));
        Authority::new("other").issue("app", Flaw::None, &scratch.path().join("stranger"));
        let file = |name: &str| scratch.path().join("server").join(name).display().to_string();
        let (cert, key, ca) = (file("cert.pem"), file("key.pem"), file("ca.pem"));
        let port = free_port();
        let text = port.to_string();
        let own = ["--tls-port", &text, "--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
        let server = Server::start(&[&own, settings].concat());
        Secure { server, port, scratch, authority }
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
        // A client that does not speak TLS gets nothing.
        let mut plain = TcpStream::connect(("127.0.0.1", secure.port)).unwrap();
        plain.set_read_timeout(Some(PATIENCE)).unwrap();
        plain.write_all(b"PING\r\n").unwrap();
        let mut heard = Vec::new();
        let _ = plain.read_to_end(&mut heard);
        assert!(!heard.windows(4).any(|piece| piece == b"PONG"), "{heard:?}");
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
    let _ = &secure.authority;
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
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_protocol_versions(&[version]).unwrap().dangerous();
        let config = builder.with_custom_certificate_verifier(Arc::new(Trusting)).with_no_client_auth();
        let mut stream = over(config, secure.port);
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

#[test]
fn handshakes_that_do_not_end_are_few_and_short() {
    with_both_drivers(|settings| {
        let limits = ["--maxclients", "60", "--tls-auth-clients", "no"];
        let secure = Secure::start(&[settings, &limits].concat());
        // The beginning of a record whose rest does not come.
        let open = || {
            let mut socket = TcpStream::connect(("127.0.0.1", secure.port)).unwrap();
            socket.write_all(&[0x16, 3, 1, 2, 0, 1]).unwrap();
            socket
        };
        let began = Instant::now();
        let mut half: Vec<TcpStream> = (0..50).map(|_| open()).collect();
        // Others still get in, over TLS as well.
        assert!(gets_in(secure.port, None));
        assert_eq!(secure.server.client().call("ping"), "+PONG");
        for socket in &mut half {
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            match socket.read(&mut [0]) {
                Ok(0) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
                Ok(_) => panic!("an answer to half a record"),
            }
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        // More than a handshake needs is not kept.
        let mut socket = open();
        let mut piece = vec![0x16, 3, 1, 0x3f, 0xff, 1, 0, 0xff, 0xff];
        piece.resize(5 + 0x3fff, 0);
        let head = [0x16, 3, 1, 0x3f, 0xff];
        let _ = socket.write_all(&piece);
        for _ in 0..64 {
            if socket.write_all(&[&head[..], &piece[5..]].concat()).is_err() {
                break;
            }
        }
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut heard = Vec::new();
        let _ = socket.read_to_end(&mut heard);
        assert!(gets_in(secure.port, None));
    });
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
