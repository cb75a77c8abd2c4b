//! Keys that no argument names and that a command finds while it runs. The command asks for the values of those that
//! memory does not know, and runs again (rule C5).

use keyspace::{Db, Whereabouts};

use crate::ctx::Outcome;
use crate::error::Error;

/// So many are asked for at once.
const MOST: usize = 8192;

/// Keys that a command needs and memory does not know.
#[derive(Default)]
pub(crate) struct Lacking(Vec<Box<[u8]>>);

impl Lacking {
    /// Notes that the command needs a key. False: it should not look for others now.
    pub(crate) fn note(&mut self, db: &Db<'_>, key: &[u8]) -> Result<bool, Error> {
        match db.whereabouts(&db.key(key)) {
            Whereabouts::Known => {}
            Whereabouts::Cold | Whereabouts::Awaited => self.0.push(key.into()),
            Whereabouts::Unreadable => return Err(Error::UNREADABLE),
        }
        Ok(self.0.len() < MOST)
    }

    /// The outcome of the command if it lacks some.
    pub(crate) fn outcome(self) -> Option<Outcome> {
        (!self.0.is_empty()).then_some(Outcome::Load(self.0))
    }
}
