//! `sentinel-port`: answers clients of Redis Sentinel from the cluster's metadata, on a thread of its own.
//!
//! With an agent one port is for all nodes of the machine: the agent answers there, and asks its nodes.
//!
//! It needs no password, as it tells addresses alone. So clients are bounded: by their number, by the bytes of a request,
//! and by the time that they take for a reply. Where there are too many, the oldest gives way.

mod seen;
mod view;

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::{TcpListener, ToSocketAddrs};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::thread;
use std::time::Duration;

use futures_util::future::{Either, select};
use node::Node;
use node::config::Settings;
use sentinel::{Session, View, news};
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// The most connections at a time.
const CONNECTIONS_MAX: usize = 1000;

/// Connections that the kernel keeps waiting to be accepted.
const BACKLOG: i32 = 128;

/// The longest time that a client takes for the bytes of a reply.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often the metadata's leader is asked which nodes serve.
const EVERY: Duration = Duration::from_millis(250);

/// The pause after a connection that could not be accepted: mostly, because there are no descriptors.
const PAUSE: Duration = Duration::from_millis(100);

pub use self::seen::Seen;

/// The process's knowledge of the cluster.
pub trait Source: Send + Sync + 'static {
    /// The cluster as it is now; `None`: nothing is known.
    fn look(&self) -> impl Future<Output = Option<Seen>> + Send;
}

/// A node asks the metadata.
pub struct OfNode(pub Arc<Node>);

impl Source for OfNode {
    async fn look(&self) -> Option<Seen> {
        let (tell, told) = oneshot::channel();
        // The receiver may have gone with the connection.
        self.0.cluster()?.administration()?.status(Box::new(move |status| drop(tell.send(status))));
        Seen::of(&told.await.ok()?)
    }
}

struct State<S> {
    source: S,
    view: watch::Sender<Arc<View>>,
    clients: AtomicU64,
}

/// Starts the endpoint, if the settings name a port. It listens on the addresses of `bind`, and lives as long as the
/// process.
///
/// # Errors
/// The server cannot listen there.
pub fn start(settings: &Settings, source: impl Source) -> io::Result<()> {
    let port = settings.sentinel_port;
    if port == 0 {
        return Ok(());
    }
    let mut listeners = Vec::new();
    for word in &settings.bind {
        let (address, is_optional) = word.strip_prefix('-').map_or((word.as_str(), false), |address| (address, true));
        match listen(address, port) {
            Ok(listener) => listeners.push(listener),
            Err(error) if is_optional => tracing::debug!("sentinel-port: {address}:{port}: {error}"),
            Err(error) => {
                return Err(io::Error::new(error.kind(), format!("sentinel-port: {address}:{port}: {error}")));
            }
        }
    }
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let local = view::Local::new(settings);
    let (view, _) = watch::channel(Arc::new(local.first()));
    let state = Arc::new(State { source, view, clients: AtomicU64::new(0) });
    thread::Builder::new().name("sentinel".into()).spawn(move || {
        if let Err(error) = runtime.block_on(serve(listeners, local, state)) {
            tracing::warn!(cause = "sentinel", "The endpoint for clients of Sentinel has ended: {error}");
        }
    })?;
    tracing::info!("Clients of Sentinel are answered at port {port}");
    Ok(())
}

fn listen(host: &str, port: u16) -> io::Result<TcpListener> {
    let host = match host {
        "*" => "0.0.0.0",
        "::*" => "::",
        host => host,
    };
    let address = (host, port).to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // `*` has the addresses of the other kind.
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Takes connections for ever.
async fn serve(listeners: Vec<TcpListener>, mut local: view::Local, state: Arc<State<impl Source>>) -> io::Result<()> {
    let (take, mut taken) = tokio::sync::mpsc::channel(1);
    for listener in listeners {
        let (listener, take) = (tokio::net::TcpListener::from_std(listener)?, take.clone());
        tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    // The receiver lives as long as this.
                    Ok((stream, _)) => drop(take.send(stream).await),
                    Err(_) => sleep(PAUSE).await,
                }
            }
        });
    }
    let looking = Arc::clone(&state);
    // By itself: while the metadata have no leader, an answer may take long, and clients come.
    tokio::spawn(async move {
        loop {
            looking.look(&mut local).await;
            sleep(EVERY).await;
        }
    });
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    while let Some(stream) = taken.recv().await {
        open.retain(|connection| !connection.is_finished());
        if open.len() >= CONNECTIONS_MAX
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        let state = Arc::clone(&state);
        // A client that breaks off is none of the operator's business.
        open.push_back(tokio::spawn(async move { drop(state.talk(stream).await) }).abort_handle());
    }
    Ok(())
}

impl<S: Source> State<S> {
    /// Asks for the state of the cluster, and has subscribers hear of what has changed.
    async fn look(&self, local: &mut view::Local) {
        let Some(seen) = self.source.look().await else { return };
        let now = Arc::new(local.view(&seen, &self.view.borrow()));
        self.view.send_if_modified(|view| {
            let is_new = **view != *now;
            *view = now;
            is_new
        });
    }

    async fn talk(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let here = stream.local_addr()?.ip().to_string();
        let mut session = Session::new(self.clients.fetch_add(1, Relaxed) + 1, here);
        let (mut views, mut buffer, mut out) = (self.view.subscribe(), vec![0; 4096], Vec::new());
        let mut view = views.borrow_and_update().clone();
        loop {
            let read = match select(pin!(stream.read(&mut buffer)), pin!(views.changed())).await {
                Either::Left((read, _)) => Some(read?),
                Either::Right((changed, _)) => changed.map(|()| None).map_err(io::Error::other)?,
            };
            let goes = match read {
                Some(0) => return Ok(()),
                Some(read) => session.feed(buffer.get(..read).unwrap_or_default(), &view, &mut out),
                None => {
                    let now = views.borrow_and_update().clone();
                    session.hear(&news(&view, &now), &mut out);
                    view = now;
                    true
                }
            };
            timeout(PATIENCE, stream.write_all(&out)).await??;
            out.clear();
            if !goes {
                return stream.shutdown().await;
            }
        }
    }
}
