//! A Lua state with its own data.
//!
//! Invariants: `lua` is the main state, closed when this is dropped; `shared` is its allocator's data and lives as
//! long, at one address. While a fiber runs in the state its owner does nothing else with it.

use super::fiber::{Fiber, Stack};
use super::shared::UNLIMITED;
use super::{Frame, Shared, guard, hook};
use mlua_sys as ffi;
use std::alloc::{Layout, alloc, dealloc, realloc};
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

/// A Lua state. See the module.
pub(crate) struct State {
    lua: NonNull<ffi::lua_State>,
    shared: Box<Shared>,
}

/// Alignment of all that Lua allocates.
const ALIGN: usize = 8;

/// A block so large that filling it (`..`, `string.upper`, `table.concat`) takes longer than an instruction.
const LARGE: usize = 16 << 10;
/// Bytes of it that are worth an instruction.
const LARGE_PER_INSTRUCTION: usize = 64;

/// True if the system has memory for a block of `new` bytes. Small ones are asked for by the megabyte.
#[inline]
fn has_room(new: usize, used: usize, wanted: usize) -> bool {
    const STEP: usize = 20;
    headroom::fits(new) && (used >> STEP == wanted >> STEP || headroom::has_room(1 << STEP, 0))
}

/// Lua's allocator: counts bytes and refuses those above the ceiling.
///
/// # Safety
/// For Lua to call, with a [`Shared`] as `data`.
unsafe extern "C" fn allocate(data: *mut c_void, block: *mut c_void, old: usize, new: usize) -> *mut c_void {
    // SAFETY: Lua gives a block of this allocator and its size; sizes are below `isize::MAX`, because they are counted
    // and bounded or refused here.
    unsafe {
        let shared = &*data.cast::<Shared>();
        let old = if block.is_null() { 0 } else { old };
        let used = shared.used.get().wrapping_sub(old);
        if new == 0 {
            if !block.is_null() {
                dealloc(block.cast(), Layout::from_size_align_unchecked(old, ALIGN));
            }
            shared.set_used(used);
            return std::ptr::null_mut();
        }
        let wanted = used.saturating_add(new);
        if new > old && (wanted > shared.ceiling.get() || new > isize::MAX as usize - ALIGN) {
            return std::ptr::null_mut();
        }
        // An allocation that may not be refused takes the process's reserve.
        if new > old && shared.ceiling.get() != UNLIMITED && !has_room(new, used, wanted) {
            return std::ptr::null_mut();
        }
        if new >= LARGE {
            hook::worked(shared, new / LARGE_PER_INSTRUCTION);
        }
        if new > old {
            // Before it happens: the counter of all memory must not see more than this while the block is moved.
            shared.set_used(wanted);
        }
        let grown = if block.is_null() {
            alloc(Layout::from_size_align_unchecked(new, ALIGN))
        } else {
            realloc(block.cast(), Layout::from_size_align_unchecked(old, ALIGN), new)
        };
        if grown.is_null() {
            shared.set_used(used + old);
        } else {
            shared.set_used(wanted);
        }
        grown.cast()
    }
}

impl State {
    /// An empty state; `None` if there is no memory.
    pub(crate) fn new(limit: usize, slice: u32) -> Option<Self> {
        let shared = Box::new(Shared::new(limit, slice));
        // SAFETY: the box stays at its address and is dropped after the state is closed.
        let lua = unsafe { ffi::lua_newstate(allocate, (&raw const *shared).cast_mut().cast()) };
        shared.main.set(lua);
        NonNull::new(lua).map(|lua| Self { lua, shared })
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The bottom of the stack, for the host.
    pub(crate) fn frame(&mut self) -> Frame<'_> {
        // SAFETY: borrowed mutably, so nobody else uses the state.
        unsafe { Frame::bottom(self.lua.as_ptr()) }
    }

    /// Loads Lua's own libraries into the globals: base with coroutines, table, string, math, os.
    pub(crate) fn open_libraries(&mut self) {
        let lua = self.lua.as_ptr();
        let libraries: [(ffi::lua_CFunction, _); 5] = [
            (ffi::luaopen_base, c""),
            (ffi::luaopen_table, c"table"),
            (ffi::luaopen_string, c"string"),
            (ffi::luaopen_math, c"math"),
            (ffi::luaopen_os, c"os"),
        ];
        for (open, name) in libraries {
            // SAFETY: opening a library raises only for want of memory, which ends the process here as elsewhere.
            unsafe {
                ffi::lua_pushcclosure(lua, open, 0);
                ffi::lua_pushstring_(lua, name.as_ptr());
                ffi::lua_call(lua, 1, 0);
            }
        }
    }

    /// Pushes the table of globals.
    pub(crate) fn push_globals(&mut self) {
        // SAFETY: the frame is at the bottom, with room.
        unsafe { ffi::lua_pushvalue(self.lua.as_ptr(), ffi::LUA_GLOBALSINDEX) };
    }

    /// Makes the table of the registry the globals of later compilations.
    pub(crate) fn set_globals(&mut self, reference: c_int) {
        self.frame().push_reference(reference);
        // SAFETY: a table is on top.
        unsafe { ffi::lua_replace(self.lua.as_ptr(), ffi::LUA_GLOBALSINDEX) };
    }

    /// Makes the table of the registry the globals of the Lua function on top.
    pub(crate) fn set_environment(&mut self, reference: c_int) {
        self.frame().push_reference(reference);
        // SAFETY: a function and a table are on top.
        unsafe {
            ffi::lua_setfenv(self.lua.as_ptr(), -2);
        }
    }

    /// A fiber that calls the function below so many arguments on top, with the error handler at `handler`; gives Lua's
    /// status, and leaves one value. It is to be dropped before the state, and the state left alone until it returns.
    pub(crate) fn fiber(&mut self, stack: Stack, arguments: c_int, handler: c_int) -> Fiber {
        let lua = self.lua.as_ptr();
        // SAFETY: the owner keeps the state, and so its `Shared`, until the fiber is gone.
        unsafe { Fiber::new(stack, &raw const *self.shared, move || guard::run(lua, arguments, handler)) }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: nothing runs in it any more, and no finalizer calls anything.
        unsafe { ffi::lua_close(self.lua.as_ptr()) };
        self.shared.report();
    }
}
