//! The store as its users see it: its operations, a model of it, and damage to its files.

mod basic;
mod conforms;
mod damage;
#[path = "../support/mod.rs"]
mod support;
