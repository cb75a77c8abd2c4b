//! `cmsgpack`: MessagePack as lua-cmsgpack 0.4 reads and writes it.

mod pack;
mod unpack;

use crate::lua::Frame;

/// Pushes the table `cmsgpack`.
pub(crate) fn push(f: &mut Frame<'_>) {
    f.push_table(0, 8);
    f.push_native(pack::pack);
    f.set_field(-2, "pack");
    f.push_native(unpack::unpack);
    f.set_field(-2, "unpack");
    f.push_native(unpack::unpack_one);
    f.set_field(-2, "unpack_one");
    f.push_native(unpack::unpack_limit);
    f.set_field(-2, "unpack_limit");
    for (name, text) in [
        ("_NAME", "cmsgpack"),
        ("_VERSION", "lua-cmsgpack 0.4.0"),
        ("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo"),
        ("_DESCRIPTION", "MessagePack C implementation for Lua"),
    ] {
        f.push_bytes(text);
        f.set_field(-2, name);
    }
}
