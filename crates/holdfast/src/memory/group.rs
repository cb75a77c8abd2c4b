//! The memory that control groups of the system allow the process. It is read before `main` and before large
//! allocations, so it needs neither.

use std::fs;
use std::path::{Path, PathBuf};

use crate::server::process::memory;

/// The tightest limit in bytes of the control groups that the process is in, of either version. A limit above the
/// machine's memory does not count.
pub fn limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let limits = groups.lines().flat_map(files).filter_map(|file| {
        let text = fs::read_to_string(file).ok()?;
        text.trim().parse::<u64>().ok()
    });
    limits.min().filter(|limit| *limit < memory())
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
