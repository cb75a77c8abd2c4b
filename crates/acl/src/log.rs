//! ACL LOG: requests that were denied lately.

use std::collections::VecDeque;

/// The reason why a client was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// It may not run the command.
    Command,
    /// It may not use a key.
    Key,
    /// It may not use a channel.
    Channel,
    /// It has not given the password.
    Auth,
    /// Its certificate names no user.
    Certificate,
}

impl Reason {
    /// Redis's word.
    pub fn word(self) -> &'static str {
        match self {
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Channel => "channel",
            Reason::Auth => "auth",
            Reason::Certificate => "tls-cert",
        }
    }
}

/// The origin of the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Context {
    /// A client.
    TopLevel,
    /// A client between MULTI and EXEC.
    Multi,
    /// A script or function.
    Lua,
}

impl Context {
    /// Redis's word.
    pub fn word(self) -> &'static str {
        match self {
            Context::TopLevel => "toplevel",
            Context::Multi => "multi",
            Context::Lua => "lua",
        }
    }
}

/// A denied request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// The reason.
    pub reason: Reason,
    /// The origin.
    pub context: Context,
    /// The command, key or channel; of AUTH the word that the client has sent.
    pub object: Vec<u8>,
    /// The user's name; of AUTH the one that the client has named.
    pub user: Vec<u8>,
    /// The client, as CLIENT LIST shows it.
    pub client: Vec<u8>,
}

/// One entry of the log: an event, and the number of times that it has happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The event; its client is the last one.
    pub event: Event,
    /// The number of times.
    pub count: u64,
    /// A number that is never used again in this process.
    pub id: u64,
    /// When the event first happened, in unix milliseconds.
    pub created: i64,
    /// When the event last happened, in unix milliseconds.
    pub updated: i64,
}

/// How often requests were denied since the start, with entries that the log has dropped: INFO shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// `acl_access_denied_auth`
    pub auth: u64,
    /// `acl_access_denied_cmd`
    pub command: u64,
    /// `acl_access_denied_key`
    pub key: u64,
    /// `acl_access_denied_channel`
    pub channel: u64,
    /// `acl_access_denied_tls_cert`
    pub certificate: u64,
}

/// The log, the newest entry first.
#[derive(Debug, Default)]
pub struct AccessLog {
    entries: VecDeque<Entry>,
    next_id: u64,
    counts: Counts,
}

/// Milliseconds within which like events share an entry.
const SAME_WITHIN_MS: u64 = 60_000;

/// Entries that an event is compared with.
const COMPARED: usize = 10;

/// Bytes of a name that are kept. Redis keeps all bytes, so 128 requests of a client without rights can fill its
/// memory.
const NAME_KEPT: usize = 1024;

impl AccessLog {
    /// Notes an event at `now`, in unix milliseconds. At most `entries_max` entries stay (`acllog-max-len`).
    pub fn add(&mut self, now: i64, entries_max: usize, mut event: Event) {
        self.count(event.reason);
        cut(&mut event.object);
        cut(&mut event.user);
        // It shows the names that the client has given itself.
        cut(&mut event.client);
        if entries_max > 0 {
            self.note(now, event);
        }
        self.entries.truncate(entries_max);
    }

    fn note(&mut self, now: i64, event: Event) {
        let is_same = |entry: &Entry| {
            let known = &entry.event;
            known.reason == event.reason
                && known.context == event.context
                && entry.updated.abs_diff(now) <= SAME_WITHIN_MS
                && known.object == event.object
                && known.user == event.user
        };
        let at = self.entries.iter().take(COMPARED).position(is_same);
        let entry = match at.and_then(|at| self.entries.remove(at)) {
            Some(known) => Entry { event, count: known.count + 1, updated: now, ..known },
            None => {
                let id = self.next_id;
                self.next_id += 1;
                Entry { event, count: 1, id, created: now, updated: now }
            }
        };
        self.entries.push_front(entry);
    }

    fn count(&mut self, reason: Reason) {
        let counts = &mut self.counts;
        *match reason {
            Reason::Command => &mut counts.command,
            Reason::Key => &mut counts.key,
            Reason::Channel => &mut counts.channel,
            Reason::Auth => &mut counts.auth,
            Reason::Certificate => &mut counts.certificate,
        } += 1;
    }

    /// ACL LOG RESET.
    pub fn reset(&mut self) {
        self.entries.clear();
    }

    /// The entries, the newest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// The counts that INFO shows.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// CONFIG RESETSTAT.
    pub fn reset_counts(&mut self) {
        self.counts = Counts::default();
    }
}

/// Cuts a long name as SLOWLOG does.
fn cut(name: &mut Vec<u8>) {
    if name.len() > NAME_KEPT {
        let more = format!("... ({} more bytes)", name.len() - NAME_KEPT);
        name.truncate(NAME_KEPT);
        name.extend_from_slice(more.as_bytes());
        name.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(reason: Reason, object: &str) -> Event {
        let bytes = |text: &str| text.as_bytes().to_vec();
        Event { reason, context: Context::TopLevel, object: bytes(object), user: bytes("bob"), client: bytes("id=1") }
    }

    #[test]
    fn like_events_share_an_entry_for_a_minute() {
        let mut log = AccessLog::default();
        log.add(1_000, 128, event(Reason::Key, "a"));
        log.add(2_000, 128, event(Reason::Command, "get"));
        log.add(61_000, 128, Event { client: b"id=2".to_vec(), ..event(Reason::Key, "a") });
        let shown: Vec<_> = log.entries().map(|e| (e.id, e.count, e.created, e.updated)).collect();
        assert_eq!(shown, [(0, 2, 1_000, 61_000), (1, 1, 2_000, 2_000)]);
        assert_eq!(log.entries().next().unwrap().event.client, b"id=2");
        log.add(121_001, 128, event(Reason::Key, "a"));
        assert_eq!(log.entries().next().map(|e| (e.id, e.count)), Some((2, 1)), "more than a minute later");
        log.add(121_001, 128, Event { context: Context::Lua, ..event(Reason::Key, "a") });
        assert_eq!(log.entries().len(), 4, "from a script");
    }

    #[test]
    fn only_the_newest_ten_are_compared() {
        let mut log = AccessLog::default();
        (0..=10).for_each(|n| log.add(0, 128, event(Reason::Key, &n.to_string())));
        log.add(0, 128, event(Reason::Key, "1"));
        assert_eq!(log.entries().len(), 11);
        log.add(0, 128, event(Reason::Key, "0"));
        assert_eq!(log.entries().len(), 12);
    }

    #[test]
    fn the_log_has_a_bound_and_counts_go_on() {
        let mut log = AccessLog::default();
        (0..9).for_each(|n| log.add(0, 4, event(Reason::Auth, &n.to_string())));
        assert_eq!(log.entries().len(), 4);
        assert_eq!(log.entries().next().unwrap().event.object, b"8");
        log.add(0, 0, event(Reason::Channel, "c"));
        assert_eq!(log.entries().len(), 0);
        assert_eq!(log.counts(), Counts { auth: 9, channel: 1, ..Counts::default() });
        log.add(0, 4, event(Reason::Key, &"x".repeat(5000)));
        assert_eq!(log.entries().next().unwrap().event.object.len(), 1024 + "... (3976 more bytes)".len());
        log.add(0, 4, Event { client: vec![b'x'; 5000], ..event(Reason::Key, "k") });
        assert!(log.entries().next().unwrap().event.client.len() < 1100);
        log.reset();
        assert_eq!(log.entries().len(), 0);
    }
}
