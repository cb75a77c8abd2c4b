//! The globals of scripts: two sets, one for `EVAL` and one for functions, both read-only.
//!
//! Redis has read-only tables in its own Lua. Here they are proxies: empty tables whose metatables read from the real
//! ones and refuse to write. Lua's raw functions are guarded to see through them ([`crate::lua::guard`]).

use crate::lua::guard::{Guard, READ_ONLY};
use crate::lua::{Frame, Raised, State};
use crate::{api, bit, errors, json, msgpack, newproxy, pack, pattern};
use std::ffi::c_int;

/// Tables of a machine, in its registry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Globals {
    /// The error handler of every script.
    pub(crate) handler: c_int,
    /// The globals of `EVAL`, read-only.
    pub(crate) eval: c_int,
    /// The real tables behind them, with `KEYS` and `ARGV`.
    pub(crate) eval_real: c_int,
    /// The globals of functions, read-only.
    pub(crate) function: c_int,
    /// Their metatable, of which the `__index` is one of the next two.
    pub(crate) function_meta: c_int,
    /// The globals of functions.
    pub(crate) function_real: c_int,
    /// The globals of a library while it is loaded.
    pub(crate) load_real: c_int,
}

/// Lua's functions that scripts see unchanged.
const BASE: [&str; 10] =
    ["assert", "error", "gcinfo", "getmetatable", "ipairs", "rawequal", "select", "tonumber", "tostring", "type"];

/// Further ones, which Redis has removed: with them a script could reach what it should not see.
const DEPRECATED: [&str; 2] = ["getfenv", "setfenv"];

/// Functions of `table` that write.
const TABLE: [(&str, Guard); 4] =
    [("insert", Guard::Insert), ("remove", Guard::Remove), ("setn", Guard::Refuse), ("sort", Guard::Sort)];

/// Lua's globals while they are sorted, and what both sets have in common.
const LUA: c_int = 1;
const COMMON: c_int = 2;
/// The metatable of any proxy, as scripts see it.
const META: c_int = 3;

/// Builds both sets of globals. `deprecated`: with those that Redis has taken away.
pub(crate) fn build(state: &mut State, deprecated: bool) -> Globals {
    state.open_libraries();
    state.push_globals();
    let mut frame = state.frame();
    let f = &mut frame;
    f.push_table(0, 32);
    meta(f);
    base(f, deprecated);
    libraries(f);
    strings(f);
    arrays(f);
    errors::push_handler(f);
    let handler = f.keep();
    let eval = globals(f, api::Set::Eval);
    let function = globals(f, api::Set::Function);
    f.push_table(0, 1);
    api::push(f, api::Set::Load);
    refuse_unknown(f);
    proxy(f);
    f.push_copy(-1);
    f.set_field(-3, "server");
    f.set_field(-2, "redis");
    refuse_unknown(f);
    let load_real = f.keep();
    f.truncate(0);
    state.set_globals(eval.readonly);
    Globals {
        handler,
        eval: eval.readonly,
        eval_real: eval.real,
        function: function.readonly,
        function_meta: function.meta,
        function_real: function.real,
        load_real,
    }
}

/// References to one set of globals.
struct Set {
    readonly: c_int,
    real: c_int,
    meta: c_int,
}

/// One set of globals: the common ones, and an API.
fn globals(f: &mut Frame<'_>, api: api::Set) -> Set {
    let real = f.top() + 1;
    f.push_table(0, 64);
    f.push_nil();
    while f.next(COMMON) {
        f.push_copy(-2);
        f.insert(-2);
        f.set(real);
    }
    api::push(f, api);
    proxy(f);
    // The name that Valkey has for it.
    f.push_copy(-1);
    f.set_field(real, "server");
    f.set_field(real, "redis");
    refuse_unknown(f);
    f.push_copy(real);
    proxy_metatable(f);
    let meta = f.keep();
    f.push_copy(-1);
    f.set_field(real, "_G");
    let readonly = f.keep();
    Set { readonly, real: f.keep(), meta }
}

/// Replaces the table on top by a proxy for it.
fn proxy(f: &mut Frame<'_>) {
    proxy_metatable(f);
    f.pop(1);
}

/// Replaces the table on top by a proxy for it and that proxy's metatable.
fn proxy_metatable(f: &mut Frame<'_>) {
    let real = f.top();
    f.push_table(0, 0);
    f.push_table(2, 3);
    f.mark_proxy(real);
    f.push_copy(real);
    f.set_field(-2, "__index");
    f.push_native(refuse_write);
    f.set_field(-2, "__newindex");
    f.push_copy(META);
    f.set_field(-2, "__metatable");
    f.push_copy(-1);
    f.set_metatable(-3);
    f.remove(real);
}

/// Pushes what scripts get as a metatable: a proxy for an empty table, which is its own metatable to them.
fn meta(f: &mut Frame<'_>) {
    f.push_nil();
    f.push_table(0, 0);
    proxy_metatable(f);
    f.push_copy(-2);
    f.set_field(-2, "__metatable");
    f.pop(1);
    f.remove(META);
}

