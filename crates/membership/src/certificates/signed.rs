//! The check that a server's certificate comes from given authorities, whatever name is in it.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::provider;

/// Accepts every server with a certificate of some authorities, and unlike the library's own judge compares no names:
/// these authorities sign for servers of one owner alone.
#[derive(Debug)]
pub struct SignedBy {
    /// None: any certificate will do.
    roots: Option<Arc<RootCertStore>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl SignedBy {
    /// By these authorities. None: any certificate will do.
    pub fn new(roots: Option<Arc<RootCertStore>>) -> Self {
        Self { roots, algorithms: provider().signature_verification_algorithms }
    }
}

impl ServerCertVerifier for SignedBy {
    fn verify_server_cert(
        &self,
        first: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(roots) = &self.roots {
            let first = ParsedCertificate::try_from(first)?;
            verify_server_cert_signed_by_trust_anchor(&first, roots, between, now, self.algorithms.all)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
