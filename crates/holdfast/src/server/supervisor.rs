//! `supervised`: telling systemd that the server starts, is ready, and stops, as sd_notify(3) describes.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use node::config::Supervised;

/// The time between two requests for more time. A start that reads much data may take longer than systemd waits.
const BEAT: Duration = Duration::from_secs(10);

/// The time that each request asks for.
const MORE: Duration = Duration::from_secs(60);

/// The supervisor to tell, if there is one.
#[derive(Clone, Debug)]
pub struct Supervisor(Option<SocketAddr>);

/// A start that goes on until the value is dropped.
#[derive(Debug)]
pub struct Starting(Option<(Sender<()>, JoinHandle<()>)>);

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some((done, thread)) = self.0.take() {
            drop(done);
            // So that what the supervisor is told next is the last it hears. A panic of the thread has been logged.
            let _ = thread.join();
        }
    }
}

impl Supervisor {
    /// The supervisor that the setting and the environment (`NOTIFY_SOCKET`) name. A server runs without one just as
    /// well: an error that prevents messages to it is logged.
    pub fn of(supervised: Supervised) -> Supervisor {
        let socket = std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty());
        match (supervised, socket) {
            (Supervised::No, _) | (Supervised::Auto, None) => Supervisor(None),
            (Supervised::Systemd, None) => {
                tracing::warn!(
                    "systemd supervision requested, but NOTIFY_SOCKET is not set: the server notifies no supervisor"
                );
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

    /// The server reads its data. Asks for more time again and again, until what this returns is dropped.
    pub fn starting(&self) -> Starting {
        self.starting_with(BEAT)
    }

    fn starting_with(&self, beat: Duration) -> Starting {
        if self.0.is_none() {
            return Starting(None);
        }
        let (done, waits) = channel();
        let supervisor = self.clone();
        let beats = move || {
            loop {
                supervisor.tell(&format!("STATUS=Reading the data\nEXTEND_TIMEOUT_USEC={}\n", MORE.as_micros()));
                if waits.recv_timeout(beat) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        match std::thread::Builder::new().name("supervisor".into()).spawn(beats) {
            Ok(thread) => Starting(Some((done, thread))),
            Err(error) => {
                tracing::warn!("cannot ask systemd for time while the data is read: {error}");
                Starting(None)
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket in the abstract namespace, as containers use it, and the supervisor behind it.
    fn pair(name: &str) -> (UnixDatagram, Supervisor) {
        let place = format!("@holdfast-{name}-{}", std::process::id());
        let address = address(OsStr::new(&place)).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        (socket, Supervisor(Some(address)))
    }

    fn told(socket: &UnixDatagram) -> String {
        let mut text = [0; 200];
        let length = socket.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..length]).into_owned()
    }

    #[test]
    fn a_long_start_asks_for_time_until_it_is_over() {
        let (socket, supervisor) = pair("start");
        let starting = supervisor.starting_with(Duration::from_millis(5));
        for _ in 0..3 {
            assert_eq!(told(&socket), "STATUS=Reading the data\nEXTEND_TIMEOUT_USEC=60000000\n");
        }
        drop(starting);
        supervisor.ready();
        while !told(&socket).contains("READY=1") {}
        socket.set_nonblocking(true).unwrap();
        assert!(socket.recv(&mut [0; 200]).is_err(), "something follows READY");
    }

    #[test]
    fn without_a_supervisor_nothing_is_asked() {
        assert!(Supervisor(None).starting().0.is_none());
    }
}
