//! The function that Lua calls every so many instructions: it ends slices and scripts.

use super::frame::shared;
use super::{Frame, Request, Resume, Shared};
use mlua_sys as ffi;

/// The error of a script that was stopped without a reason, because it had no host.
pub(super) const UNREACHABLE_HOST: &str = "not allowed here";

/// Starts counting instructions in a state, or a coroutine.
///
/// # Safety
/// `lua` is a state of a [`super::State`].
pub(super) unsafe fn install(lua: *mut ffi::lua_State) {
    // SAFETY: the caller's promise.
    unsafe {
        let slice = shared(lua).slice as i32;
        ffi::lua_sethook(lua, Some(hook), ffi::LUA_MASKCOUNT, slice);
    }
}

/// # Safety
/// For Lua to call.
unsafe extern "C-unwind" fn hook(lua: *mut ffi::lua_State, _: *mut ffi::lua_Debug) {
    // SAFETY: Lua gives its state. Nothing with a destructor is alive when the error is raised.
    unsafe {
        let shared = shared(lua);
        if !shared.stopping() {
            relieve(lua, shared);
            shared.report();
            if !matches!(shared.suspend(Request::Slice), Resume::Stop) {
                // A coroutine that outlived a script that was stopped still counts every instruction.
                if ffi::lua_gethookcount(lua) != shared.slice as i32 {
                    install(lua);
                }
                return;
            }
            shared.stop(UNREACHABLE_HOST);
        }
        // Every instruction from now on raises: no pcall can hold on to the script.
        ffi::lua_sethook(lua, Some(hook), ffi::LUA_MASKCOUNT, 1);
        shared.lift_memory();
        push_stop(&mut Frame::of(lua));
        shared.limit_memory();
        ffi::lua_error(lua);
    }
}

/// Counts work that Lua does within one instruction; when the slice is over the next instruction calls the hook. A
/// coroutine's instructions are counted as usual.
pub(super) fn worked(shared: &Shared, instructions: usize) {
    let lua = shared.main.get();
    if shared.charged(instructions) && !lua.is_null() && !shared.yielder.get().is_null() {
        // SAFETY: the main state lives as long as its allocator is called; setting a hook allocates nothing, and Lua's
        // interpreter looks at its count before every instruction.
        unsafe { ffi::lua_sethook(lua, Some(hook), ffi::LUA_MASKCOUNT, 1) };
    }
}

/// Collects garbage when little memory is left: Lua itself would let garbage grow to twice what is in use, and fail.
///
/// # Safety
/// `lua` is a state of a [`super::State`].
unsafe fn relieve(lua: *mut ffi::lua_State, shared: &Shared) {
    let (used, limit) = (shared.used(), shared.limit());
    if used > limit / 2 && used > shared.collected.get().saturating_add(limit / 8) {
        // SAFETY: the caller's promise.
        unsafe { ffi::lua_gc(lua, ffi::LUA_GCCOLLECT, 0) };
        shared.collected.set(shared.used());
    }
}

/// Pushes the error that ends the script: a table such as those of `redis.call`.
pub(super) fn push_stop(frame: &mut Frame<'_>) {
    let stop = frame.shared().stop.borrow();
    let text = stop.as_deref().unwrap_or_default();
    frame.push_table(0, 1);
    frame.push_bytes(format!("ERR {text}"));
    frame.set_field(-2, "err");
}

impl Shared {
    /// Counts work; true if the slice is over.
    pub(super) fn charged(&self, instructions: usize) -> bool {
        let work = self.work.get().saturating_add(u32::try_from(instructions).unwrap_or(u32::MAX));
        self.work.set(work);
        work >= self.slice
    }
}
