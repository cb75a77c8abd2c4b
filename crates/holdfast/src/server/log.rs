//! The server's log: lines in Redis's form, to standard output or a file.
//!
//! `PID:M 21 Nov 2026 21:15:53.123 * text`, where the sign says how important it is: `.` debug, `-` verbose, `*`
//! notice, `#` warning. A file is opened for every line, so that it can be rotated by renaming it.
//!
//! Clients and other nodes can cause the lines of the crates below the binary, so they are logged [seldom](seldom). A
//! field `cause` tells apart the causes of one place. It also limits a line of the binary itself. It is not written.

mod seldom;

use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use node::config::LogLevel;
use tracing::field::{Field, Visit};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use self::seldom::{Cause, EVERY_MS, Seldom};
use super::clock::{self, Moment};

/// Changes what is logged while the server runs.
#[derive(Clone, Debug)]
pub struct Log {
    /// How many of the four levels are shown, from the most important.
    shown: Arc<AtomicU8>,
}

/// Where lines go.
#[derive(Debug)]
enum Target {
    Stdout,
    File(PathBuf),
}

#[derive(Debug)]
struct Lines {
    shown: Arc<AtomicU8>,
    output: Arc<Output>,
}

#[derive(Debug)]
struct Output {
    target: Target,
    /// What every line begins with, behind its sign.
    name: String,
    seldom: Mutex<Seldom>,
    /// True if a thread waits to tell how many lines were left out.
    is_awaited: AtomicBool,
}

impl Log {
    /// Begins to log: to `file`, or standard output where it is empty. Once per process. `name` tells processes apart that
    /// log to one place; empty: there is one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn start(file: &[u8], level: LogLevel, name: &str) -> io::Result<Log> {
        let log = Log { shown: Arc::new(AtomicU8::new(0)) };
        log.set_level(level);
        let target = match file {
            b"" => Target::Stdout,
            path => Target::File(PathBuf::from(OsStr::from_bytes(path))),
        };
        if let Target::File(path) = &target {
            OpenOptions::new().append(true).create(true).open(path)?;
        }
        let name = if name.is_empty() { String::new() } else { format!("[{name}] ") };
        let output = Output { target, name, seldom: Mutex::default(), is_awaited: AtomicBool::new(false) };
        let lines = Lines { shown: Arc::clone(&log.shown), output: Arc::new(output) };
        // A second start, as in tests, leaves the first in place.
        let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(lines));
        Ok(log)
    }

    /// Logs what is at least as important from now on (`loglevel`).
    pub fn set_level(&self, level: LogLevel) {
        let shown = match level {
            LogLevel::Nothing => 0,
            LogLevel::Warning => 1,
            LogLevel::Notice => 2,
            LogLevel::Verbose => 3,
            LogLevel::Debug => 4,
        };
        self.shown.store(shown, Ordering::Relaxed);
    }
}

/// The place of a line's level from the most important, and its sign. None: it is never logged.
///
/// Raft tells its life at length, and membership logs what matters of it. So Raft's own lines are for `debug` alone,
/// where they show why no leader is elected.
fn rank(metadata: &Metadata<'_>) -> Option<(u8, char)> {
    let is_raft = metadata.target().starts_with("openraft");
    match *metadata.level() {
        Level::DEBUG | Level::TRACE if is_raft => None,
        _ if is_raft => Some((4, '.')),
        Level::ERROR | Level::WARN => Some((1, '#')),
        Level::INFO => Some((2, '*')),
        Level::DEBUG => Some((3, '-')),
        Level::TRACE => Some((4, '.')),
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        // The level may change, so any other answer must not be remembered.
        if rank(metadata).is_none() { Interest::never() } else { Interest::sometimes() }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        rank(metadata).is_some_and(|(place, _)| place <= self.shown.load(Ordering::Relaxed))
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let Some((_, sign)) = rank(event.metadata()) else { return };
        let mut text = Text::default();
        event.record(&mut text);
        match text.cause_in(event.metadata()) {
            None => self.output.write(sign, &text.to_string()),
            Some(cause) => Output::write_seldom(&self.output, cause, sign, &text.to_string()),
        }
    }
}

