//! Replies of commands as Lua values, and Lua values as the reply of a script.

mod from_lua;
mod into_lua;

pub(crate) use from_lua::write;
pub(crate) use into_lua::{Pushed, into_lua};
