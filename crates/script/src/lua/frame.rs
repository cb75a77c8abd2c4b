//! Natives: safe Rust functions that Lua calls, and their view of Lua's stack.
//!
//! Invariants: `lua` is alive as long as the frame. The slots up to `args` hold the arguments and are not removed or
//! replaced while the frame lives, so strings in them stay where they are. No method raises (see the module above);
//! each says how many slots it pushes. A caller that pushes more than 20 asks [`Frame::room`] first. Indices are within
//! the stack: from 1, or from -1 down.

use super::{Request, Resume, Shared};
use mlua_sys as ffi;
use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;

/// An error is on top of the stack.
#[derive(Debug)]
#[must_use]
pub(crate) struct Raised;

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    None,
    Nil,
    Boolean,
    LightUserdata,
    Number,
    String,
    Table,
    Function,
    Userdata,
    Thread,
}

impl Kind {
    /// Lua's name of it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "no value",
            Self::Nil => "nil",
            Self::Boolean => "boolean",
            Self::LightUserdata | Self::Userdata => "userdata",
            Self::Number => "number",
            Self::String => "string",
            Self::Table => "table",
            Self::Function => "function",
            Self::Thread => "thread",
        }
    }
}

/// Where a function was when it called.
pub(crate) struct Place<'a> {
    /// True if it is a C function.
    pub(crate) native: bool,
    /// The chunk's name, with `@` or `=` in front.
    pub(crate) source: &'a [u8],
    pub(crate) line: c_int,
}

/// The stack of a native. See the module.
pub(crate) struct Frame<'a> {
    lua: *mut ffi::lua_State,
    args: c_int,
    shared: &'a Shared,
    borrows: PhantomData<&'a ffi::lua_State>,
}

/// Calls the native `F` for Lua.
///
/// # Safety
/// For Lua to call. `F` is a function item or a closure without captures, so it has no size.
unsafe extern "C-unwind" fn enter<F>(lua: *mut ffi::lua_State) -> c_int
where
    F: Fn(&mut Frame<'_>) -> Result<c_int, Raised> + Copy,
{
    // SAFETY: Lua gives its state. Nothing with a destructor is alive when the error is raised.
    unsafe {
        let outcome = {
            let guard = NoUnwind;
            let mut frame = Frame::of(lua);
            frame.shared.lift_memory();
            // SAFETY: `F` has no size, so there is nothing to read.
            let native = std::mem::transmute_copy::<(), F>(&());
            let outcome = native(&mut frame);
            frame.shared.limit_memory();
            std::mem::forget(guard);
            outcome
        };
        match outcome {
            Ok(results) => results,
            Err(Raised) => ffi::lua_error(lua),
        }
    }
}

/// Ends the process if a panic passes: it must not unwind Lua's frames.
struct NoUnwind;

impl Drop for NoUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}

impl<'a> Frame<'a> {
    /// The frame of the function that Lua calls, or the bottom of the stack for the host.
    ///
    /// # Safety
    /// `lua` is a state of a [`super::State`], alive for `'a`, and used by nobody else meanwhile.
    pub(super) unsafe fn of(lua: *mut ffi::lua_State) -> Self {
        // SAFETY: the caller's promise; the allocator's data is the state's `Shared`.
        unsafe { Self { lua, args: ffi::lua_gettop(lua), shared: shared(lua), borrows: PhantomData } }
    }

