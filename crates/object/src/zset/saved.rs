//! A large sorted set in a store: the leaves of its order. The index of members is made anew when it is loaded. That
//! costs less than reading it, and a changed score needs only the leaves that it leaves and enters.
//!
//! ```text
//! leaf := elements: score (8, little-endian), length of the member (varint, LEB128), member
//! ```

use std::cmp::Ordering;
use std::num::NonZeroU64;

use crate::Corrupt;
use crate::saved::Ledger;

use super::codec::{TWICE, read_element, write_element};
use super::item::Item;
use super::large::Large;
use super::page::Page;
use super::tree::Tree;
use super::{Form, ZSet};

/// A leaf that was read.
pub(crate) struct Leaf(Page<f64, ()>);

/// Most bytes of slots and short members in a leaf that is read: a page holds 64 KB.
const LEAF_WEIGHT_MAX: usize = 32 << 10;

/// The members and scores of a large set as they were at one moment, without the index.
pub(crate) struct Order(Tree<f64, ()>);

impl Order {
    pub(crate) fn len(&self) -> u64 {
        self.0.len()
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        self.0.ledger()
    }

    /// Shows label and contents of the leaves changed since the freeze that began mark `since`; `out` is cleared for
    /// each.
    pub(crate) fn changed<E>(
        &self,
        since: u32,
        mut each: impl FnMut(u64, &dyn Fn(&mut Vec<u8>)) -> Result<(), E>,
    ) -> Result<(), E> {
        self.0.changed(since, |page| {
            each(page.label, &|out: &mut Vec<u8>| {
                (0..page.len()).for_each(|i| write_element(out, page.number(i), page.string(i)));
            })
        })
    }
}

/// A leaf from its bytes, checked by itself.
pub(crate) fn leaf(bytes: &[u8], label: u64) -> Result<Leaf, Corrupt> {
    let (mut elements, mut rest, mut room) = (Vec::new(), bytes, 0);
    while !rest.is_empty() {
        let element = read_element(&mut rest).ok_or(Corrupt("leaf of a sorted set cut short"))?;
        if element.0.is_nan() || elements.last().is_some_and(|last| *last >= element) {
            return Err(Corrupt("order of a sorted set's leaf"));
        }
        room += Page::<f64, ()>::SLOT + if element.1.len() <= super::item::INLINE_MAX { element.1.len() } else { 16 };
        elements.push(element);
    }
    if elements.is_empty() || room > LEAF_WEIGHT_MAX {
        return Err(Corrupt("size of a sorted set's leaf"));
    }
    let mut page = Page::with_room(room + room / 16);
    for (score, member) in elements {
        page.insert(page.len(), score, Item::new(member), ());
    }
    page.label = label;
    Ok(Leaf(page))
}

impl ZSet {
    /// The large form's bytes; 0 for the small one.
    pub(crate) fn large_bytes(&self) -> usize {
        match &self.0 {
            Form::Small(_) => 0,
            Form::Large(large) => large.heap() / 2,
        }
    }

    /// Its order as it is now, for a checkpoint that calls itself `epoch`; `None` for the small form.
    pub(crate) fn freeze_order(&mut self, epoch: NonZeroU64) -> Option<Order> {
        let Form::Large(large) = &mut self.0 else { return None };
        let order = large.order.clone();
        large.order.ledger_mut().begin(epoch.get());
        Some(Order(order))
    }

    /// The set that a freeze called `epoch` left in a store, from its leaves in any order.
    pub(crate) fn assemble(leaves: Vec<Leaf>, epoch: u64) -> Result<Self, Corrupt> {
        let mut leaves: Vec<_> = leaves.into_iter().map(|leaf| leaf.0).collect();
        debug_assert!(leaves.iter().all(|leaf| leaf.len() > 0), "checked when they were read");
        leaves.sort_by(|a, b| {
            (a.number(0), a.string(0)).partial_cmp(&(b.number(0), b.string(0))).unwrap_or(Ordering::Equal)
        });
        let ordered = leaves.windows(2).all(|pair| {
            let (last, next) = (pair[0].len() - 1, &pair[1]);
            (pair[0].number(last), pair[0].string(last)) < (next.number(0), next.string(0))
        });
        if !ordered || leaves.is_empty() {
            return Err(Corrupt("order of a sorted set's leaves"));
        }
        let next = leaves.iter().map(|leaf| leaf.label).max().map_or(0, |label| label.saturating_add(1));
        let ledger = Ledger::loaded(epoch, leaves.len() as u64, next);
        let large = Large::of_order(Tree::of_pages(leaves, ledger)).ok_or(TWICE)?;
        Ok(ZSet(Form::Large(Box::new(large))))
    }
}
