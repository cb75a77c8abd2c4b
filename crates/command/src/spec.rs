//! The declaration of a command: one [`Row`] each, and everything else (COMMAND, arity, routing, ACL, MULTI, docs)
//! follows.

use resp::Args;

/// A command: its declaration, and the function that runs it.
pub struct Row<F: 'static> {
    /// Its declaration.
    pub spec: Spec,
    /// Its handler. A container (CONFIG, OBJECT) has subcommands, and its handler runs only when none of them matches.
    pub run: F,
    /// Subcommands; their `spec.name` is the subcommand's alone ("get" of CONFIG).
    pub subcommands: &'static [Row<F>],
}

/// The declared part of a row. Fields are Redis's, as COMMAND INFO and COMMAND DOCS show them.
pub struct Spec {
    /// Lower-case name.
    pub name: &'static str,
    /// Number of arguments with the name; negative: at least that many.
    pub arity: i32,
    /// Properties, see [`flags`].
    pub flags: u32,
    /// Where the keys are.
    pub keys: &'static [KeySpec],
    /// Finds keys that no key specification describes (SORT's STORE): argument positions.
    pub find_keys: Option<fn(Args<'_>, &mut Vec<KeyAt>)>,
    /// Finds all keys where the specifications only nearly do (XREAD): they are for COMMAND then.
    pub find_all_keys: Option<fn(Args<'_>, &mut Vec<KeyAt>)>,
    /// How the keys of specifications with `VARIABLE_FLAGS` are used by these arguments (SET with or without GET).
    pub vary_flags: Option<fn(Args<'_>) -> u16>,
    /// Group of the documentation ("string", "generic", ...).
    pub group: &'static str,
    /// ACL categories beyond those that group and flags imply.
    pub categories: &'static [&'static str],
    /// Redis version that introduced it.
    pub since: &'static str,
    /// Time complexity.
    pub complexity: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Redis's command tips.
    pub tips: &'static [&'static str],
    /// Arguments after the name in the notation of Redis's documentation, e.g. `key value [NX | XX] [GET]`.
    pub syntax: &'static str,
}

impl Spec {
    /// A spec for the unnamed fields: `Spec { name: "get", arity: 2, ..Spec::NEW }`.
    pub const NEW: Spec = Spec {
        name: "",
        arity: 1,
        flags: 0,
        keys: &[],
        find_keys: None,
        find_all_keys: None,
        vary_flags: None,
        group: "generic",
        categories: &[],
        since: "1.0.0",
        complexity: "O(1)",
        summary: "",
        tips: &[],
        syntax: "",
    };

    /// True if the command takes `argc` arguments, the name included.
    #[inline]
    pub fn accepts(&self, argc: usize) -> bool {
        if self.arity >= 0 { argc == self.arity as usize } else { argc >= self.arity.unsigned_abs() as usize }
    }

    /// True if the command changes nothing but what is due anyway: an expired field that it meets.
    #[inline]
    pub fn only_reads(&self) -> bool {
        self.has(flags::READONLY) && !self.has(flags::MAY_REPLICATE)
    }

