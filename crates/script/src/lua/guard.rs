//! Lua's own functions behind guards, and functions that call back into Lua. Written like C (see the module above).
//!
//! Invariants: a *proxy* is an empty table whose metatable holds [`mark`] at 1 and the real table at 2. Scripts never
//! get hold of that metatable, of the mark, or of a real table.

use super::frame::shared;
use super::{Frame, hook};
use mlua_sys as ffi;
use std::ffi::{CStr, c_char, c_int, c_void};

/// The error of writing to what scripts may only read.
pub(crate) const READ_ONLY: &str = "Attempt to modify a readonly table";

static MARK: u8 = 0;

fn mark() -> *mut c_void {
    (&raw const MARK).cast_mut().cast()
}

/// How a guarded function treats a proxy as its first argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    /// It would write: refused.
    Refuse,
    /// It reads: the real table instead.
    Redirect,
    /// `table.sort`: refused, and interruptible.
    Sort,
    /// `string.rep`: bounded before it begins.
    Repeat,
    /// `table.insert`: refused; bounded and counted.
    Insert,
    /// `table.remove`: refused, and counted.
    Remove,
    /// `unpack`: bounded before it begins.
    Unpack,
}

impl Frame<'_> {
    /// Marks the table on top as the metatable of a proxy for the table at `real`.
    pub(crate) fn mark_proxy(&mut self, real: c_int) {
        // SAFETY: a table is on top.
        unsafe { ffi::lua_pushlightuserdata(self.raw(), mark()) };
        self.set_element(-2, 1);
        self.push_copy(real);
        self.set_element(-2, 2);
    }

    /// True if the value is a proxy.
    pub(crate) fn is_proxy(&self, at: c_int) -> bool {
        // SAFETY: the frame's state; leaves the stack as it was.
        unsafe {
            let proxy = push_real(self.raw(), at);
            if proxy {
                ffi::lua_settop(self.raw(), -2);
            }
            proxy
        }
    }

    /// Puts a guard around the C function on top.
    pub(crate) fn push_guarded(&mut self, guard: Guard) {
        // SAFETY: the function becomes the upvalue of each.
        unsafe {
            let function = match guard {
                Guard::Refuse => refuse,
                Guard::Redirect => redirect,
                Guard::Sort => sort,
                Guard::Repeat => repeat,
                Guard::Insert => insert,
                Guard::Remove => remove,
                Guard::Unpack => unpack,
            };
            ffi::lua_pushcclosure(self.raw(), function, 1);
        }
    }

    /// Pushes `pairs`, made of the two functions on top: Lua's `next` and the guarded one.
    pub(crate) fn push_pairs(&mut self) {
        // SAFETY: they become its upvalues.
        unsafe { ffi::lua_pushcclosure(self.raw(), pairs, 2) };
    }

    /// Pushes Redis's `pcall`, which gives the text of error tables.
    pub(crate) fn push_pcall(&mut self) {
        // SAFETY: there is room.
        unsafe { ffi::lua_pushcclosure(self.raw(), pcall, 0) };
    }

    /// Pushes `xpcall`.
    pub(crate) fn push_xpcall(&mut self) {
        // SAFETY: there is room.
        unsafe { ffi::lua_pushcclosure(self.raw(), xpcall, 0) };
    }

    /// Pushes `load`.
    pub(crate) fn push_load(&mut self) {
        // SAFETY: there is room.
        unsafe { ffi::lua_pushcclosure(self.raw(), load, 0) };
    }

    /// Pushes the function compiled from `code`, or pushes the error and gives false. Binary chunks are no code: Lua
    /// does not verify them.
    pub(crate) fn compile(&mut self, code: &[u8], name: &CStr) -> bool {
        if code.first() == Some(&ffi::LUA_SIGNATURE[0]) {
            self.push_bytes("binary chunks are not allowed");
            return false;
        }
        // SAFETY: the compiler runs protected.
        unsafe { ffi::luaL_loadbuffer(self.raw(), code.as_ptr().cast(), code.len(), name.as_ptr()) == 0 }
    }
}

/// Pushes the real table if the value is a proxy, else nothing.
///
/// # Safety
/// `lua` is a state of a [`super::State`] with room for three values.
unsafe fn push_real(lua: *mut ffi::lua_State, at: c_int) -> bool {
    // SAFETY: raw access only.
    unsafe {
        if ffi::lua_type(lua, at) != ffi::LUA_TTABLE || ffi::lua_getmetatable(lua, at) == 0 {
            return false;
        }
        ffi::lua_rawgeti_(lua, -1, 1);
        let marked = ffi::lua_touserdata(lua, -1) == mark();
        ffi::lua_settop(lua, -2);
        if marked {
            ffi::lua_rawgeti_(lua, -1, 2);
            ffi::lua_remove(lua, -2);
        } else {
            ffi::lua_settop(lua, -2);
        }
        marked
    }
}

