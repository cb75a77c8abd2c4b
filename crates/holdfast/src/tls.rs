//! TLS to a server, by redis-cli's options.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use membership::certificates::{self, SignedBy, provider};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

/// The places of the system's authorities: of Debian and its relatives, of Red Hat's, of others.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
/// The environment variable that names another place.
const SYSTEM_VARIABLE: &str = "SSL_CERT_FILE";

/// A connection that speaks TLS.
pub type Stream = StreamOwned<ClientConnection, TcpStream>;

/// How to speak TLS with a server, if at all.
#[derive(Args, Clone, Debug, Default)]
pub struct TlsOptions {
    /// Speak TLS with the server
    #[arg(long, conflicts_with = "unix_socket")]
    pub tls: bool,
    /// The authorities that must have signed the server's certificate (PEM). Without this and --cacertdir they are the
    /// system's, and the certificate must also name the host
    #[arg(long, value_name = "FILE", requires = "tls")]
    cacert: Option<PathBuf>,
    /// A directory of such files
    #[arg(long, value_name = "DIR", requires = "tls")]
    cacertdir: Option<PathBuf>,
    /// The certificate to show the server (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["tls", "key"])]
    cert: Option<PathBuf>,
    /// The private key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["tls", "cert"])]
    key: Option<PathBuf>,
    /// The server's name to tell the server, instead of the host
    #[arg(long, value_name = "NAME", requires = "tls")]
    sni: Option<String>,
    /// Take any certificate of a server
    #[arg(long, requires = "tls")]
    insecure: bool,
}

impl TlsOptions {
    /// Does the handshake over a socket that blocks. Its time limits hold.
    ///
    /// # Errors
    /// In words for the user: a file cannot be used, or the other side is not the server that is wanted.
    pub fn connect(&self, host: &str, socket: TcpStream) -> Result<Stream, String> {
        let name = self.sni.as_deref().unwrap_or(host).to_owned();
        let name = ServerName::try_from(name).map_err(|why| format!("no name for TLS: {why}"))?;
        let config = Arc::new(self.config()?);
        let mut connection = ClientConnection::new(config, name).map_err(|why| format!("TLS: {why}"))?;
        let mut socket = socket;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket).map_err(|why| format!("TLS: {why}"))?;
        }
        Ok(StreamOwned::new(connection, socket))
    }

    fn config(&self) -> Result<ClientConfig, String> {
        let judge = self.judge()?;
        let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let builder = builder.map_err(|why| why.to_string())?.dangerous().with_custom_certificate_verifier(judge);
        Ok(match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => {
                let own = certificates::own(cert, key)?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own)))
            }
            _ => builder.with_no_client_auth(),
        })
    }

    fn judge(&self) -> Result<Arc<dyn ServerCertVerifier>, String> {
        if self.insecure {
            return Ok(Arc::new(SignedBy::new(None)));
        }
        if self.cacert.is_none() && self.cacertdir.is_none() {
            let named = std::env::var_os(SYSTEM_VARIABLE).map(PathBuf::from);
            let found = named.or_else(|| SYSTEM.iter().map(PathBuf::from).find(|path| Path::exists(path)));
            let path = found.ok_or("this system names no authorities: --cacert names a file of them")?;
            let roots = Arc::new(certificates::authorities(Some(&path), None)?);
            let judge = WebPkiServerVerifier::builder_with_provider(roots, provider()).build();
            return judge.map(|judge| judge as _).map_err(|why| why.to_string());
        }
        let roots = certificates::authorities(self.cacert.as_deref(), self.cacertdir.as_deref())?;
        // As with redis-cli, names do not matter then.
        Ok(Arc::new(SignedBy::new(Some(Arc::new(roots)))))
    }
}
