//! Nodes that speak TLS.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::Arc;

use membership::control::{DataLink, TlsFiles};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use crate::certificates::{Authority, Flaw};
use crate::harness::{Node, Nodes, stream, wait};
use crate::tls_client::config;

fn files(folder: &Path) -> TlsFiles {
    let ca = Some(folder.join("ca.pem"));
    TlsFiles { cert: folder.join("cert.pem"), key: folder.join("key.pem"), ca, ..TlsFiles::default() }
}

/// Nodes with certificates of `authority`; not started.
fn equipped(test: u8, count: u8, authority: &Authority) -> Nodes {
    let mut nodes = Nodes::prepared(test, count);
    for (n, node) in nodes.nodes.iter_mut().enumerate() {
        let files = files(&node.tls_folder());
        authority.equip(&format!("node-{n}"), &node.tls_folder());
        node.settings.tls = Some(files);
    }
    nodes
}

/// Dials a link from `a` to `b`. Failures of a machine that stands still for a while do not count.
fn dial(a: &Node, b: &Node, tag: u64) -> Result<DataLink, String> {
    wait("a link, or a reason", || {
        a.control().dial(b.id(), tag);
        let link = wait("a link or none", || a.try_data_link().map(Ok).or_else(|| a.try_no_link().map(Err)));
        match link {
            Err((_, why)) if why == "no answer" => None,
            link => Some(link.map_err(|(_, why)| why)),
        }
    })
}

/// Both ends of a new link.
fn linked(a: &Node, b: &Node, tag: u64) -> (TcpStream, TcpStream) {
    let dialed = dial(a, b, tag).unwrap();
    assert_eq!((dialed.dialed, dialed.peer.party.node), (Some(tag), b.id()));
    let mut dialed = stream(dialed);
    dialed.write_all(&tag.to_le_bytes()).unwrap();
    loop {
        // There may be the other end of a link that was given up.
        let mut taken = stream(b.data_link());
        let mut heard = [0; 8];
        if taken.read_exact(&mut heard).is_ok() {
            assert_eq!(u64::from_le_bytes(heard), tag);
            return (dialed, taken);
        }
    }
}

fn reason(node: &Node, why: &str) {
    wait(why, || node.control().reason().contains(why).then_some(()));
}

#[test]
fn links_over_tls_carry_and_end_as_others_do() {
    let mut nodes = equipped(62, 2, &Authority::new("authority"));
    nodes.nodes.iter_mut().for_each(Node::start);
    nodes.serve();
    let [a, b] = &nodes.nodes[..] else { panic!("two nodes") };
    let (mut dialed, mut taken) = linked(a, b, 7);
    dialed.write_all(b"ping").unwrap();
    let mut heard = [0; 4];
    taken.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"ping");

    // More than all buffers hold.
    let sent: Vec<u8> = (0..16u32 << 20).map(|i| (i / 7) as u8).collect();
    for (from, to) in [(&dialed, &taken), (&taken, &dialed)] {
        std::thread::scope(|scope| {
            scope.spawn(|| { from }.write_all(&sent).unwrap());
            let mut got = vec![0; sent.len()];
            { to }.read_exact(&mut got).unwrap();
            assert!(got == sent);
        });
    }

    // An end that does not read holds the other one back.
    dialed.set_nonblocking(true).unwrap();
    let mut held = 0usize;
    wait("the link is full", || {
        loop {
            match dialed.write(&sent[..1 << 20]) {
                Ok(n) => held += n,
                Err(why) => return (why.kind() == ErrorKind::WouldBlock && held > 1 << 20).then_some(()),
            }
            assert!(held < 1 << 30, "what is not read is taken for ever");
        }
    });
    dialed.set_nonblocking(false).unwrap();
    // One direction ends, the other goes on.
    dialed.shutdown(Shutdown::Write).unwrap();
    // Full buffers may have taken more since.
    let mut got = Vec::new();
    taken.read_to_end(&mut got).unwrap();
    assert!(got.len() >= held);
    taken.write_all(b"pong").unwrap();
    dialed.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"pong");
    drop(taken);
    assert_eq!(dialed.read(&mut heard).unwrap(), 0);

    // A cut at one side is a cut at the other.
    for one in [false, true] {
        let (dialed, taken) = linked(a, b, 8);
        let (mut stays, goes) = if one { (dialed, taken) } else { (taken, dialed) };
        stays.write_all(b"never read").unwrap();
        drop(goes);
        let ended = stays.read(&mut heard);
        assert!(matches!(&ended, Ok(0)) || ended.is_err_and(|why| why.kind() == ErrorKind::ConnectionReset));
    }

    // A node that stops ends its links.
    let (mut dialed, _taken) = linked(a, b, 9);
    nodes.nodes[1].stop();
    let ended = dialed.read(&mut heard);
    assert!(matches!(&ended, Ok(0)) || ended.is_err_and(|why| why.kind() == ErrorKind::ConnectionReset));
}

#[test]
fn with_tls_and_without_do_not_meet() {
    let mut nodes = equipped(63, 2, &Authority::new("authority"));
    nodes.nodes[1].settings.tls = None;
    nodes.nodes.iter_mut().for_each(Node::start);
    // Each node names the other's setting, and the remedy.
    reason(&nodes.nodes[0], "it does not speak TLS: tls-cluster must be the same on all nodes");
    reason(&nodes.nodes[1], "the other node says: this node uses TLS: tls-cluster must be the same on all nodes");
    nodes.nodes[1].stop();
    let folder = nodes.nodes[1].tls_folder();
    nodes.nodes[1].settings.tls = Some(files(&folder));
    nodes.nodes[1].start();
    nodes.serve();
}