/// # Safety
/// `lua` is Lua's; nothing with a destructor is alive in the caller.
unsafe fn raise(lua: *mut ffi::lua_State, text: &'static CStr) -> ! {
    // SAFETY: as promised.
    unsafe {
        ffi::luaL_where(lua, 1);
        ffi::lua_pushstring_(lua, text.as_ptr());
        ffi::lua_concat(lua, 2);
        ffi::lua_error(lua)
    }
}

/// Calls the guarded function with the same arguments.
///
/// # Safety
/// For a guard whose first upvalue is a C function without upvalues.
unsafe fn original(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: as promised. It runs in the guard's place: it sees the same arguments and the same caller.
    unsafe {
        match ffi::lua_tocfunction(lua, ffi::lua_upvalueindex(1)) {
            Some(function) => function(lua),
            None => 0,
        }
    }
}

/// # Safety
/// For Lua to call; so are all that follow.
unsafe extern "C-unwind" fn refuse(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua gives its state.
    unsafe {
        if push_real(lua, 1) {
            // As in Redis, where Lua itself refuses, a C function has no line to name.
            ffi::lua_pushstring_(lua, c"Attempt to modify a readonly table".as_ptr());
            ffi::lua_error(lua)
        }
        original(lua)
    }
}

/// # Safety
/// See above.
unsafe extern "C-unwind" fn redirect(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua gives its state.
    unsafe {
        if push_real(lua, 1) {
            ffi::lua_replace(lua, 1);
        }
        original(lua)
    }
}

/// Elements that Lua may sort by itself, without calling anything that can be interrupted.
const SORT_MAX: usize = 4096;

/// # Safety
/// See above.
unsafe extern "C-unwind" fn sort(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua gives its state.
    unsafe {
        let large = ffi::lua_type(lua, 1) == ffi::LUA_TTABLE && ffi::lua_objlen(lua, 1) > SORT_MAX;
        if large && ffi::lua_type(lua, 2) <= ffi::LUA_TNIL {
            ffi::lua_settop(lua, 1);
            ffi::lua_pushcclosure(lua, less_than, 0);
        }
        refuse(lua)
    }
}

/// # Safety
/// See above.
unsafe extern "C-unwind" fn less_than(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua gives its state, and `sort` two values.
    unsafe {
        let less = ffi::lua_lessthan(lua, 1, 2);
        pause(lua, 16);
        ffi::lua_pushboolean(lua, less);
        1
    }
}

/// Counts work in a guard, and lets the host read its clock when a slice is over.
///
/// # Safety
///
/// As [`raise`].
unsafe fn pause(lua: *mut ffi::lua_State, instructions: usize) {
    // SAFETY: as promised; the frame is gone when the error is raised.
    unsafe {
        let shared = shared(lua);
        if !shared.charged(instructions) {
            return;
        }
        shared.lift_memory();
        let outcome = Frame::of(lua).charge(0);
        shared.limit_memory();
        if outcome.is_err() {
            ffi::lua_error(lua);
        }
    }
}

/// # Safety
/// See above.
unsafe extern "C-unwind" fn repeat(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua gives its state.
    unsafe {
        let mut len = 0;
        ffi::luaL_checklstring(lua, 1, &mut len);
        let count = ffi::luaL_checkinteger(lua, 2);
        let total = len.saturating_mul(usize::try_from(count).unwrap_or(0));
        if total == 0 {
            ffi::lua_pushlstring_(lua, c"".as_ptr(), 0);
            return 1;
        }
        if total > shared(lua).limit() {
            raise(lua, c"resulting string too large");
        }
        // A call for each repetition of a short string.
        pause(lua, total / 64 + total / len);
        original(lua)
    }
}

/// How far before the end of a table `table.insert` may begin, beyond the table's length. Lua moves every place on the
/// way, also empty ones, and cannot be interrupted.
const MOVES_MAX: usize = 1 << 16;

