//! The limits that the system sets to the memory of the process.

use super::process;
use crate::memory;

/// The part of a control group's limit that is left for other memory, and for loads and checkpoints: 1/16.
const GROUP_MARGIN: u64 = 16;

/// The least bytes left, but at most [`GROUP_MARGIN_PART`] of the limit: 48 MB.
const GROUP_MARGIN_MIN: u64 = 48 << 20;

/// See [`GROUP_MARGIN_MIN`]: 1/8.
const GROUP_MARGIN_PART: u64 = 8;

/// The part of the rest that clients may take: 1/32.
const GROUP_TALK: u64 = 32;

/// The limits that were found.
#[derive(Clone, Copy, Default)]
pub struct Limits {
    /// Counts the bytes of which `headroom` knows the limit.
    pub mapped: Option<fn() -> u64>,
    /// Bytes that may be resident; 0 for no limit.
    pub resident: u64,
}

/// Reads and logs the limits, and hands that of the address space to `headroom`. Call it once, before large
/// allocations.
pub fn apply() -> Limits {
    let all = [
        (process::limit(libc::RLIMIT_AS), "RLIMIT_AS, `ulimit -v`", memory::address_space as fn() -> u64),
        (process::limit(libc::RLIMIT_DATA), "RLIMIT_DATA, `ulimit -d`", memory::data as fn() -> u64),
    ];
    let resident = memory::group_limit().map_or(0, within);
    if resident > 0 {
        tracing::info!("The control group limits memory: {resident} bytes may be resident, fewer of them data");
    }
    let tightest =
        all.into_iter().filter_map(|(limit, name, count)| Some((limit?, name, count))).min_by_key(|found| found.0);
    let Some((limit, name, count)) = tightest else {
        if resident > 0 {
            headroom::limit_resident(resident, resident / GROUP_TALK);
        }
        return Limits { mapped: None, resident };
    };
    process::share_arenas();
    let mapped = count();
    headroom::limit_to(limit);
    if resident > 0 {
        headroom::limit_resident(resident, resident / GROUP_TALK);
    }
    let margin = headroom::margin(limit);
    tracing::info!(
        "The system limits the address space to {limit} bytes ({name}): {mapped} are mapped, {margin} are kept free, and no argument may be larger than {}",
        headroom::largest()
    );
    if mapped + margin > limit {
        tracing::warn!("That is not enough: writes will be refused. Raise the limit");
    }
    Limits { mapped: Some(count), resident }
}

/// Bytes of a control group's limit that may be resident.
fn within(limit: u64) -> u64 {
    limit - GROUP_MARGIN_MIN.clamp(limit / GROUP_MARGIN, limit / GROUP_MARGIN_PART)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_groups_limit_is_kept_free() {
        const MB: u64 = 1 << 20;
        assert_eq!([80 * MB, 400 * MB, 1600 * MB].map(within), [70 * MB, 352 * MB, 1500 * MB]);
    }
}
