//! A node's metrics in Prometheus's text format.
//!
//! A scrape reads what INFO reads: counters that each worker writes for itself. It runs on a thread of the binary, and
//! asks no worker for anything. The locks that INFO takes are held for at most a few clients or codes of errors at a
//! time.

mod help;
mod names;
mod own;
mod redis;
mod text;

use crate::node::Node;
use crate::session::everything;

/// All metrics: those that redis_exporter would tell (`redis_...`), and our own (`holdfast_...`). `loading`: the node
/// has not read its data yet.
pub fn metrics(node: &Node, loading: bool) -> String {
    let info = everything(node);
    let mut text = text::Text::default();
    redis::write(node, &info, loading, &mut text);
    own::write(node, loading, &mut text);
    text.finish()
}

/// Checks that a node that has read its data serves.
///
/// # Errors
/// The node stops, or has no lease for its slots; the error says so in words.
pub fn readiness(node: &Node) -> Result<(), String> {
    if node.is_stopping() {
        return Err("the server is shutting down".into());
    }
    match node.cluster() {
        Some(cluster) if !cluster.may_serve(node.clock.boot_ns()) => {
            Err(format!("the node has no lease: {}", cluster.lease().reason()))
        }
        _ => Ok(()),
    }
}