    /// True if all of `flags` are set.
    #[inline]
    pub fn has(&self, flags: u32) -> bool {
        self.flags & flags == flags
    }
}

/// Properties of commands, by Redis's names.
#[expect(missing_docs, reason = "the names are Redis's, see its COMMAND documentation")]
pub mod flags {
    pub const WRITE: u32 = 1 << 0;
    pub const READONLY: u32 = 1 << 1;
    pub const DENYOOM: u32 = 1 << 2;
    pub const ADMIN: u32 = 1 << 3;
    pub const PUBSUB: u32 = 1 << 4;
    pub const NOSCRIPT: u32 = 1 << 5;
    pub const BLOCKING: u32 = 1 << 6;
    pub const LOADING: u32 = 1 << 7;
    pub const STALE: u32 = 1 << 8;
    pub const SKIP_MONITOR: u32 = 1 << 9;
    pub const SKIP_SLOWLOG: u32 = 1 << 10;
    pub const ASKING: u32 = 1 << 11;
    pub const FAST: u32 = 1 << 12;
    pub const NO_AUTH: u32 = 1 << 13;
    pub const MAY_REPLICATE: u32 = 1 << 14;
    pub const NO_MANDATORY_KEYS: u32 = 1 << 15;
    pub const NO_MULTI: u32 = 1 << 16;
    pub const MOVABLE_KEYS: u32 = 1 << 17;
    pub const ALLOW_BUSY: u32 = 1 << 18;
    pub const NO_ASYNC_LOADING: u32 = 1 << 19;
    /// Not Redis's: never in MULTI's queue but executed at once (EXEC, DISCARD, WATCH ...).
    pub const IN_MULTI: u32 = 1 << 20;
    /// Not Redis's: needs `enable-debug-command`.
    pub const PROTECTED: u32 = 1 << 21;
    /// Not Redis's: a reader of hashes that deletes the expired fields it meets, so that it may write.
    pub const EXPIRES_FIELDS: u32 = 1 << 22;
    /// Not Redis's: may change its keys in another database than the selected one.
    pub const OTHER_DB: u32 = 1 << 23;
    /// Not Redis's: runs a script (EVAL, FCALL), whose commands are checked one by one.
    pub const RUNS_SCRIPT: u32 = 1 << 24;
    /// Not Redis's: reads every key there is, and wants them all in memory.
    pub const EVERYTHING: u32 = 1 << 25;
    /// Not Redis's: a server outside of a cluster refuses it.
    pub const NEEDS_CLUSTER: u32 = 1 << 26;

    /// Not Redis's: makes a result as large as its keys' values, or several times that.
    pub const COPIES: u32 = 1 << 27;

    /// Two own flags with the same bit would make one command behave like the other.
    const _: () = assert!(
        IN_MULTI ^ PROTECTED ^ EXPIRES_FIELDS ^ OTHER_DB ^ RUNS_SCRIPT ^ EVERYTHING ^ NEEDS_CLUSTER ^ COPIES
            == IN_MULTI + PROTECTED + EXPIRES_FIELDS + OTHER_DB + RUNS_SCRIPT + EVERYTHING + NEEDS_CLUSTER + COPIES
    );

    /// Flag names as COMMAND INFO prints them, by bit.
    pub const NAMES: [&str; 20] = [
        "write",
        "readonly",
        "denyoom",
        "admin",
        "pubsub",
        "noscript",
        "blocking",
        "loading",
        "stale",
        "skip_monitor",
        "skip_slowlog",
        "asking",
        "fast",
        "no_auth",
        "may_replicate",
        "no_mandatory_keys",
        "no_multi",
        "movablekeys",
        "allow_busy",
        "no_async_loading",
    ];
}

/// How a command uses keys, by Redis's key specification flags.
#[expect(missing_docs, reason = "the names are Redis's")]
pub mod key_flags {
    pub const RO: u16 = 1 << 0;
    pub const RW: u16 = 1 << 1;
    pub const OW: u16 = 1 << 2;
    pub const RM: u16 = 1 << 3;
    pub const ACCESS: u16 = 1 << 4;
    pub const UPDATE: u16 = 1 << 5;
    pub const INSERT: u16 = 1 << 6;
    pub const DELETE: u16 = 1 << 7;
    pub const NOT_KEY: u16 = 1 << 8;
    pub const INCOMPLETE: u16 = 1 << 9;
    pub const VARIABLE_FLAGS: u16 = 1 << 10;

    /// Flag names as COMMAND INFO prints them, by bit.
    pub const NAMES: [&str; 11] =
        ["RO", "RW", "OW", "RM", "access", "update", "insert", "delete", "not_key", "incomplete", "variable_flags"];
}

/// One key specification (Redis "key specs"): where to begin and how to find the keys from there.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// Position of the first argument considered.
    pub begin: Begin,
    /// Which arguments from there are keys.
    pub find: Find,
    /// See [`key_flags`].
    pub flags: u16,
}

