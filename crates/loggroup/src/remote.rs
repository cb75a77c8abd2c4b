//! An acceptor on another machine, as its owner reaches it: a connection that is made again when it breaks.
//!
//! Old blocks have a second connection, for an acceptor that is far behind, and for reads of one that has them. It is
//! made when it is needed first. The two end together, as the owner finds out at its next seal what has arrived.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use quorum::{AcceptorId, Reply, Report, Request};

use crate::link::{Incoming, Outgoing, request_bytes};
use crate::port::{Heard, Listener, Port};

/// Opens a connection to the process that has the acceptor: a stream socket behind its handshake. It may wait for a few
/// seconds.
pub type Dial = Arc<dyn Fn() -> io::Result<OwnedFd> + Send + Sync>;

/// How long the pause before another try is: at first, and at most. It grows until a connection is of use.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// The second connection.
#[derive(Default)]
enum Apart {
    #[default]
    None,
    /// It is being made, for these messages.
    Dialed(Vec<Request>),
    Open(Arc<Outgoing>),
    /// There is none to be had: the first one has to do.
    Never,
}

#[derive(Default)]
struct State {
    connection: Option<Arc<Outgoing>>,
    apart: Apart,
    /// The thread of the second connection, and the name of the last one.
    apart_thread: Option<JoinHandle<()>>,
    apart_id: Option<ThreadId>,
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
    /// The connection has brought blocks, or the acknowledgement of some. One that ends before that may do so every time.
    is_of_use: AtomicBool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has connections until it is stopped.
    fn run(self: &Arc<Self>) {
        let mut pause = PAUSE.0;
        while !self.lock().is_stopped {
            match self.connect() {
                Ok((incoming, outgoing)) => {
                    self.use_one(incoming, &outgoing);
                    if self.is_of_use.swap(false, SeqCst) {
                        pause = PAUSE.0;
                    }
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

    fn use_one(self: &Arc<Self>, incoming: Incoming, outgoing: &Arc<Outgoing>) {
        let writer = outgoing.clone();
        let name = "copy-send".to_owned();
        let Ok(writing) = thread::Builder::new().name(name).spawn(move || writer.run()) else { return };
        let is_stopped = {
            let mut state = self.lock();
            (state.trouble, state.apart) = (None, Apart::None);
            state.connection = Some(outgoing.clone());
            state.is_stopped
        };
        if !is_stopped {
            (self.listener)(self.id, Heard::Connected);
            let ended = self.listen(incoming);
            if self.is_of_use.load(SeqCst) {
                tracing::debug!("the connection to a copy of the log ends: {ended}");
            } else {
                self.note(&ended);
            }
        }
        let (apart, thread) = {
            let mut state = self.lock();
            state.connection = None;
            (std::mem::take(&mut state.apart), state.apart_thread.take())
        };
        outgoing.close();
        if let Apart::Open(apart) = apart {
            apart.close();
        }
        // A thread that has panicked has told so itself.
        let _ = writing.join();
        let _ = thread.map(JoinHandle::join);
        (self.listener)(self.id, Heard::Lost);
    }

    /// Sends a message on the second connection of the present one.
    fn send_apart(self: &Arc<Self>, request: Request) {
        let mut state = self.lock();
        let Some(connection) = state.connection.clone() else { return };
        match &mut state.apart {
            Apart::Dialed(waiting) => waiting.push(request),
            Apart::Open(apart) => send_on(apart, &request),
            Apart::Never => send_on(&connection, &request),
            Apart::None => {
                let shared = self.clone();
                let run = move || shared.run_apart(&connection);
                match thread::Builder::new().name("copy-apart".into()).spawn(run) {
                    Ok(thread) => {
                        state.apart = Apart::Dialed(vec![request]);
                        (state.apart_id, state.apart_thread) = (Some(thread.thread().id()), Some(thread));
                    }
                    Err(error) => {
                        tracing::debug!("old blocks have no connection of their own to a copy of the log: {error}");
                        state.connection.iter().for_each(|connection| send_on(connection, &request));
                        state.apart = Apart::Never;
                    }
                }
            }
        }
    }

    fn run_apart(&self, connection: &Arc<Outgoing>) {
        let opened = self.connect().and_then(|(incoming, apart)| {
            let writer = apart.clone();
            let writing = thread::Builder::new().name("copy-send".into()).spawn(move || writer.run())?;
            Ok((incoming, apart, writing))
        });
        let mut state = self.lock();
        let is_present = |present: &Arc<Outgoing>| Arc::ptr_eq(present, connection);
        let is_wanted = !state.is_stopped && state.connection.as_ref().is_some_and(is_present);
        let waiting = match std::mem::take(&mut state.apart) {
            Apart::Dialed(waiting) if is_wanted => waiting,
            _ => Vec::new(),
        };
        let (incoming, apart, writing) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                tracing::debug!("old blocks have no connection of their own to a copy of the log: {error}");
                state.apart = Apart::Never;
                waiting.iter().for_each(|request| send_on(connection, request));
                return;
            }
        };
        if is_wanted {
            waiting.iter().for_each(|request| send_on(&apart, request));
            state.apart = Apart::Open(apart.clone());
        }
        drop(state);
        if is_wanted {
            let ended = self.listen(incoming);
            tracing::debug!("the connection for old blocks to a copy of the log ends: {ended}");
        }
        apart.close();
        // A thread that has panicked has told so itself.
        let _ = writing.join();
        connection.close();
    }

    fn listen(&self, mut incoming: Incoming) -> io::Error {
        loop {
            let reply = incoming.next().and_then(|bytes| Reply::decode(bytes).map_err(io::Error::other));
            match reply {
                Ok(reply) => {
                    let is_of_use = matches!(reply.report, Report::Ack { .. } | Report::Blocks { .. });
                    self.is_of_use.fetch_or(is_of_use, SeqCst);
                    (self.listener)(self.id, Heard::Reply(reply));
                }
                Err(error) => return error,
            }
        }
    }
}

fn send_on(connection: &Outgoing, request: &Request) {
    let (head, tail) = request_bytes(request);
    connection.send(head, tail);
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
        let (state, stopped, is_of_use) = Default::default();
        let shared = Arc::new(Shared { id, dial, listener, state, stopped, is_of_use });
        let running = shared.clone();
        let thread = thread::Builder::new().name("copy-link".into()).spawn(move || running.run())?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }
}

impl Port for Remote {
    fn send(&self, request: Request) {
        let connection = self.shared.lock().connection.clone();
        if let Some(connection) = connection {
            send_on(&connection, &request);
        }
    }

    fn send_apart(&self, request: Request) {
        self.shared.send_apart(request);
    }

    fn trouble(&self) -> Option<String> {
        self.shared.lock().trouble.clone()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let apart = {
            let mut state = self.shared.lock();
            state.is_stopped = true;
            state.connection.iter().for_each(|connection| connection.close());
            self.shared.stopped.notify_all();
            state.apart_id
        };
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The last user may be the listener itself, on one of these threads. The first waits for the second.
        let here = thread::current().id();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != here && apart != Some(here)) {
            let _ = thread.join();
        }
    }
}
