//! One set of rights: commands, keys and channels that go together.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalogue::{Catalogue, Categories, CommandId};
use crate::check::Access;
use crate::ordered::{Named, Ordered};

/// A pattern of keys, and the access that it allows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeyPattern {
    pub glob: Vec<u8>,
    pub access: Access,
}

impl Named for KeyPattern {
    fn name(&self) -> &[u8] {
        &self.glob
    }
}

/// A rule about commands, kept as it was given: a description repeats the rules in their order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CommandRule {
    pub allow: bool,
    /// "get", "config|get", "select|0" or "@read", in lower case.
    pub name: Vec<u8>,
}

impl Named for CommandRule {
    fn name(&self) -> &[u8] {
        &self.name
    }
}

/// Rights that go together. A user may do all that one of its selectors allows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    pub all_keys: bool,
    pub all_channels: bool,
    /// True if every command is allowed, without a look at the bits.
    pub all_commands: bool,
    /// True if the rules begin with +@all: later commands are allowed.
    pub future_commands: bool,
    pub keys: Ordered<KeyPattern>,
    pub channels: Ordered<Vec<u8>>,
    pub rules: Ordered<CommandRule>,
    /// A bit for each command id; missing bits are 0.
    bits: Vec<u64>,
    /// First arguments, in lower case, with which an otherwise forbidden command is allowed.
    pub first_arguments: BTreeMap<CommandId, BTreeSet<Vec<u8>>>,
}

impl PartialEq for Selector {
    /// Rights to commands follow from the rules, so bits are not compared.
    fn eq(&self, other: &Selector) -> bool {
        self.all_keys == other.all_keys
            && self.all_channels == other.all_channels
            && self.future_commands == other.future_commands
            && self.keys == other.keys
            && self.channels == other.channels
            && self.rules == other.rules
    }
}

impl Eq for Selector {}

impl Selector {
    /// A selector without rights, except for all channels if `all_channels` (`acl-pubsub-default`).
    pub fn new(all_channels: bool) -> Selector {
        Selector { all_channels, ..Selector::default() }
    }

    /// True if the selector allows everything.
    pub fn is_full(&self) -> bool {
        self.all_commands && self.all_keys && self.all_channels
    }

    /// True if the command's bit is set.
    #[inline]
    pub fn has(&self, id: CommandId) -> bool {
        let id = usize::from(id.0);
        self.bits.get(id / 64).is_some_and(|word| word >> (id % 64) & 1 != 0)
    }

    /// True if the command is allowed with this first argument.
    pub fn has_first_argument(&self, id: CommandId, argument: &[u8]) -> bool {
        let allowed = self.first_arguments.get(&id);
        allowed.is_some_and(|all| all.iter().any(|known| known.eq_ignore_ascii_case(argument)))
    }

    /// `+@all` and `-@all`.
    pub fn set_all_commands(&mut self, catalogue: &Catalogue, allow: bool) {
        self.bits = vec![if allow { u64::MAX } else { 0 }; catalogue.len().div_ceil(64)];
        (self.all_commands, self.future_commands) = (allow, allow);
        self.rules.clear();
        self.first_arguments.clear();
    }

    fn set_bit(&mut self, id: CommandId, allow: bool) {
        let (word, bit) = (usize::from(id.0) / 64, 1 << (id.0 % 64));
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        if let Some(word) = self.bits.get_mut(word) {
            *word = if allow { *word | bit } else { *word & !bit };
        }
    }

    /// Sets `all_commands` again once rights that were taken away are given back, so that a full user needs no checks.
    fn see_whether_all(&mut self) {
        self.all_commands = self.future_commands && self.bits.iter().all(|word| *word == u64::MAX);
    }

    /// Allows or forbids a command with its subcommands.
    pub fn set_command(&mut self, catalogue: &Catalogue, id: CommandId, allow: bool) {
        self.set_commands(catalogue, [id], allow);
    }

    fn set_commands(&mut self, catalogue: &Catalogue, ids: impl IntoIterator<Item = CommandId>, allow: bool) {
        for id in ids {
            self.set_bit(id, allow);
            self.first_arguments.remove(&id);
            catalogue.subcommands(id).iter().for_each(|sub| self.set_bit(*sub, allow));
        }
        self.see_whether_all();
    }

    /// Allows or forbids the commands of a category, each with its subcommands.
    pub fn set_category(&mut self, catalogue: &Catalogue, category: Categories, allow: bool) {
        self.set_commands(catalogue, catalogue.of_category(category), allow);
    }

    /// Allows a command with one first argument.
    pub fn add_first_argument(&mut self, id: CommandId, argument: &[u8]) {
        self.first_arguments.entry(id).or_default().insert(argument.to_ascii_lowercase());
    }

    /// Notes a rule as the newest. It replaces a rule about the same, and rules about subcommands of its command.
    pub fn note(&mut self, name: &[u8], allow: bool) {
        let name = name.to_ascii_lowercase();
        self.rules.remove(&name);
        for covered in self.rules.names_with(&[&name[..], b"|"].concat()) {
            self.rules.remove(&covered);
        }
        self.rules.push(CommandRule { allow, name });
    }
}
