//! Settings that handlers depend on.

use object::Limits;

use crate::Dialect;

/// A snapshot of the settings that handlers depend on; replaced as a whole by CONFIG SET.
#[derive(Clone, Debug, Default)]
pub struct Tunables {
    /// When small collections become large ones.
    pub limits: Limits,
    /// Longest string in bytes (`proto-max-bulk-len`).
    pub max_string: u64,
    /// Number of logical databases.
    pub databases: u16,
    /// `lazyfree-lazy-user-del` and its like do not change what commands answer, and freeing is in bounded steps
    /// always.
    pub lazy_user_del: bool,
    /// True if Redis would share small integers between keys under these settings: `OBJECT REFCOUNT` shows it. It does
    /// not share them where eviction depends on the use of a key, which is kept in the shared object.
    pub shares_integers: bool,
    /// The server that decides where Redis and Valkey differ (`compatibility`).
    pub dialect: Dialect,
}
