//! Members on their way into a set.

use super::ints::Ints;
use super::{Form, INTSET_ENTRIES_MAX, Member, Set};
use crate::Limits;
use crate::block::{Block, Elem};
use crate::hashed::Table;

/// Distinct members, collected to become a set at once: faster than adding one by one to a large set.
#[derive(Default)]
pub struct Members {
    bytes: Vec<u8>,
    /// Where each member ends in `bytes`.
    ends: Vec<usize>,
    longest: usize,
    /// Some member is no integer.
    strings: bool,
}

impl Members {
    /// Adds a member that is not there yet.
    pub fn push(&mut self, member: Elem<'_>) {
        let start = self.bytes.len();
        member.write_to(&mut self.bytes);
        let string = &self.bytes[start..];
        self.longest = self.longest.max(string.len());
        self.strings |= matches!(member, Elem::Bytes(_)) && matches!(Elem::from_bytes(string), Elem::Bytes(_));
        self.ends.push(self.bytes.len());
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }

    /// The set, in the form in which adding them one by one would have left it.
    pub fn into_set(self, limits: &Limits) -> Set {
        let count = self.ends.len();
        let form = if !self.strings && count <= limits.set_max_intset_entries.min(INTSET_ENTRIES_MAX) {
            let mut ints = Ints::new();
            for member in self.iter() {
                if let Elem::Int(int) = Elem::from_bytes(member) {
                    ints.add(int);
                }
            }
            Form::Ints(ints)
        } else if self.strings
            && count <= limits.set_max_listpack_entries
            && self.longest <= limits.set_max_listpack_value
        {
            let mut block = Block::with_capacity(self.bytes.len() + 2 * count);
            self.iter().for_each(|member| block.push_back(Elem::from_bytes(member)));
            block.shrink_to_fit();
            Form::Block(block)
        } else {
            Form::Table(self.into_table())
        };
        Set { form }
    }

    pub(super) fn into_table(self) -> Table<Member> {
        Table::build(self.iter())
    }
}

impl<'a> FromIterator<Elem<'a>> for Members {
    fn from_iter<I: IntoIterator<Item = Elem<'a>>>(members: I) -> Self {
        let mut collected = Members::default();
        members.into_iter().for_each(|member| collected.push(member));
        collected
    }
}
