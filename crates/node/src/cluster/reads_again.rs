//! Reads under way at a node that is lost: nobody loses anything if they are executed twice, so they run again (rule S9).
//!
//! They are staged once more for the same link, as if they had never left. So they wait for the node, or go to the node
//! that takes its keys over, as commands do that were staged while the link was down.

use resp::Limits;

use super::port::{Forwarding, Port};
use super::remote::{Expect, Line, Owed};
use super::returned::decoded_within;
use crate::worker::conn::Conn;

impl Line {
    /// The commands under way, with the places of their replies, if all of them are reads of which nothing has come.
    fn reads_to_repeat(&self, protocol: u8) -> Option<Vec<(Owed, &[u8])>> {
        if self.reads.is_mixed || self.has_begun || self.tracking.is_on() || self.protocol != protocol {
            return None;
        }
        let mut places = Vec::new();
        for expect in &self.expected {
            match expect {
                Expect::Hole(owed) => places.push(*owed),
                // Of what makes the session there follow this one.
                Expect::Nothing => {}
                _ => return None,
            }
        }
        let (mut commands, mut rest) = (Vec::new(), &self.reads.bytes[..]);
        let limits = Limits { proto_max_bulk_len: usize::MAX, authenticated: true };
        while let Some((consumed, _)) = decoded_within(rest, &limits) {
            let (command, later) = rest.split_at(consumed);
            commands.push(command);
            rest = later;
        }
        let answered = commands.len().checked_sub(places.len()).filter(|_| rest.is_empty())?;
        Some(places.into_iter().zip(commands.split_off(answered)).collect())
    }
}

impl<P: Port> Forwarding<'_, P> {
    /// Stages the reads of a line that is lost with its link once more. False: something else is under way.
    pub(super) fn read_again(&mut self, conn: &mut Conn, link: usize, line: &Line) -> bool {
        if self.peers().links[link].open_end().is_some() {
            // It is not the node that is lost.
            return false;
        }
        let Some(reads) = line.reads_to_repeat(conn.session.protocol.number() as u8) else { return false };
        for (owed, command) in reads {
            // The client may have selected another database since.
            let db = std::mem::replace(&mut conn.session.db, owed.db);
            self.ask_one(conn, link, None, command, [Expect::Hole(owed)], true);
            conn.session.db = db;
        }
        true
    }
}
