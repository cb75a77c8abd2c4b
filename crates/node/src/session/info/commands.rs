//! INFO: commandstats, errorstats, latencystats.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::report::{Report, Text, ratio};
use crate::figures::histogram::Distribution;
use crate::figures::slowlog::Slow;
use crate::figures::stats::CommandStats;
use crate::node::Node;

pub fn commandstats(r: &Report<'_>, t: &mut Text) {
    t.title("Commandstats");
    let slow = r.node.slow_log.sums().clone();
    for command in r.node.table.all() {
        let sum = |counter: fn(&CommandStats) -> &AtomicU64| -> u64 {
            r.node.stats.iter().map(|s| counter(&s.commands[command.id]).load(Relaxed)).sum()
        };
        let (calls, nanos) = (sum(|c| &c.calls), sum(|c| &c.nanos));
        let (rejected, failed) = (sum(|c| &c.rejected), sum(|c| &c.failed));
        if calls + rejected + failed == 0 {
            continue;
        }
        t.line(
            format_args!("cmdstat_{}", command.name),
            format_args!(
                "calls={calls},usec={},usec_per_call={:.2},rejected_calls={rejected},failed_calls={failed}{}",
                nanos / 1000,
                ratio(nanos, calls) / 1000.0,
                slow.get(&command.id).map(slow_fields).unwrap_or_default(),
            ),
        );
    }
}

/// The fields of a command's entries in the slow log since the last reset.
fn slow_fields(slow: &Slow) -> String {
    let (total, longest) = (slow.total as f64 / 1000.0, slow.longest as f64 / 1000.0);
    format!(",slowlog_count={},slowlog_time_ms_sum={total:.2},slowlog_time_ms_max={longest:.2}", slow.count)
}

pub fn errorstats(r: &Report<'_>, t: &mut Text) {
    t.title("Errorstats");
    let mut codes: BTreeMap<Box<[u8]>, u64> = BTreeMap::new();
    for stats in &r.node.stats {
        for (code, count) in stats.codes().iter() {
            *codes.entry(code.clone()).or_default() += count;
        }
    }
    for (code, count) in codes {
        t.line(format_args!("errorstat_{}", safe(&code)), format_args!("count={count}"));
    }
}

/// A code without the characters that would break the lines of INFO.
fn safe(code: &[u8]) -> String {
    let text = String::from_utf8_lossy(code);
    text.chars().map(|c| if matches!(c, ':' | '=' | '#' | '\n' | '\r') { '_' } else { c }).collect()
}

pub fn latencystats(r: &Report<'_>, t: &mut Text) {
    t.title("Latencystats");
    if !r.settings.latency_tracking {
        return;
    }
    for command in r.node.table.all() {
        let sum = latencies(r.node, command.id);
        if sum.count() == 0 {
            continue;
        }
        let percentiles: Vec<String> = r
            .settings
            .latency_tracking_info_percentiles
            .iter()
            .map(|&percent| format!("p{percent}={:.3}", sum.percentile(percent) as f64 / 1000.0))
            .collect();
        t.line(format_args!("latency_percentiles_usec_{}", command.name), percentiles.join(","));
    }
}

/// How long a command took each time, over all workers.
pub fn latencies(node: &Node, id: usize) -> Distribution {
    let mut sum = Distribution::default();
    node.stats.iter().for_each(|stats| stats.commands[id].add_latencies(&mut sum));
    sum
}
