//! The report of a server that crashes: signal, registers, stack, INFO, the clients and their last commands.
//!
//! The handler runs in the thread that has crashed, which may hold any lock, the allocator's included. Invariants:
//! - The handler calls only functions that POSIX allows in a handler, and the system's `backtrace`. That was called
//!   once before, so that it needs no memory any more. It takes no lock, and no memory but a few hundred bytes of its
//!   stack.
//! - Its data are written before it is installed, and never change: descriptors, the path of the log.
//! - Memory that may not be there (the stack of the crashed thread) is read through a pipe, where the system looks
//!   first.
//! - INFO and the clients are another thread's, which waits for that from the start. If it cannot get a lock that the
//!   crashed thread has, the handler goes on without it.
//! - It runs on the stack of the crashed thread: the one that threads have for signals is too small for it. So a thread
//!   that has used up its stack ends the process without a report.
//! - Steps that may fail come last, and a crash in the handler ends the process as one without a handler would.

use std::ffi::{CString, c_int, c_void};
use std::io;
use std::os::fd::{IntoRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use node::{Crash, Node};

/// The signals of a crash.
const SIGNALS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];
/// Longest wait for INFO and the clients, in milliseconds.
const PATIENCE_MS: c_int = 2000;
/// Words of the stack that are shown.
const WORDS: usize = 32;
/// Frames of the backtrace.
const FRAMES: usize = 64;

/// The means of the handler, made before it is installed.
struct Means {
    /// Where the log goes; none for standard output.
    log: Option<CString>,
    /// Asks the other thread for its part, and hears that it is done.
    ask: RawFd,
    done: RawFd,
    /// A pipe to read memory through.
    probe: [RawFd; 2],
}

static MEANS: OnceLock<Means> = OnceLock::new();
/// The thread that reports, 0 for none.
static REPORTING: AtomicI32 = AtomicI32::new(0);
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Prepares reports, and has panics logged. Once per process, before there are workers.
///
/// # Errors
/// The system has no pipe or no thread.
pub fn prepare(node: &Arc<Node>, logfile: &[u8]) -> io::Result<()> {
    let (asked, ask) = io::pipe()?;
    let (done, say_done) = io::pipe()?;
    let (probe_out, probe_in) = io::pipe()?;
    let log = CString::new(logfile).ok().filter(|path| !path.is_empty());
    let (asked, say_done) = (asked.into_raw_fd(), say_done.into_raw_fd());
    let means = Means {
        log,
        ask: ask.into_raw_fd(),
        done: done.into_raw_fd(),
        probe: [probe_out.into_raw_fd(), probe_in.into_raw_fd()],
    };
    if MEANS.set(means).is_err() {
        return Ok(());
    }
    let reported = Arc::clone(node);
    std::thread::Builder::new().name("crash report".into()).spawn(move || tell(&reported, asked, say_done))?;
    std::panic::set_hook(Box::new(|info| {
        let trace = std::backtrace::Backtrace::force_capture();
        let thread = std::thread::current();
        tracing::error!("Thread '{}' {info}\n{trace}", thread.name().unwrap_or("without a name"));
        std::process::abort();
    }));
    node.on_crash(crash);
    Ok(())
}

/// Reports crashes from now on, or no more (`crash-log-enabled`).
pub fn follow(enabled: bool) {
    if MEANS.get().is_none() || INSTALLED.swap(enabled, SeqCst) == enabled {
        return;
    }
    for signal in SIGNALS {
        // SAFETY: `sigaction` is a plain C structure, for which all zeroes are a value: the default action.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        if enabled {
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            warm_up();
        }
        // SAFETY: the action is valid, and the handler keeps to what the top of this file says.
        unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    }
}

/// DEBUG SEGFAULT and its like.
fn crash(kind: Crash) {
    match kind {
        Crash::Segfault => {
            let page = 4096;
            // SAFETY: asks for a new page that nobody else has. Writing to it is what the system ends the process for.
            unsafe {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                let at = libc::mmap(std::ptr::null_mut(), page, libc::PROT_READ, flags, -1, 0);
                at.cast::<u8>().write_volatile(b'x');
            }
        }
        Crash::Panic => std::panic::panic_any("DEBUG PANIC was called"),
        Crash::Assertion => assert_eq!(1, 2, "DEBUG ASSERT was called"),
    }
}

