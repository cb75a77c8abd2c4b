//! Clients that remember nothing. They accept every answer; other clients check the effects.

use redolog::simulated::Chance;
use resp::Value;

use super::{Client, Common, Found, Request, Verdict};

/// The deeds of such a client.
pub trait Deeds {
    /// Requests under way at most.
    const WINDOW: u64;
    /// For messages.
    fn name(&self) -> String;
    /// The next request.
    fn request(&mut self, chance: &mut Chance) -> Request;
}

/// See the module's text.
pub struct Heedless<D> {
    deeds: D,
    pending: u64,
    is_cut_off: bool,
}

impl<D: Deeds> Heedless<D> {
    /// Does this.
    pub fn new(deeds: D) -> Self {
        Self { deeds, pending: 0, is_cut_off: false }
    }
}

impl<D: Deeds> Client for Heedless<D> {
    fn name(&self) -> String {
        self.deeds.name()
    }

    fn next(&mut self, _: &mut Common, chance: &mut Chance) -> Option<Request> {
        if self.is_cut_off || self.pending >= D::WINDOW {
            return None;
        }
        self.pending += 1;
        Some(self.deeds.request(chance))
    }

    fn answered(&mut self, _: &mut Common, _: Vec<Value>) -> Verdict {
        self.pending -= 1;
        Ok(())
    }

    fn refused(&mut self, _: &mut Common) {
        self.pending -= 1;
    }

    fn cut_off(&mut self) {
        (self.is_cut_off, self.pending) = (true, 0);
    }

    fn look(&mut self, _: &mut Common, _: &Found<'_>) -> Verdict {
        self.is_cut_off = false;
        Ok(())
    }
}
