//! A gate before a node: connections to it go through, and stand still while it is closed. Bytes sent meanwhile arrive
//! late.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{sleep, spawn};
use std::time::Duration;

const OPEN: u8 = 0;
const CLOSED: u8 = 1;
const GONE: u8 = 2;

const MOMENT: Duration = Duration::from_millis(10);

pub struct Gate(Arc<AtomicU8>);

impl Gate {
    /// Takes connections at `at` and leads them to `to`.
    #[expect(clippy::disallowed_methods, reason = "a thread of a test")]
    pub fn new(at: SocketAddr, to: SocketAddr) -> Self {
        let state = Arc::new(AtomicU8::new(OPEN));
        let listener = TcpListener::bind(at).unwrap();
        listener.set_nonblocking(true).unwrap();
        let shared = Arc::clone(&state);
        spawn(move || {
            while shared.load(Ordering::Acquire) != GONE {
                match listener.accept() {
                    Ok((from, _)) => lead(from, to, &shared),
                    Err(_) => sleep(MOMENT),
                }
            }
        });
        Self(state)
    }

    pub fn close(&self) {
        self.0.store(CLOSED, Ordering::Release);
    }

    pub fn open(&self) {
        self.0.store(OPEN, Ordering::Release);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.0.store(GONE, Ordering::Release);
    }
}

fn lead(from: TcpStream, to: SocketAddr, state: &Arc<AtomicU8>) {
    let Ok(to) = TcpStream::connect(to) else { return };
    let ends = [(from.try_clone().unwrap(), to.try_clone().unwrap()), (to, from)];
    for (from, to) in ends {
        let state = Arc::clone(state);
        spawn(move || {
            let _ = copy(&from, &to, &state);
            let _ = from.shutdown(std::net::Shutdown::Both);
            let _ = to.shutdown(std::net::Shutdown::Both);
        });
    }
}

#[expect(clippy::disallowed_methods, reason = "a thread of a test")]
fn copy(mut from: &TcpStream, mut to: &TcpStream, state: &AtomicU8) -> std::io::Result<()> {
    from.set_nonblocking(false)?;
    from.set_read_timeout(Some(MOMENT))?;
    let mut buffer = [0; 4096];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => 0,
            Err(why) => return Err(why),
        };
        while state.load(Ordering::Acquire) == CLOSED {
            sleep(MOMENT);
        }
        if state.load(Ordering::Acquire) == GONE {
            return Ok(());
        }
        to.write_all(&buffer[..read])?;
    }
}
