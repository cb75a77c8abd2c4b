//! The operating system's figures of a process: CPU time, memory, open files.

use std::fs;
use std::time::Duration;

/// User and system time of a process so far, all its threads together, in steps of the kernel's tick (10 ms).
///
/// # Errors
/// There is no such process, or its `/proc` entry cannot be read.
pub fn cpu_time(pid: u32) -> Result<Duration, String> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).map_err(|error| unreadable(pid, &error))?;
    ticks(&text)
        .map(|ticks| Duration::from_secs_f64(ticks as f64 / ticks_per_second()))
        .ok_or_else(|| format!("--server-pid {pid}: {path} has an unknown form"))
}

/// Resident memory of a process, in bytes.
///
/// # Errors
/// As [`cpu_time`].
pub fn resident_bytes(pid: u32) -> Result<u64, String> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).map_err(|error| unreadable(pid, &error))?;
    let kibibytes =
        text.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB")?.trim().parse().ok());
    kibibytes.map(|kibibytes: u64| kibibytes << 10).ok_or_else(|| format!("--server-pid {pid}: no VmRSS in {path}"))
}

fn unreadable(pid: u32, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => format!("--server-pid {pid}: there is no such process"),
        _ => format!("--server-pid {pid}: cannot read /proc/{pid}: {error}"),
    }
}

/// Fields 14 and 15 of proc_pid_stat(5). The second field is a name in parentheses that may contain anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn ticks_per_second() -> f64 {
    // SAFETY: sysconf takes no pointers.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    if ticks > 0 { ticks as f64 } else { 100.0 }
}

/// Raises the limit of open files as far as `files` needs.
///
/// # Errors
/// The hard limit is lower.
pub fn allow_open_files(files: u64) -> Result<(), String> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid rlimit for the call to fill.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 || limit.rlim_cur >= files {
        return Ok(());
    }
    if limit.rlim_max < files {
        return Err(format!(
            "{files} open files are needed and the hard limit is {}: see `ulimit -Hn`",
            limit.rlim_max
        ));
    }
    limit.rlim_cur = files;
    // SAFETY: `limit` is a valid rlimit.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } != 0 {
        let error = std::io::Error::last_os_error();
        return Err(format!("cannot raise the limit of open files to {files}: {error}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_fields_after_a_name_with_blanks_and_parentheses() {
        let stat = "42 (a ) b) S 1 42 42 0 -1 4194304 100 0 0 0 700 35 0 0 20 0 1 0 5 1 1";
        assert_eq!(ticks(stat), Some(735));
        assert_eq!(ticks("42 (a) S 1"), None);
    }

    #[test]
    fn reads_this_process() {
        cpu_time(std::process::id()).unwrap();
        assert!(resident_bytes(std::process::id()).unwrap() > 0);
        assert!(cpu_time(u32::MAX).unwrap_err().contains("--server-pid"));
    }
}
