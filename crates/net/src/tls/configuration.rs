//! The configuration of TLS for clients, made of the settings and renewed when the files change.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};
use std::time::Duration;

use membership::certificates::{Contents, TlsFiles, in_words, provider};
use node::Clock;
use node::config::{AuthClients, Settings};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::{RootCertStore, ServerConfig};

use super::store::Sessions;
use super::suites;

/// Sessions that are kept if `tls-session-cache-size` is 0, which in OpenSSL means no bound.
const SESSIONS: usize = 20_480;
/// The time between two looks at the files.
const LOOK: Duration = Duration::from_secs(1);
/// Sessions that each new connection may resume later.
const TICKETS: usize = 1;

/// The configuration of the listeners that speak TLS; clones share it.
#[derive(Clone)]
pub struct Tls(Arc<Shared>);

struct Shared {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// Starts the thread that looks at the files.
    watch: Once,
}

#[derive(Default)]
struct State {
    /// None: no listener speaks TLS.
    files: Option<TlsFiles>,
    settings: Option<Settings>,
    /// The contents at the last look, or the reason why they could not be read.
    seen: Option<Result<Contents, String>>,
    config: Option<Arc<ServerConfig>>,
}

impl Tls {
    /// A configuration for no listener yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Shared { clock, state: Mutex::default(), watch: Once::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The configuration for a new connection. None: TLS is not spoken.
    pub fn config(&self) -> Option<Arc<ServerConfig>> {
        self.state().config.clone()
    }

    /// Has new connections use the present settings.
    ///
    /// # Errors
    /// The setting or file that cannot be used, and why. The former configuration stays.
    pub fn change(&self, settings: &Settings) -> Result<(), String> {
        if settings.tls_port == 0 {
            *self.state() = State::default();
            return Ok(());
        }
        let files = files(settings)?.absolute()?;
        let contents = files.contents()?;
        let config = Some(self.made(settings, &contents)?);
        let (files, settings) = (Some(files), Some(settings.clone()));
        self.0.watch.call_once(|| watch(Arc::downgrade(&self.0)));
        *self.state() = State { files, settings, seen: Some(Ok(contents)), config };
        Ok(())
    }

    /// Reads the files again, and has new connections use them if they have changed.
    pub fn look(&self) {
        let (files, settings) = {
            let state = self.state();
            match (&state.files, &state.settings) {
                (Some(files), Some(settings)) => (files.clone(), settings.clone()),
                _ => return,
            }
        };
        // Not under the lock: a disk may take its time.
        let seen = files.contents();
        let state = self.state();
        if state.files.as_ref() != Some(&files) || state.seen.as_ref() == Some(&seen) {
            return;
        }
        drop(state);
        let made = seen.as_ref().map_err(String::clone).and_then(|contents| self.made(&settings, contents));
        let mut state = self.state();
        match made {
            Ok(config) => {
                tracing::info!("certificates were read again: new TLS connections of clients use them");
                state.config = Some(config);
            }
            Err(why) => {
                tracing::warn!(
                    "the changed certificates cannot be used, and new TLS connections of clients use the earlier ones: {why}"
                );
            }
        }
        state.seen = Some(seen);
    }

    fn made(&self, settings: &Settings, contents: &Contents) -> Result<Arc<ServerConfig>, String> {
        let mut provider = (*provider()).clone();
        suites::choose(&mut provider, &settings.tls_ciphers, &settings.tls_ciphersuites)?;
        let provider = Arc::new(provider);
        let versions = suites::versions(&settings.tls_protocols)?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_protocol_versions(&versions).map_err(|why| why.to_string())?;
        let own = Arc::new(SingleCertAndKey::from(contents.own()?));
        let mut config = match judge(settings, contents)? {
            Some(judge) => builder.with_client_cert_verifier(judge),
            None => builder.with_no_client_auth(),
        }
        .with_cert_resolver(own);
        config.ignore_client_order = settings.tls_prefer_server_ciphers;
        if settings.tls_session_caching {
            let most = if settings.tls_session_cache_size == 0 { SESSIONS } else { settings.tls_session_cache_size };
            let seconds = settings.tls_session_cache_timeout;
            config.session_storage = Arc::new(Sessions::new(Arc::clone(&self.0.clock), most, seconds));
            config.send_tls13_tickets = TICKETS;
        } else {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Arc::new(config))
    }
}

/// Looks at the files every second, on a thread of its own: a disk that hangs holds up no client. The thread ends with
/// the listeners.
fn watch(shared: Weak<Shared>) {
    let looking = move || {
        loop {
            std::thread::park_timeout(LOOK);
            let Some(shared) = shared.upgrade() else { return };
            Tls(shared).look();
        }
    };
    if let Err(error) = std::thread::Builder::new().name("certificates".into()).spawn(looking) {
        tracing::warn!("changed certificates will not be noticed: no thread looks at them: {error}");
    }
}

/// The judge of clients' certificates. None: they are not asked for any.
fn judge(settings: &Settings, contents: &Contents) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
    let authorities = contents.authorities()?;
    if settings.tls_auth_clients == AuthClients::No {
        return Ok(None);
    }
    if authorities.is_empty() {
        let words = "Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-cluster, tls-replication \
                     or tls-auth-clients are enabled!";
        return Err(words.to_owned());
    }
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority).map_err(|why| format!("{}: {}", contents.of_authorities(), in_words(&why)))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
    let builder = match settings.tls_auth_clients {
        AuthClients::Optional => builder.allow_unauthenticated(),
        _ => builder,
    };
    builder.build().map(Some).map_err(|why| why.to_string())
}

fn files(settings: &Settings) -> Result<TlsFiles, String> {
    let path = |text: &Option<Vec<u8>>| text.as_ref().map(|text| PathBuf::from(OsStr::from_bytes(text)));
    Ok(TlsFiles {
        cert: path(&settings.tls_cert_file).ok_or("No tls-cert-file configured!")?,
        key: path(&settings.tls_key_file).ok_or("No tls-key-file configured!")?,
        password: settings.tls_key_file_pass.clone(),
        ca: path(&settings.tls_ca_cert_file),
        ca_dir: path(&settings.tls_ca_cert_dir),
    })
}