/// Where a key specification begins.
#[derive(Clone, Copy, Debug)]
pub enum Begin {
    /// At this argument (0 is the name).
    Index(usize),
    /// After this word, searched from argument `from` (negative: backwards from the end).
    Keyword(&'static str, isize),
}

/// Which arguments are keys.
#[derive(Clone, Copy, Debug)]
pub enum Find {
    /// Up to `last` relative to the beginning (negative: from the end of all arguments, -1 is the last), every
    /// `step`th; `limit` n > 1: only the first 1/n of them.
    Range {
        /// See above.
        last: isize,
        /// See above.
        step: usize,
        /// See above.
        limit: usize,
    },
    /// Their number stands `at` after the beginning, the first key `first` after it.
    Count {
        /// See above.
        at: usize,
        /// See above.
        first: usize,
        /// Distance between keys.
        step: usize,
    },
}

impl KeySpec {
    /// One key at `index`.
    pub const fn one(index: usize, flags: u16) -> KeySpec {
        KeySpec { begin: Begin::Index(index), find: Find::Range { last: 0, step: 1, limit: 0 }, flags }
    }

    /// Keys from `first` to `last` (negative: from the end of the arguments), every `step`th.
    pub const fn range(first: usize, last: isize, step: usize, flags: u16) -> KeySpec {
        KeySpec { begin: Begin::Index(first), find: Find::Range { last, step, limit: 0 }, flags }
    }

    /// A count at `index` with that many keys after it.
    pub const fn counted(index: usize, flags: u16) -> KeySpec {
        KeySpec { begin: Begin::Index(index), find: Find::Count { at: 0, first: 1, step: 1 }, flags }
    }
}

/// A key argument that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyAt {
    /// Its position among the arguments.
    pub index: usize,
    /// See [`key_flags`].
    pub flags: u16,
}

impl Spec {
    /// True if the only key is argument 1: the usual case.
    #[inline]
    pub fn has_one_key(&self) -> bool {
        matches!(
            self.keys,
            [KeySpec { begin: Begin::Index(1), find: Find::Range { last: 0, .. }, .. }] if self.find_keys.is_none()
        )
    }

    /// Appends the positions of the keys in `args`. False: the arguments contradict themselves (a key count that is no
    /// number or exceeds them); the handler answers the error.
    pub fn keys_of(&self, args: Args<'_>, out: &mut Vec<KeyAt>) -> bool {
        if let Some(find) = self.find_all_keys {
            find(args, out);
            return true;
        }
        let start = out.len();
        let mut sound = true;
        for spec in self.keys {
            sound &= spec.find_in(args, out);
        }
        if let Some(vary) = self.vary_flags {
            let variable = out[start..].iter_mut().filter(|at| at.flags & key_flags::VARIABLE_FLAGS != 0);
            variable.for_each(|at| at.flags = vary(args));
        }
        if let Some(find) = self.find_keys {
            find(args, out);
        }
        sound
    }
}

impl KeySpec {
    fn find_in(&self, args: Args<'_>, out: &mut Vec<KeyAt>) -> bool {
        if self.flags & key_flags::NOT_KEY != 0 {
            return true;
        }
        let begin = match self.begin {
            Begin::Index(i) => i,
            Begin::Keyword(word, from) => {
                let is_word = |i: &usize| args.get(*i).is_some_and(|a| a.eq_ignore_ascii_case(word.as_bytes()));
                let found = if from >= 0 {
                    (from as usize..args.len()).find(is_word)
                } else {
                    (1..=args.len().saturating_sub(from.unsigned_abs())).rev().find(is_word)
                };
                match found {
                    Some(i) => i + 1,
                    None => return true,
                }
            }
        };
        if begin >= args.len() {
            return true;
        }
        match self.find {
            Find::Range { last, step, limit } => {
                let last = if last >= 0 {
                    begin + last as usize
                } else if limit > 1 {
                    begin + (args.len() - begin) / limit - 1
                } else {
                    match args.len().checked_add_signed(last) {
                        Some(last) => last,
                        None => return true,
                    }
                };
                let indices = (begin..=last.min(args.len() - 1)).step_by(step.max(1));
                out.extend(indices.map(|index| KeyAt { index, flags: self.flags }));
                true
            }
            Find::Count { at, first, step } => {
                let count = args.get(begin + at).and_then(keyspace::canonical_int);
                let Some(count) = count.and_then(|n| usize::try_from(n).ok()) else { return false };
                let first = begin + first;
                if count > args.len().saturating_sub(first).div_ceil(step) {
                    return false;
                }
                out.extend((0..count).map(|i| KeyAt { index: first + i * step, flags: self.flags }));
                true
            }
        }
    }
}