impl Output {
    fn seldom(&self) -> MutexGuard<'_, Seldom> {
        self.seldom.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, sign: char, text: &str) {
        let line = line(std::process::id(), clock::local_now(), sign, &self.name, text);
        // There is nobody to tell that the log cannot be written.
        let _ = match &self.target {
            Target::Stdout => io::stdout().lock().write_all(line.as_bytes()),
            Target::File(path) => {
                let file = OpenOptions::new().append(true).create(true).open(path);
                file.and_then(|mut file| file.write_all(line.as_bytes()))
            }
        };
    }

    fn write_seldom(output: &Arc<Self>, cause: Cause, sign: char, text: &str) {
        let admitted = output.seldom().admit(clock::monotonic_ms(), cause, (sign, text));
        match admitted {
            Some(0) => output.write(sign, text),
            Some(more) => output.write(sign, &with_more(text, more)),
            None => Self::tell_later(output),
        }
    }

    /// Has a thread tell how many lines were left out, even if no other line follows.
    fn tell_later(output: &Arc<Self>) {
        if output.is_awaited.swap(true, Ordering::AcqRel) {
            return;
        }
        let later = Arc::clone(output);
        let wait = move || {
            loop {
                while later.seldom().owes() {
                    thread::park_timeout(Duration::from_millis(EVERY_MS / 10));
                    later.tell_overdue(clock::monotonic_ms());
                }
                later.is_awaited.store(false, Ordering::Release);
                // Something may have been left out since the last look.
                if !later.seldom().owes() || later.is_awaited.swap(true, Ordering::AcqRel) {
                    return;
                }
            }
        };
        if thread::Builder::new().name("log-seldom".into()).spawn(wait).is_err() {
            // The next line of that cause has the count.
            output.is_awaited.store(false, Ordering::Release);
        }
    }

    fn tell_overdue(&self, now: u64) {
        let overdue = self.seldom().overdue(now);
        overdue.iter().for_each(|left| match left.count {
            1 => self.write(left.sign, &left.text),
            count => self.write(left.sign, &with_more(&left.text, count - 1)),
        });
    }
}

/// A line that stands for others of its cause.
fn with_more(text: &str, more: u64) -> String {
    format!("{text} (and {more} more like it since it was logged before)")
}

fn line(pid: u32, now: Moment, sign: char, name: &str, text: &str) -> String {
    format!("{pid}:M {now} {sign} {name}{text}\n")
}

/// The message of an event and its other fields.
#[derive(Debug, Default)]
struct Text {
    message: String,
    fields: String,
    /// See the module's text.
    cause: Option<String>,
}

impl Text {
    /// The cause by which the event is limited; `None`: it is not.
    fn cause_in(&self, metadata: &Metadata<'static>) -> Option<Cause> {
        let is_own = metadata.target().starts_with(env!("CARGO_CRATE_NAME"));
        let place = (metadata.file().unwrap_or_default(), metadata.line().unwrap_or_default());
        match &self.cause {
            Some(name) => Some(Cause::new(place, name)),
            None if is_own => None,
            None => Some(Cause::new(place, "")),
        }
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.message, self.fields)
    }
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            "cause" => write!(self.cause.get_or_insert_default(), "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_look_like_redis_s() {
        let now = Moment { day: 5, month: 10, year: 2026, hour: 1, minute: 2, second: 3, millisecond: 4 };
        let text = Text { message: "hello".into(), fields: " port=1".into(), cause: Some("x".into()) };
        assert_eq!(line(7, now, '*', "", &text.to_string()), "7:M 05 Nov 2026 01:02:03.004 * hello port=1\n");
        assert_eq!(line(7, now, '#', "[2] ", "hello"), "7:M 05 Nov 2026 01:02:03.004 # [2] hello\n");
    }

    #[test]
    fn levels_nest() {
        let log = Log { shown: Arc::new(AtomicU8::new(0)) };
        let mut last = 9;
        for level in [LogLevel::Debug, LogLevel::Verbose, LogLevel::Notice, LogLevel::Warning, LogLevel::Nothing] {
            log.set_level(level);
            let shown = log.shown.load(Ordering::Relaxed);
            assert!(shown < last);
            last = shown;
        }
    }
}