    /// The bottom of the stack, for the host: there are no arguments.
    ///
    /// # Safety
    /// As [`Frame::of`]; no function is running.
    pub(super) unsafe fn bottom(lua: *mut ffi::lua_State) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self { args: 0, ..Self::of(lua) } }
    }

    pub(crate) fn shared(&self) -> &'a Shared {
        self.shared
    }

    /// Number of arguments.
    pub(crate) fn args(&self) -> c_int {
        self.args
    }

    /// Values on the stack.
    pub(crate) fn top(&self) -> c_int {
        // SAFETY: see the module; so for all that follow.
        unsafe { ffi::lua_gettop(self.lua) }
    }

    /// Puts all arguments, which are all that is on the stack, into a table that becomes the only one: they stay alive.
    pub(crate) fn pack_args(&mut self) {
        debug_assert!(self.top() == self.args, "nothing but arguments");
        self.push_table(self.args as usize, 0);
        for at in 1..=self.args {
            self.push_copy(at);
            self.set_element(-2, at);
        }
        // SAFETY: there are arguments, or the table is where they would be.
        unsafe {
            ffi::lua_insert(self.lua, 1);
            ffi::lua_settop(self.lua, 1);
        }
        self.args = 1;
    }

    /// Makes room for more values; false if the stack would be too deep.
    pub(crate) fn room(&mut self, more: c_int) -> bool {
        // SAFETY: does not raise but for want of memory.
        unsafe { ffi::lua_checkstack(self.lua, more) != 0 }
    }

    pub(crate) fn kind(&self, at: c_int) -> Kind {
        // SAFETY: any index within or above the stack is allowed.
        match unsafe { ffi::lua_type(self.lua, at) } {
            ffi::LUA_TNIL => Kind::Nil,
            ffi::LUA_TBOOLEAN => Kind::Boolean,
            ffi::LUA_TLIGHTUSERDATA => Kind::LightUserdata,
            ffi::LUA_TNUMBER => Kind::Number,
            ffi::LUA_TSTRING => Kind::String,
            ffi::LUA_TTABLE => Kind::Table,
            ffi::LUA_TFUNCTION => Kind::Function,
            ffi::LUA_TUSERDATA => Kind::Userdata,
            ffi::LUA_TTHREAD => Kind::Thread,
            _ => Kind::None,
        }
    }

    /// The type of an argument; an index above the arguments is none.
    fn arg_kind(&self, at: c_int) -> Kind {
        if at <= self.args { self.kind(at) } else { Kind::None }
    }

    /// True if an argument is nil or missing.
    pub(crate) fn is_nothing(&self, at: c_int) -> bool {
        matches!(self.arg_kind(at), Kind::None | Kind::Nil)
    }

    /// The truth of a value.
    pub(crate) fn truth(&self, at: c_int) -> bool {
        // SAFETY: as above.
        unsafe { ffi::lua_toboolean(self.lua, at) != 0 }
    }

    /// A number, or a string that reads as one.
    pub(crate) fn number(&self, at: c_int) -> Option<f64> {
        // SAFETY: as above; neither changes the value.
        unsafe { (ffi::lua_isnumber(self.lua, at) != 0).then(|| ffi::lua_tonumber(self.lua, at)) }
    }

    /// True if a light userdata is null: `cjson.null`.
    pub(crate) fn is_null(&self, at: c_int) -> bool {
        // SAFETY: as above.
        self.kind(at) == Kind::LightUserdata && unsafe { ffi::lua_touserdata(self.lua, at) }.is_null()
    }

    /// An address that tells tables, functions, userdata and threads apart.
    pub(crate) fn address(&self, at: c_int) -> *const c_void {
        // SAFETY: as above.
        unsafe { ffi::lua_topointer(self.lua, at) }
    }

    /// The bytes of a string (not of a number).
    pub(crate) fn bytes(&self, at: c_int) -> Option<&[u8]> {
        // SAFETY: it is a string, so nothing is converted. It cannot leave the stack while the frame is borrowed.
        (self.kind(at) == Kind::String).then(|| unsafe { self.text(at) })
    }

    /// The bytes of an argument that is a string or a number, which becomes a string as Lua prints it.
    pub(crate) fn arg(&mut self, at: c_int) -> Option<&'a [u8]> {
        let string = (1..=self.args).contains(&at) && matches!(self.kind(at), Kind::String | Kind::Number);
        // SAFETY: arguments stay on the stack as long as the frame lives.
        string.then(|| unsafe { self.text(at) })
    }

    /// # Safety
    /// The value is a string or a number, and the string stays on the stack for `'s`.
    unsafe fn text<'s>(&self, at: c_int) -> &'s [u8] {
        let mut len = 0;
        // SAFETY: the caller's promise; Lua's strings do not move.
        unsafe {
            let start = ffi::lua_tolstring(self.lua, at, &mut len);
            std::slice::from_raw_parts(start.cast(), len)
        }
    }

    pub(crate) fn push_nil(&mut self) {
        // SAFETY: there is room (see the module); so for all pushes.
        unsafe { ffi::lua_pushnil(self.lua) }
    }

    pub(crate) fn push_boolean(&mut self, value: bool) {
        // SAFETY: as above.
        unsafe { ffi::lua_pushboolean(self.lua, c_int::from(value)) }
    }

    pub(crate) fn push_number(&mut self, value: f64) {
        // SAFETY: as above.
        unsafe { ffi::lua_pushnumber(self.lua, value) }
    }

    pub(crate) fn push_bytes(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        // SAFETY: as above; Lua copies the bytes.
        unsafe { ffi::lua_pushlstring_(self.lua, bytes.as_ptr().cast(), bytes.len()) }
    }

    /// `cjson.null`.
    pub(crate) fn push_null(&mut self) {
        // SAFETY: as above.
        unsafe { ffi::lua_pushlightuserdata(self.lua, std::ptr::null_mut()) }
    }

    /// An empty table with room for so many elements and fields.
    pub(crate) fn push_table(&mut self, elements: usize, fields: usize) {
        let size = |n: usize| n.min(1 << 20) as c_int;
        // SAFETY: as above.
        unsafe { ffi::lua_createtable(self.lua, size(elements), size(fields)) }
    }

    /// An empty userdata without a metatable.
    pub(crate) fn push_userdata(&mut self) {
        // SAFETY: as above.
        unsafe {
            ffi::lua_newuserdata(self.lua, 0);
        }
    }

    /// A copy of a value.
    pub(crate) fn push_copy(&mut self, at: c_int) {
        // SAFETY: as above.
        unsafe { ffi::lua_pushvalue(self.lua, at) }
    }

    /// A native without captures.
    pub(crate) fn push_native<F>(&mut self, _native: F)
    where
        F: Fn(&mut Frame<'_>) -> Result<c_int, Raised> + Copy + 'static,
    {
        const { assert!(size_of::<F>() == 0, "a native captures nothing") };
        // SAFETY: as above; `enter` is made for this type.
        unsafe { ffi::lua_pushcclosure(self.lua, enter::<F>, 0) }
    }

    /// Removes values above the arguments.
    pub(crate) fn pop(&mut self, count: c_int) {
        debug_assert!(self.top() - count >= self.args, "arguments stay");
        // SAFETY: there are that many.
        unsafe { ffi::lua_settop(self.lua, -count - 1) }
    }

    /// Removes all but so many values.
    pub(crate) fn truncate(&mut self, top: c_int) {
        debug_assert!(top >= self.args && top <= self.top(), "arguments stay");
        // SAFETY: there are that many.
        unsafe { ffi::lua_settop(self.lua, top) }
    }

    /// Moves the value on top to `at`, above the arguments.
    pub(crate) fn insert(&mut self, at: c_int) {
        debug_assert!(at < 0 || at > self.args, "arguments stay");
        // SAFETY: within the stack.
        unsafe { ffi::lua_insert(self.lua, at) }
    }

    /// Removes the value at `at`, above the arguments.
    pub(crate) fn remove(&mut self, at: c_int) {
        debug_assert!(at > self.args, "arguments stay");
        // SAFETY: within the stack.
        unsafe { ffi::lua_remove(self.lua, at) }
    }

    /// Pushes `table[index]`.
    pub(crate) fn push_element(&mut self, table: c_int, index: c_int) -> Kind {
        debug_assert_eq!(self.kind(table), Kind::Table);
        // SAFETY: it is a table.
        unsafe { ffi::lua_rawgeti_(self.lua, table, index) };
        self.kind(-1)
    }

    /// Pushes `table[name]`. A negative index counts from before the push.
    pub(crate) fn push_field(&mut self, table: c_int, name: &str) -> Kind {
        self.push_bytes(name);
        let table = if table < 0 { table - 1 } else { table };
        debug_assert_eq!(self.kind(table), Kind::Table);
        // SAFETY: it is a table.
        unsafe { ffi::lua_rawget_(self.lua, table) };
        self.kind(-1)
    }

    /// The number of elements of a table, without asking its metatable.
    pub(crate) fn raw_length(&self, table: c_int) -> usize {
        debug_assert_eq!(self.kind(table), Kind::Table);
        // SAFETY: it is a table; this neither raises nor changes the stack.
        unsafe { ffi::lua_objlen(self.raw(), table) as usize }
    }

    /// Replaces the key on top with the next key and its value; false, with the key gone, behind the last. The table
    /// has not been written to since the key was given.
    pub(crate) fn next(&mut self, table: c_int) -> bool {
        debug_assert_eq!(self.kind(table), Kind::Table);
        // SAFETY: it is a table, and the key is one of its keys or nil, so it does not raise.
        unsafe { ffi::lua_next(self.lua, table) != 0 }
    }

    /// `table[key] = value` with both on top, which are removed. False if the key can be none: nil or not a number.
    pub(crate) fn set(&mut self, table: c_int) -> bool {
        let valid = match self.kind(-2) {
            Kind::Nil => false,
            Kind::Number => !self.number(-2).is_some_and(f64::is_nan),
            _ => true,
        };
        if valid {
            debug_assert_eq!(self.kind(table), Kind::Table);
            // SAFETY: it is a table, and the key valid, so it does not raise.
            unsafe { ffi::lua_rawset(self.lua, table) };
        } else {
            self.pop(2);
        }
        valid
    }

    /// `table[index] = value` with the value on top, which is removed. A negative index counts the value.
    pub(crate) fn set_element(&mut self, table: c_int, index: c_int) {
        debug_assert_eq!(self.kind(table), Kind::Table);
        // SAFETY: it is a table.
        unsafe { ffi::lua_rawseti_(self.lua, table, index) }
    }

    /// `table[name] = value` with the value on top, which is removed. A negative index counts the value.
    pub(crate) fn set_field(&mut self, table: c_int, name: &str) {
        self.push_bytes(name);
        // SAFETY: key and value on top, in the order that `set` wants.
        unsafe { ffi::lua_insert(self.lua, -2) };
        self.set(if table < 0 { table - 1 } else { table });
    }

    /// Makes the table on top the metatable of the value at `at`.
    pub(crate) fn set_metatable(&mut self, at: c_int) {
        // SAFETY: a table is on top.
        unsafe {
            ffi::lua_setmetatable(self.lua, at);
        }
    }

    /// Pushes the metatable of a value, or nothing.
    pub(crate) fn push_metatable(&mut self, at: c_int) -> bool {
        // SAFETY: any index within the stack is allowed.
        unsafe { ffi::lua_getmetatable(self.lua, at) != 0 }
    }

    /// Pushes a value of the registry.
    pub(crate) fn push_reference(&mut self, reference: c_int) {
        // SAFETY: the registry is a table.
        unsafe { ffi::lua_rawgeti_(self.lua, ffi::LUA_REGISTRYINDEX, reference) }
    }

    /// Keeps the value on top, which is removed, in the registry.
    pub(crate) fn keep(&mut self) -> c_int {
        // SAFETY: raw access only.
        unsafe { ffi::luaL_ref(self.lua, ffi::LUA_REGISTRYINDEX) }
    }

    /// Lets go of a value in the registry.
    pub(crate) fn let_go(&mut self, reference: c_int) {
        // SAFETY: raw access only.
        unsafe { ffi::luaL_unref(self.lua, ffi::LUA_REGISTRYINDEX, reference) }
    }

    /// Where the function `level` calls above the native is.
    pub(crate) fn place(&self, level: c_int) -> Option<Place<'_>> {
        // SAFETY: an all-zero record is what C would declare; Lua fills it if there is such a function.
        unsafe {
            let mut record: ffi::lua_Debug = std::mem::zeroed();
            if ffi::lua_getstack(self.lua, level, &mut record) == 0 {
                return None;
            }
            ffi::lua_getinfo(self.lua, c"Sl".as_ptr(), &mut record);
            Some(Place {
                native: CStr::from_ptr(record.what) == c"C",
                source: CStr::from_ptr(record.source).to_bytes(),
                line: record.currentline,
            })
        }
    }

    /// Raises a string, with the caller's place in front as Lua's own functions do.
    pub(crate) fn raise(&mut self, text: impl AsRef<[u8]>) -> Raised {
        // SAFETY: pushes strings and joins them.
        unsafe { ffi::luaL_where(self.lua, 1) };
        self.push_bytes(text);
        // SAFETY: as above.
        unsafe { ffi::lua_concat(self.lua, 2) };
        Raised
    }

    /// Raises `bad argument #1 to 'name' (text)`.
    pub(crate) fn bad_argument(&mut self, mut at: c_int, text: &str) -> Raised {
        // SAFETY: as in `place`.
        let (name, method) = unsafe {
            let mut record: ffi::lua_Debug = std::mem::zeroed();
            if ffi::lua_getstack(self.lua, 0, &mut record) == 0 {
                (None, false)
            } else {
                ffi::lua_getinfo(self.lua, c"n".as_ptr(), &mut record);
                let name = (!record.name.is_null()).then(|| CStr::from_ptr(record.name).to_bytes());
                (name, CStr::from_ptr(record.namewhat) == c"method")
            }
        };
        let name = String::from_utf8_lossy(name.unwrap_or(b"?")).into_owned();
        if method {
            at -= 1;
            if at == 0 {
                return self.raise(format!("calling '{name}' on bad self ({text})"));
            }
        }
        self.raise(format!("bad argument #{at} to '{name}' ({text})"))
    }

    /// Raises `bad argument #1 to 'name' (string expected, got nil)`.
    fn bad_type(&mut self, at: c_int, expected: &str) -> Raised {
        let text = format!("{expected} expected, got {}", self.arg_kind(at).name());
        self.bad_argument(at, &text)
    }

    /// The bytes of an argument, or an error.
    pub(crate) fn check_bytes(&mut self, at: c_int) -> Result<&'a [u8], Raised> {
        match self.arg(at) {
            Some(bytes) => Ok(bytes),
            None => Err(self.bad_type(at, "string")),
        }
    }

    /// The number that an argument is, or an error.
    pub(crate) fn check_number(&mut self, at: c_int) -> Result<f64, Raised> {
        match self.number(at) {
            Some(number) if at <= self.args => Ok(number),
            _ => Err(self.bad_type(at, "number")),
        }
    }

    /// The whole part of the number that an argument is, or an error.
    pub(crate) fn check_integer(&mut self, at: c_int) -> Result<i64, Raised> {
        Ok(self.check_number(at)? as i64)
    }

    /// Like [`Frame::check_integer`], with a default for nothing.
    pub(crate) fn optional_integer(&mut self, at: c_int, default: i64) -> Result<i64, Raised> {
        if self.is_nothing(at) { Ok(default) } else { self.check_integer(at) }
    }

    /// Suspends the script, unless it is to end: then the error that ends it is raised.
    pub(crate) fn ask(&mut self, request: Request) -> Result<Resume, Raised> {
        if !self.shared.stopping() {
            match self.shared.suspend(request) {
                Resume::Stop => self.shared.stop(super::hook::UNREACHABLE_HOST),
                answer => return Ok(answer),
            }
        }
        super::hook::push_stop(self);
        Err(Raised)
    }

    /// Asks for the reply to the command in [`Shared::call`] and has `then` read it, which must not suspend. `None`:
    /// the host has given another answer.
    pub(crate) fn call<R>(&mut self, then: impl FnOnce(&mut Self, &[u8]) -> R) -> Result<Option<R>, Raised> {
        let Resume::Reply(reply) = self.ask(Request::Call)? else { return Ok(None) };
        // SAFETY: the host keeps the bytes until the script suspends again (see `Resume::Reply`).
        let reply = unsafe { &*reply };
        Ok(Some(then(self, reply)))
    }

    /// Counts work worth so many instructions, and lets the host read its clock when a slice is over.
    pub(crate) fn charge(&mut self, instructions: usize) -> Result<(), Raised> {
        if self.shared.charged(instructions) { self.ask(Request::Slice).map(drop) } else { Ok(()) }
    }

    /// Collects all garbage.
    pub(crate) fn collect(&mut self) {
        // SAFETY: no finalizer runs Lua: scripts cannot make userdata with one.
        unsafe {
            ffi::lua_gc(self.lua, ffi::LUA_GCCOLLECT, 0);
        }
    }

    pub(super) fn raw(&self) -> *mut ffi::lua_State {
        self.lua
    }
}

/// The data of a state.
///
/// # Safety
/// `lua` is a state of a [`super::State`] or a coroutine of one, alive for `'a`.
pub(super) unsafe fn shared<'a>(lua: *mut ffi::lua_State) -> &'a Shared {
    let mut data = std::ptr::null_mut();
    // SAFETY: the state was made with its `Shared` as the allocator's data, which lives as long.
    unsafe {
        ffi::lua_getallocf(lua, &mut data);
        &*data.cast::<Shared>()
    }
}
