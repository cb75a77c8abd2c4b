//! Keys that no argument names are found out while a command runs. Of those that memory does not know the command asks for the values, and
//! runs again (rule C5).

use keyspace::{Db, Whereabouts};

use crate::ctx::Outcome;
use crate::error::Error;

/// So many are asked for at once.
const MOST: usize = 8192;

/// Keys that a command needs and memory does not know.
#[derive(Default)]
pub(crate) struct Lacking(Vec<Box<[u8]>>);

impl Lacking {
    /// Notes that the command needs a key. False: it need not go on looking for others now.
    pub(crate) fn note(&mut self, db: &Db<'_>, key: &[u8]) -> Result<bool, Error> {
        match db.whereabouts(&db.key(key)) {
            Whereabouts::Known => {}
            Whereabouts::Cold | Whereabouts::Awaited => self.0.push(key.into()),
            Whereabouts::Unreadable => return Err(Error::UNREADABLE),
        }
        Ok(self.0.len() < MOST)
    }

    /// How the command has to end if it lacks something.
    pub(crate) fn outcome(self) -> Option<Outcome> {
        (!self.0.is_empty()).then_some(Outcome::Load(self.0))
    }
}
