//! A session and a client of the library, without sockets.

use std::io::{IoSlice, Read, Write};
use std::sync::Arc;

use membership::certificates::authorities;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Error};

use super::testing::tls_client::config;
use super::testing::{Folder, off};
use super::{Buffer, Heard, Session, Sort};

struct Pair {
    client: ClientConnection,
    session: Session,
    /// How often the session has said that its handshake is over.
    opened: usize,
    heard: Vec<u8>,
    /// Pieces in which ciphertext comes.
    piece: usize,
    /// The plaintext that the client has received.
    got: Vec<u8>,
}

impl Pair {
    fn new(config: ClientConfig, session: Session, piece: usize) -> Pair {
        let client = ClientConnection::new(Arc::new(config), ServerName::try_from("a").unwrap()).unwrap();
        Pair { client, session, opened: 0, heard: Vec::new(), piece, got: Vec::new() }
    }

    /// Carries bytes both ways until there are none.
    fn carry(&mut self) -> Result<(), Error> {
        let mut out = Buffer::default();
        loop {
            let mut sent = Vec::new();
            while self.client.wants_write() {
                self.client.write_tls(&mut sent).unwrap();
            }
            let nothing = sent.is_empty();
            for piece in sent.chunks_mut(self.piece) {
                let (opened, heard) = (&mut self.opened, &mut self.heard);
                self.session.take(piece, &mut out, |news| match news {
                    Heard::Open(_) => *opened += 1,
                    Heard::Data(bytes) => {
                        assert_eq!(*opened, 1, "data before the end of the handshake");
                        heard.extend_from_slice(bytes);
                    }
                })?;
            }
            self.deliver(&mut out);
            if nothing && !self.client.wants_write() {
                return Ok(());
            }
        }
    }

    fn deliver(&mut self, out: &mut Buffer) {
        let mut bytes = out.unsent();
        while !bytes.is_empty() {
            self.client.read_tls(&mut bytes).unwrap();
            self.client.process_new_packets().unwrap();
            // The library holds one record at most.
            let _ = self.client.reader().read_to_end(&mut self.got);
        }
        out.clear();
    }
}

#[test]
fn bytes_go_both_ways_in_any_pieces() {
    let (folder, _authority) = Folder::new("pieces");
    let tls = off();
    tls.change(&folder.settings(&[("tls-auth-clients", "no")])).unwrap();
    for piece in [1, 7, 1000, 1 << 16] {
        let mut pair = Pair::new(config(None), Session::new(tls.config().unwrap(), false), piece);
        // Before the handshake: it comes together with the client's last message of it.
        pair.client.writer().write_all(b"early").unwrap();
        pair.carry().unwrap();
        assert_eq!((pair.opened, pair.heard.as_slice()), (1, b"early".as_slice()));
        assert!(pair.session.is_open() && pair.session.is_at_rest());
        let large: Vec<u8> = (0..50_000u32).map(|i| (i / 5) as u8).collect();
        pair.client.writer().write_all(&large).unwrap();
        pair.carry().unwrap();
        assert!(pair.heard[5..] == large);

        let (mut plain, mut out) = (Vec::new(), Buffer::default());
        let pieces = [&b"head"[..], &large, b"tail", b"", &large[..20_000]].map(IoSlice::new);
        let n = pair.session.seal(&pieces, &mut plain, &mut out).unwrap();
        assert_eq!(n, 70_008);
        // As few records as can be: five of 16 KB.
        let mut records = 0;
        let mut rest = out.unsent();
        while let Some(&[_, _, _, high, low]) = rest.get(..5) {
            rest = &rest[5 + usize::from(u16::from_be_bytes([high, low]))..];
            records += 1;
        }
        assert_eq!(records, 5);
        pair.deliver(&mut out);
        assert!(pair.got == pieces.iter().flat_map(|piece| piece.to_vec()).collect::<Vec<u8>>());
        pair.session.close(&mut out);
        pair.deliver(&mut out);
        assert_eq!(pair.client.reader().read(&mut [0]).unwrap(), 0, "the end is told");
        pair.client.send_close_notify();
        pair.carry().unwrap();
        assert!(pair.session.has_ended());
    }
}