/// Says what the node knows of itself whenever it is asked.
fn tell(node: &Node, asked: RawFd, done: RawFd) {
    let mut byte = [0u8];
    // SAFETY: the buffer has one byte, and both descriptors are open as long as the process lives.
    while unsafe { libc::read(asked, byte.as_mut_ptr().cast(), 1) } == 1 {
        let text = node.crash_report();
        let fd = open_log();
        write_all(fd, text.as_bytes());
        // SAFETY: as above.
        unsafe { libc::write(done, byte.as_ptr().cast(), 1) };
    }
}

/// The log, opened without memory or locks.
fn open_log() -> RawFd {
    match MEANS.get().and_then(|means| means.log.as_ref()) {
        // SAFETY: the path ends with a zero and is never changed.
        Some(path) => unsafe {
            let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
            libc::open(path.as_ptr(), flags, 0o644)
        },
        None => libc::STDOUT_FILENO,
    }
}

fn write_all(fd: RawFd, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY: the pointer and length are those of a slice.
        let written = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(written) {
            Ok(written) if written > 0 => bytes = bytes.get(written..).unwrap_or_default(),
            _ => return,
        }
    }
}

/// Text in a few bytes of the stack.
struct Line {
    bytes: [u8; 256],
    len: usize,
}

impl Line {
    fn new() -> Line {
        Line { bytes: [0; 256], len: 0 }
    }

    fn text(mut self, text: &str) -> Line {
        for byte in text.bytes() {
            if let Some(free) = self.bytes.get_mut(self.len) {
                *free = byte;
                self.len += 1;
            }
        }
        self
    }

    fn decimal(self, number: i64) -> Line {
        let line = if number < 0 { self.text("-") } else { self };
        line.digits(number.unsigned_abs(), 10, 1)
    }

    fn hex(self, number: u64) -> Line {
        self.digits(number, 16, 16)
    }

    fn digits(self, number: u64, base: u64, least: usize) -> Line {
        let mut digits = [b'0'; 20];
        let (mut rest, mut used) = (number, 0);
        for digit in digits.iter_mut().rev() {
            if rest == 0 && used >= least {
                break;
            }
            *digit = b"0123456789abcdef"[(rest % base) as usize];
            rest /= base;
            used += 1;
        }
        let shown = digits.get(digits.len() - used..).unwrap_or_default();
        self.text(std::str::from_utf8(shown).unwrap_or_default())
    }

    fn write(self, fd: RawFd) {
        let line = self.text("\n");
        write_all(fd, line.bytes.get(..line.len).unwrap_or_default());
    }
}

fn thread_id() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// The handler.
extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let me = thread_id();
    match REPORTING.compare_exchange(0, me, SeqCst, SeqCst) {
        Ok(_) => {
            if let Some(means) = MEANS.get() {
                // SAFETY: the system hands the handler valid pointers to both.
                let (info, context) = unsafe { (&*info, &*context.cast::<libc::ucontext_t>()) };
                report(means, signal, info, context);
            }
        }
        Err(other) if other != me => loop {
            // The process ends when the other thread has reported.
            // SAFETY: waits for a signal.
            unsafe { libc::pause() };
        },
        Err(_) => {}
    }
    // SAFETY: the default action ends the process once the handler has returned.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

fn report(means: &Means, signal: c_int, info: &libc::siginfo_t, context: &libc::ucontext_t) {
    let fd = open_log();
    Line::new().text("\n=== HOLDFAST BUG REPORT START: cut and paste from here ===").write(fd);
    let version = env!("CARGO_PKG_VERSION");
    let title = Line::new().text("Holdfast ").text(version).text(" crashed by signal: ").decimal(signal.into());
    title.text(", si_code: ").decimal(info.si_code.into()).write(fd);
    if info.si_code <= 0 {
        // SAFETY: a signal that a process has sent says which.
        let (pid, uid) = unsafe { (info.si_pid(), info.si_uid()) };
        Line::new().text("Sent by PID: ").decimal(pid.into()).text(", UID: ").decimal(uid.into()).write(fd);
    } else {
        // SAFETY: a signal that a fault has caused says where.
        let address = unsafe { info.si_addr() } as u64;
        Line::new().text("Accessed address: 0x").hex(address).write(fd);
    }
    let mut name = [0u8; 16];
    // SAFETY: the system writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let len = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    let name = name.get(..len).and_then(|name| std::str::from_utf8(name).ok()).unwrap_or("?");
    Line::new().text("Thread: ").decimal(thread_id().into()).text(" ").text(name).write(fd);

    Line::new().text("\n------ REGISTERS ------").write(fd);
    let stack = registers(fd, context);
    ask(means, fd);
    Line::new().text("\n------ STACK ------").write(fd);
    words(means, fd, stack);
    Line::new().text("\n------ STACK TRACE ------").write(fd);
    backtrace(fd);
    Line::new().text("------ STACK TRACE DONE ------").write(fd);
    Line::new().text("\n=== HOLDFAST BUG REPORT END. The addresses in brackets are for addr2line ===").write(fd);
}

