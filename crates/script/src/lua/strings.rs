//! `string.gsub` and `string.gmatch`: the one calls back, the other keeps state in upvalues. Written like C (see the
//! module above).

use super::frame::{Frame, Raised, shared};
use crate::pattern::{Captures, Matcher, anchored, until_null};
use mlua_sys as ffi;
use std::ffi::c_int;
use std::mem::MaybeUninit;

impl Frame<'_> {
    /// Pushes `string.gsub`.
    pub(crate) fn push_gsub(&mut self) {
        // SAFETY: there is room.
        unsafe { ffi::lua_pushcclosure(self.raw(), gsub, 0) };
    }

    /// Pushes `string.gmatch`.
    pub(crate) fn push_gmatch(&mut self) {
        // SAFETY: there is room.
        unsafe { ffi::lua_pushcclosure(self.raw(), gmatch, 0) };
    }
}

/// The bytes of a string.
///
/// # Safety
/// The value is a string, which stays where it is for `'s`.
unsafe fn bytes<'s>(lua: *mut ffi::lua_State, at: c_int) -> &'s [u8] {
    let mut len = 0;
    // SAFETY: the caller's promise.
    unsafe {
        let start = ffi::lua_tolstring(lua, at, &mut len);
        std::slice::from_raw_parts(start.cast(), len)
    }
}

