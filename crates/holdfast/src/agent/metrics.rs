//! `metrics-port` of a machine: the metrics of all its nodes, each with a label `node`, and probes for all of them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hyper::StatusCode;
use node::config::Settings;

use super::doors::Doors;
use crate::server::metrics::http::{self, Answer, Answers, Listener, METRICS, other, ready, text};

/// How long a node may take to answer. One that does not is left out.
const PATIENCE: Duration = Duration::from_secs(2);

/// Starts the endpoint, if the settings name a port.
///
/// # Errors
/// The agent cannot listen there.
pub fn start(settings: &Settings, doors: &Arc<Doors>) -> io::Result<()> {
    match Listener::of(settings)? {
        Some(listener) => http::start(listener, Endpoint(Arc::clone(doors))),
        None => Ok(()),
    }
}

struct Endpoint(Arc<Doors>);

impl Answers for Endpoint {
    async fn answer(&self, path: &str) -> Answer {
        match path {
            "/metrics" => text(StatusCode::OK, METRICS, self.metrics().await),
            "/readyz" => ready(self.readiness().await),
            path => other(path),
        }
    }
}

impl Endpoint {
    async fn metrics(&self) -> String {
        let doors = self.0.all();
        let answers = join_all(doors.iter().map(|door| door.ask("/metrics", PATIENCE))).await;
        let texts = answers.into_iter().map(|answer| answer.ok().filter(|(status, _)| *status == 200));
        let texts: Vec<Option<String>> = texts.map(|answer| answer.map(|(_, text)| text)).collect();
        let mut out = String::new();
        out += "# HELP holdfast_node_up Whether a node of this machine answers.\n# TYPE holdfast_node_up gauge\n";
        for (door, text) in doors.iter().zip(&texts) {
            let _ = writeln!(out, "holdfast_node_up{{node=\"{}\"}} {}", door.number, u8::from(text.is_some()));
        }
        out += "# HELP holdfast_node_starts_total Starts of a node's process.\n";
        out += "# TYPE holdfast_node_starts_total counter\n";
        for door in doors {
            let _ = writeln!(out, "holdfast_node_starts_total{{node=\"{}\"}} {}", door.number, door.starts());
        }
        let numbered = doors.iter().zip(&texts).filter_map(|(door, text)| Some((door.number, text.as_deref()?)));
        out + &merged(numbered)
    }

    /// The machine is ready when all of its nodes are.
    async fn readiness(&self) -> Result<(), String> {
        let doors = self.0.all();
        let answers = join_all(doors.iter().map(|door| door.ask("/readyz", PATIENCE))).await;
        let unready = doors.iter().zip(answers).filter_map(|(door, answer)| match answer {
            Ok((200, _)) => None,
            Ok((_, why)) => Some(format!("node {}: {}", door.number, why.trim_end())),
            Err(why) => Some(format!("node {}: {why}", door.number)),
        });
        let unready: Vec<String> = unready.collect();
        if unready.is_empty() { Ok(()) } else { Err(unready.join("; ")) }
    }
}

/// A family of samples.
#[derive(Default)]
struct Family<'a> {
    /// The lines before the samples.
    head: Vec<&'a str>,
    samples: String,
}

/// One text of the texts of several nodes: each family is there once, with the samples of all.
fn merged<'a>(texts: impl IntoIterator<Item = (usize, &'a str)>) -> String {
    let mut order: Vec<&str> = Vec::new();
    let mut families: BTreeMap<&str, Family<'_>> = BTreeMap::new();
    for (number, text) in texts {
        let mut name = "";
        for line in text.lines().filter(|line| !line.is_empty()) {
            let head = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE "));
            if let Some(head) = head {
                name = head.split(' ').next().unwrap_or_default();
            }
            let family = families.entry(name).or_insert_with(|| {
                order.push(name);
                Family::default()
            });
            match head {
                Some(_) if family.head.contains(&line) => {}
                Some(_) => family.head.push(line),
                None => labelled(line, number, &mut family.samples),
            }
        }
    }
    let mut out = String::new();
    for family in order.iter().filter_map(|name| families.get(name)) {
        family.head.iter().for_each(|line| {
            let _ = writeln!(out, "{line}");
        });
        out += &family.samples;
    }
    out
}

/// A sample with the label of its node.
fn labelled(line: &str, number: usize, out: &mut String) {
    let at = line.find(['{', ' ']).unwrap_or(line.len());
    let (name, rest) = line.split_at(at);
    let _ = match rest.strip_prefix('{') {
        Some(labels) => writeln!(out, "{name}{{node=\"{number}\",{labels}"),
        None => writeln!(out, "{name}{{node=\"{number}\"}}{rest}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_is_there_once_with_the_samples_of_all_nodes() {
        let one = "# HELP a About a.\n# TYPE a gauge\na 1\n# TYPE b histogram\nb_bucket{le=\"1\"} 2\nb_count 3\n";
        let two = "# HELP a About a.\n# TYPE a gauge\na 4\n# TYPE c counter\nc{d=\"e {\"} 5\n";
        let expected = "# HELP a About a.\n# TYPE a gauge\na{node=\"1\"} 1\na{node=\"2\"} 4\n\
            # TYPE b histogram\nb_bucket{node=\"1\",le=\"1\"} 2\nb_count{node=\"1\"} 3\n\
            # TYPE c counter\nc{node=\"2\",d=\"e {\"} 5\n";
        assert_eq!(merged([(1, one), (2, two)]), expected);
        assert_eq!(merged([]), "");
    }
}
