//! The answers of a log-server at `port`: its and the cluster's status, for people and probes. A client can change
//! nothing here.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use membership::control::Control;
use membership::level;
use node::cluster::status_text;
use node::config::{Live, Settings};
use resp::{Args, Batch, Decoder, Limits, Protocol, Reply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// The most connections at a time: where there are more, the oldest gives way.
const CONNECTIONS_MAX: usize = 32;

/// How long a client may say nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// The most bytes of a request.
const REQUEST_MAX: usize = 16 << 10;

/// The most addresses of `bind`.
const LISTENERS_MAX: usize = 16;

/// The thread that answers; none if `port` is 0.
pub struct Answers(Option<(oneshot::Sender<()>, JoinHandle<()>)>);

/// The state that all connections share.
struct Known {
    live: Arc<Live>,
    control: Arc<Control>,
    open: Mutex<VecDeque<AbortHandle>>,
}

impl Answers {
    /// Listens, unless `port` is 0.
    ///
    /// # Errors
    /// No address of `bind` can be listened at.
    pub fn start(settings: &Settings, live: &Arc<Live>, control: &Arc<Control>) -> io::Result<Self> {
        if settings.port == 0 {
            return Ok(Self(None));
        }
        let listeners = listeners(settings)?;
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let known = Arc::new(Known { live: Arc::clone(live), control: Arc::clone(control), open: Mutex::default() });
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("answers".to_owned()).spawn(move || {
            runtime.block_on(async {
                for listener in listeners {
                    tokio::spawn(accept(listener, Arc::clone(&known)));
                }
                let _ = stopped.await;
            });
        })?;
        Ok(Self(Some((stop, thread))))
    }

    /// Ends the thread and all connections.
    pub fn stop(self) {
        if let Some((stop, thread)) = self.0 {
            let _ = stop.send(());
            let _ = thread.join();
        }
    }
}

/// Listens at the addresses of `bind`; one with `-` before it may be missing.
fn listeners(settings: &Settings) -> io::Result<Vec<TcpListener>> {
    let mut listeners = Vec::new();
    for name in settings.bind.iter().take(LISTENERS_MAX) {
        let (host, may_lack) = name.strip_prefix('-').map_or((name.as_str(), false), |host| (host, true));
        let host = match host {
            "*" => "0.0.0.0",
            "::*" => "::",
            host => host,
        };
        let listened =
            (host, settings.port).to_socket_addrs().and_then(|found| TcpListener::bind(&*found.collect::<Vec<_>>()));
        match listened {
            Ok(listener) => {
                listener.set_nonblocking(true)?;
                tracing::info!("Listening for `holdfast cluster status` at {}", listener.local_addr()?);
                listeners.push(listener);
            }
            Err(_) if may_lack => {}
            Err(why) => return Err(io::Error::new(why.kind(), format!("{host}:{}: {why}", settings.port))),
        }
    }
    Ok(listeners)
}

async fn accept(listener: TcpListener, known: Arc<Known>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(why) => return tracing::warn!("no client can be answered: {why}"),
    };
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let mut open = known.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|connection| !connection.is_finished());
        if open.len() >= CONNECTIONS_MAX
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        let answering = tokio::spawn(answer(stream, from, Arc::clone(&known)));
        open.push_back(answering.abort_handle());
    }
}

/// Answers a client until it goes.
async fn answer(mut stream: TcpStream, from: SocketAddr, known: Arc<Known>) {
    if let Some(denied) = known.denies(from.ip()) {
        let _ = stream.write_all(denied.as_bytes()).await;
        return;
    }
    let (mut decoder, mut batch, mut unread) = (Decoder::new(), Batch::new(), Vec::new());
    let mut is_in = false;
    loop {
        let mut bytes = [0; 4096];
        match timeout(PATIENCE, stream.read(&mut bytes)).await {
            Ok(Ok(read @ 1..)) => unread.extend_from_slice(&bytes[..read]),
            _ => return,
        }
        let limits = Limits { authenticated: false, ..Limits::default() };
        let progress = decoder.decode(&unread, &limits, usize::MAX, &mut batch);
        let mut out = Vec::new();
        let mut goes_on = true;
        for at in 0..batch.len() {
            let args = batch.args(at, &unread);
            goes_on = known.reply(&args, &mut is_in, &mut out).await;
            if !goes_on {
                break;
            }
        }
        batch.clear();
        if let Some(error) = &progress.error {
            Reply::new(&mut out, Protocol::Resp2).protocol_error(error);
            goes_on = false;
        }
        unread.drain(..progress.consumed);
        if stream.write_all(&out).await.is_err() || !goes_on || unread.len() > REQUEST_MAX {
            return;
        }
    }
}

impl Known {
    /// The error for a client of another machine, which nothing keeps out.
    fn denies(&self, from: IpAddr) -> Option<&'static str> {
        let settings = self.live.settings();
        let is_open = settings.protected_mode && settings.requirepass.is_none() && !from.to_canonical().is_loopback();
        is_open.then_some("-DENIED This log-server has no password, and answers its own machine alone: set requirepass, or protected-mode no\r\n")
    }

    /// Answers a request. False: the connection ends. `is_in`: the client has given the password.
    async fn reply(&self, args: &Args<'_>, is_in: &mut bool, out: &mut Vec<u8>) -> bool {
        let word = |at: usize| args.get(at).unwrap_or_default();
        let is = |at: usize, name: &str| word(at).eq_ignore_ascii_case(name.as_bytes());
        let password = self.live.settings().requirepass.clone();
        let locked = password.is_some() && !*is_in;
        let mut reply = Reply::new(out, Protocol::Resp2);
        match () {
            () if is(0, "quit") => {
                reply.ok();
                return false;
            }
            () if is(0, "auth") && (args.len() == 2 || args.len() == 3 && word(1) == b"default") => {
                match password.is_none_or(|password| password.is(word(args.len() - 1))) {
                    true => {
                        *is_in = true;
                        reply.ok();
                    }
                    false => reply.error("WRONGPASS invalid username-password pair or user is disabled."),
                }
            }
            () if is(0, "auth") => reply.error("WRONGPASS invalid username-password pair or user is disabled."),
            () if locked => reply.error("NOAUTH Authentication required."),
            () if is(0, "ping") && args.len() == 1 => reply.pong(),
            () if is(0, "cluster") && is(1, "myid") && args.len() == 2 => reply.bulk(self.control.id().to_string()),
            () if is(0, "cluster") && is(1, "status") && args.len() == 2 => {
                let (told, status) = oneshot::channel();
                self.control.status(move |status| drop(told.send(status_text(&status))));
                match status.await {
                    Ok(text) => reply.verbatim(*b"txt", text),
                    Err(_) => reply.error("ERR this log-server stops"),
                }
            }
            () if is(0, "info") => {
                let (version, level) = (env!("CARGO_PKG_VERSION"), level::HIGHEST);
                let text = format!("# Server\r\nholdfast_version:{version}\r\nholdfast_level:{level}\r\n");
                reply.verbatim(*b"txt", text);
            }
            () => reply.error(
                "ERR a log-server has no keys: it knows PING, AUTH, QUIT, INFO, CLUSTER STATUS and CLUSTER MYID",
            ),
        }
        true
    }
}