/// Runs a native within a guard: raises the native's error.
///
/// # Safety
///
/// `lua` is Lua's; nothing with a destructor is alive in the caller, nor in the result of `native`.
unsafe fn native<R: Copy>(lua: *mut ffi::lua_State, native: impl FnOnce(&mut Frame<'_>) -> Result<R, Raised>) -> R {
    // SAFETY: as promised.
    unsafe {
        let shared = shared(lua);
        shared.lift_memory();
        let outcome = native(&mut Frame::of(lua));
        shared.limit_memory();
        match outcome {
            Ok(result) => result,
            Err(Raised) => ffi::lua_error(lua),
        }
    }
}

/// # Safety
/// For Lua to call.
unsafe extern "C-unwind" fn gmatch(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua gives its state.
    unsafe {
        ffi::luaL_checklstring(lua, 1, std::ptr::null_mut());
        ffi::luaL_checklstring(lua, 2, std::ptr::null_mut());
        ffi::lua_settop(lua, 2);
        ffi::lua_pushnumber(lua, 0.0);
        ffi::lua_pushcclosure(lua, next_match, 3);
        1
    }
}

/// # Safety
/// For Lua to call, with subject, pattern and position as upvalues.
unsafe extern "C-unwind" fn next_match(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua gives its state; upvalues stay as long as the function runs.
    unsafe {
        let subject = bytes(lua, ffi::lua_upvalueindex(1));
        let pattern = until_null(bytes(lua, ffi::lua_upvalueindex(2)));
        let from = ffi::lua_tonumber(lua, ffi::lua_upvalueindex(3)) as usize;
        let mut matcher = Matcher::new(subject, pattern);
        for start in from..=subject.len() {
            let Some(end) = native(lua, |f| matcher.run(f, start)) else { continue };
            // After an empty match at least one byte on.
            ffi::lua_pushnumber(lua, (if end == start { end + 1 } else { end }) as f64);
            ffi::lua_replace(lua, ffi::lua_upvalueindex(3));
            return native(lua, |f| matcher.captures().push(f, subject, Some((start, end))));
        }
        0
    }
}

/// # Safety
/// For Lua to call.
unsafe extern "C-unwind" fn gsub(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua gives its state. The arguments stay on the stack; the buffer keeps what it holds there, above them,
    // so nothing else is left there when it is added to.
    unsafe {
        ffi::luaL_checklstring(lua, 1, std::ptr::null_mut());
        ffi::luaL_checklstring(lua, 2, std::ptr::null_mut());
        let subject = bytes(lua, 1);
        let (pattern, anchor) = anchored(until_null(bytes(lua, 2)));
        let kind = ffi::lua_type(lua, 3);
        let max = ffi::luaL_optinteger(lua, 4, ffi::lua_Integer::MAX);
        if !matches!(kind, ffi::LUA_TNUMBER | ffi::LUA_TSTRING | ffi::LUA_TFUNCTION | ffi::LUA_TTABLE) {
            ffi::luaL_argerror(lua, 3, c"string/function/table expected".as_ptr());
        }
        if kind == ffi::LUA_TNUMBER {
            ffi::lua_tolstring(lua, 3, std::ptr::null_mut());
        }
        let mut matcher = Matcher::new(subject, pattern);
        let mut buffer = MaybeUninit::<ffi::luaL_Buffer>::uninit();
        let buffer = buffer.as_mut_ptr();
        ffi::luaL_buffinit(lua, buffer);
        let (mut at, mut count) = (0, 0);
        while count < max {
            let end = native(lua, |f| matcher.run(f, at));
            if let Some(end) = end {
                count += 1;
                replace(lua, buffer, subject, matcher.captures(), (at, end));
            }
            match end {
                Some(end) if end > at => at = end,
                _ if at < subject.len() => {
                    add(buffer, &subject[at..=at]);
                    at += 1;
                }
                _ => break,
            }
            if anchor {
                break;
            }
        }
        add(buffer, subject.get(at..).unwrap_or_default());
        ffi::luaL_pushresult(buffer);
        ffi::lua_pushnumber(lua, count as f64);
        2
    }
}

/// # Safety
/// The buffer is one in use.
unsafe fn add(buffer: *mut ffi::luaL_Buffer, bytes: &[u8]) {
    // SAFETY: as promised; Lua copies the bytes.
    unsafe { ffi::luaL_addlstring(buffer, bytes.as_ptr().cast(), bytes.len()) };
}

/// Adds what replaces the match `whole`, according to the third argument.
///
/// # Safety
/// For [`gsub`].
unsafe fn replace(
    lua: *mut ffi::lua_State,
    buffer: *mut ffi::luaL_Buffer,
    subject: &[u8],
    captures: &Captures,
    whole: (usize, usize),
) {
    // SAFETY: as promised.
    unsafe {
        match ffi::lua_type(lua, 3) {
            ffi::LUA_TFUNCTION => {
                ffi::lua_pushvalue(lua, 3);
                let count = native(lua, |f| captures.push(f, subject, Some(whole)));
                ffi::lua_call(lua, count, 1);
            }
            ffi::LUA_TTABLE => {
                native(lua, |f| captures.push_one(f, subject, 0, whole));
                ffi::lua_gettable_(lua, 3);
            }
            _ => return expand(lua, buffer, subject, captures, whole),
        }
        if ffi::lua_toboolean(lua, -1) == 0 {
            ffi::lua_settop(lua, -2);
            let text = &subject[whole.0..whole.1];
            ffi::lua_pushlstring_(lua, text.as_ptr().cast(), text.len());
        } else if ffi::lua_isstring(lua, -1) == 0 {
            let name = ffi::lua_typename(lua, ffi::lua_type(lua, -1));
            ffi::luaL_error(lua, c"invalid replacement value (a %s)".as_ptr(), name);
        }
        ffi::luaL_addvalue(buffer);
    }
}

/// Adds the replacement string, with captures for `%1`.
///
/// # Safety
/// For [`gsub`].
unsafe fn expand(
    lua: *mut ffi::lua_State,
    buffer: *mut ffi::luaL_Buffer,
    subject: &[u8],
    captures: &Captures,
    whole: (usize, usize),
) {
    // SAFETY: as promised; the third argument is a string.
    unsafe {
        let mut text = bytes(lua, 3);
        while let Some(escape) = text.iter().position(|byte| *byte == b'%') {
            add(buffer, &text[..escape]);
            let byte = text.get(escape + 1).copied().unwrap_or(0);
            match byte {
                b'0' => add(buffer, &subject[whole.0..whole.1]),
                b'1'..=b'9' => {
                    native(lua, |f| captures.push_one(f, subject, usize::from(byte - b'1'), whole));
                    ffi::luaL_addvalue(buffer);
                }
                byte => add(buffer, &[byte]),
            }
            text = text.get(escape + 2..).unwrap_or_default();
        }
        add(buffer, text);
    }
}
