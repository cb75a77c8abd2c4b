//! The compact form with times of expiry: name, value, expiry of each field in turn.

use clocks::UnixMs;

use super::field::{Field, expiry_of};
use super::{Expiry, Fields, Found};
use crate::block::{Block, Elem, Needle, Pos};

/// Name, value and time of expiry (0 for none) of every field.
#[derive(Clone)]
pub(super) struct Triples {
    block: Block,
    /// The earliest expiry, or [`UnixMs::NEVER`].
    expiry: UnixMs,
}

impl Triples {
    /// From checked elements.
    pub fn of_block(block: Block) -> Self {
        let mut triples = Triples { block, expiry: UnixMs::NEVER };
        triples.find_expiry();
        triples
    }

    /// From names and values.
    pub fn of_pairs(pairs: &Block) -> Self {
        let mut block = Block::with_capacity(pairs.bytes() + pairs.len());
        for (i, elem) in pairs.iter().enumerate() {
            block.push_back(elem);
            if i % 2 == 1 {
                block.push_back(Elem::Int(0));
            }
        }
        Triples { block, expiry: UnixMs::NEVER }
    }

    pub fn len(&self) -> usize {
        self.block.len() / 3
    }

    pub fn heap_bytes(&self) -> usize {
        self.block.heap_bytes()
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.block.as_bytes()
    }

    pub fn expiry(&self) -> UnixMs {
        self.expiry
    }

    pub fn fields_from(&self, index: usize) -> Fields<'_> {
        Fields::of_block(self.block.iter_from(index.saturating_mul(3)), 3)
    }

    pub fn find(&self, name: &[u8]) -> Option<Found<'_>> {
        let (value, expiry) = self.locate(&Needle::new(name))?;
        Some(Found { value: self.block.get(value), expiry: expiry_of(self.block.get(expiry)) })
    }

    /// The positions of a field's value and expiry.
    fn locate(&self, name: &Needle<'_>) -> Option<(Pos, Pos)> {
        let (_, pos) = self.block.find(name, 0, 3)?;
        let value = self.block.after(pos);
        Some((value, self.block.after(value)))
    }

    pub fn set(&mut self, name: &[u8], value: &[u8], expiry: Expiry) -> bool {
        let (needle, value) = (Needle::new(name), Elem::from_bytes(value));
        let found = self.locate(&needle);
        match found {
            Some((pos, _)) => self.block.replace(pos, value),
            None => {
                self.block.push_back(needle.elem());
                self.block.push_back(value);
                self.block.push_back(Elem::Int(0));
            }
        }
        match expiry {
            Expiry::Keep => {}
            Expiry::Clear => _ = self.set_expiry(name, None),
            Expiry::At(at) => _ = self.set_expiry(name, Some(at)),
        }
        found.is_none()
    }

    pub fn set_expiry(&mut self, name: &[u8], expiry: Option<UnixMs>) -> bool {
        let Some((_, pos)) = self.locate(&Needle::new(name)) else { return false };
        let old = expiry_of(self.block.get(pos));
        if old != expiry {
            self.block.replace(pos, Elem::Int(UnixMs::to_wire(expiry) as i64));
            self.expiry = self.expiry.min(expiry.unwrap_or(UnixMs::NEVER));
            self.lost(old);
        }
        true
    }

    pub fn remove(&mut self, name: &[u8]) -> bool {
        let Some((_, pos)) = self.block.find(&Needle::new(name), 0, 3) else { return false };
        let expiry = self.block.after(self.block.after(pos));
        let old = expiry_of(self.block.get(expiry));
        self.block.remove(pos, 3);
        self.lost(old);
        true
    }

    /// Removes fields that have expired by `until`, at most `max`, and calls `gone` with each. Returns how many.
    pub fn reclaim(&mut self, until: UnixMs, max: usize, mut gone: impl FnMut(Elem<'_>)) -> usize {
        if self.expiry > until {
            return 0;
        }
        let (mut kept, mut taken) = (Block::with_capacity(self.block.bytes()), 0);
        for Field { name, value, expiry } in self.fields_from(0) {
            if taken < max && expiry.is_some_and(|at| at <= until) {
                taken += 1;
                gone(name);
                continue;
            }
            kept.push_back(name);
            kept.push_back(value);
            kept.push_back(Elem::Int(UnixMs::to_wire(expiry) as i64));
        }
        kept.shrink_to_fit();
        *self = Triples::of_block(kept);
        taken
    }

    /// Finds the earliest expiry again if this one, which is gone, was it.
    fn lost(&mut self, old: Option<UnixMs>) {
        if old == Some(self.expiry) {
            self.find_expiry();
        }
    }

    fn find_expiry(&mut self) {
        self.expiry = self.fields_from(0).filter_map(|field| field.expiry).min().unwrap_or(UnixMs::NEVER);
    }
}
