//! Bounds and reasons that rows of several sections share.

use super::super::kind::Kind;

pub(super) const INT_MAX: i128 = i32::MAX as i128;
pub(super) const LONG_MAX: i128 = i64::MAX as i128;
pub(super) const ULONG_MAX: i128 = u64::MAX as i128;

/// An integer of at least `min` that C would hold in an `int`.
pub(super) const fn int(min: i128) -> Kind {
    Kind::Integer { min, max: INT_MAX }
}

/// An integer of at least `min` that C would hold in a `long`.
pub(super) const fn long(min: i128) -> Kind {
    Kind::Integer { min, max: LONG_MAX }
}

pub(super) const fn between(min: i128, max: i128) -> Kind {
    Kind::Integer { min, max }
}

pub(super) const fn memory(min: i128) -> Kind {
    Kind::Memory { min, max: LONG_MAX }
}

pub(super) const PORT: Kind = Kind::Integer { min: 0, max: 65535 };

pub(super) const NO_LOG: &str = "the log is not an AOF file";
pub(super) const NO_REPLICATION: &str = "replication is not built yet";
pub(super) const NO_CLUSTER: &str = "nodes find and watch each other in another way than in Redis";
