//! Scripts and libraries of functions, with a host that is a map.

mod eval;
mod functions;
mod host;
mod libraries;
mod sandbox;
