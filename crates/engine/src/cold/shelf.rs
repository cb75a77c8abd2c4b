//! The present source of cold keys: the log, and with it the store, may be switched on and off.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use super::Source;

/// The present source, if there is one.
#[derive(Default)]
pub struct Shelf {
    is_there: AtomicBool,
    source: RwLock<Option<Arc<dyn Source>>>,
}

impl Shelf {
    /// Sets the source of cold keys; `None`: there must be none.
    pub fn set(&self, source: Option<Arc<dyn Source>>) {
        self.is_there.store(source.is_some(), Relaxed);
        *self.source.write().unwrap_or_else(PoisonError::into_inner) = source;
    }

    /// True if there is a source.
    #[inline]
    pub fn is_there(&self) -> bool {
        self.is_there.load(Relaxed)
    }

    /// The source.
    pub fn get(&self) -> Option<Arc<dyn Source>> {
        self.source.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
