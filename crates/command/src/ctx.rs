//! The context of a handler.

use clocks::UnixMs;
use keyspace::{Db, Key, Kind};
use resp::{Args, Reply};

use crate::Tunables;
use crate::aside::{Aside, Prepared};
use crate::effects::{Effects, Writer};
use crate::error::Error;
use crate::notify::{Events, class};
use crate::rest::Rest;
use crate::rng::Rng;

/// How a handler ended, if not with an error.
#[derive(Debug, Default)]
pub enum Outcome {
    /// The reply has been written.
    #[default]
    Done,
    /// The reply has begun and is long: the rest of it is written in steps.
    Rest(Rest),
    /// Nothing to answer yet: wait until one of the keys changes, then run again.
    Block(Block),
    /// Nothing was changed or written yet. These keys of the database, which the arguments do not name, have to be
    /// known first; then run again. See [`crate::lacking`].
    Load(Vec<Box<[u8]>>),
    /// Nothing was changed or written yet. A thread without latches has to do this work first; then run again. See
    /// [`crate::Aside`].
    Aside(Box<Aside>),
}

/// The wait of a blocking command.
#[derive(Debug)]
pub struct Block {
    /// Positions of the keys among the arguments.
    pub keys: Vec<usize>,
    /// The value that one of them must have for the command to run again: BLPOP sleeps on when a key becomes a string.
    pub kind: Kind,
    /// When to give up; `None`: never.
    pub deadline: Option<UnixMs>,
    /// The answer where blocking is not allowed (MULTI, scripts). Every command of Redis answers a wait that ends at
    /// its deadline with [`Nil::Array`].
    pub nil: Nil,
    /// Run again also when a key is gone or has another kind: XREADGROUP then reports it.
    pub when_gone: bool,
    /// The time to run again even without a change: XREADGROUP CLAIM then finds entries that are
    /// old enough.
    pub again: Option<UnixMs>,
    /// Arguments to run again with instead, by position: the meaning of `$` of XREAD.
    pub replaced: Vec<(usize, Vec<u8>)>,
}

impl Block {
    /// A wait for keys of a kind, as most are.
    pub fn new(keys: Vec<usize>, kind: Kind, deadline: Option<UnixMs>, nil: Nil) -> Self {
        Block { keys, kind, deadline, nil, when_gone: false, again: None, replaced: Vec::new() }
    }
}

/// The nil that a blocking command answers when its keys are empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nil {
    /// `*-1` in RESP2 (BLPOP).
    Array,
    /// `$-1` in RESP2 (BLMOVE).
    Bulk,
}

impl Nil {
    /// Writes it.
    pub fn write(self, out: &mut Reply<'_>) {
        match self {
            Nil::Array => out.null_array(),
            Nil::Bulk => out.null(),
        }
    }
}

/// Everything a keyed handler works with. The parts are separate fields so that they can be borrowed side by side.
pub struct Ctx<'a> {
    /// The command's arguments; 0 is its name.
    pub args: Args<'a>,
    /// The selected database, every declared key latched, resident and not expired.
    pub db: Db<'a>,
    /// The reply.
    pub out: Reply<'a>,
    /// The changes. Handlers use [`Ctx::effect`] where they can.
    pub fx: &'a mut Effects,
    /// Keyspace notifications.
    pub events: &'a mut Events,
    /// The time: one `now` per command, block or script (rule K6).
    pub now: UnixMs,
    /// Chance.
    pub rng: &'a mut Rng,
    /// Settings handlers depend on.
    pub tunables: &'a Tunables,
    /// The end of SCAN: the first slot whose keys another node has.
    pub scan_end: u16,
    /// The data follow another node's: even what is due anyway is left to that node.
    pub only_reads: bool,
    /// A script has called it.
    pub in_script: bool,
    /// The key at argument 1, hashed when the command was parsed.
    pub first: Option<Key<'a>>,
    /// Its connection can wait for work aside.
    pub patient: bool,
    /// The result of work aside.
    pub prepared: Option<Box<Prepared>>,
}

impl<'a> Ctx<'a> {
    /// Argument `i`.
    ///
    /// # Panics
    /// If there are fewer: the row's arity says how many there are at least.
    #[inline]
    pub fn arg(&self, i: usize) -> &'a [u8] {
        self.args.get(i).expect("within the arity of the row")
    }

    /// Argument `i` as a key.
    #[inline]
    pub fn key(&self, i: usize) -> Key<'a> {
        match self.first {
            Some(key) if i == 1 => key,
            _ => self.db.key(self.arg(i)),
        }
    }

    /// Argument `i` as an integer, or Redis's error.
    ///
    /// # Errors
    ///
    /// It is no integer.
    pub fn int(&self, i: usize) -> Result<i64, Error> {
        keyspace::canonical_int(self.arg(i)).ok_or(Error::NOT_INTEGER)
    }

    /// True if argument `i` is this word, in any case.
    pub fn is(&self, i: usize, word: &str) -> bool {
        self.args.get(i).is_some_and(|a| a.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// Notes a change of `key` in the selected database: see [`Effects::push`].
    #[inline]
    pub fn effect(&mut self, op: u8, key: &Key<'_>, write: impl FnOnce(&mut Writer<'_>)) {
        self.db.note_change(key);
        self.fx.push(op, self.db.logical(), key, write);
    }

    /// As [`Self::effect`], where commands that wait for the key find nothing new: see [`Effects::push_quietly`].
    #[inline]
    pub fn quiet_effect(&mut self, op: u8, key: &Key<'_>, write: impl FnOnce(&mut Writer<'_>)) {
        self.db.note_change(key);
        self.fx.push_quietly(op, self.db.logical(), key, write);
    }

    /// A keyspace notification for `key` in the selected database.
    #[inline]
    pub fn notify(&mut self, class: u32, event: &'static str, key: &Key<'_>) {
        self.tell_sightings();
        self.events.push(class, event, self.db.logical(), key.bytes);
    }

    /// A keyspace notification for fields of the hash at `key` in the selected database.
    pub fn notify_fields<'f>(&mut self, event: &'static str, key: &Key<'_>, fields: impl Iterator<Item = &'f [u8]>) {
        self.tell_sightings();
        self.events.push_of(class::HASH, event, (self.db.logical(), key.bytes), fields);
    }

    #[inline]
    fn tell_sightings(&mut self) {
        if self.events.wants_sightings() {
            let seen = self.db.local().take_sightings();
            self.events.tell(seen);
        }
    }

    /// The type of the value at `key`, if clients want to hear that it is replaced: for [`Self::tell_replaced`].
    #[inline]
    pub fn kind_before(&self, key: &Key<'_>) -> Option<&'static str> {
        if self.events.wanted & (class::OVERWRITTEN | class::TYPE_CHANGED) == 0 { None } else { self.kind_of(key) }
    }

    /// A path of its own, away from commands without listeners.
    #[cold]
    fn kind_of(&self, key: &Key<'_>) -> Option<&'static str> {
        self.db.peek(key).map(|entry| entry.kind().type_name())
    }

    /// Notes that the value at `key` has replaced one of the type `before`, if there was one.
    #[inline]
    pub fn tell_replaced(&mut self, key: &Key<'_>, before: Option<&'static str>) {
        if let Some(before) = before {
            self.tell_of_replacement(key, before);
        }
    }

    #[cold]
    fn tell_of_replacement(&mut self, key: &Key<'_>, before: &'static str) {
        self.notify(class::OVERWRITTEN, "overwritten", key);
        if self.kind_of(key).is_some_and(|kind| kind != before) {
            self.notify(class::TYPE_CHANGED, "type_changed", key);
        }
    }
}
