//! HTTP for what a machine's monitoring asks: one thread, and clients that are bounded, as no password keeps any out: by
//! their number, by the bytes of a request, and by the time of a connection. Each connection is for one request. Where
//! there are too many, the oldest gives way, so that a scrape gets through.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use node::config::Settings;
use tokio::runtime::Builder;
use tokio::task::AbortHandle;

use super::socket::Socket;

/// The most connections at a time.
const CONNECTIONS_MAX: usize = 32;

/// The most bytes of the head of a request. hyper takes no less.
const REQUEST_MAX: usize = 8192;

/// The most lines of the head of a request.
const HEADERS_MAX: usize = 64;

/// The longest time of a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// The pause after a connection that could not be accepted: mostly, because there are no descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// The type of Prometheus's text format.
pub const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The type of other texts.
pub const TEXT: &str = "text/plain; charset=utf-8";

/// An answer to one request.
pub type Answer = Response<Whole>;

/// The answers of an endpoint.
pub trait Answers: Send + Sync + 'static {
    /// The answer for a path.
    fn answer(&self, path: &str) -> impl Future<Output = Answer> + Send;
}

/// The socket of an endpoint.
pub enum Listener {
    Tcp(TcpListener),
    /// For processes of the same user alone.
    Unix(UnixListener),
}

impl Listener {
    /// The address that the settings name; `None`: they name no port.
    ///
    /// # Errors
    /// It cannot be listened on.
    pub fn of(settings: &Settings) -> io::Result<Option<Self>> {
        if settings.metrics_port == 0 {
            return Ok(None);
        }
        let host = String::from_utf8_lossy(&settings.metrics_bind).into_owned();
        let address = address(&host, settings.metrics_port)?;
        let named = |error: io::Error| io::Error::new(error.kind(), format!("metrics-port: {address}: {error}"));
        let listener = TcpListener::bind(address).map_err(named)?;
        tracing::info!("Metrics are at http://{address}/metrics");
        Ok(Some(Self::Tcp(listener)))
    }
}

fn address(host: &str, port: u16) -> io::Result<SocketAddr> {
    let host = match host {
        "*" => "0.0.0.0",
        "::*" => "::",
        host => host,
    };
    let mut found = (host, port).to_socket_addrs()?;
    found.next().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("metrics-bind: {host} has no address")))
}

/// Answers on a thread of its own, as long as the process lives.
///
/// # Errors
/// The system gives no thread, or nothing to wait with.
pub fn start(listener: Listener, answers: impl Answers) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    thread::Builder::new().name("metrics".into()).spawn(move || {
        if let Err(error) = runtime.block_on(serve(listener, Arc::new(answers))) {
            tracing::warn!(cause = "metrics", "The endpoint for metrics has ended: {error}");
        }
    })?;
    Ok(())
}

/// A listener of the runtime.
enum Accepting {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener, u32),
}

impl Accepting {
    fn of(listener: Listener) -> io::Result<Self> {
        Ok(match listener {
            Listener::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                Self::Tcp(tokio::net::TcpListener::from_std(listener)?)
            }
            Listener::Unix(listener) => {
                listener.set_nonblocking(true)?;
                Self::Unix(tokio::net::UnixListener::from_std(listener)?, std::fs::metadata("/proc/self")?.uid())
            }
        })
    }

    async fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener) => Ok(Socket(Box::new(listener.accept().await?.0))),
            Self::Unix(listener, user) => {
                let (stream, _) = listener.accept().await?;
                match stream.peer_cred()?.uid() == *user {
                    true => Ok(Socket(Box::new(stream))),
                    false => Err(io::ErrorKind::PermissionDenied.into()),
                }
            }
        }
    }
}

/// Takes connections for ever.
async fn serve(listener: Listener, answers: Arc<impl Answers>) -> io::Result<()> {
    let listener = Accepting::of(listener)?;
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let Ok(stream) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        open.retain(|connection| !connection.is_finished());
        if open.len() >= CONNECTIONS_MAX
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        let answers = Arc::clone(&answers);
        let connection = async move {
            let mut http = http1::Builder::new();
            http.keep_alive(false).max_buf_size(REQUEST_MAX).max_headers(HEADERS_MAX);
            let answer = service_fn(move |request| {
                let answers = Arc::clone(&answers);
                async move { Ok::<_, Infallible>(answer(&*answers, &request).await) }
            });
            // A client that breaks off or sends what is no HTTP is none of the operator's business. hyper answers it.
            let _ = tokio::time::timeout(PATIENCE, http.serve_connection(stream, answer)).await;
        };
        open.push_back(tokio::spawn(connection).abort_handle());
    }
}

async fn answer(answers: &impl Answers, request: &Request<Incoming>) -> Answer {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET and HEAD only\n".into());
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    answers.answer(request.uri().path()).await
}

/// An answer of this type.
pub fn text(status: StatusCode, kind: &'static str, body: String) -> Answer {
    let mut response = Response::new(Whole(Some(body.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// The answer for `/readyz`.
pub fn ready(is_ready: Result<(), String>) -> Answer {
    match is_ready {
        Ok(()) => text(StatusCode::OK, TEXT, "ok\n".into()),
        Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, TEXT, why + "\n"),
    }
}

/// The answers for `/healthz`, `/`, and what there is not.
pub fn other(path: &str) -> Answer {
    match path {
        "/healthz" => text(StatusCode::OK, TEXT, "ok\n".into()),
        "/" => text(StatusCode::OK, TEXT, "/metrics /healthz /readyz\n".into()),
        _ => text(StatusCode::NOT_FOUND, TEXT, "/metrics /healthz /readyz\n".into()),
    }
}

/// A body in one piece.
pub struct Whole(Option<Bytes>);

impl Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|body| Ok(Frame::data(body))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |body| body.len() as u64))
    }
}
