//! An acceptor on another machine, as its owner reaches it: a connection that is made again when it breaks.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use quorum::{AcceptorId, Reply, Request};

use crate::link::{Incoming, Outgoing, request_bytes};
use crate::port::{Heard, Listener, Port};

/// Opens a connection to the process that has the acceptor: a stream socket behind its handshake. It may wait for a few
/// seconds.
pub type Dial = Arc<dyn Fn() -> io::Result<OwnedFd> + Send + Sync>;

/// How long the pause before another try is: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

#[derive(Default)]
struct State {
    connection: Option<Arc<Outgoing>>,
    is_stopped: bool,
    /// The reason why there is no connection.
    trouble: Option<String>,
}

struct Shared {
    id: AcceptorId,
    dial: Dial,
    listener: Listener,
    state: Mutex<State>,
    stopped: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has connections until it is stopped.
    fn run(&self) {
        let mut pause = PAUSE.0;
        while !self.lock().is_stopped {
            match self.connect() {
                Ok((incoming, outgoing)) => {
                    pause = PAUSE.0;
                    self.use_one(incoming, &outgoing);
                }
                Err(error) => self.note(&error),
            }
            let state = self.lock();
            if !state.is_stopped {
                // The result does not matter: the loop looks itself.
                drop(self.stopped.wait_timeout(state, pause));
            }
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    fn connect(&self) -> io::Result<(Incoming, Arc<Outgoing>)> {
        let (mut incoming, outgoing) = Incoming::split((self.dial)()?)?;
        incoming.greet(&outgoing, self.id)?;
        Ok((incoming, outgoing))
    }

    /// Notes why there is no connection: the owner's process tells it, with the name of the place.
    fn note(&self, error: &io::Error) {
        tracing::debug!("a copy of the log cannot be reached: {error}");
        self.lock().trouble = Some(error.to_string());
    }

    fn use_one(&self, incoming: Incoming, outgoing: &Arc<Outgoing>) {
        let writer = outgoing.clone();
        let name = "copy-send".to_owned();
        let Ok(writing) = std::thread::Builder::new().name(name).spawn(move || writer.run()) else { return };
        let is_stopped = {
            let mut state = self.lock();
            state.trouble = None;
            state.connection = Some(outgoing.clone());
            state.is_stopped
        };
        if !is_stopped {
            (self.listener)(self.id, Heard::Connected);
            let ended = self.listen(incoming);
            tracing::debug!("the connection to a copy of the log ends: {ended}");
        }
        self.lock().connection = None;
        outgoing.close();
        // A thread that has panicked has told so itself.
        let _ = writing.join();
        (self.listener)(self.id, Heard::Lost);
    }

    fn listen(&self, mut incoming: Incoming) -> io::Error {
        loop {
            let reply = incoming.next().and_then(|bytes| Reply::decode(bytes).map_err(io::Error::other));
            match reply {
                Ok(reply) => (self.listener)(self.id, Heard::Reply(reply)),
                Err(error) => return error,
            }
        }
    }
}

/// See the module's text.
pub struct Remote {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Remote {
    /// Begins to connect. `listener` hears of every connection, its end, and its replies.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn start(id: AcceptorId, dial: Dial, listener: Listener) -> io::Result<Self> {
        let shared = Arc::new(Shared { id, dial, listener, state: Mutex::default(), stopped: Condvar::new() });
        let running = shared.clone();
        let thread = std::thread::Builder::new().name("copy-link".into()).spawn(move || running.run())?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }
}

impl Port for Remote {
    fn send(&self, request: Request) {
        let connection = self.shared.lock().connection.clone();
        if let Some(connection) = connection {
            let (head, tail) = request_bytes(&request);
            connection.send(head, tail);
        }
    }

    fn trouble(&self) -> Option<String> {
        self.shared.lock().trouble.clone()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        {
            let mut state = self.shared.lock();
            state.is_stopped = true;
            state.connection.iter().for_each(|connection| connection.close());
            self.shared.stopped.notify_all();
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The last user may be the listener itself, on that thread.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}
