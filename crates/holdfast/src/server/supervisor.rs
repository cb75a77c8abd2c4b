//! `supervised`: telling systemd that the server is ready and when it stops, as sd_notify(3) describes.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use node::config::Supervised;

/// The supervisor to tell, if there is one.
#[derive(Debug)]
pub struct Supervisor(Option<SocketAddr>);

impl Supervisor {
    /// What the setting and the environment (`NOTIFY_SOCKET`) name. A server runs without one just as well: what
    /// keeps it from being told is logged.
    pub fn of(supervised: Supervised) -> Supervisor {
        let socket = std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty());
        match (supervised, socket) {
            (Supervised::No, _) | (Supervised::Auto, None) => Supervisor(None),
            (Supervised::Systemd, None) => {
                tracing::warn!("systemd supervision requested, but NOTIFY_SOCKET is not set: nobody is notified");
                Supervisor(None)
            }
            (Supervised::Systemd | Supervised::Auto, Some(path)) => match address(&path) {
                Ok(address) => Supervisor(Some(address)),
                Err(error) => {
                    tracing::warn!("cannot notify systemd at {}: {error}", path.display());
                    Supervisor(None)
                }
            },
        }
    }

    /// It accepts connections.
    pub fn ready(&self) {
        self.tell("STATUS=Ready to accept connections\nREADY=1\n");
    }

    /// It ends because it was asked to.
    pub fn stopping(&self) {
        self.tell("STATUS=Shutting down\nSTOPPING=1\n");
    }

    fn tell(&self, state: &str) {
        let Some(address) = &self.0 else {
            return;
        };
        let sent = UnixDatagram::unbound().and_then(|socket| socket.send_to_addr(state.as_bytes(), address));
        if let Err(error) = sent {
            tracing::warn!("cannot notify systemd: {error}");
        }
    }
}

/// A path, or behind `@` a name in the abstract namespace.
fn address(path: &OsStr) -> io::Result<SocketAddr> {
    match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(path),
    }
}
