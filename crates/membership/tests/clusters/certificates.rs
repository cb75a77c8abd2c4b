//! Authorities and certificates for tests (X.509, RFC 5280), with keys for Ed25519 (RFC 8410).
#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::path::Path;

use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};

/// The flaw of a certificate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// No flaw.
    None,
    /// It was valid until 2021.
    Expired,
    /// It is of X.509 version 1.
    Version1,
    /// It may sign other certificates.
    IsAuthority,
}

/// An authority that signs certificates.
pub struct Authority {
    name: &'static str,
    key: Ed25519KeyPair,
    /// Its own certificate, in PEM.
    pub pem: String,
}

/// An element of DER.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let contents = parts.concat();
    let length = contents.len() as u16;
    // Lengths are as short as they can be.
    let mut out = match length {
        0..0x80 => vec![tag, length as u8],
        0x80..0x100 => vec![tag, 0x81, length as u8],
        _ => [&[tag, 0x82][..], &length.to_be_bytes()].concat(),
    };
    out.extend_from_slice(&contents);
    out
}

fn pem(kind: &str, bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for piece in bytes.chunks(3) {
        let bits = piece.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - piece.len()));
        for letter in 0..4 {
            let six = bits >> (18 - 6 * letter) & 63;
            text.push(if letter <= piece.len() { char::from(LETTERS[six as usize]) } else { '=' });
        }
    }
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", lines.join("\n"))
}

const SEQUENCE: u8 = 0x30;
const ED25519: &[u8] = &[0x30, 5, 6, 3, 0x2b, 0x65, 0x70];

fn key() -> (Ed25519KeyPair, String) {
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    (Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap(), pem("PRIVATE KEY", pkcs8.as_ref()))
}

fn name(common: &str) -> Vec<u8> {
    let attribute = der(SEQUENCE, &[&[6, 3, 0x55, 4, 3], &der(0x0c, &[common.as_bytes()])]);
    der(SEQUENCE, &[&der(0x31, &[&attribute])])
}

fn certificate(issuer: (&str, &Ed25519KeyPair), subject: (&str, &Ed25519KeyPair), flaw: Flaw) -> String {
    let end = if flaw == Flaw::Expired { b"210101000000Z" } else { b"491231235959Z" };
    let validity = der(SEQUENCE, &[&der(0x17, &[b"200101000000Z"]), &der(0x17, &[end])]);
    let bits = der(0x03, &[&[0], subject.1.public_key().as_ref()]);
    let public = der(SEQUENCE, &[ED25519, &bits]);
    // basicConstraints, critical.
    let constraints = if flaw == Flaw::IsAuthority { der(SEQUENCE, &[&[1, 1, 0xff]]) } else { der(SEQUENCE, &[]) };
    let extension = der(SEQUENCE, &[&[6, 3, 0x55, 0x1d, 0x13], &[1, 1, 0xff], &der(0x04, &[&constraints])]);
    let extensions = der(0xa3, &[&der(SEQUENCE, &[&extension])]);
    let (version, extensions) = match flaw {
        Flaw::Version1 => (&[][..], Vec::new()),
        _ => (&[0xa0, 3, 2, 1, 2][..], extensions),
    };
    let serial = [2, 1, 1];
    let signed =
        der(SEQUENCE, &[version, &serial, ED25519, &name(issuer.0), &validity, &name(subject.0), &public, &extensions]);
    let signature = der(0x03, &[&[0], issuer.1.sign(&signed).as_ref()]);
    pem("CERTIFICATE", &der(SEQUENCE, &[&signed, ED25519, &signature]))
}

impl Authority {
    /// Makes an authority.
    pub fn new(name: &'static str) -> Self {
        let (key, _) = key();
        let pem = certificate((name, &key), (name, &key), Flaw::IsAuthority);
        Self { name, key, pem }
    }

    /// Writes a new certificate for `subject`, with a new key, into a folder: `cert.pem` and `key.pem`.
    pub fn issue(&self, subject: &str, flaw: Flaw, folder: &Path) {
        let (key, private) = key();
        let cert = certificate((self.name, &self.key), (subject, &key), flaw);
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("cert.pem"), cert).unwrap();
        fs::write(folder.join("key.pem"), private).unwrap();
    }

    /// As [`Self::issue`], and makes the folder trust this authority: `ca.pem`.
    pub fn equip(&self, subject: &str, folder: &Path) {
        self.issue(subject, Flaw::None, folder);
        fs::write(folder.join("ca.pem"), &self.pem).unwrap();
    }
}
