//! A TLS client for tests: it trusts every server.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, WantsClientCert};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ConfigBuilder, DigitallySignedStruct, Error, SignatureScheme, SupportedProtocolVersion};

/// Trusts every server, and keeps nothing secret.
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

fn builder(versions: &[&'static SupportedProtocolVersion]) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_protocol_versions(versions).unwrap();
    builder.dangerous().with_custom_certificate_verifier(Arc::new(Trusting))
}

/// A client without a certificate that speaks these versions.
pub fn speaking(versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
    builder(versions).with_no_client_auth()
}

/// A client with the certificate in a folder, or with none.
pub fn config(identity: Option<&Path>) -> ClientConfig {
    let Some(folder) = identity else { return speaking(rustls::DEFAULT_VERSIONS) };
    let chain = CertificateDer::pem_file_iter(folder.join("cert.pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(folder.join("key.pem")).unwrap();
    builder(rustls::DEFAULT_VERSIONS).with_client_auth_cert(chain, key).unwrap()
}
