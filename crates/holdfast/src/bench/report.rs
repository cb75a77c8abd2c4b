//! The report of a run: text for people, JSON for programs.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use super::options::{Distribution, Mode, Options};
use super::run::Outcome;
use super::stats::{Shares, Step};

/// A run and what it measured.
pub struct Report<'a> {
    /// The options of the run.
    pub options: &'a Options,
    /// `load` or `bench`.
    pub title: &'static str,
    /// Its results.
    pub outcome: Outcome,
}

impl Report<'_> {
    fn seconds(&self) -> f64 {
        self.outcome.elapsed.as_secs_f64().max(1e-9)
    }

    fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.seconds()
    }

    /// Batches as the threads counted commands: their own count of batches covers a slightly different time.
    fn batches(&self) -> f64 {
        let stats = &self.outcome.stats;
        self.outcome.commands as f64 * stats.batches as f64 / stats.commands.max(1) as f64
    }

    /// Microseconds of CPU time per command and per batch.
    fn cpu(&self, time: Duration) -> (f64, f64) {
        let us = time.as_secs_f64() * 1e6;
        (us / self.outcome.commands.max(1) as f64, us / self.batches().max(1.0))
    }

    fn cores(&self, time: Duration) -> f64 {
        time.as_secs_f64() / self.seconds()
    }

    fn latency_ms(&self, percentile: f64) -> f64 {
        self.outcome.stats.latency.value_at_percentile(percentile) as f64 / 1e6
    }

    fn transactions(&self) -> bool {
        self.options.mode == Mode::Tx && self.title == "bench"
    }

    fn what(&self) -> String {
        let options = self.options;
        if self.title == "load" {
            let command = options.load_command.as_deref().unwrap_or("SET");
            return format!("{command} of every key once");
        }
        let mut command = match options.command.join("; ") {
            lines if !lines.is_empty() => lines,
            _ if options.get_ratio >= 1.0 => "GET".into(),
            _ if options.get_ratio <= 0.0 => "SET".into(),
            _ => format!("GET and SET, get ratio {}", options.get_ratio),
        };
        if let Some(against) = &options.against {
            command += &format!(" against {against}");
        }
        match options.mode {
            Mode::Single => command,
            Mode::Pipeline => format!("{command}, pipelines of {}", options.batch),
            Mode::Tx => format!("{command}, MULTI/EXEC of {}", options.batch),
        }
    }

    fn value_size(&self) -> String {
        let size = self.options.value_size;
        if size.min == size.max { size.min.to_string() } else { format!("{}-{}", size.min, size.max) }
    }
}

/// Prints the report to standard output.
///
/// # Errors
/// Standard output is closed.
pub fn print(report: &Report) -> Result<(), String> {
    let text = if report.options.json { json(report) } else { text(report) };
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| format!("cannot print the report: {error}"))
}

/// One line about a load that precedes the measuring.
pub fn load_line(report: &Report) -> String {
    let per_second = grouped(report.per_second(report.outcome.commands));
    format!("loaded {} keys in {:.1} s ({per_second}/s)", grouped(report.options.keys as f64), report.seconds())
}

fn text(report: &Report) -> String {
    let Report { options, outcome, .. } = report;
    let stats = &outcome.stats;
    let mut out = String::new();
    let distribution = match options.distribution {
        Distribution::Uniform => "uniform",
        Distribution::Zipf => "zipf",
        Distribution::OneKey => "all drawn as one key",
        Distribution::OneTag => "of one tag",
    };
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "{}\n{} connections, {} thread{}, {} keys {distribution}, values of {} bytes, {:.1} s",
        report.what(),
        options.connections,
        options.threads,
        if options.threads == 1 { "" } else { "s" },
        grouped(options.keys as f64),
        report.value_size(),
        report.seconds(),
    );
    let _ = write!(out, "\nthroughput    {} commands/s", grouped(report.per_second(outcome.commands)));
    if stats.batches != stats.commands {
        let batches = if report.transactions() { "transactions" } else { "batches" };
        let _ = write!(out, ", {} {batches}/s", grouped(report.batches() / report.seconds()));
    }
    let _ = writeln!(
        out,
        "\nlatency (ms)  P50 {:.3}  P90 {:.3}  P99 {:.3}  P99.9 {:.3}  max {:.3}",
        report.latency_ms(50.0),
        report.latency_ms(90.0),
        report.latency_ms(99.0),
        report.latency_ms(99.9),
        stats.latency.max() as f64 / 1e6,
    );
    let _ = write!(out, "replies       {} errors, {} nils", stats.tally.errors, stats.tally.nils);
    if !stats.messages.is_empty() {
        let _ = write!(out, " ({})", stats.messages.join("; "));
    }
    let _ = writeln!(out);
    if report.transactions() {
        let percent = 100.0 * stats.retried as f64 / (stats.retried + stats.batches).max(1) as f64;
        let _ = writeln!(out, "transactions  {} retried ({percent:.2}%), {} failed", stats.retried, stats.failed);
    }
    let Shares { least, most, fairness } = outcome.shares;
    let _ = writeln!(out, "connections   {least:.2} to {most:.2} times the mean, fairness {fairness:.3}");
    let _ = writeln!(
        out,
        "network       {:.1} MB/s out, {:.1} MB/s in",
        stats.bytes_out as f64 / 1e6 / report.seconds(),
        stats.bytes_in as f64 / 1e6 / report.seconds(),
    );
    let cpu = |out: &mut String, name: &str, time: Duration| {
        let (command, batch) = report.cpu(time);
        let _ = write!(out, "{name} {command:.3} us a command");
        if stats.batches != stats.commands {
            let _ = write!(out, ", {batch:.2} us a batch");
        }
        let _ = write!(out, ", {:.2} cores", report.cores(time));
    };
    if let Some(server) = &outcome.server {
        cpu(&mut out, "server CPU   ", server.cpu);
        let _ = writeln!(out, ", {:.1} MB resident", server.resident as f64 / 1e6);
    }
    cpu(&mut out, "client CPU   ", outcome.client_cpu);
    let saturated = report.cores(outcome.client_cpu) > 0.97 * options.threads as f64;
    let server_idle = outcome.server.as_ref().is_none_or(|server| report.cores(server.cpu) < 0.95);
    if saturated && server_idle && options.rate.is_none() {
        let _ = write!(out, " (saturated: the server may be faster than this)");
    }
    let _ = writeln!(out);
    out
}

