//! The limits that the system sets to the memory of the process.

use std::fs;
use std::path::{Path, PathBuf};

use super::process;
use crate::memory;

/// Of a control group's limit, so much is left for what else counts: 1/16.
const GROUP_MARGIN: u64 = 16;

/// Of what is left of it, clients may take so much: 1/32.
const GROUP_TALK: u64 = 32;

/// What was found.
#[derive(Clone, Copy, Default)]
pub struct Limits {
    /// What counts the bytes of which `headroom` knows the limit.
    pub mapped: Option<fn() -> u64>,
    /// Bytes that may be resident; 0 for no limit.
    pub resident: u64,
}

/// Reads the limits, says what was found, and hands that of the address space to `headroom`. Once, before anything large is made.
pub fn apply() -> Limits {
    let all = [
        (process::limit(libc::RLIMIT_AS), "RLIMIT_AS, `ulimit -v`", memory::address_space as fn() -> u64),
        (process::limit(libc::RLIMIT_DATA), "RLIMIT_DATA, `ulimit -d`", memory::data as fn() -> u64),
    ];
    let resident = group_limit().map_or(0, |limit| limit - limit / GROUP_MARGIN);
    if resident > 0 {
        tracing::info!("The control group limits memory: {resident} bytes may be resident, less than that be data");
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

/// The tightest limit of the control groups that the process is in, of either version; what exceeds the machine's memory is none.
fn group_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let limits = groups.lines().flat_map(files).filter_map(|file| {
        let text = fs::read_to_string(file).ok()?;
        text.trim().parse::<u64>().ok()
    });
    limits.min().filter(|limit| *limit < process::memory())
}

/// The files with the limit of a line of `/proc/self/cgroup` and of the groups around it.
fn files(line: &str) -> Vec<PathBuf> {
    let mut words = line.splitn(3, ':');
    let (Some(number), Some(controllers), Some(path)) = (words.next(), words.next(), words.next()) else {
        return Vec::new();
    };
    let (root, name) = match number {
        "0" if controllers.is_empty() => ("/sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|name| name == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        _ => return Vec::new(),
    };
    // In a container the path may be the host's, of which only the root is seen.
    Path::new(path.trim_start_matches('/')).ancestors().map(|part| Path::new(root).join(part).join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_bound_by_those_around_it() {
        let names = |line| files(line).iter().map(|file| file.display().to_string()).collect::<Vec<_>>();
        let expected = ["/sys/fs/cgroup/a/b/memory.max", "/sys/fs/cgroup/a/memory.max", "/sys/fs/cgroup/memory.max"];
        assert_eq!(names("0::/a/b"), expected);
        assert_eq!(names("4:memory:/"), ["/sys/fs/cgroup/memory/memory.limit_in_bytes"]);
        assert!(names("8:pids:/a").is_empty() && names("").is_empty());
    }
}
