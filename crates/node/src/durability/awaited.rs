//! The commands that wait until copies, or disks, have what their client has written.

use clocks::UnixMs;
use keyspace::Horizon;
use resp::{Protocol, Reply};

use super::durable::{Durable, Having};

/// A command that waits for copies, or disks.
pub struct AwaitedCopies {
    /// The end of each stream.
    pub(crate) ends: Horizon,
    /// The time limit, if there is one.
    pub(crate) until: Option<UnixMs>,
    pub(crate) wants: Wants,
}

/// What it waits for. Copies that there are not are not waited for: nothing would end that.
#[derive(Clone, Copy)]
pub(crate) enum Wants {
    /// So many copies have received it.
    Received(usize),
    /// It is on the disks of so many copies, and (`local`) on as many disks as the log of its owner promises.
    OnDisks { local: bool, copies: usize },
}

impl AwaitedCopies {
    /// Answers the command if it has what it wants by now, or its time is over. True if it has.
    pub(crate) fn answer(&self, log: &Durable, now: UnixMs, out: &mut Vec<u8>, protocol: Protocol) -> bool {
        let (having, is_synced) = (log.having(&self.ends), log.is_synced(&self.ends));
        let is_over = now == UnixMs::NEVER || self.until.is_some_and(|until| until <= now);
        let answers = is_over || self.wants.are_met(having, is_synced);
        if answers {
            self.wants.write(having, is_synced, out, protocol);
        }
        answers
    }
}

impl Wants {
    fn are_met(self, having: Having, is_synced: bool) -> bool {
        match self {
            Self::Received(copies) => having.received >= copies.min(having.all),
            Self::OnDisks { local, copies } => (is_synced || !local) && having.synced >= copies.min(having.all),
        }
    }

    /// Writes the reply.
    pub(crate) fn write(self, having: Having, is_synced: bool, out: &mut Vec<u8>, protocol: Protocol) {
        let mut reply = Reply::new(out, protocol);
        match self {
            Self::Received(_) => reply.count(having.received as u64),
            Self::OnDisks { .. } => {
                reply.array(2);
                reply.integer(is_synced.into());
                reply.count(having.synced as u64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_that_there_are_not_are_not_waited_for() {
        let having = |received, synced, all| Having { received, synced, all };
        let of = |wants: Wants, having, is_synced| {
            let mut reply = Vec::new();
            wants.write(having, is_synced, &mut reply, Protocol::Resp2);
            (wants.are_met(having, is_synced), String::from_utf8(reply).unwrap())
        };
        for (wanted, met) in [(0, true), (1, true), (2, false), (9, false)] {
            assert_eq!(of(Wants::Received(wanted), having(1, 0, 2), false), (met, ":1\r\n".to_owned()), "{wanted}");
        }
        assert!(of(Wants::Received(9), having(2, 0, 2), false).0);
        let disks = |local, copies| Wants::OnDisks { local, copies };
        assert_eq!(of(disks(true, 1), having(2, 1, 2), false), (false, "*2\r\n:0\r\n:1\r\n".to_owned()));
        assert_eq!(of(disks(true, 1), having(2, 1, 2), true), (true, "*2\r\n:1\r\n:1\r\n".to_owned()));
        assert!(!of(disks(true, 2), having(2, 1, 2), true).0 && of(disks(false, 1), having(2, 1, 2), false).0);
        assert!(of(disks(true, 3), having(0, 0, 0), true).0, "a log without copies");
    }
}
