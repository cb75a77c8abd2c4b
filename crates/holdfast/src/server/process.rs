//! The server's requests to the system about its process: its directory, its limit of open files, its pid file, its
//! signals.

use std::ffi::OsStr;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use std::{fs, io};

use net::descriptors;

/// Makes a directory the working one. Returns its absolute path.
///
/// # Errors
/// The error of the system.
pub fn enter_dir(path: &[u8]) -> io::Result<Vec<u8>> {
    std::env::set_current_dir(OsStr::from_bytes(path))?;
    Ok(std::env::current_dir()?.into_os_string().into_vec())
}

/// Raises the limit of open files as far as it goes for so many clients; the number of clients it then allows.
pub fn reserve_files(clients: u32) -> u32 {
    let wanted = descriptors::enough_for(u64::from(clients));
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a valid value of ours, which the call fills.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return clients;
    }
    let allowed = limit.rlim_cur;
    if descriptors::of_clients(allowed) < u64::from(clients) {
        // Root may raise the hard limit, others only reach for it.
        for hard in [wanted.max(limit.rlim_max), limit.rlim_max] {
            let new = libc::rlimit { rlim_cur: wanted.min(hard), rlim_max: hard };
            // SAFETY: the pointer is to a valid value of ours, which is only read.
            if new.rlim_cur > allowed && unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const new) } == 0 {
                tracing::info!("Increased maximum number of open files to {} (it was {allowed}).", new.rlim_cur);
                limit.rlim_cur = new.rlim_cur;
                break;
            }
        }
    }
    u32::try_from(descriptors::of_clients(limit.rlim_cur)).unwrap_or(u32::MAX).min(clients)
}

/// A limit that the system sets to the process (`RLIMIT_...`), in the unit of that resource; `None`: there is none.
pub fn limit(which: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a valid value of ours, which the call fills.
    let read = unsafe { libc::getrlimit(which, &raw mut limit) } == 0;
    (read && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// The operating system, its release and the kind of machine, as `uname -srm` says.
pub fn system() -> String {
    // SAFETY: `utsname` is a plain C structure of character arrays, for which all zeroes are a value.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a valid value of ours, which the call fills.
    if unsafe { libc::uname(&raw mut name) } != 0 {
        return std::env::consts::OS.into();
    }
    let text = |field: &[libc::c_char]| -> String {
        field.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte as u8)).collect()
    };
    [text(&name.sysname), text(&name.release), text(&name.machine)].join(" ")
}

/// CPU time of the process in microseconds: user's and system's.
pub fn cpu() -> (u64, u64) {
    usage(libc::RUSAGE_SELF)
}

/// CPU time of the calling thread in microseconds: user's and system's.
pub fn thread_cpu() -> (u64, u64) {
    usage(libc::RUSAGE_THREAD)
}

fn usage(of: libc::c_int) -> (u64, u64) {
    // SAFETY: `rusage` is a plain C structure of numbers, for which all zeroes are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a valid value of ours, which the call fills.
    unsafe { libc::getrusage(of, &raw mut usage) };
    let micros = |time: libc::timeval| {
        u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(time.tv_usec).unwrap_or(0)
    };
    (micros(usage.ru_utime), micros(usage.ru_stime))
}

/// Physical memory of the machine in bytes.
pub fn memory() -> u64 {
    // SAFETY: asks for two numbers.
    let (pages, size) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    u64::try_from(pages).unwrap_or(0) * u64::try_from(size).unwrap_or(0)
}

/// True if the system backs memory by small pages only: a huge one is resident as a whole however little of it is used.
/// The process has begun with small ones (see `memory`), and stays with them where it cannot be changed.
pub fn disable_huge_pages(disable: bool) {
    // SAFETY: changes a property of the process, and takes no pointers.
    if unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, libc::c_ulong::from(disable), 0, 0, 0) } != 0 {
        let turned = if disable { "off" } else { "on" };
        tracing::warn!("Transparent huge pages cannot be turned {turned}: {}", io::Error::last_os_error());
    }
}

/// Has the system's library take address space for all threads together: else it has up to 128 MB for each of them.
pub fn share_arenas() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: sets a number.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// A file that holds the process id while the server runs.
#[derive(Debug)]
pub struct PidFile<'a>(Option<&'a Path>);

impl<'a> PidFile<'a> {
    /// Writes it. A failure is logged only, as in Redis: the server can do without.
    pub fn write(path: Option<&'a [u8]>) -> PidFile<'a> {
        let path = path.map(|path| Path::new(OsStr::from_bytes(path)));
        let written = path.map(|path| std::fs::write(path, format!("{}\n", std::process::id())));
        match written {
            Some(Err(error)) => {
                tracing::warn!("Failed to write PID file: {error}");
                PidFile(None)
            }
            _ => PidFile(path),
        }
    }
}

impl Drop for PidFile<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The name of the signal that a child has ended.
pub const CHILD: &str = "SIGCHLD";

/// The signals that end the server, held back so that [`Signals::wait`] receives them.
#[derive(Debug)]
pub struct Signals {
    set: libc::sigset_t,
}

impl Signals {
    /// Holds SIGINT and SIGTERM back in this thread and those it starts from now on: call it before any.
    /// SIGHUP is ignored, as in Redis.
    pub fn hold() -> Signals {
        let signals = Self::of(&[libc::SIGINT, libc::SIGTERM]);
        // SAFETY: the signal is ignored, so that no handler of ours runs.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
        signals
    }

