//! The judge of other nodes' certificates.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

use crate::certificates::{SignedBy, provider};

/// The authorities.
#[derive(Debug)]
pub struct Trust {
    servers: SignedBy,
    clients: Arc<dyn ClientCertVerifier>,
}

impl Trust {
    /// Trusts holders of certificates of these authorities.
    pub fn new(authorities: Vec<CertificateDer<'static>>) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(authority).map_err(|why| why.to_string())?;
        }
        let roots = Arc::new(roots);
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider()).build();
        let clients = clients.map_err(|why| why.to_string())?;
        Ok(Self { servers: SignedBy::new(Some(roots)), clients })
    }

    /// Checks that the first certificate descends from these authorities by way of the others, and serves on both sides
    /// of a connection.
    pub fn chain(&self, certificates: &[CertificateDer<'_>]) -> Result<(), Error> {
        let (first, between) = certificates.split_first().ok_or(Error::NoCertificatesPresented)?;
        let now = UnixTime::now();
        self.is_server(first, between, now)?;
        self.clients.verify_client_cert(first, between, now).map(drop)
    }

    fn is_server(
        &self,
        first: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        // The name is not compared.
        let name = ServerName::IpAddress(Ipv4Addr::UNSPECIFIED.into());
        self.servers.verify_server_cert(first, between, &name, &[], now).map(drop)
    }
}

/// Judges the certificate of one connection, and remembers its fault.
#[derive(Debug)]
pub struct Judge {
    trust: Arc<Trust>,
    judged: Mutex<String>,
}

impl Judge {
    /// Judges by `trust`.
    pub fn new(trust: &Arc<Trust>) -> Self {
        Self { trust: Arc::clone(trust), judged: Mutex::default() }
    }

    /// The fault; empty if there is none.
    pub fn judged(&self) -> String {
        self.judged.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note<T>(&self, certificate: &CertificateDer<'_>, judged: Result<T, Error>) -> Result<T, Error> {
        if let Err(why) = &judged {
            self.say(super::verdict(why, certificate));
        }
        judged
    }

    fn say(&self, what: String) {
        *self.judged.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    fn signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let judged = self.trust.servers.verify_tls13_signature(message, certificate, signed);
        if judged.is_err() {
            self.say("it does not prove that it has the key of its certificate".to_owned());
        }
        judged
    }
}

/// There is no code for it in this build; it is not called.
fn older() -> Result<HandshakeSignatureValid, Error> {
    Err(Error::General("TLS 1.2 is not spoken".to_owned()))
}

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        first: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let judged = self.trust.is_server(first, between, now);
        self.note(first, judged.map(|()| ServerCertVerified::assertion()))
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        older()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.trust.servers.supported_verify_schemes()
    }
}

impl ClientCertVerifier for Judge {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.trust.clients.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        first: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.note(first, self.trust.clients.verify_client_cert(first, between, now))
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        older()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.trust.servers.supported_verify_schemes()
    }
}
