//! The store as what cold keys are fetched from.

use std::sync::Arc;

use command::Position;
use keyspace::{Fetched, Key, KeyHasher, Space, Unreadable};
use store::Store;

use super::fetch::fetch_within;
use super::list::{list, read};
use super::load::Unloadable;
use crate::cold::{Names, Records, Source, Span};

/// A store that checkpoints are written to.
pub struct StoreSource {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Called when the store cannot be read.
    pub report: fn(&Unloadable),
}

impl Source for StoreSource {
    fn fetch_within(
        &self,
        space: Space,
        key: &Key<'_>,
        has_room: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Fetched>, Unreadable> {
        if space == 0 {
            return Ok(None);
        }
        fetch_within(&*self.store, space, key, has_room).map_err(|error| {
            if !matches!(error, Unloadable::NoRoom) {
                (self.report)(&error);
            }
            Unreadable
        })
    }

    fn list(&self, space: Space, span: Span) -> Result<Names, Unreadable> {
        if space == 0 {
            return Ok(Names::default());
        }
        list(&*self.store, space, span).map_err(|error| {
            (self.report)(&error);
            Unreadable
        })
    }

    fn read(&self, space: Space, from: Position, hasher: &KeyHasher) -> Result<Records, Unreadable> {
        if space == 0 {
            return Ok(Records::default());
        }
        read(&*self.store, space, from, hasher).map_err(|error| {
            (self.report)(&error);
            Unreadable
        })
    }
}
