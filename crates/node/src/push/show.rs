//! How commands get to clients in MONITOR mode.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use resp::Args;

use crate::client::Client;
use crate::node::Node;
use crate::secret::is_secret;
use crate::worker::message::Message;

impl Node {
    /// Shows a command that `client` has run in `db` to clients in MONITOR mode.
    pub(crate) fn show_to_monitors(&self, client: &Client, db: u16, args: Args<'_>) {
        self.show_line(self.monitor_line(db, &client.peer.address, args));
    }

    /// A command as clients in MONITOR mode see it. `who`: an address, or "lua".
    pub(crate) fn monitor_line(&self, db: u16, who: &str, args: Args<'_>) -> Arc<[u8]> {
        line(self.clock.unix_us(), db, who, args).into()
    }

    /// Shows a [`Self::monitor_line`].
    pub(crate) fn show_line(&self, line: Arc<[u8]>) {
        for monitor in self.monitors.list().iter() {
            let message = Message::Seen { token: monitor.token.load(Relaxed), line: line.clone() };
            self.send(usize::from(monitor.worker.load(Relaxed)), message);
        }
    }
}

/// `+1339518083.107412 [0 127.0.0.1:60866] "keys" "*"`.
fn line(micros: u64, db: u16, address: &str, args: Args<'_>) -> Vec<u8> {
    let mut line = Vec::new();
    // Writing to a vector cannot fail.
    let _ = write!(line, "+{}.{:06} [{db} {address}]", micros / 1_000_000, micros % 1_000_000);
    for (i, arg) in args.iter().enumerate() {
        line.push(b' ');
        quote(&mut line, if is_secret(args, i) { b"(redacted)" } else { arg });
    }
    line.extend_from_slice(b"\r\n");
    line
}

/// Text in quotes, with unprintable characters escaped.
fn quote(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(byte),
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use resp::OwnedArgs;

    #[test]
    fn lines_are_quoted_and_keep_secrets() {
        let shown = |args: &[&[u8]]| {
            let owned: OwnedArgs = args.iter().collect();
            String::from_utf8(line(1_700_000_000_000_042, 3, "1.2.3.4:5", owned.args())).unwrap()
        };
        assert_eq!(
            shown(&[b"set", b"a b", b"\x00\"\\\n\xff"]),
            "+1700000000.000042 [3 1.2.3.4:5] \"set\" \"a b\" \"\\x00\\\"\\\\\\n\\xff\"\r\n"
        );
        assert!(shown(&[b"AUTH", b"me", b"secret"]).ends_with("\"AUTH\" \"(redacted)\" \"(redacted)\"\r\n"));
    }
}
