//! Sets: distinct byte strings without order.
//!
//! | form | `OBJECT ENCODING` | used while |
//! |---|---|---|
//! | sorted array of integers | `intset` | all members are integers, at most `set-max-intset-entries` |
//! | compact block | `listpack` | at most `set-max-listpack-entries`, none longer than `set-max-listpack-value` |
//! | leaf tree in the order of hashes | `hashtable` | otherwise |
//!
//! As in Redis a set changes its form when it grows and never turns back.

mod codec;
mod ints;
mod members;
#[cfg(test)]
mod tests;

use clocks::UnixMs;

use crate::Limits;
use crate::block::{Block, Elem, Needle};
use crate::hashed::{Mark, Record, Table};
use ints::Ints;
pub use members::Members;

/// A set. Every member has a rank from 0 to `len() - 1` by which it is found in O(log n). Ranks change with every
/// change of the set.
#[derive(Clone, Default)]
pub struct Set {
    form: Form,
}

#[derive(Clone)]
enum Form {
    Ints(Ints),
    Block(Block),
    Table(Table<Member>),
}

impl Default for Form {
    fn default() -> Self {
        Form::Ints(Ints::new())
    }
}

/// The record of a member is the member.
pub(crate) struct Member;

impl Record for Member {
    const EXPIRES: bool = false;

    fn key(record: &[u8]) -> &[u8] {
        record
    }

    fn expiry(_: &[u8]) -> UnixMs {
        UnixMs::NEVER
    }

    fn is_record(_: &[u8]) -> bool {
        true
    }
}

/// Redis's own bound on an intset, whatever `set-max-intset-entries` says.
const INTSET_ENTRIES_MAX: usize = 1 << 30;

impl Set {
    /// An empty set.
    pub fn new() -> Self {
        Set::default()
    }

    /// An empty set in the form that fits `count` members of which the first is `first`, as `SADD` creates it.
    pub fn for_members(first: &[u8], count: usize, limits: &Limits) -> Self {
        let form = if count <= limits.set_max_intset_entries && matches!(Elem::from_bytes(first), Elem::Int(_)) {
            Form::default()
        } else if count <= limits.set_max_listpack_entries {
            Form::Block(Block::new())
        } else {
            Form::Table(Table::new())
        };
        Set { form }
    }

    /// Makes room for members of about so many bytes, in a set without any.
    pub(crate) fn make_room(&mut self, bytes: usize) {
        if let Form::Block(block) = &mut self.form
            && block.is_empty()
        {
            *block = Block::with_room(bytes);
        }
    }

    /// Changes the form early if `count` members are about to be added, as `SADD` does to a set that exists.
    pub fn expect(&mut self, count: usize, limits: &Limits) {
        let early = match &self.form {
            Form::Ints(_) => count > limits.set_max_intset_entries,
            Form::Block(_) => count > limits.set_max_listpack_entries,
            Form::Table(_) => false,
        };
        if early {
            self.spread();
        }
    }

    /// Changes the form if the set, decoded from elsewhere, is too large for it here.
    pub fn fit(&mut self, limits: &Limits) {
        let too_large = match &self.form {
            Form::Ints(ints) => ints.len() > limits.set_max_intset_entries.min(INTSET_ENTRIES_MAX),
            Form::Block(block) => {
                block.len() > limits.set_max_listpack_entries
                    || block.iter().any(|member| member.str_len() > limits.set_max_listpack_value)
            }
            Form::Table(_) => false,
        };
        if too_large {
            self.spread();
        }
    }

    /// Number of members.
    pub fn len(&self) -> u64 {
        match &self.form {
            Form::Ints(ints) => ints.len() as u64,
            Form::Block(block) => block.len() as u64,
            Form::Table(table) => table.len(),
        }
    }

    /// True if there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Heap bytes.
    pub fn memory(&self) -> usize {
        match &self.form {
            Form::Ints(ints) => ints.heap_bytes(),
            Form::Block(block) => block.heap_bytes(),
            Form::Table(table) => table.memory(),
        }
    }