#[test]
fn what_is_no_tls_is_told_and_kept_within_bounds() {
    let (folder, _authority) = Folder::new("bounds");
    let tls = off();
    tls.change(&folder.settings(&[])).unwrap();
    let session = |either| Session::new(tls.config().unwrap(), either);
    assert_eq!(session(true).sort(b"PING"), Sort::Plain);
    assert_eq!([session(true).sort(&[22]), session(false).sort(b"PING")], [Sort::Greets; 2]);
    let mut out = Buffer::default();
    assert!(session(false).take(&mut b"PING\r\n".repeat(9), &mut out, |_| ()).is_err());
    assert!(out.is_empty(), "a client without TLS would not understand an alert");
    assert!(session(false).take(&mut [22, 3, 3, 0, 4, 99, 0, 0, 0], &mut out, |_| ()).is_err());
    assert_eq!(out.unsent()[0], 21, "an alert");
    out.clear();
    // A message of the handshake that never ends.
    let mut long = session(false);
    let mut record = vec![22, 3, 1, 0x3f, 0xff, 1, 0, 0xff, 0xff];
    record.resize(5 + 0x3fff, 0);
    let mut more = vec![22, 3, 1, 0x3f, 0xff];
    more.resize(5 + 0x3fff, 0);
    assert!(long.take(&mut record, &mut out, |_| ()).is_ok());
    let ended = (0..8).find(|_| long.take(&mut more.clone(), &mut out, |_| ()).is_err());
    assert!(ended.is_some_and(|n| n < 3), "{ended:?}");
    // A client without a certificate is refused.
    let mut pair = Pair::new(config(None), session(false), 1 << 16);
    assert_eq!(pair.carry(), Err(Error::NoCertificatesPresented));
    assert_eq!(pair.opened, 0);
}

#[test]
fn sessions_are_resumed_and_no_longer_when_the_files_change() {
    let (folder, _authority) = Folder::new("resume");
    let tls = off();
    let settings = folder.settings(&[("tls-auth-clients", "no")]);
    tls.change(&settings).unwrap();
    let mut config = config(None);
    config.resumption = Resumption::in_memory_sessions(8);
    let resumes = |tls: &super::Tls| {
        let mut pair = Pair::new(config.clone(), Session::new(tls.config().unwrap(), false), 1 << 16);
        pair.carry().unwrap();
        pair.client.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    };
    assert_eq!([resumes(&tls), resumes(&tls)], [false, true]);
    let (other, _) = Folder::new("resume-other");
    std::fs::copy(other.0.join("cert.pem"), folder.0.join("cert.pem")).unwrap();
    tls.look();
    assert!(resumes(&tls), "a certificate without its key is not used");
    std::fs::copy(other.0.join("key.pem"), folder.0.join("key.pem")).unwrap();
    tls.look();
    assert_eq!([resumes(&tls), resumes(&tls)], [false, true]);
    tls.change(&folder.settings(&[("tls-auth-clients", "no"), ("tls-session-caching", "no")])).unwrap();
    assert_eq!([resumes(&tls), resumes(&tls)], [false, false]);
}

#[test]
fn a_directory_of_authorities_will_do() {
    let (folder, authority) = Folder::new("directory");
    let authorities_in = folder.0.join("authorities");
    std::fs::create_dir_all(&authorities_in).unwrap();
    std::fs::write(authorities_in.join("a.crt"), &authority.pem).unwrap();
    std::fs::write(authorities_in.join("README"), "none").unwrap();
    let name = authorities_in.display().to_string();
    let settings = folder.settings(&[("tls-ca-cert-file", ""), ("tls-ca-cert-dir", &name)]);
    off().change(&settings).unwrap();
    assert_eq!(authorities(None, Some(&authorities_in)).unwrap().len(), 1);
    std::fs::remove_file(authorities_in.join("a.crt")).unwrap();
    let why = off().change(&settings).unwrap_err();
    assert!(why.contains("no file in it has a certificate"), "{why}");
    let why = off().change(&folder.settings(&[("tls-ca-cert-file", "")])).unwrap_err();
    assert!(why.starts_with("Either tls-ca-cert-file or tls-ca-cert-dir must be specified"), "{why}");
}