#[test]
fn certificates_that_are_wrong_are_refused() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let mut nodes = equipped(64, 2, &ours);
    let folder = nodes.nodes[1].tls_folder();
    theirs.equip("stranger", &folder);
    nodes.nodes.iter_mut().for_each(Node::start);
    reason(&nodes.nodes[0], "of \"stranger\" is refused: no authority in tls-ca-cert-file has signed it");
    reason(&nodes.nodes[1], "of \"node-0\" is refused: no authority in tls-ca-cert-file has signed it");

    // The right authority, but an expired certificate.
    fs::write(folder.join("ca.pem"), &ours.pem).unwrap();
    ours.issue("node-1", Flaw::Expired, &folder);
    reason(&nodes.nodes[0], "of \"node-1\" is refused: it has expired");
    reason(&nodes.nodes[1], "the other node refuses this node's certificate or TLS: CertificateExpired");

    // An operator has taken the wrong certificate.
    ours.issue("node-1", Flaw::IsAuthority, &folder);
    reason(&nodes.nodes[0], "of \"node-1\" is refused: it is an authority's own: a node needs another");

    // Files are read again, so no new start is needed.
    ours.equip("node-1", &folder);
    nodes.serve();
}

#[test]
fn certificates_change_while_nodes_run() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let mut nodes = equipped(65, 2, &old);
    nodes.nodes.iter_mut().for_each(Node::start);
    nodes.serve();
    let [a, b] = &nodes.nodes[..] else { panic!("two nodes") };
    let folders = [a.tls_folder(), b.tls_folder()];
    linked(a, b, 1);
    // A change of authorities: both are trusted, then certificates are new, then only the new one is trusted.
    for folder in &folders {
        fs::write(folder.join("ca.pem"), format!("{}{}", old.pem, new.pem)).unwrap();
    }
    linked(a, b, 2);
    new.issue("node-0", Flaw::None, &folders[0]);
    linked(a, b, 3);
    new.issue("node-1", Flaw::None, &folders[1]);
    folders.iter().for_each(|folder| fs::write(folder.join("ca.pem"), &new.pem).unwrap());
    linked(b, a, 4);
    linked(a, b, 5);
    // A certificate of the old authority is not accepted any more.
    let other = folders[1].join("other");
    old.equip("node-1", &other);
    b.control().set_tls(&files(&other)).unwrap();
    let why = dial(a, b, 6).err().unwrap();
    assert!(why.contains("\"node-1\" is refused: no authority"), "{why}");
    // Unusable files change nothing.
    let why = b.control().set_tls(&files(&folders[1].join("nowhere"))).unwrap_err();
    assert!(why.contains("tls-ca-cert-file ") && why.contains("/nowhere/ca.pem: No such file"), "{why}");
    b.control().set_tls(&files(&folders[1])).unwrap();
    linked(a, b, 7);
    fs::write(folders[1].join("cert.pem"), "half a certificate").unwrap();
    linked(a, b, 8);
    fs::remove_file(folders[1].join("key.pem")).unwrap();
    linked(b, a, 9);
}

#[test]
fn files_that_cannot_be_used_refuse_the_start() {
    let authority = Authority::new("authority");
    let mut nodes = equipped(66, 1, &authority);
    let folder = nodes.nodes[0].tls_folder();
    let mut refused = |because: &str| {
        let why = nodes.nodes[0].try_start().unwrap_err().to_string();
        assert!(why.contains(because), "{why}");
    };
    for (file, setting) in [("cert.pem", "tls-cert-file"), ("key.pem", "tls-key-file"), ("ca.pem", "tls-ca-cert-file")]
    {
        let path = folder.join(file);
        let named = format!("{setting} {}: ", path.display());
        let was = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        refused(&format!("{named}No such file"));
        fs::create_dir(&path).unwrap();
        refused(&format!("{named}not a file"));
        fs::remove_dir(&path).unwrap();
        fs::write(&path, "nothing of the kind").unwrap();
        refused(&format!("{named}no "));
        fs::write(&path, was).unwrap();
    }
    let cert = fs::read(folder.join("cert.pem")).unwrap();
    authority.issue("another", Flaw::None, &folder);
    fs::write(folder.join("cert.pem"), cert).unwrap();
    refused("KeyMismatch");
    authority.issue("node-0", Flaw::Version1, &folder);
    refused(&format!(
        "tls-cert-file {}: it is of X.509 version 1; version 3 is needed",
        folder.join("cert.pem").display()
    ));
    authority.issue("node-0", Flaw::None, &folder);
    nodes.nodes[0].start();
    nodes.serve();
}

#[test]
fn who_speaks_in_the_clear_is_told() {
    let mut nodes = equipped(67, 1, &Authority::new("authority"));
    nodes.nodes[0].start();
    nodes.serve();
    let mut plain = TcpStream::connect(nodes.nodes[0].settings.bind).unwrap();
    plain.write_all(b"PING\r\n").unwrap();
    plain.shutdown(Shutdown::Write).unwrap();
    let mut said = Vec::new();
    plain.read_to_end(&mut said).unwrap();
    assert!(String::from_utf8_lossy(&said).contains("this node uses TLS"));
}

#[test]
fn who_shows_no_certificate_is_refused() {
    let mut nodes = equipped(68, 1, &Authority::new("authority"));
    nodes.nodes[0].start();
    nodes.serve();
    let mut tls = ClientConnection::new(Arc::new(config(None)), ServerName::try_from("node").unwrap()).unwrap();
    let mut socket = TcpStream::connect(nodes.nodes[0].settings.bind).unwrap();
    let mut stream = rustls::Stream::new(&mut tls, &mut socket);
    let said = loop {
        match stream.read(&mut [0; 64]) {
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            said => break said,
        }
    };
    let why = said.expect_err("it is no node");
    assert!(why.to_string().contains("CertificateRequired"), "{why}");
}