fn json(report: &Report) -> String {
    let Report { options, outcome, .. } = report;
    let stats = &outcome.stats;
    let mut object = Object::default();
    object.text("run", report.title);
    object.text("what", &report.what());
    object.number("connections", options.connections as f64);
    object.number("threads", options.threads as f64);
    object.number("keys", options.keys as f64);
    object.text("value_size", &report.value_size());
    object.number("batch", if report.title == "load" { 0.0 } else { options.batch() as f64 });
    object.number("seconds", report.seconds());
    object.number("commands", outcome.commands as f64);
    object.number("batches", report.batches().round());
    object.number("commands_per_second", report.per_second(outcome.commands));
    object.number("batches_per_second", report.batches() / report.seconds());
    for (name, percentile) in [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p999", 99.9)] {
        object.number(&format!("latency_ms_{name}"), report.latency_ms(percentile));
    }
    object.number("latency_ms_max", stats.latency.max() as f64 / 1e6);
    object.number("errors", stats.tally.errors as f64);
    object.number("nils", stats.tally.nils as f64);
    object.number("transactions_retried", stats.retried as f64);
    object.number("transactions_failed", stats.failed as f64);
    object.number("connection_least", outcome.shares.least);
    object.number("connection_most", outcome.shares.most);
    object.number("fairness", outcome.shares.fairness);
    object.number("bytes_out", stats.bytes_out as f64);
    object.number("bytes_in", stats.bytes_in as f64);
    let mut cpu = |name: &str, time: Duration| {
        let (command, batch) = report.cpu(time);
        object.number(&format!("{name}_cpu_us_per_command"), command);
        object.number(&format!("{name}_cpu_us_per_batch"), batch);
        object.number(&format!("{name}_cores"), report.cores(time));
    };
    cpu("client", outcome.client_cpu);
    if let Some(server) = &outcome.server {
        cpu("server", server.cpu);
        object.number("server_resident_bytes", server.resident as f64);
    }
    object.text("error_messages", &stats.messages.join("; "));
    if options.reconnect {
        object.number("reconnects", stats.reconnects as f64);
        object.number("lost", stats.lost as f64);
    }
    if let Some(timeline) = &stats.timeline {
        object.number("timeline_began_ms", timeline.began_ms as f64);
        object.number("timeline_step_ms", timeline.step_ms as f64);
        object.name("timeline");
        let ms = |nanos: u64| nanos as f64 / 1e6;
        let step = |of: &Step| {
            let mean = ms(of.latency) / (of.answered + of.failed).max(1) as f64;
            format!("[{}, {}, {mean:.3}, {:.3}]", of.answered, of.failed, ms(of.longest))
        };
        let steps: Vec<String> = timeline.steps.iter().map(step).collect();
        object.0 += &format!("[{}]", steps.join(", "));
    }
    object.end()
}

/// A flat JSON object.
#[derive(Default)]
struct Object(String);

impl Object {
    fn name(&mut self, name: &str) {
        self.0.push_str(if self.0.is_empty() { "{" } else { ", " });
        let _ = write!(self.0, "\"{name}\": ");
    }

    fn number(&mut self, name: &str, value: f64) {
        self.name(name);
        // Whole numbers without a point; JSON has no infinities, and none come up.
        let value = (value * 1e6).round() / 1e6;
        let _ = write!(self.0, "{value}");
    }

    fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        self.0.push('"');
        for character in value.chars() {
            match character {
                '"' | '\\' => self.0.extend(['\\', character]),
                character if character < ' ' => {
                    let _ = write!(self.0, "\\u{:04x}", character as u32);
                }
                character => self.0.push(character),
            }
        }
        self.0.push('"');
    }

    fn end(mut self) -> String {
        self.0.push_str("}\n");
        self.0
    }
}

/// A whole number with commas between thousands.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_digits() {
        assert_eq!(grouped(0.0), "0");
        assert_eq!(grouped(999.4), "999");
        assert_eq!(grouped(1_234_567.0), "1,234,567");
    }

    #[test]
    fn json_escapes() {
        let mut object = Object::default();
        object.text("a", "x\"\\\n");
        object.number("b", 3.0);
        object.number("c", 0.25);
        assert_eq!(object.end(), "{\"a\": \"x\\\"\\\\\\u000a\", \"b\": 3, \"c\": 0.25}\n");
    }
}
