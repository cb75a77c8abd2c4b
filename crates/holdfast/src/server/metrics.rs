//! `metrics-port`: an HTTP endpoint for Prometheus (`/metrics`) and for probes (`/healthz`, `/readyz`), on a thread of
//! its own.
//!
//! It needs no password, so clients are bounded: by their number, by the bytes of a request, and by the time of a
//! connection. Each connection is for one request. Where there are too many, the oldest gives way, so that a scrape
//! gets through.

mod socket;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use node::Node;
use node::config::Settings;
use tokio::runtime::Builder;
use tokio::task::AbortHandle;

use self::socket::Socket;

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
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

const TEXT: &str = "text/plain; charset=utf-8";

/// The endpoint of a server that starts. It lives as long as the process.
#[derive(Debug, Default)]
pub struct Endpoint {
    /// The server has read its data and takes clients.
    is_ready: Arc<AtomicBool>,
}

impl Endpoint {
    /// Starts it, if the settings name a port.
    ///
    /// # Errors
    /// The server cannot listen there.
    pub fn start(settings: &Settings, node: &Arc<Node>) -> io::Result<Endpoint> {
        let endpoint = Endpoint::default();
        if settings.metrics_port == 0 {
            return Ok(endpoint);
        }
        let host = String::from_utf8_lossy(&settings.metrics_bind).into_owned();
        let address = address(&host, settings.metrics_port)?;
        let named = |error: io::Error| io::Error::new(error.kind(), format!("metrics-port: {address}: {error}"));
        let listener = TcpListener::bind(address).map_err(named)?;
        listener.set_nonblocking(true)?;
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let state = Arc::new(State { node: Arc::clone(node), is_ready: Arc::clone(&endpoint.is_ready) });
        thread::Builder::new().name("metrics".into()).spawn(move || {
            if let Err(error) = runtime.block_on(serve(listener, state)) {
                tracing::warn!(cause = "metrics", "The endpoint for metrics has ended: {error}");
            }
        })?;
        tracing::info!("Metrics are at http://{address}/metrics");
        Ok(endpoint)
    }

    /// Notes that the server has read its data and takes clients.
    pub fn ready(&self) {
        self.is_ready.store(true, Release);
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

struct State {
    node: Arc<Node>,
    is_ready: Arc<AtomicBool>,
}

/// Takes connections for ever.
async fn serve(listener: TcpListener, state: Arc<State>) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        open.retain(|connection| !connection.is_finished());
        if open.len() >= CONNECTIONS_MAX
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        let state = Arc::clone(&state);
        let connection = async move {
            let mut http = http1::Builder::new();
            http.keep_alive(false).max_buf_size(REQUEST_MAX).max_headers(HEADERS_MAX);
            let answer = service_fn(move |request| {
                let response = state.answer(&request);
                async move { Ok::<_, Infallible>(response) }
            });
            // A client that breaks off or sends what is no HTTP is none of the operator's business. hyper answers it.
            let _ = tokio::time::timeout(PATIENCE, http.serve_connection(Socket(stream), answer)).await;
        };
        open.push_back(tokio::spawn(connection).abort_handle());
    }
}

impl State {
    fn answer(&self, request: &Request<Incoming>) -> Response<Whole> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET and HEAD only\n".into());
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        let is_ready = self.is_ready.load(Acquire);
        match request.uri().path() {
            "/metrics" => text(StatusCode::OK, METRICS, node::metrics(&self.node, !is_ready)),
            "/healthz" => text(StatusCode::OK, TEXT, "ok\n".into()),
            "/readyz" => match if is_ready { node::readiness(&self.node) } else { Err("reading the data".into()) } {
                Ok(()) => text(StatusCode::OK, TEXT, "ok\n".into()),
                Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, TEXT, why + "\n"),
            },
            "/" => text(StatusCode::OK, TEXT, "/metrics /healthz /readyz\n".into()),
            _ => text(StatusCode::NOT_FOUND, TEXT, "/metrics /healthz /readyz\n".into()),
        }
    }
}

fn text(status: StatusCode, kind: &'static str, body: String) -> Response<Whole> {
    let mut response = Response::new(Whole(Some(body.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// A body in one piece.
struct Whole(Option<Bytes>);

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
