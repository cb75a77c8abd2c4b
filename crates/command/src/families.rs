//! All families. A new family is one line here.

use keyspace::{Db, Key};
use object::{Corrupt, Limits};
use resp::Args;

use crate::ctx::{Ctx, Outcome};
use crate::effects::{Reader, op};
use crate::error::Error;
use crate::spec::Row;
use crate::walk::Walk;
use crate::{debug, dump, generic, geo, hash, list, set, stream, string, zset};

/// The handler of a command of the data plane.
#[derive(Clone, Copy)]
pub enum Run {
    /// Runs under the latches of its keys (none, if it has none).
    Keyed(fn(&mut Ctx<'_>) -> Result<Outcome, Error>),
    /// As `Keyed`, but it may work on further keys, as the second function finds by the arguments (SORT with patterns).
    KeyedOrWhole(fn(&mut Ctx<'_>) -> Result<Outcome, Error>, fn(Args<'_>) -> Reach),
    /// Runs with the whole keyspace held.
    Whole(fn(&mut Ctx<'_>) -> Result<Outcome, Error>),
    /// Looks at keys one by one.
    Walk(fn(&mut Ctx<'_>) -> Result<Box<dyn Walk>, Error>),
    /// Has subcommands only.
    Container,
}

/// The keys that a command works on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Those that are its arguments.
    Keys,
    /// Others in the slots of these, too.
    Slots,
    /// Any.
    Everything,
}

impl Run {
    /// The keys that a command with these arguments works on.
    pub fn reach(&self, args: Args<'_>) -> Reach {
        match self {
            Run::Keyed(_) | Run::Container => Reach::Keys,
            Run::KeyedOrWhole(_, reach) => reach(args),
            Run::Whole(_) | Run::Walk(_) => Reach::Everything,
        }
    }
}

/// The rows of every family of the data plane.
pub const FAMILIES: &[&[Row<Run>]] = &[
    string::READ_ROWS,
    string::WRITE_ROWS,
    string::EDIT_ROWS,
    string::COUNTER_ROWS,
    string::INCREX_ROWS,
    string::COMPARE_ROWS,
    string::LCS_ROWS,
    string::BITMAP_ROWS,
    string::BITFIELD_ROWS,
    string::HLL_ROWS,
    list::ROWS,
    hash::ROWS,
    set::ROWS,
    zset::ROWS,
    zset::ROWS_OF_SEVERAL,
    geo::ROWS,
    stream::ROWS,
    stream::ROWS_OF_GROUPS,
    debug::ROWS,
    dump::ROWS,
    generic::KEY_ROWS,
    generic::TRANSFER_ROWS,
    generic::EXPIRE_ROWS,
    generic::SCAN_ROWS,
    generic::SLOT_ROWS,
    generic::MEMORY_ROWS,
    generic::OBJECT_ROWS,
    generic::DATABASE_ROWS,
    generic::SORT_ROWS,
];

const _: () = assert!(names_are_unique(FAMILIES), "two rows have the same name");

/// Applies an effect to its entry: each family replays its own.
pub(crate) fn replay(
    number: u8,
    key: &Key<'_>,
    payload: &mut Reader<'_>,
    db: &mut Db<'_>,
    limits: &Limits,
) -> Result<(), Corrupt> {
    match number & 0xf0 {
        0 => generic::replay(number, key, payload, db, limits),
        op::STRINGS => string::replay(number, key, payload, db, limits),
        op::LISTS => list::replay(number, key, payload, db, limits),
        op::HASHES => hash::replay(number, key, payload, db, limits),
        op::SETS => set::replay(number, key, payload, db, limits),
        op::ZSETS => zset::replay(number, key, payload, db, limits),
        op::STREAMS => stream::replay(number, key, payload, db, limits),
        _ => Err(Corrupt("unknown effect")),
    }
}

/// True if no two rows have one name. Evaluated when compiling.
pub const fn names_are_unique<F>(families: &[&[Row<F>]]) -> bool {
    let mut f = 0;
    while f < families.len() {
        let mut i = 0;
        while i < families[f].len() {
            let name = families[f][i].spec.name.as_bytes();
            let (mut g, mut j) = (f, i + 1);
            while g < families.len() {
                while j < families[g].len() {
                    if same(name, families[g][j].spec.name.as_bytes()) {
                        return false;
                    }
                    j += 1;
                }
                g += 1;
                j = 0;
            }
            i += 1;
        }
        f += 1;
    }
    true
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}
