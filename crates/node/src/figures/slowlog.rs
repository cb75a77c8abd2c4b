//! The slow log: slow commands, newest first.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use resp::Args;

use crate::client::Client;
use crate::secret::is_secret;

/// The bounds of the slow log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The number of commands.
    pub commands: u64,
    /// The arguments of each, at least 2; the last says how many more there were.
    pub arguments: usize,
    /// Bytes of each argument.
    pub bytes: usize,
}

/// A slow command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowCommand {
    /// The number of the entry, counted from the start.
    pub id: u64,
    /// Unix seconds.
    pub time: u64,
    /// Microseconds that it took.
    pub micros: u64,
    /// Its arguments, shortened.
    pub args: Vec<Vec<u8>>,
    /// Its client: address and name.
    pub client: (String, Vec<u8>),
}

/// The entries since the last CONFIG RESETSTAT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slow {
    /// Commands.
    pub count: u64,
    /// Microseconds of the longest.
    pub longest: u64,
    /// Microseconds of all.
    pub total: u64,
}

impl Slow {
    fn add(&mut self, micros: u64) {
        self.count += 1;
        self.longest = self.longest.max(micros);
        self.total = self.total.saturating_add(micros);
    }
}

/// The slow log of a node.
#[derive(Default)]
pub struct SlowLog {
    entries: Mutex<VecDeque<SlowCommand>>,
    next: AtomicU64,
    /// The entries by the id of the command.
    sums: Mutex<BTreeMap<usize, Slow>>,
}

impl SlowLog {
    /// Adds a command, which counts for the command `id`. `time` in unix seconds.
    #[cold]
    pub fn push(&self, id: usize, args: Args<'_>, client: &Client, time: u64, micros: u64, kept: Kept) {
        self.sums().entry(id).or_default().add(micros);
        let client = (client.peer.address.clone(), client.texts().name.clone());
        let mut entries = self.entries();
        let id = self.next.fetch_add(1, Relaxed);
        entries.push_front(SlowCommand { id, time, micros, args: shortened(args, kept), client });
        entries.truncate(usize::try_from(kept.commands).unwrap_or(usize::MAX));
    }

    /// The sums for each command, by its id.
    pub fn sums(&self) -> MutexGuard<'_, BTreeMap<usize, Slow>> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sums for all commands.
    pub fn sum(&self) -> Slow {
        self.sums().values().fold(Slow::default(), |all, one| Slow {
            count: all.count + one.count,
            longest: all.longest.max(one.longest),
            total: all.total.saturating_add(one.total),
        })
    }

    /// The entries, newest first.
    pub fn entries(&self) -> MutexGuard<'_, VecDeque<SlowCommand>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shortened(args: Args<'_>, limits: Kept) -> Vec<Vec<u8>> {
    let kept = if args.len() > limits.arguments { limits.arguments - 1 } else { args.len() };
    let mut list: Vec<Vec<u8>> = args
        .iter()
        .take(kept)
        .enumerate()
        .map(|(i, arg)| if is_secret(args, i) { b"(redacted)" } else { arg })
        .map(|arg: &[u8]| match arg.len().checked_sub(limits.bytes) {
            None | Some(0) => arg.to_vec(),
            Some(more) => [&arg[..limits.bytes], format!("... ({more} more bytes)").as_bytes()].concat(),
        })
        .collect();
    if kept < args.len() {
        list.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Peer;
    use resp::OwnedArgs;

    const KEPT: Kept = Kept { commands: 2, arguments: 32, bytes: 128 };

    fn texts(args: &[&str]) -> Vec<String> {
        let owned: OwnedArgs = args.iter().collect();
        shortened(owned.args(), KEPT).into_iter().map(|arg| String::from_utf8(arg).unwrap()).collect()
    }

    #[test]
    fn long_commands_are_shortened() {
        assert_eq!(texts(&["set", "a", "b"]), ["set", "a", "b"]);
        let (just, long) = ("x".repeat(128), "x".repeat(130));
        assert_eq!(texts(&[&just, &long]), [just.clone(), format!("{just}... (2 more bytes)")]);
        assert_eq!(texts(&["a"; 32]).len(), 32);
        assert_eq!(texts(&["auth", "password"]), ["auth", "(redacted)"]);
        let cut = texts(&["a"; 34]);
        assert_eq!((cut.len(), cut[31].as_str()), (32, "... (3 more arguments)"));
        let owned: OwnedArgs = ["set", "k", "value"].into_iter().collect();
        let few = Kept { commands: 2, arguments: 2, bytes: 1 };
        assert_eq!(shortened(owned.args(), few), [b"s... (2 more bytes)".to_vec(), b"... (2 more arguments)".to_vec()]);
    }

    #[test]
    fn the_newest_entries_stay() {
        let log = SlowLog::default();
        let client = Client::new(1, Peer::default(), clocks::UnixMs::ZERO, 0, 0);
        let args: OwnedArgs = ["ping"].into_iter().collect();
        for time in 0..4 {
            log.push(time as usize % 2, args.args(), &client, time, time, KEPT);
        }
        assert_eq!(log.sums()[&1], Slow { count: 2, longest: 3, total: 4 });
        assert_eq!(log.sum(), Slow { count: 4, longest: 3, total: 6 });
        let ids: Vec<_> = log.entries().iter().map(|entry| entry.id).collect();
        assert_eq!(ids, [3, 2]);
    }
}
