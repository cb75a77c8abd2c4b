//! `newproxy`: userdata of which a script may set the metatable.
//!
//! Lua runs a finalizer with its hooks off, so nothing could interrupt one: the metatable never holds `__gc`.
//! The script gets a proxy of the metatable, through which every field but that one is set.

use crate::lua::{Frame, Kind, Raised};
use std::ffi::c_int;

/// Pushes the function.
pub(crate) fn push(f: &mut Frame<'_>) {
    f.push_native(new_proxy);
}

fn new_proxy(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    let has_metatable = match f.kind(1) {
        // Above the arguments there is nothing yet, so a missing one reads as none.
        Kind::None | Kind::Nil => false,
        Kind::Boolean => f.truth(1),
        // Scripts have no userdata but what this function makes.
        Kind::Userdata if f.push_metatable(1) => {
            f.push_userdata();
            f.push_copy(-2);
            f.set_metatable(-2);
            return Ok(1);
        }
        _ => return Err(f.bad_argument(1, "boolean or proxy expected")),
    };
    if has_metatable {
        push_with_metatable(f);
    } else {
        f.push_userdata();
    }
    Ok(1)
}

/// Pushes a userdata with an empty metatable, and the script's view of that as its `__metatable`.
fn push_with_metatable(f: &mut Frame<'_>) {
    f.push_userdata();
    f.push_table(0, 1);
    f.push_table(0, 0);
    f.push_table(2, 3);
    f.mark_proxy(-3);
    f.push_copy(-3);
    f.set_field(-2, "__index");
    f.push_native(set_field);
    f.set_field(-2, "__newindex");
    f.push_boolean(false);
    f.set_field(-2, "__metatable");
    f.set_metatable(-2);
    f.set_field(-2, "__metatable");
    f.set_metatable(-2);
}

/// `metatable[key] = value` of a script: sets it in the real one, unless it is the finalizer.
fn set_field(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    if f.kind(2) == Kind::String && f.bytes(2) == Some(b"__gc") {
        return Ok(0);
    }
    if !f.push_metatable(1) {
        return Ok(0);
    }
    f.push_element(-1, 2);
    let real = f.top();
    f.push_copy(2);
    f.push_copy(3);
    if f.set(real) { Ok(0) } else { Err(f.raise("table index is nil or NaN")) }
}