/// # Safety
/// See above.
unsafe extern "C-unwind" fn insert(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua gives its state.
    unsafe {
        if ffi::lua_type(lua, 1) == ffi::LUA_TTABLE && ffi::lua_gettop(lua) == 3 {
            let len = ffi::lua_objlen(lua, 1);
            let moves = places(len as i64 + 1, ffi::luaL_checkinteger(lua, 2));
            if moves > len + MOVES_MAX {
                raise(lua, c"bad argument #2 to 'insert' (position out of bounds)");
            }
            pause(lua, moves / 8);
        }
        refuse(lua)
    }
}

/// # Safety
/// See above.
unsafe extern "C-unwind" fn remove(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua gives its state.
    unsafe {
        if ffi::lua_type(lua, 1) == ffi::LUA_TTABLE && ffi::lua_isnumber(lua, 2) != 0 {
            let len = ffi::lua_objlen(lua, 1);
            // Places that are not there are left alone.
            pause(lua, places(len as i64, ffi::lua_tointeger(lua, 2)).min(len) / 8);
        }
        refuse(lua)
    }
}

/// Places from `first` to `last`, of which Lua's functions see 32 bits.
fn places(last: i64, first: ffi::lua_Integer) -> usize {
    usize::try_from(last - i64::from(first as i32)).unwrap_or(0)
}

/// Values that one `unpack` may give: as many as Lua's stack takes (`LUAI_MAXCSTACK`).
const UNPACK_MAX: usize = 8000;

/// Lua's own bound is an overflow of `int`, which compilers take as proof that there is none (CVE-2025-46817).
///
/// # Safety
/// See above.
unsafe extern "C-unwind" fn unpack(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua gives its state.
    unsafe {
        ffi::luaL_checktype(lua, 1, ffi::LUA_TTABLE);
        let first = ffi::luaL_optinteger(lua, 2, 1);
        let last = ffi::luaL_optinteger(lua, 3, ffi::lua_objlen(lua, 1) as ffi::lua_Integer);
        if places(i64::from(last as i32), first) >= UNPACK_MAX {
            raise(lua, c"too many results to unpack");
        }
        original(lua)
    }
}

/// # Safety
/// See above.
unsafe extern "C-unwind" fn pairs(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua gives its state. The upvalues are `next` and the guarded `next`.
    unsafe {
        ffi::luaL_checktype(lua, 1, ffi::LUA_TTABLE);
        let next = if push_real(lua, 1) { 2 } else { 1 };
        ffi::lua_pushvalue(lua, ffi::lua_upvalueindex(next));
        ffi::lua_pushvalue(lua, 1);
        ffi::lua_pushnil(lua);
        3
    }
}

/// # Safety
/// See above.
unsafe extern "C-unwind" fn pcall(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua gives its state.
    unsafe {
        ffi::luaL_checkany(lua, 1);
        let failed = ffi::lua_pcall(lua, ffi::lua_gettop(lua) - 1, ffi::LUA_MULTRET, 0) != 0;
        if !failed {
            ffi::luaL_checkstack(lua, 1, c"too many results".as_ptr());
            ffi::lua_pushboolean(lua, 1);
            ffi::lua_insert(lua, 1);
            return ffi::lua_gettop(lua);
        }
        if shared(lua).stopping() {
            ffi::lua_error(lua);
        }
        if ffi::lua_type(lua, -1) == ffi::LUA_TTABLE {
            ffi::lua_pushstring_(lua, c"err".as_ptr());
            ffi::lua_rawget_(lua, -2);
            if ffi::lua_isstring(lua, -1) == 0 {
                ffi::lua_settop(lua, -2);
            }
        }
        ffi::lua_pushboolean(lua, 0);
        ffi::lua_insert(lua, -2);
        2
    }
}

/// # Safety
/// See above.
unsafe extern "C-unwind" fn xpcall(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua gives its state.
    unsafe {
        ffi::luaL_checkany(lua, 2);
        ffi::lua_settop(lua, 2);
        ffi::lua_pushcclosure(lua, handle, 1);
        ffi::lua_insert(lua, 1);
        let failed = ffi::lua_pcall(lua, 0, ffi::LUA_MULTRET, 1) != 0;
        if failed && shared(lua).stopping() {
            ffi::lua_error(lua);
        }
        ffi::lua_pushboolean(lua, c_int::from(!failed));
        ffi::lua_replace(lua, 1);
        ffi::lua_gettop(lua)
    }
}

