//! The thresholds at which collections change their form, under Redis's names.

/// Redis's collection thresholds (`CONFIG GET *-max-*`), handed to every mutator that may change a value's form.
///
/// Field names are Redis's setting names with underscores; [`Default`] gives Redis's defaults. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `list-max-listpack-size`: positive is a number of elements, -1 to -5 mean 4, 8, 16, 32, 64 KB.
    pub list_max_listpack_size: i32,
    /// `list-compress-depth`: accepted for compatibility; lists are not compressed.
    pub list_compress_depth: i32,
    /// `hash-max-listpack-entries`: most fields of a compact hash.
    pub hash_max_listpack_entries: usize,
    /// `hash-max-listpack-value`: longest field or value of a compact hash, in bytes.
    pub hash_max_listpack_value: usize,
    /// `set-max-intset-entries`: most members of a set of integers.
    pub set_max_intset_entries: usize,
    /// `set-max-listpack-entries`: most members of a compact set.
    pub set_max_listpack_entries: usize,
    /// `set-max-listpack-value`: longest member of a compact set, in bytes.
    pub set_max_listpack_value: usize,
    /// `zset-max-listpack-entries`: most members of a compact sorted set.
    pub zset_max_listpack_entries: usize,
    /// `zset-max-listpack-value`: longest member of a compact sorted set, in bytes.
    pub zset_max_listpack_value: usize,
    /// `stream-node-max-bytes`: largest node of a stream; 0 is no limit.
    pub stream_node_max_bytes: usize,
    /// `stream-node-max-entries`: most entries of a stream's node; 0 is no limit.
    pub stream_node_max_entries: u64,
    /// `hll-sparse-max-bytes`: largest sparse HyperLogLog.
    pub hll_sparse_max_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            list_max_listpack_size: -2,
            list_compress_depth: 0,
            hash_max_listpack_entries: 512,
            hash_max_listpack_value: 64,
            set_max_intset_entries: 512,
            set_max_listpack_entries: 128,
            set_max_listpack_value: 64,
            zset_max_listpack_entries: 128,
            zset_max_listpack_value: 64,
            stream_node_max_bytes: 4096,
            stream_node_max_entries: 100,
            hll_sparse_max_bytes: 3000,
        }
    }
}

impl Limits {
    /// True if Redis would compress lists: only DEBUG OBJECT shows it, for tests.
    pub fn asks_for_compressed_lists(&self) -> bool {
        self.list_compress_depth != 0
    }

    /// True if a list of `count` elements in `bytes` bytes is too large for one listpack.
    ///
    /// `divisor` tightens the limit: Redis turns a shrinking quicklist back only below half of it (`divisor` 2).
    pub fn list_exceeds(&self, bytes: usize, count: u64, divisor: usize) -> bool {
        const SAFETY_BYTES: usize = 8192;
        match self.list_max_listpack_size {
            fill if fill >= 0 => bytes > SAFETY_BYTES || count > (fill.max(1) as u64) / divisor as u64,
            fill => {
                let level = (fill.unsigned_abs() - 1).min(4);
                bytes > (4096usize << level) / divisor
            }
        }
    }
}
