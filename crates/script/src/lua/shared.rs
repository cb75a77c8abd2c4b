//! The state that a machine's natives, its allocator and its host share. It lives at one address as long as the Lua
//! state does.

use super::fiber::Yielder;
use crate::json;
use crate::load::Loading;
use crate::random::Random;
use crate::{Checked, LogLevel};
use mlua_sys as ffi;
use resp::{Batch, Protocol};
use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The request of a script to the host when it suspends.
#[derive(Debug)]
pub(crate) enum Request {
    /// Execute the command in [`Shared::call`].
    Call,
    /// Say whether the command in [`Shared::call`] is allowed.
    Check,
    /// Write this to the log.
    Log(LogLevel, Vec<u8>),
    /// Look at the clock.
    Slice,
}

/// The host's answer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Resume {
    /// The reply to a call. The host keeps the bytes where they are until the script suspends again or ends.
    Reply(*const [u8]),
    /// The answer to a check.
    Checked(Checked),
    /// Go on.
    Continue,
    /// Come to an end: [`Shared::stop`] says why.
    Stop,
}

/// The bytes that an allocation may reach while natives run: there the memory limit is lifted.
pub(super) const UNLIMITED: usize = usize::MAX;

/// See the module.
pub(crate) struct Shared {
    /// Bytes held by Lua.
    pub(super) used: Cell<usize>,
    /// Bytes that Lua may hold now.
    pub(super) ceiling: Cell<usize>,
    /// The part of them that is in [`HELD`].
    reported: Cell<usize>,
    limit: usize,
    /// Bytes after the last collection that memory pressure caused.
    pub(super) collected: Cell<usize>,
    /// Where to suspend to; null while no script runs.
    pub(super) yielder: Cell<*const Yielder>,
    /// Instructions in a slice.
    pub(super) slice: u32,
    /// Work done in natives since the last slice, in instructions.
    pub(super) work: Cell<u32>,
    /// The main state, whose hook is called early for much work; null until it is there.
    pub(super) main: Cell<*mut ffi::lua_State>,
    /// The text of the error that ends the script.
    pub(super) stop: RefCell<Option<Box<str>>>,
    /// The command of a pending call.
    pub(crate) call: Cell<Batch>,
    /// The protocol that the script chose with `redis.setresp`.
    pub(crate) protocol: Cell<Protocol>,
    pub(crate) random: Cell<Random>,
    /// The library being loaded.
    pub(crate) loading: RefCell<Option<Loading>>,
    pub(crate) json: RefCell<json::Config>,
    /// The metatable of arrays that `cjson.decode` marks, in the registry.
    pub(crate) json_array: Cell<c_int>,
    /// A buffer for writing a string.
    pub(crate) scratch: Cell<Vec<u8>>,
}

/// Bytes that all machines of the process hold: they are no data, and data need not make room for them.
static HELD: AtomicUsize = AtomicUsize::new(0);
/// A machine that runs reports when it has changed by this much.
const REPORT: usize = 64 * 1024;

/// Bytes that all Lua machines of the process hold, but for 64 KB for each that is running.
pub fn memory() -> usize {
    HELD.load(Relaxed)
}

/// The bytes that [`Shared::give_back`] keeps allocated.
const SCRATCH_KEPT: usize = 64 * 1024;

impl Shared {
    pub(super) fn new(limit: usize, slice: u32) -> Self {
        Self {
            used: Cell::new(0),
            ceiling: Cell::new(UNLIMITED),
            reported: Cell::new(0),
            limit,
            collected: Cell::new(0),
            yielder: Cell::new(std::ptr::null()),
            slice: slice.clamp(1, i32::MAX as u32),
            work: Cell::new(0),
            main: Cell::new(std::ptr::null_mut()),
            stop: RefCell::new(None),
            call: Cell::new(Batch::new()),
            protocol: Cell::new(Protocol::Resp2),
            random: Cell::new(Random::seeded(0)),
            loading: RefCell::new(None),
            json_array: Cell::new(ffi::LUA_NOREF),
            json: RefCell::new(json::Config::default()),
            scratch: Cell::new(Vec::new()),
        }
    }

    /// Bytes held by Lua.
    pub(crate) fn used(&self) -> usize {
        self.used.get()
    }

    /// Notes what Lua holds now.
    #[inline]
    pub(super) fn set_used(&self, used: usize) {
        self.used.set(used);
        if used.abs_diff(self.reported.get()) >= REPORT {
            self.report();
        }
    }

    /// Counts what Lua holds in [`memory`].
    pub(crate) fn report(&self) {
        let used = self.used.get();
        // Wraps where it shrinks, to the right sum.
        HELD.fetch_add(used.wrapping_sub(self.reported.replace(used)), Relaxed);
    }

    /// Bytes that a script may make Lua hold.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn limit_memory(&self) {
        self.ceiling.set(self.limit);
    }

    pub(super) fn lift_memory(&self) {
        self.ceiling.set(UNLIMITED);
    }

    /// True if the script is to end.
    pub(crate) fn stopping(&self) -> bool {
        self.stop.borrow().is_some()
    }

    /// Makes the script end with this error.
    pub(crate) fn stop(&self, text: &str) {
        self.stop.borrow_mut().get_or_insert_with(|| text.into());
    }

    /// As before the first script: for the next one.
    pub(crate) fn reset(&self, seed: i32) {
        *self.stop.borrow_mut() = None;
        self.work.set(0);
        self.protocol.set(Protocol::Resp2);
        self.random.set(Random::seeded(seed));
        self.json.replace(json::Config::default());
    }

    /// The empty buffer.
    pub(crate) fn buffer(&self) -> Vec<u8> {
        self.scratch.take()
    }

    /// Takes the buffer back for the next.
    pub(crate) fn give_back(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        buffer.shrink_to(SCRATCH_KEPT);
        self.scratch.set(buffer);
    }
}