    /// Frees a part of a value that will not be read any more: see [`crate::shed`].
    pub fn shed(&mut self, budget: &mut usize) {
        if let Form::Table(table) = &mut self.form {
            table.shed(budget);
        }
    }

    /// Redis's name of the form (`OBJECT ENCODING`).
    pub fn encoding(&self) -> &'static str {
        match &self.form {
            Form::Ints(_) => "intset",
            Form::Block(_) => "listpack",
            Form::Table(_) => "hashtable",
        }
    }

    /// True if the string is a member.
    pub fn contains(&self, member: &[u8]) -> bool {
        match &self.form {
            Form::Ints(ints) => match Elem::from_bytes(member) {
                Elem::Int(value) => ints.find(value).is_ok(),
                Elem::Bytes(_) => false,
            },
            Form::Block(block) => block.find(&Needle::new(member), 0, 1).is_some(),
            Form::Table(table) => table.get(member).is_some(),
        }
    }

    /// [`contains`](Self::contains) for an element of another set.
    pub fn contains_elem(&self, member: Elem<'_>) -> bool {
        match (&self.form, member) {
            (Form::Ints(ints), Elem::Int(value)) => ints.find(value).is_ok(),
            _ => self.contains(member.as_bytes(&mut itoa::Buffer::new())),
        }
    }

    /// Adds a member of at most [`RECORD_BYTES_MAX`](crate::hashed::RECORD_BYTES_MAX) bytes; false if it is there
    /// already.
    pub fn add(&mut self, member: &[u8], limits: &Limits) -> bool {
        match &mut self.form {
            Form::Table(table) => add_to_table(table, member),
            Form::Block(block) => {
                let needle = Needle::new(member);
                if block.find(&needle, 0, 1).is_some() {
                    return false;
                }
                if block.len() < limits.set_max_listpack_entries && member.len() <= limits.set_max_listpack_value {
                    block.push_back(needle.elem());
                } else {
                    self.spread_with(member);
                }
                true
            }
            Form::Ints(ints) => match Elem::from_bytes(member) {
                Elem::Int(value) => {
                    let added = ints.add(value);
                    if ints.len() > limits.set_max_intset_entries.min(INTSET_ENTRIES_MAX) {
                        self.spread();
                    }
                    added
                }
                elem @ Elem::Bytes(_) => {
                    let len = ints.len();
                    let digits =
                        [0, len.wrapping_sub(1)].map(|at| if len == 0 { 0 } else { Elem::Int(ints.get(at)).str_len() });
                    let longest = member.len().max(digits[0]).max(digits[1]);
                    if len < limits.set_max_listpack_entries && longest <= limits.set_max_listpack_value {
                        let mut block = Block::new();
                        ints.iter().for_each(|value| block.push_back(Elem::Int(value)));
                        block.push_back(elem);
                        self.form = Form::Block(block);
                    } else {
                        self.spread_with(member);
                    }
                    true
                }
            },
        }
    }

    /// [`add`](Self::add) for an element of another set.
    pub fn add_elem(&mut self, member: Elem<'_>, limits: &Limits) -> bool {
        self.add(member.as_bytes(&mut itoa::Buffer::new()), limits)
    }

    /// Removes a member; false if it is none.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.form {
            Form::Ints(ints) => {
                let Elem::Int(value) = Elem::from_bytes(member) else { return false };
                let found = ints.find(value);
                if let Ok(index) = found {
                    ints.remove_at(index);
                }
                found.is_ok()
            }
            Form::Block(block) => {
                let found = block.find(&Needle::new(member), 0, 1);
                if let Some((_, pos)) = found {
                    block.remove(pos, 1);
                }
                found.is_some()
            }
            Form::Table(table) => table.change(member, |mut place| place.remove()),
        }
    }

    /// The member of a rank; None from `len()` on.
    pub fn nth(&self, rank: u64) -> Option<Elem<'_>> {
        match &self.form {
            Form::Ints(ints) if rank < ints.len() as u64 => Some(Elem::Int(ints.get(rank as usize))),
            Form::Ints(_) => None,
            Form::Block(block) => block.iter_from(usize::try_from(rank).ok()?).next(),
            Form::Table(table) => table.nth(rank).map(Elem::Bytes),
        }
    }

    /// Removes the member of a rank after `taken` has seen it; None from `len()` on.
    pub fn remove_nth<T>(&mut self, rank: u64, taken: impl FnOnce(Elem<'_>) -> T) -> Option<T> {
        match &mut self.form {
            Form::Ints(ints) => {
                let index = usize::try_from(rank).ok().filter(|index| *index < ints.len())?;
                let result = taken(Elem::Int(ints.get(index)));
                ints.remove_at(index);
                Some(result)
            }
            Form::Block(block) => {
                let index = usize::try_from(rank).ok().filter(|index| *index < block.len())?;
                let pos = block.seek(index)?;
                let result = taken(block.get(pos));
                block.remove(pos, 1);
                Some(result)
            }
            Form::Table(table) => table.remove_nth(rank, |record| taken(Elem::Bytes(record))),
        }
    }

    /// All members, in the order of their ranks.
    pub fn iter(&self) -> Iter<'_> {
        self.iter_from(0)
    }

    /// The members from this rank on.
    pub fn iter_from(&self, rank: u64) -> Iter<'_> {
        let index = usize::try_from(rank).unwrap_or(usize::MAX);
        Iter(match &self.form {
            Form::Ints(ints) => Walk::Ints(ints, index),
            Form::Block(block) => Walk::Block(block.iter_from(index)),
            Form::Table(table) => Walk::Table(table.iter_from(rank)),
        })
    }

    /// Shows about `count` members to `each`, from a cursor on that is 0 at first; returns the next cursor, 0 at the
    /// end.
    ///
    /// A member that is there from the first call to the last is shown at least once, whatever happens to others. A
    /// compact set is shown whole.
    pub fn scan<'a>(&'a self, cursor: u64, count: usize, mut each: impl FnMut(Elem<'a>)) -> u64 {
        let Form::Table(table) = &self.form else {
            self.iter().for_each(each);
            return 0;
        };
        let Ok(from) = u32::try_from(cursor) else { return 0 };
        table.scan(Mark(from), count.max(1), |record| each(Elem::Bytes(record))).map_or(0, |next| u64::from(next.0))
    }

    /// Changes to the large form.
    fn spread(&mut self) {
        if !matches!(self.form, Form::Table(_)) {
            self.form = Form::Table(self.iter().collect::<Members>().into_table());
        }
    }

    /// Changes to the large form because of this member.
    fn spread_with(&mut self, member: &[u8]) {
        self.spread();
        if let Form::Table(table) = &mut self.form {
            add_to_table(table, member);
        }
    }
}