/// The handler of `xpcall` around that of the script (its upvalue). It must not run when the script is to end: hooks
/// are off then, so it could not be interrupted.
///
/// # Safety
///
/// See above.
unsafe extern "C-unwind" fn handle(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua gives its state.
    unsafe {
        if !shared(lua).stopping() {
            ffi::lua_settop(lua, 1);
            ffi::lua_pushvalue(lua, ffi::lua_upvalueindex(1));
            ffi::lua_insert(lua, 1);
            ffi::lua_call(lua, 1, 1);
        }
        1
    }
}

/// The longest code that `load` and `loadstring` take: compiling cannot be interrupted.
pub(crate) const CODE_MAX: usize = 8 << 20;

/// # Safety
/// See above.
unsafe extern "C-unwind" fn load(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua gives its state. The buffer owns nothing; what it holds is on Lua's stack.
    unsafe {
        ffi::luaL_checktype(lua, 1, ffi::LUA_TFUNCTION);
        ffi::luaL_optlstring(lua, 2, c"=(load)".as_ptr(), std::ptr::null_mut());
        ffi::lua_settop(lua, 2);
        if ffi::lua_type(lua, 2) == ffi::LUA_TNIL {
            ffi::lua_pushstring_(lua, c"=(load)".as_ptr());
            ffi::lua_replace(lua, 2);
        }
        let mut total = 0;
        ffi::lua_pushstring_(lua, c"".as_ptr());
        loop {
            ffi::lua_pushvalue(lua, 1);
            ffi::lua_call(lua, 0, 1);
            match ffi::lua_type(lua, -1) {
                ffi::LUA_TNIL => break,
                ffi::LUA_TSTRING | ffi::LUA_TNUMBER => {}
                _ => raise(lua, c"reader function must return a string"),
            }
            let len = ffi::lua_objlen(lua, -1);
            total += len;
            if len == 0 {
                break;
            }
            if total > CODE_MAX {
                raise(lua, c"chunk too long");
            }
            // Joined at once, so that no stack is too deep: quadratic, but bounded.
            ffi::lua_concat(lua, 2);
            pause(lua, total / 64);
        }
        ffi::lua_settop(lua, 3);
        compile_string(lua, 3, 2)
    }
}

/// Compiles the string at `code` under the name at `name`: the function, or nil and an error.
///
/// # Safety
/// As [`raise`]; both are strings.
unsafe fn compile_string(lua: *mut ffi::lua_State, code: c_int, name: c_int) -> c_int {
    // SAFETY: as promised; both strings stay on the stack.
    unsafe {
        let mut len = 0;
        let start: *const c_char = ffi::lua_tolstring(lua, code, &mut len);
        let name = ffi::lua_tolstring(lua, name, std::ptr::null_mut());
        let bytes = std::slice::from_raw_parts(start.cast::<u8>(), len);
        if bytes.first() != Some(&ffi::LUA_SIGNATURE[0]) && len <= CODE_MAX {
            pause(lua, len / 4);
            if ffi::luaL_loadbuffer(lua, start, len, name) == 0 {
                return 1;
            }
        } else {
            ffi::lua_pushstring_(lua, c"binary or overlong chunks are not allowed".as_ptr());
        }
        ffi::lua_pushnil(lua);
        ffi::lua_insert(lua, -2);
        2
    }
}

/// `loadstring`.
///
/// # Safety
/// See above.
unsafe extern "C-unwind" fn load_string(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua gives its state.
    unsafe {
        let mut len = 0;
        let code = ffi::luaL_checklstring(lua, 1, &mut len);
        ffi::luaL_optlstring(lua, 2, code, std::ptr::null_mut());
        ffi::lua_settop(lua, 2);
        let name = if ffi::lua_type(lua, 2) == ffi::LUA_TNIL { 1 } else { 2 };
        compile_string(lua, 1, name)
    }
}

impl Frame<'_> {
    /// Pushes `loadstring`.
    pub(crate) fn push_load_string(&mut self) {
        // SAFETY: there is room.
        unsafe { ffi::lua_pushcclosure(self.raw(), load_string, 0) };
    }
}

/// Calls a function with the arguments on top, for a state that runs a script: see [`super::State`].
///
/// # Safety
/// On a fiber's stack. The handler is at `handler`.
pub(super) unsafe fn run(lua: *mut ffi::lua_State, arguments: c_int, handler: c_int) -> c_int {
    // SAFETY: as promised; Lua catches its errors.
    unsafe {
        let shared = shared(lua);
        hook::install(lua);
        shared.limit_memory();
        let status = ffi::lua_pcall(lua, arguments, 1, handler);
        shared.lift_memory();
        status
    }
}
