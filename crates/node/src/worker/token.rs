//! The names of connections.

/// Index and generation of a connection, as the driver and the other workers know it.
pub type Token = u64;