fn add_to_table(table: &mut Table<Member>, member: &[u8]) -> bool {
    table.change(member, |mut place| {
        let new = place.record().is_none();
        if new {
            place.set(&[member]);
        }
        new
    })
}

/// The members of a set, in the order of their ranks.
pub struct Iter<'a>(Walk<'a>);

enum Walk<'a> {
    Ints(&'a Ints, usize),
    Block(crate::block::Iter<'a>),
    Table(crate::hashed::Records<'a, Member>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = Elem<'a>;

    #[inline]
    fn next(&mut self) -> Option<Elem<'a>> {
        match &mut self.0 {
            Walk::Table(records) => records.next().map(Elem::Bytes),
            Walk::Block(elems) => elems.next(),
            Walk::Ints(ints, at) => {
                let value = (*at < ints.len()).then(|| ints.get(*at))?;
                *at += 1;
                Some(Elem::Int(value))
            }
        }
    }
}

/// For checkpoints: see [`crate::saved`].
impl Set {
    /// The large form.
    pub(crate) fn table_mut(&mut self) -> Option<&mut Table<Member>> {
        match &mut self.form {
            Form::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The large form's bytes; 0 for others.
    pub(crate) fn large_bytes(&self) -> usize {
        match &self.form {
            Form::Table(table) => table.bytes(),
            _ => 0,
        }
    }

    /// A set in its large form.
    pub(crate) fn of_table(table: Table<Member>) -> Self {
        Set { form: Form::Table(table) }
    }
}
