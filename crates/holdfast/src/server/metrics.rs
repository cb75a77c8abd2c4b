//! `metrics-port`: an HTTP endpoint for Prometheus (`/metrics`) and for probes (`/healthz`, `/readyz`), on a thread of
//! its own.
//!
//! A node with an agent has no such port. Its agent asks it at a socket that no one else knows, and answers for the whole
//! machine.

pub mod http;
mod socket;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};

use hyper::StatusCode;
use node::Node;
use node::config::Settings;

use self::http::{Answer, Answers, Listener, METRICS, TEXT, other, ready, text};
use super::sentinel::{self, Source};
use crate::agent::child;

/// The path at which an agent asks for the cluster as clients of Sentinel are to see it.
pub const SEEN: &str = "/seen";

/// The endpoint of a server that starts. It lives as long as the process.
#[derive(Debug, Default)]
pub struct Endpoint {
    /// The server has read its data and takes clients.
    is_ready: Arc<AtomicBool>,
}

impl Endpoint {
    /// Starts it, if the settings name a port, or an agent has opened a socket.
    ///
    /// # Errors
    /// The server cannot listen there.
    pub fn start(settings: &Settings, node: &Arc<Node>) -> io::Result<Endpoint> {
        let endpoint = Endpoint::default();
        let of_agent = child::door();
        let has_agent = of_agent.is_some();
        let listener = match of_agent {
            Some(listener) => Some(Listener::Unix(listener)),
            None => Listener::of(settings)?,
        };
        let Some(listener) = listener else { return Ok(endpoint) };
        let (node, is_ready) = (Arc::clone(node), Arc::clone(&endpoint.is_ready));
        http::start(listener, State { node, is_ready, has_agent })?;
        Ok(endpoint)
    }

    /// Notes that the server has read its data and takes clients.
    pub fn ready(&self) {
        self.is_ready.store(true, Release);
    }
}

struct State {
    node: Arc<Node>,
    is_ready: Arc<AtomicBool>,
    has_agent: bool,
}

impl Answers for State {
    async fn answer(&self, path: &str) -> Answer {
        let is_ready = self.is_ready.load(Acquire);
        match path {
            "/metrics" => text(StatusCode::OK, METRICS, node::metrics(&self.node, !is_ready)),
            "/readyz" => ready(if is_ready { node::readiness(&self.node) } else { Err("reading the data".into()) }),
            SEEN if self.has_agent => match sentinel::OfNode(Arc::clone(&self.node)).look().await {
                Some(seen) => text(StatusCode::OK, TEXT, seen.text()),
                None => text(StatusCode::SERVICE_UNAVAILABLE, TEXT, "no cluster yet\n".into()),
            },
            path => other(path),
        }
    }
}