fn refuse_write(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    Err(f.raise(READ_ONLY))
}

/// Makes the table on top raise an error for missing names.
fn refuse_unknown(f: &mut Frame<'_>) {
    f.push_table(0, 1);
    f.push_native(unknown);
    f.set_field(-2, "__index");
    f.set_metatable(-2);
}

fn unknown(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    let Some(name) = f.arg(2) else {
        return Err(f.raise("Second argument to luaProtectedTableError must be a string or number"));
    };
    let name = String::from_utf8_lossy(name);
    Err(f.raise(format!("Script attempted to access nonexistent global variable '{name}'")))
}

/// Adds Lua's basic functions to the common globals.
fn base(f: &mut Frame<'_>, deprecated: bool) {
    let more = if deprecated { DEPRECATED.as_slice() } else { &[] };
    for name in BASE.iter().chain(more) {
        f.push_field(LUA, name);
        f.set_field(COMMON, name);
    }
    for (name, guard) in [
        ("next", Guard::Redirect),
        ("rawget", Guard::Redirect),
        ("rawset", Guard::Refuse),
        ("setmetatable", Guard::Refuse),
        ("unpack", Guard::Unpack),
    ] {
        f.push_field(LUA, name);
        f.push_guarded(guard);
        f.set_field(COMMON, name);
    }
    f.push_field(LUA, "next");
    f.push_field(COMMON, "next");
    f.push_pairs();
    f.set_field(COMMON, "pairs");
    f.push_pcall();
    f.set_field(COMMON, "pcall");
    f.push_xpcall();
    f.set_field(COMMON, "xpcall");
    f.push_load();
    f.set_field(COMMON, "load");
    f.push_load_string();
    f.set_field(COMMON, "loadstring");
    f.push_native(collect_garbage);
    f.set_field(COMMON, "collectgarbage");
    if deprecated {
        newproxy::push(f);
        f.set_field(COMMON, "newproxy");
    }
    f.push_field(LUA, "_VERSION");
    f.set_field(COMMON, "_VERSION");
}

/// Adds the libraries to the common globals.
fn libraries(f: &mut Frame<'_>) {
    f.push_field(LUA, "table");
    for (name, guard) in TABLE {
        f.push_field(-1, name);
        f.push_guarded(guard);
        f.set_field(-2, name);
    }
    library(f, "table");
    f.push_field(LUA, "string");
    f.push_field(-1, "rep");
    f.push_guarded(Guard::Repeat);
    f.set_field(-2, "rep");
    pattern::add(f);
    library(f, "string");
    f.push_field(LUA, "math");
    f.push_native(api::random);
    f.set_field(-2, "random");
    f.push_native(api::random_seed);
    f.set_field(-2, "randomseed");
    library(f, "math");
    f.push_table(0, 1);
    f.push_field(LUA, "os");
    f.push_field(-1, "clock");
    f.set_field(-3, "clock");
    f.pop(1);
    library(f, "os");
    f.push_field(LUA, "coroutine");
    library(f, "coroutine");
    json::push(f);
    library(f, "cjson");
    msgpack::push(f);
    library(f, "cmsgpack");
    bit::push(f);
    library(f, "bit");
    pack::push(f);
    library(f, "struct");
}

/// Adds the table on top to the common globals, read-only.
fn library(f: &mut Frame<'_>, name: &str) {
    proxy(f);
    f.set_field(COMMON, name);
}

/// The metatable of strings, as scripts see it: read-only, and only the read-only library in it.
fn strings(f: &mut Frame<'_>) {
    f.push_bytes("");
    if f.push_metatable(-1) {
        f.push_table(0, 1);
        f.push_field(COMMON, "string");
        f.set_field(-2, "__index");
        proxy(f);
        f.set_field(-2, "__metatable");
        f.pop(1);
    }
    f.pop(1);
}

/// The metatable of arrays that `cjson.decode` marks: scripts see a read-only one.
fn arrays(f: &mut Frame<'_>) {
    json::push_array_metatable(f);
    f.push_copy(-1);
    proxy(f);
    f.set_field(-2, "__metatable");
    let array = f.keep();
    f.shared().json_array.set(array);
}

/// `collectgarbage`: options that would change the collection of garbage do nothing.
fn collect_garbage(f: &mut Frame<'_>) -> Result<c_int, Raised> {
    let what = if f.is_nothing(1) { b"collect" } else { f.check_bytes(1)? };
    let mut result = 0.0;
    match what {
        b"count" => result = f.shared().used() as f64 / 1024.0,
        b"collect" | b"step" => {
            // Marking and sweeping are worth some instructions per object of some fifty bytes.
            let work = f.shared().used() / 16;
            f.collect();
            f.charge(work)?;
        }
        b"stop" | b"restart" | b"setpause" | b"setstepmul" => {}
        other => {
            let text = format!("invalid option '{}'", String::from_utf8_lossy(other));
            return Err(f.bad_argument(1, &text));
        }
    }
    f.push_number(result);
    Ok(1)
}
