//! Decides whether a user may do something.

use std::ops::BitOrAssign;

use resp::Args;
use smallvec::SmallVec;

use crate::catalogue::{Catalogue, Channels, CommandId};
use crate::denied::Denied;
use crate::selector::Selector;
use crate::user::User;

/// The kind of access that a command asks for a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access(u8);

impl Access {
    /// Neither: the command does not read the key's value (EXISTS). Every pattern that matches allows it.
    pub const NONE: Access = Access(0);
    /// The client gets data of the key's value: Redis's key flag `access`.
    pub const READ: Access = Access(1);
    /// The value changes: Redis's key flags `update`, `insert`, `delete`.
    pub const WRITE: Access = Access(2);
    /// Both.
    pub const ALL: Access = Access(3);

    /// True if all of `other` is allowed.
    pub fn contains(self, other: Access) -> bool {
        self.0 & other.0 == other.0
    }

    /// The access of a command that reads or writes.
    pub fn new(reads: bool, writes: bool) -> Access {
        Access(u8::from(reads) | u8::from(writes) << 1)
    }

    pub(crate) fn bits(self) -> u8 {
        self.0
    }
}

impl BitOrAssign for Access {
    fn bitor_assign(&mut self, other: Access) {
        self.0 |= other.0;
    }
}

/// A key among the arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyUse {
    /// The argument's position; the command's name is argument 0.
    pub index: usize,
    /// The access that the command needs.
    pub access: Access,
}

/// The keys of one request.
pub type KeyUses = SmallVec<[KeyUse; 8]>;

/// A request, and its keys once they are needed.
struct Request<'a, F> {
    catalogue: &'a Catalogue,
    command: CommandId,
    args: Args<'a>,
    find_keys: Option<F>,
    keys: KeyUses,
}

impl User {
    /// Checks that the user may run this request. `find_keys` is asked for the keys at most once, and only if some
    /// selector does not have all keys. A request whose keys cannot be told has none.
    ///
    /// A user with full rights ([`User::is_full`]) needs no call. Other users pay for one bit and for their patterns.
    ///
    /// # Errors
    ///
    /// The user lacks a right. Of several, the most telling is named.
    pub fn check(
        &self,
        catalogue: &Catalogue,
        command: CommandId,
        args: Args<'_>,
        find_keys: impl FnOnce(&mut KeyUses),
    ) -> Result<(), Denied> {
        if self.is_full() {
            return Ok(());
        }
        let mut request = Request { catalogue, command, args, find_keys: Some(find_keys), keys: KeyUses::new() };
        let mut told = Denied::Command;
        for selector in self.all_selectors() {
            match request.check(selector) {
                Ok(()) => return Ok(()),
                // A channel before a key before the command: that selector came closest. Then the last argument.
                Err(denied) if denied.rank() > told.rank() => told = denied,
                Err(_) => {}
            }
        }
        Err(told)
    }

    /// True if the user may run this request, and use every existing key in this way: SORT with patterns.
    pub fn check_with_any_key(
        &self,
        catalogue: &Catalogue,
        command: CommandId,
        args: Args<'_>,
        find_keys: impl FnOnce(&mut KeyUses),
        access: Access,
    ) -> bool {
        let mut request = Request { catalogue, command, args, find_keys: Some(find_keys), keys: KeyUses::new() };
        self.all_selectors().any(|selector| request.check(selector).is_ok() && selector.has_any_key(access))
    }

    /// True if the user may use a key in this way, with any command.
    pub fn may_use_key(&self, key: &[u8], access: Access) -> bool {
        self.all_selectors().any(|selector| selector.has_key(key, access))
    }

    /// True if the user may use a channel. A pattern must be one of its patterns to the letter.
    pub fn may_use_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.all_selectors().any(|selector| {
            selector.all_channels || channel_is_among(selector.channels.iter().map(Vec::as_slice), channel, is_pattern)
        })
    }
}

impl<F: FnOnce(&mut KeyUses)> Request<'_, F> {
    /// Checks the command, then keys, then channels.
    fn check(&mut self, selector: &Selector) -> Result<(), Denied> {
        self.check_command(selector)?;
        if !selector.all_keys {
            self.check_keys(selector)?;
        }
        if !selector.all_channels {
            self.check_channels(selector)?;
        }
        Ok(())
    }

    fn check_command(&self, selector: &Selector) -> Result<(), Denied> {
        let is_free = || self.catalogue.declared(self.command).is_some_and(|declared| declared.is_free);
        if selector.all_commands || selector.has(self.command) || is_free() {
            return Ok(());
        }
        match self.args.get(1) {
            Some(first) if selector.has_first_argument(self.command, first) => Ok(()),
            _ => Err(Denied::Command),
        }
    }

    fn check_keys(&mut self, selector: &Selector) -> Result<(), Denied> {
        if let Some(find) = self.find_keys.take() {
            find(&mut self.keys);
        }
        for key in &self.keys {
            let Some(name) = self.args.get(key.index) else { continue };
            if !selector.has_key(name, key.access) {
                return Err(Denied::Key(key.index));
            }
        }
        Ok(())
    }

    fn check_channels(&self, selector: &Selector) -> Result<(), Denied> {
        let channels = self.catalogue.declared(self.command).map_or(Channels::None, |declared| declared.channels);
        let behind = match channels {
            Channels::None => return Ok(()),
            Channels::First => 2.min(self.args.len()),
            Channels::All | Channels::Patterns => self.args.len(),
        };
        for index in 1..behind {
            let Some(channel) = self.args.get(index) else { continue };
            let known = selector.channels.iter().map(Vec::as_slice);
            if !channel_is_among(known, channel, channels == Channels::Patterns) {
                return Err(Denied::Channel(index));
            }
        }
        Ok(())
    }
}

impl Selector {
    fn has_key(&self, key: &[u8], access: Access) -> bool {
        let matches = |pattern: &crate::selector::KeyPattern| {
            pattern.access.contains(access) && object::glob::matches(&pattern.glob, key)
        };
        self.all_keys || self.keys.iter().any(matches)
    }

    fn has_any_key(&self, access: Access) -> bool {
        self.all_keys || self.keys.iter().any(|pattern| pattern.access.contains(access) && pattern.glob == b"*")
    }
}

/// True if one of the patterns matches a channel; a channel that is a pattern itself must be one of them.
pub(crate) fn channel_is_among<'a>(
    mut known: impl Iterator<Item = &'a [u8]>,
    channel: &[u8],
    is_pattern: bool,
) -> bool {
    known.any(|pattern| if is_pattern { pattern == channel } else { object::glob::matches(pattern, channel) })
}
