//! TLS between nodes: version 1.3 (RFC 8446), and both sides show certificates of the authorities in one file.
//!
//! Names in certificates are not compared with addresses: the holder of a certificate of these authorities is a node,
//! as in Redis. Sessions are not resumed, so that every connection is judged by the present certificates.

mod verify;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::NoServerSessionStorage;
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, Error, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::stream::Socket;
use super::wire::NoLink;
use crate::certificates::{Contents, TlsFiles, in_words, provider};
use verify::{Judge, Trust};

/// How long this side waits for a refused one to hear of it.
const DRAIN: Duration = Duration::from_millis(500);

/// The first byte of a side that begins with TLS: a record of the handshake. No frame of a hello begins with it,
/// because the first byte of its length is another one.
pub const RECORD: u8 = 0x16;

/// The contents of the files.
struct Credentials {
    own: Arc<SingleCertAndKey>,
    trust: Arc<Trust>,
}

/// The TLS state of connections, renewed when the files change.
pub struct Tls {
    state: Mutex<State>,
}

struct State {
    files: TlsFiles,
    /// The contents at the last look, or the reason why they could not be read. They are small, and times of change are
    /// too coarse to tell.
    seen: Result<Contents, String>,
    credentials: Arc<Credentials>,
}

impl Tls {
    /// Reads the files.
    pub fn new(files: &TlsFiles) -> Result<Self, String> {
        Ok(Self { state: Mutex::new(State::read(files)?) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads other files; after an error the former ones stay.
    pub fn change(&self, files: &TlsFiles) -> Result<(), String> {
        let new = State::read(files)?;
        *self.state() = new;
        Ok(())
    }

    /// The present contents, or the last sound ones.
    fn look(&self) -> Arc<Credentials> {
        let mut state = self.state();
        let seen = state.files.contents();
        if seen != state.seen {
            match seen.as_ref().map_err(String::clone).and_then(Credentials::of) {
                Ok(new) => {
                    tracing::info!("certificates were read again: new connections to other nodes use them");
                    state.credentials = Arc::new(new);
                }
                Err(why) => {
                    tracing::warn!(
                        "the changed certificates cannot be used, and new connections to other nodes use the earlier ones: {why}"
                    );
                }
            }
            state.seen = seen;
        }
        Arc::clone(&state.credentials)
    }

    async fn credentials(self: &Arc<Self>) -> Result<Arc<Credentials>, NoLink> {
        let tls = Arc::clone(self);
        // A disk may take its time; leases do not wait for it.
        let looked = tokio::task::spawn_blocking(move || tls.look()).await;
        looked.map_err(|why| NoLink::Tls(why.to_string()))
    }

    /// The side that has opened the connection.
    pub async fn connect(self: &Arc<Self>, socket: TcpStream) -> Result<TlsStream<Socket>, NoLink> {
        let credentials = self.credentials().await?;
        let judge = Arc::new(Judge::new(&credentials.trust));
        let config = client(&credentials, &judge).map_err(|why| NoLink::Tls(why.to_string()))?;
        // Not sent, and not compared with anything.
        let name = ServerName::try_from("node").map_err(|why| NoLink::Tls(why.to_string()))?;
        let connected = TlsConnector::from(Arc::new(config)).connect(name, Socket::new(socket)).await;
        connected.map(TlsStream::from).map_err(|why| explain(why, &judge.judged()))
    }

    /// The side that has taken it.
    pub async fn accept(self: &Arc<Self>, socket: TcpStream) -> Result<TlsStream<Socket>, NoLink> {
        let credentials = self.credentials().await?;
        let judge = Arc::new(Judge::new(&credentials.trust));
        let config = server(&credentials, &judge).map_err(|why| NoLink::Tls(why.to_string()))?;
        let accepted = TlsAcceptor::from(Arc::new(config)).accept(Socket::new(socket)).into_fallible().await;
        match accepted {
            Ok(stream) => Ok(TlsStream::from(stream)),
            Err((why, mut socket)) => {
                let _ = socket.shutdown().await;
                drain(&mut socket).await;
                Err(explain(why, &judge.judged()))
            }
        }
    }
}

/// Reads further bytes for a moment: closing the socket before would drop the alert that tells the other side why it
/// was refused.
pub async fn drain(from: &mut (impl tokio::io::AsyncRead + Unpin)) {
    let reading = async {
        let mut left: usize = 64 << 10;
        let mut piece = [0; 1024];
        while let Ok(n @ 1..) = from.read(&mut piece).await {
            left = left.saturating_sub(n);
            if left == 0 {
                return;
            }
        }
    };
    // A side that neither reads nor goes is refused all the same, and that is logged.
    let _ = tokio::time::timeout(DRAIN, reading).await;
}

fn client(credentials: &Credentials, judge: &Arc<Judge>) -> Result<ClientConfig, Error> {
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13])?;
    let own = Arc::clone(&credentials.own);
    let judge: Arc<Judge> = Arc::clone(judge);
    let mut config = builder.dangerous().with_custom_certificate_verifier(judge).with_client_cert_resolver(own);
    config.enable_sni = false;
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn server(credentials: &Credentials, judge: &Arc<Judge>) -> Result<ServerConfig, Error> {
    let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13])?;
    let own = Arc::clone(&credentials.own);
    let judge: Arc<Judge> = Arc::clone(judge);
    let mut config = builder.with_client_cert_verifier(judge).with_cert_resolver(own);
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

impl State {
    fn read(files: &TlsFiles) -> Result<Self, String> {
        // Relative paths start at the present directory, which may change.
        let files = files.absolute()?;
        let seen = files.contents()?;
        let credentials = Arc::new(Credentials::of(&seen)?);
        Ok(Self { files, seen: Ok(seen), credentials })
    }
}

impl Credentials {
    fn of(contents: &Contents) -> Result<Self, String> {
        let own = contents.own()?;
        let authorities = contents.authorities()?;
        if authorities.is_empty() {
            return Err("tls-cluster yes needs tls-ca-cert-file or tls-ca-cert-dir".to_owned());
        }
        let trust = Trust::new(authorities).map_err(|why| format!("{}: {why}", contents.of_authorities()))?;
        if let Err(why) = trust.chain(&own.cert) {
            let why = verdict(&why, &own.cert[0]);
            tracing::warn!("{}: other nodes may refuse it, as this one would: {why}", contents.of_certificate());
        }
        Ok(Self { own: Arc::new(SingleCertAndKey::from(own)), trust: Arc::new(trust) })
    }
}

/// The fault of a certificate, in words that stay the same from one attempt to the next.
fn verdict(why: &Error, certificate: &CertificateDer<'_>) -> String {
    let name = crate::certificates::subject(certificate).map_or_else(String::new, |name| format!(" of {name:?}"));
    format!("the certificate{name} is refused: {}", in_words(why))
}

/// The network's or TLS's error, in words for people. `judged` is the verdict on the other side's certificate.
fn explain(why: io::Error, judged: &str) -> NoLink {
    if !judged.is_empty() {
        return NoLink::Tls(judged.to_owned());
    }
    match of_tls(&why) {
        Some(words) => NoLink::Tls(words),
        None => NoLink::Io(why),
    }
}

/// TLS's error, if it is one.
pub fn of_tls(why: &io::Error) -> Option<String> {
    let error = why.get_ref()?.downcast_ref::<Error>()?;
    Some(match error {
        Error::NoCertificatesPresented => "it shows no certificate".to_owned(),
        Error::AlertReceived(alert) => format!("the other node refuses this node's certificate or TLS: {alert:?}"),
        Error::InvalidMessage(_) => "it does not speak TLS: tls-cluster must be the same on all nodes".to_owned(),
        other => format!("TLS: {other}"),
    })
}

/// A refused side may have sent much, or go on sending, or neither send anything nor go.
#[test]
fn what_still_comes_is_read_within_limits() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let (mut refused, mut end) = tokio::io::duplex(1 << 20);
        refused.write_all(&[1; 10_000]).await.expect("there is room");
        refused.shutdown().await.expect("nobody hinders it");
        drain(&mut end).await;
        assert_eq!(end.read(&mut [0]).await.expect("the end"), 0, "all of it");

        let (mut refused, mut end) = tokio::io::duplex(1 << 20);
        refused.write_all(&[1; 100_000]).await.expect("there is room");
        drain(&mut end).await;
        let mut rest = Vec::new();
        refused.shutdown().await.expect("nobody hinders it");
        end.read_to_end(&mut rest).await.expect("the rest");
        assert!((1..100_000 - (64 << 10) + 1024).contains(&rest.len()), "{} bytes are left", rest.len());

        let (_silent, mut end) = tokio::io::duplex(1);
        drain(&mut end).await;
    });
}
