//! The server's log: lines in Redis's form, to standard output or a file.
//!
//! `PID:M 21 Nov 2026 21:15:53.123 * text`, where the sign says how important it is: `.` debug, `-` verbose, `*`
//! notice, `#` warning. A file is opened for every line, so that it can be rotated by renaming it.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use node::config::LogLevel;
use tracing::field::{Field, Visit};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

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
    target: Target,
    shown: Arc<AtomicU8>,
}

impl Log {
    /// Begins to log: to `file`, or standard output where it is empty. Once per process.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn start(file: &[u8], level: LogLevel) -> io::Result<Log> {
        let log = Log { shown: Arc::new(AtomicU8::new(0)) };
        log.set_level(level);
        let target = match file {
            b"" => Target::Stdout,
            path => Target::File(PathBuf::from(OsStr::from_bytes(path))),
        };
        if let Target::File(path) = &target {
            OpenOptions::new().append(true).create(true).open(path)?;
        }
        let lines = Lines { target, shown: Arc::clone(&log.shown) };
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

/// The place of a level from the most important, and its sign.
fn rank(level: Level) -> (u8, char) {
    match level {
        Level::ERROR | Level::WARN => (1, '#'),
        Level::INFO => (2, '*'),
        Level::DEBUG => (3, '-'),
        Level::TRACE => (4, '.'),
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        // Raft tells its life at length; what matters of it is logged where it is handled.
        if metadata.target().starts_with("openraft") {
            return Interest::never();
        }
        // The level may change, so the answer must not be remembered.
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        rank(*metadata.level()).0 <= self.shown.load(Ordering::Relaxed)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        let (_, sign) = rank(*event.metadata().level());
        let line = line(std::process::id(), clock::local_now(), sign, &text);
        // There is nobody to tell that the log cannot be written.
        let _ = match &self.target {
            Target::Stdout => io::stdout().lock().write_all(line.as_bytes()),
            Target::File(path) => {
                let file = OpenOptions::new().append(true).create(true).open(path);
                file.and_then(|mut file| file.write_all(line.as_bytes()))
            }
        };
    }
}

fn line(pid: u32, now: Moment, sign: char, text: &Text) -> String {
    let Text { message, fields } = text;
    format!("{pid}:M {now} {sign} {message}{fields}\n")
}

/// The message of an event and its other fields.
#[derive(Debug, Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
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
        let text = Text { message: "hello".into(), fields: " port=1".into() };
        assert_eq!(line(7, now, '*', &text), "7:M 05 Nov 2026 01:02:03.004 * hello port=1\n");
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
        assert!(rank(Level::ERROR).0 <= rank(Level::INFO).0);
    }
}
