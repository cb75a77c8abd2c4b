//! The only place that speaks to Lua's C interface and switches stacks, and so the only one with `unsafe`.
//!
//! Lua raises errors with `longjmp`, which runs no destructors of the Rust frames it leaves. Hence two sorts of
//! functions that Lua calls:
//!
//! - *Natives* ([`frame`]) are safe Rust. They get a [`Frame`], none of whose methods raises. It has raw table access
//!   only and no calls into Lua, and lifts the memory limit, so that no allocation fails in them. An error is a value
//!   pushed and [`Raised`] returned; the wrapper around every native raises it when nothing with a destructor is left.
//! - *Guards* ([`guard`], [`hook`], [`strings`]) call what may raise (`lua_call`, Lua's own library functions). They
//!   are written like C: nothing in them owns memory while such a call is made.
//!
//! A script runs on a stack of its own ([`fiber`]), so both may suspend anywhere. The host must not reach anything that
//! they have borrowed meanwhile.

pub(crate) mod fiber;
pub(crate) mod frame;
pub(crate) mod guard;
pub(crate) mod hook;
mod shared;
mod state;
mod strings;

pub(crate) use frame::{Frame, Kind, Raised};
pub use shared::memory;
pub(crate) use shared::{Request, Resume, Shared};
pub(crate) use state::State;