    /// As [`Self::hold`], of something that ends with its terminal, and so at SIGHUP.
    pub fn hold_with_hangup() -> Signals {
        Self::of(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])
    }

    /// As [`Self::hold`], of a parent that also hears of the ends of its children.
    pub fn hold_with_children() -> Signals {
        let signals = Self::of(&[libc::SIGINT, libc::SIGTERM, libc::SIGCHLD]);
        // SAFETY: the signal is ignored, so that no handler of ours runs.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
        signals
    }

    fn of(signals: &[libc::c_int]) -> Signals {
        // SAFETY: `sigset_t` is a plain C structure, for which all zeroes are a value; the calls fill it and read it.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in signals {
                libc::sigaddset(&raw mut set, *signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            Signals { set }
        }
    }

    /// Waits for one of them; its name.
    pub fn wait(&self) -> &'static str {
        let mut signal = 0;
        // SAFETY: both point to valid values of ours for as long as the call takes.
        unsafe { libc::sigwait(&raw const self.set, &raw mut signal) };
        Self::name(signal)
    }

    /// Sends SIGTERM to this process, for a program that it starts in its place: that inherits what is held back.
    pub fn put_back(&self) {
        // SAFETY: it sends a signal that every thread holds back.
        unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
    }

    /// Waits for one of them for so long at most; its name.
    pub fn wait_for(&self, time: Duration) -> Option<&'static str> {
        let time = libc::timespec {
            tv_sec: time.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: time.subsec_nanos().into(),
        };
        // SAFETY: both point to valid values of ours, which are only read; nothing is to be said of the signal's
        // sender.
        let signal = unsafe { libc::sigtimedwait(&raw const self.set, std::ptr::null_mut(), &raw const time) };
        (signal > 0).then(|| Self::name(signal))
    }

    fn name(signal: libc::c_int) -> &'static str {
        match signal {
            libc::SIGINT => "SIGINT",
            libc::SIGHUP => "SIGHUP",
            libc::SIGCHLD => CHILD,
            _ => "SIGTERM",
        }
    }
}

/// The process that the command starts is sent SIGTERM when the thread ends that starts it, however that ends.
pub fn end_with_parent(command: &mut Command) {
    let parent = std::process::id();
    // SAFETY: between fork and exec nothing is called but system calls without pointers, and nothing is allocated.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) != 0 {
                return Err(io::Error::last_os_error());
            }
            // It may have ended before that.
            if u32::try_from(libc::getppid()) != Ok(parent) {
                libc::_exit(1);
            }
            Ok(())
        });
    }
}

/// Has `top` and `pgrep` show the process by its name: one that was started by the path `/proc/self/exe` is called `exe`.
pub fn show_name() {
    let name = std::env::args_os().next().map(PathBuf::from);
    if let Some(name) = name.as_deref().and_then(Path::file_name) {
        // A system without it shows what it shows.
        let _ = fs::write("/proc/self/comm", name.as_encoded_bytes());
    }
}

/// The end of a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// By itself, with this status.
    Exited(u8),
    /// By this signal.
    Killed(i32),
}

/// Waits for a child that has ended, whichever it is. None: all that there are run.
pub fn reap() -> Option<(libc::pid_t, End)> {
    let mut status = 0;
    // SAFETY: the pointer is to a value of ours, which the call fills.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    let end = match status {
        status if libc::WIFSIGNALED(status) => End::Killed(libc::WTERMSIG(status)),
        status => End::Exited(u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(1)),
    };
    (pid > 0).then_some((pid, end))
}

/// Signals a child that has not been waited for.
pub fn signal_child(pid: libc::pid_t, signal: libc::c_int) {
    // SAFETY: takes no pointers; until it has been waited for, the process is the one that has this id.
    unsafe { libc::kill(pid, signal) };
}

/// The process that the command starts gets these descriptors of ours, under their numbers.
pub fn hand_down(command: &mut Command, descriptors: Vec<RawFd>) {
    // SAFETY: between fork and exec nothing is called but system calls without pointers, and nothing is allocated.
    unsafe {
        command.pre_exec(move || {
            descriptors.iter().try_for_each(|fd| match libc::fcntl(*fd, libc::F_SETFD, 0) {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            })
        });
    }
}

/// A descriptor that the parent has opened for this process alone. Once for each.
pub fn taken_over(descriptor: RawFd) -> OwnedFd {
    // SAFETY: as the caller says; nothing else in this process knows the number.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// Reads and writes of it do not wait from now on.
///
/// # Errors
/// It is no open descriptor.
pub fn set_nonblocking(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: takes no pointers.
    match unsafe { libc::fcntl(descriptor, libc::F_SETFL, libc::O_NONBLOCK) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Asks a process of ours, which has not been waited for, to end.
pub fn terminate(child: &Child) {
    if let Ok(id) = libc::pid_t::try_from(child.id()) {
        // SAFETY: takes no pointers; until it has been waited for, the process is the one that has this id.
        unsafe { libc::kill(id, libc::SIGTERM) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_number_of_clients_always_fits() {
        assert_eq!(reserve_files(1), 1);
    }

    #[test]
    fn the_pid_file_goes_with_its_owner() {
        let path = std::env::temp_dir().join(format!("holdfast-pid-{}", std::process::id()));
        let name = path.as_os_str().as_bytes();
        let file = PidFile::write(Some(name));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        drop(file);
        assert!(!path.exists());
        drop(PidFile::write(Some(b"/no/such/directory/pid")));
        drop(PidFile::write(None));
    }
}
