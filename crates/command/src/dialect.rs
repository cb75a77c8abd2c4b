//! The places where Redis 8.8 and Valkey 9 answer differently: one list, which the setting `compatibility` switches as
//! a whole.
//!
//! A further difference is a variant of [`Difference`] with its texts, and a call of [`Dialect::is_valkey`] where the
//! answer is made.

/// The server that decides where the two differ (`compatibility`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Redis 8.8.
    #[default]
    Redis,
    /// Valkey 9.
    Valkey,
}

/// A place where the two differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// MULTI or WATCH between MULTI and EXEC.
    NestedMulti,
    /// The error of a command that may not stand in a block.
    NotInBlock,
    /// SCAN with TYPE and a type that does not exist.
    UnknownType,
    /// The name of the server.
    ServerName,
    /// BITCOUNT with a start and no end.
    CountFrom,
    /// NX and XX of HSETEX.
    KeyCondition,
    /// The events of fields whose new time to live is already over.
    PastFieldTime,
}

impl Difference {
    /// All of them, in the order of the docs.
    pub const ALL: [Difference; 7] = [
        Difference::NestedMulti,
        Difference::NotInBlock,
        Difference::UnknownType,
        Difference::ServerName,
        Difference::CountFrom,
        Difference::KeyCondition,
        Difference::PastFieldTime,
    ];

    /// The difference, and the answers of Redis and of Valkey.
    pub const fn texts(self) -> [&'static str; 3] {
        match self {
            Difference::NestedMulti => [
                "`MULTI` or `WATCH` between `MULTI` and `EXEC`",
                "an error; the block goes on",
                "an error; `EXEC` refuses the block",
            ],
            Difference::NotInBlock => [
                "a command that may not stand between `MULTI` and `EXEC`",
                "`Command not allowed inside a transaction`",
                "`Command 'NAME' not allowed inside a transaction`",
            ],
            Difference::UnknownType => ["`SCAN 0 TYPE NAME` with a type that does not exist", "no keys", "an error"],
            Difference::ServerName => [
                "`HELLO` and `INFO server`",
                "`server` is `redis`",
                "`server` is `valkey`; `version` and `valkey_version` are Valkey's",
            ],
            Difference::CountFrom => ["`BITCOUNT key start`", "a syntax error", "the bits from there to the end"],
            Difference::KeyCondition => [
                "`HSETEX` with `NX` or `XX`",
                "an error: unknown argument",
                "fields are set only if there is no such hash, or if there is one",
            ],
            Difference::PastFieldTime => [
                "the events of `HEXPIRE` and its like, `HGETEX` and `HSETEX` with a time that is over",
                "`hdel`",
                "`hexpired`; of `HSETEX`, `hexpire` before it; `expired_fields` counts them",
            ],
        }
    }
}

impl Dialect {
    /// True if Valkey's answer is wanted where the two differ.
    #[inline]
    pub fn is_valkey(self, _where: Difference) -> bool {
        self == Dialect::Valkey
    }

    /// The reason why a command must not stand in a block of MULTI, if there is one. `flags`: see [`crate::flags`]. The
    /// block is broken then.
    pub fn refusal_in_block(self, name: &str, flags: u32) -> Option<String> {
        let nests = matches!(name, "multi" | "watch") && self.is_valkey(Difference::NestedMulti);
        let barred = flags & crate::flags::NO_MULTI != 0 && flags & crate::flags::IN_MULTI == 0;
        if !nests && !barred {
            return None;
        }
        Some(match self.is_valkey(Difference::NotInBlock) {
            true => format!("ERR Command '{name}' not allowed inside a transaction"),
            false => "ERR Command not allowed inside a transaction".into(),
        })
    }
}
