//! DUMP and RESTORE payloads: one value in Redis's RDB format, its version and a checksum.
//!
//! ```text
//! type (1), value, RDB version (2, little-endian), CRC-64 of all before (8, little-endian)
//! ```
//!
//! Written is what Redis 8 writes, so that it restores it; read is whatever any Redis since 2.6 has written. Payloads come from
//! anybody: reading always checks what Redis checks under `sanitize-dump-payload yes`, allocates no more than a small multiple of
//! the bytes it has seen (LZF may expand 88 times), and accepts no duplicates.

mod footer;
mod input;
mod listpack;
mod lzf;
mod output;
mod ziplist;

pub use footer::VERSION;