/// Has the other thread say its part.
fn ask(means: &Means, fd: RawFd) {
    let mut poll = libc::pollfd { fd: means.done, events: libc::POLLIN, revents: 0 };
    // SAFETY: one byte of a static text; one structure of ours, which the call fills.
    let answered = unsafe {
        libc::write(means.ask, b"?".as_ptr().cast(), 1) == 1 && libc::poll(&raw mut poll, 1, PATIENCE_MS) == 1
    };
    if !answered {
        Line::new()
            .text("\nINFO and clients: not available, because the crashed thread may hold a lock that they need")
            .write(fd);
    }
}

/// Shows the registers; the stack's pointer.
#[cfg(target_arch = "x86_64")]
fn registers(fd: RawFd, context: &libc::ucontext_t) -> u64 {
    const NAMES: [(&str, c_int); 18] = [
        ("RIP", libc::REG_RIP),
        ("RSP", libc::REG_RSP),
        ("RBP", libc::REG_RBP),
        ("RAX", libc::REG_RAX),
        ("RBX", libc::REG_RBX),
        ("RCX", libc::REG_RCX),
        ("RDX", libc::REG_RDX),
        ("RDI", libc::REG_RDI),
        ("RSI", libc::REG_RSI),
        ("R8 ", libc::REG_R8),
        ("R9 ", libc::REG_R9),
        ("R10", libc::REG_R10),
        ("R11", libc::REG_R11),
        ("R12", libc::REG_R12),
        ("R13", libc::REG_R13),
        ("R14", libc::REG_R14),
        ("R15", libc::REG_R15),
        ("EFL", libc::REG_EFL),
    ];
    let value = |index: c_int| context.uc_mcontext.gregs.get(index as usize).copied().unwrap_or(0) as u64;
    for (name, index) in NAMES {
        Line::new().text(name).text(":").hex(value(index)).write(fd);
    }
    value(libc::REG_RSP)
}

/// Shows the registers; the stack's pointer.
#[cfg(target_arch = "aarch64")]
fn registers(fd: RawFd, context: &libc::ucontext_t) -> u64 {
    let machine = &context.uc_mcontext;
    Line::new().text("PC:").hex(machine.pc).write(fd);
    Line::new().text("SP:").hex(machine.sp).write(fd);
    for (number, value) in machine.regs.iter().enumerate() {
        Line::new().text("X").decimal(number as i64).text(":").hex(*value).write(fd);
    }
    machine.sp
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn registers(fd: RawFd, _: &libc::ucontext_t) -> u64 {
    Line::new().text("not known for this processor").write(fd);
    0
}

/// Shows the words at the top of the stack, as far as there are any.
fn words(means: &Means, fd: RawFd, stack: u64) {
    let [out, into] = means.probe;
    for at in (0..WORDS as u64).map(|word| stack.wrapping_add(word * 8)) {
        let mut word = [0u8; 8];
        // SAFETY: the system copies from an address that it looks at first, and says so where there is nothing; then
        // from the pipe into 8 bytes of ours.
        let copied = unsafe {
            libc::write(into, at as *const c_void, word.len()) == 8
                && libc::read(out, word.as_mut_ptr().cast(), word.len()) == 8
        };
        if !copied {
            return;
        }
        Line::new().text("(").hex(at).text(") -> ").hex(u64::from_ne_bytes(word)).write(fd);
    }
}

#[cfg(target_env = "gnu")]
fn frames(frames: &mut [*mut c_void; FRAMES]) -> c_int {
    // SAFETY: fills at most as many pointers as there are.
    unsafe { libc::backtrace(frames.as_mut_ptr(), FRAMES as c_int) }
}

/// The first call loads what later ones need.
fn warm_up() {
    #[cfg(target_env = "gnu")]
    frames(&mut [std::ptr::null_mut(); FRAMES]);
}

fn backtrace(fd: RawFd) {
    #[cfg(target_env = "gnu")]
    {
        let mut found = [std::ptr::null_mut(); FRAMES];
        let count = frames(&mut found);
        // SAFETY: writes so many lines without taking memory.
        unsafe { libc::backtrace_symbols_fd(found.as_ptr(), count, fd) };
    }
    #[cfg(not(target_env = "gnu"))]
    Line::new().text("not to be had with this C library").write(fd);
}
